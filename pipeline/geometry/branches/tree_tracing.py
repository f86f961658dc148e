# SPDX-License-Identifier: Apache-2.0
"""How the tree of a vessel is found from its closed surface alone.

The inside is rastered, thinned to curves that run from the middle of every cap (and from the tips of blind ends), and
pruned. This tells which branches there are and how they meet; each is then moved into the middle
(:mod:`centreline_refinement`).
"""

import logging
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from pipeline.geometry.branches.centreline_graph import join
from pipeline.geometry.branches.pruning import without_spurs
from pipeline.geometry.branches.thinning import thin, tips
from pipeline.geometry.branches.tree_sketch import Sketch
from pipeline.geometry.branches.vessel_tree import Floats, Tree
from pipeline.geometry.lattice.crossings import inside
from pipeline.geometry.lattice.frame import Frame
from pipeline.geometry.surface.distance import Surface
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError
from solver.runtime.progress import Parts

VOXELS_IN_RADIUS = 4.5
"""Of the thinnest opening."""

MAX_VOXELS, MAX_FINE_VOXELS = 16_000_000, 40_000_000
"""Voxels of the box, and where these do not show the vessel's connections."""

REFINEMENT = 1.4

WHOLE = 0.99
"""Least part of the inside that is one piece; with less, a narrow place is lost between the voxels."""

MARGIN_VOXELS = 2.5

PARTS = {"voxels": 12.0, "skeleton": 12.0, "branches": 7.0, "middle of the branches": 33.0, "sections": 36.0}
"""Times of the parts of the stage, in percent; the sections of the branches come after the tree."""

CAP_VOXELS = 3.0
"""A tip this near a cap belongs to its rim."""


class CutOffError(StageError):
    """The lumen between an opening and the rest of the vessel is too narrow to be found.

    Attributes
    ----------
    found : which opening that is.
    advice : what to do.
    """

    def __init__(self, opening: Opening, spacing_mm: float) -> None:
        place = ", ".join(f"{x:.1f}" for x in opening.centre_mm)
        self.found = (
            f"opening {opening.name} is cut off from the rest of the vessel: between them it is narrower than"
            f" {spacing_mm:.3g} mm"
        )
        self.advice = f"To close this end, set surface.closed_mm: [[{place}]]; or segment a wider lumen"
        super().__init__(f"{self.found}. {self.advice}")


def trace_tree(mesh: Mesh, openings: tuple[Opening, ...], min_branch_radii: float, log: logging.Logger) -> Tree:
    """Trace the tree of a vessel.

    Parameters
    ----------
    mesh : closed surface, outward normals, caps tagged with the openings' ids.
    openings : the openings; there may be none.
    min_branch_radii : a branch that ends blind and is shorter, in radii of the vessel that it leaves, is a spur.
    log : for what was found.

    Raises
    ------
    StageError
        If an opening is cut off from the rest of the vessel, or two openings cannot be distinguished.
    """
    parts = Parts(log, PARTS)
    mask, warnings = _raster(mesh, openings)
    log.info("%d x %d x %d voxels of %.3g mm", *mask.voxels.shape[::-1], mask.spacing_mm[0])
    wall = Surface(mesh)
    caps = _cap_voxels(mask, openings)
    parts.begin("skeleton")
    blind = tips(mask.voxels)
    if openings:
        to_caps = Surface(mesh, tuple(opening.id for opening in openings)).distance_mm(mask.to_mm(blind[:, ::-1]))
        blind = blind[to_caps > CAP_VOXELS * mask.spacing_mm[0]]
    skeleton = mask.with_voxels(thin(mask.voxels, np.concatenate([caps, blind])))
    parts.begin("branches")
    graph = join(skeleton, wall.nearest)
    row_of = {tuple(voxel): row for row, voxel in enumerate(np.argwhere(skeleton.voxels).tolist())}
    cap_rows = {row_of[tuple(voxel)]: opening for voxel, opening in zip(caps.tolist(), openings, strict=True)}
    graph = without_spurs(graph, min_branch_radii, frozenset(cap_rows))
    sketch = Sketch(graph, cap_rows)
    sketch.merge_forks()
    parts.begin("middle of the branches")
    tree = Tree(*sketch.finished(wall, mask.spacing_mm[0]), mask.spacing_mm[0], tuple(warnings))
    parts.begin("sections")
    return tree


