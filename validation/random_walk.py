# SPDX-License-Identifier: Apache-2.0
"""Particles that go with a flow and diffuse, backwards in time: another solution of the age of blood.

The mean age a at a place solves u.grad a = D lap a + 1, nothing goes through walls, and an inlet lets in blood of age 0
by its flow alone. By the formula of Feynman and Kac it is a(x) = E[T], the mean time after which paths

    dX = -u dt + sqrt(2 D) dW

from x come out of an inlet. The flow carries them out there; what would step out by diffusion, through a wall or an
opening, stays. With D = 0 these are the particles of the stage `trace`. They know nothing of the scalar's lattice: the
velocity is that of nodes, between them and up to the wall where it lies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.haemodynamics.interpolation import Interpolation
from pipeline.haemodynamics.particles import KEPT_OFF, MOVING, REACH, Particles, Tracer
from pipeline.haemodynamics.paths import Arrivals
from pipeline.haemodynamics.snapshots import Field
from solver.domain.nodes import Nodes

Floats = NDArray[np.float64]

STEP = 0.25
"""Standard deviation of a step by diffusion along an axis, and the longest way of a step with the flow, in spacings."""


@dataclass(frozen=True)
class Group:
    """Places that are compared together.

    Attributes
    ----------
    share : of all places.
    field_s, walkers_s : mean age, s, by a field and by the walkers from these places.
    error_s : standard error of the second.
    """

    share: float
    field_s: float
    walkers_s: float
    error_s: float

    @property
    def off(self) -> float:
        """What the field differs by, as a part of what the walkers have."""
        return self.field_s / self.walkers_s - 1


def ages_by_walkers(
    nodes: Nodes,
    velocity_m_s: NDArray[np.floating],
    diffusivity_m2_s: float,
    rows: NDArray[np.integer],
    limit_s: float,
    seed: int = 1,
) -> Arrivals:
    """How long ago the blood at nodes came in, one path from each.

    Parameters
    ----------
    nodes : the lattice and its openings.
    velocity_m_s : (N, 3) of a steady flow.
    diffusivity_m2_s : D; 0: the flow alone.
    rows : (P,) nodes from which walkers go.
    limit_s : longest time.
    seed : of the steps.
    """
    lattice, rng = Interpolation.of(nodes), np.random.default_rng(seed)
    tracer = Tracer(lattice, Field(np.zeros(1), None, lambda _: velocity_m_s), nodes.openings, 2 * STEP)
    dx_m = nodes.spacing_mm * 1e-3
    fastest = float(np.linalg.norm(velocity_m_s, axis=1).max())
    step_s = STEP * dx_m / fastest
    if diffusivity_m2_s:
        step_s = min(step_s, (STEP * dx_m) ** 2 / (2 * diffusivity_m2_s))
    start = lattice.place(nodes.points_mm()[rows])
    particles = Particles.at(start, np.zeros(len(rows)), -limit_s)
    spread = np.sqrt(2 * diffusivity_m2_s * step_s) / dx_m
    for number in range(1, int(np.ceil(limit_s / step_s)) + 1):
        on_way = np.flatnonzero(particles.state == MOVING)
        if not len(on_way):
            break
        tracer.advance(particles, max(-number * step_s, -limit_s))
        on_way = on_way[particles.state[on_way] == MOVING]
        place = particles.place[on_way] + spread * rng.standard_normal((len(on_way), 3))
        stays = _inside(lattice, place)
        particles.place[on_way[stays]] = place[stays]
    return Arrivals.of(particles, start, 0.0, limit_s)


def _inside(lattice: Interpolation, place: Floats) -> NDArray[np.bool_]:
    """Whether places, (P, 3) lattice indices, are within the wall and the caps."""
    points = lattice.points_mm(place)
    found: NDArray[np.bool_] = lattice.sample(lattice.distance[:, None], points)[:, 0] > KEPT_OFF
    for opening in lattice.nodes.openings:
        away = points - np.asarray(opening.centre_mm)
        near = np.linalg.norm(away, axis=1) < 2 * REACH * opening.radius_mm
        found &= ~near | (away @ np.asarray(opening.normal) < 0)
    return found


def compared(field_s: Floats, walkers: Arrivals, groups: Sequence[NDArray[np.bool_]]) -> list[Group]:
    """Mean ages of groups of places, by a field and by walkers. Those that were lost at a rim count in neither.

    Parameters
    ----------
    field_s : (P,) where the walkers start.
    walkers : and how they came in.
    groups : (P,) each.
    """
    found = []
    for group in groups:
        counted = group & ~walkers.lost
        times_s = walkers.time_s[counted]
        error_s = float(times_s.std(ddof=1) / np.sqrt(len(times_s)))
        found.append(Group(float(group.mean()), float(field_s[counted].mean()), float(times_s.mean()), error_s))
    return found


def by_age(field_s: Floats, count: int) -> list[NDArray[np.bool_]]:
    """Places in so many groups of equal number, from the youngest blood to the oldest, by a field, (P,)."""
    number = np.argsort(np.argsort(field_s, kind="stable"), kind="stable") * count // len(field_s)
    return [number == k for k in range(count)]
