# SPDX-License-Identifier: Apache-2.0
"""One surface of all that the pieces of a given one enclose: tubes that overlap, or that keep faces within.

What each piece winds around is marked on a grid. The surface is that of the marked nodes, smoothed as the mask of an
image is, and given the volume that was marked. So pieces may overlap, touch, lie a fraction of a node apart, or share
faces. Edges become round over some nodes; where the flat ends of pieces lie outside all others is told, so that the
vessel can be cut off flat behind them.
"""

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.transform import Rotation

from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.lattice.crossings import winding
from pipeline.geometry.lattice.grid import choose_frame
from pipeline.geometry.surface.clip import directed_edges, edge_numbers, open_edges
from pipeline.geometry.surface.isosurface import fit, smooth_field, zero_surface
from pipeline.geometry.surface.repair import clean, flat_caps, oriented
from solver.runtime.errors import StageError

NODES_IN_RADIUS = 8.0
"""Nodes on the mean radius, twice the volume over the area, of the thinnest piece."""

LEAST_PIECE = 1e-3
"""Pieces of less of the volume of the largest decide nothing: a face within, closed by itself, encloses nothing."""

WITHIN, ALIKE = 0.95, 0.97
"""A piece of which more lies in another is within it; with at least so much of its volume it is the same once more."""

MAX_APART = 0.01
"""Part of the volume that may lie apart from the largest part."""


BEHIND_NODES = 3.0
"""So far behind the flat ends of pieces the surface is as it was: its field reaches two standard deviations of the
wider Gaussian of the smoothing, five nodes, and its edges are off by what is left of that at three."""


ASKEW = Rotation.from_rotvec([0.5497, 0.6710, 0.8192]).as_matrix()
"""Turn of the surface against the grid. Along a straight tube that lies as the grid does all sections hold the same
nodes, and the error of the first, 1 to 2 %, is that of the whole."""


@dataclass(frozen=True)
class United:
    """A surface made of pieces.

    Attributes
    ----------
    mesh : closed, without openings.
    pieces_mm3 : volume of each piece.
    ends : planes behind the flat ends that lie outside all pieces.
    """

    mesh: Mesh
    pieces_mm3: list[float]
    ends: list[Cut]


def united(points: NDArray[np.float64], triangles: NDArray[np.int64], max_nodes: int, log: logging.Logger) -> United:
    """The surface of what the pieces of a given one enclose together.

    Parameters
    ----------
    points : (P, 3) mm.
    triangles : (T, 3) rows of points; pieces end where more than two triangles meet at an edge, and open ones are
        closed by fans.
    max_nodes : of the grid.
    log : for what was united.

    Raises
    ------
    StageError
        If a piece lies within another, of which nobody can tell which is the lumen, or the pieces lie apart.
    """
    pieces = _pieces(points @ ASKEW, triangles)
    each_mm3 = [piece.volume_mm3() for piece in pieces]
    whole = Mesh(
        np.concatenate([piece.points_mm for piece in pieces]), np.empty((0, 3), np.int64), np.empty(0, np.int8)
    )
    finest = float((np.prod(np.ptp(whole.points_mm, axis=0)) / max_nodes) ** (1 / 3))
    thinnest = min(2 * mm3 / _area_mm2(piece) for mm3, piece in zip(each_mm3, pieces, strict=True))
    frame = choose_frame(whole, max(thinnest / NODES_IN_RADIUS, finest))
    inside = [winding(piece, frame) > 0 for piece in pieces]
    _require_none_within(inside, each_mm3)
    marked = ndimage.binary_fill_holes(np.logical_or.reduce(inside))
    label, count = ndimage.label(marked)
    sizes = np.bincount(label.ravel())[1:]
    node_mm3 = frame.spacing_mm**3
    if count == 0 or sizes.sum() - sizes.max() > MAX_APART * sizes.sum():
        shown = ", ".join(f"{size * node_mm3 / 1000:.3g}" for size in np.sort(sizes)[::-1][:5])
        raise StageError(
            f"input.surface_union: what the pieces enclose is in {count} parts that do not touch, of {shown} mL; delete"
            " what does not belong to the vessel, or join the parts in the program that made the surface"
        )
    vessel = label == 1 + int(sizes.argmax())
    mask = Volume(vessel.view(np.uint8), (frame.spacing_mm,) * 3, frame.origin_mm, np.eye(3))
    field = smooth_field(mask, None, less_where_thin=True)
    mesh, _ = fit(zero_surface(field), field, np.count_nonzero(vessel) * node_mm3)
    log.info(
        "%d pieces of %s mL united: %.4g mL, on a grid of %.3g mm",
        len(pieces),
        ", ".join(f"{mm3 / 1000:.3g}" for mm3 in each_mm3),
        mesh.volume_mm3() / 1000,
        frame.spacing_mm,
    )
    ends = [Cut(ASKEW @ each.centre_mm, ASKEW @ each.normal) for each in _flat_ends(pieces, mask)]
    return United(Mesh(mesh.points_mm @ ASKEW.T, mesh.triangles, mesh.opening), each_mm3, ends)


