# SPDX-License-Identifier: Apache-2.0
"""Orders of convergence that studies ask for, or hold lower where a reason is given."""

from collections.abc import Sequence

from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from validation.evidence import Evidence
from validation.goals import order


class HeldOrder(Section):
    """What is held in place of an order that is out of reach, for a reason."""

    order: Positive = Field(description="at least")
    why: str


def reach_order(
    evidence: Evidence,
    what: str,
    sizes: Sequence[tuple[float, float]],
    at_least: float,
    held: HeldOrder | None,
) -> None:
    """Compare the order of convergence with its bound.

    Parameters
    ----------
    what : whose order.
    sizes : nodes across and error of each lattice.
    at_least : the bound.
    held : what is held in its place, if anything is.
    """
    slope = order(*zip(*sizes, strict=True))
    instead = held.order if held else None
    evidence.reach(what, slope, at_least=at_least, held=instead, why=held.why if held else "")
