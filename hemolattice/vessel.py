# SPDX-License-Identifier: Apache-2.0
"""From images, a mask or a given surface to the closed surface of a vessel and its branches, in memory."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pipeline.case.settings.base import parse
from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.case.settings.images import FilterSettings, LoadSettings, SegmentSettings
from pipeline.files.mask_file import GivenMask
from pipeline.files.surface_file import read_surface_file
from pipeline.files.volume import Volume
from pipeline.filtering.region import find_region
from pipeline.geometry.branches.faded_ends import image_of
from pipeline.geometry.branches.tree_tracing import trace_tree
from pipeline.geometry.branches.vessel_tree import Tree
from pipeline.geometry.closed_surface import Surface
from pipeline.geometry.given_surface import GivenSurface
from pipeline.stages import filter as filtering
from pipeline.stages import import_mask, import_surface
from pipeline.stages import load as loading
from pipeline.stages import segment as segmentation
from pipeline.stages import surface as surfaces
from pipeline.stages.import_mask import ImportedMask, MaskSettings
from pipeline.stages.load import SeriesFacts
from pipeline.stages.segment import Segmentation
from solver.runtime.errors import StageError

LOG = logging.getLogger("hemolattice")
"""Where progress goes."""


def load(source: str | Path | Sequence[str | Path], **settings: Any) -> tuple[Volume, SeriesFacts]:
    """A series of a DICOM source, or a volume file (NRRD, NIfTI, MHA).

    Parameters
    ----------
    source : folder, DICOMDIR, ZIP file, or a list of these and of DICOM files; or a volume file.
    settings : of the section ``load``, for instance ``series=4``.

    Returns
    -------
    The volume, voxels (Z, Y, X) int16 or float32 with their geometry in LPS, mm; and what was found and checked.

    Raises
    ------
    StageError
        If there is no such series, several could be meant, or its geometry or its intensities are doubtful.
    """
    paths = [Path(source)] if isinstance(source, str | Path) else [Path(each) for each in source]
    return loading.load(paths, parse(LoadSettings, settings, "load"), LOG)


def filter_image(image: Volume, **settings: Any) -> Volume:
    """The region of interest of an image, smoothed, on cubic voxels.

    Parameters
    ----------
    image : voxels (Z, Y, X) of any scalar type.
    settings : of the section ``filter``, for instance ``region_voxels={"low": [0, 0, 0], "high": [99, 99, 49]}``.

    Returns
    -------
    Voxels (Z, Y, X) float32 in the image's unit (HU of CT), in its directions.

    Raises
    ------
    StageError
        If the region is none of the image, or the image is too thin.
    """
    chosen = parse(FilterSettings, settings, "filter")
    return filtering.filter_region(image, find_region(image, chosen, LOG), chosen, LOG)


def segment(filtered: Volume, image: Volume, modality: str | None = None, **settings: Any) -> Segmentation:
    """The lumen in an image.

    Parameters
    ----------
    filtered : of :func:`filter_image`.
    image : it was made from.
    modality : as the facts of :func:`load` tell it; ``CT``: intensities are HU.
    settings : of the section ``segment``, for instance ``seeds_mm=[[-31.2, 14, 120.5]], lower=200``.

    Returns
    -------
    `lumen`, (Z, Y, X) uint8, 0 or 1, and `occupancy`, float32, the part of each voxel that it fills, on the grid of
    `filtered`.

    Raises
    ------
    StageError
        If the result could not be trusted: no contrast, a leak, chambers.
    """
    return segmentation.segment(filtered, parse(SegmentSettings, settings, "segment"), image, modality, LOG)


def read_mask(path: str | Path, **settings: Any) -> ImportedMask:
    """The lumen from a file or folder, checked, on cubic voxels.

    Parameters
    ----------
    path : label map (NRRD, NIfTI, MHA, ``.seg.nrrd``), DICOM segmentation, or a folder with a mask as images.
    settings : ``segment``, number or label of the segment where there are several; ``fill_holes``.

    Returns
    -------
    As of :func:`as_mask`.

    Raises
    ------
    StageError
        If the file is damaged or its segment is no vessel.
    """
    chosen = parse(MaskSettings, settings, "read_mask")
    return import_mask.import_mask(import_mask.read_mask(Path(path), chosen.segment), chosen, LOG)


def as_mask(
    voxels: ArrayLike,
    spacing_mm: tuple[float, float, float],
    origin_mm: tuple[float, float, float] = (0.0, 0.0, 0.0),
    direction: ArrayLike = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    fill_holes: bool = True,
) -> ImportedMask:
    """The lumen from an array, checked, on cubic voxels. Where it meets the border of the array it is open.

    Parameters
    ----------
    voxels : (Z, Y, X), not 0 in the lumen.
    spacing_mm : of voxels along x, y, z.
    origin_mm : centre of voxel (0, 0, 0), (x, y, z), LPS.
    direction : (3, 3), column k the unit vector of array axis x, y, z for k = 0, 1, 2, in LPS.
    fill_holes : fill cavities.

    Returns
    -------
    `lumen`, (Z, Y, X) uint8, 0 or 1; `occupancy`, float32, the part of each voxel that it fills.

    Raises
    ------
    StageError
        If it is empty or the background, in several parts, or its slices are too thick for the vessel.
    """
    given = np.asarray(voxels)
    if given.ndim != 3:
        raise StageError(f"voxels: {given.ndim} dimensions, and a mask has 3, [z, y, x]; give one time or channel")
    x, y, z = map(float, spacing_mm)
    volume = Volume(given != 0, (x, y, z), origin_mm, np.asarray(direction, float))
    return import_mask.import_mask(GivenMask(volume), MaskSettings(segment=None, fill_holes=fill_holes), LOG)


def surface(lumen: Segmentation | ImportedMask, **settings: Any) -> Surface:
    """The smooth closed surface of a lumen, with its ends cut and capped.

    Parameters
    ----------
    lumen : of :func:`segment`, :func:`read_mask` or :func:`as_mask`.
    settings : of the section ``surface``, for instance
        ``openings=[{"name": "ica", "role": "inlet", "near_mm": [-29.9, 11.2, 101]}]``.

    Returns
    -------
    `mesh`, points (P, 3) in LPS, mm, triangles with outward normals, each known as wall (0) or by its cap; `openings`
    with name, role, centre and radius in mm, area in mm2; `quality`.

    Raises
    ------
    StageError
        If fewer than two ends are open, or smoothing would lose volume.
    """
    volume_mm3 = 1000 * float(lumen.record["volume_ml"])
    image = image_of(lambda: lumen.filtered, lumen.record) if isinstance(lumen, Segmentation) else None
    given = parse(SurfaceSettings, settings, "surface")
    return surfaces.extract_surface(lumen.occupancy, given, LOG, volume_mm3, image)


def read_surface(path: str | Path, unit: str, **settings: Any) -> Surface:
    """A given surface of a lumen, checked, repaired and capped where it is open.

    Parameters
    ----------
    path : STL, VTP, OBJ or PLY.
    unit : of its coordinates: mm, cm, m, um or inch.
    settings : of the section ``surface``, and ``frame`` (LPS or RAS), ``face_array``.

    Returns
    -------
    As of :func:`surface`.

    Raises
    ------
    StageError
        If unit, axes or the surface itself is doubtful, or it has fewer than two openings.
    """
    chosen = parse(GivenSurface, settings | {"unit": unit}, "surface")
    return import_surface.import_surface(read_surface_file(Path(path)), chosen, LOG)


def centreline(surface: Surface, **settings: Any) -> Tree:
    """Branches of a vessel.

    Parameters
    ----------
    surface : closed, with its openings.
    settings : of the section ``surface``: ``min_branch_radii``, below which a blind branch is none.

    Returns
    -------
    `branches`, each with `points_mm` (K, 3) in LPS and `radius_mm` (K,) along its line; `joints` by name.

    Raises
    ------
    StageError
        If an opening is cut off from the vessel.
    """
    chosen = parse(SurfaceSettings, settings, "surface")
    return trace_tree(surface.mesh, surface.openings, chosen.min_branch_radii, LOG)
