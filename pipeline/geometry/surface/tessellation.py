# SPDX-License-Identifier: Apache-2.0
"""Tessellation: closed triangle surfaces of the canonical shapes.

Flat walls are exact. Circles are polygons of the same area, and curved walls have so many triangles that no point of
them lies farther than `round_walls.TOLERANCE` reference lengths from the true wall for each direction of curvature: a
thousandth of a spacing with 100 nodes across. A bifurcation, which has no formula, has its vertices on the wall and its
triangles within `fork.FORK_TOLERANCE`.
"""

from collections.abc import Callable

from pipeline.case.block_shapes import Cavity, Channel, Duct, Step
from pipeline.case.shapes import Bend, Bifurcation, Geometry, Nozzle, Pipe, Sphere, Stenosis
from pipeline.geometry.surface.flat_walls import cavity_surface, channel_surface, step_surface
from pipeline.geometry.surface.fork import bifurcation_surface
from pipeline.geometry.surface.round_walls import (
    bend_surface,
    nozzle_surface,
    pipe_surface,
    sphere_surface,
    stenosis_surface,
)
from pipeline.geometry.surface.tessellated import Tessellated


def tessellate(shape: Geometry, spacing_mm: float) -> Tessellated:
    """Surface of a shape.

    Parameters
    ----------
    shape : what is wanted.
    spacing_mm : of the lattice that is to come, on which depends how far a period is exceeded.

    Raises
    ------
    StageError
        If the branches of a fork are too short.
    """
    return MAKERS[type(shape)](shape, spacing_mm)


MAKERS: dict[type, Callable[..., Tessellated]] = {
    Cavity: cavity_surface,
    Channel: channel_surface,
    Duct: channel_surface,
    Step: step_surface,
    Pipe: pipe_surface,
    Stenosis: stenosis_surface,
    Nozzle: nozzle_surface,
    Bend: bend_surface,
    Bifurcation: bifurcation_surface,
    Sphere: sphere_surface,
}
"""Maker of each shape's surface."""
