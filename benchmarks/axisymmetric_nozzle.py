"""The jet of the study `fda-nozzle` by another method: steady axisymmetric Navier-Stokes equations on staggered rings.

    python benchmarks/axisymmetric_nozzle.py --rings 60 120

Tells which of the laboratories' stations a right solution reaches. Rings of the cross-section and slices of equal
length hold pressures at their centres and velocities on their faces; differences are central, the cone a staircase,
the throat a third of the rings. Newton's method goes from creeping flow to the wanted Reynolds number, in steps as long
as it converges. Prints, for each number of rings, speed on the axis and half-width, and by how much they leave the
range.
"""

import argparse
import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench import default_file, provenance
from comparison import table
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "data/reference/fda_nozzle_re500.csv"
VISCOSITY_M2_S, FLOW_M3_S = 0.0035 / 1056, 5.20624e-6
WIDE_M, NARROW_M = 6e-3, 2e-3
PLACES_M, RADII_M = (-0.076, -0.062685, -0.040, 0.0), (WIDE_M, WIDE_M, NARROW_M, NARROW_M)
UNIFORM_TO_M, OUTLET_M, LONGEST_M, STRETCH = 0.1, 0.35, 8e-4, 1.02
"""Slices are as long as two rings are wide up to the first place, and behind it each is longer than the one before by
the factor, up to the longest."""
STATIONS_MM = (-48, -20, -8, 0, 8, 16, 24, 32, 60)
FIRST, STRIDE, LEAST_STRIDE, LARGEST_CHANGE, SMALLEST_CHANGE = 0.02, 0.05, 1e-3, 1.5, 1e-7
"""Reynolds number to begin with and the first stride, over the wanted one; changes of the speed, m/s, at which Newton's
method has failed or ended."""
Array = NDArray[np.float64]


def differences(lower: Array, upper: Array) -> sparse.csr_matrix:
    """Rows with a factor for one number and one for the next."""
    return sparse.diags_array([lower, upper], offsets=[0, 1], shape=(len(lower), len(lower) + 1), format="csr")


def inner(lower: Array, upper: Array, ends: tuple[float, float] = (0.0, 0.0)) -> sparse.csr_matrix:
    """From centres to faces: factors for the centre below and above each inner face; of the only one at both ends."""
    return sparse.diags_array(
        [np.append(lower, ends[1]), np.append(ends[0], upper)], offsets=[-1, 0],
        shape=(len(lower) + 2, len(lower) + 1), format="csr",
    )  # fmt: skip


def shear(known: NDArray[np.bool_], apart: Array, to_face: Array, axis: int, free: int) -> sparse.csr_matrix:
    """Differences of a velocity across faces along an axis of its array, (faces, velocities); in walls it is 0.

    `known` tells where it is not; `apart` are the distances over each face, `to_face` those from places to faces;
    across the face `free`, the first or the last, there is no difference.
    """
    wide = [(1, 1) if a == axis else (0, 0) for a in range(2)]
    padded, place = np.pad(known, wide), np.pad(np.arange(known.size).reshape(known.shape), wide)
    shape = [-1 if a == axis else 1 for a in range(2)]
    near, over = np.pad(to_face, 1).reshape(shape), apart.reshape(shape)
    sides = [np.take(each, range(k, each.shape[axis] - 1 + k), axis) for each in (padded, place) for k in (0, 1)]
    known_below, known_above, below, above = sides
    near_below, near_above = (np.take(near, range(k, near.shape[axis] - 1 + k), axis) for k in (0, 1))
    face, entries = np.arange(known_below.size).reshape(known_below.shape), []
    for mine, other, column, close, sign in (
        (known_above, known_below, above, near_above, 1.0), (known_below, known_above, below, near_below, -1.0),
    ):  # fmt: skip
        used = mine.copy()
        used[free if axis == 0 else slice(None), slice(None) if axis == 0 else free] = False
        distance = np.where(other, over, close)
        entries.append((face[used], column[used], sign / distance[used]))
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    return sparse.csr_matrix((values, (rows, columns)), shape=(face.size, known.size))


