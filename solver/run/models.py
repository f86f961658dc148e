# SPDX-License-Identifier: Apache-2.0
"""Models of a run: velocity set, collision, what damps a flow that the lattice cannot hold, the ladder to safer ones.

*Velocity set.* D3Q19's moments c_x^2 c_y c_z are 0, where isotropy asks for u_y u_z/3, and no equilibrium repairs
that: a fast flow across the axes feels the lattice. D3Q27 has them, for 27/19 of the memory and the traffic. It is
taken above the grid Reynolds number `CORNERS_ABOVE`.

The more a model damps, the safer it is, and the more accuracy it costs. So a run begins with the first rung of a
ladder that is meant for its expected grid Reynolds number Re_g = U dx/nu, and climbs: to the next rung where the flow
turns out faster than the present one is for, or where it diverges. Three means stand on the rungs:

*Collision.* TRT with Lambda = min(3/16, 2 (tau - 1/2)) up to Re_g 10, so that the odd part of the populations relaxes
within 2.5 steps: the longer it takes, the more does inertia spoil the velocity that an inlet's links give, and the
stress on the wall behind it. Cumulants above, on D3Q27, with Lambda = `CUMULANT_LAMBDA` for those of third order: the
friction of curved walls then hardly depends on the viscosity; with 1/4 it is 1 % less, but boxes under a lid do not
come to rest. Where D3Q19 has to serve, TRT with min(3/16, (tau - 1/2)/2) up to 30, where waves of some nodes would grow
with more, and projected regularised collision above. That is the safer one everywhere: of what is not at equilibrium it
keeps the stress alone, at the price of friction at curved walls that grows as the viscosity falls.

*Limiter.* An eddy viscosity (C dx)^2 (g - g_0) where the shear rate g is above g_0, none below. The onset is
g_0 = U/(2 dx), at which the speed changes by half of the expected peak U from node to node, or 16 nu/dx^2 if that is
more. At the wall of a pipe N nodes across the shear rate is 4 U/(N dx), so that a flow that the lattice resolves is
left alone. Smagorinsky's model (1963, doi:10.1175/1520-0493(1963)091<0099:GCEWTP>2.3.CO;2) is that of onset 0.

*Layers at outlets.* Most runs that diverge do so there, where a pressure is imposed on a flow that is hardly damped.
Over the last layers of nodes tau rises quadratically to that of the grid Reynolds number `OUTLET_REYNOLDS`. Cumulants
need half as many of them as the others.
"""

from dataclasses import dataclass, replace

from solver.kernels.collision import COLLISIONS, ON_D3Q27
from solver.kernels.d3q19 import Q
from solver.kernels.velocity_sets import D3Q19, D3Q27, VELOCITY_SETS
from solver.runtime.errors import StageError

OUTLET_REYNOLDS = 10.0
"""Of the expected peak speed and the viscosity at the outlet itself."""
LEAST_ONSET = 16.0
"""Of the limiter, g_0 dx^2/nu."""
CORNERS_ABOVE = 10.0
"""Of the grid Reynolds number, see docs/validation/stability.md."""
CUMULANT_LAMBDA = 1 / 12
"""Lambda of the cumulants of third order."""
LAYERS, CUMULANT_LAYERS = 8, 4
"""Layers of nodes at outlets in which the viscosity rises."""
MOST_THIRD_ORDER = 4.0
"""What the default Lambda, 2 (tau - 1/2) at most, makes of 2 (tau_3 - 1/2); more was not tried (own choice)."""
WITH_LAMBDA = ("bgk", "trt", "cumulant")
"""Collision models that Lambda has a part in."""
CLIMB_FACTOR = 1.5
"""Of the grid Reynolds number that a rung is for, what the speed of a run may reach on it."""


@dataclass(frozen=True)
class Models:
    """A rung of the ladder.

    Attributes
    ----------
    collision, lambda_trt : name of the collision model; Lambda of TRT, or of the cumulants of third order.
    eddies, onset : C of the eddy viscosity, 0 for none, and g_0 dx^2/nu.
    layers : of nodes at outlets in which the viscosity rises.
    most : grid Reynolds number up to which it is meant to be used; none if for any.
    rung : its place on the ladder, from 0.
    """

    collision: str
    lambda_trt: float
    eddies: float = 0.0
    onset: float = 0.0
    layers: int = 0
    most: float | None = None
    rung: int = 0

    def beyond(self, grid_reynolds: float) -> bool:
        """Whether a run has become faster than it is meant for."""
        return self.most is not None and grid_reynolds > CLIMB_FACTOR * self.most

    def third_order(self, tau: float) -> float:
        """2 (tau_3 - 1/2) of :mod:`solver.boundary.inlet_momentum`, at most `MOST_THIRD_ORDER`.

        Recursive regularisation and cumulants keep parts of third order that belong to the velocity gradient: there
        bounce-back lacks nothing, and is left alone.
        """
        if self.collision in ("recursive", "cumulant"):
            return 0.0
        return 1.0 if self.collision == "projected" else min(2 * self.lambda_trt / (tau - 0.5), MOST_THIRD_ORDER)

    def __str__(self) -> str:
        lambda_trt = f" (Lambda {self.lambda_trt:.4g})" if self.collision in WITH_LAMBDA else ""
        limit = f"above the shear rate {self.onset:g} nu/dx^2" if self.onset else "at any shear rate"
        eddies = f", eddy viscosity C = {self.eddies:g} {limit}" if self.eddies else ""
        return f"{self.collision}{lambda_trt}{eddies}{', damped at outlets' if self.layers else ''}"


