# SPDX-License-Identifier: Apache-2.0
"""Walltime: what a run is expected to take on a cluster, said where it does not run, as on a login node."""

import json
import os
from dataclasses import replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from solver.backends.cpu.cpu_driver import cpu_device
from solver.backends.cuda.device import device_of
from solver.domain.nodes import Nodes, load
from solver.run.forecast import Forecast
from solver.run.plan import make_plan
from solver.run.settings import parse
from solver.run.setup import foresee
from solver.runtime.errors import StageError


def expected(nodes: str, settings: str, threads: int, gpu_bytes_s: float | None) -> Forecast:
    """Expect steps, time, and memory beside that of the libraries; none of these where solve will refuse the case.

    Parameters
    ----------
    nodes : path of the node arrays.
    settings : the section solve of the case as JSON.
    threads : cores of the job.
    gpu_bytes_s : what the memory of a GPU, of which each rank has one, moves in a second; none: it runs on the cores.

    Raises
    ------
    FileNotFoundError
        If there are no node arrays yet.
    """
    return _expected(nodes, os.stat(nodes).st_mtime_ns, settings, threads, gpu_bytes_s)  # noqa: PTH116, its error names the path as text


@cache
def _expected(path: str, written_ns: int, settings: str, threads: int, gpu_bytes_s: float | None) -> Forecast:
    try:
        wanted, nodes = parse(json.loads(settings)), load(Path(path))
        device = cpu_device(threads)
        if gpu_bytes_s:
            device = device_of("GPU", inf, gpu_bytes_s, wanted.precision).of_ranks(wanted.ranks, wanted.ranks)
        return foresee(nodes, wanted, make_plan(nodes, wanted), replace(device, free_bytes=inf, copies=1))
    except StageError:
        return Forecast(0, 0.0, 0)


def node_updates(nodes: Nodes, settings: dict[str, Any]) -> float:
    """Updates of fluid nodes that a run is expected to take from rest, whatever it runs on.

    Parameters
    ----------
    nodes : the geometry.
    settings : the section solve of the case, every key.

    Raises
    ------
    StageError
        If the flow cannot be run as asked.
    """
    return float(make_plan(nodes, parse(settings)).expected_steps * nodes.count)
