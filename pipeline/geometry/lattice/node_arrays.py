# SPDX-License-Identifier: Apache-2.0
"""A tagged lattice becomes the node arrays of the solver: nodes numbered, their links measured."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.geometry import DecomposeSettings
from pipeline.files.mesh import Mesh
from pipeline.geometry.lattice.band import distances_mm
from pipeline.geometry.lattice.crossings import Raster, rasterise
from pipeline.geometry.lattice.developed import CapFlow, developed
from pipeline.geometry.lattice.frame import Frame, mean_runs
from pipeline.geometry.lattice.links import Links, corner_links, links, short_cuts
from pipeline.geometry.lattice.tagged_lattice import Lattice, tagged
from solver.domain.division import divide
from solver.domain.nodes import FLUID, INLET, OUTLET, STEPS, WALL, Nodes, Opening, check
from solver.kernels.d3q19 import Q
from solver.runtime.errors import StageError

AXES = {"x": 0, "y": 1, "z": 2}


def decompose(
    lattice: Lattice,
    mesh: Mesh,
    openings: tuple[Opening, ...],
    settings: DecomposeSettings | None = None,
    patches: tuple[str, ...] = (),
    corners: bool = True,
) -> tuple[Nodes, dict[str, Any]]:
    """Number the fluid and the wall nodes, and measure the links between them.

    Parameters
    ----------
    lattice : tags of `voxelize`.
    mesh, openings : the surface that the lattice was made from, and its openings.
    settings : order of the nodes, number of parts.
    patches : names of the surface's patches 1, 2, ...
    corners : whether links along corners are wanted, which only flow in 27 directions needs.

    Returns
    -------
    The node arrays, and figures of them for the log.

    Raises
    ------
    StageError
        If the lattice does not belong to the surface.
    """
    settings = settings or DecomposeSettings()
    frame, fluid = lattice.frame, lattice.tag >= FLUID
    raster = rasterise(mesh, frame, len(STEPS) if corners else Q)
    found = links(raster, fluid)
    if not np.array_equal(tagged(frame, fluid, found, openings).tag, lattice.tag) or len(short_cuts(raster, fluid)):
        raise StageError(
            "tags of the lattice do not follow from the surface; they are of different runs, run voxelize again"
        )
    runs = mean_runs(fluid)
    axes = order_of_axes(runs, settings)
    flows = {opening.id: developed(mesh, opening, frame.periodic) for opening in openings}
    nodes = _arrays(lattice, mesh, raster, found, openings, patches, axes, flows)
    if corners:
        nodes = _with_corner_links(nodes, frame, corner_links(raster, fluid), flows)
    division = None
    if (parts := settings.parts or 1) > 1:
        part, division = divide(nodes, parts)
        nodes = replace(nodes, part=part)
    check(nodes)
    return nodes, {
        "fluid_nodes": nodes.count,
        "wall_nodes": len(nodes.wall_position),
        "wall_links": len(nodes.wall_link_q),
        "opening_links": len(nodes.opening_link_q),
        "corner_links": len(nodes.corner_link_q),
        "nodes_of_parts": np.bincount(nodes.part).tolist(),
        "division": division and division.record(),
        "links_removed_end": int(found.removed.sum()),
        "links_on_surface": found.on_surface,
        "mean_run_along_axes": [round(run, 1) for run in runs],
        "order": "".join("xyz"[axis] for axis in axes),
    }


def _arrays(
    lattice: Lattice,
    mesh: Mesh,
    raster: Raster,
    found: Links,
    openings: tuple[Opening, ...],
    patches: tuple[str, ...],
    axes: tuple[int, int, int],
    flows: Mapping[int, CapFlow],
) -> Nodes:
    """The node arrays in one part: nodes in the order of the axes, links in that of directions and nodes."""
    frame = lattice.frame
    counts = [int(np.count_nonzero(lattice.tag == tag)) for tag in (FLUID, INLET, OUTLET, WALL)]
    position, number = numbered(lattice.tag, frame, axes)
    fluid_count = sum(counts[:3])
    place = frame.node(position)
    distance = distances_mm(mesh, frame, number, len(position))
    wall_distance = np.where(raster.enclosed.reshape(-1)[place[fluid_count:]], 1, -1) * distance[fluid_count:]
    row = number.reshape(-1)[found.node]
    order = np.argsort(found.direction * np.int64(fluid_count) + row)
    wall, opening = order[found.opening[order] == 0], order[found.opening[order] > 0]
    return Nodes(
        spacing_mm=frame.spacing_mm,
        origin_mm=frame.origin_mm,
        shape=frame.shape,
        openings=openings,
        position=position[:fluid_count],
        tag=np.repeat(np.array((FLUID, INLET, OUTLET), np.int8), counts[:3]),
        opening=lattice.opening.reshape(-1)[place[:fluid_count]],
        distance_mm=distance[:fluid_count],
        part=np.zeros(fluid_count, np.int16),
        wall_position=position[fluid_count:],
        wall_distance_mm=wall_distance.astype(np.float32),
        wall_link_node=row[wall],
        wall_link_direction=found.direction[wall],
        wall_link_wall=number.reshape(-1)[found.end[wall]] - np.int32(fluid_count),
        wall_link_q=found.q[wall],
        wall_link_patch=found.patch[wall],
        opening_link_node=row[opening],
        opening_link_direction=found.direction[opening],
        opening_link_opening=found.opening[opening],
        opening_link_q=found.q[opening],
        opening_link_profile=profiles(flows, frame, position[row[opening]], found, opening),
        periodic=frame.periodic,
        patches=patches,
        axes=axes,
    )


def _with_corner_links(nodes: Nodes, frame: Frame, found: Links, flows: Mapping[int, CapFlow]) -> Nodes:
    """The node arrays with links along corners, in the order of directions and nodes."""
    number = np.full(int(np.prod(frame.shape)), -1, np.int32)
    number[frame.node(nodes.position)] = np.arange(nodes.count, dtype=np.int32)
    row = number[found.node]
    order = np.lexsort((row, found.direction))
    through = order[found.opening[order] > 0]
    profile = np.zeros(len(order), np.float32)
    profile[through] = profiles(flows, frame, nodes.position[row[through]], found, through)
    return replace(
        nodes,
        corner_link_node=row[order],
        corner_link_direction=found.direction[order],
        corner_link_q=found.q[order],
        corner_link_patch=found.patch[order],
        corner_link_opening=found.opening[order],
        corner_link_profile=profile[order],
    )


def profiles(
    flows: Mapping[int, CapFlow],
    frame: Frame,
    position: NDArray[np.int32],
    found: Links,
    rows: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Developed velocity at the middle of links through openings, (K,), over the largest on each cap.

    There a bounce-back sees its wall, and the velocity given to it, wherever the cap is: with the velocity where links
    meet the cap, links that slant outwards carry too little beside the wall.

    `position` (K, 3) are the lattice indices of the links' nodes, `rows` (K,) their rows among all links.

    Parameters
    ----------
    flows : developed velocity through the cap of each opening that the links meet, by its number.
    frame : where the lattice lies.
    position : (K, 3) int32, (x, y, z), lattice indices of the links' nodes.
    found : all links.
    rows : (K,) rows of the links through openings among all.
    """
    places = (position + 0.5 * STEPS[found.direction[rows]]) * frame.spacing_mm + frame.origin_mm
    values = np.zeros(len(rows), np.float32)
    for opening, flow in flows.items():
        mine = found.opening[rows] == opening
        values[mine] = flow(places[mine])
    return values


