# SPDX-License-Identifier: Apache-2.0
"""Compilation ahead: loops that a case will most likely need, compiled while its first stages use one core.

A flow through a short pipe goes through the lattice, solve, trace and postprocess with the models of the case, and in
another process, where there are cores for it, a lumen goes through the stages from surface to lattice. What that
compiles is kept, and found again by the stages. Nothing else is left of it but a mark that all of it was compiled.

The run from twice the spacing comes last, since ``solve`` needs its loops first: where there was no time for them, that
stage compiles them by itself while the others are compiled here. What a stage has begun with is left to it.
"""

import json
import logging
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numba.core.event import Listener, install_listener

from pipeline.case.settings.base import parse
from pipeline.case.settings.flow import PostprocessSettings, SolveSettings, TraceSettings
from pipeline.case.settings.geometry import DecomposeSettings, SurfaceSettings
from pipeline.case.shapes import Pipe
from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from pipeline.geometry.branches.tree_tracing import trace_tree
from pipeline.geometry.surface.tessellation import tessellate
from pipeline.haemodynamics.indices import monitored_flows_ml_s
from pipeline.haemodynamics.vortices import Volume as Vortices
from pipeline.members.in_memory import nodes_of
from pipeline.members.in_process import Solved, solved_in
from pipeline.stages.postprocess import fields_of, postprocess
from pipeline.stages.surface import extract_surface
from pipeline.stages.trace import trace
from solver.backends.cuda.device import device_answers
from solver.domain.nodes import Nodes
from solver.runtime.memory import seldom_collect

PIPE = Pipe(shape="pipe", diameter_mm=4.0, length_mm=8.0, direction=(1.0, 0.2, 0.1), ends="openings")
ACROSS = 10
"""Nodes across it: at twice the spacing there are enough to start from, of which a case's run has loops, too."""
GRID_REYNOLDS = 20.0
"""Of the pipe's flow: ``auto`` takes the models of most vessels there."""
STEPS = 40
PULSE_S = 0.01
"""Period of its pulse, of some 800 steps."""
RADIUS = 5.0
"""Of the lumen, in voxels."""
LOWEST_PRIORITY = 19


class Overtaken(Exception):  # noqa: N818, it is no error
    """The stage for which loops were to be compiled has begun."""


class _UntilBegun(Listener):
    """Lets nothing more be compiled once a stage has begun, which would then compile the same loops at the same time.

    Parameters
    ----------
    log : of the stage, which it writes to as it begins.
    """

    def __init__(self, log: Path) -> None:
        self._log, self._since, self._depth = log, time.time(), 0

    def on_start(self, started: Any) -> None:
        """Look before each loop; not before functions within it, where Numba would take it for their mistake."""
        self._depth += 1
        if self._depth == 1 and self._log.exists() and self._log.stat().st_mtime > self._since:
            raise Overtaken

    def on_end(self, ended: Any) -> None:
        """Count, which Numba does after the exception, too."""
        self._depth -= 1


@contextmanager
def before(log: Path) -> Iterator[None]:
    """Compile for a stage as long as it has not begun.

    Parameters
    ----------
    log : of the stage.
    """
    with suppress(Overtaken), install_listener("numba:compile", _UntilBegun(log)):
        yield


def of_pipe(models: Mapping[str, Any], start: str, backend: str, waveform: Path | None = None) -> SolveSettings:
    """Settings of a few steps in the pipe.

    Parameters
    ----------
    models : settings of the section ``solve`` by which loops are chosen.
    start, backend : in place of theirs.
    waveform : of a pulse.
    """
    spacing_m = 1e-3 * PIPE.diameter_mm / ACROSS
    peak_m_s = GRID_REYNOLDS * models["viscosity_pa_s"] / models["density_kg_m3"] / spacing_m
    flow_ml_s = peak_m_s / 2 * math.pi / 4 * PIPE.diameter_mm**2  # the mean of a parabola is half of its peak
    inlet = {"flow_ml_s": flow_ml_s, "waveform": waveform and str(waveform)}
    most = None if waveform else STEPS  # a cycle has more
    length = {"max_steps": most, "cycles": 1, "min_cycles": 1, "snapshots": 2, "unsettled": "report"}
    own = {"inlets": {"*": inlet}, "backend": backend, "start": start}
    return parse(SolveSettings, {**models, **own, **length}, "solve")


