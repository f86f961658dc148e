# SPDX-License-Identifier: Apache-2.0
"""The solver within this process, on node arrays that lie in memory."""

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.flow import SolveSettings
from pipeline.haemodynamics.indices import read_monitor
from solver.backends.cuda.device import own_device
from solver.domain.nodes import Nodes
from solver.run import settings as solver_settings
from solver.run.flow_file import Flow, read_flow
from solver.run.given_start import GivenFlow
from solver.run.solve import solve


@dataclass(frozen=True)
class Solved:
    """What a run left.

    Attributes
    ----------
    flow : its file, opened; it stands as long as the folder that it was written into.
    summary : what was chosen and how the run went, as in ``solve.json``.
    record : columns of ``monitor.csv``, each (rows,).
    """

    flow: Flow
    summary: dict[str, Any]
    record: dict[str, NDArray[np.float64]]


def solved_in(
    folder: Path, nodes: Nodes, settings: SolveSettings, log: logging.Logger, begin: GivenFlow | None = None
) -> Solved:
    """Solve a flow, on a CUDA device of its own where one answers and is not declined.

    Parameters
    ----------
    folder : gets ``flow.vtkhdf`` and ``monitor.csv``.
    nodes : the lattice.
    settings : the section ``solve``.
    log : where progress goes.
    begin : a flow to begin with.

    Raises
    ------
    StageError
        If settings do not fit the vessel, the flow diverges, or has not settled.
    """
    flow_path, monitor_path = folder / "flow.vtkhdf", folder / "monitor.csv"
    parsed = solver_settings.parse(settings.model_dump(mode="json"))
    with own_device(log) if settings.backend != "cpu" else nullcontext():
        summary = solve(nodes, parsed, flow_path, monitor_path, log, begin=begin)
    return Solved(read_flow(flow_path), summary, read_monitor(monitor_path))
