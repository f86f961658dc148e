# SPDX-License-Identifier: Apache-2.0
"""How long the blood stays: numbers of the particles that were traced, and what keeps them from being trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.haemodynamics.particles import LOST
from pipeline.haemodynamics.paths import Arrivals, Paths
from pipeline.haemodynamics.snapshots import Field
from pipeline.haemodynamics.trust import check
from solver.domain.nodes import Nodes

MAX_ASTRAY = 0.01
MAX_SPLIT = 0.05
MAX_TRANSIT = 0.1
MAX_GAP = 0.1
"""What becomes a warning: the part of particles that is lost or stuck; the difference of an outlet's part of the
particles from its part of the flow; that of the mean transit time from volume over flow; and the part of the period
between two snapshots."""

ROUND_OFF = 1e-6
"""By which part the time of a particle that is followed no longer may fall short of the limit."""


@dataclass(frozen=True)
class Clock:
    """Times of the tracing.

    Attributes
    ----------
    start_s : first snapshot.
    shown_s : the moment whose streamlines are drawn and at which particles are spread over the volume.
    unit_s : the period, or the mean transit time of a steady flow.
    every_s : time between moments at which particles are looked at.
    limit_s : longest time over which a particle is traced.
    transit_s : mean transit time, volume over inflow.
    """

    start_s: float
    shown_s: float
    unit_s: float
    every_s: float
    limit_s: float
    transit_s: float

    def releases_s(self) -> NDArray[np.float64]:
        """Moments at which particles can be released."""
        return self.start_s + self.every_s * np.arange(round(self.unit_s / self.every_s), dtype=np.float64)

    def stretches_s(self, field: Field, most: int) -> list[NDArray[np.float64]]:
        """Moments from the first release to the end of the last particle that can be released, in pieces of at most so
        many. Pieces end where snapshots stand, so that each snapshot is read once.
        """
        count = round((self.unit_s + self.limit_s) / self.every_s) + 1
        moments = self.start_s + self.every_s * np.arange(count)
        ends = [end for _, end in field.intervals(self.start_s, float(moments[-1]))] if field.period_s else []
        moments = np.union1d(moments, ends)
        bounds = np.unique([*range(most, len(moments), most), *(np.searchsorted(moments, ends) + 1)]).astype(np.int64)
        return [piece for piece in np.split(moments, bounds) if len(piece)]


def inflow_ml_s(nodes: Nodes, flows: Mapping[str, float]) -> float:
    """Sum of the flows through the inlets, by the openings' names."""
    return sum((flows[opening.name] for opening in nodes.openings if opening.role == "inlet"), 0.0)


def volume_ml(nodes: Nodes) -> float:
    """Of the fluid: a cube of a spacing for each node."""
    return nodes.count * nodes.spacing_mm**3 * 1e-3


def residence_numbers(
    nodes: Nodes,
    flows: Mapping[str, float],
    clock: Clock,
    paths: Paths,
    entry: Arrivals,
    left: Arrivals,
    period_s: float | None,
) -> dict[str, Any]:
    """Shares are of the particles; those in the volume stand for equal parts of it.

    Parameters
    ----------
    nodes : the lattice and its openings.
    flows : through each opening, mL/s, by name.
    clock : times of the tracing.
    paths : of the particles from the inlets.
    entry, left : how the particles of the volume came in, and how they left.
    period_s : of the flow; none of a steady one.

    Returns
    -------
    As they stand in ``particles.json``, without warnings.
    """
    inflow = inflow_ml_s(nodes, flows)
    counted = ~(entry.lost | left.lost)
    residence = entry.time_s + left.time_s
    whole = counted & (entry.through > 0) & (left.through > 0)
    return {
        "period_s": period_s,
        "moment_s": clock.shown_s,
        "limit_s": clock.limit_s,
        "volume_ml": volume_ml(nodes),
        "inflow_ml_s": inflow,
        "volume_over_inflow_s": volume_ml(nodes) / inflow if inflow > 0 else None,
        "flow_weighted_residence_s": float(counted.sum() / (1 / residence[counted]).sum()) if whole.any() else None,
        "in_volume": {
            "particles": len(residence),
            "entered_share": float((entry.through > 0).mean()),
            "left_share": float((left.through > 0).mean()),
            "not_washed_out_share": float(((left.through == 0) & ~left.lost).mean()),
            "lost_share": float((~counted).mean()),
            "stuck_share": float((entry.stuck | left.stuck).mean()),
            "time_since_entry_s": _statistics(entry.time_s[counted], clock.limit_s),
            "time_to_leave_s": _statistics(left.time_s[counted], clock.limit_s),
            "residence_time_s": _statistics(residence[counted], clock.limit_s),
        },
        "from_inlets": {
            "particles": len(paths.left),
            "left_share": _share((paths.left > 0).sum(), len(paths.left)),
            "lost_share": _share((paths.left == LOST).sum(), len(paths.left)),
        },
        "outlets": _outlets(nodes, flows, paths),
    }


