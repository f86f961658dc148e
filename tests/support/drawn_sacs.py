# SPDX-License-Identifier: Apache-2.0
"""Curved vessels with a sac, drawn at random, and their images of any noise: shapes whose truth is known."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipeline.case.vessel import BranchShape, Ellipsoid, VesselShape
from pipeline.stages.phantom import ImageSettings, Phantom, PhantomSettings, synthesize

CONTRAST_HU = 310.0
NOISE = {"low": 1 / 40, "middle": 1 / 15, "high": 1 / 7}
"""Standard deviation of the noise over the contrast."""


@dataclass(frozen=True)
class Drawn:
    """A vessel with its image.

    Attributes
    ----------
    vessel : an arc from `inlet` to `outlet` with a sac on its outer side.
    image : how it is imaged.
    radius_mm : of the arc.
    """

    vessel: VesselShape
    image: ImageSettings
    radius_mm: float

    def imaged(self) -> Phantom:
        """The image as the scanner gives it."""
        return synthesize(PhantomSettings(name="drawn", vessel=self.vessel, image=self.image))

    def exact(self, voxels: float = 12.0) -> Phantom:
        """An image without noise and blur, of so many voxels on the radius, from which the true shape follows."""
        fine = self.radius_mm / voxels
        extent = np.array(self.image.size) * self.image.spacing_mm
        x, y, z = np.ceil(extent / fine).astype(int).tolist()
        image = self.image.model_copy(
            update={
                "size": (x, y, z),
                "spacing_mm": (fine, fine, fine),
                "slice_thickness_mm": fine,
                "blur_mm": (0.0, 0.0, 0.0),
                "noise_hu": 0.0,
            }
        )
        return replace(self, image=image).imaged()


def drawn(seed: int, noise: str) -> Drawn:
    """A vessel of radius 1.2 to 3 mm, bent with 4 to 8 radii through 70 to 110 degrees, a sac of 0.9 to 1.4 radii, on
    an image turned at random with 3 to 6 voxels on the radius, slices 1 to 1.4 voxels apart and a blur of 0.45 to 0.8
    voxels.

    Parameters
    ----------
    seed : of what is drawn.
    noise : of :data:`NOISE`.
    """
    rng = np.random.default_rng([seed, list(NOISE).index(noise)])
    radius, bend = rng.uniform(1.2, 3.0), rng.uniform(4, 8)
    half = np.radians(rng.uniform(70, 110)) / 2
    angles = np.linspace(-half, half, 7)
    arc = radius * bend * np.column_stack((np.sin(angles), np.cos(angles), np.zeros(7)))
    arc[:, 1] -= radius * bend * (1 + np.cos(half)) / 2
    radii = radius * (1 + rng.uniform(-0.08, 0.08, 7))
    sac = radius * rng.uniform(0.9, 1.4) * (1 + rng.uniform(-0.1, 0.1, 3))
    at = rng.uniform(-0.25, 0.25) * half
    out = radius + 0.6 * sac.mean()
    centre = (radius * bend + out) * np.array([np.sin(at), np.cos(at), 0.0])
    centre[1] -= radius * bend * (1 + np.cos(half)) / 2
    vessel = VesselShape(
        blend_mm=0.25 * radius,
        branches=(
            BranchShape(
                name="parent",
                start="inlet",
                end="outlet",
                points_mm=tuple(tuple(point) for point in arc.tolist()),
                radii_mm=tuple(radii.tolist()),
            ),
        ),
        sacs=(Ellipsoid(centre_mm=tuple(centre.tolist()), radii_mm=tuple(sac.tolist())),),
    )
    low, high = np.minimum(arc.min(axis=0), centre - sac), np.maximum(arc.max(axis=0), centre + sac)
    return Drawn(vessel, image_of(rng, radius, low, high, noise), radius)


def image_of(
    rng: np.random.Generator, radius: float, low: NDArray[np.float64], high: NDArray[np.float64], noise: str
) -> ImageSettings:
    """An image around a vessel, turned at random, with 3 to 6 voxels on a radius.

    Parameters
    ----------
    rng : of what is drawn.
    radius : mm.
    low, high : (3,) corners of the box around its lines and sacs, mm.
    noise : of :data:`NOISE`.
    """
    voxel = radius / rng.uniform(3, 6)
    spacing = np.array([voxel, voxel, voxel * rng.uniform(1, 1.4)])
    turn, margin = rng.uniform(-180, 180, 3), 3 * radius
    size = np.ceil(2 * np.maximum(margin - low, high + margin) / spacing).astype(int).tolist()
    return ImageSettings(
        size=tuple(size),
        spacing_mm=tuple(spacing.tolist()),
        slice_thickness_mm=float(spacing[2]),
        rotation_deg=tuple(turn.tolist()),
        lumen_hu=40 + CONTRAST_HU,
        tissue_hu=40.0,
        blur_mm=tuple((rng.uniform(0.45, 0.8) * spacing).tolist()),
        noise_hu=NOISE[noise] * CONTRAST_HU,
        noise_seed=int(rng.integers(2**31)),
    )


def on_stalk(vessel: Drawn, seed: int) -> Drawn:
    """With a sac of 0.7 to 1.5 radii at the end of a branch of 0.45 to 0.8 radii, 1 to 3.5 long, in place of its own.

    Parameters
    ----------
    vessel : drawn.
    seed : of the branch.
    """
    rng = np.random.default_rng([seed, 79])
    (parent,) = vessel.vessel.branches
    points, radius = np.array(parent.points_mm), vessel.radius_mm
    at = points[int(rng.integers(2, 5))]
    out, turn = _outwards(points, at), rng.uniform(-0.6, 0.6)
    out = np.cos(turn) * out + np.sin(turn) * np.array([0, 0, 1.0])
    thin, size, length = radius * rng.uniform(0.45, 0.8), radius * rng.uniform(0.7, 1.5), radius * rng.uniform(1.0, 3.5)
    end = at + out * (radius + length)
    way = (tuple(at.tolist()), tuple(((at + end) / 2).tolist()), tuple(end.tolist()))
    stalk = BranchShape(name="stalk", points_mm=way, radii_mm=(thin,) * 3)
    axes = size * (1 + rng.uniform(-0.15, 0.15, 3))
    sac = Ellipsoid(centre_mm=tuple((end + 0.6 * size * out).tolist()), radii_mm=tuple(axes.tolist()))
    return _with(vessel, (parent, stalk), sac, 9)


def blind(vessel: Drawn, seed: int) -> Drawn:
    """With a sac of 1 to 1.9 radii at the end of the vessel, which is no opening then, in place of its own.

    Parameters
    ----------
    vessel : drawn.
    seed : of the sac.
    """
    rng = np.random.default_rng([seed, 78])
    (parent,) = vessel.vessel.branches
    axes = vessel.radius_mm * rng.uniform(1.0, 1.9) * (1 + rng.uniform(-0.1, 0.1, 3))
    sac = Ellipsoid(centre_mm=parent.points_mm[-1], radii_mm=tuple(axes.tolist()))
    return _with(vessel, (parent.model_copy(update={"end": None}),), sac, 3)


def close_to_end(vessel: Drawn, seed: int) -> Drawn:
    """With its sac at the last or the last but one point of the arc before its end.

    Parameters
    ----------
    vessel : drawn.
    seed : of the place.
    """
    rng = np.random.default_rng([seed, 77])
    (parent,), (sac,) = vessel.vessel.branches, vessel.vessel.sacs
    points = np.array(parent.points_mm)
    at = points[-1 - int(rng.integers(1, 3))]
    centre = at + _outwards(points, at) * (vessel.radius_mm + 0.6 * float(np.mean(sac.radii_mm)))
    moved = Ellipsoid(centre_mm=tuple(centre.tolist()), radii_mm=sac.radii_mm)
    return _with(vessel, (parent,), moved, 3)


def _outwards(points: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Direction from the middle of an arc of seven points to one of them."""
    a, b, c = points[0], points[3], points[6]
    middle = np.linalg.solve(np.array([b - a, c - a])[:, :2], [(b @ b - a @ a) / 2, (c @ c - a @ a) / 2])
    away = at - np.append(middle, 0.0)
    return np.asarray(away / np.linalg.norm(away))


def _with(vessel: Drawn, branches: tuple[BranchShape, ...], sac: Ellipsoid, radii: float) -> Drawn:
    """With other branches and another sac, in an image that is larger by so many radii on each side."""
    more = np.ceil(2 * radii * vessel.radius_mm / np.array(vessel.image.spacing_mm)).astype(int)
    x, y, z = (np.array(vessel.image.size) + more).tolist()
    shape = vessel.vessel.model_copy(update={"branches": branches, "sacs": (sac,)})
    return replace(vessel, vessel=shape, image=vessel.image.model_copy(update={"size": (x, y, z)}))