def order_of_axes(runs: tuple[float, float, float], settings: DecomposeSettings) -> tuple[int, int, int]:
    """Axes from the one that runs fastest to the slowest: the wanted one first, then by length of their runs."""
    wanted = AXES.get(settings.order)
    first, second, third = sorted(range(3), key=lambda axis: (axis != wanted, -runs[axis], axis))
    return first, second, third


def numbered(
    tag: NDArray[np.int8], frame: Frame, axes: tuple[int, int, int]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Positions, (N + W, 3), (x, y, z), of nodes tagged FLUID, INLET, OUTLET and WALL, each in the order of the axes.

    The second array, [z, y, x], holds the row of each node in the first, -1 where there is none.

    Parameters
    ----------
    tag : [z, y, x] int8.
    frame : where the lattice lies.
    axes : 0, 1, 2 for x, y, z: along the first, nodes follow each other.
    """
    turned = np.ascontiguousarray(tag.transpose([2 - axis for axis in axes[::-1]]))
    nodes = np.concatenate([np.flatnonzero(turned == kind) for kind in (FLUID, INLET, OUTLET, WALL)])
    position = Frame(frame.spacing_mm, frame.origin_mm, turned.shape).position(nodes)
    position = np.ascontiguousarray(position[:, np.argsort(axes)])
    number = np.full(tag.shape, -1, np.int32)
    number.reshape(-1)[frame.node(position)] = np.arange(len(position), dtype=np.int32)
    return position, number
