# SPDX-License-Identifier: Apache-2.0
"""Openings by their caps: area, centre, name and role."""

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.geometry import OpeningSettings
from pipeline.files.mesh import Mesh, words_mm
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError

MIRROR = np.array([-1.0, -1.0, 1.0])
"""Takes RAS coordinates to LPS."""


def describe(mesh: Mesh, given: tuple[OpeningSettings, ...]) -> tuple[Opening, ...]:
    """Measure the caps of a mesh, name them and give them roles.

    An opening of the case's settings is the one whose centre is nearest to its point. Without an inlet among these,
    the largest opening that is left is the inlet, named ``inlet``; the others are outlets, named ``outlet_1``,
    ``outlet_2``, ... from the largest to the smallest.

    Raises
    ------
    StageError
        If two settings mean the same opening, or a point is farther from all of them than its setting allows.
    """
    vectors, centroids = mesh.area_vectors_mm2(), mesh.centroids_mm()
    count = int(mesh.opening.max(initial=0))
    vector = np.array([vectors[mesh.opening == k + 1].sum(axis=0) for k in range(count)])
    area = np.linalg.norm(vector, axis=1)
    centre = np.array(
        [
            np.average(centroids[cap], axis=0, weights=np.linalg.norm(vectors[cap], axis=1))
            for cap in (mesh.opening == k + 1 for k in range(count))
        ]
    )
    labels = _labels(centre, area, given)
    return tuple(
        Opening(
            id=k + 1,
            name=labels[k][0],
            role="inlet" if labels[k][1] == "inlet" else "outlet",
            centre_mm=_triple(centre[k]),
            normal=_triple(vector[k] / area[k]),
            area_mm2=float(area[k]),
            radius_mm=float(np.sqrt(area[k] / np.pi)),
        )
        for k in range(count)
    )


def _labels(
    centre: NDArray[np.float64], area: NDArray[np.float64], given: tuple[OpeningSettings, ...]
) -> dict[int, tuple[str, str]]:
    """Name and role of each opening."""
    labels: dict[int, tuple[str, str]] = {}
    for setting in given:
        nearest = _nearest(centre, area, setting)
        if nearest in labels:
            raise StageError(
                f"surface.openings: {labels[nearest][0]} and {setting.name} both mean the opening at"
                f" {words_mm(centre[nearest])}; correct near_mm of one. The openings found:"
                f" {list_openings(centre, area)}"
            )
        labels[nearest] = setting.name, setting.role
    taken = {name for name, _ in labels.values()}
    rest = [int(k) for k in np.argsort(-area, kind="stable") if k not in labels]
    if rest and "inlet" not in {role for _, role in labels.values()}:
        labels[rest.pop(0)] = "inlet", "inlet"
    names = (name for name in (f"outlet_{k}" for k in range(1, len(area) + len(given) + 2)) if name not in taken)
    labels.update({k: (name, "outlet") for k, name in zip(rest, names, strict=False)})
    return labels


def _nearest(centre: NDArray[np.float64], area: NDArray[np.float64], setting: OpeningSettings) -> int:
    """The opening that a setting means, which must be near enough."""

    def distance(place: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.linalg.norm(centre - place, axis=1))

    place = np.array(setting.near_mm)
    if distance(place).min() > setting.within_mm:
        mirrored = place * MIRROR
        hint = (
            f"; {words_mm(mirrored)} would be {distance(mirrored).min():.1f} mm away: near_mm is in RAS, LPS is wanted"
            if distance(mirrored).min() <= setting.within_mm
            else ""
        )
        raise StageError(
            f"surface.openings: {setting.name}: the nearest opening is {distance(place).min():.1f} mm from near_mm ="
            f" {words_mm(place)}, more than within_mm = {setting.within_mm:g}{hint}. Correct near_mm (LPS: x to the"
            f" left, y to the posterior), or raise within_mm. The openings found: {list_openings(centre, area)}"
        )
    return int(np.argmin(distance(place)))


def list_openings(centre: NDArray[np.float64], area: NDArray[np.float64]) -> str:
    """Centres and radii in words."""
    return "; ".join(
        f"{words_mm(place)}, radius {np.sqrt(a / np.pi):.2f} mm" for place, a in zip(centre, area, strict=True)
    )


def _triple(vector: NDArray[np.float64]) -> tuple[float, float, float]:
    x, y, z = vector.tolist()
    return x, y, z
