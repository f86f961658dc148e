# SPDX-License-Identifier: Apache-2.0
"""The ladder of validation for what a user sees on the wall: pipes solved as cases are, through `postprocess`, against
formulas; steady, and pulsatile with a stress that turns back.

Quick tests hold a coarse lattice to the ladder's figures at its size; the ladder's own give errors over the spacing.
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.case.settings.flow import PostprocessSettings
from pipeline.haemodynamics.gradient import Gradient
from pipeline.haemodynamics.indices import monitored_flows_ml_s
from pipeline.haemodynamics.wall_shear_stress import Wall, near_openings, rim_mm
from pipeline.stages.postprocess import fields_of, postprocess
from solver.boundary.curves import Series, spline
from solver.boundary.waveform import read_samples
from solver.domain.nodes import Nodes
from solver.runtime.sources import ROOT
from tests.support.geometries import pipe
from tests.support.shapes import capped_cylinder
from tests.validation.test_ladder_openings import (
    DENSITY,
    LOG,
    LONG,
    SPACING_MM,
    VISCOSITY,
    Pulse,
    Solved,
    round_flow,
    solved,
)
from validation.evidence import Evidence
from validation.goals import order
from validation.studies.pipe_run import label
from validation.studies.womersley_solution import first_harmonic, harmonic_shear, phase_deg, shear_indices

ASKEW = (0.3, -0.8, 0.5)
DIRECTIONS = [(1, 0, 0), (1, 2, 3), ASKEW]
SCATTER = "with 10 nodes across the error is 0.3 to 0.8 % already, much of it scatter from vertex to vertex"
DIAMETERS_LONG = 4
BESIDE_WALL = 1.5
"""Nodes nearer to the wall than this, in spacings, count as beside it: the layer whose derivatives reach for it."""


@dataclass(frozen=True)
class Seen:
    """What `postprocess` makes of a pipe, and the pipe's measures.

    Attributes
    ----------
    wall, arrays, indices : of `postprocess`, by default settings.
    clear : vertices that its statistics count, away from the rims.
    axis : from inlet to outlet.
    along_mm, r : of the fluid nodes, along the axis from the inlet, and in radii away from it.
    """

    wall: Wall
    arrays: dict[str, NDArray[np.float32]]
    indices: dict[str, Any]
    clear: NDArray[np.bool_]
    axis: NDArray[np.float64]
    along_mm: NDArray[np.float64]
    r: NDArray[np.float64]

    def on_wall(self, name: str) -> NDArray[np.float64]:
        """A point array of the wall away from the rims."""
        return self.arrays[name][self.clear].astype(float)


def see(run: Solved, every: int = 1) -> Seen:
    """Take a solved pipe, every so-manieth time of it, to the wall of the smooth surface that it was cut from, as the
    stage does.
    """
    nodes = run.nodes
    start, end = (np.array(opening.centre_mm) for opening in nodes.openings)
    radius, length = nodes.openings[0].radius_mm, float(np.linalg.norm(end - start))
    surface, _ = capped_cylinder(end - start, radius, length, (start + end) / 2, 96)
    monitored = monitored_flows_ml_s(run.monitor, nodes.openings, float(run.flow.times_s[0]))
    settings = PostprocessSettings()
    times = islice(fields_of(run.flow, nodes, LOG), every - 1, None, every)
    found = postprocess(nodes, surface, times, run.summary, monitored, settings)
    axis, offset = (end - start) / length, nodes.points_mm() - start
    along = offset @ axis
    counted = ~near_openings(found.wall, nodes.openings, rim_mm(settings.fit_nodes, nodes.spacing_mm))
    return Seen(
        found.wall,
        found.arrays,
        found.indices,
        counted,
        axis,
        along,
        np.linalg.norm(offset - along[:, None] * axis, axis=1) / radius,
    )


def rms(values: NDArray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def pipe_of(direction: tuple[float, float, float], radius: float) -> Nodes:
    """A pipe of four diameters, its radius in spacings."""
    return pipe(direction, radius, 2 * DIAMETERS_LONG * radius, SPACING_MM)


# ---- steady ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SteadyFigures:
    """What is seen of a steady pipe, less Hagen and Poiseuille's; relative but for degrees.

    Attributes
    ----------
    shear_bias, shear_mean, shear_rms, shear_95 : wall shear stress over the wall away from the rims: mean deviation,
        mean size of the deviation, its root mean square, its 95th percentile.
    shear_far_95 : the same percentile of the half of the wall that is further from the inlet.
    degrees_mean, degrees_95 : angle between the stress and the axis.
    gradient : of the pressure, along all nodes further than a diameter from the ends.
    drop : of the pressure between the caps, in indices.json.
    peak : largest speed of a node.
    curl_beside, curl_inside : vorticity, root mean square of the deviation over that at the wall, of the layer of nodes
        beside the wall and of the others, away from the openings.
    along : mean stress over the exact one in each of `PARTS` equal parts of the pipe; nan where none is counted.
    """

    shear_bias: float
    shear_mean: float
    shear_rms: float
    shear_95: float
    shear_far_95: float
    degrees_mean: float
    degrees_95: float
    gradient: float
    drop: float
    peak: float
    curl_beside: float
    curl_inside: float
    along: NDArray[np.float64]


def steady_figures(
    direction: tuple[float, float, float], radius: float, folder: Path, reynolds: float = 100.0, **changes: Any
) -> SteadyFigures:
    """Solve a pipe with its radius in spacings, and compare."""
    nodes, flow = pipe_of(direction, radius), round_flow(reynolds, radius)
    run = solved(nodes, folder, flow, **changes)
    seen = see(run)
    radius_m, length_mm = radius * SPACING_MM * 1e-3, 2 * DIAMETERS_LONG * radius * SPACING_MM
    mean = flow * 1e-6 / (np.pi * radius_m**2)
    shear_pa, gradient_pa_mm = 4 * VISCOSITY * mean / radius_m, 8e-3 * VISCOSITY * mean / radius_m**2
    stress = seen.on_wall("WSS (Pa)")
    size = np.linalg.norm(stress, axis=1)
    off = size / shear_pa - 1
    place = (seen.wall.mesh.points_mm[seen.clear] - nodes.openings[0].centre_mm) @ seen.axis / length_mm
    part = np.minimum((PARTS * place).astype(int), PARTS - 1)
    vertices = np.bincount(part, minlength=PARTS)
    degrees = np.degrees(np.arccos(np.clip(stress @ seen.axis / size, -1, 1)))
    inner = np.abs(seen.along_mm - length_mm / 2) < length_mm / 2 - 2 * radius * SPACING_MM
    slope = np.polyfit(seen.along_mm[inner], run.pressure[inner], 1)[0]
    curl = Gradient(nodes).curl(run.velocity)
    offset = nodes.points_mm() - nodes.openings[0].centre_mm
    across_m = (offset - seen.along_mm[:, None] * seen.axis) * 1e-3
    exact = -4 * mean / radius_m**2 * np.cross(across_m, seen.axis)
    curl_off = np.linalg.norm(curl - exact, axis=1) / (4 * mean / radius_m)
    clear = np.abs(seen.along_mm - length_mm / 2) < length_mm / 2 - 3 * SPACING_MM
    beside = radius * (1 - seen.r) < BESIDE_WALL
    return SteadyFigures(
        shear_bias=float(off.mean()),
        shear_mean=float(np.abs(off).mean()),
        shear_rms=rms(off),
        shear_95=float(np.percentile(np.abs(off), 95)),
        shear_far_95=float(np.percentile(np.abs(off[place > 0.5]), 95)),
        degrees_mean=float(degrees.mean()),
        degrees_95=float(np.percentile(degrees, 95)),
        gradient=float(-slope / gradient_pa_mm - 1),
        drop=seen.indices["pressure_drops"][0]["drop_pa"] / (gradient_pa_mm * length_mm) - 1,
        peak=seen.indices["peak_speed_m_s"] / (2 * mean) - 1,
        curl_beside=rms(curl_off[clear & beside]),
        curl_inside=rms(curl_off[clear & ~beside]),
        along=1 + np.bincount(part, off, PARTS) / np.where(vertices, vertices, np.nan),
    )


PARTS = 32
RADII = (5.0, 7.0, 10.0, 14.0)
"""In spacings."""


def test_steady_pipe_through_the_chain(tmp_path):
    """At 10 nodes across and Reynolds number 30: a first order leaves twice what is wanted at 20."""
    found = steady_figures((0.3, -0.8, 0.5), 5.0, tmp_path / "run", 30.0)
    assert found.shear_mean < 0.1
    assert found.shear_95 < 0.2
    assert found.degrees_mean < 5
    assert max(abs(found.gradient), abs(found.drop), abs(found.peak)) < 0.1
    assert max(found.curl_beside, found.curl_inside) < 0.1


USUAL_LAMBDA = 3 / 16
"""Lambda as it is often advised; ours falls with tau."""


@pytest.mark.slow
@pytest.mark.ladder
@LONG
def test_wall_shear_stress_through_the_whole_chain(tmp_path):
    title = "Steady pipes with inlet and outlet, four diameters, Reynolds number 100, through postprocess"
    with Evidence("results-steady", title, "Hagen-Poiseuille") as case:
        found = {
            (direction, radius): steady_figures(direction, radius, tmp_path / f"{k}-{radius:g}")
            for k, direction in enumerate(DIRECTIONS)
            for radius in RADII
        }
        usual = {
            direction: steady_figures(direction, 14.0, tmp_path / f"{k}-usual", lambda_trt=USUAL_LAMBDA)
            for k, direction in enumerate(DIRECTIONS[:2])
        }
        columns = ("direction", "nodes across")
        rows = [(label(direction), 2 * radius, each) for (direction, radius), each in found.items()]
        rows += [(f"{label(direction)}, Λ = 3/16", 28.0, each) for direction, each in usual.items()]
        shear = (
            "mean",
            "mean size",
            "rms",
            "95th percentile",
            "95th, half further from the inlet",
            "angle, degrees, mean",
            "95th percentile",
        )
        case.table(
            (*columns, *shear),
            [
                (
                    *head,
                    each.shear_bias,
                    each.shear_mean,
                    each.shear_rms,
                    each.shear_95,
                    each.shear_far_95,
                    each.degrees_mean,
                    each.degrees_95,
                )
                for *head, each in rows
            ],
            "Deviation of the wall shear stress, and its angle to the axis, over the whole wall but the rims that the"
            " statistics of a case leave out.",
        )
        others = ("pressure gradient", "pressure drop", "peak speed", "vorticity beside the wall", "inside")
        case.table(
            (*columns, *others),
            [(*head, each.gradient, each.drop, each.peak, each.curl_beside, each.curl_inside) for *head, each in rows],
            f"Deviation of the pressure's gradient further than a diameter from the ends, of its drop between the caps"
            f" and of the peak speed in `indices.json`; vorticity: rms, over that at the wall, of nodes nearer to the"
            f" wall than {BESIDE_WALL:g} spacings and of all others.",
        )
        orders = {
            direction: {
                name: order(RADII[:3], [abs(getattr(found[direction, radius], name)) for radius in RADII[:3]])
                for name in ("shear_mean", "shear_rms", "shear_95", "gradient", "drop", "curl_beside", "curl_inside")
            }
            for direction in DIRECTIONS
        }
        case.table(
            (
                "direction",
                "stress, mean size",
                "rms",
                "95th percentile",
                "gradient",
                "drop",
                "vorticity beside the wall",
                "inside",
            ),
            [(label(direction), *each.values()) for direction, each in orders.items()],
            "Order with the spacing from 10 to 20 nodes across: at 28 Lambda is another.",
        )
        for direction in DIRECTIONS:
            each, name = found[direction, 10.0], f"{label(direction)}, 20 nodes: "
            case.reach(f"{name}wall shear stress, mean size of the error", each.shear_mean, at_most=0.05)
            case.reach(f"{name}95th percentile", each.shear_95, at_most=0.1)
            case.reach(f"{name}95th percentile, half further from the inlet", each.shear_far_95, at_most=0.1)
            case.reach(f"{name}its direction, mean, degrees", each.degrees_mean, at_most=1)
            case.reach(f"{name}pressure gradient", abs(each.gradient), at_most=0.05)
            case.reach(f"{name}pressure drop between the openings", abs(each.drop), at_most=0.05)
            case.reach(f"{name}peak speed", abs(each.peak), at_most=0.05)
            case.reach(f"{name}vorticity beside the wall, rms", each.curl_beside, at_most=0.05)
            case.reach(f"{name}vorticity inside, rms", each.curl_inside, at_most=0.05)
            each, name = found[direction, 5.0], f"{label(direction)}, 10 nodes: "
            case.reach(f"{name}wall shear stress, mean size of the error", each.shear_mean, at_most=0.01)
            lower = {} if direction == DIRECTIONS[0] else {"held": 0.3, "why": SCATTER}
            name = f"{label(direction)}: order of the wall shear stress, mean size"
            case.reach(name, orders[direction]["shear_mean"], at_least=0.9, **lower)
            each, name = found[direction, 14.0], f"{label(direction)}, 28 nodes: "
            case.reach(f"{name}wall shear stress, mean size of the error", each.shear_mean, at_most=0.05)
            case.reach(f"{name}95th percentile", each.shear_95, at_most=0.1)

        def draw(figure: Any) -> None:
            left, right = figure.subplots(1, 2)
            across = 2 * np.array(RADII)
            for direction in DIRECTIONS:
                each = [found[direction, radius] for radius in RADII]
                (line,) = left.loglog(across, [100 * e.shear_mean for e in each], "o-", label=label(direction))
                left.loglog(across, [100 * e.shear_95 for e in each], "o--", color=line.get_color())
                middles = 2 * DIAMETERS_LONG * (np.arange(PARTS) + 0.5) / PARTS
                right.plot(middles, 100 * (found[direction, 10.0].along - 1), color=line.get_color())
            left.set(
                xlabel="nodes across",
                ylabel="error of the wall shear stress, %",
                xticks=across,
                xticklabels=across.astype(int),
                yticks=(2, 5, 10, 20),
                yticklabels=(2, 5, 10, 20),
            )
            left.minorticks_off()
            left.legend()
            right.axhline(0, color="k", lw=0.5)
            right.set(xlabel="distance from the inlet, radii", ylabel="mean error around the pipe, %")

        case.draw(
            draw,
            "Error of the wall shear stress: mean size (lines) and 95th percentile (dashed); along the pipe"
            " at 20 nodes across",
        )


# ---- pulsatile -------------------------------------------------------------------------------------------------------


FINE = 20_000
"""Times of a period that stand for all of them."""


@dataclass
class OscillatoryComponent(Pulse):
    """Flow Q (1 + a cos wt) from an inlet to a pressure of 0: it stays above 0, the stress on the wall does not."""

    direction: tuple[float, float, float] = (1, 2, 3)
    oscillatory: float = 0.98

    def run(self, folder: Path, **changes: Any) -> Solved:
        folder.mkdir()
        phase = np.arange(33) / 32
        flow = self.flow_ml_s * (1 + self.oscillatory * np.cos(2 * np.pi * phase))
        wave = folder / "wave.csv"
        np.savetxt(
            wave,
            np.column_stack((phase * self.pipe.period_s, flow)),
            "%.17g",
            ",",
            header="time_s,flow_ml_s",
            comments="",
        )
        inlet = {"waveform": str(wave), "interpolation": "fourier", "harmonics": 1, "profile": "womersley"}
        return solved(pipe_of(self.direction, self.radius), folder, None, inlets={"in": inlet}, snapshots=40, **changes)

    def shear_pa(self, phase: NDArray[np.float64]) -> NDArray[np.float64]:
        """Along the axis, at parts of the period."""
        oscillatory = self.pipe.shear_pa(self.oscillatory * self.flow_ml_s) * np.exp(2j * np.pi * phase)
        return self.pipe.steady_shear_pa(self.flow_ml_s).real + oscillatory.real


@dataclass(frozen=True)
class OscillatoryFigures:
    """What is seen of a pulsatile pipe, less Womersley's solution for the flow at its inlet; relative but for OSI.

    Attributes
    ----------
    tawss_mean, tawss_95, osi_mean, osi_95, rrt_mean, rrt_95, peak_mean, peak_95 : mean and 95th percentile of the size
        of the deviation over the wall away from the rims.
    osi : its mean.
    transverse : mean of the transverse stress over the exact TAWSS.
    gradient, degrees : amplitude and phase of the pressure gradient further than a diameter from the ends.
    """

    tawss_mean: float
    tawss_95: float
    osi: float
    osi_mean: float
    osi_95: float
    rrt_mean: float
    rrt_95: float
    peak_mean: float
    peak_95: float
    transverse: float
    gradient: float
    degrees: float


def oscillatory_figures(pulse: OscillatoryComponent, run: Solved, every: int = 1) -> OscillatoryFigures:
    """Of every so-manieth snapshot."""
    seen = see(run, every)
    exact = shear_indices(pulse.shear_pa(np.arange(FINE) / FINE))
    names = {"TAWSS": "TAWSS (Pa)", "OSI": "OSI", "RRT": "RRT (1/Pa)", "peak": "peak WSS (Pa)"}
    off = {}
    for name, array in names.items():
        size = np.abs(seen.on_wall(array) - exact[name]) / (1 if name == "OSI" else exact[name])
        off |= {f"{name.lower()}_mean": float(size.mean()), f"{name.lower()}_95": float(np.percentile(size, 95))}
    inner = (seen.along_mm > 2 * pulse.radius * SPACING_MM) & (seen.along_mm < 6 * pulse.radius * SPACING_MM)
    times = np.array(run.flow.times_s)
    slopes = [
        -np.polyfit(seen.along_mm[inner] * 1e-3, run.flow.pressure_pa(k)[inner].astype(float), 1)[0]
        for k in range(len(times))
    ]
    wanted = pulse.pipe.gradient(pulse.oscillatory * pulse.flow_ml_s)
    gradient = first_harmonic(times, np.array(slopes), pulse.pipe.period_s) / wanted
    return OscillatoryFigures(
        **off,
        osi=float(seen.on_wall("OSI").mean()),
        transverse=float(seen.on_wall("transverse WSS (Pa)").mean() / exact["TAWSS"]),
        gradient=abs(gradient) - 1,
        degrees=phase_deg(gradient),
    )


@pytest.mark.slow
def test_pulsatile_pipe_through_the_chain(tmp_path):
    """At 10 nodes across: a first order leaves twice what is wanted at 20."""
    pulse = OscillatoryComponent(5.0, 4.5)
    found = oscillatory_figures(pulse, pulse.run(tmp_path / "run"))
    exact = shear_indices(pulse.shear_pa(np.arange(FINE) / FINE))
    assert exact["OSI"] > 0.05  # the stress does turn back
    assert max(found.tawss_mean, found.peak_mean, found.rrt_mean) < 0.15
    assert found.osi_mean < 0.04
    assert found.transverse < 0.02
    assert abs(found.gradient) < 0.1
    assert abs(found.degrees) < 2


@pytest.mark.slow
def test_stress_behind_an_inlet_that_turns_back_is_that_of_blood(tmp_path):
    """Nodes there are thickened by up to 75 times; their stress as it is would be 5 to 35 times that of blood.

    What is left is that the profile of the thick fluid needs a way to turn into that of blood.
    """
    pulse = OscillatoryComponent(5.0, 4.0, (1, 2, 3), 1.2)
    run = pulse.run(tmp_path / "run")
    seen = see(run)
    along = (seen.wall.mesh.points_mm - run.nodes.openings[0].centre_mm) @ seen.axis
    near = (along > SPACING_MM) & (along < 6 * SPACING_MM)
    exact = shear_indices(pulse.shear_pa(np.arange(FINE) / FINE))["TAWSS"]
    assert 0.5 < seen.arrays["TAWSS (Pa)"][near].mean() / exact < 2


@pytest.mark.slow
@pytest.mark.ladder
@LONG
def test_indices_of_a_pulsatile_pipe_through_the_whole_chain(tmp_path):
    title = "Pulsatile pipes with inlet and outlet, Womersley number 4.5, through postprocess, 40 snapshots"
    with Evidence("results-pulse", title, "Womersley's solution") as case:
        radii, directions = RADII[:3], DIRECTIONS[:2]
        found: dict[tuple[Any, float], OscillatoryFigures] = {}
        half: dict[Any, OscillatoryFigures] = {}
        usual: dict[Any, OscillatoryFigures] = {}
        for direction in directions:
            for radius in radii:
                pulse = OscillatoryComponent(radius, 4.5, direction)
                run = pulse.run(tmp_path / f"{direction[0]}-{direction[1]}-{radius:g}")
                found[direction, radius] = oscillatory_figures(pulse, run)
            half[direction] = oscillatory_figures(pulse, run, 2)
            run = pulse.run(tmp_path / f"{direction[0]}-{direction[1]}", lambda_trt=USUAL_LAMBDA)
            usual[direction] = oscillatory_figures(pulse, run)
        exact = shear_indices(pulse.shear_pa(np.arange(FINE) / FINE))

        def row(each: OscillatoryFigures) -> tuple[float, ...]:
            return (
                each.tawss_mean,
                each.tawss_95,
                each.peak_mean,
                each.peak_95,
                each.rrt_mean,
                each.rrt_95,
                each.osi,
                each.osi_mean,
                each.osi_95,
                each.transverse,
            )

        columns = (
            "direction",
            "nodes across",
            "TAWSS, mean size",
            "95th",
            "peak WSS, mean size",
            "95th",
            "RRT, mean size",
            "95th",
            "OSI",
            "its error, mean size",
            "95th",
            "transverse WSS",
        )
        rows = [(label(direction), 2 * radius, *row(each)) for (direction, radius), each in found.items()]
        rows += [(f"{label(direction)}, 20 snapshots", 2 * radii[-1], *row(each)) for direction, each in half.items()]
        rows += [(f"{label(direction)}, Λ = 3/16", 2 * radii[-1], *row(each)) for direction, each in usual.items()]
        case.table(
            columns,
            rows,
            f"Over the whole wall but the rims. OSI is {exact['OSI']:.4f}, its errors are"
            f" absolute, the transverse stress, 0 in theory, over TAWSS, others relative.",
        )
        case.table(
            ("direction", "nodes across", "amplitude", "phase, degrees"),
            [
                (label(direction), 2 * radius, each.gradient, each.degrees)
                for (direction, radius), each in found.items()
            ],
            "Deviation of the pressure gradient's first harmonic, further than a diameter from the ends, for the flow"
            " at the inlet.",
        )
        orders = [
            (
                label(direction),
                *(
                    order(radii[:2], [getattr(found[direction, radius], name) for radius in radii[:2]])
                    for name in ("tawss_mean", "peak_mean", "rrt_mean", "osi_mean")
                ),
            )
            for direction in directions
        ]
        note = "Order with the spacing from 10 to 14 nodes across: at 20 the velocity set is another."
        case.table(("direction", "TAWSS", "peak WSS", "RRT", "OSI"), orders, note)
        for direction, tawss_order, *_ in zip(directions, [each[1] for each in orders], strict=True):
            each, name = found[direction, radii[-1]], f"{label(direction)}, 20 nodes: "
            case.reach(f"{name}TAWSS, mean size of the error", each.tawss_mean, at_most=0.05)
            case.reach(f"{name}TAWSS, 95th percentile", each.tawss_95, at_most=0.1)
            case.reach(f"{name}peak WSS, mean size", each.peak_mean, at_most=0.05)
            case.reach(f"{name}RRT, mean size", each.rrt_mean, at_most=0.1)
            case.reach(f"{name}OSI, mean size, absolute", each.osi_mean, at_most=0.01)
            case.reach(f"{name}transverse WSS over TAWSS", each.transverse, at_most=0.01)
            case.reach(f"{name}amplitude of the pressure gradient", abs(each.gradient), at_most=0.05)
            case.reach(f"{name}its phase, degrees", abs(each.degrees), at_most=1.5)
            case.reach(f"{label(direction)}: order of TAWSS", tawss_order, at_least=0.9)

        def draw(figure: Any) -> None:
            left, right = figure.subplots(1, 2)
            across = 2 * np.array(radii)
            for direction, marker in zip(directions, ("o-", "s--"), strict=True):
                each = [found[direction, radius] for radius in radii]
                for name, colour in (("TAWSS", "C0"), ("peak", "C1"), ("RRT", "C2")):
                    values = [100 * getattr(e, f"{name.lower()}_mean") for e in each]
                    left.loglog(across, values, marker, color=colour, label=f"{name} {label(direction)}")
                right.plot(across, [e.osi for e in each], marker, color="C0", label=label(direction))
            right.axhline(exact["OSI"], color="k", lw=0.8, label="Womersley")
            for axes in (left, right):
                axes.minorticks_off()
                axes.set(xlabel="nodes across", xticks=across, xticklabels=across.astype(int))
            left.set(ylabel="mean size of the error, %", yticks=(2, 5, 10), yticklabels=(2, 5, 10))
            right.set(ylabel="OSI", ylim=(0, 0.1))
            left.legend(fontsize="small")
            right.legend()

        case.draw(draw, "What a pulsatile pipe shows on its wall, against Womersley's solution")


# ---- snapshots -------------------------------------------------------------------------------------------------------

VESSELS = {"common-carotid": 3.0, "thoracic-aorta": 12.0}
"""Radius in mm of the vessel that each waveform of data/waveforms is of, as in the benchmarks that they are from."""

SHORT = "the peak of a heart's ejection is short; 80 snapshots have 1.3 %"

SHIFTS = 50
"""Places of the first snapshot between two that are tried: a waveform begins anywhere."""


def shear_of_waveform(name: str, radius_mm: float, phase: NDArray[np.float64]) -> NDArray[np.float64]:
    """Wall shear stress, Pa, that Womersley's solution gives a flow of 40 harmonics, at parts of the period."""
    series: Series = spline(*read_samples(ROOT / f"data/waveforms/{name}.csv", "flow_ml_s")).series(40)
    radius_m, n = radius_mm * 1e-3, np.arange(1, 41)
    alpha = radius_m * np.sqrt(2 * np.pi * n / series.period_s * DENSITY / VISCOSITY)
    modes = series.coefficients * np.concatenate(([1], harmonic_shear(alpha)))
    wave = np.exp(2j * np.pi * np.multiply.outer(phase, np.arange(41)))
    return 4e-6 * VISCOSITY / (np.pi * radius_m**3) * (wave @ modes).real


