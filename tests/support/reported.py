# SPDX-License-Identifier: Apache-2.0
"""A folder as the stages before the report leave it, for Poiseuille flow in a pipe, and the report made of it."""

import atexit
import io
import json
import logging
import shutil
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pipeline.files.lines import write_lines
from pipeline.files.mesh import Mesh, write_openings
from pipeline.haemodynamics.residence import particle_checks
from pipeline.reporting import figures, render
from pipeline.stages import report
from pipeline.stages.centreline import _compute as trace
from pipeline.stages.postprocess import _compute as postprocess
from solver.boundary.curves import linear, spline
from solver.boundary.waveform import described
from solver.domain import nodes as node_files
from solver.run.flow_file import FlowWriter
from solver.runtime.provenance import Job
from tests.support.analytic_pipe import Pipe
from tests.support.postprocess_files import INPUTS, OUTPUTS
from tests.support.reduced_forks import fork

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360000000020001"
    "48afa4710000000049454e44ae426082"
)


SEGMENTATION = {
    "method": "region growing",
    "lower": 185.0,
    "volume_ml": 0.1761,
    "mean_radius_mm": 2.0123,
    "iterations": 250,
    "volume_change_per_percent_of_contrast": 0.0084,
    "radius_change_per_percent_of_contrast": 0.0053,
    "warnings": ["7 % of the centre line is thin"],
    "controlled_by": "segment.lower",
    "volume_by_threshold": [
        {"lower": t, "volume_ml": v, "mean_radius_mm": r}
        for t, v, r in ((170.0, 0.18, 2.05), (185.0, 0.1761, 2.0123), (200.0, 0.17, 1.9))
    ],
}


WAVEFORMS = {"waveform-flow.png", "waveform-pressure.png"}

TRIANGLES = {
    "triangles": 12_345,
    "needles": 678,
    "tiny": 9,
    "smallest_angle_deg": 0.123,
    "median_angle_deg": 51.5,
    "angle_histogram": [300, 378, 500, 900, 1000, 1100, 1200, 1300, 1400, 1500, 1400, 1367],
}


def job(stage, inputs, outputs, settings):
    log = logging.getLogger("test")
    return Job(stage, inputs, outputs, settings, log)


def leave(folder: Path) -> Path:
    """What the stages leave, with one warning of the solver, in a folder of the test's own; made once a process."""
    shutil.copytree(_left(), folder, dirs_exist_ok=True)
    return folder


@cache
def _left() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="reported-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    pipe = Pipe(length_mm=14.0)
    nodes = pipe.nodes(0.3)
    points = nodes.points_mm()
    node_files.save(nodes, folder / "nodes.h5")
    pipe.surface(0.2).write(folder / "surface.vtp")
    quality = {"source": "given surface", "volume_mm3": 176.0, "before": TRIANGLES, "after": TRIANGLES | {"needles": 0}}
    write_openings(nodes.openings, folder / "openings.json", quality=quality)
    inputs = {"surface": folder / "surface.vtp", "openings": folder / "openings.json"}
    files = {"centreline": "centreline.vtp", "branches": "branches.csv", "summary": "centreline.json"}
    trace(job("centreline", inputs, {role: folder / name for role, name in files.items()}, {}))
    with FlowWriter(folder / "flow.vtkhdf", nodes) as writer:
        fields = pipe.velocity(points), pipe.pressure(points), pipe.stress(points)
        writer.append(0.4, *fields)
        writer.average(*fields, statistics=pipe.statistics(points))
    columns = "time_s,residual,max_speed_m_s,flow_ml_s:inlet,flow_ml_s:outlet,pressure_pa:inlet,pressure_pa:outlet"
    rows = [f"{0.1 * k},{10.0**-k},0.2,{pipe.flow_ml_s},{pipe.flow_ml_s},4.2,0" for k in range(5)]
    (folder / "monitor.csv").write_text("\n".join([columns, *rows]) + "\n")
    summary = {
        "converged": True,
        "mach": 0.1,
        "warnings": ["tau & <tau> are low"],
        "device": "CPU",
        "mlups": 10.25,
        "numbers": {"density_kg_m3": 1060.0, "viscosity_m2_s": 3.3e-6, "time_step_s": 3.2e-5},
        "models": {"velocity_set": "D3Q19", "collision": "trt"},
        "openings": {"inlet": {"imposed_flow_ml_s": pipe.flow_ml_s}, "outlet": {}},
        "waveforms": described({"inlet": spline(np.array((0, 0.3, 0.8)), np.array((1.0, 4.0, 1.0)))}, "flow_ml_s")
        | described({"outlet": linear(np.array((0, 0.3, 0.8)), np.array((80.0, 120.0, 80.0)))}, "pressure_mmhg"),
    }
    (folder / "solve.json").write_text(json.dumps(summary))
    (folder / "series.json").write_text(json.dumps({"modality": "CT", "matrix": [64, 64, 56], "origin_mm": [1, 2, 3]}))
    (folder / "segmentation.json").write_text(json.dumps(SEGMENTATION))
    (folder / "segmentation.png").write_bytes(PNG)
    (folder / "load.provenance.json").write_text(
        json.dumps(
            {"stage": "load", "seconds": 1.25, "peak_memory_mb": 100, "settings": {"series": None}, "versions": {}}
        )
    )
    given, outputs = (
        {role: folder / name for role, name in files.items()}
        for files in (INPUTS | {"centreline": "centreline.vtp"}, OUTPUTS)
    )
    postprocess(job("postprocess", given, outputs, {}))
    return folder


