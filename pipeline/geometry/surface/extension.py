# SPDX-License-Identifier: Apache-2.0
"""Extension: a straight tube in front of an opening, so that the flow in the vessel forgets the condition at its cap.

The rim of the cap is drawn out along the cap's normal and keeps its shape: a tube that became round on the way would
speed up or slow down the flow there, and the opening's area would no longer be the vessel's.
"""

import logging
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.mesh import Mesh, words_mm
from pipeline.geometry.surface.clip import check_closed, open_edges
from pipeline.geometry.surface.intersections import self_intersections
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError

WALL = 0
STRAIGHT = np.zeros(3)


def extend(mesh: Mesh, opening: int, length_mm: float, bend_per_mm: NDArray[np.float64] = STRAIGHT) -> Mesh:
    """Put a tube, straight or along the arc of a circle, between the rim of a cap and the cap.

    The volume grows by the cap's area times the length. Triangles of the tube are as long as the rim's edges.

    Parameters
    ----------
    mesh : closed surface.
    opening : id of the cap.
    length_mm : length of the tube, of a bent one along the middle of the cap.
    bend_per_mm : (3,) in the plane of the cap, towards the middle of the circle, one over its radius, which is larger
        than the cap's.
    """
    cap = mesh.triangles[mesh.opening == opening]
    of_cap = mesh.area_vectors_mm2()[mesh.opening == opening]
    vectors, areas = of_cap.sum(axis=0), np.linalg.norm(of_cap, axis=1)
    edges = open_edges(cap)
    rim = np.unique(edges)
    rings = max(1, round(length_mm / mean_edge_mm(mesh, edges)))
    normal = vectors / np.linalg.norm(vectors)
    middle = np.average(mesh.centroids_mm()[mesh.opening == opening], axis=0, weights=areas)

    def moved(rows: NDArray[np.int64], part: float) -> NDArray[np.float64]:
        """Points by a part of the way."""
        return along_arc(mesh.points_mm[rows] - middle, normal, part * length_mm, bend_per_mm) + middle

    points = mesh.points_mm.copy()
    inner = np.setdiff1d(cap, rim)
    points[inner] = moved(inner, 1.0)
    ring = np.full((rings + 1, len(points)), -1)
    ring[0, rim] = rim
    ring[1:, rim] = len(points) + np.arange(rings * len(rim)).reshape(rings, -1)
    points = np.concatenate([points, *(moved(rim, (k + 1) / rings) for k in range(rings))])

    a, b = ring[:, edges[:, 0]], ring[:, edges[:, 1]]  # the cap's direction; the wall's is the other one
    low_a, low_b, high_a, high_b = (part.ravel() for part in (a[:-1], b[:-1], a[1:], b[1:]))
    tube = np.concatenate([np.stack([low_a, low_b, high_b], axis=1), np.stack([low_a, high_b, high_a], axis=1)])
    outer = np.where(np.isin(cap, rim), ring[-1][cap], cap)
    triangles = np.concatenate([mesh.triangles[mesh.opening != opening], tube, outer])
    tags = np.concatenate(
        [
            mesh.opening[mesh.opening != opening],
            np.full(len(tube), WALL, np.int8),
            np.full(len(outer), opening, np.int8),
        ]
    )
    return Mesh(points, triangles.astype(np.int64), tags)


def mean_edge_mm(mesh: Mesh, edges: NDArray[np.int64]) -> float:
    """Mean length of edges, (k, 2) rows of points."""
    return float(np.linalg.norm(np.diff(mesh.points_mm[edges], axis=1), axis=2).mean())


def along_arc(
    places: NDArray[np.float64], normal: NDArray[np.float64], way_mm: float, bend_per_mm: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Places around the middle of a cap, moved along a circle that begins along the cap's normal.

    Parameters
    ----------
    places : (n, 3) from the middle of the cap.
    normal : (3,) of the cap.
    way_mm : along the circle.
    bend_per_mm : (3,) towards the middle of the circle, one over its radius.
    """
    sideways = bend_per_mm - bend_per_mm @ normal * normal
    bend = float(np.linalg.norm(sideways))
    if bend * way_mm < 1e-6:
        return np.asarray(places + way_mm * normal)
    inwards, turn = sideways / bend, way_mm * bend
    ahead, aside = places @ normal, places @ inwards - 1 / bend
    by = np.outer(ahead * (np.cos(turn) - 1) - aside * np.sin(turn), normal)
    return np.asarray(places + by + np.outer(ahead * np.sin(turn) + aside * (np.cos(turn) - 1), inwards))


def place_of_collision(mesh: Mesh, extended: Mesh) -> NDArray[np.float64] | None:
    """Where the extensions of a surface run into it or into each other, (3,), or None.

    Parameters
    ----------
    mesh, extended : before and after any number of extensions.
    """
    new = np.ones(len(extended.points_mm), bool)
    new[: len(mesh.points_mm)] = (extended.points_mm[: len(mesh.points_mm)] != mesh.points_mm).any(axis=1)
    of = np.asarray(new[extended.triangles].any(axis=1))
    pairs = self_intersections(extended.points_mm, extended.triangles, of)
    return extended.points_mm[extended.triangles[pairs[0]]].mean(axis=(0, 1)) if len(pairs) else None


def extend_openings(
    mesh: Mesh, openings: tuple[Opening, ...], settings: SurfaceSettings, log: logging.Logger
) -> tuple[Mesh, tuple[Opening, ...]]:
    """Put straight tubes in front of the openings, as long as the settings say, and move the openings to their ends.

    Parameters
    ----------
    mesh : closed, with a cap at each opening.
    openings : as they are on it.
    settings : lengths in radii of the openings, for all and for each.
    log : gets a line for each tube.

    Raises
    ------
    StageError
        If a tube would run into the vessel or into another tube.
    """
    given = {opening.name: opening.extend_radii for opening in settings.openings}
    extended, moved = mesh, []
    for opening in openings:
        own = given.get(opening.name)
        length_mm = (settings.extend_radii if own is None else own) * opening.radius_mm
        if length_mm > 0:
            extended = extend(extended, opening.id, length_mm)
            log.info("opening %d: %s extended by %.2f mm", opening.id, opening.name, length_mm)
        x, y, z = (np.array(opening.centre_mm) + length_mm * np.array(opening.normal)).tolist()
        moved.append(replace(opening, centre_mm=(x, y, z)))
    if extended is mesh:
        return mesh, openings
    if (place := place_of_collision(mesh, extended)) is not None:
        nearest = min(moved, key=lambda opening: float(np.linalg.norm(np.array(opening.centre_mm) - place)))
        raise StageError(
            f"surface: an extension, probably that of {nearest.name}, runs into the vessel or another extension at"
            f" {words_mm(place)}; lower surface.extend_radii = {settings.extend_radii:g}, or give"
            " surface.openings[].extend_radii of that opening (0: none)"
        )
    check_closed(extended)
    return extended, tuple(moved)
