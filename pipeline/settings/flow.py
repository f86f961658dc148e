"""Settings of the stages of the flow: solve, postprocess, report."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from pipeline.settings.base import Finite, NonNegative, Point, Positive, Section


class InletSettings(Section):
    """Flow into the vessel: steady, or a waveform that repeats."""

    flow_ml_s: Positive | None = Field(None, description="steady flow, or the mean to which the waveform is scaled")
    waveform: str | None = Field(None, description="CSV with the columns time_s and flow_ml_s, one period")
    profile: Literal["parabolic", "plug"] = Field("parabolic", description="shape of the velocity over the inlet")

    @field_validator("waveform")
    @classmethod
    def _exists(cls, path: str | None) -> str | None:
        if path and not Path(path).is_file():
            raise ValueError("no such file; correct the path")
        return path

    @model_validator(mode="after")
    def _given(self) -> Self:
        if self.flow_ml_s is None and self.waveform is None:
            raise ValueError("neither flow_ml_s nor waveform is given; give one, or both to scale the waveform's mean")
        return self


class OutletSettings(Section):
    """Pressure at an outlet."""

    pressure_mmhg: Finite = Field(0.0, description="pressure on the cap")


class PatchSettings(Section):
    """What a patch of the wall does beside holding the fluid."""

    velocity_m_s: Point | None = Field(None, description="it slides along itself, x, y, z")
    slip: bool = Field(False, description="fluid slips along it; only on flat walls half-way between nodes")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.velocity_m_s is not None) == self.slip:
            raise ValueError(f"velocity_m_s and slip: {'both' if self.slip else 'neither'} given; give one of them")
        return self


class SolveSettings(Section):
    """Blood, conditions at the openings, what else drives the flow, numerics.

    The key ``*`` stands for all openings that are not named.
    """

    density_kg_m3: Positive = 1060.0
    viscosity_pa_s: Positive = 3.5e-3
    inlets: dict[str, InletSettings] = Field(
        default_factory=dict, description="required, unless a canonical geometry has none"
    )
    outlets: dict[str, OutletSettings] = Field(default_factory=lambda: {"*": OutletSettings()}, min_length=1)
    backend: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where a device answers")
    precision: Literal["fp32", "fp64"] = "fp32"
    collision: Literal["auto", "bgk", "trt", "projected", "recursive"] = Field(
        "auto", description="auto: by the grid Reynolds number"
    )
    walls: Literal["bouzidi", "half-way"] = "bouzidi"
    lattice_speed: Annotated[float, Field(gt=0, le=0.17)] = Field(
        0.08, description="the expected peak speed in lattice units; sets the time step"
    )
    peak_speed_m_s: Positive | None = Field(
        None, description="expected peak speed; none: twice the largest mean speed over the openings"
    )
    ramp_s: NonNegative | None = Field(
        None, description="time over which the inflow is raised; none: 15 acoustic transits"
    )
    steady_tolerance: Positive = Field(
        1e-3, description="steady flow: stop when the relative RMS change over a viscous time is below this"
    )
    cycles: Annotated[int, Field(ge=1)] = Field(3, description="waveform: periods to run")
    max_steps: Annotated[int, Field(ge=1)] = Field(1_000_000, description="give up after this many steps")
    snapshots: Annotated[int, Field(ge=1)] = Field(
        20, description="time steps in the flow file: over the last period of a waveform; a steady run keeps its last"
    )
    force_n_m3: Point = Field((0.0, 0.0, 0.0), description="force on the fluid, x, y, z")
    patches: dict[str, PatchSettings] = Field(
        default_factory=dict, description="patches of a canonical geometry's wall, by name; those not named are at rest"
    )


class PostprocessSettings(Section):
    """Wall shear stress and cross-sections."""

    fit_nodes: Annotated[float, Field(ge=2, le=6)] = Field(
        3.0, description="radius, in lattice spacings, of the fit that carries the stress to the wall"
    )


class ReportSettings(Section):
    """The page."""

    title: str | None = Field(None, description="none: the name of the case; write no name of a patient")
    streamlines: Annotated[int, Field(ge=1, le=2000)] = Field(60, description="number of streamlines from the inlet")
