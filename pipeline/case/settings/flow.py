# SPDX-License-Identifier: Apache-2.0
"""Settings of the stages of the flow: solve, postprocess, trace, report."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from pipeline.case.settings.base import Finite, Name, NonNegative, Point, Positive, Section, existing_file
from solver.backends.cuda.device_count import device_count
from solver.boundary import opening_settings
from solver.boundary.waveform import read_samples
from solver.run.blood import choose_blood
from solver.runtime.errors import StageError

Precision = Literal["fp32", "fp64", "fp16"]
MurrayExponent = Annotated[float, Field(ge=1, le=4)]


MOST_RANKS, DEVICES = 32767, "devices"


def _of_devices(ranks: Any) -> Any:
    """One rank for each device where the case says so, and one where there is none."""
    return max(device_count(), 1) if ranks == DEVICES else ranks


Ranks = Annotated[
    int,
    Field(ge=1, le=MOST_RANKS),
    BeforeValidator(_of_devices),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_RANKS}, {"const": DEVICES}]}),
]


def _waveform(column: str) -> Callable[[str | None], str | None]:
    """What takes a file of a waveform: it is there, and holds one period, so that no stage runs before it is found."""

    def taken(path: str | None) -> str | None:
        found = existing_file(path)
        try:
            if found is not None:
                read_samples(Path(found), column)
        except StageError as error:
            raise ValueError(str(error)) from None
        return found

    return taken


class InletSettings(Section, opening_settings.InletSettings):
    """Flow into the vessel: steady, or a waveform that repeats."""

    flow_ml_s: Positive | None = Field(None, description="steady flow, or the mean to which the waveform is scaled")
    waveform: str | None = Field(
        None,
        description="CSV with the columns time_s and flow_ml_s, or in other units that their heads tell, one period",
    )
    profile: Literal["developed", "parabolic", "plug", "womersley"] = Field(
        "developed", description="velocity over the inlet: developed and womersley follow the shape of its cap"
    )
    interpolation: Literal["spline", "fourier", "linear"] = Field(
        "spline", description="between the waveform's samples; periodic"
    )
    harmonics: Annotated[int, Field(ge=1, le=50)] | None = Field(
        None, description="of the waveform, at most; none: all of them, or 10 with the profile womersley"
    )
    pulsatility: Positive = Field(1.0, description="factor of what the waveform differs from its mean by")

    _holds_flow = field_validator("waveform")(_waveform("flow_ml_s"))

    @model_validator(mode="after")
    def _given(self) -> Self:
        if self.flow_ml_s is None and self.waveform is None:
            raise ValueError("neither flow_ml_s nor waveform is given; give one, or both to scale the waveform's mean")
        if self.pulsatility != 1 and self.waveform is None:
            raise ValueError("pulsatility: a steady flow has none; give a waveform, or leave it out")
        return self


class WindkesselSettings(Section, opening_settings.WindkesselSettings):
    """Vessels behind an outlet: resistances and a compliance. What is not given follows from the flow and pressure
    that the outlet is to have on average.
    """

    elements: Literal[2, 3] = Field(3, description="2: without the proximal resistance")
    proximal_mmhg_s_ml: NonNegative | None = Field(
        None, description="resistance in front; none: of a vessel of the outlet's size, a tenth of the sum at most"
    )
    distal_mmhg_s_ml: Positive | None = Field(
        None, description="resistance behind; none: from pressure_mmhg and the outlet's part of the mean flow"
    )
    compliance_ml_mmhg: NonNegative | None = Field(
        None, description="none: of all outlets together as time_constant_s says, shared by area"
    )
    time_constant_s: Positive = Field(1.5, description="distal resistance times compliance")
    distal_pressure_mmhg: Finite = Field(0.0, description="pressure behind the distal resistance")


class OutletSettings(Section, opening_settings.OutletSettings):
    """Pressure at an outlet: given, of a Windkessel, or such that a given part of the flow leaves there."""

    pressure_mmhg: Finite = Field(0.0, description="pressure on the cap; with a Windkessel the mean that is wanted")
    waveform: str | None = Field(
        None, description="CSV with the columns time_s and pressure_mmhg, one period; pressure_mmhg is added to it"
    )
    windkessel: WindkesselSettings | None = Field(None, description="none: the pressure is given")
    flow_fraction: Annotated[float, Field(gt=0, lt=1)] | Literal["murray"] | None = Field(
        None,
        description="part of the mean inflow that leaves here, for a Windkessel's resistances (none: murray), else"
        " imposed by adjusting the pressure (none: as it comes); murray: by radius to the power of murray_exponent",
    )

    _holds_pressure = field_validator("waveform")(_waveform("pressure_mmhg"))

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.waveform and (self.windkessel or self.flow_fraction):
            raise ValueError("waveform: not together with windkessel or flow_fraction; a pressure is given or follows")
        return self


class BloodSettings(Section):
    """How viscosity depends on the shear rate: a model with one of its published sets of parameters, or your own."""

    model: Literal["newtonian", "carreau-yasuda", "casson", "power-law", "bingham", "herschel-bulkley"] = Field(
        "newtonian", description="newtonian: viscosity_pa_s"
    )
    set: str | None = Field(None, description="name of a published set of parameters; none: the model's first")
    parameters: dict[str, Positive] = Field(
        default_factory=dict, description="in place of those of the set, in SI, by name"
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        try:
            choose_blood(self.model, self.set, self.parameters, viscosity_pa_s=1.0)
        except StageError as error:
            raise ValueError(str(error)) from None
        return self


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

    density_kg_m3: Positive = Field(1060.0, description="of the blood")
    viscosity_pa_s: Positive = Field(3.5e-3, description="of Newtonian blood")
    blood: BloodSettings = Field(default_factory=BloodSettings, description="other than Newtonian")
    inlets: dict[str, InletSettings] = Field(
        default_factory=dict, description="required, unless a canonical geometry has none"
    )
    outlets: dict[str, OutletSettings] = Field(default_factory=lambda: {"*": OutletSettings()}, min_length=1)
    murray_exponent: MurrayExponent = Field(
        3.0, description="flow follows radius to this power: 3, or 2 to 2.3 in large arteries"
    )
    backend: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where a device answers")
    ranks: Ranks = Field(
        1,
        description="processes of MPI that run a part of the lattice each, on a CUDA device each or sharing the cores;"
        " the results are the same bits. devices: as many as CUDA devices of the machine that plans the run; on a"
        " cluster give the number",
    )
    precision: Precision = Field("fp32", description="fp16: populations are kept in 16 bits and computed in fp32")
    collision: Literal["auto", "bgk", "trt", "projected", "recursive", "cumulant"] = Field(
        "auto",
        description="auto: by the grid Reynolds number, and safer ones where the flow asks for them; cumulant is for"
        " D3Q27",
    )
    velocity_set: Literal["auto", "D3Q19", "D3Q27"] = Field(
        "auto",
        description="auto: by the grid Reynolds number. D3Q27 bends a fast flow less than D3Q19, and takes 1.4 times as"
        " much memory",
    )
    lambda_trt: Positive | None = Field(
        None, description="Lambda of trt and cumulant; none: by tau and the grid Reynolds number"
    )
    equilibrium: Literal["incompressible", "compressible", "incompressible-standard", "compressible-standard"] = Field(
        "incompressible", description="-standard: with the anisotropic fourth moment of D3Q19, as in older works"
    )
    smagorinsky: Annotated[float, Field(gt=0, le=0.3)] | None = Field(
        None, description="constant of the eddy viscosity, 0.1 to 0.2; none: no model of turbulence"
    )
    walls: Literal["bouzidi", "half-way", "yu", "cli"] = Field(
        "bouzidi", description="bouzidi, yu, cli: interpolated, of second order; half-way: of first order"
    )
    lattice_speed: Annotated[float, Field(gt=0, le=0.17)] = Field(
        0.08, description="the expected peak speed in lattice units; sets the time step"
    )
    peak_speed_m_s: Positive | None = Field(
        None, description="expected peak speed; none: twice the largest mean speed over the openings and sections"
    )
    ramp_s: NonNegative | None = Field(
        None, description="time over which inflow and moving walls are raised; none: 15 acoustic transits"
    )
    start: Literal["auto", "rest", "coarse"] = Field(
        "auto",
        description="what a steady flow starts from. rest: fluid at rest, with an inflow that is raised. coarse: the"
        " flow at twice the spacing. auto: coarse where that takes less time; waveforms start at rest",
    )
    steady_tolerance: Positive = Field(
        1e-3,
        description="steady flow: stop when the relative RMS change over a viscous time, that of a sac where there is"
        " one, is below this",
    )
    cycles: Annotated[int, Field(ge=1)] = Field(
        6,
        description="waveform: periods to run at most; as many again, of which phases are averaged, where velocities"
        " still vary from one to the next",
    )
    min_cycles: Annotated[int, Field(ge=1)] = Field(3, description="waveform: periods to run at least")
    periodic_tolerance: Positive = Field(
        0.01, description="waveform: stop when velocity and pressures repeat within this from cycle to cycle"
    )
    max_steps: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="end after this many steps; none: a steady run after ten times those that are expected, twice"
        " unsteady_throughs or a million steps, whichever is most, and a waveform after its cycles",
    )
    unsettled: Literal["refuse", "report"] = Field(
        "refuse",
        description="a flow that has not settled, or does not repeat, when steps or cycles are over. refuse: an error;"
        " with higher limits the next run goes on. report: results that say so in their first line",
    )
    unsteady_tolerance: Positive = Field(
        0.01,
        description="steady conditions, a flow that fluctuates: its mean is taken until the standard errors of means of"
        " energy, speeds, pressures and flows are below this part of them",
    )
    unsteady_throughs: Annotated[float, Field(ge=10)] = Field(
        50.0,
        description="the same, flow-through times (volume over inflow) from when it is recognised, after which the run"
        " ends with the mean that it has, and with that mean's error",
    )
    snapshots: Annotated[int, Field(ge=1)] = Field(
        40, description="time steps in the flow file: over the last period of a waveform; a steady run keeps its last"
    )
    phases: list[Annotated[float, Field(gt=0, le=1)]] | None = Field(
        None, description="of these parts of the period, in place of evenly spaced snapshots", min_length=1
    )
    phase_averages: bool = Field(
        False, description="snapshots hold the average over all cycles but the first; memory for each of them"
    )
    monitor_s: Positive | None = Field(
        None,
        description="time between rows of the monitor; none: 200 a period, or a hundredth of what is shorter: the"
        " viscous time, or that in which the fastest fluid crosses the domain",
    )
    force_n_m3: Point = Field((0.0, 0.0, 0.0), description="force on the fluid, x, y, z")
    patches: dict[str, PatchSettings] = Field(
        default_factory=dict, description="patches of a canonical geometry's wall, by name; those not named are at rest"
    )

    def thinnest_pa_s(self) -> float:
        """Least viscosity that the blood has in arteries, at shear rates of 1 to 1000 1/s."""
        blood = choose_blood(self.blood.model, self.blood.set, self.blood.parameters, self.viscosity_pa_s)
        return float(blood.viscosity_pa_s((1.0, 1000.0)).min())


class SacSettings(Section):
    """An aneurysm's sac, by a plane through its neck: what lies beyond the plane, and is connected to it there."""

    name: Name = Field("sac", description="in indices.json and messages")
    neck_mm: Point = Field(description="a point in the neck, in the lumen, x, y, z, LPS")
    normal: Point = Field(description="from the parent vessel into the sac, of any length")
    radius_mm: Positive | None = Field(
        None, description="the neck reaches no farther from neck_mm, else the plane is refused; none: no limit"
    )

    @field_validator("normal")
    @classmethod
    def _points_somewhere(cls, normal: Point) -> Point:
        if not any(normal):
            raise ValueError("has no direction; give a vector from the parent vessel into the sac")
        return normal


