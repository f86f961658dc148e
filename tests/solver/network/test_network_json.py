# SPDX-License-Identifier: Apache-2.0
"""A network goes through JSON with every bit; what is none is refused in words."""

import numpy as np
import pytest

from pipeline.network.for_solver import for_solver
from pipeline.network.network_file import read_network
from solver.boundary.curves import constant, fourier, linear
from solver.network.arterial_walls import ElasticWall, FibreWall, OlufsenWall, StiffWall
from solver.network.cycles import Until, identity
from solver.network.network import Network, Segment, Stenosis
from solver.network.network_ends import (
    Coupled,
    FlowInlet,
    Heart,
    MatchedWindkessel,
    PressureOpening,
    Reflection,
    Resistance,
    Windkessel,
    double_hill,
)
from solver.network.network_json import from_json, to_json
from solver.network.run import Numerics
from solver.runtime.errors import StageError
from tests.support.networks import SHIPPED


def same(one: Network, other: Network) -> bool:
    """By what the checkpoints of a run are known by, which holds every number in full."""
    return identity(one, Numerics(), Until()) == identity(other, Numerics(), Until())


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.yaml")), ids=lambda file: file.stem)
def test_shipped_networks_come_back_with_every_bit(file, monkeypatch):
    monkeypatch.chdir(SHIPPED.parents[1])
    stated = for_solver(read_network(file), file.stem)
    assert same(stated, from_json(to_json(stated)))


def test_all_walls_and_openings_come_back():
    time = np.linspace(0, 0.9, 12)
    walls = (
        ElasticWall(4e5, (1e-3, 0.8e-3), viscous_pa_s_m=(0.1, 0.2)),
        StiffWall(5e4),
        OlufsenWall(2e6, -2000.0, 8e4),
        FibreWall(4e5, 1e6, 0.2, 0.03),
        ElasticWall(3e5),
        StiffWall(1 / 3),
    )
    names = "abcdefg"
    narrow = Stenosis(2e-3, 1e-3)
    segments = [
        Segment(f"s{k}", "m" if k else "a", "m" if not k else names[k], 0.1, 2e-3 + 1e-4 / 3, wall, stenosis=narrow)
        for k, wall in enumerate(walls)
    ]
    terminals = {
        "b": Windkessel(1e7, 2e8, 1e-9, start_pa=9e3),
        "c": MatchedWindkessel(3e8, 1e-9),
        "d": Reflection(-0.25),
        "e": PressureOpening(fourier(time, np.sin(2 * np.pi * time / 0.9))),
        "f": Coupled("flow"),
    }
    heart = Heart(double_hill(6.7e6, 3.3e8, 0.9), 1e-5, 1100.0, 7e5, 1e6, 3e9, 1.2e-4)
    for inlet in (heart, FlowInlet(linear(time, np.append(np.arange(11.0), 0.0)))):
        tree = Network(tuple(segments), {"a": inlet}, terminals, 0.9, sources={"all": "made up"})
        assert same(tree, from_json(to_json(tree)))
    other = Network(tuple(segments), {"a": heart}, terminals | {"b": Resistance(1e8)}, 0.9)
    assert not same(tree, other)


def test_constant_curves_come_back():
    tree = Network(
        (Segment("s", "a", "b", 0.1, 2e-3, StiffWall(1e5)),),
        {"a": FlowInlet(constant(1e-6))},
        {"b": Resistance(1e8)},
        1.0,
    )
    assert same(tree, from_json(to_json(tree)))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"is": "Blood"}', '{"is": "Path"}', '{"is": "Network"}'])
def test_what_is_no_network_is_refused(text):
    with pytest.raises(StageError, match="not a network as JSON"):
        from_json(text)
