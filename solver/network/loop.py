# SPDX-License-Identifier: Apache-2.0
"""The time loop of a network: Heun's method in its strong-stability-preserving form (Shu and Osher 1988).

A step goes

    U1 = U + dt L(U),    U' = (U + U1 + dt L(U1))/2,

for areas, velocities and the volume of ventricles. Windkessels go by the exact solution for a flow that is linear over
a step, whose end is found there together with the pressure that it makes:

    p_c' = e p_c + (1 - e) p_b + R2 (w Q + w1 Q1),    e = exp(-dt/(R2 C)),
    w1 = 1 - (1 - e) R2 C/dt,    w = 1 - e - w1,

which is stable for any time constant, short or long, and keeps what is steady.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.kernels.compilation import cached_njit, inner_loop
from solver.network.cells import (
    SMALL_M_S,
    Work,
    accelerate,
    advance,
    carry,
    extend,
    make_fastest,
    make_fluxes,
    make_states,
)
from solver.network.grid import Grid
from solver.network.junctions import (
    Ends,
    Junctions,
    Openings,
    make_close,
    make_gather,
    make_meet,
    make_static_pressure,
    scatter,
)
from solver.network.momentum import add_profile
from solver.network.viscous import diffuse, viscous_pressure

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]

SIGNAL, WINDKESSEL, VENTRICLE = range(3)
"""Where the value at an opening comes from: over time or from outside; from p_c; from the volume of a ventricle."""
CHECKED_EVERY = 16
"""Steps between two looks at the Courant number."""


class State(NamedTuple):
    """What a step changes.

    Attributes
    ----------
    area, velocity : of cells, (M,).
    stored : of openings, (B,): p_c of a Windkessel, V of a ventricle.
    volume_out, work_out : of openings, (B,), since the cycle began: m^3 and J.
    """

    area: Reals
    velocity: Reals
    stored: Reals
    volume_out: Reals
    work_out: Reals


class Behind(NamedTuple):
    """What is behind openings, (B,) each.

    Attributes
    ----------
    source : where their values come from.
    signal : (B, N + 1) at the steps of a cycle: flow out, pressure, or elastance.
    imposed : (2, B) from outside at the beginning and at the end of a step, added to the signal.
    distal, back, decay, before, after : R2, p_b, e, w and w1 of a Windkessel.
    unstressed, atrium, mitral : V0, p_a and R_m of a heart.
    """

    source: Integers
    signal: Reals
    imposed: Reals
    distal: Reals
    back: Reals
    decay: Reals
    before: Reals
    after: Reals
    unstressed: Reals
    atrium: Reals
    mitral: Reals


class Record(NamedTuple):
    """Samples of a cycle.

    Attributes
    ----------
    area, velocity, pressure : of cells, (samples, M).
    end_area, end_flow, end_pressure : at ends of segments, (samples, 2 S); flow from start to end.
    """

    area: Reals
    velocity: Reals
    pressure: Reals
    end_area: Reals
    end_flow: Reals
    end_pressure: Reals


class Scratch(NamedTuple):
    """Arrays that nothing keeps: stages (M,), and of openings, (B,): what is stored as predicted, what holds (value and
    load), and the rate of change of a ventricle or flow into a Windkessel when the step begins.
    """

    area: Reals
    velocity: Reals
    next_area: Reals
    next_velocity: Reals
    predicted: Reals
    value: Reals
    load: Reals
    rate: Reals


class Model(NamedTuple):
    """What a step does not change."""

    grid: Grid
    junctions: Junctions
    openings: Openings
    behind: Behind


class Arrays(NamedTuple):
    """What a step changes, and what it fills on the way."""

    state: State
    work: Work
    ends: Ends
    record: Record
    scratch: Scratch


@inner_loop
def _values(model: Model, stored: Reals, step: int, stage: int, scratch: Scratch) -> None:
    """What holds at openings at the beginning of a step, in its stage 0, or at its end, in its stage 1."""
    behind = model.behind
    for b in range(len(stored)):
        signal = behind.signal[b, step + stage] + behind.imposed[stage, b]
        scratch.load[b] = model.openings.resistance[b]
        if behind.source[b] == SIGNAL:
            scratch.value[b] = signal
        elif behind.source[b] == VENTRICLE:
            scratch.value[b] = signal * (stored[b] - behind.unstressed[b])
        elif stage == 0:
            scratch.value[b] = stored[b]
        else:
            kept = behind.decay[b] * stored[b] + (1.0 - behind.decay[b]) * behind.back[b]
            scratch.value[b] = kept + behind.distal[b] * behind.before[b] * scratch.rate[b]
            scratch.load[b] += behind.distal[b] * behind.after[b]


@inner_loop
def _store(model: Model, arrays: Arrays, step_s: float, stage: int) -> None:
    """Windkessels and ventricles after a stage; the first one predicts, the second one corrects."""
    behind, state, scratch = model.behind, arrays.state, arrays.scratch
    for b in range(len(scratch.value)):
        out, after = arrays.ends.node_outflow[model.openings.end[b]], state.stored[b]
        if behind.source[b] == WINDKESSEL and stage:
            after = scratch.value[b] + behind.distal[b] * behind.after[b] * out
        elif behind.source[b] == WINDKESSEL:
            scratch.rate[b] = out
        elif behind.source[b] == VENTRICLE:
            rate = max((behind.atrium[b] - scratch.value[b]) / behind.mitral[b], 0.0) + out
            after += step_s * (0.5 * (scratch.rate[b] + rate) if stage else rate)
            scratch.rate[b] = rate
        if stage:
            state.stored[b] = after
        else:
            scratch.predicted[b] = after


@inner_loop
def _average(ends: Ends, stage: int) -> None:
    """Mean of the flows at ends of segments over the stages of a step."""
    for e in range(len(ends.head)):
        ends.mean_outflow[e] = 0.5 * ends.node_outflow[e] + (ends.mean_outflow[e] if stage else 0.0)


@inner_loop
def _take(scratch: Scratch, state: State) -> None:
    """End a step."""
    for i in range(1, len(state.area)):
        state.area[i], state.velocity[i] = scratch.next_area[i], scratch.next_velocity[i]


@inner_loop
def _count(openings: Openings, ends: Ends, state: State, step_s: float, density: float) -> None:
    """Volume and work that leave in a stage, of which there are two a step."""
    for b in range(len(openings.end)):
        e = openings.end[b]
        volume = 0.5 * step_s * ends.node_outflow[e]
        state.volume_out[b] += volume
        state.work_out[b] += volume * density * ends.node_head[e]


@cache
def make_read(linear: bool) -> Any:
    """Function that keeps a sample."""
    static_pressure = make_static_pressure(linear)

    @inner_loop
    def read(grid: Grid, state: State, work: Work, ends: Ends, record: Record, k: int) -> None:
        for i in range(len(state.area)):
            record.area[k, i], record.velocity[k, i] = state.area[i], state.velocity[i]
            record.pressure[k, i] = work.pressure[i] + viscous_pressure(grid, state.area, work.flow, i)
        for e in range(len(ends.head)):
            i = grid.last[e // 2] if e % 2 else grid.first[e // 2]
            out, (pressure, area) = ends.node_outflow[e], static_pressure(grid, ends, e)
            record.end_area[k, e] = area
            record.end_flow[k, e] = out if e % 2 else -out
            record.end_pressure[k, e] = pressure + record.pressure[k, i] - work.pressure[i]

    return read


@cache
def make_slopes(linear: bool) -> Any:
    """Function that fills fluxes at all faces from the state of a stage."""
    states, fluxes = make_states(linear), make_fluxes(linear)
    gather, meet, close = make_gather(linear), make_meet(linear), make_close(linear)

    @inner_loop
    def slopes(model: Model, arrays: Arrays, area: Reals, velocity: Reals, small_pa: float) -> None:
        grid, work, ends = model.grid, arrays.work, arrays.ends
        states(area, grid.area, grid.table, grid.offset, work.stretch, work.pressure)
        extend(work.pressure, grid.first, grid.last)
        extend(velocity, grid.first, grid.last)
        carry(work.pressure, small_pa, work.pressure_left, work.pressure_right)
        carry(velocity, SMALL_M_S, work.velocity_left, work.velocity_right)
        fluxes(grid, work)
        gather(grid, work, ends)
        meet(grid, ends, model.junctions)
        close(grid, ends, model.openings, arrays.scratch.value, arrays.scratch.load)
        scatter(grid, work, ends)

    return slopes


@cache
def make_march(linear: bool) -> Any:
    """Function that does steps of a cycle.

    Its arguments are the model and its arrays, and what to do: the first step, the one after the last, and the steps
    between samples; dt; the difference of pressure that is no front; the largest (|u| + c)/dx that dt allows. It
    returns the step it came to, which is an earlier one where that is exceeded, and the largest (|u| + c)/dx.
    """
    slopes, read, fastest = make_slopes(linear), make_read(linear), make_fastest(linear)

    @cached_njit()
    def march(
        model: Model, arrays: Arrays, span: tuple[int, int, int], step_s: float, small_pa: float, limit: float
    ) -> tuple[int, float]:
        largest = 0.0
        grid, openings = model.grid, model.openings
        state, work, ends, record, scratch = arrays
        losses = grid.friction, grid.linear_loss, grid.square_loss
        for n in range(span[0], span[1]):
            _values(model, state.stored, n, 0, scratch)
            slopes(model, arrays, state.area, state.velocity, small_pa)
            if n % CHECKED_EVERY == 0:
                rate = fastest(grid, work.stretch, state.velocity)
                largest = rate if not (rate <= largest) else largest
                if not (rate <= limit):
                    return n, rate
            if n % span[2] == 0:
                read(grid, state, work, ends, record, n // span[2])
            _average(ends, 0)
            advance(state.area, state.area, 1.0, step_s, grid.per_length, work.flow, scratch.area)
            speeds = state.velocity, state.velocity
            accelerate(speeds, state.area, 1.0, step_s, grid.per_length, losses, work.head, scratch.velocity)
            if len(grid.profiled):
                pair = state.area, state.velocity
                add_profile(grid, pair, work.flow, ends.area, 1.0, step_s, scratch.velocity)
            _count(openings, ends, state, step_s, grid.density)
            _store(model, arrays, step_s, 0)
            _values(model, scratch.predicted, n, 1, scratch)
            slopes(model, arrays, scratch.area, scratch.velocity, small_pa)
            _average(ends, 1)
            advance(state.area, scratch.area, 0.5, step_s, grid.per_length, work.flow, scratch.next_area)
            speeds = state.velocity, scratch.velocity
            accelerate(speeds, scratch.area, 0.5, step_s, grid.per_length, losses, work.head, scratch.next_velocity)
            if len(grid.profiled):
                pair = scratch.area, scratch.velocity
                add_profile(grid, pair, work.flow, ends.area, 0.5, step_s, scratch.next_velocity)
            _count(openings, ends, state, step_s, grid.density)
            _store(model, arrays, step_s, 1)
            if len(grid.viscoelastic):
                pair = work.pressure_left, work.pressure_right
                diffuse(grid, scratch.next_area, scratch.next_velocity, ends.mean_outflow, step_s, pair)
            _take(scratch, state)
        return span[1], largest

    return march


@cache
def make_values_now(linear: bool) -> Any:
    """Function that finds pressure, flow out and impedance of openings at a step, which nothing else changes."""
    slopes, static_pressure = make_slopes(linear), make_static_pressure(linear)

    @cached_njit()
    def values_now(model: Model, arrays: Arrays, step: int, small_pa: float) -> tuple[Reals, Reals, Reals]:
        _values(model, arrays.state.stored, step, 0, arrays.scratch)
        slopes(model, arrays, arrays.state.area, arrays.state.velocity, small_pa)
        ends, count = arrays.ends, len(model.openings.end)
        pressure, outflow, impedance = np.empty(count), np.empty(count), np.empty(count)
        for b in range(count):
            e = model.openings.end[b]
            outflow[b], impedance[b] = ends.node_outflow[e], model.grid.density / ends.admittance[e]
            pressure[b] = static_pressure(model.grid, ends, e)[0]
        return pressure, outflow, impedance

    return values_now
