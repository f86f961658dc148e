# SPDX-License-Identifier: Apache-2.0
"""A network to its end: cycles until one repeats the one before, watched, kept on the way, and told.

What a run does depends on its state alone: one that goes on from a checkpoint ends with the same bits.
"""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.kernels.compilation import source
from solver.network.last_cycle import TreeResult, balance_of, change_of, looked_at, losses_j
from solver.network.layout import opening_nodes
from solver.network.network import Network
from solver.network.run import NetworkRun, Numerics, Packed
from solver.run.checkpoint import Checkpoints, under
from solver.runtime.errors import StageError
from solver.runtime.interruption import Interruption
from solver.runtime.progress import Progress

Reals = NDArray[np.float64]

CHUNKS = 20
"""Parts of a cycle, after each of which progress is told and a signal is heard."""
FASTER = 1.05
"""By which a time step is shortened beyond what the pulse's speed asks for, where it was too long."""
MOST_AGAIN = 8
"""Times that a run may begin a cycle again."""
COARSER = 0.9
"""Part of the steps of a cycle below which fewer are taken in the next one."""
NUMBERS = 10_000_000
"""More than the steps of a cycle, by which checkpoints are numbered."""


@dataclass(frozen=True)
class Until:
    """When a run ends.

    Attributes
    ----------
    tolerance : change from one cycle to the next, of the segment's pulse pressure and of its largest flow, below which
        the cycles repeat.
    least_cycles, most_cycles : that are computed.
    unsettled : what becomes of a run whose cycles do not repeat: ``refuse`` or ``report``.
    """

    tolerance: float = 1e-3
    least_cycles: int = 2
    most_cycles: int = 30
    unsettled: str = "refuse"


def identity(network: Network, numerics: Numerics, until: Until) -> str:
    """What the bits of a run depend on; where it ends at the latest is left out: raised limits go on.

    Parameters
    ----------
    network : that is computed.
    numerics : spacing and time step.
    until : when the run ends.
    """
    return hashlib.sha256(f"{_flat(network)} {numerics} {until.tolerance} {source()}".encode()).hexdigest()


def _flat(value: Any) -> str:
    """A value as text, of arrays every number."""
    if is_dataclass(value):
        inner = ", ".join(f"{each.name}={_flat(getattr(value, each.name))}" for each in fields(value))
        return f"{type(value).__name__}({inner})"
    if isinstance(value, np.ndarray):
        return value.tobytes().hex()
    if isinstance(value, Mapping):
        return str([(key, _flat(each)) for key, each in value.items()])
    if isinstance(value, tuple):
        return f"({', '.join(map(_flat, value))})"
    return repr(value)


def solve_network(
    network: Network,
    numerics: Numerics,
    until: Until,
    log: logging.Logger,
    checkpoints: Checkpoints | None = None,
) -> TreeResult:
    """Compute cycles of a network until they repeat.

    Parameters
    ----------
    network : as stated.
    numerics : how it is computed.
    until : when it ends.
    log : where progress goes.
    checkpoints : where the state is kept on the way, by :func:`identity`; none: nowhere.

    Raises
    ------
    StageError
        If openings do not fit the network, the flow diverges, cycles do not repeat where that is refused, or a signal
        stops the run.
    """
    cycles = Cycles(NetworkRun(network, numerics), until, log, checkpoints)
    cycles.go_on()
    with Interruption() as interruption:
        while not cycles.ended:
            cycles.compute(interruption)
    result = cycles.result()
    if not result.converged:
        _tell_unsettled(result, until, log)
    if checkpoints:
        checkpoints.remove()
    return result


def _tell_unsettled(result: TreeResult, until: Until, log: logging.Logger) -> None:
    pressure, flow = result.changes[-1] if len(result.changes) else (np.inf, np.inf)
    text = (
        f"network {result.network.name}: after {result.cycles} cycles pressure still changes by {100 * pressure:.2g} %"
        f" of the pulse pressure and flow by {100 * flow:.2g} % of the largest from one cycle to the next;"
        f" {100 * until.tolerance:.2g} % is asked for"
    )
    if until.unsettled == "refuse":
        raise StageError(f"{text}; raise most_cycles, or let unsettled be report")
    log.warning("warning: %s", text)


