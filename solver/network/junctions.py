# SPDX-License-Identifier: Apache-2.0
"""What holds at nodes: where segments meet, and where the network ends.

An end of a segment tells a node its state (Q, H) as it comes from the cells, and how much the node can change it: the
only wave that leaves the node into the segment changes flow and head together,

    o = o_l - Y (H - H_l),    Y = A/c,

with the flow o out of the segment. It is the same relation as at a face between cells, so that a node in the midst of a
vessel is such a face.
"""

from functools import cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.kernels.compilation import cached_njit, inner_loop
from solver.kernels.node_physics import node_function
from solver.network.cells import Work
from solver.network.grid import Grid
from solver.network.laws import make_law

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]

FLOW, LOAD, REFLECTION, HEART = range(4)
"""Kinds of openings: flow given; pressure a + R o; part of the wave; a ventricle."""
ROUNDS = 3
"""Of the area in kinetic energy at a node, which is known only when the pressure is: it converges by (u/c)^2 each."""
MOST_ROUNDS, CLOSE = 20, 1e-15
"""Of Newton's method for the static pressure at a node; part of the flows that may be left over."""


class Ends(NamedTuple):
    """States at the ends of segments, (2 S,): that of segment s at its start is 2 s, at its end 2 s + 1.

    Attributes
    ----------
    outflow, head, admittance, area : o_l, H_l, Y and A as they come from the cells.
    node_outflow, node_head : as the node decides.
    mean_outflow : its mean over the stages of a step.
    """

    outflow: Reals
    head: Reals
    admittance: Reals
    area: Reals
    node_outflow: Reals
    node_head: Reals
    mean_outflow: Reals


class Junctions(NamedTuple):
    """Nodes where segments meet.

    Attributes
    ----------
    first : (J + 1,) where the ends of each begin in `end`.
    end : numbers of ends.
    static : (J,) whether the static pressure is the same in all, else the total.
    """

    first: Integers
    end: Integers
    static: NDArray[np.bool_]


class Openings(NamedTuple):
    """Nodes where one segment ends alone, (B,) each.

    Attributes
    ----------
    end : number of the segment's end.
    kind : one of the kinds.
    resistance : R of a load; (1 + part)/(1 - part) of a reflection; of a heart's open valve.
    square : B of a heart's open valve, Pa s^2/m^6.
    rest_pressure, rest_celerity : of a reflection, the state that is not reflected.
    """

    end: Integers
    kind: Integers
    resistance: Reals
    square: Reals
    rest_pressure: Reals
    rest_celerity: Reals


def make_ends(segments: int) -> Ends:
    """Arrays for the ends of so many segments."""
    return Ends(*(np.zeros(2 * segments) for _ in Ends._fields))


@node_function
def _root(b: Any, a: Any, c: Any) -> Any:
    """The root x of a x^2 + b x = c that goes to c/b with a, b > 0."""
    return 2.0 * c / (b + sqrt(max(b * b + 4.0 * a * c, 0.0)))