def _outlets(nodes: Nodes, flows: Mapping[str, float], paths: Paths) -> list[dict[str, Any]]:
    """Which share of the particles and of the flow leaves through each outlet."""
    flux = paths.flux * (paths.left > 0)
    outflow = sum(flows[opening.name] for opening in nodes.openings if opening.role == "outlet")
    return [
        {
            "id": opening.id,
            "name": opening.name,
            "particle_share": _share(flux[paths.left == opening.id].sum(), flux.sum()),
            "flow_share": _share(flows[opening.name], outflow),
        }
        for opening in nodes.openings
        if opening.role == "outlet"
    ]


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def _statistics(times_s: NDArray[np.float64], limit_s: float) -> dict[str, float | None]:
    """Median and 90th percentile, none from the limit on: particles that were followed no longer count with at least
    the limit, so that percentiles below it hold, and no others, and no mean.
    """
    if not len(times_s):
        return {}
    found = dict(zip(("median", "p90"), np.percentile(times_s, (50, 90)).tolist(), strict=True))
    return {name: value if value < (1 - ROUND_OFF) * limit_s else None for name, value in found.items()}


def particle_checks(numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What ages and paths of particles rest on beside the flow that they go through.

    Parameters
    ----------
    numbers : as :func:`residence_numbers` has them.
    """
    return [check("particles lost at the wall", "%", numbers["in_volume"]["lost_share"], "")]


def residence_warnings(numbers: Mapping[str, Any], field: Field, period_s: float | None) -> list[str]:
    """What keeps the numbers from being trusted.

    Parameters
    ----------
    numbers : as :func:`residence_numbers` has them.
    field : the snapshots that particles went through.
    period_s : of the flow that was solved; none of a steady one.
    """
    found = []
    volume, inlets = numbers["in_volume"], numbers["from_inlets"]
    if period_s and not field.period_s:
        found.append(
            "the flow is periodic, but there is one snapshot alone, through which particles go as if it were"
            " steady; set solve.snapshots to 20 or more"
        )
    elif field.period_s:
        gap = np.diff([*field.times_s, field.moment(len(field.times_s))]).max() / field.period_s
        if gap > MAX_GAP * (1 + 1e-6):
            found.append(
                f"{gap:.0%} of the period lie between two snapshots, between which the velocity is taken as"
                f" linear in time (above {MAX_GAP:.0%}); raise solve.snapshots"
            )
    for what, share in (
        ("particles in the volume lost: they crossed the wall", volume["lost_share"]),
        ("particles from the inlets lost: they crossed the wall", inlets["lost_share"] or 0),
        ("particles in the volume stuck at the wall", volume["stuck_share"]),
    ):
        if share > MAX_ASTRAY:
            found.append(f"{share:.1%} of {what} (above {MAX_ASTRAY:.0%}); use a finer spacing")
    for outlet in numbers["outlets"]:
        parts = outlet["particle_share"], outlet["flow_share"]
        if None not in parts and abs(parts[0] - parts[1]) > MAX_SPLIT:
            found.append(
                f"{parts[0]:.1%} of the particles but {parts[1]:.1%} of the flow leave through"
                f" {outlet['name']} (more than {MAX_SPLIT:.0%} apart); raise trace.pathlines"
            )
    mean, wanted = numbers["flow_weighted_residence_s"], numbers["volume_over_inflow_s"]
    if mean and wanted and not field.period_s and abs(mean / wanted - 1) > MAX_TRANSIT:
        found.append(
            f"particles stay {mean:.4g} s, weighted by flow, but volume over inflow is {wanted:.4g} s (more"
            f" than {MAX_TRANSIT:.0%} apart); use a finer spacing, or raise trace.limit_transits"
        )
    return found
