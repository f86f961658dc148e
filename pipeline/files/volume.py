# SPDX-License-Identifier: Apache-2.0
"""Volume: a voxel array and where it lies in the patient."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK as sitk
from numpy.typing import ArrayLike, NDArray

from solver.runtime.errors import StageError


@dataclass(frozen=True)
class Volume:
    """A voxel array with its geometry.

    Attributes
    ----------
    voxels : (Z, Y, X) array, C order.
    spacing_mm : distance of neighbouring voxels along the array's x, y and z axes, mm.
    origin_mm : centre of voxel (0, 0, 0), (x, y, z), LPS, mm.
    direction : (3, 3); column ``k`` is the unit vector, in LPS, along array axis x, y, z for ``k`` = 0, 1, 2.
    """

    voxels: NDArray[Any]
    spacing_mm: tuple[float, float, float]
    origin_mm: tuple[float, float, float]
    direction: NDArray[np.float64]

    def to_mm(self, index: ArrayLike) -> NDArray[np.float64]:
        """Places, LPS mm, of (continuous) voxel indices ``(..., (x, y, z))``."""
        return np.asarray(index, float) * self.spacing_mm @ self.direction.T + self.origin_mm

    def to_index(self, point_mm: ArrayLike) -> NDArray[np.float64]:
        """Continuous voxel indices ``(..., (x, y, z))`` of places in LPS mm."""
        return (np.asarray(point_mm, float) - self.origin_mm) @ self.direction / self.spacing_mm

    def with_voxels(self, voxels: NDArray[Any]) -> "Volume":
        """The same geometry with other voxels, (Z, Y, X)."""
        if voxels.shape != self.voxels.shape:
            raise ValueError(f"voxels have shape {voxels.shape}, the volume {self.voxels.shape}")
        return Volume(voxels, self.spacing_mm, self.origin_mm, self.direction)

    def to_sitk(self) -> sitk.Image:
        """As a SimpleITK image (a copy)."""
        image = sitk.GetImageFromArray(self.voxels)
        image.SetSpacing(self.spacing_mm)
        image.SetOrigin(self.origin_mm)
        image.SetDirection(self.direction.ravel())
        return image

    @staticmethod
    def from_sitk(image: sitk.Image) -> "Volume":
        """From a SimpleITK image (a copy)."""
        return Volume(
            sitk.GetArrayFromImage(image),
            tuple(image.GetSpacing()),
            tuple(image.GetOrigin()),
            np.array(image.GetDirection()).reshape(3, 3),
        )

    def write(self, path: Path) -> None:
        """Write as NRRD (or any format that SimpleITK knows by the suffix), compressed; no header text is carried."""
        sitk.WriteImage(self.to_sitk(), str(path), useCompression=True)

    @staticmethod
    def read(path: Path) -> "Volume":
        """Read a three-dimensional scalar image file.

        Raises
        ------
        StageError
            If the file cannot be read as such.
        """
        try:
            image = sitk.ReadImage(str(path))
        except RuntimeError:
            raise StageError(f"{path}: cannot be read as an image; NRRD, NIfTI and MHA files are") from None
        while image.GetDimension() > 3 and image.GetSize()[-1] == 1:
            image = image[(*[slice(None)] * (image.GetDimension() - 1), 0)]
        dimension, components = image.GetDimension(), image.GetNumberOfComponentsPerPixel()
        if dimension != 3 or components != 1:
            raise StageError(
                f"{path}: {dimension} dimensions with {components} values a voxel;"
                " a three-dimensional scalar volume is wanted: save one time point, or one component, by itself"
            )
        return Volume.from_sitk(image)
