# SPDX-License-Identifier: Apache-2.0
"""Mechanical energy of a flow: what enters and leaves through the openings, and what friction takes.

In rigid walls dK/dt = - int (p + rho |u|^2/2) u.n dA over the openings - int sigma:sigma/(2 mu) dV, with the kinetic
energy K, the normal n out of the vessel and the viscous stress sigma = 2 mu S (Batchelor 1967, section 3.4,
doi:10.1017/CBO9780511800955). What is left over says how well the numbers belong together.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.accumulator import SLAB_CENTRE, SLAB_HALF_WIDTH, Fields, Slab, rows_behind
from pipeline.haemodynamics.wall_shear_stress import Wall, WallFit
from solver.domain.nodes import Nodes

Floats = NDArray[np.float64]

NO_FLOW = 1e-6
"""Part of the largest flow through an opening below which a mean weighted with the flow has no meaning."""


def between_slabs(nodes: Nodes) -> Floats:
    """Part of each node that lies between the sections in which quantities of openings are taken, (N,).

    These are averages over sections with the window of the slabs; a node counts as far as they lie beyond it: the
    window's integral from the cap to the node, 1 in front of the slabs.
    """
    inside = np.ones(nodes.count)
    for opening in nodes.openings:
        rows, depth = rows_behind(nodes, opening)
        part = np.maximum((depth / nodes.spacing_mm - SLAB_CENTRE) / SLAB_HALF_WIDTH, -1)
        inside[rows] *= (1 + part + np.sin(np.pi * part) / np.pi) / 2
    return inside


class Energy:
    """Sums over the times of a flow: power through the openings, dissipation, and viscosity at the openings.

    The nodes stand for boxes; where the wall cuts these, the volume of all boxes is not that of the lumen. The
    difference lies along the wall, and so counts with the dissipation there, which the fit to the wall carries over.

    Parameters
    ----------
    nodes, surface, wall, fit : the lattice, the closed surface, its wall and the operator onto it.
    slabs : inside each opening.
    density_kg_m3, viscosity_pa_s : of the fluid; the viscosity where it is the same everywhere.

    Attributes
    ----------
    pressure_power_w, kinetic_power_w, flow_m3_s : (openings,), sums over the times, out of the vessel.
    opening_viscosity_pa_s, to_cap_pa : (openings,), sums of the mean viscosity, and of the pressure on the cap less
        that in the slab.
    inner_w, at_wall_w : sums of the dissipation in the nodes' boxes and in what the lumen is larger.
    """

    def __init__(
        self,
        nodes: Nodes,
        surface: Mesh,
        wall: Wall,
        fit: WallFit,
        slabs: Sequence[Slab],
        density_kg_m3: float,
        viscosity_pa_s: float,
    ) -> None:
        self._nodes, self._slabs, self._density, self._constant = nodes, slabs, density_kg_m3, viscosity_pa_s
        box_m3 = (nodes.spacing_mm * 1e-3) ** 3
        self._boxes_m3 = between_slabs(nodes) * box_m3
        depth_mm = SLAB_CENTRE * nodes.spacing_mm
        lumen_m3 = 1e-9 * (surface.volume_mm3() - depth_mm * sum(opening.area_mm2 for opening in nodes.openings))
        beyond_m3 = 0.0 if any(nodes.periodic) else lumen_m3 - float(self._boxes_m3.sum())
        self._beyond_m3 = beyond_m3 * (wall.areas_mm2 / wall.areas_mm2.sum()) @ fit.weights
        self.times, self.inner_w, self.at_wall_w = 0, 0.0, 0.0
        self.pressure_power_w, self.kinetic_power_w, self.flow_m3_s, self.opening_viscosity_pa_s, self.to_cap_pa = (
            np.zeros((5, len(nodes.openings)))
        )

    def add(self, fields: Fields) -> None:
        """Take one time into the sums."""
        self.times += 1
        viscosity = self._constant if fields.viscosity_pa_s is None else fields.viscosity_pa_s
        dissipation = dissipation_w_m3(fields.stress_pa, viscosity)
        self.inner_w += float(self._boxes_m3 @ dissipation)
        self.at_wall_w += float(self._beyond_m3 @ dissipation)
        for k, (opening, slab) in enumerate(zip(self._nodes.openings, self._slabs, strict=True)):
            velocity = fields.velocity_m_s[slab.rows].astype(np.float64)
            pressure = fields.pressure_pa[slab.rows].astype(np.float64)
            out = 1e-6 * slab.areas_mm2 * (velocity @ np.asarray(opening.normal))
            self.flow_m3_s[k] += out.sum()
            self.pressure_power_w[k] += out @ pressure
            self.kinetic_power_w[k] += self._density / 2 * out @ (velocity**2).sum(axis=1)
            shares = slab.areas_mm2 / slab.areas_mm2.sum()
            self.opening_viscosity_pa_s[k] += np.broadcast_to(viscosity, self._nodes.count)[slab.rows] @ shares
            self.to_cap_pa[k] += slab.at_cap(fields.pressure_pa) - shares @ pressure

    def total_pressures_pa(self) -> list[float | None]:
        """Mean of p + rho |u|^2/2 at each cap, weighted with the flow; none where next to nothing flows.

        Over several times it is the energy that passes over the volume that passes. The pressure is carried from the
        slab to the cap as in the mean over the section.
        """
        power, flow = self.pressure_power_w + self.kinetic_power_w, self.flow_m3_s
        least = NO_FLOW * np.abs(flow).max(initial=0.0)
        return [
            float(power[k] / flow[k] + self.to_cap_pa[k] / self.times) if abs(flow[k]) > least else None
            for k in range(len(flow))
        ]

    def balance(self, kinetic_change_w: float, moving: bool) -> dict[str, Any]:
        """The balance as it stands in ``indices.json``, W, means over the times.

        Pressures count from the mean pressure at the outlets, weighted with their flow: any other level would be
        carried in and out again, and multiply the small imbalance of the flow. The fraction is of the power that
        enters through the inlets. Nothing is said of what is unaccounted for where the fluid is driven by other than
        the openings: where there are none, or walls move. The work of a force on the fluid is not known here.

        Parameters
        ----------
        kinetic_change_w : rate of change of the kinetic energy over the times.
        moving : whether a part of the wall moves.
        """
        roles = np.array([opening.role for opening in self._nodes.openings], dtype=object)
        flow, out = self.flow_m3_s / self.times, roles == "outlet"
        mean = np.divide(self.pressure_power_w, self.flow_m3_s, out=np.zeros(len(flow)), where=self.flow_m3_s != 0)
        level = float(mean[out] @ flow[out] / flow[out].sum()) if flow[out].sum() else 0.0
        power = (self.pressure_power_w + self.kinetic_power_w) / self.times - level * flow
        entering, leaving = float(-power[~out].sum()), float(power[out].sum())
        dissipation = (self.inner_w + self.at_wall_w) / self.times
        left = None if moving or not len(roles) else entering - leaving - dissipation - kinetic_change_w
        return {
            "power_in_w": entering,
            "power_out_w": leaving,
            "pressure_level_pa": level,
            "dissipation_w": dissipation,
            "dissipation_beyond_nodes_w": self.at_wall_w / self.times,
            "kinetic_energy_change_w": kinetic_change_w,
            "unaccounted_w": left,
            "unaccounted_fraction": None if left is None or not entering > 0 else left / entering,
        }


def dissipation_w_m3(
    stress_pa: NDArray[np.floating], viscosity_pa_s: NDArray[np.floating] | float
) -> NDArray[np.floating]:
    """Power that friction takes from a unit of volume, sigma:sigma/(2 mu), (N,).

    Parameters
    ----------
    stress_pa : (N, 6), viscous stress, components xx, yy, zz, xy, yz, xz.
    viscosity_pa_s : (N,) or one for all.
    """
    along, across = stress_pa[:, :3], stress_pa[:, 3:]
    contracted = np.einsum("ij,ij->i", along, along) + 2 * np.einsum("ij,ij->i", across, across)
    return np.asarray(contracted / (2 * viscosity_pa_s))


def kinetic_change_w(record: Mapping[str, Floats], period_s: float | None) -> float:
    """Rate of change of the kinetic energy at the end of the solver's record: over its last period, or two last rows.

    0 where the record holds less than two rows.
    """
    if "kinetic_energy_j" not in record or len(record["time_s"]) < 2:
        return 0.0
    time, energy = record["time_s"], record["kinetic_energy_j"]
    if period_s:
        before = float(np.interp(time[-1] - period_s, time, energy))
        return float((energy[-1] - before) / period_s)
    return float((energy[-1] - energy[-2]) / (time[-1] - time[-2]))
