# SPDX-License-Identifier: Apache-2.0
"""Physical and lattice units, and the choice of the time step and the relaxation time.

In lattice units the spacing dx, the time step dt and the rest density are 1:

    dt = u_lat dx / U_peak,   tau = 1/2 + 3 nu dt / dx^2,   drho = 3 p dt^2 / (rho dx^2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.runtime.errors import StageError

MAX_LATTICE_SPEED = 0.17
MAX_TAU = 1.5
MAX_GRID_REYNOLDS = 150
"""Above it the flow is under-resolved."""
DROP_ERROR, DROP_ACROSS = 0.002, 13
"""By how much pressure drops may be too large, over the grid Reynolds number, with so many nodes across the narrowest
section; see docs/validation/stability.md."""
MAX_DRHO, EXPECTED_DRHO = 0.05, 0.04
"""Deviation of the density above which it shows, and the one that is allowed for beforehand."""
MAX_LOSS, MOST_STEPS = 0.01, 4.0
"""Part of the first harmonic of an outlet's flow that the lattice's compressibility may take, and the factor on the
steps of a cycle that this may cost."""
REFINEMENTS = 5
"""Halvings of the range in which the time step that reaches this is looked for."""
ROWS_PER_CYCLE = 200
"""Rows of the monitor in one period, where nothing else is asked for."""


@dataclass(frozen=True)
class Units:
    """Scales between SI and the lattice.

    Attributes
    ----------
    dx_m, dt_s : spacing and time step.
    density_kg_m3 : rest density.
    viscosity_m2_s : kinematic viscosity.
    """

    dx_m: float
    dt_s: float
    density_kg_m3: float
    viscosity_m2_s: float

    @property
    def speed_m_s(self) -> float:
        """One lattice unit of velocity."""
        return self.dx_m / self.dt_s

    @property
    def flow_m3_s(self) -> float:
        """One lattice unit of flow rate: volume, or mass at rest density, per step."""
        return self.dx_m**3 / self.dt_s

    @property
    def stress_pa(self) -> float:
        """One lattice unit of stress, rho (dx/dt)^2."""
        return self.density_kg_m3 * self.speed_m_s**2

    @property
    def pressure_pa(self) -> float:
        """Pressure of one unit of drho, rho (dx/dt)^2 / 3."""
        return self.stress_pa / 3

    @property
    def flow_ml_s(self) -> float:
        """One lattice unit of flow rate, in mL/s."""
        return 1e6 * self.flow_m3_s

    @property
    def force_n_m3(self) -> float:
        """One lattice unit of force per volume, rho dx/dt^2."""
        return self.stress_pa / self.dx_m

    @property
    def resistance_mmhg_s_ml(self) -> float:
        """Resistance at which one lattice unit of flow rate loses one unit of drho, in mmHg s/mL."""
        return self.pressure_pa / PASCAL_PER_MMHG / self.flow_ml_s

    @property
    def compliance_ml_mmhg(self) -> float:
        """Compliance that one unit of drho fills with one lattice unit of volume, in mL/mmHg."""
        return 1e6 * self.dx_m**3 * PASCAL_PER_MMHG / self.pressure_pa

    @property
    def shear_rate_1_s(self) -> float:
        """One lattice unit of shear rate."""
        return 1 / self.dt_s

    @property
    def dynamic_pa_s(self) -> float:
        """One lattice unit of dynamic viscosity, rho dx^2/dt."""
        return self.stress_pa * self.dt_s

    @property
    def power_w(self) -> float:
        """One lattice unit of power: of energy, rho dx^3 (dx/dt)^2, per step."""
        return self.stress_pa * self.flow_m3_s

    @property
    def tau(self) -> float:
        """Relaxation time, 1/2 + 3 nu dt/dx^2."""
        return 0.5 + 3 * self.viscosity_m2_s * self.dt_s / self.dx_m**2


# many parameters because each is one number of the flow or of the settings, most with a usual value
def choose_units(
    dx_m: float,
    peak_speed_m_s: float,
    density_kg_m3: float,
    viscosity_pa_s: float,
    lattice_speed: float,
    period_s: float | None = None,
    rows_per_cycle: int = ROWS_PER_CYCLE,
    pressure_pa: float = 0.0,
    loss: Callable[[float], float] | None = None,
    least_sound_m_s: float = 0.0,
) -> tuple[Units, list[str], list[str]]:
    """Time step for a spacing and an expected peak speed, notes on how it was found, and warnings.

    The lattice speed asked for is lowered where tau would exceed 1.5, where the pressure would change the density by
    more than 0.04, where sound would be too slow, and where the fluid, compressible as it is, would take more than 1 %
    of the first harmonic of an outlet's flow; but for the last to no less than a quarter. A cycle is a multiple of
    2 `rows_per_cycle` steps, so that every cycle is observed in the same phases.

    Parameters
    ----------
    dx_m, peak_speed_m_s, density_kg_m3, viscosity_pa_s : of the flow.
    lattice_speed : wanted peak speed in lattice units.
    period_s : period of the boundary conditions; none if they are steady.
    rows_per_cycle : rows of the monitor in a period.
    pressure_pa : largest expected difference to the pressure that is zero on the lattice.
    loss : part of a first harmonic that is lost at a time step, see :mod:`solver.run.sound`; none of a steady flow.
    least_sound_m_s : speed of sound on the lattice, at least.

    Raises
    ------
    StageError
        If the lattice speed is too large to be nearly incompressible.
    """
    if lattice_speed > MAX_LATTICE_SPEED:
        raise StageError(
            f"solve.lattice_speed {lattice_speed:g} is above {MAX_LATTICE_SPEED} (Mach {lattice_speed * 3**0.5:.2f}), "
            "where the lattice is no longer nearly incompressible; 0.05 to 0.1 is usual"
        )
    viscosity_m2_s = viscosity_pa_s / density_kg_m3
    dt, notes = lattice_speed * dx_m / peak_speed_m_s, []
    for longest, why in _bounds(dx_m, density_kg_m3, viscosity_m2_s, pressure_pa, least_sound_m_s):
        if dt > longest:
            notes.append(_lowered(dt, longest, peak_speed_m_s / dx_m, why))
            dt = longest
    if loss and loss(dt) > MAX_LOSS:
        quiet = _quiet(dt, loss)
        why = f"the lattice's compressibility takes about {loss(quiet):.2g} of a first harmonic, not {loss(dt):.2g}"
        notes.append(_lowered(dt, quiet, peak_speed_m_s / dx_m, why))
        dt = quiet
    if period_s:
        pairs = ceil(period_s / dt / (2 * rows_per_cycle) - 1e-9)
        dt = period_s / (2 * rows_per_cycle * pairs)
    warnings = under_resolved(peak_speed_m_s * dx_m / viscosity_m2_s, dx_m)
    return Units(dx_m, dt, density_kg_m3, viscosity_m2_s), notes, warnings


def _bounds(
    dx_m: float, density_kg_m3: float, viscosity_m2_s: float, pressure_pa: float, least_sound_m_s: float
) -> tuple[tuple[float, str], ...]:
    """Longest time steps, s, that tau, the change of the density and the speed of sound allow, and what each is for."""
    viscous_s = (MAX_TAU - 0.5) / 3 * dx_m**2 / viscosity_m2_s
    incompressible_s = dx_m * (EXPECTED_DRHO * density_kg_m3 / (3 * pressure_pa)) ** 0.5 if pressure_pa else inf
    return (
        (viscous_s, f"tau is not above {MAX_TAU}"),
        (
            incompressible_s,
            f"the {pressure_pa:.3g} Pa expected between the openings change the density by at most {EXPECTED_DRHO}",
        ),
        (
            dx_m / (3**0.5 * least_sound_m_s) if least_sound_m_s else inf,
            f"sound on the lattice has {least_sound_m_s:.3g} m/s, and its fluid is stiffer than the arteries around",
        ),
    )


def pressure_drop_error(grid_reynolds: float, across: float) -> float:
    """By how much pressure drops may be too large at most, as a part of them: 0.002 Re_g (13/n)^2.

    Parameters
    ----------
    grid_reynolds : Re_g, of the peak speed and the spacing.
    across : n, nodes across the narrowest section.
    """
    return grid_reynolds * DROP_ERROR * (DROP_ACROSS / across) ** 2


def under_resolved(grid_reynolds: float, dx_m: float) -> list[str]:
    """What to warn of at a grid Reynolds number."""
    if grid_reynolds <= MAX_GRID_REYNOLDS:
        return []
    return [
        f"grid Reynolds number {grid_reynolds:.0f} is above {MAX_GRID_REYNOLDS}: the flow is under-resolved; a"
        f" spacing of {1e3 * dx_m * MAX_GRID_REYNOLDS / grid_reynolds:.2g} mm would reach it"
    ]


def _lowered(before_s: float, after_s: float, lattice_speed_s: float, why: str) -> str:
    return (
        f"time step lowered from {before_s:.3g} to {after_s:.3g} s, the lattice speed to"
        f" {after_s * lattice_speed_s:.2g}, so that {why}"
    )


def _quiet(dt_s: float, loss: Callable[[float], float]) -> float:
    """Longest time step, up to one that loses too much, at and below which at most `MAX_LOSS` is lost; but at least its
    `MOST_STEPS`th part.

    It is looked for from below: a loss grows with dt^2, but beyond a resonance of the vessel it is less again.
    """
    low, high = 1 / MOST_STEPS, 1.0
    for factor in np.geomspace(low, high, 2 * REFINEMENTS):
        if loss(factor * dt_s) > MAX_LOSS:
            high = float(factor)
            break
        low = float(factor)
    for _ in range(REFINEMENTS if low < high else 0):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if loss(middle * dt_s) > MAX_LOSS else (middle, high)
    return low * dt_s


UNITS = {
    "_mmhg_s_ml": "mmHg s/mL",
    "_ml_mmhg": "mL/mmHg",
    "_ml_s": "mL/s",
    "_m_s": "m/s",
    "_m2_s": "m²/s",
    "_kg_m3": "kg/m³",
    "_pa_s": "Pa s",
    "_1_s": "1/s",
    "_per_mm": "1/mm",
    "_mm3": "mm³",
    "_mm2": "mm²",
    "_mmhg": "mmHg",
    "_mm": "mm",
    "_ml": "mL",
    "_pa": "Pa",
    "_mb": "MB",
    "_j": "J",
    "_w": "W",
    "_s": "s",
}
"""Endings of keys; the longer before the shorter."""

WORDS = {
    "tau": "relaxation time τ (lattice)",
    "reynolds": "Reynolds number at the inlet, at peak flow",
    "grid_reynolds": "grid Reynolds number, of the peak speed and the spacing",
    "womersley": "Womersley number",
    "mach": "largest Mach number",
    "expected_mach": "expected Mach number",
    "expected_peak_speed_lattice": "expected peak speed (lattice)",
    "expected_pressure_difference_pa": "largest expected pressure, outlets and friction together (Pa)",
    "expected_drho": "expected density deviation (lattice)",
    "nodes_across_inlet": "nodes across the largest inlet",
    "nodes_across_smallest_opening": "nodes across the smallest opening",
    "nodes_across_narrowest_section": "nodes across the narrowest section",
    "first_harmonic_loss": "largest part of a first harmonic lost to the lattice's compressibility, expected",
    "first_harmonic_delay_deg": "largest delay of a first harmonic by it, expected (degrees)",
    "peak_flow_loss": "largest part of an outlet's peak flow lost to it, expected",
    "lattice_compliance_ml_mmhg": "compliance of the lattice's fluid (mL/mmHg)",
    "windkessel_compliance_ml_mmhg": "compliance of all Windkessels (mL/mmHg)",
    "acoustic_transit_s": "time of a pressure wave through the domain (s)",
    "acoustic_transits_per_cycle": "times that a pressure wave crosses the domain in a cycle",
    "ramp_s": "time over which inflow and moving walls are raised (s)",
    "period_s": "length of a cycle (s)",
    "wall_radius_mm": "radius of the walls, twice volume over area (mm)",
    "max_drho": "largest density deviation (lattice)",
    "density_drift": "mean density deviation (lattice)",
    "change": "last relative change of the velocity",
    "residual": "last change over a viscous time",
    "periodicity": "difference of the last two cycles",
    "cycles": "cycles that were run",
    "mass_balance": "flow balance",
    "mlups": "speed (million node updates a second)",
    "seconds": "time that the solver took (s)",
    "pressure_drop_error": "largest error of a pressure drop, of itself",
    "lambda_trt": "Λ of the collision (lambda_trt)",
    "outlet_layers": "layers of raised viscosity at outlets",
}
"""Keys that need more than their own words."""


def words(key: str) -> str:
    """A key as words with its unit: ``time_step_s`` -> ``time step (s)``."""
    if key in WORDS:
        return WORDS[key]
    for ending, unit in UNITS.items():
        if key.endswith(ending):
            return f"{key.removesuffix(ending).replace('_', ' ')} ({unit})"
    return key.replace("_", " ")
