# SPDX-License-Identifier: Apache-2.0
"""Convergence of the lid-driven cavity, with and without the surroundings of the lid's corners.

In a corner the velocity jumps from 0 to the lid's. Near it the flow is that of Stokes, the same at all distances r
(Taylor 1962; Batchelor 1967, doi:10.1017/CBO9780511800955, section 4.8): with U the speed of the lid and t the angle
below it,

    psi = -U r (B sin t + C t cos t + D t sin t),   C = 1/(1 - pi^2/4),   B = -C pi^2/4,   D = C pi/2.

What a lattice makes of it depends on r/h alone, h the spacing: the error of the nodes beside the corner does not fall,
but they fill an area of the order of h^2 only, so that their part in the L2 error of the box falls with h. Elsewhere
the error falls with h^2. A flow on half the spacing has the same fault, and shows little of the coarser one's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.interpolate import RectBivariateSpline

from pipeline.case.settings.base import Positive, Section
from validation.evidence import Evidence
from validation.goals import order
from validation.studies.cavity import Reals, across, lid_speed_m_s, middles, section
from validation.studies.reference import read_reference
from validation.studies.run import Run

DIAGONAL = 4
"""Nodes on the diagonal from a corner of the lid at which the velocity is reported."""


class Options(Section):
    """What is compared with, and what is to be reached."""

    reference: str = Field(description="table with the columns nodes, u and v: the work's differences from its finest")
    radius: Positive = Field(description="of the surroundings of the lid's corners, in sides of the box")
    order: Positive = Field(description="of convergence elsewhere, at least")


def at_nodes(velocity: Reals, size: int) -> Reals:
    """A velocity (3, Z, X) at the nodes of a coarser lattice, by cubic splines between its own nodes."""
    own, wanted = middles(velocity.shape[1]), middles(size)
    return np.stack([RectBivariateSpline(own, own, component)(wanted, wanted) for component in velocity])


def extrapolated(coarse: Reals, fine: Reals, size: int) -> Reals:
    """From lattices of which the second has twice as many nodes, for an error of second order (Richardson 1911).

    Parameters
    ----------
    coarse, fine : velocities on both lattices, (3, Z, X).
    size : nodes along a side of the lattice at whose nodes the result stands, (3, size, size).
    """
    return (4 * at_nodes(fine, size) - at_nodes(coarse, size)) / 3


def near_corners(size: int, radius: float) -> NDArray[np.bool_]:
    """Nodes within a distance of the corners of the lid, (Z, X)."""
    x, z = np.meshgrid(middles(size), middles(size))
    return np.hypot(np.minimum(x, 1 - x), 1 - z) < radius


def corner_flow(angle: float) -> tuple[float, float]:
    """Velocity u, v near the corner at the lid's rear end, so far below the lid, of the lid's speed."""
    c = 1 / (1 - np.pi**2 / 4)
    b, d = -c * np.pi**2 / 4, c * np.pi / 2
    sine, cosine = np.sin(angle), np.cos(angle)
    radial = (b + c) * cosine - c * angle * sine + d * (sine + angle * cosine)
    around = -(b * sine + c * angle * cosine + d * angle * sine)
    return float(radial * cosine - around * sine), float(-radial * sine - around * cosine)


def diagonal(velocity: Reals) -> Reals:
    """Velocity u, v at the nodes on the diagonal from that corner, (2, DIAGONAL)."""
    k = np.arange(DIAGONAL)
    return velocity[[0, 2]][:, velocity.shape[1] - 1 - k, k]


def of_corners(velocity: Reals) -> tuple[float, float]:
    """What the two nodes in the lid's corners alone make of the relative L2 errors of u and v."""
    found = []
    for component, exact, mirrored in zip((0, 2), corner_flow(np.pi / 4), (1, -1), strict=True):
        values = velocity[component]
        off = np.hypot(values[-1, 0] - exact, values[-1, -1] - mirrored * exact)
        found.append(float(off / np.linalg.norm(values)))
    return found[0], found[1]


def l2(found: Reals, wanted: Reals, where: NDArray[np.bool_] | bool = True) -> tuple[float, float]:
    """Relative L2 differences of u and v where wanted.

    Parameters
    ----------
    found, wanted : velocities, (3, Z, X), of which v is the third component.
    where : (Z, X) nodes that count, or all.
    """
    u, v = (float(np.linalg.norm((found[k] - wanted[k]) * where) / np.linalg.norm(wanted[k] * where)) for k in (0, 2))
    return u, v


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Errors of all lattices but the finest, over the whole box and away from the lid's corners, and their orders.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    flows = {across(run): section(run) for run in sorted(runs.values(), key=across)}
    *sizes, finest = flows
    whole = np.array([l2(flows[size], at_nodes(flows[finest], size)) for size in sizes])
    best = {size: extrapolated(flows[sizes[-1]], flows[finest], size) for size in sizes}
    away = np.array([l2(flows[size], best[size], ~near_corners(size, options.radius)) for size in sizes])
    _settings(evidence, list(runs.values()))
    work = _whole(evidence, flows, whole, options)
    _away(evidence, flows, best, away, options)
    _corner(evidence, flows)
    for component, errors in zip("uv", away.T, strict=True):
        what = f"order of {component} farther than {options.radius:g} from the lid's corners"
        evidence.reach(what, order(sizes, errors), at_least=options.order)
    caption = "L2 errors against the nodes across"
    evidence.draw(lambda figure: _errors(figure, sizes, whole, away, work), caption)
    caption = "Error of u; velocity on the diagonal from the lid's rear corner, and that of Stokes flow (lines)"
    evidence.draw(lambda figure: _corners(figure, flows, best, options.radius), caption)


