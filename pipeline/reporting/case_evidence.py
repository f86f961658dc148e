# SPDX-License-Identifier: Apache-2.0
"""What the stages wrote of a case, for the pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from solver.domain.nodes import Opening


@dataclass(frozen=True)
class Evidence:
    """What the stages wrote.

    Attributes
    ----------
    indices, summary : ``indices.json``, ``solve.json``.
    openings : of the vessel.
    geometry : how the surface was made, from ``openings.json``.
    image, segmentation : ``series.json``, ``segmentation.json``; none where the case enters with a mask or a surface.
    tree : ``centreline.json``; none where the vessel has no centreline.
    particles, grid, bands : ``particles.json``, ``grid_convergence.json``, ``uncertainty.json``; none where not made.
    records : provenance by stage.
    """

    indices: Mapping[str, Any]
    summary: Mapping[str, Any]
    openings: tuple[Opening, ...]
    geometry: Mapping[str, Any]
    image: Mapping[str, Any] | None
    segmentation: Mapping[str, Any] | None
    tree: Mapping[str, Any] | None
    particles: Mapping[str, Any] | None
    grid: Mapping[str, Any] | None
    bands: Mapping[str, Any] | None
    records: Mapping[str, Mapping[str, Any]]
