# SPDX-License-Identifier: Apache-2.0
"""Sound: what the compressibility of the lattice takes from a flow that pulsates, estimated before the run.

The lattice's fluid carries sound at c_s = dx/(sqrt(3) dt), and so takes up V/(rho c_s^2) of volume for each unit of
pressure, which a vessel of rigid walls does not. Of the flow that enters, a part goes into that and not through the
outlets: beside Windkessels about as V/(rho c_s^2) beside their compliance, where pressures are given by a standing
wave, (omega L/c_s)^2/2 in a tube of length L. Both are the response of one model: the sections of the vessel as a line
of tubes (:mod:`solver.domain.sections`), what is behind each outlet at its end as it acts from step to step,

    z_k = gain/(1 - decay e) + resistance alpha/(1 - (1 - alpha) e),   e = exp(-i omega dt),

the rule of :func:`solver.boundary.openings.adjusted`. The loss of a harmonic is what it lacks of the one that the same
model has where sound is so fast that nothing is taken up. It falls with dt^2.

So does what the pressure at an outlet lacks of its vessels' own, |z_k/Z_k - 1| at the first harmonic, and at a moment
over its range: z_k answers over some steps, which a wave that rises steeply shows, and stores no less than some layers
of the lattice's fluid would.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.boundary.waveform import Waveforms
from solver.boundary.windkessel import PASCAL_PER_MMHG, Outlet
from solver.domain.nodes import Opening
from solver.domain.sections import Complex, Ends, Sections
from solver.run.outlet_rules import feedback_rule
from solver.run.units import MAX_LOSS

HARMONICS = 20
"""Of the waves, that the peak of the flow is made of."""
SAMPLES = 400
"""Of a period, among which the peak is looked for."""
INCOMPRESSIBLE = 1e-3
"""Of a time step: one at which the sound is so much faster that 10^-6 of any loss is left."""
LEAST_HARMONIC = 0.01
"""Part of the largest first harmonic or mean flow of all openings, below which that of an outlet says nothing."""
MOST_APART = 0.05
"""Part of its first harmonic, and of its range, by which the pressure at an outlet may differ from what its vessels
make of the flow."""
LEFT = 0.9
"""Part of this that is left with the lattice speed that is advised, which is rounded."""
LONGER = 1.1
"""Times the steps, by which such a speed is looked for."""
PASCAL_S_M3 = 1e6 * PASCAL_PER_MMHG
"""One mmHg s/mL."""


@dataclass(frozen=True)
class Loss:
    """What an outlet's flow is expected to lack for the lattice's compressibility.

    Attributes
    ----------
    first_harmonic : part of the amplitude of its first harmonic; less than 0 where that is raised.
    delay_deg : by how much that comes late, of a period of 360 degrees.
    peak : part of the largest flow, out of all harmonics.
    """

    first_harmonic: float
    delay_deg: float
    peak: float


@dataclass(frozen=True)
class Pulse:
    """A flow that pulsates in a vessel.

    Attributes
    ----------
    openings, sections : of the vessel.
    waveforms, outlets : what changes in time, and what holds at the outlets, by name.
    mean_m3_s : (openings,) what leaves on average.
    period_s : of the waves.
    dx_m : spacing of the lattice.
    density_kg_m3, viscosity_m2_s : of blood.
    """

    openings: tuple[Opening, ...]
    sections: Sections
    waveforms: Waveforms
    outlets: Mapping[str, Outlet]
    mean_m3_s: NDArray[np.float64]
    period_s: float
    dx_m: float
    density_kg_m3: float
    viscosity_m2_s: float

    def compliance_ml_mmhg(self, dt_s: float) -> float:
        """What the lattice's fluid takes up, V/(rho c_s^2)."""
        absorbed = self.sections.volume_m3.sum() / (self.density_kg_m3 * self._sound_m_s(dt_s) ** 2)
        return float(1e6 * PASCAL_PER_MMHG * absorbed)

    def harmonics(self, dt_s: float, count: int) -> Complex:
        """Harmonics 1 to `count` of what leaves through each opening, m3/s, (openings, count), at a time step."""
        omega: NDArray[np.float64] = 2 * np.pi / self.period_s * np.arange(1.0, count + 1)
        absorbed = np.multiply.outer(self.sections.volume_m3, 1j * omega)
        impedance = self.sections.impedance(omega, self.density_kg_m3, self.viscosity_m2_s)
        sound = self.density_kg_m3 * self._sound_m_s(dt_s) ** 2
        return self.sections.leaving(self._ends(dt_s, omega), impedance, absorbed / sound)

    def losses(self, dt_s: float, count: int = HARMONICS) -> dict[str, Loss]:
        """What each outlet is expected to lack at a time step, by its name, of so many harmonics."""
        found, whole = (self.harmonics(dt_s * part, count) for part in (1.0, INCOMPRESSIBLE))
        wave = np.exp(2j * np.pi * np.outer(np.arange(1, count + 1), np.arange(SAMPLES) / SAMPLES))
        peaks = [(self.mean_m3_s + (each @ wave).real.T).max(axis=0) for each in (found, whole)]
        least = LEAST_HARMONIC * max(np.abs(whole[:, 0]).max(), np.abs(self.mean_m3_s).max())
        return {
            opening.name: Loss(
                float(1 - abs(found[k, 0] / whole[k, 0])),
                float(-np.angle(found[k, 0] / whole[k, 0], deg=True)),
                float(1 - peaks[0][k] / peaks[1][k]),
            )
            for k, opening in enumerate(self.openings)
            if opening.role == "outlet" and abs(whole[k, 0]) > least
        }

    def worst(self, dt_s: float) -> float:
        """Largest part of a first harmonic that an outlet lacks, or has too much, at a time step."""
        return max((abs(loss.first_harmonic) for loss in self.losses(dt_s, 1).values()), default=0.0)

    def apart(self, dt_s: float) -> dict[str, float]:
        """Part by which the pressure of each outlet with vessels behind it differs at a time step from what these make
        of its flow, by name: of its first harmonic, or at a moment of its range, whichever is more.
        """
        orders, found = np.arange(1.0, HARMONICS + 1), {}
        omega, flow = 2 * np.pi / self.period_s * orders, self.harmonics(dt_s, HARMONICS)
        wave = np.exp(2j * np.pi * np.outer(orders, np.arange(SAMPLES) / SAMPLES))
        for k, opening in enumerate(self.openings):
            if opening.role == "outlet" and (each := self.outlets[opening.name].windkessel):
                acts = self._impedance(self.outlets[opening.name], 1e-6 * opening.area_mm2, dt_s, omega) / PASCAL_S_M3
                own = each.impedance_mmhg_s_ml(omega)
                span = float(np.ptp(((own * flow[k]) @ wave).real))
                most = float(np.abs((((acts - own) * flow[k]) @ wave).real).max())
                found[opening.name] = max(float(abs(acts[0] / own[0] - 1)), most / span if span else 0.0)
        return found

    def numbers(self, dt_s: float, losses: Mapping[str, Loss]) -> dict[str, float]:
        """Figures for the log and the summary, the largest of all outlets."""
        behind = [outlet.windkessel.compliance_ml_mmhg for outlet in self.outlets.values() if outlet.windkessel]
        found = {"lattice_compliance_ml_mmhg": self.compliance_ml_mmhg(dt_s)}
        if behind:
            found["windkessel_compliance_ml_mmhg"] = sum(behind)
        if losses:
            found |= {
                "first_harmonic_loss": max((loss.first_harmonic for loss in losses.values()), key=abs),
                "first_harmonic_delay_deg": max((loss.delay_deg for loss in losses.values()), key=abs),
                "peak_flow_loss": max((loss.peak for loss in losses.values()), key=abs),
            }
        return found

    def _sound_m_s(self, dt_s: float) -> float:
        return self.dx_m / (3**0.5 * dt_s)

    def _ends(self, dt_s: float, omega: NDArray[np.float64]) -> Ends:
        inflow = {
            name: 1e-6 * _series(flow.curve.series(len(omega)).coefficients, omega)
            for name, flow in self.waveforms.inflow.items()
        }
        total = sum(inflow.values(), np.zeros(len(omega), np.complex128))
        shape = len(self.openings), len(omega)
        flow, behind, pressure = (np.zeros(shape, np.complex128) for _ in range(3))
        for k, opening in enumerate(self.openings):
            if opening.role == "inlet":
                flow[k] = -inflow[opening.name]
                continue
            outlet = self.outlets[opening.name]
            if outlet.windkessel or outlet.demanded:
                behind[k] = self._impedance(outlet, 1e-6 * opening.area_mm2, dt_s, omega)
            if outlet.demanded:
                pressure[k] = -behind[k] * (outlet.fraction or 0.0) * total
            if wave := self.waveforms.pressure_mmhg.get(opening.name):
                pressure[k] = PASCAL_PER_MMHG * _series(wave.series(len(omega)).coefficients, omega)
        return Ends(np.array([opening.role == "inlet" for opening in self.openings]), flow, behind, pressure)

    def _impedance(self, outlet: Outlet, area_m2: float, dt_s: float, omega: NDArray[np.float64]) -> Complex:
        """Pressure over flow of what acts from step to step at an outlet, Pa s/m3."""
        own = self.density_kg_m3 * self._sound_m_s(dt_s) / area_m2 / PASCAL_S_M3
        alpha, decay, gain, resistance = feedback_rule(outlet, own, dt_s)
        step = np.exp(-1j * omega * dt_s)
        filtered = resistance * alpha / (1 - (1 - alpha) * step)
        answer: Complex = PASCAL_S_M3 * (gain / (1 - decay * step) + filtered)
        return answer


