# SPDX-License-Identifier: Apache-2.0
"""The matrix of flows in which the solver must stay stable: vessels, steady or reversing, by the grid Reynolds number.

An entry is run with the settings of a case that gives nothing but the flow. Its grid Reynolds number is U dx/nu with
U = 2 Q/A in the section with the largest mean speed, at peak flow, or with the speed of the lid: blood's viscosity
and the spacing stay, the flow is what differs. Real surfaces are those of the folder that ``HEMO_CASES`` names.
"""

import csv
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from pipeline.case.settings.flow import SolveSettings as CaseSettings
from pipeline.case.settings.geometry import VoxelizeSettings
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.files.mesh import Mesh
from pipeline.files.surface_file import read_surface_file
from pipeline.geometry.given_surface import GivenSurface
from pipeline.geometry.lattice.grid import Grid
from pipeline.geometry.lattice.node_arrays import decompose
from pipeline.stages.canonical import CanonicalInput, canonical
from pipeline.stages.filter import filter_volume
from pipeline.stages.import_surface import import_surface
from pipeline.stages.phantom import PhantomSettings, synthesize
from pipeline.stages.segment import segment
from pipeline.stages.surface import extract_surface
from pipeline.stages.voxelize import voxelize
from solver.domain import nodes as node_file
from solver.domain.nodes import Nodes, Opening
from solver.run.settings import SolveSettings
from solver.run.settings import parse as parse_solve
from solver.runtime.sources import ROOT
from tests.support.real_cases import place
from tests.support.shapes import capped_cylinder, opening_of
from tests.support.stability_runs import LOG, record_of

VISCOSITY_M2_S = 3.5e-3 / 1060
"""Of blood, as cases have it."""
GRID_REYNOLDS = (5.0, 20.0, 40.0, 80.0, 160.0, 300.0)
CYCLES, CYCLE_STEPS, STEPS_PER_NODE = 3, 4000, 80
"""Of a reversing flow: cycles, and steps of each: so many, or so many a node of the domain's length if that is more."""
PEAK = 0.08
"""Expected speed, in lattice units, from which those steps follow."""
REVERSAL = 0.2
"""Of the peak flow, what comes back at most."""
MAX_STEPS = 20_000
OBLIQUE = (1, 2, 3)


@dataclass(frozen=True)
class Vessel:
    """What fluid flows through, at any spacing.

    Attributes
    ----------
    build : node arrays at a spacing, mm.
    spacing_mm : the usual one.
    section_mm2 : area of the section with the largest mean speed, over the part of the flow that passes it; none where
        a lid drives the flow.
    real : file in the folder of real surfaces that it comes from.
    """

    build: Callable[[float], Nodes]
    spacing_mm: float
    section_mm2: float | None
    real: str | None = None

    @property
    def absent(self) -> str | None:
        """Why it cannot be built here; none if it can."""
        if self.real is None or (surfaces() / self.real).is_file():
            return None
        return f"no {self.real} in {surfaces()} (set HEMO_CASES)"


@dataclass(frozen=True)
class Entry:
    """A flow of the matrix: the name of a vessel, ``steady`` or ``reversing``, and its grid Reynolds number."""

    vessel: str
    flow: str
    grid_reynolds: float

    @property
    def name(self) -> str:
        """For tables and files."""
        return f"{self.vessel}-{self.flow}-{self.grid_reynolds:g}"


# ---- vessels ---------------------------------------------------------------------------------------------------------


def surfaces() -> Path:
    """Folder of the real surfaces."""
    return place() / "surfaces"


def on_lattice(
    mesh: Mesh,
    openings: tuple[Opening, ...],
    spacing_mm: float,
    grid: Grid | None = None,
    patches: tuple[str, ...] = (),
) -> Nodes:
    """Node arrays of a surface, through voxelize and decompose."""
    lattice, _ = voxelize(mesh, openings, VoxelizeSettings(spacing_mm=spacing_mm), grid=grid)
    return decompose(lattice, mesh, openings, patches=patches)[0]


def of_shape(geometry: dict[str, Any]) -> Callable[[float], Nodes]:
    """Builder of a canonical geometry."""

    def build(spacing_mm: float) -> Nodes:
        made, more = canonical(CanonicalInput(geometry=geometry, spacing_mm=spacing_mm))
        frame = {key: value if key == "reference_mm" else tuple(value) for key, value in more["frame"].items()}
        return on_lattice(made.mesh, made.openings, spacing_mm, Grid(**frame), tuple(more["patches"]))

    return build


