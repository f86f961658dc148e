# SPDX-License-Identifier: Apache-2.0
"""Ends of a network: what drives it at its inlets, and what lies behind its terminals, as keys of a network's file."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.case.settings.base import Finite, NonNegative, Positive, Section

Interpolation = Literal["spline", "fourier", "linear"]


class Ventricle(Section):
    """The left ventricle as a time-varying elastance between two valves: p = E(t) (V - V0) (Suga and Sagawa 1974,
    doi:10.1161/01.RES.35.1.117), with E(t) of Stergiopulos et al. 1996, doi:10.1152/ajpheart.1996.270.6.H2050. Both
    elastances, V0 and the atrium's pressure are those that two public programs hold as this paper's; both valves and
    the volume to begin with are own choices.
    """

    period_s: Positive = Field(1.0, description="of a beat")
    largest_mmhg_ml: Positive = Field(2.31, description="elastance at the end of systole")
    least_mmhg_ml: Positive = Field(0.06, description="elastance in diastole")
    unstressed_ml: Finite = Field(20.0, description="V0: volume at no pressure")
    atrium_mmhg: Positive = Field(7.5, description="pressure in the left atrium")
    mitral_mmhg_s_ml: Positive = Field(0.003, description="resistance of the open mitral valve")
    valve_mmhg_s_ml: NonNegative = Field(0.003, description="resistance of the open aortic valve")
    valve_area_mm2: Positive = Field(
        500.0, description="opening of the aortic valve, of which the loss rho Q^2 / (2 A^2) follows"
    )
    start_ml: Positive = Field(120.0, description="volume to begin with")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for low, high in (("least_mmhg_ml", "largest_mmhg_ml"), ("unstressed_ml", "start_ml")):
            if getattr(self, low) >= getattr(self, high):
                raise ValueError(
                    f"{low} = {getattr(self, low):g} is not below {high} = {getattr(self, high):g}; exchange or"
                    " correct them"
                )
        return self


DRIVES = ("flow_waveform", "flow_ml_s", "pressure_waveform", "pressure_mmhg", "heart")


class Inlet(Section):
    """What drives the network at a node: a flow, a pressure or a heart."""

    flow_waveform: str | None = Field(
        None, description="CSV with the columns time_s and flow_ml_s, one period; beside the network's file, or a path"
    )
    flow_ml_s: Finite | None = Field(
        None, description="steady flow; with flow_waveform the mean that this is scaled to"
    )
    pressure_waveform: str | None = Field(None, description="CSV with the columns time_s and pressure_mmhg, one period")
    pressure_mmhg: Finite | None = Field(None, description="steady pressure; with pressure_waveform added to it")
    heart: Ventricle | None = Field(None, description="a ventricle with its valves; {} is that of a healthy adult")
    interpolation: Interpolation = Field("spline", description="between a waveform's samples; periodic")

    @model_validator(mode="after")
    def _one_drive(self) -> Self:
        given = [key for key in DRIVES if getattr(self, key) is not None]
        if len({key.split("_")[0] for key in given}) != 1:
            raise ValueError(f"{', '.join(given) or 'none'} given; give one of {', '.join(DRIVES)}")
        return self


class Resistance(Section):
    """A resistance behind a terminal."""

    type: Literal["resistance"]
    resistance_mmhg_s_ml: Positive
    distal_pressure_mmhg: Finite = Field(0.0, description="behind it")


class Rcr(Section):
    """Two resistances with a compliance between them (a Windkessel of three elements)."""

    type: Literal["rcr"]
    proximal_mmhg_s_ml: NonNegative | Literal["matched"] = Field(
        "matched", description="in front; matched: the characteristic impedance rho c / A0 of the segment's end"
    )
    distal_mmhg_s_ml: Positive | None = Field(None, description="behind the compliance")
    total_mmhg_s_ml: Positive | None = Field(
        None, description="in place of distal_mmhg_s_ml: both resistances together"
    )
    compliance_ml_mmhg: Positive
    distal_pressure_mmhg: Finite = Field(0.0, description="behind the distal resistance")

    @model_validator(mode="after")
    def _one_resistance(self) -> Self:
        if (self.distal_mmhg_s_ml is None) == (self.total_mmhg_s_ml is None):
            which = "neither" if self.distal_mmhg_s_ml is None else "both"
            raise ValueError(f"distal_mmhg_s_ml and total_mmhg_s_ml: {which} given; give one of them")
        proximal = self.proximal_mmhg_s_ml
        if self.total_mmhg_s_ml and not isinstance(proximal, str) and proximal >= self.total_mmhg_s_ml:
            raise ValueError(
                f"total_mmhg_s_ml = {self.total_mmhg_s_ml:g} is not above proximal_mmhg_s_ml = {proximal:g}; raise it"
            )
        return self


class Matched(Section):
    """A tube without end: no wave returns. It holds no mean pressure, so that another end must."""

    type: Literal["matched"]


class Reflection(Section):
    """An end that sends back a part of each wave."""

    type: Literal["reflection"]
    part: Annotated[float, Field(gt=-1, lt=1)] = Field(description="reflected pressure by incoming pressure")


class Pressure(Section):
    """A pressure, steady or over time."""

    type: Literal["pressure"]
    pressure_mmhg: Finite = Field(0.0, description="steady; with pressure_waveform added to it")
    pressure_waveform: str | None = Field(None, description="CSV with the columns time_s and pressure_mmhg, one period")
    interpolation: Interpolation = Field("spline", description="between a waveform's samples; periodic")


class ByArea(Section):
    """Resistance and compliance of all terminals that this stands for, shared by the area A of their segments' ends.

    R_i = R sum_j(A_j^n) / A_i^n and C_i = C A_i / sum_j(A_j), so that R and C are those of all of them together. Each
    has a matched proximal resistance.
    """

    type: Literal["by-area"]
    resistance_mmhg_s_ml: Positive = Field(description="of all these terminals together, in parallel")
    compliance_ml_mmhg: NonNegative = Field(0.0, description="of all of them together; 0: resistances alone")
    power: Annotated[float, Field(gt=0, le=3)] = Field(
        1.0, description="n: 1 for equal mean speeds; 1.5 for flow with the cube of the radius (Murray)"
    )
    distal_pressure_mmhg: Finite = Field(0.0, description="behind the resistances")


Terminal = Annotated[Resistance | Rcr | Matched | Reflection | Pressure | ByArea, Field(discriminator="type")]