@cache
def make_lumen(linear: bool) -> Any:
    """Function (grid, pressure, end) -> (area, speed of the pulse) at the end of a segment."""
    law = make_law(linear)
    stretch_of, slope_of = law.stretch, law.slope

    @node_function
    def lumen(grid: Any, pressure: Any, e: Any) -> tuple[Any, Any]:
        i = grid.last[e // 2] if e % 2 else grid.first[e // 2]
        face = i if e % 2 else i - 1
        stretch = stretch_of(pressure - grid.offset[i], 1.0, grid.face_table, face)
        slope = slope_of(stretch, grid.face_table, face)
        return grid.face_area[face] * stretch * stretch, sqrt(0.5 / grid.density * stretch * slope)

    return lumen


@cache
def make_at_ends(linear: bool) -> Any:
    """Function (grid, pressures at ends of segments, (2 S,)) -> areas and speeds of the pulse there, (2 S,) each."""
    lumen = make_lumen(linear)

    @cached_njit()
    def at_ends(grid: Grid, pressure: Reals) -> tuple[Reals, Reals]:
        area, celerity = np.empty_like(pressure), np.empty_like(pressure)
        for e in range(len(pressure)):
            area[e], celerity[e] = lumen(grid, pressure[e], e)
        return area, celerity

    return at_ends


@cache
def make_static_pressure(linear: bool) -> Any:
    """Function (grid, ends, end) -> static pressure, Pa, that a node decided on at the end of a segment, and area."""
    lumen = make_lumen(linear)

    @node_function
    def static_pressure(grid: Any, ends: Any, e: Any) -> tuple[Any, Any]:
        area, pressure = ends.area[e], 0.0
        for _ in range(ROUNDS):
            pressure = grid.density * (ends.node_head[e] - 0.5 * (ends.node_outflow[e] / area) ** 2)
            area = lumen(grid, pressure, e)[0]
        return pressure, area

    return static_pressure


@cache
def make_gather(linear: bool) -> Any:
    """Function that fills the states at the ends of segments as they come from the cells."""
    law = make_law(linear)
    stretch_of, slope_of = law.stretch, law.slope

    @inner_loop
    def gather(grid: Grid, work: Work, ends: Ends) -> None:
        for e in range(len(ends.head)):
            if e % 2:
                i = face = grid.last[e // 2]
                sign, pressure, velocity = 1.0, work.pressure_right[i], work.velocity_right[i]
            else:
                i = grid.first[e // 2]
                face = i - 1
                sign, pressure, velocity = -1.0, work.pressure_left[i], work.velocity_left[i]
            stretch = stretch_of(pressure - grid.offset[i], work.stretch[i], grid.face_table, face)
            area = grid.face_area[face] * stretch * stretch
            celerity = sqrt(0.5 / grid.density * stretch * slope_of(stretch, grid.face_table, face))
            ends.area[e], ends.admittance[e] = area, area / celerity
            ends.outflow[e] = sign * area * velocity
            ends.head[e] = pressure / grid.density + 0.5 * velocity * velocity

    return gather


@cache
def make_meet(linear: bool) -> Any:
    """Function that decides the state where segments meet."""
    lumen = make_lumen(linear)

    @inner_loop
    def total(grid: Grid, ends: Ends, junctions: Junctions, j: int) -> None:
        """Conserve flow with one head: linear in both."""
        flow = admittance = 0.0
        for k in range(junctions.first[j], junctions.first[j + 1]):
            e = junctions.end[k]
            flow += ends.outflow[e] + ends.admittance[e] * ends.head[e]
            admittance += ends.admittance[e]
        head, left = flow / admittance, 0.0
        for k in range(junctions.first[j], junctions.first[j + 1]):
            e = junctions.end[k]
            ends.node_head[e] = head
            ends.node_outflow[e] = ends.outflow[e] - ends.admittance[e] * (head - ends.head[e])
            left += ends.node_outflow[e]
        for k in range(junctions.first[j], junctions.first[j + 1]):  # what round-off left
            e = junctions.end[k]
            ends.node_outflow[e] -= left * ends.admittance[e] / admittance

    @inner_loop
    def static(grid: Grid, ends: Ends, junctions: Junctions, j: int) -> None:
        """Conserve flow with one static pressure, by Newton's method."""
        pressure = admittance = 0.0
        for k in range(junctions.first[j], junctions.first[j + 1]):
            e = junctions.end[k]
            speed = ends.outflow[e] / ends.area[e]
            pressure += ends.admittance[e] * grid.density * (ends.head[e] - 0.5 * speed * speed)
            admittance += ends.admittance[e]
        pressure /= admittance
        for _ in range(MOST_ROUNDS):
            left = slope = size = 0.0
            for k in range(junctions.first[j], junctions.first[j + 1]):
                e = junctions.end[k]
                y, area = ends.admittance[e], lumen(grid, pressure, e)[0]
                kinetic = 0.5 * y / (area * area)
                out = _root(1.0, kinetic, ends.outflow[e] + y * (ends.head[e] - pressure / grid.density))
                ends.node_outflow[e] = out
                ends.node_head[e] = pressure / grid.density + 0.5 * (out / area) ** 2
                left += out
                size += abs(out)
                slope += y / grid.density / (1.0 + 2.0 * kinetic * out)
            if abs(left) <= CLOSE * size:
                break
            pressure += left / slope
        for k in range(junctions.first[j], junctions.first[j + 1]):
            e = junctions.end[k]
            ends.node_outflow[e] -= left * ends.admittance[e] / admittance

    @inner_loop
    def meet(grid: Grid, ends: Ends, junctions: Junctions) -> None:
        for j in range(len(junctions.static)):
            if junctions.static[j]:
                static(grid, ends, junctions, j)
            else:
                total(grid, ends, junctions, j)

    return meet


@cache
def make_close(linear: bool) -> Any:
    """Function that decides the state where the network ends."""
    lumen = make_lumen(linear)

    @inner_loop
    def close(grid: Grid, ends: Ends, openings: Openings, value: Reals, load: Reals) -> None:
        """Decide the states; `value`: flow out, pressure a, or pressure of the ventricle; `load`: resistances."""
        for b in range(len(openings.end)):
            e, kind, given = openings.end[b], openings.kind[b], value[b]
            impedance = grid.density / ends.admittance[e]
            source = grid.density * ends.head[e] + impedance * ends.outflow[e]
            area, out = ends.area[e], given
            pressure = source - impedance * ends.outflow[e] - 0.5 * grid.density * (ends.outflow[e] / area) ** 2
            for _ in range(ROUNDS):
                kinetic = 0.5 * grid.density / (area * area)
                if kind == LOAD:
                    out = _root(load[b] + impedance, kinetic, source - given)
                elif kind == HEART:
                    square = openings.square[b] - kinetic
                    rise = given - source
                    out = -_root(load[b] + impedance, square, rise) if rise > 0.0 else 0.0
                elif kind == REFLECTION:
                    rest, before = openings.rest_pressure[b], openings.rest_celerity[b]
                    speed = lumen(grid, pressure, e)[1]
                    mean = 2.0 * speed * before / (speed + before)
                    resistance = load[b] * grid.density * mean / area
                    out = _root(resistance + impedance, kinetic, source - rest)
                pressure = source - impedance * out - kinetic * out * out
                area = lumen(grid, pressure, e)[0]
            ends.node_outflow[e] = out
            ends.node_head[e] = ends.head[e] - (out - ends.outflow[e]) / ends.admittance[e]

    return close


@inner_loop
def scatter(grid: Grid, work: Work, ends: Ends) -> None:
    """Fill the fluxes at the nodes' faces, and take away those between segments' rows.

    Parameters
    ----------
    grid : cells of all segments.
    work : arrays of a step, of which the fluxes at faces are changed.
    ends : outflow and head that the nodes found at the ends of segments.
    """
    for s in range(len(grid.first)):
        start, end = grid.first[s] - 1, grid.last[s]
        work.flow[start], work.head[start] = -ends.node_outflow[2 * s], ends.node_head[2 * s]
        work.flow[end], work.head[end] = ends.node_outflow[2 * s + 1], ends.node_head[2 * s + 1]
        work.flow[end + 1] = work.head[end + 1] = 0.0
