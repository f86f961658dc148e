# SPDX-License-Identifier: Apache-2.0
"""Shapes: the canonical geometries that a case can enter with, by a few numbers; mm.

Flow runs along x unless a shape says otherwise. Those with flat walls are in :mod:`block_shapes`.
"""

from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from pipeline.case.block_shapes import TURNED_BACK, Axes, Cavity, Channel, Duct, Ends, Shape, Sides, Step
from pipeline.case.settings.base import Name, NonNegative, Point, Positive, Section

THROAT_DIAMETERS, OUTLET_DIAMETERS = 4, 10
"""Lengths of a nozzle's throat and outlet where none are given, in their diameters."""


class RoundShape(Shape):
    """Base of round vessels."""

    diameter_mm: Positive = Field(description="counted by nodes_across")

    @property
    def reference_mm(self) -> float:
        """The diameter."""
        return self.diameter_mm

    @property
    def radius_mm(self) -> float:
        """Half the diameter."""
        return self.diameter_mm / 2


class DirectedShape(RoundShape):
    """Base of round vessels that are turned from x, by the least angle, to the direction in which the flow enters."""

    direction: Point = Field((1.0, 0.0, 0.0), description="of the flow that enters; the length does not count")

    @model_validator(mode="after")
    def _directed(self) -> Self:
        if not any(self.direction):
            raise ValueError("direction is (0, 0, 0); give a direction")
        return self

    @property
    def unit(self) -> NDArray[np.float64]:
        """Unit vector along the flow that enters."""
        direction = np.array(self.direction)
        return direction / np.linalg.norm(direction)

    @property
    def oblique(self) -> bool:
        """Whether that is along none of x, y, z."""
        return sum(component != 0 for component in self.direction) > 1

    @property
    def turn(self) -> NDArray[np.float64]:
        """Rotation, (3, 3), that takes x to :attr:`unit`: I + K + K^2/(1 + x.u) with K v = (x cross u) cross v.

        Half a turn is one about z.
        """
        x, y, z = self.unit
        if x < TURNED_BACK - 1:
            return np.diag((-1.0, -1.0, 1.0))
        cross = np.array(((0.0, -y, -z), (y, 0.0, 0.0), (z, 0.0, 0.0)))
        return np.asarray(np.eye(3) + cross + cross @ cross / (1 + x))


class StraightShape(DirectedShape):
    """Base of straight round vessels from the origin on."""

    length_mm: Positive
    ends: Ends = "openings"

    @model_validator(mode="after")
    def _repeats_along_an_axis(self) -> Self:
        if self.ends == "periodic" and self.oblique:
            raise ValueError(f"direction {self.direction}: only pipes along x, y or z can repeat; let it have openings")
        return self

    @property
    def roles(self) -> dict[str, str]:
        """At both ends, or none."""
        return super().roles if self.ends == "openings" else {}

    @property
    def periodic(self) -> Axes:
        """Along its axis, without openings."""
        x, y, z = (not self.roles and component != 0 for component in self.direction)
        return x, y, z


class Pipe(StraightShape):
    """A straight round pipe."""

    shape: Literal["pipe"]