@dataclass
class Cycles:
    """Cycles of a run.

    Attributes
    ----------
    run : the network that runs.
    until : when it ends.
    log : where progress goes.
    checkpoints : where the state is kept; none: nowhere.
    changes : from each cycle to the next, of pressure and flow.
    ended : whether there is nothing left to compute.
    """

    run: NetworkRun
    until: Until
    log: logging.Logger
    checkpoints: Checkpoints | None = None
    changes: list[tuple[float, float]] = field(default_factory=list)
    ended: bool = False
    _before: tuple[Reals, Reals] | None = None
    """What was looked at in the cycle before."""
    _agains: int = 0
    """How often a cycle was begun again."""

    def __post_init__(self) -> None:
        self.run.march(0)  # compiles, which else would count as time of the first steps
        self._begun, self._volume = self.run.pack(), self.run.volume_m3
        self._progress = self._new_progress()

    @property
    def converged(self) -> bool:
        """Whether the last cycle repeats the one before."""
        return bool(self.changes) and max(self.changes[-1]) <= self.until.tolerance

    def compute(self, interruption: Interruption) -> None:
        """Compute the rest of a cycle, again with shorter steps where they were too long, and judge it.

        Raises
        ------
        StageError
            If the flow diverges, or a signal stops the run.
        """
        run = self.run
        chunk = run.steps // CHUNKS
        while run.step < run.steps:
            if not run.march(chunk):
                self._again()
                chunk = run.steps // CHUNKS
            done = run.cycle * run.steps + run.step
            self._progress.update(done, f"cycle {run.cycle + 1} of {self.until.most_cycles} at most")
            if self.checkpoints and (self.checkpoints.due or interruption.number):
                self._keep(self.checkpoints)
            if interruption.number:
                kept = "the state is kept, run again to go on" if self.checkpoints else "nothing is kept"
                raise StageError(f"stopped by signal {interruption.number} in cycle {run.cycle + 1}; {kept}")
        self._judge()

    def result(self) -> TreeResult:
        """The last cycle."""
        run = self.run
        lost = losses_j(run.grid, run.record, run.network.period_s)
        nodes = tuple(opening_nodes(run.network))
        times = np.linspace(0.0, run.network.period_s, run.numerics.samples, endpoint=False)
        return TreeResult(
            run.network,
            times,
            run.grid,
            run.record,
            run.cycle + 1,
            np.array(self.changes).reshape(-1, 2),
            self.converged,
            balance_of(nodes, run.state, run.volume_m3 - self._volume, lost),
            run.state,
            run.rate,
        )

    def go_on(self) -> None:
        """Take in the newest checkpoint of this run; remove those that are of no use."""
        if not self.checkpoints:
            return
        state = self.checkpoints.newest(self._packed)
        if state is None:
            self.checkpoints.remove()
            return
        parts = {name: under(f"{name}/", state.arrays) for name in ("run", "begun", "before")}
        self._begun = parts["begun"]
        self.run.unpack(self._begun)
        self._volume = self.run.volume_m3
        self.run.unpack(parts["run"])
        self.changes = [(float(p), float(q)) for p, q in np.asarray(state.arrays["changes"], np.float64)]
        if self.changes or self.run.cycle:
            self._before = parts["before"]["pressure"], parts["before"]["flow"]
        self._progress = self._new_progress()
        self.log.info("going on from cycle %d, step %d", self.run.cycle + 1, self.run.step)

    def _new_progress(self) -> Progress:
        return Progress(self.log, self.until.most_cycles * self.run.steps, "steps")

    def _again(self) -> None:
        """Begin the cycle again, with shorter steps."""
        rate, self._agains = self.run.rate, self._agains + 1
        if self._agains > MOST_AGAIN:
            raise StageError(
                f"network {self.run.network.name}: pulses become ever faster, {rate:.3g} cells/s at"
                f" {self.run.time_s:.3f} s; check walls, radii and the flow of the inlet"
            )
        self.run.unpack(self._begun)
        self.run.set_steps(self.run.steps_for(FASTER * rate))
        self._begun = self.run.pack()
        self.log.info("cycle %d: again with %d steps, since the pulse is faster", self.run.cycle + 1, self.run.steps)
        self._progress = self._new_progress()

    def _judge(self) -> None:
        """Compare the cycle with the one before; end, or go to the next."""
        run, now = self.run, looked_at(self.run.grid, self.run.record)
        if self._before is not None:
            self.changes.append(change_of(self._before, now))
            pressure, flow = self.changes[-1]
            message = "cycle %d: pressure changed by %.2g %% of the pulse pressure, flow by %.2g %% of the largest"
            self.log.info(message, run.cycle + 1, 100 * pressure, 100 * flow)
        enough = run.cycle + 1 >= self.until.least_cycles and self.converged
        self.ended = enough or run.cycle + 1 >= self.until.most_cycles
        if self.ended:
            return
        self._before = now
        wanted = run.steps_for(run.rate)
        run.next_cycle()
        if wanted > run.steps or wanted < COARSER * run.steps:
            run.set_steps(wanted)
        self._begun, self._volume = run.pack(), run.volume_m3

    def _packed(self) -> Packed:
        before = self._before or looked_at(self.run.grid, self.run.record)
        arrays: Packed = {f"run/{name}": array for name, array in self.run.pack().items()}
        arrays |= {f"begun/{name}": array for name, array in self._begun.items()}
        return arrays | {"before/pressure": before[0], "before/flow": before[1]}

    def _keep(self, checkpoints: Checkpoints) -> None:
        number = self.run.cycle * NUMBERS + self.run.step
        checkpoints.write(number, self._packed() | {"changes": np.array(self.changes).reshape(-1, 2)}, {})
        self.log.info("checkpoint of cycle %d, step %d", self.run.cycle + 1, self.run.step)
