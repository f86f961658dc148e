# SPDX-License-Identifier: Apache-2.0
"""Iso-surface: a smooth field from a mask, and the closed triangle surface on which it is zero.

The field is ``2 G_s m - G_2s m - 1/2`` of the mask m, G_s a Gaussian of standard deviation s. A Gaussian alone moves
the surface of a vessel of mean curvature H inwards by about ``s^2 H``; in this difference the leading term of that
shift cancels, so that thin and thick vessels keep their radii (of 2.5 to 10 voxels to 1 % for s = 1.25 voxels).

A tube of less than 0.85 s in radius vanishes in that field, and one that is little wider does on a level above zero.
Where that loses a part of the vessel, another field, which is zero on the mask's wall however thin the vessel, takes
its place in and around thin places (``thin.py``).
"""

import logging
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import ndimage
from scipy.sparse import csr_array
from vtkmodules.util.numpy_support import numpy_to_vtk
from vtkmodules.vtkCommonDataModel import vtkImageData
from vtkmodules.vtkFiltersCore import vtkFlyingEdges3D

from pipeline.files.mesh import Mesh, words_mm
from pipeline.files.volume import Volume
from pipeline.geometry.surface.clip import directed_edges
from pipeline.geometry.surface.connections import WALL
from pipeline.geometry.surface.facets import Facets
from pipeline.geometry.surface.remedies import FINER
from pipeline.geometry.surface.remesh import CapPlanes, Shape, vertex_kinds
from pipeline.geometry.surface.thin import ThinPlaceError, faithful_field, lost_places, thinness
from pipeline.geometry.surface.triangle_measures import vertex_normals
from solver.runtime.errors import StageError

DEFAULT_SMOOTHING_VOXELS = 1.25
LEAST_SMOOTHING_VOXELS = 0.8
"""Less leaves the steps of the voxels: normals off by more than 10 degrees."""
THIN_RADII = 2.0
"""Radius below which a place is thin, in standard deviations: wider vessels keep theirs."""
MAX_LOST = 0.01
"""Largest part of the volume that may fall off or be filled up."""
MAX_VANISHED = 0.03
"""And that may vanish of parts too thin for the smoothing: less of it leaves the ends of vessels rough."""
MAX_OFF_LEVEL = 0.1
"""A vertex whose value is farther off, of a field from -1/2 to 1/2, found no surface to lie on."""
MAX_VOLUME_ERROR = 1e-3
"""Part of a wanted volume by which a surface may miss it."""
RELAXATION_STEPS = 15
MARGIN = 4
"""Voxels around the lumen's bounding box."""


def smooth_field(
    mask: Volume, smoothing_mm: float | None, log: logging.Logger | None = None, less_where_thin: bool = False
) -> Volume:
    """Smooth field of a mask, positive inside, zero on the surface, over the mask's bounding box and a margin.

    Parameters
    ----------
    mask : (Z, Y, X), not 0 in the lumen.
    smoothing_mm : standard deviation of the Gaussian, mm; None: 1.25 voxels. At least 0.8 voxels are taken.
    log : for the specks that were dropped.
    less_where_thin : smooth less where the lumen, or the tissue between two parts of it, is thin.

    Raises
    ------
    StageError
        If the mask is empty or has cavities; :class:`ThinPlaceError` if a thin place of the vessel breaks.
    """
    voxel_mm = max(mask.spacing_mm)
    wanted_mm = DEFAULT_SMOOTHING_VOXELS * voxel_mm if smoothing_mm is None else smoothing_mm
    sigma_mm = max(wanted_mm, LEAST_SMOOTHING_VOXELS * voxel_mm)
    lumen = crop(mask, margin=MARGIN)
    voxels = lumen.voxels.astype(np.float32)
    field = _gaussians(voxels, sigma_mm / np.array(mask.spacing_mm[::-1]))
    if less_where_thin:
        inside = voxels >= 0.5
        thin = thinness(inside, THIN_RADII * sigma_mm / voxel_mm)
        if log:
            log.info(
                "smoothed less where the radius is below %.3g mm: in %.3f of %.3f mL",
                THIN_RADII * sigma_mm,
                *(np.count_nonzero(part) * np.prod(mask.spacing_mm) / 1000 for part in (inside & (thin == 1), inside)),
            )
        field += thin * (faithful_field(inside) - field)
    field[np.abs(field) < 1e-4] = -1e-4  # a vertex on a voxel would give empty triangles
    _keep_one_piece(field, sigma_mm, log)
    smooth = lumen.with_voxels(field)
    if not less_where_thin and (lost := lost_to_smoothing(mask, smooth)):
        _require_little_lost(lost, float(np.count_nonzero(voxels >= 0.5) * np.prod(mask.spacing_mm)), sigma_mm)
    return smooth