def make(results: Path, folder: Path, without=(), more=None, still=True, blank=False, **settings):
    """The text of the page and the names of the figures.

    `more` are optional inputs, files of `results` by role. For tests of all but the figures themselves: these are
    made, but `blank`, as large as others, and what VTK would draw on them is, too; without `still` pictures, as where
    nothing can be drawn, they take a tenth of the time, with them a fourth.
    """
    inputs = {
        "series": "series.json",
        "segmentation": "segmentation.json",
        "picture": "segmentation.png",
        "openings": "openings.json",
        "nodes": "nodes.h5",
        "flow": "flow.vtkhdf",
        "monitor": "monitor.csv",
        "summary": "solve.json",
        "wall": "wall.vtp",
        "indices": "indices.json",
        "centreline": "centreline.vtp",
        "branches": "centreline.json",
    }
    outputs = {"report": folder / "report.html", "figures": folder / "figures"}
    settings = {"case": "pipe", "description": "a <script>alert(1)</script> & more", "streamlines": 8} | settings
    given = {role: results / name for role, name in (inputs | (more or {})).items() if role not in without}
    with ExitStack() as patches:
        for module in () if still else (report, render):
            patches.enter_context(mock.patch.object(module, "window_class", return_value=None))
        if blank:
            patches.enter_context(mock.patch.object(figures, "to_png", return_value=_blank_figure()))
            patches.enter_context(mock.patch.object(render.Canvas, "picture", _blank_picture))
        report._compute(job("report", given, outputs, settings))
    return outputs["report"].read_text(), {path.name for path in outputs["figures"].iterdir()}


@cache
def _blank_figure() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (900, 500), "white").save(stream, "png")
    return stream.getvalue()


