# SPDX-License-Identifier: Apache-2.0
"""A case from its surface to its figures, in memory: the lattice, then the flow on it and what follows from that."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.case.settings.flow import PostprocessSettings, SolveSettings
from pipeline.case.settings.geometry import DecomposeSettings
from pipeline.files.mesh import Mesh
from pipeline.geometry.branches.vessel_tree import Branch
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.geometry.lattice.spacing import Spacing
from pipeline.haemodynamics.indices import monitored_flows_ml_s
from pipeline.members.in_process import solved_in
from pipeline.stages.postprocess import Results, fields_of, postprocess
from pipeline.stages.voxelize import voxelize
from solver.domain.nodes import Nodes, Opening
from solver.run.given_start import GivenFlow

ACROSS = ("nodes_across_smallest_opening", "nodes_across_narrowest_section")
"""Numbers of ``solve.json`` that tell how finely the narrowest place is resolved."""


def nodes_across(numbers: Mapping[str, Any]) -> float:
    """Nodes across the narrowest opening or section, of the numbers in ``solve.json``."""
    return min(float(numbers[key]) for key in ACROSS if numbers.get(key))


def nodes_of(
    surface: Mesh,
    openings: tuple[Opening, ...],
    spacing_mm: float,
    settings: DecomposeSettings,
    patches: tuple[str, ...] = (),
) -> Nodes:
    """Node arrays of a vessel on a lattice of its own.

    Parameters
    ----------
    surface, openings : of the vessel.
    spacing_mm : of the lattice.
    settings : the section ``decompose``, whose parts do not count.
    patches : names of those of the wall.
    """
    lattice, _ = voxelize(surface, openings, chosen=Spacing(spacing_mm, "of runs beside that of the case"))
    nodes, _ = decompose(lattice, surface, openings, settings.model_copy(update={"parts": 1}), patches)
    return nodes


# many parameters because a chain of stages takes the settings of each
def results_of(
    nodes: Nodes,
    surface: Mesh,
    solve: SolveSettings,
    measured: PostprocessSettings,
    log: logging.Logger,
    branches: Sequence[Branch] = (),
    begin: GivenFlow | None = None,
) -> Results:
    """Solve a flow and find its figures, without a search for sacs.

    Parameters
    ----------
    nodes, surface : of :func:`nodes_of`, and what it was given.
    solve, measured : the sections ``solve`` and ``postprocess``.
    log : where progress goes.
    branches : of the vessel's tree, where figures along them are wanted.
    begin : a flow to begin with.

    Raises
    ------
    StageError
        If settings do not fit the vessel, the flow diverges, or has not settled.
    """
    without_sacs = measured.model_copy(update={"sacs": [], "find_sacs": False})
    with TemporaryDirectory() as folder:
        run = solved_in(Path(folder), nodes, solve, log, begin)
        monitored = monitored_flows_ml_s(run.record, nodes.openings, float(run.flow.times_s[0]))
        times = fields_of(run.flow, nodes, log)
        return postprocess(nodes, surface, times, run.summary, monitored, without_sacs, branches, run.record)
