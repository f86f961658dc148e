# SPDX-License-Identifier: Apache-2.0
"""Stage 6: the tagged lattice becomes the solver's node arrays.

Every link from a fluid node to a node that is none gets the place where it first meets the surface, in lengths of the
link: wall links for the curved wall, opening links for the flow through the caps, with the developed velocity there.
Those along corners stand apart, for solvers with 27 populations. Nodes near the wall get their exact distance to it.
"""

from pipeline.case.settings.base import parse
from pipeline.case.settings.geometry import DecomposeSettings
from pipeline.files.mesh import Mesh, read_openings
from pipeline.geometry.lattice.grid import read_patches
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.geometry.lattice.tagged_lattice import Lattice
from solver.domain.nodes import save
from solver.runtime.command_line import run_stage
from solver.runtime.provenance import Job


def _compute(job: Job) -> None:
    settings = parse(DecomposeSettings, job.settings, "--settings")
    mesh, openings = Mesh.read(job.inputs["surface"]), read_openings(job.inputs["openings"])
    lattice, patches = Lattice.read(job.inputs["lattice"]), read_patches(job.inputs["openings"])
    nodes, figures = decompose(lattice, mesh, openings, settings, patches)
    job.facts |= figures
    job.log.info("%(fluid_nodes)d fluid nodes, %(wall_links)d wall and %(opening_links)d opening links", figures)
    job.log.info(
        "nodes along %s follow each other: runs of %.3g nodes along x, %.3g along y, %.3g along z",
        figures["order"][0],
        *figures["mean_run_along_axes"],
    )
    if divided := figures["division"]:
        job.log.info(
            "%(parts)d parts: the most costly is %(cost_imbalance).2g over the mean, the one with most nodes"
            " %(nodes_imbalance).2g; %(cut_links)d links between them, at most %(most_cut_links)d of one, with"
            " %(most_messages)d neighbours at most",
            divided,
        )
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
