# SPDX-License-Identifier: Apache-2.0
"""Summary of a run: the figures of solve.json, warnings and notes."""

from collections.abc import Sequence
from dataclasses import asdict
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.boundary.waveform import described
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.kernels.rheology import MOST_TAU
from solver.kernels.velocity_sets import velocity_set
from solver.run.cycle_variation import averaged_rows, cycles_if_it_varies
from solver.run.models import WITH_LAMBDA
from solver.run.monitor import LEAST_OF_CYCLE, OF_OPENINGS, Row, in_and_out
from solver.run.outlet_pressures import not_of_windkessels, off_windkessels, too_slow
from solver.run.plan import Plan, drop_error, drops_too_large
from solver.run.setup import is_isotropic, is_parabolic, likely_steps
from solver.run.simulation import Simulation
from solver.run.sound import Loss
from solver.run.units import MAX_DRHO, under_resolved

BACKFLOW = 1e-3
"""Of the largest flow through an opening: backflow above this gets a note."""

MANY = 0.01
"""Part of the nodes at a bound of the relaxation time that is worth a warning."""


def that_hold(texts: Sequence[str], plan: Plan) -> list[str]:
    """Notes or warnings without those that only held before the run."""
    return [text for text in texts if text not in plan.foreseen]


def _grid_reynolds(simulation: Simulation) -> float:
    """Largest grid Reynolds number of the part of the run that counts."""
    units = simulation.plan.units
    return max(row.max_speed_m_s for row in simulation.counted_rows) * units.dx_m / units.viscosity_m2_s


def measured_notes(simulation: Simulation) -> list[str]:
    """What is to be noted of the flow as it was at the end, in place of what was foreseen."""
    plan = simulation.plan
    return drops_too_large(_grid_reynolds(simulation), plan.numbers) if plan.has_openings else []


def measured_drop_error(simulation: Simulation) -> float | None:
    """By how much pressure drops may be too large at most, by the fastest flow of the part of the run that counts."""
    plan = simulation.plan
    return drop_error(_grid_reynolds(simulation), plan.numbers) if plan.has_openings else None


def late_warnings(simulation: Simulation) -> list[str]:
    """Warnings of what only the run shows."""
    plan, rows = simulation.plan, simulation.monitor.rows
    warnings = under_resolved(_grid_reynolds(simulation), plan.units.dx_m)
    if unsettled := simulation.unsettled():
        warnings += [unsettled, *too_slow(plan.boundary_schedule, plan.schedule.cycles)]
    if simulation.state in ("steady", "periodic"):
        warnings += _off_windkessels(simulation)
    if simulation.state == "unsteady" and simulation.fluctuation:
        ended = "solve.max_steps" if simulation.step >= plan.schedule.last else "solve.unsteady_throughs"
        limit = "solve.cycles" if plan.schedule.cycle else ended
        warnings += simulation.fluctuation.warnings(simulation.settings.unsteady_tolerance, limit)
    drho = max(row.max_drho for row in rows)
    if drho > MAX_DRHO:
        warnings.append(
            f"density deviated by {drho:.2g} (at most {MAX_DRHO} wanted), compressibility may show; lower "
            "solve.lattice_speed"
        )
    warnings += _bounds_messages(simulation)
    speed, expected = max(row.max_speed_m_s for row in rows), plan.numbers["expected_peak_speed_m_s"]
    if speed > 1.5 * expected:
        warnings.append(
            f"peak speed {speed:.3g} m/s is well above the expected {expected:.3g} m/s; set solve.peak_speed_m_s to it"
        )
    return warnings


def _off_windkessels(simulation: Simulation) -> list[str]:
    """Warnings of outlets at which the flow that has settled has not the pressures of their Windkessels."""
    plan, monitor = simulation.plan, simulation.monitor
    flow, pressure = (np.array([getattr(row, key) for row in monitor.last_part()]) for key in OF_OPENINGS[:2])
    if not plan.pulse or monitor.per_cycle < LEAST_OF_CYCLE:
        flow, pressure = (each.mean(axis=0, keepdims=True) for each in (flow, pressure))
    expected = plan.pulse.apart(plan.units.dt_s) if plan.pulse else {}
    return not_of_windkessels(off_windkessels(plan.boundary_schedule, flow, pressure), expected)


def backflow(simulation: Simulation) -> list[str]:
    """Notes on outlets through which blood came back, in the part of the run that counts."""
    rows, notes = simulation.counted_rows, []
    for k, opening in enumerate(simulation.nodes.openings):
        back = _backflow_of(rows, k)
        if opening.role == "outlet" and back["backflow_part_of_time"] > 0:
            notes.append(
                f"blood comes back through outlet {opening.name}: up to {back['largest_backflow_ml_s']:.3g} mL/s, at "
                f"{back['backflow_part_of_time']:.0%} of the time; its speed is not imposed there"
            )
    return notes


