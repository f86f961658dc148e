# SPDX-License-Identifier: Apache-2.0
"""Settings of the bands on a case's figures: what is uncertain, by how much, and how many members are computed."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from pipeline.case.settings.base import NonNegative, Positive, Section

MEMBERS = {"off": 0, "quick": 12, "full": 60}
"""Members by the level; the case without a change is one more."""
ACROSS = {"off": 8.0, "quick": 8.0, "full": 10.0}
"""Nodes across the narrowest place on the members' lattice, by the level."""
LEAST_MEMBERS = 8


class UncertaintySettings(Section):
    """How sure each figure is: the case again, with what is uncertain of it drawn at random. ``uncertainty: quick`` is
    short for ``uncertainty: {level: quick}``.
    """

    level: Literal["off", "quick", "full"] = Field("off", description="quick: 12 members; full: 60 of them")
    members: Annotated[int, Field(ge=LEAST_MEMBERS, le=1000, multiple_of=2)] | None = Field(
        None, description="even number of members; none: by the level"
    )
    nodes_across: Annotated[float, Field(ge=6, le=40)] | None = Field(
        None,
        description="of the members' lattice across the narrowest place, where the case's has more; it is 1.25 to 2"
        " times as coarse. none: 8 (quick) or 10 (full)",
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(1, description="of what is drawn")
    wall_sd_mm: NonNegative | None = Field(
        None,
        description="standard deviation of the wall's place, of the whole wall together; none: by the image's blur, and"
        " 0 of a given surface or mask, about whose wall nothing is known",
    )
    roughness_mm: NonNegative | None = Field(
        None, description="standard deviation of what varies along the wall beside it; none: likewise"
    )
    roughness_length_mm: Positive | None = Field(
        None,
        description="length over which that is alike; none: 1.35 voxels, or without an image the diameter of the"
        " smallest opening",
    )
    inflow_cv: NonNegative = Field(
        0.1,
        description="standard deviation of the inflow, of it: 0.1 where it was measured, 0.2 where it is usual for the"
        " vessel",
    )
    waveform_cv: NonNegative = Field(
        0.2,
        description="the same of what a waveform differs from its mean by, of persons; 0.1 where it is the patient's",
    )
    viscosity_cv: NonNegative = Field(0.13, description="the same of the viscosity, of persons")
    outlets_cv: NonNegative = Field(
        0.1, description="the same of the parts of the flow through the outlets, and of resistances behind them"
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, values: Any) -> Any:
        """A level alone."""
        return {"level": values} if isinstance(values, str) else values

    @model_validator(mode="after")
    def _anything_varies(self) -> Self:
        by_factors = (self.inflow_cv, self.waveform_cv, self.viscosity_cv, self.outlets_cv)
        varied = (*by_factors, self.wall_sd_mm != 0, self.roughness_mm != 0)
        if self.level != "off" and not any(varied):
            raise ValueError("nothing varies: all standard deviations are 0; raise one of them, or set level: off")
        return self

    @property
    def count(self) -> int:
        """Members that are computed beside the case without a change."""
        return (self.members or MEMBERS[self.level]) if self.level != "off" else 0

    @property
    def across(self) -> float:
        """Nodes that are wanted across the narrowest place on the members' lattice."""
        return self.nodes_across or ACROSS[self.level]