def picked(known: NDArray[np.bool_]) -> sparse.csr_matrix:
    """From the unknown numbers to all of an array."""
    rows = np.flatnonzero(known)
    return sparse.csr_matrix((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(known.size, len(rows)))


@dataclass(frozen=True)
class Jet:
    """Axial velocity, (faces along, rings), m/s, at places along the axis and radii, m."""

    places_m: Array
    radii_m: Array
    axial_m_s: Array

    def at(self, place_mm: float) -> tuple[float, float]:
        """Speed on the axis, m/s, by a parabola through the two innermost rings, and half-width, mm."""
        profile = np.array([np.interp(place_mm * 1e-3, self.places_m, ring) for ring in self.axial_m_s.T])
        centre = profile[0] + (profile[0] - profile[1]) / 8
        k = int(np.argmax(profile < centre / 2))
        return centre, 1e3 * float(np.interp(-centre / 2, -profile[k - 1 : k + 1], self.radii_m[k - 1 : k + 1]))


def solve(rings: int) -> Jet:
    """The steady flow on so many rings, a multiple of three."""
    dr, dz = WIDE_M / rings, 2 * WIDE_M / rings
    faces = list(np.arange(round((UNIFORM_TO_M - PLACES_M[0]) / dz) + 1) * dz + PLACES_M[0])
    step = dz
    while faces[-1] < OUTLET_M:
        step = min(step * STRETCH, LONGEST_M)
        faces.append(faces[-1] + step)
    z = np.array(faces)
    centre, length = (z[1:] + z[:-1]) / 2, np.diff(z)
    edge, radius = np.arange(rings + 1) * dr, (np.arange(rings) + 0.5) * dr
    wall = np.where(centre <= 0, np.interp(centre, PLACES_M, RADII_M), WIDE_M)
    fluid = radius < wall[:, None]
    axial, radial = np.zeros((len(z), rings), bool), np.zeros((len(centre), rings + 1), bool)
    axial[1:-1], axial[-1] = fluid[1:] & fluid[:-1], fluid[-1]
    radial[:, 1:-1] = fluid[:, 1:] & fluid[:, :-1]
    inflow = np.zeros((len(z), rings))
    inflow[0] = 1 - (radius / WIDE_M) ** 2
    inflow *= FLOW_M3_S / (inflow[0] @ (2 * np.pi * radius * dr))

    def along(matrix: sparse.csr_matrix, count: int) -> sparse.csr_matrix:
        return sparse.kron(matrix, sparse.identity(count), format="csr")

    def across(matrix: sparse.csr_matrix, count: int) -> sparse.csr_matrix:
        return sparse.kron(sparse.identity(count), matrix, format="csr")

    one, gap, many = np.ones(rings), np.diff(centre), len(centre)
    half_z, half_r = np.full(many, 0.5), np.full(rings, 0.5)
    between = np.concatenate(([length[0] / 2], gap, [length[-1] / 2]))
    moved = axial.copy()
    moved[0] = True
    u_mean, u_slope = along(differences(half_z, half_z), rings), along(differences(-1 / length, 1 / length), rings)
    v_mean = across(differences(half_r, half_r), many)
    u_edge = across(inner(half_r[1:], half_r[1:], (1.0, 0.0)), many + 1)
    v_edge = along(inner(half_z[1:], half_z[1:], (0.0, 1.0)), rings + 1)
    u_shear = shear(moved, np.full(rings + 1, dr), np.full(rings, dr / 2), 1, 0)
    v_shear = shear(radial, between, length / 2, 0, -1)
    u_spread = across(differences(-edge[:-1] / (radius * dr), edge[1:] / (radius * dr)), many + 1)
    v_spread = along(differences(-1 / length, 1 / length), rings + 1)
    to_faces = along(inner(-1 / gap, 1 / gap), rings)
    pressure_z = along(inner(-1 / gap, 1 / gap, (0.0, -2 / length[-1])), rings)
    ring_r = across(inner(-radius[:-1] / (edge[1:-1] * dr), radius[1:] / (edge[1:-1] * dr)), many)
    pressure_r = across(inner(-one[1:] / dr, one[1:] / dr), many)
    v_out = across(differences(-edge[:-1] / (radius * dr), edge[1:] / (radius * dr)), many)
    curved = across(sparse.diags_array(np.append(0.0, 1 / edge[1:] ** 2)), many)
    u_rub = to_faces @ u_slope + u_spread @ u_shear
    v_rub = v_spread @ v_shear + ring_r @ across(differences(-one / dr, one / dr), many) - curved
    of_u, of_v, of_p = (picked(each) for each in (axial, radial, fluid))
    ends = np.cumsum([of_u.shape[1], of_v.shape[1]])

    def newton(x: Array, viscosity: float) -> Array | None:
        for _ in range(12):
            part_u, part_v, part_p = np.split(x, ends)
            u, v, p = inflow.ravel() + of_u @ part_u, of_v @ part_v, of_p @ part_p
            uu, vv, ur, vz = (sparse.diags_array(each) for each in (u_mean @ u, v_mean @ v, u_edge @ u, v_edge @ v))
            rest = np.concatenate((
                of_u.T @ ((to_faces @ uu @ u_mean + u_spread @ vz @ u_edge - viscosity * u_rub) @ u + pressure_z @ p),
                of_v.T @ ((v_spread @ ur @ v_edge + ring_r @ vv @ v_mean - viscosity * v_rub) @ v + pressure_r @ p),
                of_p.T @ (u_slope @ u + v_out @ v),
            ))  # fmt: skip
            slope = sparse.bmat([
                [of_u.T @ (to_faces @ (2 * uu) @ u_mean + u_spread @ vz @ u_edge - viscosity * u_rub) @ of_u,
                 of_u.T @ u_spread @ ur @ v_edge @ of_v, of_u.T @ pressure_z @ of_p],
                [of_v.T @ v_spread @ vz @ u_edge @ of_u,
                 of_v.T @ (v_spread @ ur @ v_edge + ring_r @ (2 * vv) @ v_mean - viscosity * v_rub) @ of_v,
                 of_v.T @ pressure_r @ of_p],
                [of_p.T @ u_slope @ of_u, of_p.T @ v_out @ of_v, None],
            ], format="csc")  # fmt: skip
            change = splu(slope).solve(-rest)
            largest = np.abs(change[: ends[0]]).max()
            if not largest < LARGEST_CHANGE:
                return None
            x = x + change
            if largest < SMALLEST_CHANGE:
                return x
        return None

    found, reached, stride = newton(np.zeros(ends[1] + of_p.shape[1]), VISCOSITY_M2_S / FIRST), FIRST, STRIDE
    while found is None or reached < 1:
        wanted = min(1.0, reached + stride)
        further = None if found is None else newton(found, VISCOSITY_M2_S / wanted)
        if further is None:
            stride /= 2
            if stride < LEAST_STRIDE:
                raise SystemExit(f"no steady flow found beyond {reached:.2f} of the Reynolds number on {rings} rings")
        else:
            found, reached, stride = further, wanted, stride * 1.5
    return Jet(z, radius, (inflow.ravel() + of_u @ found[: ends[0]]).reshape(inflow.shape))


def compared(jet: Jet) -> list[dict[str, float]]:
    """Speed and width at the stations, and by which part of its nearer end each range is left; negative within it."""
    with REFERENCE.open(encoding="utf-8") as stream:
        rows = {float(row["z_mm"]): row for row in csv.DictReader(line for line in stream if line[0] != "#")}
    found = []
    for place in STATIONS_MM:
        row: dict[str, float] = {"z_mm": place}
        for key, value in zip(("axis_m_s", "half_width_mm"), jet.at(place), strict=True):
            low, high = (float(rows[place][key.replace("_m", f"_{end}_m", 1)]) for end in ("min", "max"))
            row |= {key: value, f"{key}_outside": max(1 - value / low, value / high - 1)}
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rings", type=int, nargs="+", default=[60, 120], help="multiples of three")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by date")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    results = provenance(options) | {"rings": {str(rings): compared(solve(rings)) for rings in options.rings}}
    file = options.json or default_file("axisymmetric-nozzle", results["hardware"])
    file.write_text(json.dumps(results, indent=1) + "\n")
    for rings, rows in results["rings"].items():
        cells = [[f"{value:.4g}" for value in row.values()] for row in rows]
        print(f"{rings} rings:", table(list(rows[0]), cells), sep="\n\n")
    print(file)


if __name__ == "__main__":
    main()
