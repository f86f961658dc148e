# SPDX-License-Identifier: Apache-2.0
"""A network that runs: steps of a cycle, one after another, and what another solver that is coupled to it needs.

The time step divides the cycle, and a sample is kept every so many steps, so that cycles can be compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, isfinite

import numpy as np
from numpy.typing import NDArray

from solver.network.cells import SMALL_M_S, make_areas, make_fastest, make_states, make_work
from solver.network.grid import make_grid
from solver.network.junctions import make_at_ends, make_ends
from solver.network.layout import make_behind, make_junctions, make_openings, opening_nodes
from solver.network.loop import Arrays, Model, Record, Scratch, State, make_march, make_values_now
from solver.network.network import Network
from solver.network.network_ends import Coupled
from solver.runtime.errors import StageError

Reals = NDArray[np.float64]
Packed = dict[str, NDArray[np.generic]]

MOST_COURANT = 0.87
"""Above it Heun's method with a third-order stencil is not stable (Baldauf 2008, doi:10.1175/2007MWR2227.1)."""
MARGIN = 1.25
"""By which the speed of the pulse may rise above that of the state to begin with, before it is known."""


@dataclass(frozen=True)
class Numerics:
    """How a network is computed.

    Attributes
    ----------
    spacing_m : length of a cell, nearly.
    courant : largest (|u| + c) dt/dx that is aimed at.
    samples : kept of a cycle.
    """

    spacing_m: float = 4e-3
    courant: float = 0.8
    samples: int = 200


@dataclass(frozen=True)
class Thevenin:
    """What a node of a network offers to another solver: p = p0 - R Q, with the flow Q out of the network.

    Attributes
    ----------
    resistance_pa_s_m3 : R = rho c/A.
    pressure_pa : p0, pressure that the incoming wave would make if no flow left.
    """

    resistance_pa_s_m3: float
    pressure_pa: float


