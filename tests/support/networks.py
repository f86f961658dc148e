# SPDX-License-Identifier: Apache-2.0
"""Networks for tests: plain tubes, and openBF's inputs and stored results, read where they lie."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pipeline.case.settings.entry import NETWORKS
from solver.boundary.curves import Series, linear
from solver.network.arterial_walls import ElasticWall, StiffWall
from solver.network.network import Blood, Network, Segment
from solver.network.network_ends import (
    FlowInlet,
    Inlet,
    MatchedWindkessel,
    Reflection,
    Resistance,
    Terminal,
    Windkessel,
)
from solver.network.run import NetworkRun, Numerics
from solver.runtime.sources import ROOT

FOLDER = Path(os.environ.get("HEMO_NETWORKS", Path(__file__).resolve().parents[3] / "shared" / "networks"))
"""Inputs and references of other solvers."""
SHIPPED = ROOT / NETWORKS
"""Where the project's own networks lie."""
DENSITY = 1000.0
"""Of the fluid in plain tubes, kg/m^3."""


def folder() -> Path:
    if not FOLDER.is_dir():
        pytest.skip(f"no networks of other solvers at {FOLDER} (set HEMO_NETWORKS)")
    return FOLDER


def openbf(name: str, tapered: bool, start_pa: float | None = 0.0, **more: Any) -> Network:
    """A network of openBF, whose Windkessels begin empty; untapered: each segment with the radius of its start."""
    where = folder() / "openbf"
    text = yaml.safe_load((where / f"{name}.yaml").read_text())
    table = np.loadtxt(where / text.get("inlet_file", f"{name}_inlet.dat"))
    period = float(table[-1, 0])
    segments, terminals = [], {}
    nodes = [str(part[key]) for part in text["network"] for key in ("sn", "tn")]
    for part in text["network"]:
        start = float(part.get("Rp", part.get("R0", 0.0)))
        radius = (start, float(part.get("Rd", start)) if tapered else start)
        thickness = float(part["h0"]) if "h0" in part else None
        segments.append(
            Segment(
                part["label"],
                str(part["sn"]),
                str(part["tn"]),
                float(part["L"]),
                radius,
                ElasticWall(float(part["E"]), thickness),
                float(part.get("gamma_profile", 9)),
                external_pa=float(part.get("Pext", 0.0)),
            )
        )
        if nodes.count(str(part["tn"])) == 1:
            terminals[str(part["tn"])] = _terminal(part, start_pa)
    inlet = next(node for node in nodes if nodes.count(node) == 1 and node not in terminals)
    flow = np.append(table[:-1, 1], table[0, 1]) if name == "cca" else table[:, 1]
    blood = Blood(float(text["blood"]["rho"]), float(text["blood"]["mu"]))
    return Network(tuple(segments), {inlet: FlowInlet(linear(table[:, 0], flow))}, terminals, period, blood, **more)


def _terminal(part: dict[str, Any], start_pa: float | None) -> Terminal:
    first, compliance = float(part["R1"]), float(part.get("Cc", 0.0))
    second = float(part.get("R2", 0.0))
    if not compliance:
        return Resistance(first + second)
    if not second:
        return MatchedWindkessel(first, compliance, start_pa=start_pa)
    return Windkessel(first, second, compliance, start_pa=start_pa)


def reference(name: str) -> dict[str, Any]:
    """Last cycle of a network as openBF kept it: a table by name of the segment."""
    files = sorted((folder() / "openbf" / "reference" / name).glob("*.csv"))
    return {file.stem: np.genfromtxt(file, delimiter=",", names=True) for file in files}


def tube(
    length_m: float = 1.0,
    radius_m: float | tuple[float, ...] = 0.01,
    celerity_m_s: float = 5.0,
    name: str = "tube",
    nodes: tuple[str, str] = ("a", "b"),
    gamma: float = 0.0,
    **more: Any,
) -> Segment:
    """A tube by the speed of its pulse in a fluid of density 1000."""
    wall = StiffWall(2.0 * DENSITY * celerity_m_s**2, gamma)
    return Segment(name, *nodes, length_m, radius_m, wall, **more)


def single(segment: Segment, inlet: Inlet, terminal: Terminal, period_s: float = 1.0, **more: Any) -> Network:
    """A network of one tube, inviscid nearly unless blood is given."""
    more.setdefault("blood", Blood(DENSITY, 1e-12))
    return Network((segment,), {segment.start: inlet}, {segment.end: terminal}, period_s, **more)


def pulse(period_s: float, flow_m3_s: float = 1e-8, at_s: float = 0.05, width_s: float = 0.01) -> FlowInlet:
    """A small pulse of flow in the form of a bell."""
    times = np.linspace(0.0, period_s, 2001)
    flow = flow_m3_s * np.exp(-0.5 * ((times - at_s) / width_s) ** 2)
    flow[-1] = flow[0]
    return FlowInlet(linear(times, flow))


def four_tubes(junctions: str) -> Network:
    """Four tubes, two of which point towards the node where all meet, with Windkessels."""
    segments = (
        tube(0.2, (0.012, 0.01), 5.0, "in", ("a", "m")),
        tube(0.1, (0.006, 0.007), 6.0, "one", ("b", "m")),
        tube(0.2, (0.008, 0.005), 6.0, "two", ("m", "c")),
        tube(0.15, 0.006, 7.0, "three", ("m", "d")),
    )
    terminals = {
        "b": Windkessel(1e7, 2e8, 1e-9),
        "c": Windkessel(2e7, 1e8, 2e-9),
        "d": Resistance(1e8),
    }
    return Network(segments, {"a": pulse(0.8, 2e-4, 0.2, 0.05)}, terminals, 0.8, Blood(1060.0, 4e-3), junctions)


def one_cycle(network: Network, numerics: Numerics) -> NetworkRun:
    """A run after its first cycle."""
    run = NetworkRun(network, numerics)
    assert run.march(run.steps)
    return run


def cycles(network: Network, numerics: Numerics, count: int) -> NetworkRun:
    """A run after so many cycles."""
    run = one_cycle(network, numerics)
    for _ in range(count - 1):
        run.next_cycle()
        assert run.march(run.steps)
    return run


def wave_number(frequency_hz: float, gamma_pa_s_m: float, spacing_m: float, viscosity_pa_s: float = 1e-12) -> complex:
    """k in exp(i (w t -+ k x)) of small waves that run both ways along a tube, 1/m.

    Of such waves P(x + h) + P(x - h) = 2 cos(k h) P(x), whatever the end sends back.
    """
    length, apart = 4.0, round(1.0 / frequency_hz / spacing_m)
    inlet = FlowInlet(Series(1 / frequency_hz, np.array([0.0, -1e-8j])))
    blood = Blood(DENSITY, viscosity_pa_s)
    network = single(tube(length, gamma=gamma_pa_s_m), inlet, Reflection(), 1 / frequency_hz, blood=blood)
    run = cycles(network, Numerics(spacing_m, samples=64), int(length / 5.0 * frequency_hz) + 3)
    wave = np.fft.rfft(run.record.pressure[:, run.grid.first[0] : run.grid.last[0] + 1], axis=0)[1]
    reach = wave[round(0.3 / spacing_m) : round(2.0 / spacing_m)]
    middle = reach[apart:-apart]
    cosine = np.vdot(middle, reach[2 * apart :] + reach[: -2 * apart]) / np.vdot(middle, middle) / 2
    return complex(np.arccos(cosine)) / (apart * spacing_m)
