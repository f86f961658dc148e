# SPDX-License-Identifier: Apache-2.0
"""The sac of an aneurysm: its shape, what flows in and out, and the shear stress on its wall beside its parent's.

A sac is the part of the lumen beyond the plane of its neck, whether the plane was marked or found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline.case.settings.flow import PostprocessSettings, SacSettings
from pipeline.files.mesh import Mesh, words_mm
from pipeline.geometry.surface.clip import directed_edges
from pipeline.haemodynamics.accumulator import Fields, Slab, WallAccumulator
from pipeline.haemodynamics.advice import Advice, Setting
from pipeline.haemodynamics.neck import NeckError, Section, section_around
from pipeline.haemodynamics.parent import ways_through
from pipeline.haemodynamics.sac_finder import MARGIN, MIN_HEIGHT, Search, find_sacs
from pipeline.haemodynamics.sac_shape import SLAB_HALF_WIDTH, Sac, parent_radius_mm, parent_sections, severed_sac
from pipeline.haemodynamics.trust import LIMITS, check, sac_in_words
from pipeline.haemodynamics.wall_indices import oscillatory_shear_index
from pipeline.haemodynamics.wall_shear_stress import Wall, near_openings, rim_mm, within_period
from solver.domain.nodes import Nodes
from solver.runtime.errors import StageError

Floats = NDArray[np.float64]

LOW_SHEAR_OF_PARENT = 0.1
"""Shear stress below this part of the parent's mean is low. Source: Xiang et al. (2011),
doi:10.1161/STROKEAHA.110.592923."""

TOO_LOW_ORDER = 3
"""Order in the spacing of what the wall shear stress of a sac is too low by, on lattices that are used."""


@dataclass(frozen=True)
class _Flow:
    """What is summed for one sac over the times: see :meth:`Sacs.add`."""

    neck: Slab
    parent: tuple[tuple[Section, Slab], ...]
    sums: dict[str, float]


class Sacs:
    """The sacs of a vessel, and sums over the times of a flow in them.

    Parameters
    ----------
    nodes : the lattice and its openings.
    surface : the closed surface.
    settings : which sacs are marked, and whether one is to be found.
    lines : lines of the centreline's branches, each (n, 4): x, y, z and the radius of the largest ball, mm; where there
        are none nothing is found, and a sac's inflow is compared with that of the inlets.
    density_kg_m3, viscosity_pa_s : of the blood.

    Raises
    ------
    StageError
        If a neck that was marked severs no sac.
    """

    # many parameters because a sac needs the vessel, how it was marked, and the blood
    def __init__(
        self,
        nodes: Nodes,
        surface: Mesh,
        settings: PostprocessSettings,
        lines: Sequence[Floats],
        density_kg_m3: float,
        viscosity_pa_s: float,
    ) -> None:
        self._nodes, self._surface, self._density = nodes, surface, density_kg_m3
        self._viscosity_m2_s = viscosity_pa_s / density_kg_m3
        self.sacs: list[Sac] = []
        for k, given in enumerate(settings.sacs):
            self.sacs.append(_marked(nodes, surface, given, k, self.sacs))
        self.warnings: list[str] = []
        self.checks: list[dict[str, Any]] = []
        self.search = self._find(settings.find_sacs, lines)
        wall = within_period(surface, nodes)
        self._of_wall = np.unique(wall.triangles[wall.opening == 0])
        self._rim_mm = rim_mm(settings.fit_nodes, nodes.spacing_mm)
        ways = ways_through(lines, nodes.openings) if self.sacs else []
        self._parent_radius_mm = [parent_radius_mm(nodes, surface, sac, ways) for sac in self.sacs]
        self._flows = [
            _Flow(
                sac.neck.slab(nodes, SLAB_HALF_WIDTH),
                parent_sections(nodes, surface, sac, radius, ways),
                dict.fromkeys(("in", "net", "area_in", "energy", "speed", "peak"), 0.0),
            )
            for sac, radius in zip(self.sacs, self._parent_radius_mm, strict=True)
        ]
        self._parent_ml_s = [np.zeros(len(flow.parent)) for flow in self._flows]
        self._times = 0

    def _find(self, factor: float | Literal[False], lines: Sequence[Floats]) -> dict[str, Any]:
        """Look for sacs; how they were looked for and what came of it, as it stands in ``indices.json``."""
        if not factor:
            return _not_searched("postprocess.find_sacs is false")
        try:
            search = find_sacs(self._surface, self._nodes.openings, lines, factor, self._taken())
        except NeckError as doubt:
            return _not_searched(str(doubt))
        refused = [(each.place_mm, each.wideness, each.reason) for each in search.refused]
        found = 0
        for neck in search.necks:
            names = {sac.name for sac in self.sacs}
            name = next(name for k in count(1) if (name := f"sac_{k}" if k > 1 else "sac") not in names)
            try:
                self.sacs.append(severed_sac(self._nodes, self._surface, neck, name, "radius"))
                found += 1
            except NeckError as doubt:
                refused.append((neck.centre_mm, factor, str(doubt)))
        if refused:
            self.warnings.append(_no_sacs(refused))
        return _searched(factor, found, refused, search)

    def _taken(self) -> NDArray[np.bool_]:
        """Vertices of the surface that are in a sac, (P,)."""
        taken = np.zeros(len(self._surface.points_mm), bool)
        for sac in self.sacs:
            taken |= sac.part.vertices
        return taken

    def add(self, fields: Fields) -> None:
        """Take one time into the sums; the fields are finite."""
        self._times += 1
        for sac, flow, parent_ml_s in zip(self.sacs, self._flows, self._parent_ml_s, strict=True):
            sums = flow.sums
            through = fields.velocity_m_s[flow.neck.rows].astype(np.float64) @ sac.neck.normal
            sums["in"] += float(flow.neck.areas_mm2 @ np.abs(through)) / 2
            sums["net"] += float(flow.neck.areas_mm2 @ through)
            sums["area_in"] += float(flow.neck.areas_mm2[through > 0].sum())
            square = (fields.velocity_m_s[sac.rows].astype(np.float64) ** 2).sum(axis=1)
            sums["energy"] += self._density / 2 * float(square.mean()) * sac.volume_mm3 * 1e-9
            sums["speed"] += float(np.sqrt(square).mean())
            sums["peak"] = max(sums["peak"], float(np.sqrt(square.max())))
            for k, (section, slab) in enumerate(flow.parent):
                parent_ml_s[k] += slab.areas_mm2 @ (fields.velocity_m_s[slab.rows].astype(np.float64) @ section.normal)

    def arrays(self) -> dict[str, NDArray[np.int8]]:
        """Point array ``sac`` of the wall, (V,): number of the sac from 1 in the order of the figures, 0 for none;
        nothing where there are no sacs.
        """
        found = np.zeros(len(self._of_wall), np.int8)
        for k, sac in enumerate(self.sacs):
            found[sac.part.vertices[self._of_wall]] = k + 1
        return {"sac": found} if self.sacs else {}

    def figures(self, wall: Wall, accumulator: WallAccumulator) -> list[dict[str, Any]]:
        """Figures of the sacs, one entry each as it stands in ``indices.json``; doubts go to `warnings`, and checks
        of each to `checks`.

        Means over the times, unless the key says otherwise; tau is the shear stress on the wall (TAWSS of several
        times). None where a figure would be divided by nothing.

        - ``volume_ml``, ``surface_area_mm2``, ``neck_area_mm2``: of the polyhedron that the plane of the neck cuts off
          the surface; ``neck_diameter_mm`` is that of a circle of this area.
        - ``height_mm``: largest distance from the neck's plane; ``aspect_ratio``: over the neck's diameter (Ujiie et
          al. 2001, doi:10.1097/00006123-200103000-00007). ``dome_diameter_mm``: largest extent along the neck's plane.
        - ``inflow_ml_s``: half the integral of |u.n| over the neck; ``net_inflow_fraction``: integral of u.n over the
          inflow, which mass balance makes 0. ``turnover_time_s``: volume over inflow.
        - ``inflow_share``: inflow over the flow of ``inflow_share_of``: the larger of the flows through the parent on
          both sides of the neck, or the sum of the inlets. ``inflow_concentration_index``: this share over the part of
          the neck through which blood flows in (Cebral et al. 2011, doi:10.3174/ajnr.A2419).
        - ``shear_mean_pa``: area-weighted over the sac's wall; ``parent_shear_mean_pa``: over the parent's wall within
          ``parent_within_mm`` of the neck's centre: the neck's radius and ``parent_diameter_mm``, twice what
          :func:`parent_radius_mm` finds; ``shear_ratio`` is of these two.
        - ``low_shear_area_fraction``: part of the sac's wall with tau below a tenth of the parent's mean (Xiang et al.
          2011, doi:10.1161/STROKEAHA.110.592923).
        - ``low_shear_index``: (F_l / F_a) (A_l / A_a), F the integral of tau over the area A, a all of the sac's wall
          and l where tau is below the parent's mean less its standard deviation (Cebral et al. 2011). Authors differ
          in this threshold: it is ``low_shear_index_below_pa``.
        - ``kinetic_energy_j``, ``mean_speed_m_s``, ``peak_speed_m_s``: of the nodes in the sac, the peak of all times.
        """
        return [self._figures(k, wall, accumulator) for k in range(len(self.sacs))]

    def _figures(self, k: int, wall: Wall, accumulator: WallAccumulator) -> dict[str, Any]:
        sac, sums, times = self.sacs[k], self._flows[k].sums, self._times
        inflow, volume_ml = sums["in"] / times, sac.volume_mm3 * 1e-3
        parent_ml_s, of = self._parent_flow_ml_s(k, accumulator)
        share = _ratio(inflow, parent_ml_s)
        inward = sums["area_in"] / times / float(self._flows[k].neck.areas_mm2.sum())
        net = _ratio(sums["net"] / times, inflow)
        self._doubt(sac, net, self._stress_too_low(2 * self._parent_radius_mm[k], parent_ml_s))
        return {
            "name": sac.name,
            "found_by": sac.found_by,
            "neck_mm": sac.neck.centre_mm.tolist(),
            "neck_normal": sac.neck.normal.tolist(),
            "volume_ml": volume_ml,
            "surface_area_mm2": float(sac.part.shares_mm2.sum()),
            "neck_area_mm2": sac.neck.area_mm2,
            "neck_diameter_mm": sac.neck_diameter_mm,
            "height_mm": sac.height_mm,
            "aspect_ratio": sac.height_mm / sac.neck_diameter_mm,
            "dome_diameter_mm": sac.dome_diameter_mm,
            "parent_diameter_mm": 2 * self._parent_radius_mm[k],
            "inflow_ml_s": inflow,
            "net_inflow_fraction": net,
            "inflow_share": share,
            "inflow_share_of": of,
            "inflow_concentration_index": _ratio(share, inward),
            "turnover_time_s": _ratio(volume_ml, inflow),
            **self._shear(k, wall, accumulator),
            "kinetic_energy_j": sums["energy"] / times,
            "mean_speed_m_s": sums["speed"] / times,
            "peak_speed_m_s": sums["peak"],
        }

    def _stress_too_low(self, parent_mm: float, parent_ml_s: float) -> float:
        """By which part the mean wall shear stress in a sac is too low for its lattice.

        0.084 (Re/200)^1.25 (16/N)^3, by Reynolds number and nodes across the parent: fitted to 24 drawn vessels with a
        sac at 12, 16 and 24 nodes across, Re 64 to 299, to 7 % of the stress (root mean square). 18 others are met to
        4 % (docs/uncertainty.md).
        """
        reynolds = 4e-3 * parent_ml_s / (np.pi * parent_mm * self._viscosity_m2_s)
        across = parent_mm / self._nodes.spacing_mm
        return float(0.084 * (reynolds / 200) ** 1.25 * (16 / across) ** TOO_LOW_ORDER)

    def _doubt(self, sac: Sac, net: float | None, too_low: float) -> None:
        who, across = sac_in_words(sac.name), sac.neck_diameter_mm / self._nodes.spacing_mm
        self.checks.append(
            check(
                "nodes across the neck",
                "",
                across,
                f"{who}: only {across:.1f} nodes across its neck: its inflow is a rough figure; use a finer"
                " voxelize.spacing_mm",
                of=sac.name,
            )
        )
        good = LIMITS["wall shear stress too low"].good
        finer_mm = 0.99 * self._nodes.spacing_mm * (good / max(too_low, good)) ** (1 / TOO_LOW_ORDER)
        self.checks.append(
            check(
                "wall shear stress too low",
                "%",
                too_low,
                Advice(
                    f"{who}: its wall shear stress is expected to be {too_low:.0%} too low on this lattice",
                    Setting("voxelize", "spacing_mm", finer_mm, instead_of=("nodes_across",)),
                ),
                of=sac.name,
            )
        )
        if net is not None:
            self.checks.append(
                check(
                    "inflow that stays in the sac",
                    "%",
                    net,
                    f"{who}: {net:+.1%} of its inflow stays in it, so that its inflow and turnover time are"
                    " off by about that; use a finer voxelize.spacing_mm, or move its neck's plane off the parent",
                    of=sac.name,
                )
            )

    def _parent_flow_ml_s(self, k: int, accumulator: WallAccumulator) -> tuple[float, str]:
        if len(self._parent_ml_s[k]):
            return float(np.abs(self._parent_ml_s[k]).max()) / self._times, "parent"
        inlets = [opening.role == "inlet" for opening in self._nodes.openings]
        return float(accumulator.flow_ml_s[inlets].sum()) / accumulator.times, "inlets"

    def _shear(self, k: int, wall: Wall, accumulator: WallAccumulator) -> dict[str, float | None]:
        """Figures of the shear stress on the sac's wall."""
        sac, shear = self.sacs[k], accumulator.shear_magnitude / accumulator.times
        area = sac.part.shares_mm2[self._of_wall]
        total, force = float(area.sum()), float(area @ shear)
        within_mm = sac.neck_diameter_mm / 2 + 2 * self._parent_radius_mm[k]
        near = self._parent_wall(sac, wall, within_mm)
        found: dict[str, float | None] = {
            "shear_mean_pa": force / total,
            "shear_max_pa": float(shear[sac.part.vertices[self._of_wall]].max()),
            "parent_within_mm": within_mm,
            "parent_shear_mean_pa": None,
            "shear_ratio": None,
            "low_shear_area_fraction": None,
            "low_shear_index": None,
            "low_shear_index_below_pa": None,
        }
        if accumulator.times > 1:
            found["osi_mean"] = float(area @ oscillatory_shear_index(accumulator)) / total
        if not near.any():
            self.warnings.append(
                f"{sac_in_words(sac.name)}: its neck is so near to an opening that none of its parent's wall can be"
                " compared with"
            )
            return found
        weights = wall.areas_mm2[near]
        mean = float(np.average(shear[near], weights=weights))
        deviation = float(np.sqrt(np.average((shear[near] - mean) ** 2, weights=weights)))
        low = shear < mean - deviation
        return found | {
            "parent_shear_mean_pa": mean,
            "shear_ratio": _ratio(force / total, mean),
            "low_shear_area_fraction": float(area[shear < LOW_SHEAR_OF_PARENT * mean].sum()) / total,
            "low_shear_index": _ratio(float((area * shear)[low].sum() * area[low].sum()), force * total),
            "low_shear_index_below_pa": mean - deviation,
        }

    def _parent_wall(self, sac: Sac, wall: Wall, within_mm: float) -> NDArray[np.bool_]:
        """Vertices of the wall around the neck, in no sac, joined to the neck and off the openings' rims, (V,)."""
        near = np.linalg.norm(wall.mesh.points_mm - sac.neck.centre_mm, axis=1) < within_mm
        near &= ~self._taken()[self._of_wall]
        edges = directed_edges(wall.mesh.triangles)
        edges = edges[near[edges].all(axis=1)]
        graph = coo_array((np.ones(len(edges), np.int8), edges.T), shape=(len(near),) * 2)
        label = connected_components(graph, directed=False)[1]
        at_neck = np.isin(self._of_wall, sac.neck.edges[:, 1]) & near
        joined = near & np.isin(label, np.unique(label[at_neck]))
        return joined & ~near_openings(wall, self._nodes.openings, self._rim_mm)


