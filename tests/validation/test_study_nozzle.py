# SPDX-License-Identifier: Apache-2.0
"""What the studies of a jet and of isotropy measure of flows that are known."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.case.shapes import Bend, Nozzle, Pipe
from solver.runtime.errors import StageError
from validation.evidence import Evidence
from validation.studies import isotropy, nozzle, rings
from validation.studies.nozzle import Jet, outside, spread
from validation.studies.rings import fitted
from validation.studies.run import Run

SPACING_MM, RADIUS_MM, PEAK_M_S = 0.25, 6.0, 0.7
DIRECTIONS = [(0, 0, 1), (1, 1, 0), (1, 2, 3)]

MODELS = {"velocity_set": "D3Q19", "collision": "trt"}


def made_up(shape, velocity, name="made-up", equilibrium="incompressible", spacing_mm=SPACING_MM):
    """A run with nodes within the wall about the step, and a velocity along the axis by place, radius and angle."""
    reach = np.abs(shape.unit) * 12 + RADIUS_MM
    grids = [np.arange(-r, r, spacing_mm) + 0.3 * spacing_mm for r in reach]
    points = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, 3)
    along = points @ shape.unit
    away = np.linalg.norm(points - np.outer(along, shape.unit), axis=1)
    radius = np.where(along < 0, shape.radius_mm, shape.outlet_diameter_mm / 2)
    points = points[(away < radius) & (np.abs(along) < 10)]
    across = points @ shape.turn[:, 1:]
    speed = velocity(points @ shape.unit, np.hypot(*across.T), np.arctan2(across[:, 1], across[:, 0]))
    solve = SimpleNamespace(equilibrium=equilibrium, steady_tolerance=1e-3)
    return SimpleNamespace(
        name=name,
        case=SimpleNamespace(input=SimpleNamespace(geometry=shape), solve=solve),
        nodes=SimpleNamespace(points_mm=lambda: points, spacing_mm=spacing_mm, count=len(points)),
        velocity_m_s=speed[:, None] * shape.unit,
        summary={"residual": 5e-4, "steps": 100, "numbers": {"grid_reynolds": 50.0}, "models": MODELS},
    )


def nozzle_along(direction) -> Nozzle:
    return Nozzle(shape="nozzle", diameter_mm=4, outlet_diameter_mm=2 * RADIUS_MM, outlet_mm=80, direction=direction)


def jet(width: float, two: float = 0.0, four: float = 0.0, peak: float = PEAK_M_S):
    """A Gaussian jet of a half-width, mm, with parts that depend on the angle, of the peak."""

    def velocity(along, r, angle):
        round_part = np.exp(-np.log(2) * (r / width) ** 2)
        shape = (r / 2) ** 4 * np.exp(1 - (r / 2) ** 4)  # largest at 2 mm, there 1
        return peak * (round_part + shape * (two * np.cos(2 * angle + 0.4) + four * np.sin(4 * angle)))

    return velocity


def test_quadratics_are_found_exactly():
    rng = np.random.default_rng(1)
    points, places = rng.uniform(-5, 5, (3000, 3)), rng.uniform(-4, 4, (50, 3))
    form, slope = rng.standard_normal((3, 3)), rng.standard_normal(3)

    def quadratic(at):
        return 2 + at @ slope + np.einsum("ni,ij,nj->n", at, form, at)

    np.testing.assert_allclose(fitted(points, quadratic(points), places), quadratic(places), atol=1e-10)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_parts_and_half_width_are_those_put_in(direction):
    """Whatever the direction, the lattice of a quarter of a millimetre tells them to less than a thousandth."""
    run = made_up(nozzle_along(direction), jet(1.5, two=0.02, four=0.05))
    found = Jet(run).rings(5.0)
    assert found.centre == pytest.approx(PEAK_M_S, rel=2e-3)
    assert found.half_width == pytest.approx(1.5, abs=3e-3)
    assert found.fold(2) / found.centre == pytest.approx(0.02, abs=1e-3)
    assert found.fold(4) / found.centre == pytest.approx(0.05, abs=1e-3)
    assert max(found.fold(m) for m in (1, 3)) < 1e-3 * PEAK_M_S
    # both parts together, of cos(2 a + 0.4)/50 + sin(4 a)/20
    angle = np.linspace(0, 2 * np.pi, 10_001)
    largest = np.abs(0.02 * np.cos(2 * angle + 0.4) + 0.05 * np.sin(4 * angle)).max()
    assert found.uneven / found.centre == pytest.approx(largest, abs=2e-3)


def test_what_is_not_mirrored_is_found():
    """At the line at which angles begin: of cos 2 a nothing, of sin 2 a all."""
    run = made_up(nozzle_along((1, 2, 3)), lambda along, r, angle: 1 + 0.1 * (r / 6) ** 2 * np.cos(2 * angle))
    turned = made_up(nozzle_along((1, 2, 3)), lambda along, r, angle: 1 + 0.1 * (r / 6) ** 2 * np.sin(2 * angle))
    assert Jet(run).rings(5.0).lopsided < 1e-9
    wanted = 0.1 * (Jet(turned).rings(5.0).radii[-1] / 6) ** 2
    assert Jet(turned).rings(5.0).lopsided == pytest.approx(wanted, rel=1e-6)


def test_a_parabola_in_the_throat_has_its_half_width_up_to_the_wall():
    run = made_up(nozzle_along((1, 2, 3)), lambda along, r, angle: 1 - (r / 2) ** 2)
    found = Jet(run).rings(-4.0)
    assert found.half_width == pytest.approx(2 / 2**0.5, abs=1e-3)
    assert found.radii[-1] > 2 - SPACING_MM
    assert np.isnan(rings.Rings(found.radii, 1 + found.speed).half_width)


def test_ranges_and_differences():
    low, high = np.array((1.0, 2.0)), np.array((1.5, 2.5))
    np.testing.assert_allclose(outside(np.array((0.98, 2.55)), low, high), (0.02, 0.02))
    assert (outside(np.array((1.2, 2.2)), low, high) < 0).all()
    assert spread([np.array((1.0, 2.0)), np.array((1.1, 2.0))]) == pytest.approx(0.1 / 1.05)


@pytest.fixture
def table(monkeypatch):
    """Laboratories that found the jet of 0.7 m/s and 1.5 mm to a per cent."""
    names = ("axis_min_m_s", "axis_max_m_s", "half_width_min_mm", "half_width_max_mm")
    columns = zip(names, (0.693, 0.707, 1.485, 1.515), strict=True)
    places = np.array((1.0, 5.0, 8.0))
    wanted = {"z_mm": places} | {name: np.full(3, value) for name, value in columns}
    monkeypatch.setattr(nozzle, "read_reference", lambda name: wanted)


def test_measure_asks_for_what_was_put_in(table, tmp_path):
    runs = {
        "z": made_up(nozzle_along((0, 0, 1)), jet(1.5), "z"),
        "askew": made_up(nozzle_along((1, 2, 3)), jet(1.6, two=0.03, peak=0.75), "askew"),
        "before": made_up(nozzle_along((1, 2, 3)), jet(1.2, two=0.2), "before", "incompressible-standard"),
    }
    evidence = Evidence("made-up", "made up", "formulas")
    options = nozzle.Options(reference="made up", stations_mm=(1, 5, 8), round_mm=5, nodes=16)
    nozzle.measure(evidence, runs, options)
    found = {goal.what: goal.reached for goal in evidence.goals}
    assert not any(what.startswith("before") for what in found)  # shown beside the others, no goal
    left = "outside of the laboratories' range by"
    assert found[f"z: speed on the axis, {left}"] < 0.005
    assert found[f"askew: speed on the axis, {left}"] == pytest.approx(0.75 / 0.707 - 1, abs=3e-3)
    assert found[f"askew: half-width, {left}"] == pytest.approx(1.6 / 1.515 - 1, abs=5e-3)
    assert found["askew: 2-fold part at 5 mm, of the speed on the axis"] == pytest.approx(0.03, abs=1e-3)
    assert found["askew: 4-fold part at 5 mm, of the speed on the axis"] < 1e-3
    assert found["16 nodes: difference between directions, speed on the axis"] == pytest.approx(0.05 / 0.725, abs=3e-3)
    assert found["16 nodes: difference between directions, half-width"] == pytest.approx(0.1 / 1.55, abs=3e-3)
    assert found["z: residual"] == 5e-4
    evidence.keep(tmp_path / "record.json", tmp_path / "nozzle", "studies", made={})
    assert (tmp_path / "nozzle.png").is_file()


def test_run_that_is_no_nozzle_is_refused():
    run = SimpleNamespace(
        name="pipe",
        case=SimpleNamespace(input=SimpleNamespace(geometry=Pipe(shape="pipe", diameter_mm=1, length_mm=1))),
    )
    with pytest.raises(StageError, match="run pipe: its geometry is no nozzle"):
        _ = Jet(run).shape


# ---- isotropy --------------------------------------------------------------------------------------------------------


def flow_in(shape, wave: float, name: str, standard: bool = False) -> Run:
    """A parabola along a straight pipe, or behind a bend, with a wave around the axis, of its peak."""
    turn = shape.turn
    start, along, side = np.zeros(3), turn[:, 0], turn[:, 2]
    if isinstance(shape, Bend):
        angle = np.radians(shape.angle_deg)
        start = shape.bend_radius_mm * (np.sin(angle) * along + (1 - np.cos(angle)) * side)
        along, side = np.cos(angle) * along + np.sin(angle) * side, np.cos(angle) * side - np.sin(angle) * along
    radius = shape.outlet_diameter_mm / 2 if isinstance(shape, Nozzle) else shape.radius_mm
    far = start + along * 3 * shape.diameter_mm
    low, high = np.minimum(start, far) - radius - 1, np.maximum(start, far) + radius + 1
    points = np.stack(np.meshgrid(*map(np.arange, low, high), indexing="ij"), axis=-1).reshape(-1, 3)
    up = np.cross(along, side)
    x, y = (points - start) @ side, (points - start) @ up
    part = (x**2 + y**2) / radius**2
    points, part, angle = points[part < 1], part[part < 1], np.arctan2(y, x)[part < 1]
    speed = 1 - part + wave * part * (1 - part) * 4 * np.sin(angle)  # largest half-way to the wall, by the area
    solve = SimpleNamespace(equilibrium="incompressible" + isotropy.STANDARD * standard)
    run = Run(name, SimpleNamespace(input=SimpleNamespace(geometry=shape), solve=solve), Path())
    nodes = SimpleNamespace(points_mm=lambda: points, spacing_mm=1.0, count=len(points))
    summary = {"residual": 1e-4, "numbers": {"grid_reynolds": 30.0}, "models": MODELS}
    run.__dict__.update(nodes=nodes, velocity_m_s=speed[:, None] * along, summary=summary)
    return run


SHAPES = {
    "pipe": Pipe(shape="pipe", diameter_mm=30, length_mm=100, direction=(1, 1, 0)),
    "bend": Bend(shape="bend", diameter_mm=30, bend_radius_mm=40, outlet_mm=100, direction=(1, 2, 3)),
    "nozzle": Nozzle(shape="nozzle", diameter_mm=16, outlet_diameter_mm=32, direction=(1, 1, 1)),
}
PLACES = isotropy.Options(pipe=(1, 2), bend=(1, 2), nozzle=(1, 2), uneven=dict.fromkeys(SHAPES, 0.03))


@pytest.mark.parametrize("kind", SHAPES)
def test_deviation_is_the_wave_that_was_put_in(kind):
    """In a bend one that is odd about its plane, which angle 0 is in."""
    run = flow_in(SHAPES[kind], 0.05, kind)
    assert isotropy.Flow(run, PLACES).deviation == pytest.approx(0.05, rel=0.02)
    assert isotropy.Flow(flow_in(SHAPES[kind], 0.0, kind), PLACES).deviation < 1e-9


def test_equilibria_are_compared_by_their_runs(tmp_path):
    runs = {f"{kind}-a": flow_in(shape, 0.01, kind) for kind, shape in SHAPES.items()}
    before = {f"{kind}-a-standard": flow_in(shape, 0.04, kind, standard=True) for kind, shape in SHAPES.items()}
    evidence = Evidence("made-up", "made up", "formulas")
    isotropy.measure(evidence, runs | before, PLACES)
    found = {goal.what: goal.reached for goal in evidence.goals}
    for kind in SHAPES:
        assert found[f"{kind}: largest deviation over all runs"] == pytest.approx(0.01, rel=0.05)
        assert found[f"{kind}: that of the standard equilibrium over it"] == pytest.approx(4, rel=0.05)
    assert [row[0] for row in evidence.tables[0]["rows"]] == list(SHAPES)
    evidence.keep(tmp_path / "record.json", tmp_path / "isotropy", "studies", made={})
    assert (tmp_path / "isotropy.png").is_file()
    with pytest.raises(StageError, match="runs: pipe-a is there with one equilibrium"):
        isotropy.measure(evidence, {"pipe-a": runs["pipe-a"]}, PLACES)
