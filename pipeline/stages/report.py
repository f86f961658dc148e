# SPDX-License-Identifier: Apache-2.0
"""Stage 9, report: everything that was found, on one page that opens without a network.

Still pictures need a library that draws without a screen (:mod:`render`); where there is none, the page is made without
them and says so.
"""

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from plotly.offline import get_plotlyjs

from pipeline.case.settings.base import parse
from pipeline.files.json_file import read_json
from pipeline.geometry.branches.branch_files import read_lines
from pipeline.haemodynamics.indices import read_monitor, shown_step
from pipeline.haemodynamics.streamlines import Grid, streamlines_from_inlets
from pipeline.reporting import pictures as made
from pipeline.reporting import scene, view3d
from pipeline.reporting.captions import caption
from pipeline.reporting.case_evidence import read_evidence
from pipeline.reporting.centreline_figure import read_centreline_profile
from pipeline.reporting.content import angle_histograms, context
from pipeline.reporting.figures import opening_colours
from pipeline.reporting.particle_layer import Moving, moving, read_paths
from pipeline.reporting.quantities import read_wall
from pipeline.reporting.render import REMEDY, window_class
from pipeline.reporting.report_page import embed, report_page
from pipeline.reporting.report_settings import ReportInput
from pipeline.reporting.tables import number
from solver.domain import nodes as node_files
from solver.run.flow_file import read_flow
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.progress import Parts
from solver.runtime.provenance import Job

PARTS = {"streamlines": 11.0, "vessel": 50.0, "cuts": 13.0, "view to turn": 4.0, "plots": 11.0, "page": 11.0}
"""Times of the parts of the work, in percent."""


def _compute(job: Job) -> None:
    inputs, parts = parse(ReportInput, job.settings, "--settings"), Parts(job.log, PARTS)
    nodes, given = node_files.load(job.inputs["nodes"]), read_evidence(job.inputs)
    openings = given.openings
    if openings != nodes.openings:
        raise StageError("openings and nodes do not belong together; run decompose again")
    monitor, flow = read_monitor(job.inputs["monitor"]), read_flow(job.inputs["flow"])
    step = shown_step(flow.times_s, monitor, openings)
    wall, quantities = read_wall(job.inputs["wall"], job.inputs.get("wall-map"))
    lines = read_lines(job.inputs["centreline"]) if "centreline" in job.inputs else []
    shown = made.Shown(nodes, flow.velocity_m_s(step), flow.pressure_pa(step), wall.mesh, quantities, given.tree, lines)
    pictures = made.Pictures()
    view = _draw(job, pictures, shown, inputs.streamlines, parts)
    parts.begin("plots")
    made.plot_triangles(pictures, angle_histograms(given.geometry))
    if "along" in job.inputs:
        made.plot_centreline_profile(pictures, read_centreline_profile(job.inputs["along"]))
    made.plot_waveforms(pictures, given.summary.get("waveforms", {}))
    made.plot_coupling(pictures, given.summary.get("coupling"))
    made.plot_bands(pictures, given.bands)
    if "curves" in job.inputs:
        made.plot_transport(pictures, job.inputs["curves"], job.inputs["strip"].read_bytes(), openings)
    made.plot_record(pictures, monitor, openings, given.summary["numbers"].get("period_s"))
    parts.begin("page")
    page = context(given) | {
        "title": inputs.title or inputs.case,
        "description": inputs.description,
        "figures": pictures.for_page(),
        "animation": _animation(job, "animation", "gif"),
        "moving_angiogram": _animation(job, "angiogram", "webp") if "angiogram" in pictures.shown else None,
        "interactive": Markup(view),
        "plotly": Markup(get_plotlyjs()),
        "moment": _moment(flow.times_s, step),
        "remedy": None if window_class() else REMEDY,
    }
    pictures.write(job.outputs["figures"])
    job.outputs["report"].write_text(report_page(page), encoding="utf-8")
    job.facts["drawn_by"] = window_class()