def lost_to_smoothing(mask: Volume, field: Volume) -> list[dict[str, Any]]:
    """Thin parts of a mask that a smooth field of it does not have: middle and volume of each, the largest first.

    Parameters
    ----------
    mask : (Z, Y, X), part of each voxel that the lumen fills, or a mask.
    field : as :func:`smooth_field` makes it.
    """
    own = crop(mask, margin=MARGIN)
    parts = lost_places(own.voxels >= 0.5, field.voxels > 0)
    each_mm3 = float(np.prod(own.spacing_mm))
    return [{"place_mm": own.to_mm(place).tolist(), "volume_mm3": count * each_mm3} for place, count in parts]


def _require_little_lost(lost: list[dict[str, Any]], mask_mm3: float, sigma_mm: float) -> None:
    if (share := sum(part["volume_mm3"] for part in lost) / mask_mm3) > MAX_VANISHED:
        raise ThinPlaceError(
            f"surface.smoothing_mm = {sigma_mm:g} mm: thin parts of the vessel vanish, {100 * share:.1f} % of its"
            f" volume, the largest at {words_mm(lost[0]['place_mm'])}"
        )


def _gaussians(voxels: NDArray[np.float32], sigma: NDArray[np.float64]) -> NDArray[np.float32]:
    """Difference of two Gaussians, of `sigma` and twice that, along the axes."""
    field = 2 * ndimage.gaussian_filter(voxels, sigma, mode="constant", truncate=3.0)
    field -= ndimage.gaussian_filter(voxels, 2 * sigma, mode="constant", truncate=3.0)
    field -= 0.5
    return np.asarray(field)


def occupancy_surface(lumen: Volume) -> Mesh:
    """Surface on which a lumen fills half of the voxels: not smoothed, with the steps of a mask's voxels.

    Parameters
    ----------
    lumen : (Z, Y, X), part of each voxel that the lumen fills, 0 to 1; what :func:`smooth_field` keeps in one piece.
    """
    near = crop(lumen, margin=MARGIN)
    field = near.voxels.astype(np.float32) - np.float32(0.5)
    field[np.abs(field) < 1e-2] = -1e-2  # a vertex near a voxel would give empty triangles
    _keep_one_piece(field, 0.0)
    return zero_surface(near.with_voxels(field))


def _keep_one_piece(field: NDArray[np.float32], sigma_mm: float, log: logging.Logger | None = None) -> None:
    """Remove specks and cavities that smoothing made of thin places, in place; refuse where they are large."""
    label, parts = ndimage.label(field > 0)
    if not parts:
        raise StageError(f"surface.smoothing_mm = {sigma_mm:g} mm: the vessel vanishes; lower it, or {FINER}")
    sizes = np.bincount(label.ravel())[1:]
    vessel = label == 1 + np.argmax(sizes)
    filled = ndimage.binary_fill_holes(vessel)
    specks, cavities = (label > 0) & ~filled, filled & ~vessel
    sought = f"surface.smoothing_mm = {sigma_mm:g} mm"
    if (share := np.count_nonzero(specks) / sizes.sum()) > MAX_LOST:
        raise ThinPlaceError(
            f"{sought}: a thin place of the vessel breaks, and {100 * share:.1f} % of its volume would be lost"
        )
    if (share := np.count_nonzero(cavities) / sizes.sum()) > MAX_LOST:
        raise StageError(
            f"{sought}: a cavity of the lumen, with {100 * share:.1f} % of its volume, would be lost; lower it,"
            f" {FINER}, or fill cavities with segment.fill_holes"
        )
    field[specks] = -0.5
    field[cavities] = 0.5
    if log and (dropped := np.count_nonzero(specks)):
        count = len(np.unique(label[specks]))
        log.info(
            "%d specks beside the vessel dropped, %d voxels in all (%.2g %%)",
            count,
            dropped,
            100 * dropped / sizes.sum(),
        )


def crop(mask: Volume, margin: int) -> Volume:
    """The bounding box of what is not 0, with a margin of so many voxels, of zeros where the volume ends."""
    boxes = ndimage.find_objects((mask.voxels != 0).astype(np.uint8))
    if not boxes:
        raise StageError("lumen: the mask is empty; check segment.seeds_mm and segment.lower")
    low = np.array([side.start for side in boxes[0]]) - margin
    voxels = np.pad(mask.voxels[boxes[0]], margin)
    x, y, z = mask.to_mm(low[::-1])
    return Volume(voxels, mask.spacing_mm, (float(x), float(y), float(z)), mask.direction)


