# SPDX-License-Identifier: Apache-2.0
"""Along the branches: flow, pressure, speed and shear stress section by section, and the narrowings."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solver.boundary.windkessel import PASCAL_PER_MMHG

if TYPE_CHECKING:  # SciPy, and thinning, which those who read numbers do not need
    from scipy.sparse import csr_array

    from pipeline.geometry.branches.vessel_tree import Branch
    from pipeline.haemodynamics.accumulator import Fields
    from pipeline.haemodynamics.sections import Stations

UNOBSTRUCTED = 0.1
"""A diameter within this part of the reference is that of an unobstructed vessel."""

MIN_STENOSIS = 0.3
"""Narrowings by less of the diameter are not listed."""

MIN_STATIONS = 5
"""Sections of a branch with fewer say nothing of narrowings."""

REFERENCE_SPAN = 0.5
"""Sections that span less of a branch are not enough to fit the line of its reference to."""

COLUMNS = (
    "branch",
    "from",
    "to",
    "way_mm",
    "x_mm",
    "y_mm",
    "z_mm",
    "radius_mm",
    "area_mm2",
    "flow_ml_s",
    "mean_speed_m_s",
    "peak_speed_m_s",
    "pressure_pa",
    "pressure_mmhg",
    "total_pressure_pa",
    "reynolds",
    "shear_mean_pa",
    "osi_mean",
)
"""Columns of ``centreline_flow.csv``; the last is empty for a steady flow."""

WORDS = {
    "radius_mm": "radius of the largest ball (mm)",
    "way_mm": "way along the branch (mm)",
    "area_mm2": "area of the section (mm2)",
    "flow_ml_s": "flow (mL s-1)",
    "mean_speed_m_s": "mean speed (m s-1)",
    "peak_speed_m_s": "peak speed (m s-1)",
    "pressure_pa": "pressure (Pa)",
    "pressure_mmhg": "pressure (mmHg)",
    "total_pressure_pa": "total pressure (Pa)",
    "reynolds": "Reynolds number",
    "shear_mean_pa": "mean wall shear stress (Pa)",
    "osi_mean": "mean OSI",
}
"""Point arrays of ``centreline_flow.vtp`` by column."""

Floats = NDArray[np.float64]
Row = dict[str, Any]


class CentrelineProfile:
    """Sums over the times of a flow at the stations along the branches.

    Parameters
    ----------
    branches, stations : the branches, and the places along them.
    belongs_mm2 : (S, V), area of the wall that belongs to each station.
    density_kg_m3, viscosity_pa_s : of the fluid; the viscosity where it is the same everywhere.

    Attributes
    ----------
    flow_ml_s, pressure_pa, viscosity_pa_s : (S,) sums over the times; the flow is positive away from the root.
    moved_ml_s : (S,) sum of the magnitudes of the flow.
    power_uw : (S,) sum of the power that passes, pressure and kinetic energy.
    peak_speed_m_s : (S,) largest speed within one spacing of the section, of all times.
    """

    def __init__(
        self,
        branches: Sequence["Branch"],
        stations: "Stations",
        belongs_mm2: "csr_array",
        density_kg_m3: float,
        viscosity_pa_s: float,
    ) -> None:
        self.branches, self.stations, self._belongs = branches, stations, belongs_mm2
        self._density, self._constant = density_kg_m3, viscosity_pa_s
        self.times = 0
        self.flow_ml_s, self.moved_ml_s, self.pressure_pa, self.viscosity_pa_s, self.peak_speed_m_s = np.zeros(
            (5, stations.count)
        )
        self.power_uw = np.zeros(stations.count)
        self._near, self._there = stations.on_their_nodes()

    def add(self, fields: "Fields") -> None:
        """Take one time into the sums."""
        stations, near, viscosity = self._there, self._near, fields.viscosity_pa_s
        self.times += 1
        velocity = fields.velocity_m_s[near].astype(np.float64)
        flow = np.einsum("ij,ij->i", stations.areas_mm2 @ velocity, stations.directions)  # mm2 m/s = mL/s
        self.flow_ml_s += flow
        self.moved_ml_s += np.abs(flow)
        pressure = fields.pressure_pa[near].astype(np.float64)
        self.pressure_pa += stations.shares @ pressure
        total = pressure + self._density / 2 * (velocity**2).sum(axis=1)
        self.power_uw += np.einsum("ij,ij->i", stations.areas_mm2 @ (velocity * total[:, None]), stations.directions)
        effective = self._constant if viscosity is None else stations.shares @ viscosity[near].astype(np.float64)
        self.viscosity_pa_s += effective
        table = stations.middle
        for k in np.flatnonzero(np.diff(table.indptr)):
            rows = table.indices[table.indptr[k] : table.indptr[k + 1]]
            self.peak_speed_m_s[k] = max(self.peak_speed_m_s[k], np.linalg.norm(velocity[rows], axis=1).max())

    def rows(self, shear_pa: Floats, oscillatory: Floats | None) -> list[Row]:
        """What stands in ``centreline_flow.csv``: one row a station, means over the times but for the peak speed.

        With A the section of the surface and Q the flow, the mean speed is U = Q/A and the Reynolds number 2 R |U|/nu,
        R = sqrt(A/pi). The total pressure is p + rho |u|^2/2, weighted with the flow. NaN where there is no section,
        and of the total pressure where next to nothing flows.

        Parameters
        ----------
        shear_pa, oscillatory : (V,), mean magnitude of the wall shear stress, and its oscillatory index; none of a
            steady flow.
        """
        from pipeline.haemodynamics.energy import NO_FLOW

        stations = self.stations
        empty = np.where(stations.whole, 1.0, np.nan)
        flow, pressure = empty * self.flow_ml_s / self.times, empty * self.pressure_pa / self.times
        speed = flow / stations.area_mm2
        flows = np.abs(self.flow_ml_s) > NO_FLOW * np.abs(self.flow_ml_s).max(initial=0.0)
        total = np.divide(self.power_uw, self.flow_ml_s, out=np.full(stations.count, np.nan), where=flows)
        kinematic = empty * self.viscosity_pa_s / self.times / self._density
        wall = self._belongs.sum(axis=1)
        on_wall = np.divide(empty, wall, out=np.full_like(wall, np.nan), where=wall > 0)
        places = zip(("x_mm", "y_mm", "z_mm"), stations.points_mm.T, strict=True)
        columns = {
            "way_mm": stations.way_mm,
            **dict(places),
            "radius_mm": stations.radius_mm,
            "area_mm2": stations.area_mm2,
            "flow_ml_s": flow,
            "mean_speed_m_s": speed,
            "peak_speed_m_s": empty * self.peak_speed_m_s,
            "pressure_pa": pressure,
            "pressure_mmhg": pressure / PASCAL_PER_MMHG,
            "total_pressure_pa": empty * total,
            "reynolds": 2e-3 * np.sqrt(stations.area_mm2 / np.pi) * np.abs(speed) / kinematic,
            "shear_mean_pa": on_wall * (self._belongs @ shear_pa),
            "osi_mean": np.nan * empty if oscillatory is None else on_wall * (self._belongs @ oscillatory),
        }
        table = np.column_stack(list(columns.values())).tolist()
        of_branch = [self.branches[k] for k in stations.branch]
        return [
            {"branch": branch.id, "from": branch.start, "to": branch.stop, **dict(zip(columns, values, strict=True))}
            for branch, values in zip(of_branch, table, strict=True)
        ]

    def of_branches(self, rows: Sequence[Row]) -> list[Row]:
        """Key figures of each branch that has a section; pressures are those of its first and last section.

        ``flow_deviation`` is the largest difference of a section's flow from their mean, over the mean magnitude of the
        flow: conservation of mass along the branch, and none where no flow can pass.

        Parameters
        ----------
        rows : from :meth:`rows`.
        """
        found = []
        for branch, mine in self._whole():
            flow, moved = self.flow_ml_s[mine] / self.times, self.moved_ml_s[mine].mean() / self.times
            first, last = rows[mine[0]], rows[mine[-1]]
            area, wall = self.stations.area_mm2[mine], self._belongs.sum(axis=1)[mine]
            drop = first["pressure_pa"] - last["pressure_pa"] if len(mine) > 1 else None
            shear = np.array([rows[k]["shear_mean_pa"] for k in mine])
            found.append(
                {
                    "branch": branch.id,
                    "from": branch.start,
                    "to": branch.stop,
                    "leads_to_opening": branch.leads,
                    "sections": len(mine),
                    "flow_ml_s": float(flow.mean()),
                    "flow_deviation": float(np.abs(flow - flow.mean()).max() / moved)
                    if branch.leads and moved
                    else None,
                    "pressure_start_pa": first["pressure_pa"],
                    "pressure_end_pa": last["pressure_pa"],
                    "pressure_drop_pa": drop,
                    "pressure_drop_mmhg": drop / PASCAL_PER_MMHG if drop is not None else None,
                    "mean_area_mm2": float(area.mean()),
                    "min_area_mm2": float(area.min()),
                    "shear_mean_pa": float(wall @ np.nan_to_num(shear) / wall.sum()) if wall.any() else None,
                }
            )
        return found

    def narrowings(self, rows: Sequence[Row], physiological: bool) -> list[Row]:
        """Narrowings of the branches through which flow passes, by at least 30 % of the diameter.

        The diameter of a section is that of the circle of its area. A narrowing is a run of sections narrower than 90 %
        of the reference diameter (:func:`reference_diameters`); by diameter it is 1 - d/D, by area 1 - (d/D)^2, with d
        and D where the area is least against the reference. That is the interpolated reference of quantitative
        angiography, not NASCET's, which takes the vessel behind the narrowing. Pressures are those of the nearest
        sections on both sides that are not narrowed, none where there is none; up and down the mean flow.

        Source: DICOM PS3.17, T.4.2, interpolated reference; NASCET (1991), doi:10.1056/NEJM199108153250701.

        Parameters
        ----------
        rows : from :meth:`rows`.
        physiological : whether pressures are such that their ratio has a meaning.
        """
        found = []
        for branch, mine in self._whole():
            if len(mine) < MIN_STATIONS or not branch.leads:
                continue
            diameter = 2 * np.sqrt(self.stations.area_mm2[mine] / np.pi)
            part = diameter / reference_diameters(self.stations.way_mm[mine], diameter)
            for first, last in _runs(part < 1 - UNOBSTRUCTED):
                least = first + int(part[first : last + 1].argmin())
                if part[least] > 1 - MIN_STENOSIS:
                    continue
                beside = [rows[mine[k]] if 0 <= k < len(mine) else None for k in (first - 1, last + 1)]
                before, after = beside if self.flow_ml_s[mine].sum() >= 0 else beside[::-1]
                inner = mine[max(first - 1, 0) : last + 2]
                here, ratio = rows[mine[least]], float(part[least])
                found.append(
                    {
                        "branch": branch.id,
                        "from": branch.start,
                        "to": branch.stop,
                        "way_mm": here["way_mm"],
                        "at_mm": [here["x_mm"], here["y_mm"], here["z_mm"]],
                        "diameter_mm": float(diameter[least]),
                        "reference_diameter_mm": float(diameter[least]) / ratio,
                        "stenosis_by_diameter": 1 - ratio,
                        "stenosis_by_area": 1 - ratio**2,
                        "max_speed_m_s": float(self.peak_speed_m_s[inner].max()),
                        **_across(before, after, physiological),
                    }
                )
        return found

    def _whole(self) -> Iterator[tuple["Branch", NDArray[np.int64]]]:
        """Each branch with its stations that have a section, if there are any."""
        for k, branch in enumerate(self.branches):
            mine = np.flatnonzero((self.stations.branch == k) & self.stations.whole)
            if len(mine):
                yield branch, mine


def reference_diameters(way_mm: Floats, diameter_mm: Floats) -> Floats:
    """Diameters that a branch would have without narrowings and widenings, (n,).

    A straight line through the unobstructed sections: those within 10 % of it, found by fitting it to those near the
    median line, of the median of the slopes between all sections (Theil and Sen), then to those near the line so found,
    until these stay the same. More than half of the branch has to be unobstructed.

    Source: Sen (1968), doi:10.1080/01621459.1968.10480934.

    Parameters
    ----------
    way_mm, diameter_mm : (n,), of the sections in the order of the way.
    """
    first, second = np.triu_indices(len(way_mm), 1)
    slope = np.median((diameter_mm[second] - diameter_mm[first]) / (way_mm[second] - way_mm[first]))
    line = slope * way_mm + np.median(diameter_mm - slope * way_mm)
    kept = np.zeros(len(way_mm), bool)
    for _ in range(len(way_mm)):
        near = np.abs(diameter_mm - line) <= UNOBSTRUCTED * line
        if np.array_equal(near, kept) or _span(way_mm[near]) < REFERENCE_SPAN * np.ptp(way_mm):
            break
        kept = near
        slope, start = np.polyfit(way_mm[kept], diameter_mm[kept], 1)
        line = start + slope * way_mm
    return line


def _span(way_mm: Floats) -> float:
    return float(np.ptp(way_mm)) if len(way_mm) else 0.0


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last row of each run of flags that are set."""
    change = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    return list(zip(np.flatnonzero(change > 0).tolist(), (np.flatnonzero(change < 0) - 1).tolist(), strict=True))


def _across(before: Row | None, after: Row | None, physiological: bool) -> Row:
    """Static pressures on both sides of a narrowing, as far as there are any."""
    above, below = (float(each["pressure_pa"]) if each else np.nan for each in (before, after))
    found = {
        "pressure_proximal_pa": above,
        "pressure_distal_pa": below,
        "pressure_drop_pa": above - below,
        "pressure_drop_mmhg": (above - below) / PASCAL_PER_MMHG,
        "pressure_ratio": below / above if physiological else np.nan,
    }
    return {key: value if np.isfinite(value) else None for key, value in found.items()}
