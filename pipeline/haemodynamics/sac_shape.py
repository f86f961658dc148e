# SPDX-License-Identifier: Apache-2.0
"""The shape of a sac, the part of the lumen beyond the plane of its neck, and the radius of its parent vessel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull
from scipy.spatial.distance import pdist

from pipeline.files.mesh import Mesh
from pipeline.geometry.branches.centreline_refinement import arc_length
from pipeline.geometry.lattice.crossings import inside
from pipeline.geometry.lattice.frame import Frame
from pipeline.geometry.surface.clip import axes_of_plane
from pipeline.geometry.surface.distance import Surface
from pipeline.haemodynamics.accumulator import Slab
from pipeline.haemodynamics.neck import NeckError, Section, Severed, section_around, sever
from pipeline.haemodynamics.parent import Way, parent_lines, radius_near
from solver.domain.nodes import Nodes

SLAB_HALF_WIDTH = 2.0
"""Of the slab around a neck, in spacings."""


@dataclass(frozen=True)
class Sac:
    """A sac, severed from its parent by the plane of its neck.

    Attributes
    ----------
    name : as it is called.
    found_by : ``neck plane`` or ``radius``.
    neck : the loop of the neck; its normal points into the sac.
    part : what the neck severs of the surface.
    rows : (K,), rows of the fluid nodes in the sac.
    """

    name: str
    found_by: Literal["neck plane", "radius"]
    neck: Section
    part: Severed
    rows: NDArray[np.int64]

    @property
    def volume_mm3(self) -> float:
        """Volume between the wall and the plane of the neck: that of the polyhedron."""
        return self.part.closed.volume_mm3()

    @property
    def neck_diameter_mm(self) -> float:
        """Diameter of the circle with the neck's area."""
        return float(2 * np.sqrt(self.neck.area_mm2 / np.pi))

    @property
    def height_mm(self) -> float:
        """Largest distance of the sac's wall from the plane of its neck."""
        return float(((self.part.closed.points_mm - self.neck.at_mm) @ self.neck.normal).max())

    @property
    def dome_diameter_mm(self) -> float:
        """Largest extent of the sac along any direction in the plane of its neck."""
        flat = self.part.closed.points_mm @ axes_of_plane(self.neck.normal)
        return float(pdist(flat[ConvexHull(flat).vertices]).max())


def severed_sac(
    nodes: Nodes, surface: Mesh, neck: Section, name: str, found_by: Literal["neck plane", "radius"]
) -> Sac:
    """The sac beyond a neck.

    Parameters
    ----------
    nodes : the lattice and its openings.
    surface : closed, mm, LPS.
    neck : the section through the neck; its normal points into the sac.
    name, found_by : what the sac is called, and what the neck comes from.

    Raises
    ------
    NeckError
        If the neck severs no sac, or one without a fluid node.
    """
    part = sever(surface, neck, {opening.id: opening.name for opening in nodes.openings})
    rows = nodes_within(nodes, part.closed)
    if not len(rows):
        raise NeckError(f"no fluid node lies in the sac; nodes are {nodes.spacing_mm:.3g} mm apart")
    return Sac(name, found_by, neck, part, rows)


def nodes_within(nodes: Nodes, closed: Mesh) -> NDArray[np.int64]:
    """Rows of the fluid nodes that a closed surface encloses."""
    origin, spacing = np.asarray(nodes.origin_mm), nodes.spacing_mm
    low = np.floor((closed.points_mm.min(axis=0) - origin) / spacing).astype(int) - 2
    high = np.ceil((closed.points_mm.max(axis=0) - origin) / spacing).astype(int) + 3
    x, y, z = (origin + low * spacing).tolist()
    width, height, depth = (high - low).tolist()
    enclosed = inside(closed, Frame(spacing, (x, y, z), (depth, height, width)))
    rows = np.flatnonzero(((nodes.position >= low) & (nodes.position < high)).all(axis=1))
    i, j, k = (nodes.position[rows] - low).T
    return rows[enclosed[k, j, i]]


def parent_radius_mm(nodes: Nodes, surface: Mesh, sac: Sac, ways: Sequence[Way]) -> float:
    """Radius of the parent vessel at the neck of a sac.

    It is that of the parent's line, see :func:`parent_lines`, where that is nearest to the neck. Where there is no line
    it is that of the largest ball about a fluid node outside the sac: smaller by the distance of the nearest node from
    the parent's middle, and larger where the ball leans into a wide neck. The ball is looked for within a neck's
    diameter of the neck's centre, and farther away as long as 3/2 of its radius is more: so the parent's middle is
    reached from a narrow neck too.

    Parameters
    ----------
    nodes : the lattice.
    surface : closed, mm, LPS.
    sac : whose neck it is.
    ways : lines of the vessel through which flow passes; may be empty.
    """
    if ways:
        return radius_near(sac.neck.centre_mm, parent_lines(ways))
    outside = np.ones(nodes.count, bool)
    outside[sac.rows] = False
    rows, wall = np.flatnonzero(outside), Surface(surface)
    away = np.linalg.norm(nodes.points_mm()[rows] - sac.neck.centre_mm, axis=1)
    reach, radius = sac.neck_diameter_mm, 0.0
    while True:
        near = nodes.points_mm()[rows[away < reach]]
        radius = float(wall.distance_mm(near).max(initial=radius))
        if 1.5 * radius <= reach:
            return radius
        reach = 1.5 * radius


def parent_sections(
    nodes: Nodes, surface: Mesh, sac: Sac, radius_mm: float, ways: Sequence[Way]
) -> tuple[tuple[Section, Slab], ...]:
    """Sections across the parent's line on both sides of the neck, half a diameter beyond its rim; fewer where the
    line ends, or the plane cuts no section there.

    Parameters
    ----------
    nodes : the lattice.
    surface : closed, mm, LPS.
    sac : whose neck it is.
    radius_mm : of the parent.
    ways : lines of the vessel through which flow passes; may be empty.

    Returns
    -------
    Each section with the fluid nodes near it.
    """
    found: list[tuple[Section, Slab]] = []
    if not ways:
        return ()
    gaps = [np.linalg.norm(way.line[:, :3] - sac.neck.centre_mm, axis=1) for way in ways]
    nearest = int(np.argmin([gap.min() for gap in gaps]))
    line = ways[nearest].line[:, :3]
    arc = arc_length(line)
    middle, beside = arc[int(gaps[nearest].argmin())], sac.neck_diameter_mm / 2 + radius_mm
    for place in (middle - beside, middle + beside):
        if not SLAB_HALF_WIDTH * nodes.spacing_mm < place < arc[-1] - SLAB_HALF_WIDTH * nodes.spacing_mm:
            continue
        at, before, after = (
            np.array([np.interp(place + step, arc, line[:, axis]) for axis in range(3)])
            for step in (0.0, -radius_mm / 2, radius_mm / 2)
        )
        try:
            section = section_around(surface, at, (after - before) / np.linalg.norm(after - before))
        except NeckError:
            continue
        if section.area_mm2 < 4 * np.pi * radius_mm**2:
            found.append((section, section.slab(nodes, SLAB_HALF_WIDTH)))
    return tuple(found)
