# SPDX-License-Identifier: Apache-2.0
"""What an inlet and an outlet are given: the one declaration of its keys, from which the section of a case file follows
(``pipeline/case/settings/flow.py`` adds limits and words).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class InletSettings:
    """Flow into the vessel: steady, or a waveform that repeats.

    Attributes
    ----------
    flow_ml_s : steady flow, or the mean to which the waveform is scaled.
    waveform : file with one period; its flow is taken as it is where there is no mean.
    profile : velocity over the inlet, ``developed``, ``parabolic``, ``plug`` or ``womersley``, which takes harmonics.
    interpolation : between the waveform's samples, ``linear``, ``spline`` or ``fourier``.
    harmonics : of the waveform, at most; none: as many as there are, or with the profile womersley
        `waveform.WOMERSLEY_HARMONICS`.
    pulsatility : factor of what the waveform differs from its mean by.
    """

    flow_ml_s: float | None
    waveform: str | None
    profile: str
    interpolation: str = "spline"
    harmonics: int | None = None
    pulsatility: float = 1.0


@dataclass(frozen=True)
class WindkesselSettings:
    """Vessels behind an outlet; what is none follows.

    Attributes
    ----------
    elements : 2 or 3; two have no proximal resistance.
    proximal_mmhg_s_ml, distal_mmhg_s_ml : resistances Rp and Rd.
    compliance_ml_mmhg : C.
    time_constant_s : Rd C.
    distal_pressure_mmhg : behind Rd.
    """

    elements: int = 3
    proximal_mmhg_s_ml: float | None = None
    distal_mmhg_s_ml: float | None = None
    compliance_ml_mmhg: float | None = None
    time_constant_s: float = 1.5
    distal_pressure_mmhg: float = 0.0


@dataclass(frozen=True)
class OutletSettings:
    """Pressure on the cap of an outlet: given, or such that it follows from the flow.

    Attributes
    ----------
    pressure_mmhg : on the cap; with vessels behind it the mean that is wanted.
    waveform : file of a pressure over one period, which is added.
    windkessel : vessels behind it.
    flow_fraction : part of the mean inflow that leaves here, or ``murray``.
    """

    pressure_mmhg: float
    waveform: str | None = None
    windkessel: WindkesselSettings | None = None
    flow_fraction: float | str | None = None
