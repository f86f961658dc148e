# SPDX-License-Identifier: Apache-2.0
"""Fields and statistics of a run in SI units, as the flow file has them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solver.backends.fields import Fields, Statistics
from solver.backends.share import Share
from solver.kernels.rheology import thinned
from solver.run.flow_file import FlowStatistics, steady_statistics
from solver.run.plan import Plan
from solver.run.units import Units

IN_VTK = (0, 1, 2, 3, 5, 4)
"""Components of a stress of a driver in the order of VTK."""


def in_si(fields: Fields, plan: Plan, share: Share) -> tuple[NDArray[np.floating], ...]:
    """Velocity (N, 3), pressure (N,), viscous stress (N, 6) in the order of VTK, XX YY ZZ XY YZ XZ, and viscosity (N,)
    where it varies.

    Where nodes are thickened, stress and viscosity are those of blood at their shear rate, and the pressure lacks the
    friction that layers at outlets add, see :mod:`solver.boundary.layers`.

    Parameters
    ----------
    fields : of the nodes of this process.
    plan : of the run.
    share : these nodes.
    """
    units, rheology = plan.units, plan.rheology
    viscous, viscosity = -(1 - 1 / (2 * units.tau)) * units.stress_pa, fields.viscosity
    part: NDArray[np.floating] = np.ones(1, fields.stress.dtype)
    if rheology is not None and rheology.blend is not None and viscosity is not None:
        part = thinned(viscosity, rheology.blend[share.here], (units.tau - 0.5) / 3)
        viscosity = viscosity * part
    stress = np.empty(fields.stress.shape, (fields.stress[0, :1] * viscous * part[:1]).dtype)
    for each, component in zip(stress, IN_VTK, strict=True):  # one after another, of which few are held at a time
        each[:] = fields.stress[component] * viscous * part
    drho = fields.drho
    if plan.layers:
        drho = drho.copy()
        for each in plan.layers:
            of_layer, own = share.among_own(each.rows)
            flow = each.flow(share.at(fields.velocity, each.rows))
            drho[own] += each.resistance * flow * each.upstream[of_layer]
    return (
        fields.velocity.T * units.speed_m_s,
        drho * units.pressure_pa + plan.boundary_schedule.reference_pa,
        stress.T,
        *(() if viscosity is None else (viscosity * units.dynamic_pa_s,)),
    )


def statistics_in_si(found: Statistics, units: Units) -> FlowStatistics:
    """Statistics over time, from those of a driver."""
    return FlowStatistics(
        speed_peak_m_s=found.peak_speed * units.speed_m_s,
        kinetic_energy_mean_j_m3=found.square * (units.stress_pa / 2),
        shear_rate_mean_1_s=found.shear_rate * units.shear_rate_1_s,
        dissipation_mean_w_m3=found.dissipation * (units.stress_pa * units.shear_rate_1_s),
    )


def settled_statistics(fields: Sequence[NDArray[np.floating]], units: Units) -> FlowStatistics:
    """Statistics of a flow that has settled, from what :func:`in_si` tells of it."""
    velocity_m_s, _, viscous_stress_pa, *viscosity_pa_s = fields
    viscosity = viscosity_pa_s[0] if viscosity_pa_s else units.viscosity_m2_s * units.density_kg_m3
    return steady_statistics(velocity_m_s, viscous_stress_pa, viscosity, units.density_kg_m3)
