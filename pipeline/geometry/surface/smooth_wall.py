# SPDX-License-Identifier: Apache-2.0
"""The wall of a lumen as the smoother of the settings makes it."""

from collections.abc import Callable

from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.facets import Facets
from pipeline.geometry.surface.isosurface import DEFAULT_SMOOTHING_VOXELS, LevelSet, occupancy_surface
from pipeline.geometry.surface.remesh import Shape, remesh_vessel
from pipeline.geometry.surface.smooth_mesh import smooth_mesh


def smooth_wall(
    fitted: Mesh,
    field: Volume,
    lumen: Volume,
    settings: SurfaceSettings,
    volume_mm3: float,
    less_where_thin: bool = False,
) -> tuple[Mesh, Callable[[Mesh], Shape]]:
    """The whole surface as the smoother of the settings makes it, and its shape for what a cut leaves of it.

    Parameters
    ----------
    fitted : the surface that was fitted to the field, not cut yet.
    field : voxels (Z, Y, X), positive in the lumen, 0 on `fitted`.
    lumen : mask 0/1 or occupancy on the same grid.
    settings : smoother, its length, edges per radius.
    volume_mm3 : that a smoother other than the field's keeps.
    less_where_thin : whether thin places were smoothed less, so that no smoother follows.
    """
    if less_where_thin:  # triangles are there wherever the vessel is, a level of the field may not be
        return fitted, lambda cut: Facets(fitted, cut)
    if settings.smoother is None or settings.smoother == "field":
        return fitted, lambda cut: LevelSet(field, cut)
    voxel_mm = max(lumen.spacing_mm)
    length_mm = settings.smoothing_mm or DEFAULT_SMOOTHING_VOXELS * voxel_mm
    wall = smooth_mesh(occupancy_surface(lumen), settings.smoother, length_mm, volume_mm3)
    check_closed(wall)
    mesh = remesh_vessel(wall, Facets(wall, wall), settings.edges_per_radius, voxel_mm)
    return mesh, lambda cut: Facets(wall, cut)
