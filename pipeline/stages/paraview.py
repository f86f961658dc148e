# SPDX-License-Identifier: Apache-2.0
"""After postprocess, paraview: a script that opens the results of a case in ParaView, in the views of the report.

The script names files beside it, never a path, and holds colours and their ranges as numbers. It follows ParaView's
documentation for 5.12, the first version that reads a time series from VTKHDF, and is tested against a record of the
names that it uses; ParaView itself did not run it here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from pprint import pformat
from string import Template
from typing import Any, Literal

import h5py
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import RunName, Section, parse
from pipeline.files.mesh import read_mesh, read_point_arrays
from pipeline.haemodynamics.percentiles import weighted_percentiles
from pipeline.haemodynamics.wall_shear_stress import Wall
from pipeline.reporting.colours import AMBIENT, DIFFUSE, colour_map
from pipeline.reporting.quantities import PRESSURE_COLOURS, SHEAR, SPEED_COLOURS, SPEED_PERCENTILE, quantity
from pipeline.reporting.scene import View, around, front_view
from solver.run.flow_file import IN_FILE, Flow, read_flow
from solver.run.units import words
from solver.runtime.checksum_trailer import require_checksum_trailer
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

BODY = Path(__file__).with_suffix(".txt")
"""The script but for what it shows."""

NOTE = "x: left (L), y: posterior (P), z: head (H); mm"

PERCENTILE = 99.0
"""Colours of what is no quantity of the wall end at this percentile of points."""

TUBE_PART = 0.006
"""Radius of tubes around lines, as a part of the picture's height."""

DISTANCE = 10.0
"""How far the camera stands away, in heights of the picture: in parallel projection it must only be outside."""

MOST_STATISTICS = 4
"""Arrays of the statistics that get a view; the others can be chosen in ParaView."""

COLOUR_POINTS = 17
"""Colours of a map that the script names: between them ParaView mixes."""

WALL_ARRAYS = ("TAWSS (Pa)", "WSS magnitude (Pa)", "OSI", "pressure (Pa)")
"""Arrays of the wall, the preferred first, of which two are shown."""

LINES = {
    "streamlines": ("streamlines: ", ("speed (m s-1)",), SPEED_COLOURS),
    "pathlines": ("pathlines: ", ("age (s)", "speed (m s-1)"), SPEED_COLOURS),
    "along": ("along the centreline: ", ("pressure (mmHg)", "pressure (Pa)", "mean speed (m s-1)"), PRESSURE_COLOURS),
}
"""Files of lines by role: what stands before the array's name in the title, arrays preferred, colours."""


class ParaviewInput(Section):
    """What the command line takes."""

    case: RunName = Field(description="name of the case")


@dataclass(frozen=True)
class Camera:
    """A camera in parallel projection, (x, y, z), LPS, mm."""

    centre_mm: tuple[float, ...]
    from_mm: tuple[float, ...]
    up: tuple[float, ...]
    half_height_mm: float

    @staticmethod
    def of(view: View) -> "Camera":
        """The camera that sees what a view of the report shows."""
        place = view.centre_mm + DISTANCE * view.height_mm * view.toward
        return Camera(_plain(view.centre_mm), _plain(place), _plain(view.up), round(max(view.height_mm, 1e-6) / 2, 4))


@dataclass(frozen=True)
class Panel:
    """One view of the script.

    Attributes
    ----------
    kind : the wall, a plane through the flow, all of a flow of one layer of nodes, or tubes around lines.
    file : beside the script.
    array, vector : point array that colours it, and whether its magnitude does.
    title : of the colour bar, with the unit.
    low, high : range of the colours, in that unit.
    log : whether colours follow the logarithm.
    rgb_points : value, red, green, blue of each of some colours, one after the other, each colour from 0 to 1.
    look : the camera.
    through_mm, normal : of a plane.
    radius_mm : of tubes.
    """

    kind: Literal["wall", "plane", "layer", "tubes"]
    file: str
    array: str
    vector: bool
    title: str
    low: float
    high: float
    log: bool
    rgb_points: tuple[float, ...]
    look: Camera
    through_mm: tuple[float, ...] | None = None
    normal: tuple[float, ...] | None = None
    radius_mm: float | None = None