def zero_surface(field: Volume) -> Mesh:
    """Surface on which a field is zero (flying edges, Schroeder, Maynard and Geveci 2015), normals outwards."""
    image = vtkImageData()
    image.SetDimensions(*field.voxels.shape[::-1])
    image.GetPointData().SetScalars(numpy_to_vtk(np.ascontiguousarray(field.voxels).ravel()))
    edges = vtkFlyingEdges3D()
    edges.SetInputData(image)
    edges.SetValue(0, 0.0)
    edges.ComputeNormalsOff()
    edges.ComputeGradientsOff()
    edges.ComputeScalarsOff()
    edges.Update()
    mesh = Mesh.from_vtk(edges.GetOutput())
    mesh = Mesh(field.to_mm(mesh.points_mm), mesh.triangles, mesh.opening)
    return mesh if mesh.volume_mm3() > 0 else Mesh(mesh.points_mm, mesh.triangles[:, ::-1].copy(), mesh.opening)


class LevelSet:
    """The surface on which a field has a value, and the planes of a mesh's caps, as a shape to put a mesh onto.

    Between its voxels the field is a cubic spline.

    Parameters
    ----------
    field : positive inside.
    mesh : whose caps give the planes.

    Attributes
    ----------
    level : the field's value on the surface, 0 at first.
    """

    def __init__(self, field: Volume, mesh: Mesh) -> None:
        self.level = 0.0
        self._field, self._planes = field, CapPlanes(mesh)
        self._voxel_mm = min(field.spacing_mm)
        self._coefficients = ndimage.spline_filter(field.voxels, order=3, output=np.float32)

    def project(
        self, points: NDArray[np.float64], normals: NDArray[np.float64], kind: NDArray[np.int8]
    ) -> NDArray[np.float64]:
        """One Newton step towards the level, of half a voxel at most: of the wall along its normals, of the caps' rims
        in their planes, into which the caps' vertices are put exactly.

        Parameters
        ----------
        points, normals : (P, 3) mm, and unit normals there.
        kind : (P,) int8, as in ``connections.WALL``.
        """
        value, gradient = self._sample(points)
        rim = self._planes.on_rim(kind)
        way = normals.copy()
        way[rim] = -self._planes.along(gradient[rim], kind[rim])
        way[rim] /= np.maximum(np.linalg.norm(way[rim], axis=1, keepdims=True), 1e-30)
        slope = np.minimum(np.einsum("ij,ij->i", gradient, way), -0.05 / self._voxel_mm)  # else a step would be wild
        step = np.clip((self.level - value) / slope, -self._voxel_mm / 2, self._voxel_mm / 2)
        step[(kind != WALL) & ~rim] = 0.0
        return self._planes.put(points + step[:, None] * way, kind)

    def enclose(self, mesh: Mesh, volume_mm3: float) -> Mesh:
        """Move to the level at which the mesh has a volume.

        Raises
        ------
        ThinPlaceError
            If some of the wall is nowhere near, or the volume is not reached: on that level the vessel has other parts.
        """
        kind, points = vertex_kinds(mesh), mesh.points_mm
        wall = mesh.opening == 0
        for _ in range(5):
            now = Mesh(points, mesh.triangles, mesh.opening)
            normals = vertex_normals(now.points_mm, now.triangles.ravel())
            area_mm2 = float(np.linalg.norm(now.area_vectors_mm2()[wall], axis=1).sum())
            on_wall = kind == WALL
            slope = float(np.einsum("ij,ij->i", self._sample(points[on_wall])[1], normals[on_wall]).mean())
            self.level += (volume_mm3 - now.volume_mm3()) / area_mm2 * slope
            points = self.project(points, normals, kind)
        enclosed = Mesh(points, mesh.triangles, mesh.opening)
        self._require_on_level(enclosed, kind == WALL, volume_mm3)
        return enclosed

    def _require_on_level(self, mesh: Mesh, wall: NDArray[np.bool_], volume_mm3: float) -> None:
        """Refuse a mesh whose wall found no surface to lie on, or that misses its volume."""
        off = np.abs(self._sample(mesh.points_mm[wall])[0] - self.level)
        lost, found_mm3 = np.count_nonzero(off > MAX_OFF_LEVEL), mesh.volume_mm3()
        if lost or abs(found_mm3 / volume_mm3 - 1) > MAX_VOLUME_ERROR:
            place = mesh.points_mm[wall][np.argmax(off)]
            raise ThinPlaceError(
                f"surface: {lost} of {len(off)} points of the wall lie on no smooth surface, most around"
                f" {words_mm(place)}, and it encloses {found_mm3:.1f} mm3 where {volume_mm3:.1f} mm3 are wanted:"
                " smoothing takes away what is thin there"
            )

    def _sample(self, points_mm: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values at places (n, 3), (n,), and gradients, (n, 3), 1/mm."""
        value, gradient = _spline(self._coefficients, self._field.to_index(points_mm))
        return value, gradient / self._field.spacing_mm @ self._field.direction.T


@njit(cache=True)
def _spline(
    coefficients: NDArray[np.float32], places: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A cubic B-spline, coefficients (Z, Y, X), at places (n, (x, y, z)): values and gradients; held at the border."""
    shape = coefficients.shape
    values, gradients = np.zeros(len(places)), np.zeros((len(places), 3))
    weight, slope, low = np.empty((3, 4)), np.empty((3, 4)), np.empty(3, np.int64)
    for n in range(len(places)):
        for k in range(3):
            place = min(max(places[n, k], 1.0), shape[2 - k] - 2.001)
            low[k] = int(place) - 1
            t = place - int(place)
            u = 1 - t
            # number by number: a row that is set as a whole takes five times as long to compile as all else here
            weight[k, 0], weight[k, 1] = u**3 / 6, 2 / 3 - t * t * (1 - t / 2)
            weight[k, 2], weight[k, 3] = 2 / 3 - u * u * (1 - u / 2), t**3 / 6
            slope[k, 0], slope[k, 1] = -u * u / 2, t * (1.5 * t - 2)
            slope[k, 2], slope[k, 3] = u * (2 - 1.5 * u), t * t / 2
        for z in range(4):
            for y in range(4):
                line, rise = 0.0, 0.0
                for x in range(4):
                    c = coefficients[low[2] + z, low[1] + y, low[0] + x]
                    line += weight[0, x] * c
                    rise += slope[0, x] * c
                values[n] += weight[2, z] * weight[1, y] * line
                gradients[n, 0] += weight[2, z] * weight[1, y] * rise
                gradients[n, 1] += weight[2, z] * slope[1, y] * line
                gradients[n, 2] += slope[2, z] * weight[1, y] * line
    return values, gradients


def fit(mesh: Mesh, field: Volume, volume_mm3: float) -> tuple[Mesh, Volume]:
    """Make triangles well-shaped by sliding vertices along the surface, and give the surface a wanted volume.

    Vertices move towards the mean of their neighbours in the tangent plane and back onto a level of the field; the
    level, near zero, is the one that encloses the volume.

    Parameters
    ----------
    mesh : closed, near the level 0 of the field.
    field : voxels (Z, Y, X), positive inside.
    volume_mm3 : that is wanted.

    Returns
    -------
    The mesh, and the field less the level, so that it is zero on the mesh.
    """
    shape = LevelSet(field, mesh)
    mesh = shape.enclose(_slid(mesh, shape), volume_mm3)
    return mesh, field.with_voxels(field.voxels - np.float32(shape.level))


def fit_nearby(mesh: Mesh, volume_mm3: float) -> Mesh:
    """As :func:`fit`, by moving the whole surface along its normals: on a level of the field thin parts may lack."""
    shape = Facets(mesh, mesh)
    return shape.enclose(_slid(mesh, shape), volume_mm3)


def _slid(mesh: Mesh, shape: Shape) -> Mesh:
    """The mesh with its vertices slid along a shape."""
    kind = vertex_kinds(mesh)
    mean = neighbour_mean(mesh)
    for step in range(RELAXATION_STEPS):
        normals = vertex_normals(mesh.points_mm, mesh.triangles.ravel())
        shift = mean @ mesh.points_mm - mesh.points_mm
        points = mesh.points_mm + 0.7 * (shift - np.einsum("ij,ij->i", shift, normals)[:, None] * normals)
        if step % 3 == 2:
            points = shape.project(points, vertex_normals(points, mesh.triangles.ravel()), kind)
        mesh = Mesh(points, mesh.triangles, mesh.opening)
    return mesh


def neighbour_mean(mesh: Mesh) -> csr_array:
    """Matrix that takes the points to the mean of their neighbours."""
    edges = directed_edges(mesh.triangles)
    count = np.bincount(edges[:, 0], minlength=len(mesh.points_mm))
    size = len(mesh.points_mm)
    return csr_array((1 / count[edges[:, 0]], (edges[:, 0], edges[:, 1])), shape=(size, size))
