# SPDX-License-Identifier: Apache-2.0
"""What the studies of the driven cavity measure, on flows of which that is known."""

from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from solver.runtime.sources import ROOT
from validation.evidence import Evidence
from validation.studies import cavity, cavity_diffusive
from validation.studies.cavity import centrelines, differences, extrema, middles, published, stream_function
from validation.studies.cavity_diffusive import corner_flow
from validation.studies.run import Run


def vortex(size: int) -> NDArray:
    """Of psi = -sin^2(pi x) sin^2(pi z)/10, at rest at all walls, (3, Z, X)."""
    x, z = np.meshgrid(middles(size), middles(size))
    u = -np.pi / 10 * np.sin(np.pi * x) ** 2 * np.sin(2 * np.pi * z)
    return np.stack((u, np.zeros_like(u), np.pi / 10 * np.sin(2 * np.pi * x) * np.sin(np.pi * z) ** 2))


def test_stream_function_is_that_of_a_known_vortex():
    """The sum over a column is the midpoint rule, exact for a whole wave, and else off by (pi h)^2/6 of its part."""
    errors = []
    for size in (20, 40):
        psi = stream_function(vortex(size))
        x, z = np.meshgrid(cavity.with_walls(size), np.arange(size + 1) / size)
        errors.append(np.abs(psi + np.sin(np.pi * x) ** 2 * np.sin(np.pi * z) ** 2 / 10).max())
    assert errors[1] < 0.1 * (np.pi / 40) ** 2 / 6 * 1.01
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.01)


def test_extrema_are_those_of_a_known_vortex():
    """The lid moves, so that u over z is looked at below it, where splines do not feel it."""
    _, _, most_v, at_most, least_v, at_least, least_psi, *middle = extrema(vortex(40))
    assert (at_most, at_least) == pytest.approx((0.25, 0.75), abs=1e-3)
    assert (most_v, least_v) == pytest.approx((np.pi / 10, -np.pi / 10), rel=2e-3)  # mean over two nodes: (pi h)^2/4
    assert least_psi == pytest.approx(-0.1, rel=2e-3)
    assert middle == pytest.approx([0.5, 0.5], abs=1e-3)


@pytest.mark.parametrize("size", [20, 21])
def test_centrelines_are_straight_where_the_flow_is(size):
    """For an even number of nodes between two of them, for an odd one on them."""
    x, z = np.meshgrid(middles(size), middles(size))
    u, v = centrelines(np.stack((z + (x - 0.5), 0 * x, (z - 0.5) * x)))
    places = np.linspace(0, 1, 17)
    np.testing.assert_allclose(u(places), places, atol=1e-12)
    np.testing.assert_allclose(v(places), 0, atol=1e-12)


def test_published_points_are_those_of_the_tables_without_misprints():
    (height, u), (along, v) = published("ghia1982", 400)
    assert (len(height), len(along)) == (17, 16)
    assert 0.9063 not in along
    assert u[list(height).index(0.5)] == -0.11477
    assert v[list(along).index(0.8594)] == -0.44993
    assert [len(place) for place, _ in published("ghia1982", 1000)] == [17, 17]
    assert published("botella1998", 1000)[0][1][8] == -0.0620561


def test_differences_are_those_that_were_put_in():
    """Into a flow whose centrelines are straight between the published points: one is as good at each of these."""
    size = 400
    (height, u), (along, v) = published("botella1998", 1000)
    field = np.zeros((3, size, size))
    field[0] = np.interp(middles(size), height, u)[:, None]
    field[2] = np.interp(middles(size), along, v)
    assert max(differences(field, "botella1998", 1000, "largest")) < 0.01  # half a spacing from a kink
    exact = differences(field, "botella1998", 1000, "l2")
    field[0, abs(middles(size) - 0.6172) < 0.02] += 0.05
    assert differences(field, "botella1998", 1000, "largest")[0] == pytest.approx(0.05, abs=1e-3)
    off = differences(field, "botella1998", 1000, "l2")
    assert off[0] == pytest.approx(np.hypot(exact[0], 0.05 / np.linalg.norm(u)), rel=0.05)
    assert off[1] == exact[1]


# ---- measures --------------------------------------------------------------------------------------------------------


def stand_in(study: str, name: str, velocity: NDArray) -> Run:
    """A run of a study with a given velocity, of the lid's."""
    given = yaml.safe_load((ROOT / "config/studies" / f"{study}.yaml").read_text())
    case = {**given["case"], "solve": given["case"]["solve"] | given["runs"][name].get("solve", {})}
    run = SimpleNamespace(
        name=name, case=parse(Case, case, name), velocity=velocity, summary={"steps": 100}, tau=0.9, speed_m_s=0.1
    )
    size = velocity.shape[1]
    z, x = np.indices((size, size)).reshape(2, -1)
    run.nodes = SimpleNamespace(position=np.column_stack((x, 0 * x, z)))
    run.spacing_m = 0.01 / size
    run.velocity_m_s = velocity.reshape(3, -1).T * cavity.lid_speed_m_s(run)
    run.layer = lambda values: values.reshape(size, size)
    return run


