# SPDX-License-Identifier: Apache-2.0
"""Flow between plates that a force drives, where the balance of momentum gives stress, viscosity and velocity.

At the distance s from the plane where nothing rubs, half-way between plates or the plate along which fluid slips, the
stress is F s. With the viscosity mu + rho (C dx)^2 g at the shear rate g,

    g(s) = 2 F s / [mu + sqrt(mu^2 + 4 rho (C dx)^2 F s)],     u(s) = integral of g from s to the plate that holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from validation.evidence import Evidence
from validation.goals import order
from validation.studies.run import Run

GAUSS = np.polynomial.legendre.leggauss(20)


class Options(Section):
    """What is to be reached."""

    l2: Positive = Field(description="relative L2 of the velocity, at most")
    stress: Positive = Field(description="the same of the viscous stress")
    viscosity: Positive = Field(1.0, description="the same of the eddy viscosity, where there are eddies")
    order: Positive | None = Field(None, description="at which velocity and eddy viscosity converge; none: not asked")


@dataclass(frozen=True)
class Plates:
    """A run and what its nodes should have, (N,) each, SI."""

    run: Run

    @property
    def nodes(self) -> int:
        """Between the plates."""
        return int(np.ptp(self.run.nodes.position[:, 2])) + 1

    @property
    def s(self) -> NDArray[np.float64]:
        """Distance from the plane where nothing rubs; negative below it."""
        z = self.run.nodes.position[:, 2].astype(np.float64)
        slips = [name for name, patch in self.run.case.solve.patches.items() if patch.slip]
        plane = {"top": z.max() + 0.5, "bottom": z.min() - 0.5}.get("".join(slips), (z.max() + z.min()) / 2)
        return (z - plane) * self.run.spacing_m

    @property
    def reach(self) -> float:
        """That of the plate that holds the fluid."""
        return float(np.abs(self.s).max() + self.run.spacing_m / 2)

    @property
    def eddies(self) -> float:
        """Rho (C dx)^2."""
        solve = self.run.case.solve
        return float(solve.density_kg_m3 * ((solve.smagorinsky or 0.0) * self.run.spacing_m) ** 2)

    def stress(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of the fluid above on that below."""
        return -self.run.case.solve.force_n_m3[0] * s

    def shear_rate(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        """g(s) of distances that are not negative."""
        mu, stress = self.run.case.solve.viscosity_pa_s, np.abs(self.stress(s))
        return 2 * stress / (mu + np.sqrt(mu**2 + 4 * self.eddies * stress))

    def viscosity(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of molecules and eddies."""
        return self.run.case.solve.viscosity_pa_s + self.eddies * self.shear_rate(np.abs(s))

    def velocity(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Along the plates, by Gauss's rule: g is smooth between s and the plate."""
        low = np.abs(s)[:, None]
        half = (self.reach - low) / 2
        return np.asarray((self.shear_rate(low + half * (1 + GAUSS[0])) * half) @ GAUSS[1])

    def errors(self) -> tuple[float, float, float]:
        """Relative L2 of velocity, stress, and viscosity without that of molecules; the last NaN without eddies."""
        flow, mu = self.run.flow, self.run.case.solve.viscosity_pa_s
        thick = flow.viscosity_pa_s(-1)
        eddies = np.nan if thick is None else l2(thick - mu, self.viscosity(self.s) - mu)
        velocity = np.outer(self.velocity(self.s), (1, 0, 0))
        return l2(self.run.velocity_m_s, velocity), l2(flow.viscous_stress_pa(-1)[:, 5], self.stress(self.s)), eddies


def l2(found: NDArray[np.floating], wanted: NDArray[np.float64]) -> float:
    """Relative L2 error."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Errors of velocity, stress and eddy viscosity; profiles.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    plates = [Plates(run) for run in runs.values()]
    errors = np.array([one.errors() for one in plates])
    rows = [
        (one.nodes, one.run.tau, one.run.summary["steps"], *(e for e in error if np.isfinite(e)))
        for one, error in zip(plates, errors, strict=True)
    ]
    kinds = ("velocity", "viscous stress", "eddy viscosity")[: len(rows[0]) - 3]
    evidence.table(("nodes between the plates", "tau", "steps", *(f"L2 of the {kind}" for kind in kinds)), rows)
    bounds = dict(zip(kinds, (options.l2, options.stress, options.viscosity), strict=False))
    for number, (kind, most) in enumerate(bounds.items()):
        for one, error in zip(plates, errors[:, number], strict=True):
            evidence.reach(f"{one.nodes} nodes: L2 of the {kind}", error, at_most=most)
        if options.order and len(plates) > 1 and kind != "viscous stress":
            slope = order([one.nodes for one in plates], errors[:, number])
            evidence.reach(f"order of convergence of the {kind}", slope, at_least=options.order)
    evidence.draw(
        lambda figure: _profiles(figure, plates[-1]),
        "Velocity, and viscosity or, where that is the same, stress",
    )


def _profiles(figure: Any, plates: Plates) -> None:
    """Of one run, beside what they should be."""
    speed, thick = figure.subplots(1, 2, sharey=True)
    fine, s = np.linspace(plates.s.min(), plates.s.max(), 101), 1e3 * plates.s
    speed.plot(1e3 * plates.velocity(fine), 1e3 * fine, color="grey", linewidth=0.8, label="exact")
    speed.plot(1e3 * plates.run.velocity_m_s[:, 0], s, ".", label=f"{plates.nodes} nodes")
    speed.set(xlabel="velocity, mm/s", ylabel="height above the plane without stress, mm")
    speed.legend()
    stress, viscosity = plates.run.flow.viscous_stress_pa(-1)[:, 5], plates.run.flow.viscosity_pa_s(-1)
    found, wanted = (stress, plates.stress) if viscosity is None else (viscosity, plates.viscosity)
    thick.plot(1e3 * wanted(fine), 1e3 * fine, color="grey", linewidth=0.8)
    thick.plot(1e3 * found, s, ".")
    thick.set(xlabel="viscous stress, mPa" if viscosity is None else "viscosity with that of eddies, mPa s")
