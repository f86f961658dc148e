# SPDX-License-Identifier: Apache-2.0
"""The reduced model of a case, on its page: what its branches lose, and how near it comes to the runs."""

from collections.abc import Mapping
from typing import Any

from pipeline.reduced.model import Point, ReducedBranch, ReducedModel
from pipeline.reporting.tables import DASH, column, number

BRANCHES = ("branch", "flow (mL/s)", "R (mmHg s/mL)", "K (mmHg s²/mL²)", "L (mmHg s²/mL)", "drop (mmHg)", "of it K Q²")
POINTS = ("from", "to", "flow", "lattice", "drop of the run (mmHg)", "of the model (mmHg)", "difference")

Row = list[str]


def reduced_section(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the page says of the reduced model; none where there is none.

    Parameters
    ----------
    values : ``reduced.json``.
    """
    if not values:
        return None
    model = ReducedModel.model_validate(values)
    low, high = model.factors
    return {
        "range": f"{number(low)} to {number(high)}",
        "inflows": f"{number(low * model.inflow_ml_s)} to {number(high * model.inflow_ml_s)}",
        "reservations": model.reservations,
        "branch_head": BRANCHES,
        "branches": _branches(model.branches),
        "point_head": POINTS,
        "points": [_point(point) for point in model.points],
        "ratio": number(model.spacing_ratio),
    }


def _branches(branches: tuple[ReducedBranch, ...]) -> list[Row]:
    """A row a branch, at the flow of the case."""
    drops = [branch.at(branch.flow_ml_s) for branch in branches]
    columns = [
        [branch.name for branch in branches],
        column([branch.flow_ml_s for branch in branches]),
        column([branch.resistance_mmhg_s_ml for branch in branches]),
        column([branch.square_mmhg_s2_ml2 for branch in branches]),
        column([branch.inertance_mmhg_s2_ml for branch in branches]),
        column(drops),
        [_part(branch, drop) for branch, drop in zip(branches, drops, strict=True)],
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _part(branch: ReducedBranch, drop: float) -> str:
    """The square part of a drop; a dash where both parts have opposite signs, so that it would be none."""
    square = branch.square_mmhg_s2_ml2 * branch.flow_ml_s * abs(branch.flow_ml_s)
    return f"{square / drop:.0%}" if drop and 0 <= square / drop <= 1 else DASH


def _point(point: Point) -> Row:
    """A run beside the model; the difference by the drop of total pressure."""
    differ = (point.reduced_mmhg - point.drop_mmhg) / point.total_drop_mmhg if point.total_drop_mmhg else 0.0
    return [
        point.inlet,
        point.outlet,
        f"{number(point.factor)} times",
        "the case's" if point.lattice == "case" else "coarse",
        number(point.drop_mmhg),
        number(point.reduced_mmhg),
        f"{differ:+.1%}",
    ]