def _settings(evidence: Evidence, runs: Sequence[Run]) -> None:
    """How the runs were made."""
    rows = [(across(run), run.tau, lid_speed_m_s(run) / run.speed_m_s, int(run.summary["steps"])) for run in runs]
    evidence.table(("nodes across", "tau", "lid speed on the lattice", "steps"), rows)


def _whole(evidence: Evidence, flows: Mapping[int, Reals], errors: Reals, options: Options) -> Mapping[str, Reals]:
    """Errors as the work tells them, beside its own, which are handed back, NaN where it has none."""
    *sizes, finest = flows
    table, alone = read_reference(options.reference), np.array([of_corners(flows[size]) for size in sizes])
    place = [np.flatnonzero(table["nodes"] == size) for size in sizes]
    work = {name: np.array([table[name][k[0]] if len(k) else np.nan for k in place]) for name in "uv"}
    rows: list[Sequence[str | float]] = [
        (size, *ours, *corners, *("" if np.isnan(value) else float(value) for value in theirs))
        for size, ours, corners, *theirs in zip(sizes, errors, alone, work["u"], work["v"], strict=True)
    ]
    ours = [order(sizes, each) for each in (*errors.T, *alone.T)]
    rows.append(("order", *ours, *(order(table["nodes"], table[name]) for name in "uv")))
    note = (
        f"L2 differences from the flow on {finest} nodes over the whole box; what the two nodes in the lid's corners"
        " alone make, by Stokes flow there; and the work's from its own flow on 512 nodes."
    )
    columns = ("nodes across", "u", "v", "u of the corners' nodes", "v of them", "the work's u", "the work's v")
    evidence.table(columns, rows, note)
    return work


def _away(
    evidence: Evidence, flows: Mapping[int, Reals], best: Mapping[int, Reals], errors: Reals, options: Options
) -> None:
    """Errors without the surroundings of the lid's corners, and the part of the squared error that lies within."""
    rows: list[Sequence[str | float]] = []
    for size, ours in zip(best, errors, strict=True):
        square = (flows[size] - best[size]) ** 2
        near = near_corners(size, options.radius)
        rows.append((size, *ours, *(100 * float(square[k][near].sum() / square[k].sum()) for k in (0, 2))))
    rows.append(("order", *(order(best, each) for each in errors.T), "", ""))
    note = f"The same farther than {options.radius:g} from the lid's corners, from what the two finest flows tend to."
    columns = ("nodes across", "u", "v", "squared error of u that lies nearer, %", "of v, %")
    evidence.table(columns, rows, note)


def _corner(evidence: Evidence, flows: Mapping[int, Reals]) -> None:
    """Velocity on the diagonal from a corner by the distance in spacings, beside that of Stokes flow."""
    stokes, lines = corner_flow(np.pi / 4), {size: diagonal(flow) for size, flow in flows.items()}
    rows: list[Sequence[str | float]] = [
        (name, (k + 0.5) * 2**0.5, *(float(line[component, k]) for line in lines.values()), stokes[component])
        for component, name in enumerate("uv")
        for k in range(DIAGONAL)
    ]
    columns = ("", "spacings from the corner", *(f"{size} nodes" for size in lines), "Stokes flow")
    note = "On the diagonal from the lid's rear corner: beside it the same on all lattices, and wrong."
    evidence.table(columns, rows, note)


def _errors(figure: Any, sizes: list[int], whole: Reals, away: Reals, work: Mapping[str, Reals]) -> None:
    nodes = np.array(sizes)
    for k, (axes, name) in enumerate(zip(figure.subplots(1, 2, sharey=True), "uv", strict=True)):
        axes.loglog(nodes, work[name], "^-", color="grey", label="the work's")
        axes.loglog(nodes, whole[:, k], "o-", label="whole box")
        axes.loglog(nodes, away[:, k], "s-", label="away from the corners")
        axes.loglog(nodes, away[0, k] * (nodes[0] / nodes) ** 2, ":", color="grey", label="second order")
        axes.minorticks_off()
        axes.set(xlabel="nodes across", title=name, xticks=sizes, xticklabels=sizes)
    axes.legend()


def _corners(figure: Any, flows: Mapping[int, Reals], best: Mapping[int, Reals], radius: float) -> None:
    """Where the error lies, with the surroundings of the corners; the diagonal of one of them."""
    left, right = figure.subplots(1, 2)
    size = list(best)[-1]
    error = np.log10(np.abs(flows[size][0] - best[size][0]) + 1e-12)
    shown = left.imshow(error, origin="lower", extent=(0, 1, 0, 1), vmin=-6, vmax=-1, cmap="viridis")
    turn = np.linspace(0, np.pi / 2, 50)
    for corner, sign in ((0, 1), (1, -1)):
        left.plot(corner + sign * radius * np.cos(turn), 1 - radius * np.sin(turn), "w:")
    figure.colorbar(shown, label="log10 of the error of u")
    left.set(xticks=(0, 1), yticks=(0, 1), title=f"{size} nodes")
    distance = (np.arange(DIAGONAL) + 0.5) * 2**0.5
    for component, exact in enumerate(corner_flow(np.pi / 4)):
        right.axhline(exact, color="grey", linewidth=0.8)
        for size, flow in flows.items():
            right.plot(distance, diagonal(flow)[component], "os"[component], label=f"{'uv'[component]}, {size} nodes")
    right.set(xlabel="spacings from the corner", ylabel="velocity, of the lid's")
    right.legend(fontsize="x-small", ncols=2)
