# SPDX-License-Identifier: Apache-2.0
"""Settings of the stage couple: the network of arteries that a vessel sits in, and where its openings meet it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from pipeline.case.settings.base import Name, NonNegative, Section
from pipeline.case.settings.entry import file_of_network
from pipeline.case.settings.tree import NetworkNumerics

SIDES = ("proximal", "distal")
"""Ends of the piece of one segment that a vessel replaces."""


class Place(Section):
    """A place of the network."""

    segment: Name = Field(description="its name, after the edits")
    from_start_mm: NonNegative | None = Field(None, description="way from its proximal end")
    from_end_mm: NonNegative | None = Field(
        None, description="way from its distal end; neither: by the vessel's own branches, where they fork as it does"
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.from_start_mm is not None and self.from_end_mm is not None:
            raise ValueError("from_start_mm and from_end_mm: both given; give one of them")
        return self


Cap = Literal["proximal", "distal"] | Place
Caps = dict[Name, Cap]


class CouplingSettings(NetworkNumerics):
    """The network around a vessel: a piece of it is cut out, and the vessel sits in its place. Each opening of the
    vessel is coupled to the network; section solve has neither inlets nor outlets then.
    """

    network: str = Field(description="a name of a network that the project has, such as adan56, or a YAML file")
    replaces: Name | None = Field(
        None,
        description="the segment of which the vessel replaces a piece as long as itself; its openings are proximal and"
        " distal then",
    )
    at: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.5, description="middle of that piece, as a part of the segment's length"
    )
    inlets: Caps = Field(description="where the network meets each inlet, by its name", min_length=1)
    outlets: Caps = Field(description="where it meets each outlet, by its name", min_length=1)

    _network_exists = field_validator("network")(file_of_network)

    @field_validator("inlets", "outlets", mode="before")
    @classmethod
    def _segments_by_name(cls, given: Any) -> Any:
        """The name of a segment alone is a place of it that follows from the vessel."""
        if not isinstance(given, Mapping):
            return given
        return {
            name: {"segment": cap} if isinstance(cap, str) and cap not in SIDES else cap for name, cap in given.items()
        }

    @model_validator(mode="after")
    def _caps_are_places(self) -> Self:
        if twice := sorted(self.inlets.keys() & self.outlets.keys()):
            raise ValueError(f"outlets.{twice[0]}: is an inlet, too; an opening is one of them")
        sides = [name for name, cap in self.caps.items() if isinstance(cap, str)]
        if sides and not self.replaces:
            raise ValueError(
                f"replaces: missing; {sides[0]} is {self.caps[sides[0]]} of it: give the segment of which the vessel"
                " replaces a piece, or a segment for each opening"
            )
        if self.replaces and sorted(map(str, self.caps.values())) != ["distal", "proximal"]:
            raise ValueError(
                f"replaces = {self.replaces!r}: wants two openings, one proximal and one distal; where there are"
                " more, give a segment for each opening, and leave replaces out"
            )
        return self

    def mistaken_openings(self, roles: Mapping[str, str]) -> str | None:
        """What is wrong with the names of openings, which all must be here; none: nothing.

        Parameters
        ----------
        roles : ``inlet`` or ``outlet`` of each opening of the vessel, by its name.
        """
        for section, role in (("inlets", "inlet"), ("outlets", "outlet")):
            there = {name for name, each in roles.items() if each == role}
            if unlike := sorted(there ^ getattr(self, section).keys()):
                return (
                    f"coupling.{section}: {unlike[0]} is not both here and among the {role}s of the vessel"
                    f" ({', '.join(sorted(there)) or 'none'}); name each of them, and no other"
                )
        return None

    @property
    def caps(self) -> Caps:
        """All openings, inlets first."""
        return {**self.inlets, **self.outlets}