def _pieces(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> list[Mesh]:
    """Closed pieces, outwards, the largest first."""
    points, triangles = clean(points, triangles)
    keys = edge_numbers(directed_edges(triangles))
    order = np.argsort(keys, kind="stable")
    _, start, count = np.unique(keys[order], return_index=True, return_counts=True)
    pairs = order[np.stack([start, start + 1], axis=1)[count == 2]] % len(triangles)
    graph = coo_array((np.ones(len(pairs), np.int8), pairs.T), shape=(len(triangles),) * 2)
    number, label = connected_components(graph, directed=False)
    closed = [_closed(points, triangles[label == piece]) for piece in range(number)]
    volumes = np.array([piece.volume_mm3() for piece in closed])
    return [closed[k] for k in np.argsort(volumes)[::-1] if volumes[k] > LEAST_PIECE * volumes.max()]


def _closed(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> Mesh:
    """A piece whose rims are closed by fans from their middles, outwards."""
    triangles, _ = oriented(triangles)
    rim = open_edges(triangles)[:, ::-1]
    if len(rim):
        graph = coo_array((np.ones(len(rim), np.int8), rim.T), shape=(len(points),) * 2)
        _, label = connected_components(graph, directed=False)
        of_rim, which = np.unique(label[rim[:, 0]], return_inverse=True)
        middles = np.stack([points[np.unique(rim[which == k])].mean(axis=0) for k in range(len(of_rim))])
        fans = np.column_stack([rim, len(points) + which])
        points, triangles = np.concatenate([points, middles]), np.concatenate([triangles, fans])
    mesh = Mesh(points, triangles, np.zeros(len(triangles), np.int8))
    return mesh if mesh.volume_mm3() > 0 else Mesh(points, triangles[:, ::-1].copy(), mesh.opening)


def _flat_ends(pieces: list[Mesh], mask: Volume) -> list[Cut]:
    """Planes behind flat caps of pieces beyond which there is nothing; of those at the same place the first."""
    step_mm, found = mask.spacing_mm[0], list[Cut]()
    for piece in pieces:
        for rows in flat_caps(piece.points_mm, piece.triangles):
            vectors, corners = piece.area_vectors_mm2()[rows], piece.points_mm[piece.triangles[rows]]
            areas = np.linalg.norm(vectors, axis=1)
            middle = np.average(corners.mean(axis=1), axis=0, weights=areas)
            normal, radius = vectors.sum(axis=0) / np.linalg.norm(vectors.sum(axis=0)), np.sqrt(areas.sum() / np.pi)
            beside = mask.to_index(middle + np.outer([2.0, -2.0], step_mm * normal))
            beyond, before = ndimage.map_coordinates(mask.voxels.astype(np.float32), beside[:, ::-1].T, order=1)
            cut = Cut(middle - BEHIND_NODES * step_mm * normal, normal)
            if beyond < 0.5 <= before and all(
                float(np.linalg.norm(cut.centre_mm - each.centre_mm)) > radius for each in found
            ):
                found.append(cut)
    return found


def _area_mm2(mesh: Mesh) -> float:
    return float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).sum())


def _require_none_within(inside: list[NDArray[np.bool_]], each_mm3: list[float]) -> None:
    """Refuse a piece within another: a wall around its lumen, thrombus, or a device; the same twice is none."""
    for k, own in enumerate(inside):
        for n, other in enumerate(inside[:k]):  # the larger ones
            share = float(np.count_nonzero(own & other)) / max(int(np.count_nonzero(own)), 1)
            if share > WITHIN and each_mm3[k] < ALIKE * each_mm3[n]:
                raise StageError(
                    f"input.surface_union: a piece of {each_mm3[k] / 1000:.3g} mL lies within one of"
                    f" {each_mm3[n] / 1000:.3g} mL, as a lumen in its wall does, or a clot: together they are the"
                    " larger one, and it is not certain which is the lumen; delete what does not belong to it in the"
                    " program that made the surface"
                )