def slab(spacing_mm: float, direction: tuple[float, float, float] = OBLIQUE) -> Nodes:
    """A piece of an aorta of 21 mm radius between the borders of an image: oblique, its ends cut across z."""
    axis = np.array(direction) / np.linalg.norm(direction)
    along = np.array((axis[0], axis[1], 0)) / np.hypot(axis[0], axis[1])
    columns = (along / axis[2], np.cross((0.0, 0.0, 1.0), along), axis / axis[2])
    tube, _ = capped_cylinder((0, 0, 1), 21.0, 70.0)
    mesh = Mesh(tube.points_mm @ np.array(columns), tube.triangles, tube.opening)
    ends = (opening_of(mesh, 1, "inlet", "inlet"), opening_of(mesh, 2, "outlet", "outlet"))
    return on_lattice(mesh, ends, spacing_mm)


def aneurysm(spacing_mm: float) -> Nodes:
    """The demo's, through its stages from the image on."""
    case = parse(Case, read_yaml(ROOT / "config/cases/demo.yaml"), "demo.yaml")
    image = synthesize(parse(PhantomSettings, read_yaml(ROOT / "data/phantoms/aneurysm.yaml"), "aneurysm.yaml")).image
    lumen = segment(filter_volume(image, case.filter), case.segment, image, "CT").occupancy
    surface = extract_surface(lumen, case.surface, LOG)
    return on_lattice(surface.mesh, surface.openings, spacing_mm)


def real(name: str, unit: str) -> Callable[[float], Nodes]:
    """Builder of a real surface, its largest opening the inlet."""

    def build(spacing_mm: float) -> Nodes:
        made = import_surface(read_surface_file(surfaces() / name), GivenSurface(unit=unit), LOG)
        return on_lattice(made.mesh, made.openings, spacing_mm)

    return build


CUBE = of_shape({"shape": "cavity", "length_mm": 10.0, "width_mm": 10.0})
FORK = [{"name": name, "length_mm": 9.0, "angle_deg": 35.0} for name in ("left", "right")]
ROUND_4MM = np.pi * 2.0**2

VESSELS = {
    "pipe": Vessel(
        of_shape({"shape": "pipe", "diameter_mm": 4.0, "length_mm": 20.0, "direction": OBLIQUE}), 4 / 13, ROUND_4MM
    ),
    "bend": Vessel(
        of_shape(
            {
                "shape": "bend",
                "diameter_mm": 4.0,
                "bend_radius_mm": 8.0,
                "inlet_mm": 5.0,
                "outlet_mm": 5.0,
                "direction": OBLIQUE,
            }
        ),
        4 / 13,
        ROUND_4MM,
    ),
    "fork": Vessel(
        of_shape(
            {"shape": "bifurcation", "diameter_mm": 4.0, "length_mm": 9.0, "daughters": FORK, "direction": OBLIQUE}
        ),
        4 / 13,
        ROUND_4MM,
    ),
    "aneurysm": Vessel(aneurysm, 4 / 12, 11.7),
    "stenosis": Vessel(
        of_shape(
            {
                "shape": "stenosis",
                "diameter_mm": 4.0,
                "length_mm": 28.0,
                "throat_mm": 8.0,
                "area_reduction": 0.75,
                "direction": OBLIQUE,
            }
        ),
        4 / 14,
        ROUND_4MM / 4,
    ),
    "nozzle": Vessel(  # the FDA's, its parts shortened
        of_shape(
            {
                "shape": "nozzle",
                "diameter_mm": 4.0,
                "inlet_diameter_mm": 12.0,
                "outlet_diameter_mm": 12.0,
                "inlet_mm": 4.0,
                "cone_mm": 12.0,
                "throat_mm": 12.0,
                "outlet_mm": 30.0,
                "direction": OBLIQUE,
            }
        ),
        4 / 8,
        ROUND_4MM,
    ),
    "step": Vessel(
        of_shape(
            {
                "shape": "step",
                "step_mm": 2.0,
                "expansion_ratio": 2.0,
                "inlet_mm": 6.0,
                "outlet_mm": 24.0,
                "width_mm": 4.0,
                "sides": "walls",
            }
        ),
        2 / 8,
        2.0 * 4.0,
    ),
    "cavity-24": Vessel(CUBE, 10 / 24, None),
    "cavity-48": Vessel(CUBE, 10 / 48, None),
    "cavity-64": Vessel(CUBE, 10 / 64, None),
    "slab": Vessel(slab, 2.0, np.pi * 21.0**2),
    "alster": Vessel(real("caput-alster-ay-mm.stl", "mm"), 0.3, 4.36, "caput-alster-ay-mm.stl"),
    "palabos": Vessel(real("palabos-aneurysm-metres.stl", "m"), 1.2, 111.0, "palabos-aneurysm-metres.stl"),
    "iliac": Vessel(real("simvascular-aorto-iliac-cm.vtp", "cm"), 1.6, 125.0, "simvascular-aorto-iliac-cm.vtp"),
}
"""All vessels by name. Of the irregular ones the narrowest section was measured once, with `solver.domain.sections`."""