def _backflow_of(rows: Sequence[Row], k: int) -> dict[str, float]:
    """What came back through the k-th opening: at most, part of the time, and part of what passed through it."""
    back, flow = (np.array([getattr(row, name)[k] for row in rows]) for name in ("backflow_ml_s", "flow_ml_s"))
    passed = float((flow + 2 * back).sum())  # out and in, of which the flow is the difference
    return {
        "largest_backflow_ml_s": float(back.max()),
        "backflow_part_of_time": float((back > BACKFLOW * np.abs(flow).max()).mean()),
        "backflow_part_of_flow": float(back.sum()) / passed if passed > 0 else 0.0,
    }


def _first_harmonic(rows: Sequence[Row], k: int, loss: Loss) -> dict[str, float]:
    """Amplitude of the k-th opening's flow at the frequency of the cycle that the rows fill, as it is, and with what
    the lattice's compressibility is expected to have taken; and that expectation.
    """
    flow = np.array([row.flow_ml_s[k] for row in rows])
    waveform = np.exp(-2j * np.pi * np.arange(len(rows)) / len(rows))
    amplitude = 2 * abs(flow @ waveform) / len(rows)
    return {
        "flow_ml_s": amplitude,
        "corrected_flow_ml_s": amplitude / (1 - loss.first_harmonic),
        "expected_loss": loss.first_harmonic,
        "expected_delay_deg": loss.delay_deg,
        "expected_peak_loss": loss.peak,
    }


def _bounds_messages(simulation: Simulation) -> list[str]:
    """What to say where much of the fluid is as thin, or as thick, as it is let become."""
    plan, (thin, thick) = simulation.plan, simulation.driver.at_bounds() / simulation.nodes.total
    messages = []
    if thin > MANY and plan.rheology:
        least = 1 / plan.rheology.numbers[3]
        messages.append(
            f"{thin:.1%} of the nodes are at the lower bound {least:.5g} of tau, where {plan.blood.model} blood would"
            " be thinner; choose a finer spacing, or raise solve.lattice_speed"
        )
    if thick > MANY and plan.blood.model != "bingham":  # whose plugs are rigid as they should be
        messages.append(
            f"{thick:.1%} of the nodes are at the upper bound {MOST_TAU:g} of tau, where {plan.blood.model} blood would"
            " be thicker; lower solve.lattice_speed"
        )
    return messages


def summary_of(simulation: Simulation, warnings: list[str], notes: list[str]) -> dict[str, Any]:
    """What ``solve.json`` says of a run.

    Parameters
    ----------
    simulation : the run, at its end.
    warnings, notes : those that hold at its end.
    """
    monitor, plan = simulation.monitor, simulation.plan
    part, last, fluctuating = simulation.counted_rows, monitor.rows[-1], simulation.fluctuation
    waveforms = plan.boundary_schedule.waveforms
    return {
        "state": simulation.state,
        "converged": simulation.converged,
        "unsettled": simulation.unsettled(),
        "unsteady": fluctuating.record() if fluctuating and simulation.state == "unsteady" else None,
        "fluctuation": fluctuating.summary() if fluctuating else None,
        "warnings": warnings,
        "notes": notes,
        "cycles": simulation.step / plan.schedule.cycle if plan.schedule.cycle else None,
        "residual": None if plan.period_s else last.residual,
        "change": None if plan.period_s else last.change,
        "periodicity": monitor.from_repeating(),
        "pressure_drop_error": measured_drop_error(simulation),
        "mass_balance": _mass_balance(simulation),
        "openings": _openings(simulation),
        "coupling": _coupling(simulation),
        "waveforms": described({name: flow.curve for name, flow in waveforms.inflow.items()}, "flow_ml_s")
        | described(waveforms.pressure_mmhg, "pressure_mmhg"),
        "max_speed_m_s": last.max_speed_m_s,
        "mach": max(row.mach for row in monitor.rows),
        "max_drho": max(row.max_drho for row in monitor.rows),
        "density_drift": last.density_drift,
        "kinetic_energy_j": float(np.mean([row.kinetic_energy_j for row in part])),
        "nodes_at_bounds": dict(zip(("thin", "thick"), simulation.driver.at_bounds().tolist(), strict=True)),
        "numbers": plan.numbers,
        "models": _models(simulation),
        "forecast": {
            "steps": simulation.forecast.steps,
            "likely_steps": likely_steps(simulation.planned, simulation.forecast.steps, simulation.start.unsteady),
            "unsteady_steps": None if plan.period_s else ceil(simulation.watch.unsteady_steps),
            "node_updates": simulation.forecast.steps * simulation.nodes.count,
            "most_steps": simulation.planned.schedule.last,
            "varying_steps": _varying_steps(simulation),
            "seconds": simulation.forecast.seconds,
            "memory_mb": simulation.forecast.bytes / 1e6,
        },
        "start": asdict(simulation.start),
        "extrapolations": simulation.extrapolations,
        "device": simulation.driver.device,
        "division": division.record() if (division := simulation.driver.division) else None,
        "steps": simulation.step,
        "time_s": last.time_s,
        "seconds": simulation.seconds,
        "memory_mb": simulation.bytes / 1e6,
        "mlups": simulation.mlups,
    }


