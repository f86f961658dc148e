# SPDX-License-Identifier: Apache-2.0
"""The jet of the study `fda-nozzle` by another method: steady axisymmetric Navier-Stokes equations on staggered rings.

    PYTHONPATH=. python benchmarks/axisymmetric_nozzle.py --rings 60 120

Tells which of the laboratories' stations a right solution reaches. The cross-section is divided into rings, the length
into slices; pressures stand at the centres of their cells, velocities on the faces. Differences are central, the cone
is a staircase, the throat as wide as a third of the rings. Newton's method goes from creeping flow to the study's
Reynolds number, in strides as long as it converges. Prints, for each number of rings, speed on the axis and half-width,
and by which part they leave the laboratories' range.
"""

import argparse
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from bench import default_file, provenance
from comparison import table
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from pipeline.case.case_file import Case
from pipeline.case.shapes import Nozzle
from solver.runtime.errors import StageError
from validation.studies.nozzle import Options, outside
from validation.studies.reference import read_reference
from validation.studies.study_file import read_study

STUDY, RUN = "fda-nozzle", "z-20"
UNIFORM_TO_M, OUTLET_M, LONGEST_M, STRETCH = 0.1, 0.35, 8e-4, 1.02
"""Slices are as long as two rings are wide up to the first place, and behind it each is longer than the one before by
the factor, up to the longest. The outlet lies farther than the study's, so that no fluid comes back through it."""
FIRST, STRIDE, LEAST_STRIDE = 0.02, 0.05, 1e-3
"""Parts of the Reynolds number: to begin with, the first stride, and the shortest that is tried."""
ITERATIONS, LARGEST_CHANGE, SMALLEST_CHANGE = 12, 1.5, 1e-7
"""Of Newton's method: the most that are made, and changes of the speed, m/s, at which it has failed or ended."""
Array: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = sparse.csr_matrix


def differences(lower: Array, upper: Array) -> Matrix:
    """From faces to centres: factors for the face below and above each centre."""
    return sparse.diags_array([lower, upper], offsets=[0, 1], shape=(len(lower), len(lower) + 1), format="csr")


def inner(lower: Array, upper: Array, ends: tuple[float, float] = (0.0, 0.0)) -> Matrix:
    """From centres to faces: factors for the centre below and above each inner face; of the only one at both ends."""
    return sparse.diags_array(
        [np.append(lower, ends[1]), np.append(ends[0], upper)],
        offsets=[-1, 0],
        shape=(len(lower) + 2, len(lower) + 1),
        format="csr",
    )


def scaled(known: NDArray[np.bool_], apart: Array | float, to_wall: float, plain: Matrix) -> Matrix:
    """Differences of a velocity over their distances, across faces with velocities on both sides, or with a wall."""
    return sparse.diags_array(np.where(known, 1 / np.asarray(apart), 1 / to_wall).ravel()) @ plain