def choose_velocity_set(
    name: str, collision: str, grid_reynolds: float, equilibrium: str, slip: tuple[str, ...]
) -> int:
    """Number of velocities of a run.

    Parameters
    ----------
    name : of a velocity set; ``auto``: D3Q27 where the lattice would bend the flow, or the collision model needs it.
    collision : name of the collision model.
    grid_reynolds : the expected one.
    equilibrium : its name; the standard one is that of D3Q19.
    slip : patches of the wall along which fluid slips, which is written for D3Q19.

    Raises
    ------
    StageError
        If the set is unknown.
    """
    if name in VELOCITY_SETS:
        return len(VELOCITY_SETS[name])
    if name != "auto":
        raise StageError(f"solve.velocity_set {name!r}: unknown; known are auto, {', '.join(VELOCITY_SETS)}")
    bent = grid_reynolds > CORNERS_ABOVE and not slip and not equilibrium.endswith("-standard")
    return len(D3Q27 if bent or collision in ON_D3Q27 else D3Q19)


def choose_models(
    name: str,
    grid_reynolds: float,
    tau: float,
    lambda_trt: float | None = None,
    smagorinsky: float | None = None,
    least: int = 0,
    q: int = Q,
) -> tuple[Models, ...]:
    """Models of a run, and the safer ones that it may climb to, in their order.

    Parameters
    ----------
    name : of the collision model, ``auto`` for the ladder; a model that is named stays alone.
    grid_reynolds, tau : expected ones.
    lambda_trt : Lambda; none: see the module; BGK's is (tau - 1/2)^2. With ``auto`` it means TRT.
    smagorinsky : constant of an eddy viscosity at any shear rate, in place of the limiter's.
    least : rung of the ladder that it begins with at least.
    q : number of velocities.

    Raises
    ------
    StageError
        If the model is unknown or not for so many velocities, or `lambda_trt` is given for one that has no such
        parameter.
    """
    if name not in ("auto", *COLLISIONS):
        raise StageError(f"solve.collision {name!r}: unknown; known are auto, {', '.join(COLLISIONS)}")
    if name in ON_D3Q27 and q != len(D3Q27):
        raise StageError(f"solve.collision {name}: is for D3Q27; set solve.velocity_set to D3Q27 or auto")
    if lambda_trt is not None and (name == "bgk" or name not in ("auto", *WITH_LAMBDA)):
        raise StageError(
            f"solve.lambda_trt {lambda_trt:g}: {name} has no such parameter; leave it out, or set collision to trt"
            " or cumulant"
        )
    low, high = min(3 / 16, 2 * (tau - 0.5)), min(3 / 16, (tau - 0.5) / 2)
    onset = max(LEAST_ONSET, grid_reynolds / 2)
    if name == "auto" and lambda_trt is None:
        rungs = [
            Models("trt", low, most=10.0, rung=0),
            Models("cumulant", CUMULANT_LAMBDA, 0.1, onset, CUMULANT_LAYERS, rung=1)
            if q == len(D3Q27)
            else Models("trt", high, 0.1, onset, LAYERS, most=30.0, rung=1),
            Models("projected", high, 0.1, onset, LAYERS, rung=2),
            Models("projected", high, 0.2, 4.0, LAYERS, rung=3),
        ]
        first = next(rung.rung for rung in rungs if rung.most is None or grid_reynolds <= rung.most)
        chosen = tuple(rungs[max(first, least) :])
    else:
        usual = {"bgk": (tau - 0.5) ** 2, "cumulant": CUMULANT_LAMBDA}.get(name, low if grid_reynolds <= 10 else high)
        chosen = (Models("trt" if name == "auto" else name, usual if lambda_trt is None else lambda_trt),)
    if smagorinsky:
        chosen = tuple(replace(rung, eddies=smagorinsky, onset=0.0) for rung in chosen)
    return chosen