class PostprocessSettings(Section):
    """Wall shear stress and cross-sections."""

    fit_nodes: Annotated[float, Field(ge=2, le=6)] = Field(
        2.0, description="radius, in lattice spacings, of the fit that carries the stress to the wall"
    )
    lessen_noise: bool = Field(
        True,
        description="take what varies along the wall within some spacings, and no more than the noise of the map does,"
        " out of the wall shear stress; peaks stay",
    )
    sacs: list[SacSettings] = Field(
        default_factory=list, description="sacs of aneurysms, each by a plane through its neck"
    )
    find_sacs: Literal[False] | Annotated[float, Field(gt=1, le=4)] = Field(
        1.3,
        description="search for sacs, beside those in sacs: wall farther from the parent's line than so many of the"
        " parent's radii, 1.3 to 2; none is reported where it is in doubt; false: no search",
    )

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [sac.name for sac in self.sacs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"sacs: the name {', '.join(twice)} is given more than once; names must differ")
        return self


class TraceSettings(Section):
    """Streamlines, particles, and how long the blood stays."""

    streamlines: Annotated[int, Field(ge=1, le=5000)] = Field(150, description="number of streamlines from the inlets")
    pathlines: Annotated[int, Field(ge=10, le=100_000)] = Field(
        2000, description="particles released at the inlets, over one period of a periodic flow"
    )
    particles: Annotated[int, Field(ge=100, le=10_000_000)] = Field(
        20_000, description="particles spread over the volume for the residence time"
    )
    limit_cycles: Annotated[float, Field(gt=0, le=100)] = Field(
        5.0, description="periodic flow: periods over which a particle is traced at most"
    )
    limit_transits: Annotated[float, Field(gt=0, le=1000)] = Field(
        20.0, description="steady flow: the same in mean transit times, volume over inflow"
    )
    step: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="longest way of a particle in one step, in lattice spacings"
    )
    frames: Annotated[int, Field(ge=8, le=200)] = Field(48, description="pictures of the animation")


class ConvergenceSettings(Section):
    """The case once more on coarser lattices, and what follows of the error of its spacing."""

    spacings: Literal[1, 2, 3] = Field(1, description="lattices that the case runs on: 1, its own alone; 2 or 3")
    ratio: Annotated[float, Field(gt=1.2, le=3)] = Field(
        1.5, description="each further lattice is so much coarser than the one before"
    )
    safety: Annotated[float, Field(ge=1, le=10)] | None = Field(
        None, description="factor of safety on the estimated error; none: 1.25 with three spacings, 3 with two"
    )


class ReportSettings(Section):
    """The page."""

    title: str | None = Field(
        None, max_length=300, description="none: the name of the case; write no name of a patient"
    )
    streamlines: Annotated[int, Field(ge=1, le=2000)] = Field(60, description="number of streamlines from the inlet")
