# SPDX-License-Identifier: Apache-2.0
"""The wall of a vessel in place of its lumen, drawn at random after the limits: the inner surface counts."""

import logging
import re

import numpy as np
import pytest

from pipeline.files.mesh import Mesh
from pipeline.files.surface_file import SurfaceFile
from pipeline.geometry.given_surface import GivenSurface
from pipeline.stages.import_surface import import_surface
from solver.runtime.errors import StageError
from tests.support.shapes import joined, revolve
from tests.support.swept import arc, forked, moved, swept
from tests.support.tubes import rotation

LOG = logging.getLogger("test")


def brought_in(mesh: Mesh):
    return import_surface(SurfaceFile(mesh.points_mm, mesh.triangles, None), GivenSurface(unit="mm"), LOG)


def wall(seed: int, kind: str) -> tuple[Mesh, Mesh, float]:
    """A wall of 0.1 to 0.6 radii around a bent, tapered tube; this tube; and the thickness.

    `kind`: ``rings`` join both surfaces at the ends, ``open`` has none, ``nested`` closes each with flat caps, the
    outer one beyond the inner.
    """
    rng = np.random.default_rng(seed)
    radius, around = rng.uniform(0.8, 8), int(rng.choice([8, 12, 24, 40]))
    thick, length, bend = (
        rng.uniform(0.1, 0.6) * radius,
        radius * rng.uniform(8, 16),
        rng.choice([0, rng.uniform(0.3, 1)]),
    )
    rings = max(5, int(length * around / (2 * np.pi * radius)))
    line = arc(length / bend, bend, rings) if bend else np.linspace(0, 1, rings)[:, None] * [0.0, 0.0, length]
    width = radius * np.linspace(1, rng.uniform(0.75, 1), rings)
    inner, _ = swept(line, width, around)
    outer, _ = swept(line, width + thick, around)
    if kind == "nested":
        ahead = np.array([line[0] - line[1], line[-1] - line[-2]])
        ahead *= thick / np.linalg.norm(ahead, axis=1, keepdims=True)
        beyond = np.concatenate([line[:1] + ahead[:1], line, line[-1:] + ahead[1:]])
        outer, _ = swept(beyond, np.concatenate([width[:1], width, width[-1:]]) + thick, around)
        both = joined(outer, inner)
    elif kind == "open":
        both = joined(outer, inner)
        both = Mesh(both.points_mm, both.triangles[both.opening == 0], both.opening[both.opening == 0])
    else:
        start, a = len(outer.points_mm), np.arange(around)
        walls = [outer.triangles[outer.opening == 0], inner.triangles[inner.opening == 0][:, ::-1] + start]
        for low in (0, (rings - 1) * around):
            near, far = low + a, low + (a + 1) % around
            walls += [np.stack([near, far + start, far], 1), np.stack([near, near + start, far + start], 1)]
        triangles = np.concatenate(walls)  # whatever way round: repaired
        both = Mesh(np.concatenate([outer.points_mm, inner.points_mm]), triangles, np.zeros(len(triangles), np.int8))
    turn, shift = rotation(int(rng.integers(1 << 30))), rng.uniform(-40, 40, 3)
    return moved(both, turn, shift), moved(inner, turn, shift), thick


def require_lumen(seed: int, kind: str) -> None:
    given, lumen, thick = wall(seed, kind)
    surface = brought_in(given)
    assert surface.mesh.volume_mm3() == pytest.approx(lumen.volume_mm3(), rel=1e-6)
    assert len(surface.openings) == 2
    assert 0.8 * thick < surface.quality["wall_mm"] < 1.05 * thick  # less between corners of few


@pytest.mark.parametrize("kind", ["rings", "open", "nested"])
def test_of_a_wall_the_lumen_is_taken_and_the_log_says_so(kind, caplog):
    for seed in (7020, 7021):
        require_lumen(seed, kind)
    assert "is the wall of a vessel, about" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(7400, 7440))
@pytest.mark.parametrize("kind", ["rings", "open", "nested"])
def test_many_walls(seed, kind):
    require_lumen(seed, kind)


def test_a_fork_with_a_wall_loses_its_rings():
    """Three rings: two forks, the smaller within the larger, cut by the same planes."""
    ways = [(0, 0, -14), (9, 0, 13), (-10, 1, 12)]
    forks = []
    for radius in (2.0, 2.8):
        tubes = [(name, "outlet", np.array(way), radius) for name, way in zip("abc", ways, strict=True)]
        forks.append(forked(tubes, 0.4)[0])
    inner, outer = forks
    two = joined(Mesh(inner.points_mm, inner.triangles[:, ::-1], inner.opening), outer)
    open_ends = Mesh(two.points_mm, two.triangles[two.opening == 0], two.opening[two.opening == 0])
    surface = brought_in(open_ends)
    assert surface.mesh.volume_mm3() == pytest.approx(inner.volume_mm3(), rel=2e-3)
    assert surface.quality["wall_mm"] == pytest.approx(0.8, rel=0.1)


@pytest.mark.parametrize("seed", [7030, pytest.param(7031, marks=pytest.mark.slow)])
def test_a_wall_with_round_rims_is_refused_by_its_name(seed):
    rng = np.random.default_rng(seed)
    radius, around = rng.uniform(2, 6), np.linspace(0, 2 * np.pi, 25)[:-1]
    thick = rng.uniform(0.4, 0.6) * radius
    across = radius + thick / 2 * (1 + np.cos(around))
    along = np.where(np.sin(around) > 0, 4 * radius, -4 * radius) + thick / 2 * np.sin(around)
    mesh = revolve(across, along, [0] * len(around), rng.normal(size=3), rng.uniform(-40, 40, 3), 40)
    with pytest.raises(
        StageError, match=r"0 open ends.*wall of a vessel, about (\S+) mm thick, give its inner"
    ) as said:
        brought_in(mesh)
    assert float(re.search(r"about (\S+) mm", str(said.value))[1]) == pytest.approx(thick, rel=0.15)


@pytest.mark.parametrize("seed", [7210, 7211])
def test_two_vessels_are_no_wall(seed):
    """Beside each other, or a small thing within a vessel, as a catheter: refused as before."""
    rng = np.random.default_rng(seed)
    vessel, _ = swept(np.linspace(0, 1, 20)[:, None] * [0.0, 0, 40], 4.0, 24)
    beside = moved(vessel, np.eye(3), (9.0, 0, 0))
    inside = swept(np.linspace(0.2, 0.8, 9)[:, None] * [0.0, 0, 40] + [rng.uniform(2, 2.6), 0, 0], 0.8, 12)[0]
    for other in (beside, inside):
        with pytest.raises(StageError, match="pieces that share no edge"):
            brought_in(joined(vessel, other))
