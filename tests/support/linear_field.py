# SPDX-License-Identifier: Apache-2.0
"""Series whose intensity is a linear function of the place in the patient: every error of geometry shows.

A slice is made from nothing but its own position, orientation and pixel spacing, so that the truth owes nothing to the
code that is tested.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian
from scipy.spatial.transform import Rotation

from pipeline.files.regular_grid import Grid
from pipeline.files.volume import Volume
from tests.support.dicom_writer import decimals, item, multi_frame

GRADIENT = np.array([23.0, -31.0, 41.0])
"""HU/mm, unlike along all axes: a flip or a swap would show."""
UID = "1.2.826.0.1.3680043.9.7"
"""Of everything; the UIDs of a series go on from it."""
CENTRE_MM = np.array([-20.0, 35.0, 610.0])
TOLERANCE = 0.005
"""Of the range of intensities of the series: the project's aim. Rounding to whole HU makes up to 0.0005 of it."""


def value(points_mm: np.ndarray) -> np.ndarray:
    """The field at places (..., (x, y, z))."""
    return 1000 + (np.asarray(points_mm) - CENTRE_MM) @ GRADIENT


@dataclass(frozen=True)
class Slice:
    """Place of a slice, what is stored for it, and further tags of its header."""

    position_mm: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    pixel_mm: tuple[float, float]
    matrix: tuple[int, int]
    slope: float = 1.0
    intercept: float = -4096.0
    tags: dict[str, Any] = field(default_factory=dict)

    @property
    def points_mm(self) -> np.ndarray:
        """Places of the pixels, (Y, X, 3)."""
        y, x = np.indices(self.matrix[::-1])
        return (
            self.position_mm
            + x[..., None] * self.pixel_mm[0] * self.rows
            + y[..., None] * self.pixel_mm[1] * self.columns
        )

    @property
    def stored(self) -> np.ndarray:
        """Stored values, uint16 (Y, X); negative ones in two's complement."""
        return np.rint((value(self.points_mm) - self.intercept) / self.slope).astype(np.int64).astype(np.uint16)

    def moved(self, *, x: float = 0, y: float = 0, z: float = 0) -> "Slice":
        """The slice at another place, given in mm along its rows, its columns and its normal."""
        shift = x * self.rows + y * self.columns + z * np.cross(self.rows, self.columns)
        return replace(self, position_mm=self.position_mm + shift)

    def tagged(self, **tags: Any) -> "Slice":
        """The slice with further tags in its header."""
        return replace(self, tags=self.tags | tags)


def slices(
    along_mm: Iterable[float] = np.arange(9) * 0.8,
    rotation_deg: tuple[float, float, float] = (14, -9, 21),
    pixel_mm: tuple[float, float] = (0.4, 0.4),
    matrix: tuple[int, int] = (17, 13),
) -> list[Slice]:
    """A stack around the centre of the field, with its slices at the given places along the normal."""
    x, y, z = Rotation.from_euler("xyz", rotation_deg, degrees=True).as_matrix().T
    along_mm = np.asarray(list(along_mm), float)
    corner = CENTRE_MM - (matrix[0] - 1) / 2 * pixel_mm[0] * x - (matrix[1] - 1) / 2 * pixel_mm[1] * y
    corner = corner - along_mm.mean() * z
    return [Slice(corner + mm * z, x, y, pixel_mm, matrix) for mm in along_mm]


def tilted(stack: list[Slice], x_deg: float, y_deg: float) -> list[Slice]:
    """The stack as if the gantry were tilted: each slice moved along its rows and columns."""
    normal = np.cross(stack[0].rows, stack[0].columns)
    along_mm = [float((each.position_mm - stack[0].position_mm) @ normal) for each in stack]
    slope_x, slope_y = np.tan(np.radians([x_deg, y_deg]))
    return [each.moved(x=slope_x * mm, y=slope_y * mm) for each, mm in zip(stack, along_mm, strict=True)]


def _identity(number: int) -> dict[str, Any]:
    """Tags that tell which image it is, and whose."""
    return {
        "SOPInstanceUID": f"{UID}.1.{number}",
        "SeriesInstanceUID": f"{UID}.2",
        "StudyInstanceUID": f"{UID}.3",
        "FrameOfReferenceUID": f"{UID}.4",
        "SeriesNumber": 5,
        "InstanceNumber": number,
        "PatientName": "PLANTED^NAME",
        "PatientID": "PLANTED-ID",
        "SeriesDescription": "PLANTED DESCRIPTION",
    }