def _raster(mesh: Mesh, openings: tuple[Opening, ...]) -> tuple[Volume, list[str]]:
    """The inside of a surface, in one piece, on a lattice that shows its loops and no others where one does."""
    size = np.ptp(mesh.points_mm, axis=0)
    area = float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).sum())
    thin_mm = min((opening.radius_mm for opening in openings), default=2 * mesh.volume_mm3() / area)
    spacing = max(thin_mm / VOXELS_IN_RADIUS, _finest(size, MAX_VOXELS))
    wanted = _euler_number_of_solid(mesh)
    while True:
        voxels, frame, part = _largest_inside(mesh, spacing)
        found = _euler_number(voxels)
        if (found == wanted and part >= WHOLE) or spacing / REFINEMENT < _finest(size, MAX_FINE_VOXELS):
            break
        spacing /= REFINEMENT
    mask = Volume(voxels, (spacing,) * 3, frame.origin_mm, np.eye(3))
    if found == wanted:
        return mask, []
    return mask, [
        f"the surface has {1 - wanted} loops, but {1 - found} at {spacing:.3g} mm, the smallest spacing in which the"
        " centreline is looked for: vessels that nearly touch may be joined in it, or a thin one parted"
    ]


def _finest(size_mm: Floats, voxels: int) -> float:
    """Spacing at which a box has so many voxels, mm."""
    low, high = 0.0, float(size_mm.max())
    for _ in range(50):
        middle = (low + high) / 2
        fits = np.prod(size_mm / max(middle, 1e-12) + 2 * MARGIN_VOXELS) <= voxels
        low, high = (low, middle) if fits else (middle, high)
    return high


def _euler_number_of_solid(mesh: Mesh) -> int:
    """Within a closed surface: pieces less loops plus cavities, half the number of the surface itself."""
    return (len(np.unique(mesh.triangles)) - len(mesh.triangles) // 2) // 2


def _euler_number(voxels: NDArray[np.bool_]) -> int:
    """Of voxels that are joined over corners: corners less edges plus faces less voxels; the border is empty."""
    number = 0
    for spans in product((False, True), repeat=3):
        cells = voxels
        for axis, along in enumerate(spans):
            if not along:
                ahead, behind = (
                    tuple(slice(*ends) if k == axis else slice(None) for k in range(3)) for ends in ((1, None), (-1,))
                )
                cells = cells[ahead] | cells[behind]
        number += (-1) ** sum(spans) * int(np.count_nonzero(cells))
    return number


def _largest_inside(mesh: Mesh, spacing_mm: float) -> tuple[NDArray[np.bool_], Frame, float]:
    """The largest piece of the inside on a lattice, and its part of all that is inside."""
    low, high = mesh.points_mm.min(axis=0), mesh.points_mm.max(axis=0)
    x, y, z = (low - MARGIN_VOXELS * spacing_mm).tolist()
    width, height, depth = (np.ceil((high - low) / spacing_mm + 2 * MARGIN_VOXELS).astype(int) + 1).tolist()
    frame = Frame(spacing_mm, (x, y, z), (depth, height, width))
    label, pieces = ndimage.label(inside(mesh, frame), np.ones((3, 3, 3)))
    if not pieces:
        raise StageError(f"the surface encloses no voxel of {spacing_mm:.3g} mm; its normals may point inward")
    sizes = np.bincount(label.ravel())[1:]
    return label == 1 + sizes.argmax(), frame, float(sizes.max() / sizes.sum())


def _cap_voxels(mask: Volume, openings: tuple[Opening, ...]) -> NDArray[np.int64]:
    """The voxel in the vessel that is nearest to the centre of each cap, (n, 3), (z, y, x)."""
    found = []
    for opening in openings:
        reach = int(np.ceil(opening.radius_mm / mask.spacing_mm[0])) + 1
        middle = np.rint(mask.to_index(opening.centre_mm)).astype(int)[::-1]
        low = np.maximum(middle - reach, 0)
        window = tuple(slice(first, last) for first, last in zip(low, middle + reach + 1, strict=True))
        voxels = np.argwhere(mask.voxels[window]) + low
        if not len(voxels):
            raise CutOffError(opening, mask.spacing_mm[0])
        away = np.linalg.norm(mask.to_mm(voxels[:, ::-1]) - opening.centre_mm, axis=1)
        found.append(voxels[int(np.argmin(away))])
    voxels = np.array(found, dtype=np.int64).reshape(-1, 3)
    if len(np.unique(voxels, axis=0)) < len(voxels):
        raise StageError(f"two openings lie within {mask.spacing_mm[0]:.3g} mm of each other; close one of them")
    return voxels
