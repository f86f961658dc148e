# SPDX-License-Identifier: Apache-2.0
"""A vessel on the lattice that sits in a network of arteries: what passes between both, and when.

A node of the network offers p = p0 - R Q, with the flow Q out of it and R = rho c/A of the pulse there: p0 is what the
wave that comes towards it would make if no flow left. The openings of the vessel take that in each step of the lattice:
an outlet gets the pressure p0 + R Q with what leaves through it, an inlet the flow (p0 - p)/R with the pressure that it
finds there (:func:`solver.boundary.openings.adjusted` and :func:`~solver.boundary.openings.admitted`). So waves pass in
both directions. The network is given the volumes that passed, so that none is lost: those that came into an inlet, and
at an outlet those of the filtered flow, with which its pressure is found, so that both sides have the same pressure and
flow. The filter is then a compliance between both, dt/(a R), which is passive: no ratio of R to the impedance of the
lattice makes the exchange unstable.

Both do intervals of so many steps, the network that of the lattice after the lattice has begun the next one, so that a
device never waits for the host. The p0 of the end of an interval is that of the wave which will come to the node by
then, two intervals after the newest state of the network: it is read off inside of it, so far from the node.

Before both are coupled the pressures that the lattice is offered are raised from the one that it begins with; meanwhile
the network is given what is missing of the flow that it had without the lattice.

Source: both impedances in place of a pressure and a flow alone, as in Formaggia, Moura and Nobile (2007),
doi:10.1051/m2an:2007039, who show when such a coupling is stable.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.driver import Driver
from solver.boundary.curves import Curve
from solver.boundary.windkessel import PASCAL_PER_MMHG, PASCAL_S_M3_PER_MMHG_S_ML
from solver.network.last_cycle import change_of, looked_at
from solver.network.run import NetworkRun
from solver.run.boundary_schedule import BoundarySchedule, raised
from solver.run.checkpoint import under
from solver.runtime.errors import StageError

Reals = NDArray[np.float64]

LEAST_EXCHANGES = 1000
"""Intervals in a cycle, at least."""


@dataclass(frozen=True)
class Cap:
    """An opening of the vessel, and the end of the network that it is coupled to.

    Attributes
    ----------
    opening : name of the opening.
    node : name of the node.
    flow_m3_s : through it, as the network had it without the lattice: into the vessel at inlets, out of it at outlets.
    pressure_pa : there, of the network without the lattice.
    """

    opening: str
    node: str
    flow_m3_s: Curve
    pressure_pa: Curve


class Coupling:
    """Couples openings of a vessel to a network.

    Parameters
    ----------
    network : whose nodes at the caps are coupled and take a flow.
    caps : of all openings that are coupled.
    boundary_schedule : of the run, which says with which impedance.
    cycle : steps of the lattice in a period, which is that of the network, too.

    Attributes
    ----------
    interval, substeps : steps of the lattice, and of the network, in an interval.

    Raises
    ------
    StageError
        If the periods differ, or a cycle of the lattice cannot be divided into intervals.
    """

    def __init__(
        self, network: NetworkRun, caps: tuple[Cap, ...], boundary_schedule: BoundarySchedule, cycle: int
    ) -> None:
        self.network, self.caps, self.boundary_schedule = network, caps, boundary_schedule
        period_s, dt_s = network.network.period_s, boundary_schedule.units.dt_s
        if abs(cycle * dt_s / period_s - 1) > 1e-9:
            raise StageError(
                f"coupling: the vessel's period is {cycle * dt_s:g} s, that of the network {network.network.name}"
                f" {period_s:g} s; let them be the same"
            )
        self.interval, self.substeps = intervals(cycle, network)
        network.set_steps(cycle // self.interval * self.substeps)
        index = [next(k for k, o in enumerate(boundary_schedule.openings) if o.name == cap.opening) for cap in caps]
        self._inlet = np.array([boundary_schedule.openings[k].role == "inlet" for k in index])
        self._column = boundary_schedule.columns[index] + 2 * self._inlet  # behind flow and squared flow
        outlets, inlets = (
            each.opening.tolist() for each in (boundary_schedule.outlet_feedback, boundary_schedule.inlet_feedback)
        )
        self._place = [(outlets + inlets).index(k) for k in index]
        self._own = PASCAL_S_M3_PER_MMHG_S_ML * np.array(
            [boundary_schedule.coupled_mmhg_s_ml[cap.opening] for cap in caps]
        )
        self._passed = np.zeros(len(caps))
        self._pending: int | None = None
        self._cycle = cycle
        self._before: tuple[Reals, Reals] | None = None
        self._changes: list[tuple[float, float]] = []
        self._cycles: list[Reals] = []
        none = np.zeros(len(caps))
        begin, *following = (self._offered(none, count) for count in range(3))
        self._ends = np.stack((begin, begin))
        self._following = deque(following)

    def advance(self, driver: Driver, first: int, last: int) -> None:
        """Run the lattice's steps after `first` up to `last`, both even, and those of the network beside them.

        Parameters
        ----------
        driver : of the lattice.
        first, last : the steps.
        """
        while first < last:
            if first % self.interval == 0:
                self._ends = np.stack((self._ends[1], self._following.popleft()))
            stop = min(last, (first // self.interval + 1) * self.interval)
            driver.advance(self._values(first, stop))
            if stop % self.interval == 0:
                self.take_in(driver)
                driver.ask_volume()
                self._pending = stop
            if stop % self._cycle == 0:
                self.take_in(driver)
                self._compare()
            first = stop

    def take_in(self, driver: Driver) -> None:
        """Take in the volumes of the last interval that was asked for, and let the network do its steps."""
        if self._pending is None:
            return
        step, self._pending = self._pending, None
        passed = driver.volume()[self._place]
        flow = (passed - self._passed) * self.boundary_schedule.units.flow_m3_s / self.interval
        self._passed = passed
        middle_s = np.array([(step - self.interval / 2) * self.boundary_schedule.units.dt_s])
        missing = 1 - float(raised(middle_s, self.boundary_schedule.ramp_s)[0])
        for cap, inlet, each in zip(self.caps, self._inlet, flow, strict=True):
            whole = each + (missing * float(cap.flow_m3_s.at(middle_s)[0]) if missing else 0.0)
            self.network.impose(cap.node, whole if inlet else -whole)
        self.network.advance(self.substeps)
        self._following.append(self._offered(flow, 2))

    def _compare(self) -> None:
        """Compare the cycle of the network with the one before, and keep what it had at the caps."""
        now = looked_at(self.network.grid, self.network.record)
        if self._before:
            self._changes.append(change_of(self._before, now))
        self._before = now
        self._cycles.append(np.array([self.network.recorded(cap.node) for cap in self.caps]))

    def differences(self, back: int = 0) -> dict[str, float]:
        """How far the network's last cycle, or one so many cycles back, differs from the one before: pressure by the
        pulse pressure, and flow by the largest, each of the worst segment.
        """
        if back >= len(self._changes):
            return {}
        return dict(zip(("network_pressure", "network_flow"), self._changes[-1 - back], strict=True))

    def _offered(self, flow: Reals, intervals_ahead: int) -> Reals:
        """Pressure p0 of each cap, so many intervals ahead, which belongs to the impedance that the lattice has there.

        Parameters
        ----------
        flow : through the caps, on which what the impedances differ by depends.
        intervals_ahead : after the state of the network.
        """
        lead_s = intervals_ahead * self.substeps * self.network.step_s
        offers = self.network.offers(lead_s)
        found = [offers[cap.node] for cap in self.caps]
        differ = np.array([each.resistance_pa_s_m3 for each in found]) - self._own
        p0 = np.array([each.pressure_pa for each in found])
        return np.where(self._inlet, p0 - differ * flow, p0 + differ * flow)

    def _values(self, first: int, last: int) -> Reals:
        """Boundary values of steps within an interval: those of the plan, and what the network offers."""
        schedule, units = self.boundary_schedule, self.boundary_schedule.units
        rows = schedule.at(first, last)
        steps = np.arange(first + 1, last + 1, dtype=np.float64)
        part = ((steps - 1) % self.interval + 1) / self.interval
        offered = self._ends[0] + np.outer(part, self._ends[1] - self._ends[0])
        ramp = raised(steps * units.dt_s, schedule.ramp_s)[:, None]
        rows[:, self._column] = ramp * (offered - schedule.reference_pa) / units.pressure_pa
        return rows

    def state(self, driver: Driver) -> dict[str, NDArray[np.generic]]:
        """All that the next steps depend on, between pairs of steps, by name."""
        self.take_in(driver)
        arrays = {f"network/{name}": array for name, array in self.network.pack().items()}
        following = np.array(self._following).reshape(-1, len(self.caps))
        arrays |= {"passed": self._passed.copy(), "ends": self._ends.copy(), "following": following}
        if self._before:
            arrays |= {"before/pressure": self._before[0], "before/flow": self._before[1]}
        cycles = np.array(self._cycles).reshape(-1, len(self.caps), 2, self.network.numerics.samples)
        return arrays | {"changes": np.array(self._changes).reshape(-1, 2), "cycles": cycles}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Go on from what :meth:`state` gave."""
        self.network.unpack(under("network/", arrays))
        self._passed, self._ends = (np.array(arrays[name], np.float64) for name in ("passed", "ends"))
        self._following = deque(np.array(arrays["following"], np.float64))
        self._pending = None
        before = under("before/", arrays)
        self._before = (before["pressure"], before["flow"]) if before else None
        self._changes = [(pressure, flow) for pressure, flow in arrays["changes"].tolist()]
        self._cycles = list(np.array(arrays["cycles"], np.float64))

    def summary(self, driver: Driver, time_s: Reals, flow_ml_s: Reals, pressure_pa: Reals) -> dict[str, Any]:
        """What both were in the last cycles, on average by phase, and what the network was without the lattice; the
        parameters are those of :meth:`solver.run.exchange.Exchange.summary`.

        Returns
        -------
        ``network`` is its name, ``interval`` and ``substeps`` are the steps of both between two exchanges, and ``caps``
        holds for each opening, by its name, ``node``, ``impedance_mmhg_s_ml``, and for each of ``alone`` (the network
        without the lattice), ``network`` and ``vessel`` the lists ``time_s``, ``flow_ml_s`` and ``pressure_mmhg``.
        Flows count into the vessel at inlets and out of it at outlets.
        """
        self.take_in(driver)
        period_s, samples = self.network.network.period_s, self.network.numerics.samples
        sampled_s = np.arange(samples) * period_s / samples
        openings = [opening.name for opening in self.boundary_schedule.openings]
        caps = {}
        last = np.mean(self._cycles[-len(time_s) :], axis=0)
        for cap, inlet, (pressure, flow) in zip(self.caps, self._inlet, last, strict=True):
            k = openings.index(cap.opening)
            caps[cap.opening] = {
                "node": cap.node,
                "impedance_mmhg_s_ml": self.boundary_schedule.coupled_mmhg_s_ml[cap.opening],
                "alone": _waveforms(sampled_s, cap.flow_m3_s.at(sampled_s), cap.pressure_pa.at(sampled_s)),
                "network": _waveforms(sampled_s, flow if inlet else -flow, pressure),
                "vessel": _waveforms(
                    time_s[0] % period_s, 1e-6 * flow_ml_s[..., k].mean(axis=0), pressure_pa[..., k].mean(axis=0)
                ),
            }
        name = self.network.network.name
        return {"network": name, "interval": self.interval, "substeps": self.substeps, "caps": caps}