def dataset(each: Slice, number: int) -> FileDataset:
    """The slice as CT Image Storage."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = f"{UID}.1.{number}"
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    made = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    columns, rows = each.matrix
    tags: dict[str, Any] = {
        "SOPClassUID": CTImageStorage,
        "Modality": "CT",
        "ImageType": ["ORIGINAL", "PRIMARY", "AXIAL"],
        "ImagePositionPatient": decimals(each.position_mm),
        "ImageOrientationPatient": decimals([*each.rows, *each.columns]),
        "PixelSpacing": decimals(reversed(each.pixel_mm)),
        "SliceThickness": "0.8",
        "Rows": rows,
        "Columns": columns,
        "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2",
        "BitsAllocated": 16,
        "BitsStored": 16,
        "HighBit": 15,
        "PixelRepresentation": 0,
        "RescaleSlope": f"{each.slope:g}",
        "RescaleIntercept": f"{each.intercept:g}",
        "RescaleType": "HU",
        "PixelData": each.stored.astype("<u2").tobytes(),
    }
    for keyword, content in (_identity(number) | tags | each.tags).items():
        setattr(made, keyword, content)
    return made


def enhanced(stack: list[Slice]) -> Dataset:
    """The slices as the frames of an Enhanced CT image, in the order of the list."""
    first = stack[0]
    return multi_frame(
        np.array([each.stored for each in stack]),
        [each.position_mm for each in stack],
        [*first.rows, *first.columns],
        first.pixel_mm[::-1],
        of_frame=lambda k: {
            "FrameContentSequence": item(StackID="1", InStackPositionNumber=k + 1, DimensionIndexValues=[1, k + 1])
        },
        rescale=(first.slope, first.intercept),
        **_identity(1),
    )


def write(stack: list[Slice], folder: Path, change: Callable[[FileDataset], Any] | None = None) -> None:
    """One file a slice."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(stack, start=1):
        made = dataset(each, number)
        if change:
            change(made)
        made.save_as(folder / f"{number:03d}.dcm", enforce_file_format=True)


def places_mm(volume: Volume) -> np.ndarray:
    """Places of the voxels, (Z, Y, X, 3)."""
    return volume.to_mm(np.stack(np.indices(volume.voxels.shape)[::-1], axis=-1))


def measured(volume: Volume, stack: list[Slice], slack: float = 2e-3, near: float = 0.02) -> np.ndarray:
    """Which voxels, (Z, Y, X), lie within the measured slices: on one of them or between two, and, seen along the
    normal, within the outermost pixel centres of these (and `slack` pixels, for the decimals of the header).

    On a slice is what is off it by up to `near` of the smallest step: slices that are even but for a hundredth of their
    spacing are even. Between uneven ones that is between two.
    """
    first = stack[0]
    axes = np.column_stack([first.rows, first.columns, np.cross(first.rows, first.columns)])
    corners = np.array(sorted((each.position_mm @ axes for each in stack), key=lambda corner: corner[2]))
    far = (np.array(first.matrix) - 1) * first.pixel_mm
    points = places_mm(volume) @ axes
    near_mm = near * np.diff(corners[:, 2]).min()
    inside = [
        np.all(np.abs(points[..., :2] - corner[:2] - far / 2) < far / 2 + slack * np.array(first.pixel_mm), axis=-1)
        for corner in corners
    ]
    on = [np.abs(points[..., 2] - corner[2]) <= near_mm for corner in corners]
    covered = np.any([here & within for here, within in zip(on, inside, strict=True)], axis=0)
    free = ~np.any(on, axis=0)
    for k, (low, high) in enumerate(itertools.pairwise(corners[:, 2])):
        covered |= free & (points[..., 2] > low) & (points[..., 2] < high) & inside[k] & inside[k + 1]
    return covered


def worst_error(volume: Volume, stack: list[Slice], offset: float = 0.0) -> float:
    """Largest deviation of the measured voxels from the field, in parts of the range of the series' intensities."""
    error = np.abs(volume.voxels - value(places_mm(volume)) - offset)[measured(volume, stack)]
    return float(error.max() / intensity_range(stack))


def intensity_range(stack: list[Slice]) -> float:
    """Largest less smallest intensity of the field in the slices."""
    return float(np.ptp([value(each.points_mm) for each in stack]))


def geometry(stack: list[Slice]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, orientations and pixel spacings as `pipeline.dicom.stack.stack` takes them."""
    return (
        np.array([each.position_mm for each in stack]),
        np.array([[*each.rows, *each.columns] for each in stack]),
        np.array([each.pixel_mm[::-1] for each in stack]),
    )


def intensities(stack: list[Slice], grid: Grid) -> np.ndarray:
    """The field in the slices as the grid sorts them, (N, Y, X), not rounded."""
    return np.array([value(stack[k].points_mm) for k in grid.order], np.float32)
