"""Iso-surface: a smooth field from a mask, and the closed triangle surface on which it is zero.

The field is ``2 G_s m - G_2s m - 1/2`` of the mask m, G_s a Gaussian of standard deviation s. A Gaussian alone moves
the surface of a vessel of mean curvature H inwards by about ``s^2 H``; in this difference the leading term of that
shift cancels, so that thin and thick vessels keep their radii (of 2.5 to 10 voxels to 1 % for s = 1.25 voxels).
"""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.sparse import csr_array
from vtkmodules.util.numpy_support import numpy_to_vtk
from vtkmodules.vtkCommonDataModel import vtkImageData
from vtkmodules.vtkFiltersCore import vtkFlyingEdges3D

from pipeline.geometry.clip import directed_edges, is_closed
from pipeline.mesh import Mesh
from pipeline.volume import Volume
from solver.stage import StageError

DEFAULT_SMOOTHING_VOXELS = 1.25
LEAST_SMOOTHING_VOXELS = 0.8
"""Less leaves the steps of the voxels: normals off by more than 10 degrees."""
MAX_LOST = 0.01
"""Largest part of the volume that may fall off or be filled up."""
RELAXATION_STEPS = 15
MARGIN = 4
"""Voxels around the lumen's bounding box."""
EDGES_PER_RADIUS = 5.0
"""Wanted resolution of the thinnest vessel; up to twice as much is kept."""


def smooth_field(mask: Volume, smoothing_mm: float | None) -> Volume:
    """Smooth field of a mask, positive inside, zero on the surface, over the mask's bounding box and a margin.

    Parameters
    ----------
    mask : (Z, Y, X), not 0 in the lumen.
    smoothing_mm : standard deviation of the Gaussian, mm; None: 1.25 voxels. At least 0.8 voxels are taken.

    Raises
    ------
    StageError
        If the mask is empty, or a thin place of the vessel breaks under the smoothing.
    """
    voxel_mm = max(mask.spacing_mm)
    wanted_mm = DEFAULT_SMOOTHING_VOXELS * voxel_mm if smoothing_mm is None else smoothing_mm
    sigma_mm = max(wanted_mm, LEAST_SMOOTHING_VOXELS * voxel_mm)
    lumen = crop(mask, margin=MARGIN)
    voxels = lumen.voxels.astype(np.float32)
    sigma = sigma_mm / np.array(mask.spacing_mm[::-1])
    field = 2 * ndimage.gaussian_filter(voxels, sigma, mode="constant", truncate=3.0)
    field -= ndimage.gaussian_filter(voxels, 2 * sigma, mode="constant", truncate=3.0)
    field -= 0.5
    _keep_one_piece(field, sigma_mm)
    field[np.abs(field) < 1e-4] = -1e-4  # a vertex on a voxel would give empty triangles
    return lumen.with_voxels(field)


def _keep_one_piece(field: NDArray[np.float32], sigma_mm: float) -> None:
    """Remove crumbs and cavities that smoothing made of thin places, in place; refuse where they are large."""
    label, parts = ndimage.label(field > 0)
    if not parts:
        raise StageError(
            f"surface.smoothing_mm = {sigma_mm:g} mm: the vessel vanishes; lower it, or resample finer with"
            " filter.spacing_mm"
        )
    sizes = np.bincount(label.ravel())[1:]
    vessel = label == 1 + np.argmax(sizes)
    filled = ndimage.binary_fill_holes(vessel)
    crumbs, cavities = (label > 0) & ~filled, filled & ~vessel
    for lost, what in ((crumbs, "a thin place of the vessel breaks, and"), (cavities, "a cavity of the lumen, with")):
        if (share := np.count_nonzero(lost) / sizes.sum()) > MAX_LOST:
            raise StageError(
                f"surface.smoothing_mm = {sigma_mm:g} mm: {what} {100 * share:.1f} % of its volume, would be lost;"
                " lower it, resample finer with filter.spacing_mm, or fill cavities with segment.fill_holes"
            )
    field[crumbs] = -0.5
    field[cavities] = 0.5


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


def resolve(mesh: Mesh, field: Volume, thin_radius_mm: float) -> Mesh:
    """Halve the edges of a mesh that is too coarse for its thinnest vessel, or double them where it is far too fine.

    Parameters
    ----------
    mesh : from :func:`zero_surface` of the field.
    field : on which a coarser mesh is made.
    thin_radius_mm : radius of the thinnest vessel of interest.
    """
    edges = directed_edges(mesh.triangles)
    length = float(np.linalg.norm(mesh.points_mm[edges[:, 0]] - mesh.points_mm[edges[:, 1]], axis=1).mean())
    wanted = thin_radius_mm / EDGES_PER_RADIUS
    if length > wanted:
        return _halved(mesh)
    if length < wanted / 2:
        x, y, z = field.spacing_mm
        every_other = np.ascontiguousarray(field.voxels[::2, ::2, ::2])
        coarse = zero_surface(Volume(every_other, (2 * x, 2 * y, 2 * z), field.origin_mm, field.direction))
        if is_closed(coarse):  # a thin branch may break on the coarse grid
            return coarse
    return mesh