def _varying_steps(simulation: Simulation) -> list[int] | None:
    """Steps after which the run was expected to end, at least and at most, if its flow varied from cycle to cycle."""
    plan = simulation.planned
    cycles = cycles_if_it_varies(plan, simulation.settings)
    return [each * plan.schedule.cycle for each in cycles] if cycles and plan.schedule.cycle else None


def _mean_flow_ml_s(simulation: Simulation) -> NDArray[np.float64]:
    """Mean flow through each opening, (openings,), in the part of the run that counts."""
    return np.asarray(np.mean([row.flow_ml_s for row in simulation.counted_rows], axis=0))


def _mass_balance(simulation: Simulation) -> float | None:
    """What enters and does not leave, over what enters; none where nothing does."""
    into, out = in_and_out(simulation.nodes, _mean_flow_ml_s(simulation))
    return (into - out) / into if into else None


def _openings(simulation: Simulation) -> dict[str, dict[str, Any]]:
    """Flow and pressure of each opening, and what is imposed there, by name."""
    part, schedule, losses = simulation.counted_rows, simulation.plan.boundary_schedule, simulation.plan.losses
    flow, imposed = _mean_flow_ml_s(simulation), schedule.record()
    pressure = np.mean([row.pressure_pa for row in part], axis=0)
    units = simulation.plan.units
    frictions = {each.opening: each.resistance * units.pressure_pa / units.flow_ml_s for each in simulation.plan.layers}
    openings: dict[str, dict[str, Any]] = {}
    for k, opening in enumerate(simulation.nodes.openings):
        found = openings[opening.name] = {
            "role": opening.role,
            "flow_ml_s": float(flow[k]),
            "pressure_pa": float(pressure[k]),
            **_backflow_of(part, k),
        }
        coupled, inlet = opening.name in schedule.coupled_mmhg_s_ml, opening.role == "inlet"
        if inlet and not coupled:
            found["imposed_flow_ml_s"] = schedule.waveforms.inflow[opening.name].mean_ml_s
        elif not coupled:
            found["imposed_pressure_pa"] = schedule.outlets[opening.name].pressure_mmhg * PASCAL_PER_MMHG
        if coupled or not inlet or k in frictions:
            found["friction_of_layers_pa"] = frictions.get(k, 0.0) * float(flow[k])
        if loss := losses.get(opening.name):
            found["first_harmonic"] = _first_harmonic(simulation.monitor.last_part(), k, loss)
        found["imposed"] = imposed[opening.name]
    return openings


def _coupling(simulation: Simulation) -> dict[str, Any] | None:
    """What a network around the vessel was in the cycles that the result is taken from; none without one."""
    monitor, names = simulation.monitor, ("time_s", *OF_OPENINGS[:2])
    if not monitor.per_cycle:
        return None
    rows = averaged_rows(monitor) if simulation.plan.schedule.varies else monitor.last_part()
    values = (np.array([getattr(row, name) for row in rows]) for name in names)
    time_s, flow, pressure = (each.reshape(-1, monitor.per_cycle, *each.shape[1:]) for each in values)
    return simulation.exchange.summary(simulation.driver, time_s, flow, pressure)


def _models(simulation: Simulation) -> dict[str, Any]:
    """What the flow was computed with."""
    plan, settings, models = simulation.plan, simulation.settings, simulation.plan.models
    eddies = {"constant": models.eddies, "onset": models.onset, "part_of_nodes": simulation.limited}
    return {
        "velocity_set": velocity_set(plan.q).name,
        "collision": models.collision,
        "lambda_trt": models.lambda_trt if models.collision in WITH_LAMBDA else None,
        "equilibrium": settings.equilibrium,
        "eddies": eddies if models.eddies else None,
        "isotropic_force": is_isotropic(settings, plan),
        "parabolic_walls": is_parabolic(settings, plan),
        "outlet_layers": models.layers,
        "fallbacks": list(simulation.attempt.past),
        "blood": {"model": plan.blood.model, "parameters": plan.blood.parameters, "source": plan.blood.source},
        "walls": settings.walls,
        "patches": {name: "slips" if patch.slip else "moves" for name, patch in settings.patches.items()},
        "inlets": {name: profile.name for name, profile in plan.boundary_schedule.profiles.items()},
        "outlets": "anti-bounce-back",
        "precision": settings.precision,
    }
