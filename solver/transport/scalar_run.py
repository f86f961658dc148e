# SPDX-License-Identifier: Apache-2.0
"""Runs of a scalar in a flow: the age of blood and drug from the wall until they settle, a bolus until it has left."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.lattice import PRECISIONS
from solver.backends.scalar_driver import TransportDriver
from solver.run.checkpoint import Checkpoints, under
from solver.runtime.errors import StageError
from solver.runtime.interruption import Interruption
from solver.runtime.progress import Progress
from solver.transport.carried_flow import CarriedFlow
from solver.transport.scalar_plan import TransportPlan
from solver.transport.scalar_settings import Bolus, TransportSettings
from solver.transport.scalar_setup import make_transport_driver

Reals = NDArray[np.float64]

LEAST_UNITS = 3
"""Units of a run that settles, at least."""
PART_LEFT = 0.1
"""Part of the most that a part of the vessel held of a bolus, down to which it is followed."""


@dataclass
class Record:
    """Rows of a run, one at the end of each stretch.

    Attributes
    ----------
    rows : time in s, what all nodes hold over their number, and of each opening what left of the scalar and of fluid
        since the beginning.
    parts : mean over each part of the vessel that is watched.
    """

    rows: list[list[float]] = field(default_factory=list)
    parts: list[list[float]] = field(default_factory=list)

    def array(self) -> Reals:
        """(R, 2 + 2 openings)."""
        return np.array(self.rows, np.float64)


@dataclass(frozen=True)
class Settled:
    """A scalar that was run until it settled.

    Attributes
    ----------
    field : (N,) float32, the last one, or the mean over the last period; not a number where no scalar gets to.
    mean : over the volume.
    at_openings : (openings,) mean of what flows through each, over the last unit.
    missing : part of what is held that is expected to be missing still.
    settled : whether that is as little as was asked for.
    units : how long it ran.
    """

    field: NDArray[np.float32]
    mean: float
    at_openings: Reals
    missing: float
    settled: bool
    units: int


@dataclass(frozen=True)
class Washed:
    """A bolus that was run until it had left.

    Attributes
    ----------
    times_s : (R,) ends of the stretches.
    held : (R,) what the vessel holds, over what it would hold at the largest concentration that came in.
    parts : (R, P) the same of its parts.
    passing : (R, openings) mean concentration of what left through each opening in a stretch; not a number where
        nothing did.
    injected : (R,) what had come in, over what the vessel would hold.
    washed_out : whether it had left as far as was asked for.
    missing : part of what came in that is neither held nor has left: round-off.
    """

    times_s: Reals
    held: Reals
    parts: Reals
    passing: Reals
    injected: Reals
    washed_out: bool
    missing: float


class TransportRun:
    """Runs scalars in one flow.

    Parameters
    ----------
    flow, plan, settings : what carries, and how.
    log : of the progress.
    parts : nodes of each part of the vessel that is watched, (N,) each.
    checkpoints : where the state of the scalar of a name is kept on the way, but of the bolus, whose pictures are not
        kept: it begins again; none: nowhere.
    """

    def __init__(
        self,
        flow: CarriedFlow,
        plan: TransportPlan,
        settings: TransportSettings,
        log: logging.Logger,
        parts: Mapping[str, NDArray[np.bool_]] | None = None,
        checkpoints: Callable[[str], Checkpoints] | None = None,
    ) -> None:
        self._flow, self._plan, self._settings, self._log = flow, plan, settings, log
        self._parts, self._checkpoints = dict(parts or {}), checkpoints
        self._reached = flow.carrier.reached
        self._lattice = flow.carrier.lattice
        self._real = PRECISIONS[settings.precision]
        self.device = ""

    def age(self) -> Settled:
        """The age of blood, s: it gains a second in a second, and comes in with none."""
        return self._settle("age", source=self._plan.dt_s)

    def drug(self) -> Settled:
        """What comes in through the wall at the stated flux."""
        return self._settle("drug", wall_amount=self.wall_amount())

    def wall_amount(self) -> Reals:
        """What comes in through each link to the wall in a step."""
        per_area = self._settings.wall_flux_m_s * self._plan.dt_s / self._plan.dx_m
        return per_area * self._lattice.wall_area

    def _settle(self, name: str, source: float = 0.0, wall_amount: Reals | None = None) -> Settled:
        """Run a scalar from nothing until what the vessel holds has settled.

        What is missing still after a unit in which it grew by d, and by d' in the one before, is d^2/(d' - d), if
        the slowest part of it goes on as it does.
        """
        plan, record = self._plan, Record()
        driver = self._driver(source, wall_amount)
        units = max(LEAST_UNITS, round(self._settings.max_transits * plan.transit_s / plan.unit_s))
        mean = np.zeros(self._lattice.count)
        averaged = round(plan.period_s / plan.stretch_s) if plan.period_s else 1

        def look(stretch: int, concentration: NDArray[np.floating]) -> bool:
            within = stretch % averaged
            mean[:] = concentration if within == 0 else mean + (concentration - mean) / (within + 1)
            return (stretch + 1) % plan.stretches == 0 and self._missing(record) <= self._settings.settled

        self._run(name, driver, record, None, units, look, {"mean": mean})
        missing, rows = self._missing(record), record.array()
        openings = self._lattice.openings
        last = rows[-1, 2:] - (rows[-1 - plan.stretches, 2:] if len(rows) > plan.stretches else 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            at_openings = last[:openings] / last[openings:]
        field = np.where(self._reached, mean, np.nan).astype(np.float32)
        settled = bool(missing <= self._settings.settled)
        done = len(rows) // plan.stretches
        return Settled(field, float(mean[self._reached].mean()), at_openings, missing, settled, done)

    def _missing(self, record: Record) -> float:
        """Part that is missing still, of what is held or of what leaves, the larger; all before it can be told."""
        rows = record.array()[:: -self._plan.stretches]
        if len(rows) < LEAST_UNITS:
            return 1.0
        held, left = rows[:, 1], rows[:, 2 : 2 + self._lattice.openings].sum(axis=1) / self._reached.sum()
        grown, before, leaving = abs(held[0] - held[1]), abs(held[1] - held[2]), left[0] - left[1]
        if grown >= before:
            return float(grown > 0)
        to_come = grown * grown / (before - grown)
        return float(min(1.0, max(to_come / held[0], grown / (grown + leaving))))

    def bolus(self, bolus: Bolus, look: Callable[[float, NDArray[np.floating]], None] | None = None) -> Washed:
        """A bolus until it has left.

        Parameters
        ----------
        bolus : what comes in.
        look : is shown the time and the concentration (N,) at the end of each stretch.
        """
        plan, record, driver = self._plan, Record(), self._driver()
        duration_s = self.duration_s(bolus)
        ends_s = bolus.start_s + duration_s
        units = round((self._settings.max_transits * plan.transit_s + ends_s) / plan.unit_s)
        enters = np.array([o < 0 for o in self._flow.flows.mean(axis=0)])

        def inflow(times_s: Reals) -> Reals:
            phase = np.clip((times_s - bolus.start_s) / duration_s, 0, 1)
            rows: Reals = bolus.concentration * np.sin(np.pi * phase)[:, None] ** 2 * enters
            return rows

        def seen(stretch: int, concentration: NDArray[np.floating]) -> bool:
            time_s = (stretch + 1) * plan.stretch_s
            if look:
                look(time_s, concentration)
            came_in, parts = self._injected(record.array())[-1], np.array(record.parts)
            emptied = (parts[-1] <= PART_LEFT * parts.max(axis=0)).all()
            return bool(time_s > ends_s and emptied and record.rows[-1][1] <= self._settings.washed_out * came_in)

        self._run("bolus", driver, record, inflow, max(units, 1), seen, {})
        return self._washed(record, bolus)

    def duration_s(self, bolus: Bolus) -> float:
        """How long a bolus lasts."""
        return bolus.duration_s or self._plan.transit_s / 2

    def _injected(self, rows: Reals) -> Reals:
        """What has come in through openings that let it in on balance, over the number of nodes, (R,)."""
        enters = self._flow.flows.mean(axis=0) < 0
        found: Reals = -rows[:, 2 : 2 + self._lattice.openings][:, enters].sum(axis=1) / self._reached.sum()
        return found

    def _washed(self, record: Record, bolus: Bolus) -> Washed:
        rows, openings, count = record.array(), self._lattice.openings, self._reached.sum()
        scalar, fluid = (np.diff(each, axis=0, prepend=0.0) for each in np.split(rows[:, 2:], [openings], axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            passing = np.where(np.abs(fluid) > 0, scalar / fluid, np.nan)
        injected, held = self._injected(rows), rows[:, 1]
        left = rows[:, 2 : 2 + openings].sum(axis=1) / count
        done = bool(held[-1] <= self._settings.washed_out * injected[-1])
        scale, most = bolus.concentration, max(float(injected.max()), np.finfo(float).tiny)
        missing = float(np.abs(held + left).max() / most)
        parts = np.array(record.parts).reshape(len(rows), -1)
        return Washed(rows[:, 0], held / scale, parts / scale, passing, injected / scale, done, missing)

    def _driver(self, source: float = 0.0, wall_amount: Reals | None = None) -> TransportDriver:
        driver = make_transport_driver(
            self._settings.backend, self._lattice, self._real, self._plan.lattice_diffusivity, source, wall_amount
        )
        self.device = driver.device
        return driver

    # long because what is begun, gone on with and kept belongs to one loop
    # many parameters because both kinds of runs share it
    def _run(
        self,
        name: str,
        driver: TransportDriver,
        record: Record,
        inflow: Callable[[Reals], Reals] | None,
        units: int,
        look: Callable[[int, NDArray[np.floating]], bool],
        more: dict[str, NDArray[Any]],
    ) -> None:
        """Run stretches until `look`, which is shown the number of each and the concentration at its end, says so."""
        plan, openings = self._plan, self._lattice.openings
        checkpoints = self._checkpoints(name) if self._checkpoints and not inflow else None
        driver.advance(np.zeros((2, openings)))  # compiles, which is no progress
        ends = "it has left" if inflow else "it has settled"
        progress = Progress(self._log, units * plan.stretches, "stretches")
        faces = self._faces(0)
        driver.begin(np.zeros(self._lattice.count), faces, np.zeros(openings))
        first, ended = self._go_on(checkpoints, driver, record, more) if checkpoints else (0, False)
        with Interruption() as interruption:
            for stretch in range(first, first if ended else units * plan.stretches):
                if plan.period_s or stretch == first:
                    driver.carry_by(self._faces(stretch))
                times_s = np.asarray((stretch * plan.stretch + np.arange(plan.stretch) + 0.5) * plan.dt_s, np.float64)
                driver.advance(inflow(times_s) if inflow else np.zeros((plan.stretch, openings)))
                concentration = driver.concentration()
                self._note(driver, record, stretch, np.asarray(concentration, np.float64))
                ended = look(stretch, concentration)
                progress.update(stretch + 1, f"{name}, {record.rows[-1][1]:.4g} in the mean; ends sooner if {ends}")
                signal = interruption.number
                if checkpoints and (checkpoints.due or signal or ended):
                    _keep(checkpoints, driver, record, stretch + 1, {**more, "ended": np.array(ended)})
                if ended:
                    break
                if signal:
                    kept = "the state is kept, run the workflow again to go on" if checkpoints else "nothing is kept"
                    raise StageError(f"stopped by signal {signal} within {name}; {kept}")

    def _faces(self, stretch: int) -> NDArray[np.floating]:
        """Flow of a stretch, lattice units."""
        scale = self._plan.dt_s / self._plan.dx_m
        return self._flow.at(self._plan.middle_s(stretch * self._plan.stretch_s)) * np.float32(scale)

    def _note(self, driver: TransportDriver, record: Record, stretch: int, concentration: Reals) -> None:
        """A row of the record."""
        count = self._reached.sum()
        if not np.isfinite(concentration).all():
            raise StageError(
                "transport: the scalar diverges; lower transport.grid_peclet, or choose a finer voxelize.spacing_mm"
            )
        scalar, fluid = driver.left()
        time_s = (stretch + 1) * self._plan.stretch_s
        record.rows.append([time_s, concentration[self._reached].sum() / count, *scalar, *fluid])
        record.parts.append([float(concentration[part & self._reached].mean()) for part in self._parts.values()])

    def _go_on(
        self, checkpoints: Checkpoints, driver: TransportDriver, record: Record, more: Mapping[str, NDArray[Any]]
    ) -> tuple[int, bool]:
        """Go on from a checkpoint where there is one; the number of the next stretch, and whether there is none."""
        state = checkpoints.newest(lambda: {f"driver/{key}": array for key, array in driver.state().items()})
        if state is None:
            return 0, False
        driver.restore(under("driver/", state.arrays))
        for key in more:
            more[key][:] = state.arrays[f"more/{key}"]
        record.rows[:], record.parts[:] = state.arrays["rows"].tolist(), state.arrays["parts"].tolist()
        self._log.info("going on from stretch %d", state.step)
        return state.step, bool(state.arrays["more/ended"])


def _keep(
    checkpoints: Checkpoints, driver: TransportDriver, record: Record, stretch: int, more: Mapping[str, NDArray[Any]]
) -> None:
    """Write a checkpoint."""
    arrays = {f"driver/{key}": array for key, array in driver.state().items()}
    arrays |= {f"more/{key}": array for key, array in more.items()}
    parts = np.array(record.parts).reshape(len(record.rows), -1)
    checkpoints.write(stretch, arrays | {"rows": record.array(), "parts": parts}, {})
