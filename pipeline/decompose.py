"""Stage 6: the tagged lattice becomes the solver's node arrays.

Every link from a fluid node to a node that is none gets the place where it first meets the surface, in lengths of the
link: wall links for the curved wall, opening links for the flow through the caps.
"""

from typing import Any

import numpy as np

from pipeline.geometry.crossings import links
from pipeline.lattice import Lattice, tagged
from pipeline.mesh import Mesh, read_openings
from solver.nodes import FLUID, Nodes, Opening, check, save
from solver.stage import Job, StageError, run_stage


def decompose(lattice: Lattice, mesh: Mesh, openings: tuple[Opening, ...]) -> tuple[Nodes, dict[str, Any]]:
    """Number the fluid and the wall nodes, and measure the links between them.

    Parameters
    ----------
    lattice : tags of `voxelize`.
    mesh, openings : the surface that the lattice was made from, and its openings.

    Returns
    -------
    The node arrays, and figures of them for the log.

    Raises
    ------
    StageError
        If the lattice does not belong to the surface.
    """
    frame, fluid = lattice.frame, lattice.tag >= FLUID
    found = links(mesh, frame, fluid)
    if not np.array_equal(tagged(frame, fluid, found, openings).tag, lattice.tag):
        raise StageError(
            "tags of the lattice do not follow from the surface; they are of different runs, run voxelize again"
        )
    wall = found.opening == 0
    fluid_index, wall_index = np.flatnonzero(fluid), np.unique(found.end[wall])
    order = np.argsort(lattice.tag[fluid], kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    row = rank[np.searchsorted(fluid_index, found.node)]
    fluid_index = fluid_index[order]
    nodes = Nodes(
        spacing_mm=frame.spacing_mm,
        origin_mm=frame.origin_mm,
        shape=frame.shape,
        openings=openings,
        position=frame.position(fluid_index),
        tag=lattice.tag[fluid][order],
        opening=lattice.opening[fluid][order],
        distance_mm=np.full(len(order), np.inf, np.float32),
        part=np.zeros(len(order), np.int16),
        wall_position=frame.position(wall_index),
        wall_distance_mm=np.full(len(wall_index), np.inf, np.float32),
        wall_link_node=row[wall],
        wall_link_direction=found.direction[wall],
        wall_link_wall=np.searchsorted(wall_index, found.end[wall]).astype(np.int32),
        wall_link_q=found.q[wall],
        wall_link_patch=np.zeros(int(wall.sum()), np.int8),
        opening_link_node=row[~wall],
        opening_link_direction=found.direction[~wall],
        opening_link_opening=found.opening[~wall],
        opening_link_q=found.q[~wall],
    )
    check(nodes)
    return nodes, {
        "fluid_nodes": nodes.count,
        "wall_nodes": len(nodes.wall_position),
        "wall_links": len(nodes.wall_link_q),
        "opening_links": len(nodes.opening_link_q),
        "links_removed_end": found.removed,
        "links_on_surface": found.on_surface,
    }


def _compute(job: Job) -> None:
    mesh, openings = Mesh.read(job.inputs["surface"]), read_openings(job.inputs["openings"])
    nodes, figures = decompose(Lattice.read(job.inputs["lattice"]), mesh, openings)
    job.facts |= figures
    job.log.info("%(fluid_nodes)d fluid nodes, %(wall_links)d wall and %(opening_links)d opening links", figures)
    save(nodes, job.outputs["nodes"])


if __name__ == "__main__":
    run_stage(
        "decompose",
        __doc__,
        inputs={
            "lattice": "tagged lattice (VTI)",
            "surface": "the surface that it was made from (VTP)",
            "openings": "openings (JSON)",
        },
        outputs={"nodes": "node arrays (HDF5)"},
        compute=_compute,
    )