def sampling_errors(name: str, snapshots: int) -> dict[str, float]:
    """Largest error of each index by its name over the shifts; relative, but that of OSI."""
    exact = shear_indices(shear_of_waveform(name, VESSELS[name], np.arange(FINE) / FINE))
    start = np.arange(SHIFTS)[:, None] / SHIFTS
    seen = shear_indices(shear_of_waveform(name, VESSELS[name], (np.arange(snapshots) + start) / snapshots))
    return {key: float(np.abs(seen[key] - exact[key]).max() / (1 if key == "OSI" else exact[key])) for key in exact}


@pytest.mark.ladder
def test_forty_snapshots_a_cycle_are_enough():
    """What the number alone adds: less than half of what 20 nodes across may add, but to the peak, which is as much."""
    title = "Indices from snapshots of a cycle, wall shear stress of Womersley's solution"
    with Evidence("results-snapshots", title, "20,000 snapshots") as case:
        counts = (10, 20, 40, 80)
        found = {(name, count): sampling_errors(name, count) for name in VESSELS for count in counts}
        fine = {name: shear_of_waveform(name, radius, np.arange(FINE) / FINE) for name, radius in VESSELS.items()}
        osi = {name: shear_indices(shear)["OSI"] for name, shear in fine.items()}
        case.table(
            ("waveform", "radius, mm", "OSI", "snapshots", "TAWSS", "OSI, absolute", "RRT", "peak WSS"),
            [(name, VESSELS[name], float(osi[name]), count, *each.values()) for (name, count), each in found.items()],
            "Largest error over where in the cycle the first snapshot falls. RRT of the aorta is 1 over the mean of a"
            " stress that goes to and fro, and is as uncertain as that is small.",
        )
        for name in VESSELS:
            each = found[name, 40]
            short = {} if name == "common-carotid" else {"held": 0.06, "why": SHORT}
            case.reach(f"{name}, 40 snapshots: TAWSS", each["TAWSS"], at_most=0.02)
            case.reach(f"{name}, 40 snapshots: OSI, absolute", each["OSI"], at_most=0.01)
            case.reach(f"{name}, 40 snapshots: peak WSS", each["peak"], at_most=0.05, **short)

        def draw(figure: Any) -> None:
            left, right = figure.subplots(1, 2)
            for name, style in zip(VESSELS, ("-", "--"), strict=True):
                left.plot(np.arange(FINE) / FINE, fine[name], style, color="C0", label=name)
                for key, colour in (("TAWSS", "C0"), ("OSI", "C1"), ("peak", "C3")):
                    values = [found[name, count][key] for count in counts]
                    right.loglog(counts, values, f"o{style}", color=colour, label=key if style == "-" else None)
            left.axhline(0, color="k", lw=0.5)
            left.set(xlabel="part of the cycle", ylabel="wall shear stress, Pa")
            right.set(
                xlabel="snapshots of a cycle", ylabel="largest error", xticks=counts, xticklabels=counts, ylim=(1e-4, 1)
            )
            right.minorticks_off()
            left.legend()
            right.legend()

        case.draw(draw, "The stress that is sampled, and what samples miss")