class NetworkRun:
    """A network, its state, and where in which cycle it is.

    Parameters
    ----------
    network : as stated.
    numerics : how it is computed.

    Attributes
    ----------
    cycle, step : number of the cycle, from 0; steps done of it.
    steps : of a cycle.
    rate : largest (|u| + c)/dx seen in the cycle, 1/s.
    record : samples of the cycle.

    Raises
    ------
    StageError
        If openings do not fit the network.
    """

    def __init__(self, network: Network, numerics: Numerics = Numerics()) -> None:
        self.network, self.numerics = network, numerics
        self.grid, linear = make_grid(network, numerics.spacing_m)
        cells, segments = len(self.grid.area), len(network.segments)
        self._march, self._now, self._fastest = make_march(linear), make_values_now(linear), make_fastest(linear)
        self._junctions, self._ends, self._work = make_junctions(network), make_ends(segments), make_work(cells)
        at_ends = make_at_ends(linear)
        reference = np.repeat([segment.offset_pa for segment in network.segments], 2)
        rest = reference if network.initial_pa is None else np.full(2 * segments, network.initial_pa)
        area, celerity = at_ends(self.grid, reference)
        rest_celerity = at_ends(self.grid, rest)[1]
        density = network.blood.density_kg_m3
        self._openings, self._behind_of = make_openings(network, density * celerity / area, rest, rest_celerity)
        self._small_pa = density * float(np.median(celerity)) * SMALL_M_S
        pressure = self.grid.offset if network.initial_pa is None else np.full(cells, network.initial_pa)
        self.state = State(
            make_areas(linear)(self.grid, pressure),
            np.zeros(cells),
            np.array([opening.start for opening in self._behind_of]),
            *np.zeros((2, len(self._behind_of))),
        )
        self._scratch = _scratch(self.state)
        self.record = _record(numerics.samples, cells, segments)
        make_states(linear)(
            self.state.area, self.grid.area, self.grid.table, self.grid.offset, self._work.stretch, self._work.pressure
        )
        self.cycle = self.step = 0
        self.rate = MARGIN * self._fastest(self.grid, self._work.stretch, self.state.velocity)
        self.set_steps(self.steps_for(self.rate))

    @property
    def step_s(self) -> float:
        """Time of a step."""
        return self.network.period_s / self.steps

    @property
    def time_s(self) -> float:
        """Time since the run began."""
        return self.network.period_s * (self.cycle + self.step / self.steps)

    def steps_for(self, rate: float) -> int:
        """Steps of a cycle, a multiple of its samples, for a largest (|u| + c)/dx, 1/s."""
        samples = self.numerics.samples
        return samples * max(1, ceil(self.network.period_s * rate / self.numerics.courant / samples))

    def set_steps(self, steps: int) -> None:
        """Divide the cycle into so many steps, a multiple of its samples; only between two cycles."""
        self.steps = steps
        self._behind = make_behind(self._behind_of, steps, self.step_s)

    def march(self, steps: int) -> bool:
        """Do steps, at most to the end of the cycle; whether the time step was short enough for all of them.

        Raises
        ------
        StageError
            If the state is not finite any more.
        """
        limit, every = MOST_COURANT / self.step_s, self.steps // self.numerics.samples
        span = (self.step, min(self.step + steps, self.steps), every)
        model = Model(self.grid, self._junctions, self._openings, self._behind)
        arrays = Arrays(self.state, self._work, self._ends, self.record, self._scratch)
        self.step, rate = self._march(model, arrays, span, self.step_s, self._small_pa, limit)
        self.rate = max(self.rate, rate)
        if not isfinite(rate):
            self._explain()
        return self.step == span[1]

    def next_cycle(self) -> None:
        """Begin the next cycle, once one is over."""
        self.cycle, self.step, self.rate = self.cycle + 1, 0, 0.0
        self.state.volume_out[:] = self.state.work_out[:] = 0.0

    def advance(self, steps: int = 1) -> None:
        """Do steps, into following cycles too, as a solver that is coupled to the network wants them.

        Raises
        ------
        StageError
            If the time step, which is not changed on the way, is too long.
        """
        while steps > 0:
            if self.step == self.steps:
                self.next_cycle()
            before = self.step
            if not self.march(steps):
                raise StageError(
                    f"network {self.network.name}: pulses run at {self.rate * self.step_s:.2f} cells a step at"
                    f" {self.time_s:.3f} s, {MOST_COURANT:g} at most are stable; lower courant"
                    f" ({self.numerics.courant:g})"
                )
            steps -= self.step - before

    @property
    def volume_m3(self) -> float:
        """Volume of blood in all segments."""
        inside = self.grid.per_length > 0.0
        return float(np.sum(self.state.area[inside] / self.grid.per_length[inside]))

    def impose(self, node: str, value: float, end_value: float | None = None) -> None:
        """Set what another solver gives at a coupled node, until it sets it again.

        Parameters
        ----------
        node : its name.
        value : flow out of the network, m^3/s, or pressure, Pa, as the node is given; at the beginning of a step.
        end_value : at the end of a step, with which the coupling is of second order in time; none: the same.

        Raises
        ------
        StageError
            If the node is not coupled.
        """
        self._behind.imposed[:, self._coupled(node)] = value, value if end_value is None else end_value

    def offers(self, lead_s: float = 0.0) -> dict[str, Thevenin]:
        """What each coupled node offers, by its name, now or after a time.

        What comes to a node within that time is in its segment already: p + R Q of the cells so far from its end as the
        wave runs, whatever leaves at the node, less the friction on that way. Taper is left out.

        Parameters
        ----------
        lead_s : the time.
        """
        pressure, outflow, impedance = self._evaluate()
        coupled = [
            (b, node) for b, (node, what) in enumerate(opening_nodes(self.network).items()) if isinstance(what, Coupled)
        ]
        return {
            node: Thevenin(float(impedance[b]), self._source(b, pressure[b], outflow[b], impedance[b], lead_s))
            for b, node in coupled
        }

    def _source(self, b: int, pressure: float, outflow: float, impedance: float, lead_s: float) -> float:
        """Pressure of the incoming wave at an opening after a time, from the cells as they were evaluated last."""
        now = pressure + impedance * outflow
        if not lead_s:
            return float(now)
        grid, (segment, at_end) = self.grid, divmod(int(self._openings.end[b]), 2)
        first, last = int(grid.first[segment]), int(grid.last[segment])
        end, inward, towards = (last, -1, impedance) if at_end else (first, 1, -impedance)
        area, velocity, pressures = self.state.area, self.state.velocity, self._work.pressure

        def incoming(k: int) -> float:
            """From the k-th cell from the end on, that of the node before it."""
            cell = end + inward * min(k, last - first)
            return float(pressures[cell] + towards * area[cell] * velocity[cell] if k >= 0 else now)

        lumen = float(area[end])
        way = (impedance * lumen / grid.density + outflow / lumen) * lead_s
        place = max(way * float(grid.per_length[first]) - 0.5, -0.5)
        k = floor(place)
        share = place - k if k >= 0 else 2 * (place - k) - 1
        slowed = grid.friction[end] / lumen + (grid.linear_loss[end] + grid.square_loss[end] * abs(outflow)) * lumen
        lost = float(grid.density * slowed * outflow / lumen * way)
        return incoming(k) + share * (incoming(k + 1) - incoming(k)) - lost

    def recorded(self, node: str) -> tuple[Reals, Reals]:
        """Pressure, Pa, and flow out of the network, m^3/s, at a coupled node over the samples of the cycle so far;
        fails as :meth:`impose` does.
        """
        end = int(self._openings.end[self._coupled(node)])
        outward = 1.0 if end % 2 else -1.0
        return self.record.end_pressure[:, end].copy(), outward * self.record.end_flow[:, end]

    def node_state(self, node: str) -> tuple[float, float]:
        """Pressure, Pa, and flow out of the network, m^3/s, at a coupled node now; fails as :meth:`impose` does."""
        b = self._coupled(node)
        pressure, outflow, _ = self._evaluate()
        return float(pressure[b]), float(outflow[b])

    def pack(self) -> Packed:
        """All that the run goes on from, as arrays by name."""
        arrays: Packed = {f"state/{name}": array.copy() for name, array in self.state._asdict().items()}
        arrays |= {f"record/{name}": array.copy() for name, array in self.record._asdict().items()}
        arrays["imposed"] = self._behind.imposed.copy()
        arrays["place"] = np.array([self.cycle, self.step, self.steps], np.int64)
        arrays["rate"] = np.array([self.rate])
        return arrays

    def unpack(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Go on from what :meth:`pack` gave."""
        self.cycle, self.step, steps = (int(number) for number in arrays["place"])
        self.set_steps(steps)
        self.rate = float(arrays["rate"][0])
        self._behind.imposed[:] = arrays["imposed"]
        for kind, arrays_of_kind in (("state", self.state), ("record", self.record)):
            for name, array in arrays_of_kind._asdict().items():
                array[:] = arrays[f"{kind}/{name}"]

    def _evaluate(self) -> tuple[Reals, Reals, Reals]:
        """Pressure, flow out and impedance of all openings now."""
        model = Model(self.grid, self._junctions, self._openings, self._behind)
        arrays = Arrays(self.state, self._work, self._ends, self.record, self._scratch)
        step = min(self.step, self.steps)
        found: tuple[Reals, Reals, Reals] = self._now(model, arrays, step, self._small_pa)
        return found

    def _coupled(self, node: str) -> int:
        nodes = opening_nodes(self.network)
        if not isinstance(nodes.get(node), Coupled):
            known = ", ".join(name for name, what in nodes.items() if isinstance(what, Coupled)) or "none"
            raise StageError(f"network {self.network.name}: node {node} is not coupled; coupled are: {known}")
        return list(nodes).index(node)

    def _explain(self) -> None:
        """Say where the state is not finite."""
        for segment, a, b in zip(self.network.segments, self.grid.first, self.grid.last, strict=True):
            inside = slice(a, b + 1)
            good = np.isfinite(self.state.velocity[inside]) & (self.state.area[inside] > 0.0)
            if not good.all():
                raise StageError(
                    f"network {self.network.name}: {segment.name} has collapsed or diverged at {self.time_s:.3f} s;"
                    " check its wall, its radii and what holds at the ends, or lower the flow"
                )
        raise StageError(f"network {self.network.name}: diverged at {self.time_s:.3f} s; check what holds at its ends")


def _scratch(state: State) -> Scratch:
    openings = len(state.stored)
    cells = [array.copy() for array in (state.area, state.velocity, state.area, state.velocity)]
    return Scratch(*cells, *np.zeros((4, openings)))


def _record(samples: int, cells: int, segments: int) -> Record:
    shapes = [(samples, cells)] * 3 + [(samples, 2 * segments)] * 3
    return Record(*(np.zeros(shape) for shape in shapes))
