# SPDX-License-Identifier: Apache-2.0
"""A network around a vessel: a computed network out of which a piece is cut, and the file that holds it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import pi
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from solver.boundary.curves import Curve, spline
from solver.boundary.windkessel import PASCAL_S_M3_PER_MMHG_S_ML
from solver.coupling.coupling import Cap, Coupling
from solver.network.last_cycle import TreeResult
from solver.network.layout import opening_nodes
from solver.network.network import Network
from solver.network.network_ends import Coupled
from solver.network.network_json import from_json, to_json
from solver.network.run import NetworkRun, Numerics, Packed
from solver.run.boundary_schedule import BoundarySchedule
from solver.run.checkpoint import under
from solver.runtime.errors import StageError

Reals = NDArray[np.float64]

FASTER = 1.1
"""By which pulses may be faster with the vessel in place of the piece that was cut out."""
STATED, HEADER, STATE, CAPS = "network", "header", "state/", "caps/"
"""What the file holds."""


@dataclass(frozen=True)
class Around:
    """A network around a vessel, at the beginning of a cycle.

    Attributes
    ----------
    network : without the piece that the vessel replaces; a flow is given at the nodes of its caps.
    numerics : how it is computed.
    caps : openings of the vessel, the nodes that they are coupled to, and what passed there before.
    state : of the network, as :meth:`solver.network.run.NetworkRun.pack` gives it.
    impedance_mmhg_s_ml : R = rho c/A of the network at the caps, by name of the opening.
    """

    network: Network
    numerics: Numerics
    caps: tuple[Cap, ...]
    state: Packed
    impedance_mmhg_s_ml: Mapping[str, float]

    @property
    def samples(self) -> int:
        """Of a cycle."""
        return self.numerics.samples

    def couple(self, boundary_schedule: BoundarySchedule, cycle: int) -> Coupling:
        """See :class:`solver.run.exchange.Surroundings`; fails as :class:`solver.coupling.coupling.Coupling` does."""
        run = NetworkRun(self.network, self.numerics)
        run.unpack(self.state)
        return Coupling(run, self.caps, boundary_schedule, cycle)

    def write(self, path: Path) -> None:
        """Write the file."""
        caps = [{"opening": cap.opening, "node": cap.node} for cap in self.caps]
        header = {"numerics": asdict(self.numerics), "caps": caps, "impedance_mmhg_s_ml": {**self.impedance_mmhg_s_ml}}
        time_s = np.linspace(0, self.network.period_s, self.samples + 1)
        arrays = {f"{STATE}{name}": array for name, array in self.state.items()}
        arrays[f"{CAPS}time_s"] = time_s
        for cap in self.caps:
            arrays[f"{CAPS}{cap.opening}/flow_m3_s"] = cap.flow_m3_s.at(time_s)
            arrays[f"{CAPS}{cap.opening}/pressure_pa"] = cap.pressure_pa.at(time_s)
        texts = {STATED: to_json(self.network), HEADER: json.dumps(header)}
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
            for name, text in texts.items():
                file[name] = np.frombuffer(text.encode(), np.uint8)


def read_around(path: Path) -> Around:
    """The network of a file.

    Raises
    ------
    StageError
        If the file holds none.
    """
    try:
        with h5py.File(path) as file:
            names: list[str] = []
            file.visit(names.append)
            arrays: Packed = {name: file[name][()] for name in names if isinstance(file[name], h5py.Dataset)}
        header = json.loads(arrays[HEADER].tobytes())
        held = {name: np.asarray(array, np.float64) for name, array in under(CAPS, arrays).items()}
        caps = tuple(
            Cap(
                each["opening"],
                each["node"],
                *(spline(held["time_s"], held[f"{each['opening']}/{key}"]) for key in ("flow_m3_s", "pressure_pa")),
            )
            for each in header["caps"]
        )
        network = from_json(arrays[STATED].tobytes().decode())
        numerics = Numerics(**header["numerics"])
        return Around(network, numerics, caps, under(STATE, arrays), header["impedance_mmhg_s_ml"])
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise StageError(f"{path}: holds no network around a vessel ({error}); run the stage couple again") from None


def cut_out(
    result: TreeResult, numerics: Numerics, inside: frozenset[str], nodes: Mapping[str, str], inlets: frozenset[str]
) -> Around:
    """The network around a piece of one that was computed, as it is at the end of the cycle.

    Parameters
    ----------
    result : the last cycle of the whole network.
    numerics : how it was computed.
    inside : names of the segments of the piece.
    nodes : where each opening of the vessel is coupled, by its name: nodes at which a segment of the piece meets one
        that is left.
    inlets : names of those openings that are inlets.
    """
    whole, kept = result.network, tuple(s for s in result.network.segments if s.name not in inside)
    coupled = {node: Coupled("flow") for node in nodes.values()}
    network = Network(
        kept,
        whole.inlets,
        {**whole.terminals, **coupled},
        whole.period_s,
        whole.blood,
        whole.junctions,
        whole.initial_pa,
        whole.name,
        whole.sources,
    )
    run = NetworkRun(network, numerics)
    _take_over(run, result, kept={segment.name for segment in kept})
    run.rate = FASTER * result.rate
    run.set_steps(run.steps_for(run.rate))
    offers = run.offers()
    caps = tuple(_cap(result, name, node, inside, 1.0 if name in inlets else -1.0) for name, node in nodes.items())
    impedance = {name: offers[node].resistance_pa_s_m3 / PASCAL_S_M3_PER_MMHG_S_ML for name, node in nodes.items()}
    return Around(network, numerics, caps, run.pack(), impedance)


def _take_over(run: NetworkRun, result: TreeResult, kept: set[str]) -> None:
    """Put the state of the whole network into the part of it that is kept."""
    grid, whole = run.grid, result.grid
    before = [s for s, segment in enumerate(result.network.segments) if segment.name in kept]
    for own, s in enumerate(before):
        mine = slice(grid.first[own], grid.last[own] + 1)
        theirs = slice(whole.first[s], whole.last[s] + 1)
        run.state.area[mine], run.state.velocity[mine] = result.state.area[theirs], result.state.velocity[theirs]
    places = {node: k for k, node in enumerate(opening_nodes(result.network))}
    for k, node in enumerate(opening_nodes(run.network)):
        if node in places:
            run.state.stored[k] = result.state.stored[places[node]]


def _cap(result: TreeResult, opening: str, node: str, inside: frozenset[str], sign: float) -> Cap:
    """An opening at a node, with what passed there; `sign` is that of a flow out of the network, into the vessel."""
    segment = next(s for s in result.network.segments if s.name not in inside and node in (s.start, s.end))
    at_end = segment.end == node
    course = result.at(segment.name, (1.0 if at_end else 0.0,))
    flow = course.flow_m3_s[:, 0] * (sign if at_end else -sign)
    return Cap(opening, node, _closed(result, flow), _closed(result, course.pressure_pa[:, 0]))


def _closed(result: TreeResult, values: Reals) -> Curve:
    time_s = np.append(result.time_s, result.network.period_s)
    return spline(time_s, np.append(values, values[0]))


def mean_radius_m(result: TreeResult, segment: str, part: float) -> float:
    """Radius of the lumen at a place of a segment, by its mean area over the cycle.

    Parameters
    ----------
    result : of the network.
    segment : its name.
    part : place in it, as a part of its length, 0 to 1.
    """
    return float(np.sqrt(result.at(segment, (part,)).area_m2.mean() / pi))