def _draw(job: Job, pictures: made.Pictures, shown: made.Shown, lines_wanted: int, parts: Parts) -> str:
    """Make the pictures of image, vessel and flow, and the view to turn, which is returned as JSON."""
    if "picture" in job.inputs:
        pictures.add("segmentation", "segmentation", job.inputs["picture"].read_bytes())
    if not window_class():
        job.log.warning("warning: no three-dimensional still pictures: nothing to draw with; %s", REMEDY)
    openings = shown.nodes.openings
    grid = Grid.of(shown.nodes, shown.velocity_m_s)
    lines = [line[:, :4] for line in streamlines_from_inlets(grid, openings, lines_wanted)]
    parts.begin("vessel")
    made.draw_still(pictures, shown, lines)
    parts.begin("cuts")
    made.draw_cuts(pictures, shown, grid)
    parts.begin("view to turn")
    return view3d.for_page(
        view3d.Scene(
            shown.wall,
            shown.quantities,
            lines,
            shown.speeds(),
            scene.caps(shown.wall, openings),
            openings,
            opening_colours(openings),
            made.turned(shown.wall),
            _particles(job),
        )
    )


def _particles(job: Job) -> Moving | None:
    """Particles for the view to turn; none without their paths."""
    if "pathlines" not in job.inputs:
        return None
    return moving(read_paths(job.inputs["pathlines"]), read_json(job.inputs["particles"])["period_s"])


def _animation(job: Job, name: str, kind: str) -> dict[str, str] | None:
    """A moving picture, which the page carries but the folder of figures does not repeat."""
    if name not in job.inputs:
        return None
    return {"source": embed(job.inputs[name].read_bytes(), kind), "caption": caption(name)}


def _moment(times_s: NDArray[np.float64], step: int) -> str:
    if len(times_s) == 1:
        return "The steady flow."
    return f"The flow at {number(float(times_s[step]))} s, when the inflow is largest."


if __name__ == "__main__":
    run_stage(
        "report",
        __doc__,
        inputs={
            "series": "what was loaded, from load (series.json)",
            "segmentation": "how the lumen was found, from segment (segmentation.json)",
            "picture": "picture of the lumen in the image, from segment (segmentation.png)",
            "openings": "the openings, from surface (openings.json)",
            "centreline": "lines of the branches, from centreline (centreline.vtp)",
            "branches": "the branches and the narrowest place, from centreline (centreline.json)",
            "nodes": "node arrays, from decompose (nodes.h5)",
            "flow": "velocity, pressure and stress, from solve (flow.vtkhdf)",
            "monitor": "flow and pressure against time, from solve (monitor.csv)",
            "summary": "choices and outcome, from solve (solve.json)",
            "wall": "the wall with its stresses, from postprocess (wall.vtp)",
            "indices": "numbers, checks and warnings, from postprocess (indices.json)",
            "along": "flow along the centreline, from postprocess (centreline_flow.csv)",
            "particles": "residence of particles, from trace (particles.json)",
            "animation": "particles that move, from trace (particles.gif)",
            "pathlines": "paths of particles, from trace (pathlines.vtp); only with particles",
            "carried": "what the flow carries, from transport (transport.json)",
            "curves": "course of a bolus, from transport (transport.csv)",
            "strip": "pictures of a virtual angiogram, from transport (angiogram.png)",
            "angiogram": "the same as a moving picture, from transport (angiogram.webp)",
            "grid": "the study of the spacing (grid_convergence.json)",
            "bands": "how sure the figures are, from uncertainty (uncertainty.json)",
            "wall-map": "standard deviations on the wall, from uncertainty (wall_uncertainty.vtp)",
            "reduced": "the reduced model, from reduced (reduced.json)",
        },
        outputs={"report": "the page (.html)", "figures": "folder for the pictures (PNG)"},
        compute=_compute,
        optional=(
            "series",
            "segmentation",
            "picture",
            "centreline",
            "branches",
            "along",
            "particles",
            "animation",
            "pathlines",
            "carried",
            "curves",
            "strip",
            "angiogram",
            "grid",
            "bands",
            "wall-map",
            "reduced",
        ),
    )
