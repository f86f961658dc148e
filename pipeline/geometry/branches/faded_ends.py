# SPDX-License-Identifier: Apache-2.0
"""Faded ends: how far the image shows that a vessel goes on where its lumen ends.

Where contrast fades along a vessel, one threshold ends its lumen in a wedge or in tatters: the bright side goes on
farthest. What narrows there is the lumen and no vessel: beside the wedge there is blood, by the levels of the place. A
vessel that tapers has tissue beside its tip.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.volume import Volume
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.surface.clip import axes_of_plane
from pipeline.geometry.surface.extension import along_arc

STEP_RADII = 0.2
"""Distance of the sections in which brightness is looked at."""
LEVEL_RADII = 0.5
"""The level of blood in a section is the median within so many radii of its middle."""
HALF_WAY = 0.5
"""Blood is what is brighter than half way between tissue and that level."""
LEAST_LEVEL = 0.5
"""The vessel has faded away where that level, over tissue, is less than this part of the level in the cut."""
LEAST_BLOOD = 0.9
"""Part of each section that is blood where the vessel goes on."""
RIM_VOXELS = 0.25
"""Of each section so much at its rim is left out, which blur makes dimmer."""


@dataclass(frozen=True)
class LumenImage:
    """The image in which a lumen was found.

    Attributes
    ----------
    image : gives it; called where an end is in doubt alone.
    tissue : level of what lies around the lumen.
    spacing_mm : (x, y, z) of the image before it was resampled.
    """

    image: Callable[[], Volume]
    tissue: float
    spacing_mm: tuple[float, float, float]

    def goes_on_mm(self, cut: Cut, radius_mm: float, length_mm: float) -> float:
        """How far a tube on a cut, bent as the vessel is there, lies in blood.

        Parameters
        ----------
        cut : where.
        radius_mm, length_mm : of the tube.
        """
        image = self.image()
        rim_mm = max(radius_mm - RIM_VOXELS * max(image.spacing_mm), radius_mm / 2)
        part = np.arange(-1.0, 1.0 + STEP_RADII / 2, STEP_RADII)
        disc = np.array([(u, v) for u in part for v in part if u * u + v * v <= 1]) @ axes_of_plane(cut.normal).T
        ways = np.linspace(0.0, length_mm, int(length_mm / (STEP_RADII * radius_mm)) + 2)
        levels = np.median(_sections(image, cut, LEVEL_RADII * radius_mm * disc, ways), axis=1) - self.tissue
        blood = _sections(image, cut, rim_mm * disc, ways) - self.tissue >= HALF_WAY * levels[:, None]
        goes_on = (blood.mean(axis=1) >= LEAST_BLOOD) & (levels >= LEAST_LEVEL * levels[0])
        return float(length_mm if goes_on.all() else ways[max(int(goes_on.argmin()) - 1, 0)])

    def pixels_mm(self, along: NDArray[np.float64]) -> NDArray[np.float64]:
        """Edge of a square as large as what a voxel shows of a section across each direction, (n,).

        Parameters
        ----------
        along : (n, 3) unit vectors.
        """
        spacing = np.array(self.spacing_mm)
        extent = 1 / np.linalg.norm(along @ self.image().direction / spacing, axis=1)
        return np.asarray(np.sqrt(spacing.prod() / extent))


def image_of(image: Callable[[], Volume], record: Mapping[str, Any]) -> LumenImage:
    """The image in which a lumen was found.

    Parameters
    ----------
    image : gives it.
    record : as in ``segmentation.json``.
    """
    return LumenImage(image, record["surroundings_level"], tuple(record["image_spacing_mm"]))


def _sections(
    image: Volume, cut: Cut, disc_mm: NDArray[np.float64], ways_mm: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Intensities in a disc, (m, 3), moved by some ways, (n,), along the vessel beyond a cut, (n, m)."""
    moved = [along_arc(disc_mm, cut.normal, way, cut.bend_per_mm) for way in ways_mm]
    return _values(image, cut.centre_mm + np.array(moved))


def _values(image: Volume, places_mm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intensities at places, (..., 3); not a number outside of the image."""
    index = np.moveaxis(image.to_index(places_mm)[..., ::-1], -1, 0)
    return ndimage.map_coordinates(image.voxels, index, order=1, cval=np.nan, output=np.float64)
