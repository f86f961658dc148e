# SPDX-License-Identifier: Apache-2.0
"""The spacing of the lattice: as given, or chosen from the vessel and the flow; and what it will cost."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from pipeline.case.settings.flow import InletSettings, MurrayExponent, OutletSettings, Precision
from pipeline.case.settings.geometry import VoxelizeSettings
from pipeline.files.mesh import Mesh
from solver.boundary.waveform import read_waveforms
from solver.boundary.windkessel import outlets_of
from solver.domain.nodes import Opening
from solver.domain.sections import Sections
from solver.run.expected import leaving_m3_s, peak_speed_m_s
from solver.run.forecast import MIN_NODES_ACROSS, rounded_down
from solver.run.resolution import STABLE_GRID_REYNOLDS
from solver.run.units import MAX_GRID_REYNOLDS, pressure_drop_error
from solver.runtime.errors import StageError

NODES_ACROSS = 20.0
"""Nodes across the narrowest diameter where the settings do not say (PHYSICS: wall shear stress within 2 %)."""

LEAST_ACROSS = 10.0
"""The same where more would take too many nodes: wall shear stress within 4 %, velocity within 1 %."""

WANTED_GRID_REYNOLDS = 50
"""Grid Reynolds number up to which a pressure drop is at most 10 % too large with 13 nodes across, 4 % with 20
(:func:`solver.run.units.pressure_drop_error`)."""

DROP_ERROR_TAKEN = 0.1
"""By so much pressure drops may be too large where a grid Reynolds number above 150 saves nodes: wide vessels have
enough across."""

CLEARLY_FINER = 1.25
"""By so much a spacing is advised to be finer where passages one node wide cut an opening off."""


class FlowScale(Section):
    """What the grid Reynolds number follows from: the peak speed where it is given, else what holds at the openings."""

    viscosity_m2_s: Positive
    density_kg_m3: Positive = 1060.0
    peak_speed_m_s: Positive | None = None
    inlets: dict[str, InletSettings] = Field(default_factory=dict)
    outlets: dict[str, OutletSettings] = Field(default_factory=lambda: {"*": OutletSettings()})
    murray_exponent: MurrayExponent = 3.0


class SpacingSettings(VoxelizeSettings):
    """What the command line takes: the section ``voxelize``, and of ``solve`` what the choice depends on."""

    flow: FlowScale | None = Field(None, description="where the spacing is chosen")
    precision: Precision = Field("fp32", description="where memory_gb is given")
    murray_exponent: MurrayExponent = Field(3.0, description="by which branches share the flow")
    solve: dict[str, Any] | None = Field(None, description="the section solve, where most_updates is given")
    coarser: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(
        1.0, description="factor on whatever spacing is chosen, of the lattices that the section convergence adds"
    )


@dataclass(frozen=True)
class Narrowest:
    """The narrowest place of all branches: its radius, and where it lies if that is known; (x, y, z), LPS, mm."""

    radius_mm: float
    place_mm: tuple[float, float, float] | None = None

    def across(self, spacing_mm: float) -> float:
        """Nodes across it."""
        return 2 * self.radius_mm / spacing_mm

    @property
    def words(self) -> str:
        """For messages."""
        at = " at ({:.2f}, {:.2f}, {:.2f})".format(*self.place_mm) if self.place_mm else ""
        return f"the narrowest branch, radius {self.radius_mm:.3g} mm{at}"

    @classmethod
    def read(cls, path: Path) -> "Narrowest":
        """From the file of the stage centreline.

        Raises
        ------
        StageError
            If it does not tell the radius.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            place = values.get("narrowest_place_mm")
            return cls(float(values["narrowest_radius_mm"]), place and tuple(map(float, place)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StageError(f"{path}: no radius of the narrowest branch ({error!r}); run centreline again") from None


@dataclass(frozen=True)
class Spacing:
    """A spacing, and what decided it.

    Attributes
    ----------
    spacing_mm : distance of neighbouring nodes along an axis.
    reason : for the log and the provenance.
    """

    spacing_mm: float
    reason: str

    def or_finer(self, other: "Spacing") -> "Spacing":
        """The other one where that is finer."""
        return other if other.spacing_mm < self.spacing_mm else self

    def coarsened(self, spacing_mm: float) -> "Spacing":
        """Another spacing in place of this one; the reason tells both."""
        times = spacing_mm / self.spacing_mm
        return Spacing(spacing_mm, f"{times:.4g} times the {self.spacing_mm:.4g} mm of the case ({self.reason})")


def choose_spacing(
    openings: tuple[Opening, ...],
    settings: VoxelizeSettings,
    narrowest: Narrowest | None = None,
    peak: "PeakSpeed | None" = None,
    volume_mm3: float = 0.0,
    coarser: float = 1.0,
    auto: Spacing | None = None,
) -> Spacing:
    """The spacing of the settings, or the one that follows from the vessel.

    Without a spacing or nodes across it follows from D, the narrowest diameter of all openings and branches, and from
    the flow, see :func:`resolving_spacing`.

    Parameters
    ----------
    openings : ends of the vessel.
    settings : what the user wants.
    narrowest : of the branches, where the centreline is known.
    peak : speed of the flow, where it is known.
    volume_mm3 : of the vessel, where it is known; without it nodes are not counted.
    coarser : factor on what is chosen.
    auto : in place of what follows from D, where the branches that carry the flow are known.

    Raises
    ------
    StageError
        If what is to be counted across is missing, or an opening would have fewer than `MIN_NODES_ACROSS` nodes.
    """
    if settings.spacing_mm != "auto":
        chosen = Spacing(settings.spacing_mm, "as voxelize.spacing_mm says")
    elif settings.nodes_across:
        diameter_mm, what = ACROSS[settings.across](openings, narrowest)
        chosen = Spacing(diameter_mm / settings.nodes_across, f"{settings.nodes_across:g} nodes across {what}")
    else:
        chosen = auto or resolving_spacing(*narrowest_mm(openings, narrowest), peak, volume_mm3, settings.most_nodes)
    if coarser > 1:
        chosen = chosen.coarsened(coarser * chosen.spacing_mm)
    for opening in sorted(openings, key=lambda opening: opening.radius_mm):  # the smallest is named: it asks for most
        across = 2 * opening.radius_mm / chosen.spacing_mm
        if across < MIN_NODES_ACROSS:
            raise StageError(too_coarse(opening, chosen.spacing_mm, f"has {across:.1f} nodes across"))
    return chosen


def _across_inlet(openings: tuple[Opening, ...], narrowest: Narrowest | None) -> tuple[float, str]:
    inlets = [opening for opening in openings if opening.role == "inlet"]
    if not inlets:
        raise StageError("no opening is an inlet, across which nodes could be counted; give voxelize.spacing_mm")
    return _across_opening("the inlet", max(inlets, key=lambda opening: opening.radius_mm))


def _across_smallest(openings: tuple[Opening, ...], narrowest: Narrowest | None) -> tuple[float, str]:
    return _across_opening("the smallest opening", min(openings, key=lambda opening: opening.radius_mm))


def _across_opening(what: str, opening: Opening) -> tuple[float, str]:
    return 2 * opening.radius_mm, f"{what}, {opening.name}, radius {opening.radius_mm:.3g} mm"


def _across_branch(openings: tuple[Opening, ...], narrowest: Narrowest | None) -> tuple[float, str]:
    if narrowest is None:
        raise StageError(
            "voxelize.across narrowest-branch: no centreline is there to tell it; give --centreline, or count the nodes"
            " across the smallest-opening"
        )
    return 2 * narrowest.radius_mm, narrowest.words


ACROSS: dict[str, Callable[[tuple[Opening, ...], Narrowest | None], tuple[float, str]]] = {
    "inlet": _across_inlet,
    "smallest-opening": _across_smallest,
    "narrowest-branch": _across_branch,
}
"""Diameter in mm and words for it, by name."""


def narrowest_mm(openings: tuple[Opening, ...], narrowest: Narrowest | None) -> tuple[float, str]:
    """The least diameter of all openings and branches, and words for it."""
    return min([_across_smallest(openings, narrowest)] + ([_across_branch(openings, narrowest)] if narrowest else []))


@dataclass(frozen=True)
class PeakSpeed:
    """The speed that the spacing must resolve.

    Attributes
    ----------
    m_s : the peak that the solver will expect.
    source : for messages.
    viscosity_m2_s : kinematic.
    """

    m_s: float
    source: str
    viscosity_m2_s: float

    @classmethod
    def of(cls, openings: tuple[Opening, ...], flow: FlowScale, survey: Callable[[], Sections]) -> "PeakSpeed":
        """Of a flow, as given or as the solver will expect it.

        Parameters
        ----------
        openings, flow : of the vessel.
        survey : makes its sections, where the peak speed is not given.
        """
        if flow.peak_speed_m_s:
            return cls(flow.peak_speed_m_s, "solve.peak_speed_m_s", flow.viscosity_m2_s)
        waveforms, sections = read_waveforms(openings, flow), survey()
        outlets = outlets_of(openings, flow, waveforms)
        out = leaving_m3_s(openings, sections, waveforms.inflow, outlets, flow.density_kg_m3, flow.viscosity_m2_s)
        return cls(peak_speed_m_s(openings, sections, out), "the expected peak speed", flow.viscosity_m2_s)

    def spacing(self, grid_reynolds: float) -> Spacing:
        """That of a grid Reynolds number, Re_g nu/U."""
        limit_mm = 1e3 * grid_reynolds * self.viscosity_m2_s / self.m_s
        return Spacing(limit_mm, f"grid Reynolds number {grid_reynolds:.4g} at {self.source} {self.m_s:.3g} m/s")

    def coarsest(self, diameter_mm: float) -> Spacing:
        """That of Re_g = 150; or one up to twice as coarse, as far as pressure drops stay within `DROP_ERROR_TAKEN`.

        Their error grows with the third power of the spacing: with Re_g, and with the inverse square of the nodes
        across.

        Parameters
        ----------
        diameter_mm : the narrowest that counts.
        """
        resolved = self.spacing(MAX_GRID_REYNOLDS)
        error = pressure_drop_error(MAX_GRID_REYNOLDS, diameter_mm / resolved.spacing_mm)
        times = min((DROP_ERROR_TAKEN / error) ** (1 / 3), STABLE_GRID_REYNOLDS / MAX_GRID_REYNOLDS)
        return self.spacing(times * MAX_GRID_REYNOLDS) if times > 1 else resolved


def resolving_spacing(
    diameter_mm: float, what: str, peak: PeakSpeed | None, volume_mm3: float, most_nodes: float
) -> Spacing:
    """The spacing that resolves a diameter and a flow, or one that does so less well with fewer nodes.

    It is the finer of D/20 and Re_g = 50. Where that takes more nodes than are wanted, it is as much coarser as it must
    be, but no coarser than D/10 and what :meth:`PeakSpeed.coarsest` says.

    Parameters
    ----------
    diameter_mm, what : the narrowest that counts, and words for it.
    peak : speed of the flow, where it is known.
    volume_mm3 : of the vessel.
    most_nodes : fluid nodes that are wanted at most.
    """
    wanted, coarsest = _across(NODES_ACROSS, diameter_mm, what), coarsest_spacing(diameter_mm, what, peak)
    if peak:
        wanted = wanted.or_finer(peak.spacing(WANTED_GRID_REYNOLDS))
    count = volume_mm3 / wanted.spacing_mm**3
    if count <= most_nodes:
        return wanted
    why = (
        f"{wanted.spacing_mm:.4g} mm ({wanted.reason}) would take about {count:.3g} fluid nodes, voxelize.most_nodes is"
        f" {most_nodes:.3g}"
    )
    fitting_mm = float((volume_mm3 / most_nodes) ** (1 / 3))
    if fitting_mm >= coarsest.spacing_mm:
        return Spacing(coarsest.spacing_mm, f"{coarsest.reason}, the coarsest that is taken; {why}")
    return Spacing(fitting_mm, why)


def coarsest_spacing(diameter_mm: float, what: str, peak: PeakSpeed | None) -> Spacing:
    """The coarsest spacing that is taken: the finer of D/10 and what :meth:`PeakSpeed.coarsest` says.

    Parameters
    ----------
    diameter_mm, what, peak : as of :func:`resolving_spacing`.
    """
    coarsest = _across(LEAST_ACROSS, diameter_mm, what)
    return coarsest.or_finer(peak.coarsest(diameter_mm)) if peak else coarsest


def _across(count: float, diameter_mm: float, what: str) -> Spacing:
    return Spacing(diameter_mm / count, f"{count:g} nodes across {what}")


def too_coarse(opening: Opening, spacing_mm: float, what: str, across_mm: float | None = None) -> str:
    """Message that a spacing is too coarse for an opening, or for the narrowest diameter on the way to it, with the
    spacing that is not.

    Parameters
    ----------
    opening : that has too few nodes, or none.
    spacing_mm : at which it has.
    what : what is wrong with it, as its predicate.
    across_mm : the narrowest diameter on the way to it; none: its own counts.
    """
    least_mm = min(2 * opening.radius_mm, across_mm or inf) / MIN_NODES_ACROSS
    if least_mm >= spacing_mm:
        least_mm = spacing_mm / CLEARLY_FINER
    return (
        f"opening {opening.name} (radius {opening.radius_mm:.3g} mm) {what} at a spacing of {spacing_mm:.3g} mm;"
        f" at least {MIN_NODES_ACROSS:g} nodes are wanted: set voxelize: {{spacing_mm: {rounded_down(least_mm):.3g},"
        " nodes_across: null}"
    )


@dataclass(frozen=True)
class Extent:
    """What a lattice is to fill: volume, and areas of its wall and of the caps of its openings."""

    volume_mm3: float
    wall_mm2: float
    caps_mm2: float

    @classmethod
    def of(cls, mesh: Mesh) -> "Extent":
        """Of a closed surface."""
        area = np.linalg.norm(mesh.area_vectors_mm2(), axis=1)
        return cls(mesh.volume_mm3(), float(area[mesh.opening == 0].sum()), float(area[mesh.opening > 0].sum()))