def _pulse(folder: Path) -> Path:
    """A file of a waveform that doubles the flow and stops it."""
    file, turns = folder / "pulse.csv", np.linspace(0, 1, 9)
    rows = "".join(f"{PULSE_S * turn},{1 + math.sin(2 * math.pi * turn)}\n" for turn in turns)
    file.write_text(f"time_s,flow_ml_s\n{rows}")
    return file


def compile_for_vessel(logs: Path, log: logging.Logger) -> None:
    """Compile loops of the stages from the lumen to the lattice.

    Parameters
    ----------
    logs : folder of the case's logs.
    log : that nobody reads.
    """
    with before(logs / "surface.log"):
        extract_surface(_lumen(), SurfaceSettings(extend_radii=1.0), log)
    spacing_mm = PIPE.diameter_mm / ACROSS
    made = tessellate(PIPE, spacing_mm)
    with before(logs / "centreline.log"):
        trace_tree(made.mesh, made.openings, SurfaceSettings().min_branch_radii, log)
    with before(logs / "decompose.log"):
        nodes_of(made.mesh, made.openings, spacing_mm, DecomposeSettings(), PIPE.patches)


def _lumen() -> Volume:
    """Part of each voxel that a vessel fills which the borders of the image cut."""
    z, y, x = np.indices((40, 20, 20), float)
    middle = 9.5 + np.sin(z / 12)
    return Volume(np.clip(RADIUS - np.hypot(y - middle, x - 9.5) + 0.5, 0, 1), (0.4,) * 3, (0.0,) * 3, np.eye(3))


def compile_for_flow(models: Mapping[str, Any], logs: Path, folder: Path, log: logging.Logger) -> None:
    """Compile loops of the stages from the lattice to the figures, for the CUDA device where the case is solved there.

    Parameters
    ----------
    models : as :func:`of_pipe` takes them, and whether there is a pulse.
    logs : folder of the case's logs.
    folder : for the files of a run.
    log : that nobody reads.
    """
    chosen = {name: value for name, value in models.items() if name != "pulse"}
    backend = models["backend"]
    if backend == "auto":
        backend = "cuda" if device_answers() else "cpu"
    waveform = _pulse(folder) if models["pulse"] else None
    spacing_mm = PIPE.diameter_mm / ACROSS
    made = tessellate(PIPE, spacing_mm)
    nodes = nodes_of(made.mesh, made.openings, spacing_mm, DecomposeSettings(), PIPE.patches)
    run = solved_in(folder, nodes, of_pipe(chosen, "rest", backend, waveform), log)
    with before(logs / "trace.log"):
        traced = trace(nodes, run.flow, run.record, None, TraceSettings(particles=100), log)
        speeds = traced.lattice.extended(run.flow.velocity_m_s(0), zero_at_wall=True)
        traced.lattice.sample(speeds, nodes.points_mm()[:2])
    with before(logs / "postprocess.log"):
        _figures(run, nodes, made.mesh, log)
    if models["start"] != "rest":
        (folder / "coarse").mkdir()
        with before(logs / "solve.log"):
            solved_in(folder / "coarse", nodes, of_pipe(chosen, "coarse", backend), log)


def _figures(run: Solved, nodes: Nodes, surface: Mesh, log: logging.Logger) -> None:
    """What postprocess finds of a flow."""
    volume = Vortices(nodes, 0)
    volume.add(run.flow.velocity_m_s(0))
    volume.arrays(run.flow)
    monitored = monitored_flows_ml_s(run.record, nodes.openings, float(run.flow.times_s[0]))
    settings = PostprocessSettings(find_sacs=False, lessen_noise=False)  # which take seconds and have no loops
    postprocess(nodes, surface, fields_of(run.flow, nodes, log), run.summary, monitored, settings, (), run.record)


def _end_with_starter(folder: Path) -> None:
    """End when the process at the other end of standard input has ended, which closes it."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def main() -> None:
    """Command line: the part, the mark to leave, models as JSON, and the folder of the case's logs."""
    part, mark, models, logs = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]), Path(sys.argv[4])
    os.nice(LOWEST_PRIORITY)
    seldom_collect()
    log = logging.getLogger("ahead")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    with TemporaryDirectory() as name:
        folder = Path(name)
        threading.Thread(target=_end_with_starter, args=(folder,), daemon=True).start()
        if part == "vessel":
            compile_for_vessel(logs, log)
        else:
            compile_for_flow(models, logs, folder, log)
        mark.touch()


if __name__ == "__main__":
    main()
