"""The spacing of the lattice: as given, or chosen from the openings."""

from pipeline.case import VoxelizeSettings
from solver.nodes import Opening
from solver.stage import StageError

NODES_ACROSS = 20.0
"""Nodes across the largest inlet where the settings do not say (PHYSICS: wall shear stress within 2 %)."""

MIN_NODES_ACROSS = 6.0
"""Fewer nodes than this across an opening carry no profile of velocity."""


def choose_spacing_mm(openings: tuple[Opening, ...], settings: VoxelizeSettings) -> float:
    """Spacing of the settings, or the one that puts the wanted nodes across the largest inlet."""
    inlets = [opening.radius_mm for opening in openings if opening.role == "inlet"]
    if settings.spacing_mm == "auto" and not inlets:
        raise StageError("no opening is an inlet, across which nodes could be counted; give voxelize.spacing_mm")
    spacing_mm = settings.spacing_mm
    if spacing_mm == "auto":
        spacing_mm = 2 * max(inlets) / (settings.nodes_across or NODES_ACROSS)
    for opening in openings:
        across = 2 * opening.radius_mm / spacing_mm
        if across < MIN_NODES_ACROSS:
            raise StageError(too_coarse(opening, spacing_mm, f"has {across:.1f} nodes across"))
    return spacing_mm


def too_coarse(opening: Opening, spacing_mm: float, what: str) -> str:
    """Message that a spacing is too coarse for an opening, with the spacing that is not."""
    return (
        f"opening {opening.name} (radius {opening.radius_mm:.3g} mm) {what} at a spacing of {spacing_mm:.3g} mm;"
        f" at least {MIN_NODES_ACROSS:g} nodes are wanted: set voxelize.spacing_mm to at most"
        f" {2 * opening.radius_mm / MIN_NODES_ACROSS:.3g}, or a larger voxelize.nodes_across"
    )
