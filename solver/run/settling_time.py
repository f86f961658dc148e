# SPDX-License-Identifier: Apache-2.0
"""How fast a flow settles, before it is computed.

A run ends when what its ramp has left behind has died away. Outlets of a steady flow let waves leave
(:mod:`solver.run.boundary_schedule`), so that the profile is what is left. Where the vessel is widest, with the radius
R, friction wears it off at some 10 nu/R^2, and the flow Q carries it out of the length L. Last of all is what is slow,
at the wall: in a layer of thickness d the stream leaves within L R/(U d), and friction acts within d^2/nu. Both are the
same for d^3 = nu L R/U (Leveque 1928, Annales des Mines 13), so that the rate is

    s = nu/R^2 [10 + 12 (Q/(pi nu L))^(2/3) a^(3/4)],

a, of a tube, the mean speed over its outlet over that over its inlet where that is larger, else 1: with the radius of
the outlet what is carried out would grow with a itself, with that of the inlet not at all.

In a section that is not round what varies along its width settles last, and the shear at the wall is less: R is twice
its area over its perimeter where that is more than the radius of a sphere that has room, and of Q counts the part
R^2 pi/A, A the area of the opening.

Behind a narrowing an eddy lies between the stream and the wall. Of a section whose mean speed is m times the largest at
the openings, the stream has the radius R/sqrt(m), so that the eddy is h = R (1 - 1/sqrt(m)) high. It settles at

    s = 14 nu/(R h),

if that is slower. Behind inlets that are narrower than an outlet the stream may keep to one wall: h = R there. In a sac
what the stream drives settles the more slowly the faster that is: above Re = `DRIVEN` of the stream s is smaller by
`DRIVEN`/Re. These numbers are fitted to flows of the matrix in tests/support/stability_matrix.py and to flows drawn at
random, and were tried on others drawn afterwards (docs/validation/stability.md).

Where waves stay, in flows that pulsate, the slowest motion of a vessel between an inlet of given
flow and an outlet of given pressure is a standing wave, a quarter of a wavelength long, of frequency
omega = pi c_s/(2 L). With Womersley's number alpha = R sqrt(omega/nu) friction damps it at the rate

    (1 + alpha/sqrt 2)/T    where it oscillates (the dispersion of Womersley 1955, doi:10.1113/jphysiol.1955.sp005276,
                            expanded for large alpha),
    alpha^4/(8 T)           where it creeps, alpha below about 2 (Poiseuille's friction),

whichever is smaller, and the mean flow carries it out at 4 U/(3 L), since waves run faster with the stream than against
it; the rate of the profile bounds that.

In a sac a pulse leaves a slow motion behind, which friction wears off at 20.2 nu/R^2, the slowest rate in a sphere, and
which what passes carries out, the less the wider the sac is than the opening, of radius r:

    s = 20.2 nu/R^2 + 4 U/(9 L) (r/R)^2.

Fluid that lies beside the stream, in an eddy, in a sac or under a lid, settles the more slowly the nearer its flow is
to fluctuating, which nothing tells beforehand: not how fast the same flow settles at twice the spacing, nor, of an eddy
and under a lid, its size and speed. So what is forecast is a range, which is wider there.
"""

from dataclasses import dataclass, replace
from math import inf, log, pi, sqrt

DIFFUSION = 26.4
"""Rate, in nu/R^2, at which the profile of a given flow settles in a tube: the first zero of J_2, squared."""
WORN, CARRIED, EDDY = 10.0, 12.0, 14.0
"""Rates, in nu/R^2, at which a profile is worn off and carried out where waves leave, and at which an eddy as high as
R settles: see the module."""
DRIVEN = 300.0
"""Reynolds number of the stream from which on what it drives in a sac settles more slowly: see the module."""
SPHERE, BEGINS = 20.2, 4.0
"""Rate, in nu/R^2, of the slowest motion in a sphere, the first zero of j_1, squared; and, about, the difference of
a sac's first two cycles from rest, over the speed there."""
TAPERED = 0.75
"""Power of the speed at the outlet of a tube over that at its inlet, with which what is carried out grows."""
COARSE = 10.0
"""Times the inverse square of the nodes across a coarse lattice that its flow is off by, when it has settled there."""
CALM, LIVELY, TURNED = (0.6, 1.5), (0.5, 2.5), (0.5, 5.0)
"""Parts of the steps forecast between which a run takes its own: where the stream fills the vessel, or friction rules;
where fluid lies beside a fast stream; and where a lid turns all of it over sooner than friction acts."""
CORRECTED, CORRECTED_BESIDE = 0.75, 0.5
"""Part of the steps from the flow on a coarse lattice that a run takes which that lattice corrects on the way; where
fluid lies beside the stream, which friction alone moves, it gains more, but not in a sac: 0.45 to 1.14, in the mean
0.74, of nine drawn ones."""