def _halved(mesh: Mesh) -> Mesh:
    """Each triangle in four."""
    edges = np.sort(directed_edges(mesh.triangles), axis=1)
    unique, middle = np.unique(edges, axis=0, return_inverse=True)
    ab, bc, ca = middle.reshape(3, -1) + len(mesh.points_mm)
    a, b, c = mesh.triangles.T
    triangles = np.concatenate([np.stack(t, axis=1) for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])
    points = np.concatenate([mesh.points_mm, mesh.points_mm[unique].mean(axis=1)])
    return Mesh(points, triangles.astype(np.int64), np.zeros(len(triangles), np.int8))


class _Sampler:
    """Values of a field between its voxels, by cubic splines."""

    def __init__(self, field: Volume) -> None:
        self._field = field
        self._coefficients = ndimage.spline_filter(field.voxels, order=3, output=np.float32)

    def __call__(self, points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        index = self._field.to_index(points_mm)[..., ::-1]
        return ndimage.map_coordinates(
            self._coefficients, np.moveaxis(index, -1, 0), output=np.float64, order=3, mode="nearest", prefilter=False
        )


def fit(mesh: Mesh, field: Volume, volume_mm3: float) -> tuple[Mesh, Volume]:
    """Make triangles well-shaped by sliding vertices along the surface, and give the surface a wanted volume.

    Vertices move towards the mean of their neighbours in the tangent plane and back onto a level of the field; the
    level, near zero, is the one that encloses the volume.

    Returns
    -------
    The mesh, and the field less the level, so that it is zero on the mesh.
    """
    sample, voxel_mm, level = _Sampler(field), min(field.spacing_mm), 0.0
    mean = _neighbour_mean(mesh)
    points = mesh.points_mm
    for step in range(RELAXATION_STEPS):
        normals = _normals(points, mesh.triangles)
        shift = mean @ points - points
        points = points + 0.7 * (shift - np.einsum("ij,ij->i", shift, normals)[:, None] * normals)
        if step % 3 == 2:
            slope = _slope(points, normals, sample, voxel_mm)
            points = _project(points, normals, slope, sample, level, voxel_mm)
    normals = _normals(points, mesh.triangles)
    slope = _slope(points, normals, sample, voxel_mm)
    for _ in range(5):
        now = Mesh(points, mesh.triangles, mesh.opening)
        area_mm2 = float(np.linalg.norm(now.area_vectors_mm2(), axis=1).sum())
        level += (volume_mm3 - now.volume_mm3()) / area_mm2 * float(slope.mean())
        points = _project(points, normals, slope, sample, level, voxel_mm)
    return Mesh(points, mesh.triangles, mesh.opening), field.with_voxels(field.voxels - np.float32(level))


def _neighbour_mean(mesh: Mesh) -> csr_array:
    """Matrix that takes the points to the mean of their neighbours."""
    edges = directed_edges(mesh.triangles)
    count = np.bincount(edges[:, 0], minlength=len(mesh.points_mm))
    size = len(mesh.points_mm)
    return csr_array((1 / count[edges[:, 0]], (edges[:, 0], edges[:, 1])), shape=(size, size))


def _normals(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unit normals at the points: area vectors of the triangles around each, summed."""
    a, b, c = (points[triangles[:, k]] for k in range(3))
    vectors = np.cross(b - a, c - a)
    normals = np.stack(
        [np.bincount(triangles.T.ravel(), np.tile(vectors[:, k], 3), minlength=len(points)) for k in range(3)], axis=1
    )
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)


def _slope(
    points: NDArray[np.float64], normals: NDArray[np.float64], sample: _Sampler, voxel_mm: float
) -> NDArray[np.float64]:
    """Derivative of the field along the normals, 1/mm; negative, and not so small that a step would be wild."""
    step = 0.25 * voxel_mm
    slope = (sample(points + step * normals) - sample(points - step * normals)) / (2 * step)
    return np.minimum(slope, -0.05 / voxel_mm)


def _project(
    points: NDArray[np.float64],
    normals: NDArray[np.float64],
    slope: NDArray[np.float64],
    sample: _Sampler,
    level: float,
    voxel_mm: float,
) -> NDArray[np.float64]:
    """One Newton step along the normals towards a level of the field, of half a voxel at most."""
    step = (level - sample(points)) / slope
    return points + np.clip(step, -voxel_mm / 2, voxel_mm / 2)[:, None] * normals
