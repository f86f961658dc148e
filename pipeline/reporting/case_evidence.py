# SPDX-License-Identifier: Apache-2.0
"""What the stages wrote of a case, for the pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.case.stages import BEFORE_REPORT
from pipeline.files.json_file import read_json
from pipeline.files.mesh import read_openings, read_quality
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


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """Provenance of the stages that left one in a folder, in the order in which they ran."""
    paths = {stage: folder / f"{stage}.provenance.json" for stage in BEFORE_REPORT}
    return {stage: read_json(path) for stage, path in paths.items() if path.is_file()}


def read_evidence(folder: Path) -> Evidence:
    """What the stages wrote into the folder of a case."""

    def found(name: str) -> dict[str, Any] | None:
        path = folder / f"{name}.json"
        return read_json(path) if path.is_file() else None

    openings = folder / "openings.json"
    return Evidence(
        indices=read_json(folder / "indices.json"),
        summary=read_json(folder / "solve.json"),
        openings=read_openings(openings),
        geometry=read_quality(openings),
        image=found("series"),
        segmentation=found("segmentation"),
        tree=found("centreline"),
        particles=found("particles"),
        grid=found("grid_convergence"),
        bands=found("uncertainty"),
        records=read_records(folder),
    )