@dataclass(frozen=True)
class Settling:
    """How what a run began with dies away: as exp(-s t), of a motion at the radian rate omega.

    The residual is the change over the viscous time T, so that a part p of the motion has the residual omega T p.

    Attributes
    ----------
    rate_1_s : s.
    motion_1_s : omega; s itself of what creeps.
    viscous_s : T.
    spread : parts of the steps forecast between which they lie.
    corrected : part of them that is left where a coarse lattice corrects the flow.
    slowed : times as long as it would take if the stream did not drive it: see :meth:`in_sac`.
    """

    rate_1_s: float
    motion_1_s: float
    viscous_s: float
    spread: tuple[float, float] = CALM
    corrected: float = CORRECTED
    slowed: float = 1.0

    @classmethod
    def creeping(cls, rate_1_s: float, viscous_s: float) -> "Settling":
        """Of what moves at the rate at which it settles."""
        return cls(rate_1_s, rate_1_s, viscous_s)

    def in_sac(self, reynolds: float) -> "Settling":
        """What it is where the slowest motion is that in a sac, by the Reynolds number of the stream that passes it."""
        slowed = max(1.0, reynolds / DRIVEN)
        return replace(self, rate_1_s=self.rate_1_s / slowed, slowed=slowed)

    def time_s(self, part: float, tolerance: float) -> float:
        """Time until the residual of a part of the motion is below the tolerance."""
        return max(0.0, log(self.motion_1_s * self.viscous_s * part / tolerance)) / self.rate_1_s

    def raised_s(self, ramp_s: float, tolerance: float) -> float:
        """Time from the end of a ramp until the residual is below the tolerance.

        What is raised as (1 - cos(pi t/t_r))/2, the inflow or a velocity of the walls, leaves the part
        (pi/(omega t_r))^2/2, at most 1, of the motion.

        Parameters
        ----------
        ramp_s : t_r; 0 if it is not raised.
        tolerance : of the residual.
        """
        ramp = self.motion_1_s * ramp_s
        radian_rate = pi / ramp if ramp else inf
        return self.time_s(0.5 * min(2.0, radian_rate * radian_rate), tolerance)

    def from_coarse_s(self, across: float, tolerance: float) -> float:
        """Time until the residual is below the tolerance, from the flow on a coarser lattice.

        Parameters
        ----------
        across : its nodes across the narrowest section, n: it is off by `COARSE`/n^2.
        tolerance : of the residual.
        """
        return self.time_s(min(1.0, COARSE / across**2), tolerance)


# many parameters because each is a symbol of the formula
def profile(
    length_m: float,
    radius_m: float,
    viscosity_m2_s: float,
    flow_m3_s: float,
    viscous_s: float,
    narrowing: float = 1.0,
    narrow_inlet: bool = False,
    faster: float = 1.0,
) -> Settling:
    """Settling of the profile where waves leave: see the module.

    Parameters
    ----------
    length_m, radius_m : of the vessel, R where it is widest.
    viscosity_m2_s, flow_m3_s : nu, Q.
    viscous_s : the residual's viscous time.
    narrowing : m, the largest mean speed in a section over that at the openings.
    narrow_inlet : whether an outlet is wider than all inlets together.
    faster : how much faster it leaves than it enters.
    """
    friction = viscosity_m2_s / radius_m**2
    height = 1.0 if narrow_inlet else 1 - 1 / sqrt(max(narrowing, 1.0))
    carried = WORN + CARRIED * (flow_m3_s / (pi * viscosity_m2_s * length_m)) ** (2 / 3) * max(faster, 1.0) ** TAPERED
    return Settling.creeping((min(carried, EDDY / height) if height else carried) * friction, viscous_s)


# many parameters because each is a symbol of the formula
def standing_wave(
    length_m: float,
    radius_m: float,
    viscosity_m2_s: float,
    sound_m_s: float,
    speed_m_s: float,
    viscous_s: float,
    most: float = inf,
) -> Settling:
    """Settling of a run in which waves stay.

    Parameters
    ----------
    length_m, radius_m : of the vessel, R twice its volume over the area of its walls.
    viscosity_m2_s, sound_m_s, speed_m_s : nu, c_s, U.
    viscous_s : the residual's viscous time.
    most : rate, in nu/R^2, at which flow settles that friction moves alone, as behind a widening: most of the stream
        passes it by.
    """
    time_s = radius_m**2 / viscosity_m2_s
    omega = pi / 2 * sound_m_s / length_m
    alpha = sqrt(omega * time_s)
    friction = min(1 + alpha / sqrt(2), alpha**4 / 8, DIFFUSION) / time_s
    carried = 4 * speed_m_s / (3 * length_m)
    return Settling(min(friction + carried, most / time_s + carried / 3), omega, viscous_s)


def pulse_in_sac_s(
    radius_m: float, opening_m: float, viscosity_m2_s: float, crossed_1_s: float, tolerance: float
) -> float:
    """Time until the cycles of a pulse differ by less than a tolerance in a sac, over the speed there: see the module.

    Parameters
    ----------
    radius_m, opening_m : R of the sac, r of the largest opening.
    viscosity_m2_s : nu.
    crossed_1_s : U/L.
    tolerance : of the difference.
    """
    carried_1_s = 4 / 9 * crossed_1_s * (opening_m / radius_m) ** 2
    return max(0.0, log(BEGINS / tolerance)) / (SPHERE * viscosity_m2_s / radius_m**2 + carried_1_s)