def _blank_picture(canvas: render.Canvas, *_: object) -> NDArray[np.uint8]:
    height, width, colours = canvas._shape
    return np.full((height // render.OVERSAMPLING, width // render.OVERSAMPLING, colours), 255, np.uint8)


PROFILE = """\
branch,from,to,way_mm,x_mm,area_mm2,flow_ml_s,pressure_pa,pressure_mmhg,shear_mean_pa,peak_speed_m_s,reynolds
2,fork,outlet,0,1,6,1,30,0.2,1.5,0.2,90
2,fork,outlet,4,1,5,1,10,0.1,,0.2,90
1,inlet,fork,0,0,8,2,70,0.5,1,0.3,120
1,inlet,fork,6,0,,2,,0.3,2,0.3,120
3,fork,side,0,1,4,1,30,0.2,1,0.2,90
3,fork,side,5,1,4,1,5,0.1,1,0.2,90
"""
"""Two branches behind a third one, which stands second; with empty values."""

GRID = {
    "spacings_mm": [0.4, 0.3, 0.2],
    "quantities": [
        {
            "name": "shear_mean_pa",
            "unit": "Pa",
            "values": [1.1, 1.21, 1.28],
            "order": 1.87,
            "extrapolated": 1.33,
            "gci": 0.0512,
            "behaviour": "monotone",
        },
        {
            "name": "peak speed",
            "unit": "m/s",
            "values": [0.3, 0.31, 0.305],
            "order": None,
            "extrapolated": None,
            "gci": None,
            "behaviour": "oscillating",
        },
    ],
    "warnings": ["the peak speed <oscillates>"],
}

MORE = {
    "times": 4,
    "energy": {
        "power_in_w": 1.4e-4,
        "power_out_w": 5e-5,
        "dissipation_w": 1.3e-4,
        "kinetic_energy_change_w": 2e-6,
        "unaccounted_fraction": 0.057,
    },
    "volume": {"volume_ml": 0.176, "kinetic_energy_j": 8.8e-6, "dissipation_w": 1.3e-4, "mean_shear_rate_1_s": 311.0},
    "stenoses": [
        {
            "at_mm": [1.0, -2.0, 3.5],
            "branch": 1,
            "from": "inlet",
            "way_mm": 4.5,
            "stenosis_by_diameter": 0.525,
            "stenosis_by_area": 0.774,
            "pressure_drop_mmhg": 0.25,
            "max_speed_m_s": 0.61,
            "pressure_ratio": None,
        },
    ],
    "sacs": [
        {
            "name": "sac 1",
            "volume_ml": 0.141,
            "neck_area_mm2": 9.5,
            "inflow_ml_s": 0.31,
            "inflow_share": 0.155,
            "shear_mean_pa": 0.12,
            "parent_shear_mean_pa": 1.5,
            "shear_ratio": 0.08,
            "low_shear_index": 0.11,
            "found_by": "the neck's ring",
        },
    ],
    "centreline": [
        {"branch": 1, "from": "inlet", "to": "outlet", "leads_to_opening": True, "pressure_drop_pa": 40.5},
        {"branch": 2, "from": "fork", "to": "blind end", "leads_to_opening": False, "pressure_drop_pa": None},
    ],
    "pressure_ratio_note": "of mean pressures, at the flow that was assumed",
}

PARTICLES = {
    "period_s": None,
    "warnings": [],
    "in_volume": {"not_washed_out_share": 0.025},
    "checks": particle_checks({"in_volume": {"lost_share": 0.0}}),
    "outlets": [{"name": "outlet", "particle_share": 0.98, "flow_share": 0.97}],
}

BANDS = {
    "members": 12,
    "covered": 0.9,
    "failed": [{"number": 5, "why": "the flow diverges"}],
    "no_bands": None,
    "better": "a measured inflow would narrow the bands most",
    "wall": {"whole_mm": 0.02, "rough_mm": 0.06, "length_mm": 0.5},
    "ratio": 1.6,
    "nodes_across": 8.2,
    "sources": ["wall", "inflow", "waveform", "spacing"],
    "not_varied": ["how the flow divides did not vary"],
    "inflow_cv": 0.1,
    "waveform_cv": 0.2,
    "bands": [
        {
            "key": key,
            "name": name,
            "unit": "Pa",
            "value": 1.0,
            "low": 0.25,
            "high": 1.75,
            "by": by,
            "deviations": {"wall": 0.3, "inflow": 0.4, "waveform": 0.0, "spacing": 0.0},
            "crosses": crosses,
        }
        for key, name, by, crosses in (
            ("shear_mean", "mean wall shear stress", "ratio", 0.4),
            ("shear_p99", "99th percentile", "ratio", None),
            ("low_shear", "of the wall below 0.4 Pa", "difference", None),
        )
    ],
}

CARRIED = {
    "volume_over_flow_s": 0.321,
    "age": {
        "mean_s": 0.415,
        "median_s": 0.25,
        "p90_s": 1.25,
        "missing_share": 0.004,
        "outlets": [{"name": "outlet", "mean_s": 0.3215}],
        "sacs": [{"name": "sac", "mean_s": 1.125}],
    },
    "bolus": {
        "duration_s": 0.16,
        "held_at_end_share": 0.0195,
        "outlets": [{"name": "outlet", "appears_s": 0.2, "peak_s": 0.3, "peak": 0.54, "mean_s": 0.34}],
        "sacs": [{"name": "sac", "peak_share": 0.6, "peak_s": 0.4, "to_50_percent_s": 0.875, "to_10_percent_s": None}],
    },
    "numbers": {"diffusivity_m2_s": 6e-6, "grid_peclet": 10.0, "peclet_of_radius": 65.0},
    "notes": ["the diffusivity is raised"],
    "warnings": ["3 % of the bolus are still in the vessel"],
}
CURVES = "time_s,injected_share,vessel_share,washout:sac,concentration:outlet\n0.1,0.1,0.1,0,\n0.2,0.2,0.15,0.05,0.4\n"

OPTIONAL = {
    "along": "centreline_flow.csv",
    "particles": "particles.json",
    "animation": "particles.gif",
    "pathlines": "pathlines.vtp",
    "carried": "transport.json",
    "curves": "transport.csv",
    "strip": "angiogram.png",
    "angiogram": "angiogram.webp",
    "grid": "grid_convergence.json",
    "bands": "uncertainty.json",
    "wall-map": "wall_uncertainty.vtp",
    "reduced": "reduced.json",
}


def enrich(results: Path, folder: Path) -> Path:
    """A copy of the folder with what later stages add: a pulsating wall, more of the openings, the files above."""
    shutil.copytree(results, folder, dirs_exist_ok=True)
    indices = json.loads((folder / "indices.json").read_text()) | MORE
    for k, opening in enumerate(indices["openings"]):
        opening |= {
            "womersley": 2.5,
            "flow_share": 1.0,
            "reynolds_peak": 321.0,
            "flow_min_ml_s": 0.5,
            "flow_max_ml_s": 4.25,
            "pressure_min_pa": -3.0 + k,
            "pressure_max_pa": 9.5,
            "total_pressure_pa": 12.25,
        }
    for drop in indices["pressure_drops"]:
        drop["pressure_ratio"] = 0.925
    (folder / "indices.json").write_text(json.dumps(indices))
    (folder / "centreline_flow.csv").write_text(PROFILE)
    (folder / "grid_convergence.json").write_text(json.dumps(GRID))
    (folder / "particles.json").write_text(json.dumps(PARTICLES))
    (folder / "uncertainty.json").write_text(json.dumps(BANDS))
    fork(reservations=("the flow fluctuates",)).write(folder / "reduced.json")
    (folder / "transport.json").write_text(json.dumps(CARRIED))
    (folder / "transport.csv").write_text(CURVES)
    (folder / "angiogram.png").write_bytes(PNG)
    Image.new("RGB", (8, 8)).save(folder / "angiogram.webp")
    frames = [Image.new("P", (8, 8), shade) for shade in (0, 200)]
    frames[0].save(folder / "particles.gif", save_all=True, append_images=frames[1:])
    _write_paths(folder / "pathlines.vtp")
    wall = Mesh.read(folder / "wall.vtp")
    wall.write(folder / "wall.vtp", wall_arrays(wall))
    deviation = 0.1 * wall_arrays(wall)["TAWSS (Pa)"]
    wall.write(folder / "wall_uncertainty.vtp", {"TAWSS standard deviation (Pa)": deviation})
    return folder


def _write_paths(path: Path) -> None:
    """Straight paths along the pipe, as fast as the flow there, eight around its axis."""
    pipe = Pipe(length_mm=14.0)
    first, second, axis = pipe.frame()
    along = np.linspace(-6.9, 6.9, 30)
    places, times = [], []
    for angle in np.arange(8) * np.pi / 4:
        beside = pipe.radius_mm / 2 * (np.cos(angle) * first + np.sin(angle) * second)
        places.append(beside + along[:, None] * axis)
        times.append((along - along[0]) * 1e-3 / (1.5 * pipe.mean_speed_m_s))
    speeds = np.full(8 * 30, 1.5 * pipe.mean_speed_m_s)
    at_points = {"time (s)": np.concatenate(times), "speed (m s-1)": speeds}
    on_lines = {"released (s)": np.zeros(8), "left through": np.full(8, 2, np.int8)}
    write_lines(path, np.concatenate(places), np.arange(9) * 30, at_points, on_lines)


def wall_arrays(wall: Mesh) -> dict[str, np.ndarray]:
    """Quantities of a pulsating flow, each with a pattern of its own; one has both signs, one is a vector."""
    x, y, z = (wall.points_mm - wall.points_mm.mean(axis=0)).T
    long = (z - z.min()) / np.ptp(z)
    return {
        "TAWSS (Pa)": 0.5 + long,
        "OSI": 0.4 * (1 - long),
        "RRT (1/Pa)": 1 + long**2,
        "ECAP (1/Pa)": 0.3 * np.abs(np.sin(4 * long)),
        "peak WSS (Pa)": 2 + np.cos(9 * long),
        "transverse WSS (Pa)": 0.2 * (x > 0),
        "TAWSS gradient (Pa mm-1)": np.abs(np.cos(5 * long)),
        "pressure (Pa)": 70 * (1 - long),
        "swirl (1/s)": np.sin(6 * long) * 40,
        "sac": (long > 0.7).astype(np.int8),
        "WSS (Pa)": np.column_stack((x, y, z)),
    }