def _not_searched(why: str) -> dict[str, Any]:
    return {"searched": False, "rule": f"Sacs were not looked for: {why}.", "found": 0, "refused": [], "widest": None}


def _no_sacs(refused: Sequence[tuple[Floats, float, str]]) -> str:
    """One warning of all places that are wide enough and taken for no sacs, by the widest of them."""
    place, wideness, reason = max(refused, key=lambda each: each[1])
    where = f"{words_mm(place)}, {wideness:.2f} radii from the parent's line"
    if len(refused) == 1:
        return (
            f"find_sacs: the place at {where}, is taken for no sac: {reason}; no figures of it are given, mark its neck"
            " with postprocess.sacs if it is one"
        )
    return (
        f"find_sacs: {len(refused)} places are taken for no sacs, the widest of them at {where}: {reason}; no figures"
        " of them are given, the report lists them, mark a neck with postprocess.sacs where one is a sac"
    )


def _searched(
    factor: float, found: int, refused: Sequence[tuple[Floats, float, str]], search: Search
) -> dict[str, Any]:
    """How sacs were looked for and what came of it."""
    return {
        "searched": True,
        "rule": (
            f"Sacs were looked for as wall that lies farther than {factor:g} radii of the parent from its line,"
            f" beyond a plane that is clear of the parent by {MARGIN:g} radii and severs no opening; at least"
            f" {MIN_HEIGHT:g} radii high, no branch that ends blind, and not wider all round (fusiform) unless the"
            " vessels enter it from one side."
        ),
        "found": found,
        "refused": [
            {"place_mm": place.tolist(), "wideness_radii": wideness, "reason": reason}
            for place, wideness, reason in refused
        ],
        "widest": search.widest,
    }


