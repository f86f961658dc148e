# SPDX-License-Identifier: Apache-2.0
"""Canonical shapes with flat walls, and what all shapes share; mm.

Flow runs along x, walls lie across y and z. Where a shape repeats along an axis, it has no walls and no openings there.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.case.settings.base import Positive, Section

TURNED_BACK = 1e-9
"""Two directions whose cosine is so near to -1 are opposite."""

LAYERS = 1
"""Nodes across a shape that repeats along an axis where nothing else is said: a flow in two dimensions needs one."""


Axes = tuple[bool, bool, bool]
Ends = Literal["openings", "periodic"]
Sides = Literal["walls", "periodic"]


class Shape(Section):
    """Base of all shapes."""

    @property
    def reference_mm(self) -> float:
        """The length that voxelize.nodes_across counts."""
        raise NotImplementedError

    @property
    def roles(self) -> dict[str, str]:
        """Role of each opening by its name, in their order: ``inlet`` or ``outlet``."""
        return {"inlet": "inlet", "outlet": "outlet"}

    @property
    def patches(self) -> tuple[str, ...]:
        """Names of the parts of the wall that can move or let fluid slip, in their order."""
        return ("wall",)

    @property
    def periodic(self) -> Axes:
        """Whether the shape repeats along (x, y, z)."""
        return False, False, False


class BlockShape(Shape):
    """Base of shapes that may repeat along x instead of having openings, and along y instead of having side walls."""

    width_mm: Positive | None = Field(None, description="along y; none, where it repeats: one node")
    sides: Sides = Field("walls", description="across y")

    @model_validator(mode="after")
    def _has_width(self) -> Self:
        if self.width_mm is None and self.sides == "walls":
            raise ValueError("width_mm is missing: give it, or let sides be periodic")
        return self

    @property
    def periodic(self) -> Axes:
        """Along x without openings, and along y without side walls."""
        return not self.roles, self.sides == "periodic", False

    def _with_sides(self, *names: str) -> tuple[str, ...]:
        return (*names, "sides") if self.sides == "walls" else names


class Cavity(BlockShape):
    """A closed box with a lid on top, which the solver may let slide along x and y."""

    shape: Literal["cavity"]
    length_mm: Positive = Field(description="along x")
    height_mm: Positive | None = Field(None, description="along z, counted by nodes_across; none: as the length")

    @property
    def height(self) -> float:
        """Along z."""
        return self.height_mm or self.length_mm

    @property
    def reference_mm(self) -> float:
        """The height."""
        return self.height

    @property
    def roles(self) -> dict[str, str]:
        """None."""
        return {}

    @property
    def patches(self) -> tuple[str, ...]:
        """The lid, the walls across y where there are any, and the rest."""
        return self._with_sides("lid", "walls")

    @property
    def periodic(self) -> Axes:
        """Never along x."""
        return False, self.sides == "periodic", False


class Channel(BlockShape):
    """Two plates; with side walls a duct."""

    shape: Literal["channel"]
    height_mm: Positive = Field(description="along z, counted by nodes_across")
    length_mm: Positive | None = Field(None, description="along x; none, where it repeats: one node")
    ends: Ends = Field("openings", description="across x")
    sides: Sides = Field("periodic", description="across y")

    @model_validator(mode="after")
    def _has_length(self) -> Self:
        if self.length_mm is None and self.ends == "openings":
            raise ValueError("length_mm is missing: give it, or let ends be periodic")
        return self

    @property
    def reference_mm(self) -> float:
        """The height."""
        return self.height_mm

    @property
    def roles(self) -> dict[str, str]:
        """At both ends, or none."""
        return super().roles if self.ends == "openings" else {}

    @property
    def patches(self) -> tuple[str, ...]:
        """The plates, and the walls across y where there are any."""
        return self._with_sides("bottom", "top")


class Duct(Channel):
    """A tube of rectangular section."""

    shape: Literal["duct"]  # type: ignore[assignment]
    width_mm: Positive = Field(description="along y")
    sides: Literal["walls"] = Field("walls", description="across y")


class Step(BlockShape):
    """A channel whose floor steps down: flow over a backward-facing step. The step stands at x = 0, z = 0."""

    shape: Literal["step"]
    step_mm: Positive = Field(description="height of the step, counted by nodes_across")
    expansion_ratio: Annotated[float, Field(gt=1, le=10)] = Field(
        2.0, description="height of the channel behind the step over that before it"
    )
    inlet_mm: Positive = Field(description="length before the step")
    outlet_mm: Positive = Field(description="length behind it")
    sides: Sides = Field("periodic", description="across y")

    @property
    def reference_mm(self) -> float:
        """The height of the step."""
        return self.step_mm

    @property
    def patches(self) -> tuple[str, ...]:
        """Floor with the step, ceiling, and the walls across y where there are any."""
        return self._with_sides("floor", "top")