def panels(
    wall: Wall,
    wall_arrays: Mapping[str, NDArray[Any]],
    flow: Flow,
    lines: Mapping[str, Mapping[str, NDArray[Any]]],
    statistics: Mapping[str, NDArray[Any]],
    files: Mapping[str, str],
) -> list[Panel]:
    """What the script shows, view by view.

    Parameters
    ----------
    wall, wall_arrays : the wall and its point arrays by name.
    flow : velocity over time.
    lines : point arrays by role (keys of `LINES`) and name; roles that are not there are left out.
    statistics : point arrays of the statistics of the flow, by name; none where there are no statistics.
    files : names of the files by role: ``wall``, ``flow``, ``statistics`` and the roles of `lines`.

    Raises
    ------
    StageError
        If the wall has no stress.
    """
    if not any(name in wall_arrays for name in SHEAR):
        raise StageError("the wall has no array of the wall shear stress; run postprocess again")
    view = front_view(wall.mesh.points_mm)
    side = around(wall.mesh.points_mm, view, [90])[0]
    front = Camera.of(view)
    shown = [name for name in WALL_ARRAYS if name in wall_arrays][:2]
    found = [_on_wall(name, wall_arrays[name], wall.areas_mm2, files["wall"], front) for name in shown]
    top = max(
        float(np.percentile(np.linalg.norm(flow.velocity_m_s(step), axis=1), SPEED_PERCENTILE))
        for step in range(len(flow.times_s))
    )
    middle = _plain(wall.mesh.points_mm.mean(axis=0))
    kind: Literal["plane", "layer"] = "plane" if np.ptp(flow.points_mm, axis=0).all() else "layer"

    def plane(file: str, array: str, vector: bool, title: str, limits: tuple[float, float], viewpoint: View) -> Panel:
        normal = _plain(viewpoint.toward)
        colours = _rgb_points(SPEED_COLOURS, limits)
        look = Camera.of(viewpoint)
        return Panel(kind, file, array, vector, title, *limits, False, colours, look, middle, normal)

    speed = (files["flow"], IN_FILE["velocity_m_s"], True, "speed (m/s)", (0.0, top or 1.0))
    found.append(plane(*speed, view))
    for role, arrays in lines.items():
        before, preferred, colours = LINES[role]
        name = next((name for name in preferred if name in arrays), next(iter(arrays), None))
        if name and len(arrays[name]):
            values, radius_mm = arrays[name], round(TUBE_PART * view.height_mm, 4)
            limits, vector = _range(name, values, np.ones(len(values))), values.ndim > 1
            title, points = before + words(name), _rgb_points(colours, limits)
            shown_as = (files[role], name, vector, title, *limits, False, points, front)
            found.append(Panel("tubes", *shown_as, radius_mm=radius_mm))
    for name, values in islice(statistics.items(), MOST_STATISTICS):
        limits = _range(name, values, np.ones(len(values)))
        found.append(plane(files["statistics"], name, values.ndim > 1, words(name), limits, view))
    if len(found) < 4:
        found.append(plane(*speed, side))
    return found


def _plain(vector: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(value), 6) + 0.0 for value in vector)


def _range(name: str, values: NDArray[Any], weights: NDArray[np.float64]) -> tuple[float, float]:
    """Range of colours: from 0, but for pressures and what is negative, up to a percentile by weight."""
    size = values.astype(np.float64) if values.ndim == 1 else np.linalg.norm(values.astype(np.float64), axis=1)
    low, high = weighted_percentiles(size, weights, (100 - PERCENTILE, PERCENTILE))
    low = low if low < 0 or name.startswith("pressure") else 0.0
    return low, high if high > low else low + 1.0


def _on_wall(name: str, values: NDArray[Any], areas_mm2: NDArray[np.float64], file: str, look: Camera) -> Panel:
    """The wall in the colours of the report."""
    shown = quantity(name, values, areas_mm2)
    points = _rgb_points(shown.colours, shown.limits, shown.log)
    return Panel("wall", file, name, False, shown.label, *shown.limits, shown.log, points, look)


def _rgb_points(colours: str, limits: tuple[float, float], log: bool = False) -> tuple[float, ...]:
    """Colours as ParaView takes them: at even steps of the value, or of its logarithm."""
    places = np.linspace(0, 1, COLOUR_POINTS)
    values = np.geomspace(*limits, COLOUR_POINTS) if log else limits[0] + places * (limits[1] - limits[0])
    table = np.column_stack((values, colour_map(colours)(places)[:, :3]))
    return tuple(float(f"{value:.6g}") for value in table.ravel())


def script(case: str, wall_file: str, shown: Iterable[Panel]) -> str:
    """The text of the script.

    Parameters
    ----------
    case : its name, for the layouts.
    wall_file : name of the wall's file.
    shown : the views.
    """
    light = {"ambient": AMBIENT, "diffuse": DIFFUSE}
    scene = {
        "name": case,
        "note": NOTE,
        "wall": wall_file,
        "light": light,
        "panels": [asdict(panel) for panel in shown],
    }
    text = pformat(scene, width=110, sort_dicts=False)
    return Template(BODY.read_text(encoding="utf-8")).substitute(scene=text)


def read_statistics(path: Path) -> dict[str, NDArray[Any]]:
    """Point arrays of a VTKHDF file by name, of its first time where it has several; those with values only.

    Raises
    ------
    StageError
        If it is no such file, or damaged.
    """
    try:
        require_checksum_trailer(path)
        with h5py.File(path, "r") as file:
            count = int(file["VTKHDF/NumberOfPoints"][0])
            data = file["VTKHDF/PointData"]
            return {name: data[name][:count] for name in data if len(data[name]) >= count > 0}
    except (OSError, KeyError, ValueError) as error:
        raise StageError(f"{path}: cannot be read as VTKHDF ({error}); run postprocess again") from None


def _compute(job: Job) -> None:
    settings = parse(ParaviewInput, job.settings, "--settings")
    given = job.inputs
    lines = {role: read_point_arrays(given[role]) for role in LINES if role in given}
    statistics = read_statistics(given["statistics"]) if "statistics" in given else {}
    files = {role: path.name for role, path in given.items()}
    mesh, arrays = read_mesh(given["wall"])
    shown = panels(Wall.of(mesh), arrays, read_flow(given["flow"]), lines, statistics, files)
    job.outputs["script"].write_text(script(settings.case, files["wall"], shown), encoding="utf-8")


if __name__ == "__main__":
    run_stage(
        "paraview",
        __doc__,
        inputs={
            "wall": "the wall with its stresses, from postprocess (wall.vtp)",
            "flow": "velocity and pressure over time, from solve (flow.vtkhdf)",
            "statistics": "statistics of the flow over time (.vtkhdf)",
            "streamlines": "streamlines (.vtp)",
            "pathlines": "paths of particles (.vtp)",
            "along": "quantities along the centreline (.vtp)",
        },
        outputs={"script": "script for ParaView (.py), to stand beside these files"},
        compute=_compute,
        optional=("statistics", "streamlines", "pathlines", "along"),
    )
