# SPDX-License-Identifier: Apache-2.0
"""Carry: a computed flow and settings to the age of blood, the course of a bolus, and drug from the wall."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from solver.backends.scalar_lattice import scalar_lattice
from solver.domain.nodes import Nodes
from solver.kernels.compilation import source
from solver.run.checkpoint import Checkpoints
from solver.run.flow_file import Flow
from solver.runtime.errors import StageError
from solver.transport.carried_flow import CarriedFlow
from solver.transport.carrier import Carrier
from solver.transport.scalar_plan import TransportPlan, make_plan, notes_of
from solver.transport.scalar_run import Settled, TransportRun, Washed
from solver.transport.scalar_settings import TransportSettings

Look = Callable[[float, NDArray[np.floating]], None]


def kept_in(folder: Path, made_of: str, every_s: float, log: logging.Logger) -> Callable[[str], Checkpoints]:
    """Checkpoints of the scalar of a name, in a folder of that name.

    Parameters
    ----------
    folder : where they lie.
    made_of : what the bits of the runs depend on, beside the source.
    every_s : time between two.
    log : says what is used.
    """
    return lambda name: Checkpoints(folder / name, f"{made_of} {source()}", every_s, log)


@dataclass(frozen=True)
class Carried:
    """What became of the scalars.

    Attributes
    ----------
    plan, notes : numbers of the runs, and what has to be said of them.
    age, drug, washed : none where they were not asked for.
    bolus_s : how long the bolus lasted.
    device : that ran them.
    """

    plan: TransportPlan
    notes: list[str]
    age: Settled | None
    drug: Settled | None
    washed: Washed | None
    bolus_s: float
    device: str


# many parameters because a run is told what it carries, where, and how it is followed
def carry(
    nodes: Nodes,
    flow: Flow,
    flows_ml_s: NDArray[np.float64],
    period_s: float | None,
    settings: TransportSettings,
    log: logging.Logger,
    parts: Mapping[str, NDArray[np.bool_]] | None = None,
    checkpoints: Callable[[str], Checkpoints] | None = None,
    look: Look | None = None,
) -> Carried:
    """Carry scalars by a flow.

    Parameters
    ----------
    nodes : the geometry, all of it.
    flow : its flow file. A flow without a period, or with one snapshot of it, carries by its mean.
    flows_ml_s : (T, openings) flow out through each opening at each snapshot; (1, openings) of such a mean.
    period_s : none of a steady flow.
    settings : what is carried.
    log : of the progress.
    parts : nodes of each part of the vessel that is watched, (N,) each.
    checkpoints : where the state of each scalar is kept on the way; none: nowhere.
    look : is shown the time and the concentration of the bolus, (N,).

    Raises
    ------
    StageError
        If the vessel has no inlet and outlet, nothing flows, or the lattice does not carry a scalar.
    """
    periodic = period_s is not None and len(flow.times_s) > 1
    if not len(nodes.openings) or not np.abs(flows_ml_s).max() > 0:
        raise StageError("transport: nothing flows through openings, so nothing is carried; leave the section out")
    carrier = Carrier.of(nodes, scalar_lattice(nodes))
    dx_m = nodes.spacing_mm * 1e-3
    carried = CarriedFlow(
        carrier,
        flow.velocity_m_s if periodic else lambda number: flow.velocity_mean_m_s(),
        flow.times_s[: len(flows_ml_s)],
        flows_ml_s * 1e-6 / dx_m**2,
        period_s if periodic else None,
    )
    plan = make_plan(carried, settings, dx_m, 1e-3 * min(opening.radius_mm for opening in nodes.openings))
    for name, value in plan.numbers.items():
        log.info("%s: %s", name, f"{value:.4g}" if isinstance(value, float) else value)
    notes = notes_of(plan)
    for note in notes:
        log.info("note: %s", note)
    run = TransportRun(carried, plan, settings, log, parts, checkpoints)
    age = run.age() if settings.age else None
    washed = run.bolus(settings.bolus, look) if settings.bolus else None
    drug = run.drug() if settings.wall_flux_m_s else None
    bolus_s = run.duration_s(settings.bolus) if settings.bolus else 0.0
    return Carried(plan, notes, age, drug, washed, bolus_s, run.device)