def picked(known: NDArray[np.bool_]) -> Matrix:
    """From the unknown numbers to all of an array."""
    rows = np.flatnonzero(known)
    return sparse.csr_matrix((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(known.size, len(rows)))


@dataclass(frozen=True)
class Cells:
    """Slices and rings of the study's nozzle; lengths in m.

    Attributes
    ----------
    case : of the study's run.
    rings : a multiple of three.
    """

    case: Case
    rings: int

    @cached_property
    def corners(self) -> Array:
        """Places and radii of the wall's, (6, 2)."""
        shape = self.case.input.geometry
        if not isinstance(shape, Nozzle):
            raise StageError(f"study {STUDY}: its geometry is no nozzle; set input.geometry.shape to nozzle")
        return 1e-3 * shape.profile

    @property
    def ring(self) -> float:
        """Width of one."""
        return float(self.corners[-1, 1]) / self.rings

    @cached_property
    def faces(self) -> Array:
        """Places of the slices' faces, one of them at the step."""
        slice_ = 2 * self.ring
        before = int(np.ceil(-self.corners[0, 0] / slice_))
        faces = list(np.arange(-before, round(UNIFORM_TO_M / slice_) + 1) * slice_)
        while faces[-1] < OUTLET_M:
            slice_ = min(slice_ * STRETCH, LONGEST_M)
            faces.append(faces[-1] + slice_)
        return np.array(faces)

    @cached_property
    def radii(self) -> Array:
        """Of the rings' middles."""
        return (np.arange(self.rings, dtype=np.float64) + 0.5) * self.ring

    @cached_property
    def fluid(self) -> NDArray[np.bool_]:
        """Whether a cell is, (slices, rings)."""
        middle = (self.faces[1:] + self.faces[:-1]) / 2
        places, radii = self.corners[:4].T
        wall = np.where(middle <= 0, np.interp(middle, places, radii), self.corners[-1, 1])
        return self.radii < wall[:, None]

    @cached_property
    def inflow(self) -> Array:
        """Axial velocity, m/s, all 0 but on the first face, (faces, rings)."""
        flow_ml_s = self.case.solve.inlets["inlet"].flow_ml_s
        if flow_ml_s is None:
            raise StageError(f"study {STUDY}: solve.inlets.inlet is a waveform; give a steady flow_ml_s")
        inflow = np.zeros((len(self.faces), self.rings))
        inflow[0] = 1 - (self.radii / self.corners[0, 1]) ** 2
        return inflow * (1e-6 * flow_ml_s) / (inflow[0] @ (2 * np.pi * self.radii * self.ring))


class Equations:
    """Momentum and mass of the axial and radial velocities and pressures of all fluid cells."""

    def __init__(self, cells: Cells) -> None:
        faces, rings, dr, fluid = cells.faces, cells.rings, cells.ring, cells.fluid
        length, radius, edge, slices = np.diff(faces), cells.radii, np.arange(rings + 1) * dr, len(faces) - 1
        gap = (faces[2:] - faces[:-2]) / 2

        def along(matrix: Matrix, count: int) -> Matrix:
            return sparse.kron(matrix, sparse.identity(count), format="csr")

        def across(matrix: Matrix, count: int) -> Matrix:
            return sparse.kron(sparse.identity(count), matrix, format="csr")

        axial, radial = np.zeros((slices + 1, rings), bool), np.zeros((slices, rings + 1), bool)
        axial[1:-1], axial[-1] = fluid[1:] & fluid[:-1], fluid[-1]
        radial[:, 1:-1] = fluid[:, 1:] & fluid[:, :-1]
        self.of_u, self.of_v, self.of_p = picked(axial), picked(radial), picked(fluid)
        self.inflow = cells.inflow.ravel()

        halves_z, halves_r, ones_z, ones_r = (np.full(n, x) for x in (0.5, 1.0) for n in (slices, rings))
        slope_z, slope_r = differences(-1 / length, 1 / length), differences(-ones_r / dr, ones_r / dr)
        out_r = differences(-edge[:-1] / (radius * dr), edge[1:] / (radius * dr))
        centred_r = inner(-radius[:-1] / (edge[1:-1] * dr), radius[1:] / (edge[1:-1] * dr))
        self.u_centre, self.v_centre = (
            along(differences(halves_z, halves_z), rings),
            across(differences(halves_r, halves_r), slices),
        )
        self.u_edge = across(inner(halves_r[1:], halves_r[1:], (1.0, 0.0)), slices + 1)
        self.v_edge = along(inner(halves_z[1:], halves_z[1:], (0.0, 1.0)), rings + 1)
        self.z_to_u, self.r_to_u = along(inner(-1 / gap, 1 / gap), rings), across(out_r, slices + 1)
        self.z_to_v, self.r_to_v = along(slope_z, rings + 1), across(centred_r, slices)
        self.pressure_z = along(inner(-1 / gap, 1 / gap, (0.0, -2 / length[-1])), rings)
        self.pressure_r = across(inner(-ones_r[1:] / dr, ones_r[1:] / dr), slices)
        self.u_out, self.v_out = along(slope_z, rings), across(out_r, slices)

        both_u = np.pad(axial[:, 1:] & axial[:, :-1], ((0, 0), (1, 1)))
        both_v = np.pad(radial[1:] & radial[:-1], ((1, 1), (0, 0)))
        u_plain = across(inner(-ones_r[1:], ones_r[1:], (0.0, -1.0)), slices + 1)  # none across the axis
        v_plain = along(inner(-ones_z[1:], ones_z[1:], (1.0, 0.0)), rings + 1)  # none across the outlet
        between = np.pad(gap, 1, mode="edge")[:, None]
        u_shear, v_shear = scaled(both_u, dr, dr / 2, u_plain), scaled(both_v, between, length[0] / 2, v_plain)
        curved = across(sparse.diags_array(np.append(0.0, 1 / edge[1:] ** 2)), slices)
        self.u_friction = self.z_to_u @ self.u_out + self.r_to_u @ u_shear
        self.v_friction = self.z_to_v @ v_shear + self.r_to_v @ across(slope_r, slices) - curved

    @property
    def ends(self) -> NDArray[np.intp]:
        """Of the axial velocities, the radial ones and the pressures among the unknowns."""
        return np.cumsum([part.shape[1] for part in (self.of_u, self.of_v, self.of_p)])

    def axial(self, x: Array) -> Array:
        """Axial velocity on all faces."""
        return self.inflow + self.of_u @ x[: self.ends[0]]

    def __call__(self, x: Array, viscosity: float) -> tuple[Array, Matrix]:
        """What is to vanish, and its derivatives."""
        _, part_v, part_p, _ = np.split(x, self.ends)
        u, v, p = self.axial(x), self.of_v @ part_v, self.of_p @ part_p
        uu, vv, ur, vz = (
            sparse.diags_array(each)
            for each in (self.u_centre @ u, self.v_centre @ v, self.u_edge @ u, self.v_edge @ v)
        )
        along_z, along_r = self.z_to_u @ uu @ self.u_centre, self.r_to_v @ vv @ self.v_centre
        mixed_u = self.r_to_u @ vz @ self.u_edge - viscosity * self.u_friction
        mixed_v = self.z_to_v @ ur @ self.v_edge - viscosity * self.v_friction
        rest = np.concatenate(
            (
                self.of_u.T @ ((along_z + mixed_u) @ u + self.pressure_z @ p),
                self.of_v.T @ ((along_r + mixed_v) @ v + self.pressure_r @ p),
                self.of_p.T @ (self.u_out @ u + self.v_out @ v),
            )
        )
        full = (
            (2 * along_z + mixed_u, self.r_to_u @ ur @ self.v_edge, self.pressure_z),
            (self.z_to_v @ vz @ self.u_edge, 2 * along_r + mixed_v, self.pressure_r),
            (self.u_out, self.v_out, None),
        )
        parts = self.of_u, self.of_v, self.of_p
        blocks = [
            [None if block is None else to.T @ block @ of for block, of in zip(row, parts, strict=True)]
            for row, to in zip(full, parts, strict=True)
        ]
        return rest, sparse.bmat(blocks, format="csc")


def newton(equations: Equations, x: Array, viscosity: float) -> Array | None:
    """The solution near x; none where it is not found."""
    for _ in range(ITERATIONS):
        rest, slope = equations(x, viscosity)
        change = splu(slope).solve(-rest)
        largest = np.abs(change[: equations.ends[0]]).max()
        if not largest < LARGEST_CHANGE:
            return None
        x = x + change
        if largest < SMALLEST_CHANGE:
            return x
    return None


def solve(equations: Equations, viscosity: float) -> Array:
    """The steady flow, by strides from the smallest Reynolds number on."""
    found, reached, stride = np.zeros(equations.ends[-1]), 0.0, FIRST
    while reached < 1:
        wanted = min(1.0, reached + stride)
        further = newton(equations, found, viscosity / wanted)
        if further is not None:
            stride = STRIDE if reached == 0 else 1.5 * stride
            found, reached = further, wanted
        else:
            stride /= 2
            if stride < LEAST_STRIDE:
                raise SystemExit(f"no steady flow found beyond {reached:.2f} of the Reynolds number")
    return found


def at(cells: Cells, axial: Array, place_mm: float) -> tuple[float, float]:
    """Speed on the axis, m/s, by a parabola through the two innermost rings, and half-width, mm."""
    profile = np.array([np.interp(place_mm * 1e-3, cells.faces, ring) for ring in axial.T])
    centre = profile[0] + (profile[0] - profile[1]) / 8
    k = int(np.argmax(profile < centre / 2))
    return centre, 1e3 * float(np.interp(-centre / 2, -profile[k - 1 : k + 1], cells.radii[k - 1 : k + 1]))


def compared(case: Case, options: Options, rings: int) -> list[dict[str, float]]:
    """Speed and width at the stations, and by which part of its nearer end each range is left; negative within it."""
    cells = Cells(case, rings)
    equations = Equations(cells)
    found = solve(equations, case.solve.viscosity_pa_s / case.solve.density_kg_m3)
    axial, measured = equations.axial(found).reshape(cells.inflow.shape), read_reference(options.reference)
    rows = []
    for place in options.stations_mm:
        row, here = {"z_mm": place}, measured["z_mm"] == place
        for name, unit, value in zip(("axis", "half_width"), ("m_s", "mm"), at(cells, axial, place), strict=True):
            low, high = (measured[f"{name}_{end}_{unit}"][here] for end in ("min", "max"))
            row |= {f"{name}_{unit}": value, f"{name}_{unit}_outside": float(outside(np.array([value]), low, high)[0])}
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rings", type=int, nargs="+", default=[60, 120], help="multiples of three")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by date")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    study = read_study(STUDY)
    case, stations = study.cases(STUDY)[RUN], Options.model_validate(study.options)
    results = provenance(options) | {"rings": {str(rings): compared(case, stations, rings) for rings in options.rings}}
    file = options.json or default_file("axisymmetric-nozzle", results["hardware"])
    file.write_text(json.dumps(results, indent=1) + "\n")
    for rings, rows in results["rings"].items():
        cells = [[f"{value:.4g}" for value in row.values()] for row in rows]
        print(f"{rings} rings:", table(list(rows[0]), cells), sep="\n\n")
    print(file)


if __name__ == "__main__":
    main()
