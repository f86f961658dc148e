# SPDX-License-Identifier: Apache-2.0
"""From the closed surface of a vessel to the flow in it and what it does to the wall, in memory."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hemolattice.vessel import LOG
from pipeline.case.settings.base import parse
from pipeline.case.settings.flow import PostprocessSettings, SolveSettings
from pipeline.case.settings.geometry import DecomposeSettings, VoxelizeSettings
from pipeline.geometry.branches.vessel_tree import Tree
from pipeline.geometry.closed_surface import Surface
from pipeline.geometry.lattice import node_arrays
from pipeline.geometry.lattice.spacing import Narrowest, choose_spacing
from pipeline.geometry.lattice.tagged_lattice import Lattice
from pipeline.haemodynamics.accumulator import Fields
from pipeline.haemodynamics.indices import monitored_flows_ml_s
from pipeline.members.in_process import solved_in
from pipeline.stages import postprocess as postprocessing
from pipeline.stages import voxelize as voxelizing
from pipeline.stages.postprocess import Results
from solver.domain.nodes import Nodes
from solver.runtime.errors import StageError


@dataclass(frozen=True)
class Flow:
    """The flow through a vessel. N nodes stand in the order of `nodes`.

    Attributes
    ----------
    nodes : the lattice; ``nodes.position`` (N, 3) counts spacings of ``nodes.spacing_mm`` from ``nodes.origin_mm``.
    times_s : (T,) times of `fields`: one of a steady flow, else evenly spaced over one period.
    fields : at each time velocity_m_s (N, 3), x, y, z; pressure_pa (N,); stress_pa (N, 6), viscous stress xx, yy, zz,
        xy, yz, xz; viscosity_pa_s (N,) where it varies.
    summary : what was chosen and how the run went, as in ``solve.json``.
    record : columns of ``monitor.csv``, each (rows,): time, flow and pressure of each opening, residual, extremes.
    """

    nodes: Nodes
    times_s: NDArray[np.float64]
    fields: tuple[Fields, ...]
    summary: dict[str, Any]
    record: dict[str, NDArray[np.float64]]


def voxelize(surface: Surface, tree: Tree | None = None, **settings: Any) -> Lattice:
    """The lattice of a vessel.

    Parameters
    ----------
    surface : closed, with its openings.
    tree : of :func:`hemolattice.centreline`, where the narrowest branch is to count for the spacing, too.
    settings : of the section ``voxelize``, for instance ``spacing_mm=0.2`` or ``nodes_across=20``. Without either the
        narrowest diameter has 20 nodes; other than a case, the flow does not count.

    Returns
    -------
    Tags of the nodes, [z, y, x], with spacing and origin in mm, aligned with LPS.

    Raises
    ------
    StageError
        If the spacing is too coarse for an opening, or the lattice too large for the memory.
    """
    chosen = parse(VoxelizeSettings, settings, "voxelize")
    narrowest = None
    if tree:
        branch = tree.narrowest
        x, y, z = branch.points_mm[branch.narrowest].tolist()
        narrowest = Narrowest(float(branch.radius_mm[branch.narrowest]), (x, y, z))
    spacing = choose_spacing(surface.openings, chosen, narrowest)
    lattice, _ = voxelizing.voxelize(surface.mesh, surface.openings, chosen, chosen=spacing, narrowest=narrowest)
    return lattice


def decompose(lattice: Lattice, surface: Surface, **settings: Any) -> Nodes:
    """The node arrays that the solver takes: nodes numbered, their links to wall and openings measured.

    Parameters
    ----------
    lattice, surface : of :func:`voxelize`, and what it was given.
    settings : of the section ``decompose``.

    Returns
    -------
    Nodes with positions in spacings, links with the place where they meet the wall, in lengths of the link.

    Raises
    ------
    StageError
        If the lattice does not belong to the surface.
    """
    nodes, _ = node_arrays.decompose(
        lattice, surface.mesh, surface.openings, parse(DecomposeSettings, settings, "decompose")
    )
    return nodes


def solve(nodes: Nodes, folder: str | Path | None = None, **settings: Any) -> Flow:
    """Solve the flow, on a CUDA device where one answers, else on the cores of this machine.

    Parameters
    ----------
    nodes : of :func:`decompose`.
    folder : where ``flow.vtkhdf``, which ParaView opens, and ``monitor.csv`` are to stay; none: nowhere.
    settings : of the section ``solve``, for instance ``inlets={"inlet": {"flow_ml_s": 4}}``, ``viscosity_pa_s=3.5e-3``.

    Raises
    ------
    StageError
        If settings do not fit the vessel, the flow diverges, or has not settled.
    """
    chosen = parse(SolveSettings, settings, "solve")
    if chosen.ranks > 1:
        raise StageError(f"solve.ranks = {chosen.ranks}: here one process solves; run the case by hemolattice run")
    with TemporaryDirectory() as temporary:
        place = Path(folder or temporary)
        place.mkdir(parents=True, exist_ok=True)
        solved = solved_in(place, nodes, chosen, LOG)
        fields = tuple(postprocessing.fields_of(solved.flow, nodes, LOG))
        return Flow(nodes, solved.flow.times_s, fields, solved.summary, solved.record)


def postprocess(flow: Flow, surface: Surface, tree: Tree | None = None, **settings: Any) -> Results:
    """Wall shear stress and what follows from it, pressure drops, balances.

    Parameters
    ----------
    flow, surface : of :func:`solve`, and what the lattice was made from.
    tree : of :func:`hemolattice.centreline`, for figures along the branches.
    settings : of the section ``postprocess``.

    Returns
    -------
    `wall`, whose ``mesh`` has V points (V, 3) in LPS, mm; `arrays`, name with unit -> (V,) or (V, 3), for instance
    ``WSS magnitude (Pa)`` of a steady flow, ``TAWSS (Pa)`` and ``OSI`` of a periodic one; `indices`, as in
    ``indices.json`` (docs/quantities.md).

    Raises
    ------
    StageError
        If the inputs do not belong together.
    """
    monitored = monitored_flows_ml_s(flow.record, flow.nodes.openings, float(flow.times_s[0]))
    return postprocessing.postprocess(
        flow.nodes,
        surface.mesh,
        flow.fields,
        flow.summary,
        monitored,
        parse(PostprocessSettings, settings, "postprocess"),
        tree.branches if tree else (),
        flow.record,
    )