class Stenosis(StraightShape):
    """A straight round pipe with a narrowing in its middle, a cosine wave in the radius.

    r(x) = R - (R - r_min) (1 + cos(2 pi x / throat_mm)) / 2, r_min = R sqrt(1 - area_reduction), x along the flow from
    the throat on. The centre of the section moves towards +z, turned as the pipe is, with the narrowing, by
    eccentricity (R - r): at 1 one side of the wall stays straight.
    """

    shape: Literal["stenosis"]
    throat_mm: Positive = Field(description="length of the narrowing")
    area_reduction: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.75, description="part of the section's area that is lost in the throat"
    )
    eccentricity: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="0: round about the axis, 1: one-sided")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.throat_mm >= self.length_mm:
            raise ValueError(f"throat_mm {self.throat_mm:g} is not below length_mm {self.length_mm:g}; correct one")
        return self

    def radius_at(self, x_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Radius of the sections."""
        narrow = 1 - np.sqrt(1 - self.area_reduction)
        wave = np.where(np.abs(x_mm) < self.throat_mm / 2, (1 + np.cos(2 * np.pi * x_mm / self.throat_mm)) / 2, 0.0)
        return self.radius_mm * (1 - narrow * wave)


class Nozzle(DirectedShape):
    """A round tube that narrows in a cone to a throat and widens by a sudden step, which stands at the origin.

    Without a cone and an inlet of another diameter it is a sudden expansion; with such an inlet, but no cone, there is
    a sudden narrowing before that.
    """

    shape: Literal["nozzle"]
    diameter_mm: Positive = Field(description="of the throat, counted by nodes_across")
    inlet_diameter_mm: Positive | None = Field(None, description="before the cone; none: as the throat's")
    outlet_diameter_mm: Positive = Field(description="behind the step")
    inlet_mm: NonNegative | None = Field(None, description="length of the tube before the cone; none: its diameter")
    cone_mm: NonNegative = Field(0.0, description="length of the cone")
    throat_mm: Positive | None = Field(None, description=f"length of the throat; none: {THROAT_DIAMETERS} diameters")
    outlet_mm: Positive | None = Field(
        None, description=f"length of the tube behind the step; none: {OUTLET_DIAMETERS} of its diameters"
    )

    @model_validator(mode="after")
    def _begins_with_its_inlet(self) -> Self:
        if self.inlet_mm == 0 == self.cone_mm and self.inlet_diameter_mm not in (None, self.diameter_mm):
            raise ValueError(
                f"inlet_diameter_mm {self.inlet_diameter_mm:g} is that of no part; give inlet_mm or cone_mm, or"
                " leave it out"
            )
        return self

    @property
    def profile(self) -> NDArray[np.float64]:
        """Places along the flow and radii of the corners of the wall, (6, 2), from the inlet to the outlet.

        Two corners at one place are a step, or one and the same.
        """
        wide, narrow, behind = self.inlet_diameter_mm or self.diameter_mm, self.diameter_mm, self.outlet_diameter_mm
        inlet = wide if self.inlet_mm is None else self.inlet_mm
        throat = self.throat_mm or THROAT_DIAMETERS * narrow
        outlet = self.outlet_mm or OUTLET_DIAMETERS * behind
        cone = -throat - self.cone_mm
        places = (cone - inlet, cone, -throat, 0.0, 0.0, outlet)
        return np.column_stack((places, np.array((wide, wide, narrow, narrow, behind, behind)) / 2))


class Bend(DirectedShape):
    """A round pipe that comes along x and bends towards z on an arc, between straight ends; turned with its direction.

    Where the arc begins is the origin.
    """

    shape: Literal["bend"]
    bend_radius_mm: Positive = Field(description="of the centreline")
    angle_deg: Annotated[float, Field(gt=0, le=180)] = 90.0
    inlet_mm: NonNegative = Field(0.0, description="length of the straight part before the bend")
    outlet_mm: NonNegative = Field(0.0, description="and behind it")

    @model_validator(mode="after")
    def _open(self) -> Self:
        if self.bend_radius_mm <= self.diameter_mm / 2:
            raise ValueError(
                f"bend_radius_mm {self.bend_radius_mm:g} is not above half of diameter_mm {self.diameter_mm:g};"
                " correct one"
            )
        return self


class Daughter(Section):
    """A branch behind the fork."""

    name: Name
    diameter_mm: Positive | None = Field(None, description="none: by Murray's law")
    length_mm: Positive
    angle_deg: Annotated[float, Field(ge=10, le=120)] = Field(description="away from the parent's direction")


class Bifurcation(DirectedShape):
    """A round parent along x that forks in the plane of x and z, the first daughter towards +z, the second towards -z;
    turned with its direction. Where the axes meet is the origin.

    Murray's law, d_0^m = d_1^m + d_2^m with the exponent m, gives a diameter that is left out, or both, which are then
    equal. Source: Murray (1926), doi:10.1073/pnas.12.3.207.
    """

    shape: Literal["bifurcation"]
    length_mm: Positive = Field(description="of the parent")
    daughters: tuple[Daughter, Daughter]
    murray_exponent: Annotated[float, Field(ge=2, le=4)] = 3.0
    blend_mm: NonNegative | None = Field(None, description="rounding of the fork; none: a quarter of the diameter")

    @model_validator(mode="after")
    def _forks(self) -> Self:
        first, second = self.daughters
        if first.name == second.name or "inlet" in (first.name, second.name):
            raise ValueError(f"daughters are called {first.name}, {second.name}; names must differ, and from inlet")
        if (given := max((d.diameter_mm or 0.0 for d in self.daughters), default=0.0)) >= self.diameter_mm and None in (
            first.diameter_mm,
            second.diameter_mm,
        ):
            raise ValueError(
                f"diameter_mm {given:g} of a daughter leaves nothing to the other by Murray's law; give both diameters"
            )
        return self

    @property
    def roles(self) -> dict[str, str]:
        """The parent's, then the daughters'."""
        return {"inlet": "inlet"} | {daughter.name: "outlet" for daughter in self.daughters}

    @property
    def daughter_diameters_mm(self) -> tuple[float, float]:
        """As given, or by Murray's law."""
        m, whole = self.murray_exponent, self.diameter_mm**self.murray_exponent
        first, second = (daughter.diameter_mm for daughter in self.daughters)
        if first is None and second is None:
            return (whole / 2) ** (1 / m), (whole / 2) ** (1 / m)
        if first is None or second is None:
            given = first or second or 0.0
            other = (whole - given**m) ** (1 / m)
            return (given, other) if first else (other, given)
        return first, second


class Sphere(Shape):
    """A solid sphere at the origin in a box, which fluid flows past along x."""

    shape: Literal["sphere"]
    diameter_mm: Positive = Field(description="counted by nodes_across")
    box_mm: tuple[Positive, Positive, Positive] = Field(description="sides along x, y, z; the sphere is in its middle")
    ends: Ends = Field("periodic", description="across x")
    sides: Sides = Field("periodic", description="across y and z")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if min(self.box_mm) <= self.diameter_mm:
            raise ValueError(f"box_mm {self.box_mm} is no larger than diameter_mm {self.diameter_mm:g}; enlarge it")
        return self

    @property
    def reference_mm(self) -> float:
        """The diameter of the sphere."""
        return self.diameter_mm

    @property
    def roles(self) -> dict[str, str]:
        """Across x, or none."""
        return super().roles if self.ends == "openings" else {}

    @property
    def patches(self) -> tuple[str, ...]:
        """The sphere, and the walls of the box where there are any."""
        return ("sphere", "sides") if self.sides == "walls" else ("sphere",)

    @property
    def periodic(self) -> Axes:
        """Where there are neither openings nor walls."""
        across = self.sides == "periodic"
        return not self.roles, across, across


Geometry = Annotated[
    Cavity | Channel | Duct | Pipe | Step | Bend | Bifurcation | Stenosis | Nozzle | Sphere,
    Field(discriminator="shape"),
]
"""A canonical geometry, chosen by its key ``shape``."""
