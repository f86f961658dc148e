# SPDX-License-Identifier: Apache-2.0
"""The pulse in arteries: forward and backward waves, wave intensity, feet, augmentation; of one cycle's waveforms.

Waveforms are evenly spaced samples of one period, whose first value follows on the last.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

HIGHEST_HZ = 25.0
"""Harmonics beyond it are left out where slopes are looked at: catheters and tonometers see no more."""
STEEP = 0.4
"""Part of the steepest rise with which the front of a pulse begins."""
GENTLE = 0.25
"""A shoulder is no steeper than this part of the steepest rise, or fall: kinks in a front are none."""
FINE = 4000
"""Places of a period at which a smooth waveform is looked at."""


@dataclass(frozen=True)
class Waves:
    """A pulse as the sum of a wave that runs away from the heart and one that comes back.

    Attributes
    ----------
    forward_pa, backward_pa : p+ and p-, above the state of least pressure, (samples,).
    intensity_forward, intensity_backward : dI+ and dI-, W/(m^2 s^2), per time squared; the second is below 0.
    """

    forward_pa: Reals
    backward_pa: Reals
    intensity_forward: Reals
    intensity_backward: Reals

    @property
    def reflection_magnitude(self) -> float:
        """Amplitude of the backward wave by that of the forward one (Westerhof et al. 1972)."""
        return float(np.ptp(self.backward_pa) / max(np.ptp(self.forward_pa), 1e-300))


def separated(pressure_pa: Reals, flow_m3_s: Reals, impedance_pa_s_m3: float, area_m2: float, period_s: float) -> Waves:
    """Forward and backward waves of a pulse, and their intensities.

    With p and q above the state in which the pressure is least,

        p+ = (p + Z q)/2,    p- = (p - Z q)/2,
        dI+ = (dp/dt + Z dq/dt)^2 / (4 Z A),    dI- = -(dp/dt - Z dq/dt)^2 / (4 Z A),

    in which Z A = rho c. Sources: Westerhof et al. (1972), doi:10.1093/cvr/6.6.648; wave intensity: Parker and Jones
    (1990), doi:10.1115/1.2891191, by time as in Parker (2009), doi:10.1007/s11517-009-0439-y.

    Parameters
    ----------
    pressure_pa, flow_m3_s : at one place, (samples,); flow away from the heart.
    impedance_pa_s_m3 : Z = rho c/A there.
    area_m2 : A, with which Z was made.
    period_s : of the samples.
    """
    least = int(np.argmin(pressure_pa))
    p, zq = pressure_pa - pressure_pa[least], impedance_pa_s_m3 * (flow_m3_s - flow_m3_s[least])
    rise, flow_rise = _rate(p, period_s), _rate(zq, period_s)
    speed = 4.0 * impedance_pa_s_m3 * area_m2
    return Waves((p + zq) / 2, (p - zq) / 2, (rise + flow_rise) ** 2 / speed, -((rise - flow_rise) ** 2) / speed)


def _rate(values: Reals, period_s: float) -> Reals:
    """Rate of change, by differences over two samples."""
    return (np.roll(values, -1) - np.roll(values, 1)) * (len(values) / (2.0 * period_s))


def smooth(values: Reals, period_s: float) -> tuple[Reals, Reals, Reals]:
    """A waveform and its first two derivatives by time, at :data:`FINE` places, without harmonics beyond
    :data:`HIGHEST_HZ`.
    """
    kept = min(ceil(HIGHEST_HZ * period_s), (len(values) - 1) // 2)
    part = np.fft.rfft(values)[: kept + 1] * (FINE / len(values))
    rate = 2j * np.pi * np.arange(kept + 1) / period_s
    found = (np.fft.irfft(np.pad(part * rate**order, (0, FINE // 2 - kept)), FINE) for order in range(3))
    value, first, second = found
    return value, first, second


def foot_s(pressure_pa: Reals, period_s: float) -> float | None:
    """Time at which a pulse begins: where the tangent of the steepest rise meets the level of the least pressure.

    Source: Chiu et al. (1991), Am. Heart J. 121, 1460, intersecting tangents. None where nothing pulsates.
    """
    if _still(pressure_pa):
        return None
    value, slope, _ = smooth(pressure_pa, period_s)
    steepest = int(np.argmax(slope))
    at = steepest * period_s / FINE
    return float(at - (value[steepest] - value.min()) / slope[steepest])


def later_s(first_s: float, second_s: float, period_s: float) -> float:
    """Time by which the second of two feet follows the first, between -1/2 and 1/2 of the period.

    Parameters
    ----------
    first_s, second_s : when the feet are, s.
    period_s : after which both come again, s.
    """
    return (second_s - first_s + period_s / 2) % period_s - period_s / 2


def _still(values: Reals) -> bool:
    return bool(np.ptp(values) <= 1e-9 * max(float(np.abs(values).max()), 1e-300))


@dataclass(frozen=True)
class Augmentation:
    """The two systolic pressures of an arterial pulse.

    Attributes
    ----------
    first_pa, second_pa : P1 and P2: the first shoulder or peak of the rise, and the second one.
    index : (P2 - P1)/(systolic - diastolic): above 0 where the wave that comes back makes the peak.
    """

    first_pa: float
    second_pa: float
    index: float


def augmentation(pressure_pa: Reals, period_s: float, ejection_s: float) -> Augmentation | None:
    """Augmentation index, AIx = (P2 - P1)/(systolic - diastolic pressure).

    P1 is at the first shoulder or peak behind the front of the pulse. Where it comes before the systolic peak, that is
    P2; where it is the peak, P2 is the next shoulder or peak above the mean while the heart ejects. A shoulder is where
    the slope is least in a rise, or largest in a fall, and not above a quarter of the steepest. Sources: Murgo et al.
    (1980), doi:10.1161/01.CIR.62.1.105; Kelly et al. (1989), doi:10.1161/01.CIR.80.6.1652.

    Parameters
    ----------
    pressure_pa : at one place, (samples,).
    period_s : of the samples.
    ejection_s : for how long the heart ejects; later than that after the foot is no systole.

    Returns
    -------
    None where nothing pulsates, or systole has one peak and no shoulder.
    """
    if _still(pressure_pa):
        return None
    value, slope, bend = smooth(pressure_pa, period_s)
    start = _front(value, slope)
    value, slope, bend = (np.roll(each, -start) for each in (value, slope, bend))
    systole = max(int(ejection_s / period_s * FINE), 2)
    falls = _crossings(slope, systole)
    shoulders = _shoulders(slope, bend, systole)
    places = sorted([*falls, *shoulders])
    peak = int(np.argmax(value))
    later = [peak] if places and places[0] < peak else [k for k in places[1:] if value[k] > value.mean()]
    if not later:
        return None
    first, second = float(value[places[0]]), float(value[later[0]])
    return Augmentation(first, second, (second - first) / float(np.ptp(value)))


def _front(value: Reals, slope: Reals) -> int:
    """Where the first rise after the least pressure is steep."""
    least = int(np.argmin(value))
    return least + int(np.argmax(np.roll(slope, -least) >= STEEP * slope.max()))


def _crossings(slope: Reals, end: int) -> list[int]:
    """Peaks: where a slope comes from above 0."""
    return [k for k in range(1, end) if slope[k - 1] > 0.0 >= slope[k]]


def _shoulders(slope: Reals, bend: Reals, end: int) -> list[int]:
    """Where a rise is least steep between two steeper parts, or a fall is, and gentle beside the steepest."""
    up, down = GENTLE * float(slope.max()), GENTLE * float(slope.min())
    rising = [k for k in range(1, end) if bend[k - 1] < 0.0 <= bend[k] and 0.0 < slope[k] <= up]
    falling = [k for k in range(1, end) if bend[k - 1] > 0.0 >= bend[k] and down <= slope[k] < 0.0]
    return rising + falling


def ejection_s(flow_m3_s: Reals, period_s: float) -> float:
    """For how long the heart ejects: from where flow rises steepest to where it first is not above 0 any more; a third
    of the period where it never is.
    """
    value, slope, _ = smooth(flow_m3_s, period_s)
    value = np.roll(value, -int(np.argmax(slope)))
    peak = int(np.argmax(value))
    ended = np.flatnonzero(value[peak:] <= 0.0)
    return float((peak + ended[0]) / FINE * period_s) if len(ended) else period_s / 3.0
