# SPDX-License-Identifier: Apache-2.0
"""Edits of a one-dimensional network, each a line in a network's file or in a case: what is changed, and by how much.

:mod:`pipeline.network.edits` applies them.
"""

from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator

from pipeline.case.settings.base import Finite, Name, Positive, Section

Part = Annotated[float, Field(gt=0, lt=1)]
Years = Annotated[float, Field(ge=20, le=80)]
SEGMENTS = "name of a segment or a group, or a pattern with * and ?"


class Stiffen(Section):
    """The wall is stiffer: E h is multiplied, the speed of waves by the square root."""

    stiffen: str = Field(description=SEGMENTS)
    factor: Positive = Field(description="of the stiffness; below 1: softer")


class Age(Section):
    """Arteries of another age: pulses run faster in the elastic ones, which widen, and a little in the muscular ones
    (Avolio et al. 1985, doi:10.1161/01.CIR.71.2.202; Charlton et al. 2019, doi:10.1152/ajpheart.00218.2019).
    """

    age: str = Field(description=SEGMENTS)
    from_years: Years = Field(description="age of the person whose network it is")
    to_years: Years = Field(description="age that the arteries are to have; below from_years: younger")
    elastic_from_mm: Positive = Field(
        3.46,
        description="mean radius from which on an artery is an elastic one; those of Charlton et al. widen from it on",
    )


class Narrow(Section):
    """A stenosis: the segment becomes three, of which the middle one is narrow and has the loss of a stenosis."""

    narrow: str = Field(description=SEGMENTS)
    area_percent: Annotated[float, Field(gt=0, lt=100)] = Field(description="of the section's area that is lost")
    length_mm: Positive = Field(description="of the narrow part")
    at: Part = Field(0.5, description="middle of the narrow part, as a part of the segment's length")
    turbulent: Annotated[float, Field(ge=0, le=10)] = Field(1.52, description="K_t of Young and Tsai's loss")


class Widen(Section):
    """An aneurysm: the radius is multiplied, all along the segment, or most in the middle of a part of it."""

    widen: str = Field(description=SEGMENTS)
    radius_factor: Positive = Field(description="of the radius, at its widest; below 1: narrower, with no loss")
    length_mm: Positive | None = Field(
        None, description="of a part that swells and shrinks smoothly; none: all of the segment"
    )
    at: Part = Field(0.5, description="middle of that part, as a part of the segment's length")


class Remove(Section):
    """Segments are taken out, with all that lies behind them alone. An end that this leaves open gets the resistance
    and the compliance of the terminals that went.
    """

    remove: str = Field(description=SEGMENTS)


class Graft(Section):
    """A new segment between two nodes, such as a bypass; what its wall does not say is that of the defaults."""

    graft: Name = Field(description="name of the new segment")
    nodes: tuple[Name, Name] = Field(description="names of two nodes that there are")
    length_mm: Positive
    radius_mm: Positive | tuple[Positive, Positive] = Field(description="one, or [proximal, distal]")
    youngs_modulus_kpa: Positive | None = Field(None, description="with thickness_mm; none: wall of the defaults")
    thickness_mm: Positive | None = Field(None, description="of its wall")

    @model_validator(mode="after")
    def _whole_wall(self) -> Self:
        if (self.youngs_modulus_kpa is None) != (self.thickness_mm is None):
            raise ValueError("youngs_modulus_kpa and thickness_mm: one of them given; give both or none")
        return self


class Terminal(Section):
    """What lies behind terminals is changed."""

    terminal: str = Field(description="name of a node, of a group, or of a segment that ends there")
    resistance_factor: Positive = Field(1.0, description="of all resistances")
    compliance_factor: Positive = Field(1.0, description="of the compliance")
    distal_pressure_mmhg: Finite | None = Field(None, description="behind the resistances; none: as it is")


KINDS = {
    "stiffen": Stiffen,
    "age": Age,
    "narrow": Narrow,
    "widen": Widen,
    "remove": Remove,
    "graft": Graft,
    "terminal": Terminal,
}
"""Edits by the key that they begin with."""


def _kind(edit: Any) -> str | None:
    """Name of the model of an edit, by its first key."""
    if isinstance(edit, Section):
        return type(edit).__name__
    keys = [key for key in KINDS if isinstance(edit, dict) and key in edit]
    return KINDS[keys[0]].__name__ if len(keys) == 1 else None


Edit = Annotated[
    Annotated[Stiffen, Tag("Stiffen")]
    | Annotated[Age, Tag("Age")]
    | Annotated[Narrow, Tag("Narrow")]
    | Annotated[Widen, Tag("Widen")]
    | Annotated[Remove, Tag("Remove")]
    | Annotated[Graft, Tag("Graft")]
    | Annotated[Terminal, Tag("Terminal")],
    Discriminator(
        _kind,
        custom_error_type="kind_of_edit",
        custom_error_message=f"input should be a mapping with one of the keys {', '.join(KINDS)}",
    ),
]