@cache
def nodes_of(name: str, spacing_mm: float | None = None) -> Nodes:
    """Node arrays of a vessel, shared by processes through the folder that ``HEMO_MATRIX`` names, if any."""
    chosen = VESSELS[name]
    spacing_mm = spacing_mm or chosen.spacing_mm
    folder = os.environ.get("HEMO_MATRIX")
    path = Path(folder or "", f"{name}-{spacing_mm:.5g}.h5")
    if folder and path.is_file():
        return node_file.load(path)
    made = chosen.build(spacing_mm)
    if folder:
        part = path.with_suffix(f".{os.getpid()}")
        node_file.save(made, part)
        part.replace(path)  # whole files only, for others that look for it
    return made


# ---- flows -----------------------------------------------------------------------------------------------------------


def flows() -> list[Entry]:
    """All entries of the matrix."""
    whole = [name for name in VESSELS if name not in ("cavity-48", "cavity-64")]
    found = [
        Entry(name, flow, number)
        for name in whole
        for flow in ("steady", "reversing")[: 1 if name == "cavity-24" else 2]
        for number in GRID_REYNOLDS
    ]
    fixed = [Entry(f"cavity-{n}", "steady", 1000 / n) for n in (48, 64)]  # Reynolds number 1000
    return [*found, *fixed, Entry("slab", "steady", 70.0)]  # 80 mL/s


def peak_speed_m_s(entry: Entry) -> float:
    """U of the grid Reynolds number, at the vessel's usual spacing."""
    return entry.grid_reynolds * VISCOSITY_M2_S / (VESSELS[entry.vessel].spacing_mm * 1e-3)


def settings_of(entry: Entry, nodes: Nodes, waveform: Path) -> SolveSettings:
    """Settings of a case that gives the flow alone; its waveform goes to a file."""
    speed = peak_speed_m_s(entry)
    section_mm2 = VESSELS[entry.vessel].section_mm2
    if section_mm2 is None:
        lid = {"lid": {"velocity_m_s": (speed, 0.0, 0.0)}}
        return replace(of_case({"patches": lid}), max_steps=MAX_STEPS)
    peak_ml_s = speed * section_mm2 / 2
    inlet = next(opening.name for opening in nodes.openings if opening.role == "inlet")
    if entry.flow == "steady":
        return replace(of_case({"inlets": {inlet: {"flow_ml_s": peak_ml_s}}}), max_steps=MAX_STEPS)
    write_reversing(waveform, peak_ml_s, period_s(entry))
    return of_case({"inlets": {inlet: {"waveform": str(waveform)}}, "cycles": CYCLES})


def period_s(entry: Entry) -> float:
    """Of a reversing flow: as long as at the vessel's usual spacing the steps of a cycle take."""
    nodes = nodes_of(entry.vessel)
    steps = max(CYCLE_STEPS, STEPS_PER_NODE * float(np.linalg.norm(np.ptp(nodes.position, axis=0) + 1)))
    return steps * PEAK * nodes.spacing_mm * 1e-3 / peak_speed_m_s(entry)


def of_case(given: dict[str, Any]) -> SolveSettings:
    """The solver's settings where a case's section ``solve`` has nothing but this, on the CPU."""
    return parse_solve(parse(CaseSettings, given | {"backend": "cpu", "unsettled": "report"}, "matrix").model_dump())


def write_reversing(path: Path, peak_ml_s: float, period_s: float) -> None:
    """The flow through a common carotid artery, less a constant, such that `REVERSAL` of its peak comes back."""
    with (ROOT / "data/waveforms/common-carotid.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.reader(stream) if row and not row[0].startswith("#")][1:]
    time_s, flow = np.array(rows, float).T
    shift = (flow.min() + REVERSAL * flow.max()) / (1 + REVERSAL)
    table = np.column_stack((time_s / time_s[-1] * period_s, (flow - shift) / (flow.max() - shift) * peak_ml_s))
    np.savetxt(path, table, fmt="%.9g", delimiter=",", header="time_s,flow_ml_s", comments="")


def run(entry: Entry, *, spacing_mm: float | None = None, keep: Path | None = None, **overrides: Any) -> dict[str, Any]:
    """Run an entry, and tell how it ended.

    Parameters
    ----------
    entry : of :func:`flows`, or any other.
    spacing_mm : of the lattice; none: the vessel's usual one.
    keep : folder in which flow and monitor stay.
    overrides : settings of the solver to replace, `max_steps` among them.

    Returns
    -------
    Entry and overrides, and what :func:`stability_runs.record_of` returns.
    """
    nodes = nodes_of(entry.vessel, spacing_mm)
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        settings = replace(settings_of(entry, nodes, folder / "waveform.csv"), **overrides)
        return {"name": entry.name, **asdict(entry), "overrides": overrides, **record_of(nodes, settings, folder)}