def cornered(size: int, power: float) -> NDArray:
    """A vortex off by h^power everywhere, and by a hundredth of the lid's speed in nodes near the lid's corners."""
    x, z = np.meshgrid(middles(size), middles(size))
    reach = np.hypot(np.minimum(x, 1 - x), 1 - z) * size
    return vortex(size) + (np.cos(3 * x) * np.cos(2 * z) * size**-power + 0.01 * np.exp(-(reach**2))) * [
        [[1]],
        [[0]],
        [[1]],
    ]


def diffusive(power: float) -> Evidence:
    evidence = Evidence("diffusive", "", "")
    runs = {str(n): stand_in("cavity-diffusive", str(n), cornered(n, power)) for n in (32, 64, 128, 256, 512)}
    options = yaml.safe_load((ROOT / "config/studies/cavity-diffusive.yaml").read_text())["options"]
    cavity_diffusive.measure(evidence, runs, parse(cavity_diffusive.Options, options, "test"))
    return evidence


def test_corners_hide_the_order_which_is_found_away_from_them():
    evidence = diffusive(2.0)
    assert [goal.reached for goal in evidence.goals] == pytest.approx([2.0, 2.0], abs=0.01)
    assert all(goal.met for goal in evidence.goals)
    _, whole, away, corner = (table["rows"] for table in evidence.tables)
    assert [row[0] for row in whole] == [32, 64, 128, 256, "order"]
    assert whole[-2][5:] == [2.29e-4, 3.23e-3]
    assert whole[-1][3:5] == pytest.approx([1, 1], abs=0.02)  # wrong by as much on all lattices, in an area of h^2
    assert whole[-1][5:] == pytest.approx([1.13, 1.32], abs=0.01)  # of the work's own figures
    near = [row[3] for row in away[:-1]]
    assert near == sorted(near)  # the finer the lattice, the more of the error lies in the corners
    assert near[-1] > 95
    assert whole[-1][1] < 1.6
    assert corner[0][2:-1] == pytest.approx([0.01 * np.exp(-0.5)] * 5, abs=0.002)
    assert corner[0][-1] == pytest.approx(-0.0352, abs=1e-4)


def test_flow_in_the_corner_holds_to_both_walls_and_keeps_its_volume():
    """Along the lid, at rest at the wall; with u_r = f', u_t = -f the derivative of u_t is -u_r."""
    assert corner_flow(0) == pytest.approx((1, 0), abs=1e-15)
    assert corner_flow(np.pi / 2) == pytest.approx((0, 0), abs=1e-15)
    angles = np.linspace(0, np.pi / 2, 1001)
    u, v = np.array([corner_flow(angle) for angle in angles]).T
    radial, around = u * np.cos(angles) - v * np.sin(angles), -u * np.sin(angles) - v * np.cos(angles)
    np.testing.assert_allclose(np.gradient(around, angles)[1:-1], -radial[1:-1], atol=1e-5)
    vorticity = np.gradient(-radial, angles)[1:-1] + around[1:-1]  # -(f'' + f), r times it: harmonic, as 1/r is not
    waves = np.linalg.lstsq(np.column_stack((np.cos(angles), np.sin(angles)))[1:-1], vorticity, rcond=None)[1]
    assert waves < 1e-6


def test_an_order_that_is_lower_everywhere_is_no_success():
    assert not any(goal.met for goal in diffusive(1.5).goals)


def test_a_cavity_is_compared_run_by_run_and_drawn():
    from matplotlib.figure import Figure

    options = {
        "reference": "ghia1982",
        "norm": "largest",
        "bounds": {"re100-32": [0.01, 3], "re400-64": [3, 3]},
        "tau": {"re400-64": 1.0},
    }
    runs = {name: stand_in("cavity-ghia", name, vortex(32)) for name in options["bounds"]}
    options["held"] = {"re100-32": {"u": 2, "why": "it is no flow under a lid"}}
    evidence = Evidence("ghia", "", "")
    cavity.measure(evidence, runs, parse(cavity.Options, options, "test"))
    assert [goal.met for goal in evidence.goals] == [False, True, True, True]
    assert [(goal.held, goal.why) for goal in evidence.goals[:2]] == [(2, "it is no flow under a lid"), (3, "")]
    assert [goal.what for goal in evidence.goals[:2]] == [
        "Re 100, 32 nodes: largest difference of u",
        "Re 100, 32 nodes: largest difference of v",
    ]
    settings = evidence.tables[0]["rows"]
    assert settings[0][5:] == ["", ""]
    assert settings[1][5:] == pytest.approx([1.0, 400 / 6 / 32])
    for draw, _ in evidence.figures:
        draw(Figure())
