# SPDX-License-Identifier: Apache-2.0
"""The flow in the volume: vorticity, Q, lambda2 and helicity at the fluid nodes, and figures of the whole lumen."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.haemodynamics.gradient import Gradient, lambda2, q_criterion
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.domain.nodes import Nodes
from solver.run.flow_file import Flow


class Volume:
    """Derivatives of the flow over its times, fed one after the other so that only one is held in memory.

    Parameters
    ----------
    nodes : the lattice.
    shown : number of the time, from 0, whose vortices are kept.
    """

    def __init__(self, nodes: Nodes, shown: int) -> None:
        self._gradient, self._shown, self._times = Gradient(nodes), shown, 0
        self._helicity = np.zeros(nodes.count, np.float32)
        self._signed = self._unsigned = self._enstrophy = 0.0
        self._vortices: dict[str, NDArray[np.float32]] = {}

    def add(self, velocity_m_s: NDArray[np.float32]) -> None:
        """Take the velocity at one time, (N, 3)."""
        curl = self._gradient.curl(velocity_m_s)
        helicity = np.einsum("ij,ij->i", velocity_m_s, curl)
        self._helicity += helicity
        self._signed += float(helicity.sum(dtype=np.float64))
        self._unsigned += float(np.abs(helicity).sum(dtype=np.float64))
        self._enstrophy += float(np.einsum("ij,ij->i", curl, curl).sum(dtype=np.float64)) / 2
        if self._times == self._shown:
            size = np.linalg.norm(velocity_m_s, axis=1) * np.linalg.norm(curl, axis=1)
            parts = [(q_criterion(found), lambda2(found)) for _, found in self._gradient.of(velocity_m_s)]
            q, middle = (np.concatenate(each).astype(np.float32) for each in zip(*parts, strict=True))
            self._vortices = {
                "vorticity (s-1)": curl,
                "Q (s-2)": q,
                "lambda2 (s-2)": middle,
                "local normalised helicity": np.divide(helicity, size, out=np.zeros_like(size), where=size > 0),
            }
        self._times += 1

    def arrays(self, flow: Flow) -> dict[str, NDArray[np.float32]]:
        """Point arrays of the fluid nodes: name with unit, in which HDF5 allows no slash -> (N,) or (N, 3).

        Means and peaks over the period are those that the solver took while it ran; of a steady flow they are the flow.
        Helicity is u.curl u, normalised (LNH) by |u| |curl u|: 1 where the flow turns like a right-handed screw, -1
        like a left-handed one. Vortices are those of the shown moment.

        Source: Moffatt and Tsinober (1992), doi:10.1146/annurev.fl.24.010192.001433.
        """
        pressure, viscosity = flow.pressure_mean_pa(), flow.viscosity_mean_pa_s()
        mean, moment = ("", "") if self._times == 1 else ("mean ", " at peak inflow")
        found = {
            f"{mean}velocity (m s-1)": flow.velocity_mean_m_s(),
            f"{mean}pressure (Pa)": pressure,
            f"{mean}pressure (mmHg)": pressure / np.float32(PASCAL_PER_MMHG),
            f"{mean}shear rate (s-1)": flow.shear_rate_mean_1_s(),
            f"{mean}kinetic energy (J m-3)": flow.kinetic_energy_mean_j_m3(),
            f"{mean}viscous dissipation (W m-3)": flow.dissipation_mean_w_m3(),
            f"{mean}helicity (m s-2)": self._helicity / np.float32(self._times),
        }
        if self._times > 1:
            found["peak speed (m s-1)"] = flow.speed_peak_m_s()
        if viscosity is not None:
            found[f"{mean}viscosity (Pa s)"] = viscosity
        vortices = {name.replace(" (", f"{moment} (", 1): values for name, values in self._vortices.items()}
        return found | vortices

    def figures(self, flow: Flow, nodes: Nodes) -> dict[str, Any]:
        """Figures of the whole lumen, means over the period, as they stand in ``indices.json``.

        Helicity: h1 = mean of u.curl u over volume and time, h2 that of its size, h3 = h1/h2 (1: all turns one way,
        0: two ways in balance).

        Source: Gallo, Steinman, Bijari and Morbiducci (2012), doi:10.1016/j.jbiomech.2012.07.007.
        """
        cell_m3, count = (nodes.spacing_mm * 1e-3) ** 3, nodes.count * self._times
        viscosity = flow.viscosity_mean_pa_s()
        return {
            "volume_ml": nodes.count * cell_m3 * 1e6,
            "mean_speed_m_s": float(np.linalg.norm(flow.velocity_mean_m_s(), axis=1).mean(dtype=np.float64)),
            "kinetic_energy_j": _integral(flow.kinetic_energy_mean_j_m3(), cell_m3),
            "dissipation_w": _integral(flow.dissipation_mean_w_m3(), cell_m3),
            "mean_shear_rate_1_s": float(flow.shear_rate_mean_1_s().mean(dtype=np.float64)),
            "enstrophy_1_s2": self._enstrophy / count,
            "helicity_h1_m_s2": self._signed / count,
            "helicity_h2_m_s2": self._unsigned / count,
            "helicity_h3": self._signed / self._unsigned if self._unsigned else 0.0,
            "mean_viscosity_pa_s": None if viscosity is None else float(viscosity.mean(dtype=np.float64)),
        }


def _integral(values: NDArray[np.float32], cell_m3: float) -> float:
    return float(values.sum(dtype=np.float64)) * cell_m3
