# SPDX-License-Identifier: Apache-2.0
"""Settings of the reduced model of a vessel: the flows that it is fitted to."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from pipeline.case.settings.base import Section

LEAST_SPAN = 1.5
"""Of the flows, the largest over the least: with less, linear and square losses cannot be told apart."""

Factor = Annotated[float, Field(ge=0.1, le=10)]


class ReducedSettings(Section):
    """A reduced model, which answers what other flows would do in a second: the case again at some flows, steady, on a
    coarse lattice.
    """

    flows: tuple[Factor, ...] = Field(
        (),
        max_length=8,
        description="by the case's mean inflow, which is one more of them: [0.5, 2]. None: no reduced model",
    )
    nodes_across: Annotated[float, Field(ge=6, le=40)] = Field(
        10.0, description="at least so many nodes across the narrowest place, at most as many as the case has"
    )

    division: Annotated[float, Field(ge=0, le=0.5)] = Field(
        0.2,
        description="of several outlets, one more run at the flow of the case gives them in turn so much more and less"
        " of their parts, by which losses of forks follow the division of the flow; 0: no such run",
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.flows and max(1.0, *self.flows) < LEAST_SPAN * min(1.0, *self.flows):
            raise ValueError(f"flows = {list(self.flows)}: too near to each other to tell losses apart; give [0.5, 2]")
        return self

    @property
    def runs(self) -> tuple[tuple[float, float], ...]:
        """Flow and change of its division of all runs."""
        divided = ((1.0, self.division),) if self.flows and self.division else ()
        return (*((factor, 0.0) for factor in self.factors), *divided)

    @property
    def factors(self) -> tuple[float, ...]:
        """All flows that run on the coarse lattice, that of the case among them; none without a reduced model."""
        return tuple(sorted({1.0, *self.flows})) if self.flows else ()