def too_lossy(losses: Mapping[str, Loss], lattice_speed: float) -> list[str]:
    """Warnings of outlets whose first harmonic misses more than it may, where that would cost too many steps.

    Parameters
    ----------
    losses : by name of the outlet.
    lattice_speed : expected peak speed in lattice units.
    """
    messages = []
    for name, loss in losses.items():
        if (most := abs(loss.first_harmonic)) > MAX_LOSS:
            factor, verb = (most / MAX_LOSS) ** 0.5, "take" if loss.first_harmonic > 0 else "add"
            messages.append(
                f"outlet {name}: the lattice's compressibility is expected to {verb} {most:.1%} of the first harmonic"
                f" of its flow (at most {MAX_LOSS:.0%} is wanted), and to delay it by {loss.delay_deg:.1f} degrees;"
                f" solve.lattice_speed {lattice_speed / factor:.2g} (now"
                f" {lattice_speed:.2g}) avoids it, with {factor:.1f} times the steps"
            )
    return messages


def too_far_apart(pulse: Pulse, dt_s: float, lattice_speed: float) -> list[str]:
    """Warnings of outlets whose pressure is not that of what is behind them.

    Parameters
    ----------
    pulse : the flow.
    dt_s : time step.
    lattice_speed : expected peak speed in lattice units.
    """
    messages = []
    for name, part in pulse.apart(dt_s).items():
        if part > MOST_APART:
            factor = (part / LEFT / MOST_APART) ** 0.5
            while pulse.apart(dt_s / factor)[name] > LEFT * MOST_APART:  # high harmonics lack less than they would
                factor *= LONGER
            messages.append(
                f"outlet {name}: its pressure is expected to differ by {part:.0%} of its first harmonic, or of its"
                f" range, from what its Windkessel makes of the flow (at most {MOST_APART:.0%} is wanted), since it"
                f" answers over some steps; solve.lattice_speed {lattice_speed / factor:.3g} (now {lattice_speed:.3g})"
                f" avoids it, with {factor:.1f} times the steps"
            )
    return messages


def _series(coefficients: Complex, omega: NDArray[np.float64]) -> Complex:
    """Harmonics 1 to as many as there are frequencies; 0 where a curve has fewer."""
    answer = np.zeros(len(omega), np.complex128)
    answer[: len(coefficients) - 1] = coefficients[1:]
    return answer
