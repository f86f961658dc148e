# SPDX-License-Identifier: Apache-2.0
"""Settings of what the flow carries: the age of blood, contrast, and drug from the wall."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from pipeline.case.settings.base import NonNegative, Positive, Section
from solver.transport import scalar_settings


class BolusSettings(Section):
    """Contrast that comes in through the inlets: c sin^2(pi (t - start)/duration)."""

    start_s: NonNegative = Field(0.0, description="when it begins")
    duration_s: Positive | None = Field(
        None, description="how long it lasts; none: half of the mean transit time, volume over flow"
    )
    concentration: Positive = Field(1.0, description="its largest concentration, in any unit")


class TransportSettings(Section):
    """What the flow carries, on the lattice of the flow: the age of blood, a bolus of contrast, drug from the wall."""

    age: bool = Field(True, description="time since the blood came in, as a field")
    bolus: BolusSettings | None = Field(
        BolusSettings(), description="contrast: its curve at each outlet, its washout from sacs, an angiogram; none: no"
    )
    wall_flux_m_s: NonNegative = Field(
        0.0, description="drug that comes in through the wall, in a unit of concentration times m/s; 0: none"
    )
    diffusivity_m2_s: NonNegative = Field(
        1e-9, description="diffusivity in blood; raised to the least that the lattice resolves, which is said"
    )
    grid_peclet: Annotated[float, Field(ge=1, le=100)] = Field(
        10.0, description="largest speed times spacing over diffusivity: higher is sharper, and over- and undershoots"
    )
    settled: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        0.01, description="part of the age, or drug, in the vessel that may be missing still when it counts as settled"
    )
    washed_out: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.02, description="part of the bolus in the vessel at which it counts as washed out"
    )
    max_transits: Annotated[float, Field(ge=3, le=10_000)] = Field(
        40.0, description="mean transit times after which each of them ends anyway, with a warning"
    )

    @model_validator(mode="after")
    def _something_is_carried(self) -> Self:
        if not (self.age or self.bolus or self.wall_flux_m_s):
            raise ValueError("nothing is carried: give age, bolus or wall_flux_m_s, or leave the section out")
        return self


class TransportInput(TransportSettings):
    """The same with what it takes of the section solve."""

    backend: str = "auto"
    precision: str = "fp32"

    def for_solver(self) -> scalar_settings.TransportSettings:
        """As the solver takes it."""
        values = self.model_dump()
        bolus = values.pop("bolus")
        return scalar_settings.TransportSettings(**values, bolus=scalar_settings.Bolus(**bolus) if bolus else None)