def _waveforms(time_s: Reals, flow_m3_s: Reals, pressure_pa: Reals) -> dict[str, list[float]]:
    """Flow and pressure over a cycle in mL/s and mmHg, by time."""
    order = np.argsort(time_s)
    return {
        "time_s": time_s[order].tolist(),
        "flow_ml_s": (1e6 * flow_m3_s[order]).tolist(),
        "pressure_mmhg": (pressure_pa[order] / PASCAL_PER_MMHG).tolist(),
    }


def intervals(cycle: int, network: NetworkRun) -> tuple[int, int]:
    """Steps of the lattice and of the network in an interval: the longest that the network can do in one step, or
    the shortest of the lattice with several of them.

    Parameters
    ----------
    cycle : steps of the lattice in a period.
    network : which needs so many steps at least, a multiple of its samples.

    Raises
    ------
    StageError
        If no even number of the lattice's steps divides the cycle into as many parts as the network's samples need.
    """
    samples, needed = network.numerics.samples, max(network.steps_for(network.rate), LEAST_EXCHANGES)
    pairs = cycle // 2
    counts = [pairs // k for k in range(1, pairs + 1) if pairs % k == 0 and pairs // k % samples == 0]
    if not counts:
        raise StageError(
            f"coupling: a cycle of {cycle} steps has no even part that divides it into a multiple of"
            f" {samples} samples of the network; let these be fewer"
        )
    enough = [count for count in counts if count >= needed]
    exchanges = min(enough) if enough else max(counts)
    return cycle // exchanges, max(1, -(-needed // exchanges))
