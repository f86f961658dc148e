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
    particles, carried, grid, bands, reduced : ``particles.json``, ``transport.json``, ``grid_convergence.json``,
        ``uncertainty.json``, ``reduced.json``; none where not made.
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
    carried: Mapping[str, Any] | None
    grid: Mapping[str, Any] | None
    bands: Mapping[str, Any] | None
    reduced: Mapping[str, Any] | None
    records: Mapping[str, Mapping[str, Any]]


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """Provenance of the stages that left one in a folder, in the order in which they ran."""
    paths = {stage: folder / f"{stage}.provenance.json" for stage in BEFORE_REPORT}
    return {stage: read_json(path) for stage, path in paths.items() if path.is_file()}


FILES = {
    "indices": "indices.json",
    "summary": "solve.json",
    "openings": "openings.json",
    "series": "series.json",
    "segmentation": "segmentation.json",
    "branches": "centreline.json",
    "particles": "particles.json",
    "carried": "transport.json",
    "grid": "grid_convergence.json",
    "bands": "uncertainty.json",
    "reduced": "reduced.json",
}
"""In the folder of a case, by the roles that the report's stage has for them."""


def files_in(folder: Path) -> dict[str, Path]:
    """What there is of these files in the folder of a case, by role."""
    return {role: folder / name for role, name in FILES.items() if (folder / name).is_file()}


def read_evidence(files: Mapping[str, Path]) -> Evidence:
    """What the stages wrote; none for what the case does not have.

    Parameters
    ----------
    files : by role, those of :data:`FILES` among them.
    """

    def found(role: str) -> dict[str, Any] | None:
        return read_json(files[role]) if role in files else None

    return Evidence(
        indices=read_json(files["indices"]),
        summary=read_json(files["summary"]),
        openings=read_openings(files["openings"]),
        geometry=read_quality(files["openings"]),
        image=found("series"),
        segmentation=found("segmentation"),
        tree=found("branches"),
        particles=found("particles"),
        carried=found("carried"),
        grid=found("grid"),
        bands=found("bands"),
        reduced=found("reduced"),
        records=read_records(files["indices"].parent),
    )