def _ratio(over: float | None, under: float) -> float | None:
    return over / under if over is not None and under > 0 else None


def _marked(nodes: Nodes, surface: Mesh, given: SacSettings, k: int, others: Sequence[Sac]) -> Sac:
    """The sac beyond a plane that the user marked; it shares no wall with those marked before."""
    normal = np.asarray(given.normal) / np.linalg.norm(given.normal)
    try:
        neck = section_around(surface, np.asarray(given.neck_mm), normal)
        reach = float(np.linalg.norm(neck.places_mm - neck.at_mm, axis=1).max())
        if given.radius_mm is not None and reach > given.radius_mm:
            raise NeckError(
                f"its section reaches {reach:.2f} mm away, radius_mm is {given.radius_mm:g}: the plane cuts more than"
                " the neck"
            )
        sac = severed_sac(nodes, surface, neck, given.name, "neck plane")
        if twice := [other.name for other in others if (other.part.vertices & sac.part.vertices).any()]:
            raise NeckError(f"the sac shares wall with {', '.join(twice)}")
        return sac
    except NeckError as error:
        raise StageError(
            f"postprocess.sacs[{k}].neck_mm = {list(given.neck_mm)} (sac {given.name}): {error}; move it into the neck"
            " of the sac and turn normal from the parent into the sac"
        ) from None
