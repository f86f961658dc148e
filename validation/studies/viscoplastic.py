# SPDX-License-Identifier: Apache-2.0
"""Flow that a force drives between plates of fluids whose viscosity follows the shear rate, beside what theory says.

The theory holds in any coherent units. y is the distance from the middle, h half the distance of the plates, and G y
the stress. In a round pipe of radius h the stress is G y/2: all that is said of plates holds there with half the force.
Runs are named by their fluid and a number, ``bingham-64``; ``regularised-300`` and ``relaxed-62`` are for the tables of
Papanastasiou's exponent and of the relaxation time alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from solver.run.blood import Blood
from solver.runtime.errors import StageError
from validation.evidence import Evidence, order
from validation.studies.run import Run

Array = NDArray[np.float64]

LEAST_RATE, MOST_RATE = 1e-20, 1e4
"""Between these the quadrature looks for shear rates."""
SHEARED = 0.1
"""Of the largest shear rate: what is sheared by more tells where the plug ends."""


@dataclass(frozen=True)
class Fluid:
    """Herschel and Bulkley's fluid, whose stress is tau_y + k g^n where it is sheared.

    Bingham's where n = 1, a power law where tau_y = 0, Newton's where both hold.

    Attributes
    ----------
    yield_stress, consistency, index : tau_y, k, n.
    """

    yield_stress: float
    consistency: float
    index: float

    def velocity(self, y: Array, half: float, force: float) -> Array:
        """Velocity, of the shape of `y`, under a force G per volume, the same as a gradient of the pressure.

        u = n/(n + 1) (G/k)^(1/n) [(h - y_0)^(1 + 1/n) - max(y - y_0, 0)^(1 + 1/n)],    y_0 = tau_y/G.
        """
        edge, power = self.plug_width(force) / 2, 1 + 1 / self.index
        sheared = (half - edge) ** power - np.maximum(np.abs(y) - edge, 0) ** power
        return (force / self.consistency) ** (1 / self.index) / power * sheared

    def pipe_flow(self, radius: float, stress: float) -> float:
        """Flow through a round pipe, with s = t - tau_y of the stress t at its wall.

        Q = pi R^3 n/t^3 (s/k)^(1/n) s [s^2/(3 n + 1) + 2 tau_y s/(2 n + 1) + tau_y^2/(n + 1)],

        from Rabinowitsch's integral (:func:`pipe_flow_by_quadrature`). Of Bingham's fluid it is
        pi R^3 t/(4 k) [1 - 4/3 (tau_y/t) + 1/3 (tau_y/t)^4] (Buckingham 1921, Proc. ASTM 21, 1154).
        """
        over, n = stress - self.yield_stress, self.index
        if over <= 0:
            return 0.0
        parts = over**2 / (3 * n + 1) + 2 * self.yield_stress * over / (2 * n + 1) + self.yield_stress**2 / (n + 1)
        return float(np.pi * radius**3 * n / stress**3 * self.shear_rate(stress) * over * parts)

    def shear_rate(self, stress: float) -> float:
        """Shear rate at a stress."""
        return float((max(stress - self.yield_stress, 0.0) / self.consistency) ** (1 / self.index))

    def plug_width(self, force: float) -> float:
        """Width 2 tau_y/G over which the stress does not suffice to shear the fluid."""
        return 2 * self.yield_stress / force

    @property
    def straight(self) -> tuple[float, float]:
        """Powers of the shear rate and of the distance from the middle that are linear in each other: n, 1."""
        return self.index, 1.0


@dataclass(frozen=True)
class Casson:
    """Casson's fluid: the root of its stress is sqrt(tau_y) + sqrt(mu g) where it is sheared.

    Source: Fung (1993), Biomechanics, chapter 3, doi:10.1007/978-1-4757-2257-4.

    Attributes
    ----------
    yield_stress, viscosity : tau_y, mu.
    """

    yield_stress: float
    viscosity: float

    def velocity(self, y: Array, half: float, force: float) -> Array:
        """Velocity, of the shape of `y`, under a force G per volume; y is at least y_0 = tau_y/G.

        u = [G (h^2 - y^2)/2 - 4/3 sqrt(tau_y G) (h^(3/2) - y^(3/2)) + tau_y (h - y)]/mu.
        """
        y = np.maximum(np.abs(y), self.plug_width(force) / 2)
        roots = 4 / 3 * np.sqrt(self.yield_stress * force) * (half**1.5 - y**1.5)
        return (force * (half**2 - y**2) / 2 - roots + self.yield_stress * (half - y)) / self.viscosity

    def pipe_flow(self, radius: float, stress: float) -> float:
        """Flow through a round pipe at whose wall the stress is t, with s = tau_y/t.

        Q = pi R^3 t/(4 mu) (1 - 16/7 sqrt(s) + 4/3 s - s^4/21).
        """
        s = min(self.yield_stress / stress, 1.0)
        part = 1 - 16 / 7 * s**0.5 + 4 / 3 * s - s**4 / 21
        return float(np.pi * radius**3 * stress / (4 * self.viscosity) * part)

    def shear_rate(self, stress: float) -> float:
        """Shear rate at a stress."""
        return max(stress**0.5 - self.yield_stress**0.5, 0.0) ** 2 / self.viscosity

    def plug_width(self, force: float) -> float:
        """Width 2 tau_y/G over which the stress does not suffice to shear the fluid."""
        return 2 * self.yield_stress / force

    @property
    def straight(self) -> tuple[float, float]:
        """Powers of the shear rate and of the distance from the middle that are linear in each other: the roots."""
        return 0.5, 0.5


def shear_rate_of(stress: Array, viscosity: Callable[[Array], Array], yield_stress: float = 0.0) -> Array:
    """Shear rate g of any fluid at stresses mu(g) g, of the same shape, by bisection."""
    low, high = np.full(stress.shape, np.log10(LEAST_RATE)), np.full(stress.shape, np.log10(MOST_RATE))
    for _ in range(80):
        exponent = (low + high) / 2
        less = viscosity(10**exponent) * 10**exponent < stress
        low, high = np.where(less, exponent, low), np.where(less, high, exponent)
    return np.where(stress > yield_stress, 10**low, 0.0)


def _places(y: Array, half: float) -> tuple[Array, Array]:
    """Places from each of `y`, (N,), to the wall and weights of integrals over these, (N, 8, 40).

    Gauss's rule of 40 points in each of 8 pieces that grow finer towards the middle, where the velocity may be as
    y^(1/n).
    """
    edges = y[:, None] + (half - y)[:, None] * np.linspace(0, 1, 9) ** 2
    points, weights = np.polynomial.legendre.leggauss(40)
    middle, reach = (edges[:, 1:] + edges[:, :-1]) / 2, (edges[:, 1:] - edges[:, :-1]) / 2
    return middle[..., None] + reach[..., None] * points, reach[..., None] * weights


def velocity_by_quadrature(
    y: Array, half: float, force: float, viscosity: Callable[[Array], Array], yield_stress: float = 0.0
) -> Array:
    """Velocity, (N,), from the balance G y = mu(g) g of any fluid: the integral of g from there to the wall."""
    place, weight = _places(np.abs(y), half)
    return (shear_rate_of(force * place, viscosity, yield_stress) * weight).sum(axis=(1, 2))


def pipe_flow_by_quadrature(
    radius: float, stress: float, viscosity: Callable[[Array], Array], yield_stress: float = 0.0
) -> float:
    """Flow of any fluid through a round pipe at whose wall the stress is t: pi times the integral of r^2 g(t r/R).

    It is that of 2 pi r u by parts, u = 0 at the wall (Rabinowitsch 1929, Z. Phys. Chem. A 145, 1).
    """
    place, weight = _places(np.zeros(1), radius)
    return float(np.pi * (place**2 * shear_rate_of(stress / radius * place, viscosity, yield_stress) * weight).sum())


def shear_between(y: Array, velocity: Array) -> tuple[Array, Array]:
    """Distances from the middle and shear rates, (N - 1,), half-way between evenly spaced places, (N,)."""
    return np.abs(y[1:] + y[:-1]) / 2, np.abs(np.diff(velocity) / np.diff(y))


def plug_width(place: Array, rate: Array, straight: tuple[float, float]) -> float:
    """Width of the plug as shear rates at distances from the middle, (N,), show it; 0 where there is none.

    A power of the shear rate grows linearly with one of the distance from the plug: its edge is where the line through
    that of the fluid that is well sheared, by least squares, reaches zero.

    Parameters
    ----------
    place, rate : (N,) distances from the middle and the shear rates there.
    straight : the powers of rate and place, :attr:`Fluid.straight`.
    """
    of_rate, of_place = straight
    well = rate > SHEARED * rate.max()
    slope, at_zero = np.polyfit(place[well] ** of_place, rate[well] ** of_rate, 1)
    return 2 * max(0.0, float(-at_zero / slope)) ** (1 / of_place)


CLOSED: dict[str, Callable[[Mapping[str, float]], Fluid | Casson]] = {
    "newtonian": lambda given: Fluid(0.0, given["mu_pa_s"], 1.0),
    "power-law": lambda given: Fluid(0.0, given["k_pa_s_n"], given["n"]),
    "bingham": lambda given: Fluid(given["yield_stress_pa"], given["mu_p_pa_s"], 1.0),
    "herschel-bulkley": lambda given: Fluid(given["yield_stress_pa"], given["k_pa_s_n"], given["n"]),
    "casson": lambda given: Casson(given["yield_stress_pa"], given["mu_c_pa_s"]),
}
"""Makers of the fluid with a closed form, which yields at once, from parameters of models of `solver.run.blood`."""
CREEPING = ("m_s", "mu_max_pa_s")
"""Parameters that let a fluid creep below its yield stress."""
REGULARISED, RELAXED = "regularised", "relaxed"
"""Names of runs for tables of their own."""
COLUMNS = ("least tau", "largest tau", "nodes at its bound", "L2", "width of the plug", "theory")
"""What tables tell of a profile."""


class Options(Section):
    """What is to be reached."""

    nodes: int = Field(64, description="between the plates, where the errors are to be reached")
    l2: Positive = Field(0.01, description="of the velocity against the closed form, at most")
    plug: Positive = Field(0.01, description="relative error of the plug's width, at most")
    order: Positive = Field(1.9, description="of convergence, at least")


@dataclass(frozen=True)
class Profile:
    """What a run shows across its channel, in SI.

    One of a round pipe takes its radius as `half`, and half the force, which makes the same stress as between plates.
    """

    run: Run

    @property
    def name(self) -> str:
        """Name of the run up to its number."""
        return self.run.name.rpartition("-")[0]

    @cached_property
    def blood(self) -> Blood:
        """The model and its parameters."""
        return Blood(**self.run.summary["models"]["blood"])

    @property
    def force(self) -> float:
        """Per volume, N/m3."""
        return self.run.case.solve.force_n_m3[0]

    @cached_property
    def velocity(self) -> Array:
        """Along the channel, from plate to plate, (N,), m/s."""
        return np.asarray(self.run.layer(self.run.velocity_m_s[:, 0])[:, 0], np.float64)

    @property
    def nodes(self) -> int:
        """Between the plates."""
        return len(self.velocity)

    @property
    def half(self) -> float:
        """Half the distance of the plates, m."""
        return self.nodes * self.run.spacing_m / 2

    @property
    def y(self) -> Array:
        """Places of the nodes, (N,), m."""
        return np.arange(0.5, self.nodes) * self.run.spacing_m - self.half

    @property
    def fluid(self) -> Fluid | Casson:
        """The fluid, which yields at once where it has a yield stress.

        Raises
        ------
        StageError
            If the model of the run has no closed form.
        """
        if self.blood.model not in CLOSED:
            raise StageError(
                f"run {self.run.name}: {self.blood.model} blood has no closed form here; known are {', '.join(CLOSED)}"
            )
        return CLOSED[self.blood.model](self.blood.parameters)

    @property
    def ideal(self) -> Array:
        """Velocity of the fluid that yields at once, (N,)."""
        return self.fluid.velocity(self.y, self.half, self.force)

    @property
    def creeps(self) -> bool:
        """Whether the fluid as it is solved is none of closed form: one that creeps, or another law."""
        return self.blood.model not in CLOSED or any(name in self.blood.parameters for name in CREEPING)

    @cached_property
    def solved(self) -> Array:
        """Velocity of the fluid as it is solved, (N,)."""
        return self.solved_at(self.y)

    def solved_at(self, y: Array) -> Array:
        """The same at any distances from the middle, m, (M,)."""
        if not self.creeps:
            return self.fluid.velocity(y, self.half, self.force)
        return velocity_by_quadrature(y, self.half, self.force, self.blood.viscosity_pa_s)

    @property
    def sharpness(self) -> float:
        """Papanastasiou's exponent m times the shear rate at the plates; infinite for Bingham's closed form."""
        return self.blood.parameters.get("m_s", np.inf) * self.fluid.shear_rate(self.force * self.half)

    @property
    def sheared(self) -> tuple[Array, Array]:
        """Distances from the middle, m, and shear rates there, 1/s, (M,) each."""
        return shear_between(self.y, self.velocity)

    @property
    def plug(self) -> float:
        """Width of the plug over the distance of the plates."""
        return plug_width(*self.sheared, self.fluid.straight) / (2 * self.half)

    @property
    def plug_wanted(self) -> float:
        """What theory says of it."""
        return self.fluid.plug_width(self.force) / (2 * self.half)

    @cached_property
    def tau(self) -> tuple[float, float]:
        """Least and largest relaxation time of the nodes, in steps."""
        if (viscosity := self.run.flow.viscosity_pa_s(-1)) is None:
            return self.run.tau, self.run.tau
        scale = 3 * self.run.time_step_s / (self.run.case.solve.density_kg_m3 * self.run.spacing_m**2)
        return 0.5 + scale * float(viscosity.min()), 0.5 + scale * float(viscosity.max())

    @property
    def row(self) -> tuple[str | int | float, ...]:
        """Of :data:`COLUMNS`."""
        bound = f"{self.run.summary['nodes_at_bounds']['thick']} of {self.run.nodes.count}"
        return *self.tau, bound, self.error(self.ideal), self.plug, self.plug_wanted

    def error(self, wanted: Array) -> float:
        """Relative L2 error."""
        return float(np.linalg.norm(self.velocity - wanted) / np.linalg.norm(wanted))


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Errors and their order, plugs, what the regularisation and the relaxation time make of them."""
    fluids: dict[str, list[Profile]] = {}
    for each in sorted(map(Profile, runs.values()), key=lambda each: each.nodes):
        fluids.setdefault(each.name, []).append(each)
    regularised, relaxed = fluids.pop(REGULARISED, []), fluids.pop(RELAXED, [])
    shown = {name: each for name, profiles in fluids.items() for each in profiles if each.nodes == options.nodes}
    _convergence(evidence, fluids, options)
    _plugs(evidence, shown, options)
    if regularised:
        _regularised(evidence, regularised)
    if relaxed:
        _relaxed(evidence, relaxed)
    caption = f"Velocity from the middle to the plate, {options.nodes} nodes and closed forms; error against the nodes"
    evidence.draw(lambda figure: _draw(figure, shown, fluids), caption)


def _convergence(evidence: Evidence, fluids: Mapping[str, Sequence[Profile]], options: Options) -> None:
    sizes = sorted({each.nodes for profiles in fluids.values() for each in profiles})
    rows = []
    for name, profiles in fluids.items():
        errors = {each.nodes: each.error(each.solved) for each in profiles}
        rows.append([name, *(errors.get(size, "") for size in sizes), ""])
        if len(errors) > 1:
            rows[-1][-1] = slope = order(errors, errors.values())
            evidence.reach(f"{name}: order of convergence", slope, at_least=options.order)
    note = "Relative L2 error of the velocity, against the regularised law where that is what is solved."
    evidence.table(("fluid", *(f"{size} nodes" for size in sizes), "order"), rows, note)


def _plugs(evidence: Evidence, shown: Mapping[str, Profile], options: Options) -> None:
    for name, each in shown.items():
        what = f"{name}, {each.nodes} nodes"
        evidence.reach(f"{what}: L2 against the closed form", each.error(each.ideal), at_most=options.l2)
        if each.plug_wanted:
            off = abs(each.plug / each.plug_wanted - 1)
            evidence.reach(f"{what}: relative error of the plug's width", off, at_most=options.plug)
    note = f"{options.nodes} nodes, against the fluid that yields at once. Widths in parts of the plates' distance."
    evidence.table(("fluid", *COLUMNS), [(name, *each.row) for name, each in shown.items()], note)


def _regularised(evidence: Evidence, profiles: Sequence[Profile]) -> None:
    ordered = sorted(profiles, key=lambda each: each.sharpness)
    rows = [(each.sharpness, each.error(each.solved), *each.row) for each in ordered]
    note = (
        f"{_lattice(profiles)}. m: Papanastasiou's exponent, times the shear rate at the plates. The first error is "
        "that of the lattice, against the law with this m; the second, against the fluid that yields at once, has both."
    )
    evidence.table(("m", "L2 against the law", *COLUMNS), rows, note)


def _relaxed(evidence: Evidence, profiles: Sequence[Profile]) -> None:
    rows = [(each.run.summary["steps"], *each.row) for each in sorted(profiles, key=lambda each: each.tau)]
    evidence.table(("steps", *COLUMNS), rows, f"{_lattice(profiles)}, with other time steps.")


def _lattice(profiles: Sequence[Profile]) -> str:
    """The fluid and the nodes of runs that share them."""
    return f"{profiles[0].blood.model}, {profiles[0].nodes} nodes"


def _draw(figure: Any, shown: Mapping[str, Profile], fluids: Mapping[str, Sequence[Profile]]) -> None:
    figure.set_size_inches(6, 2.8)
    profile, convergence = figure.subplots(1, 2)
    for name, each in shown.items():
        place = np.linspace(0, each.half)
        ideal = each.fluid.velocity(place, each.half, each.force)
        (line,) = profile.plot(ideal / ideal[0], place / each.half, label=name)
        nodes = slice(each.nodes // 2, None, 3)
        profile.plot(each.velocity[nodes] / ideal[0], each.y[nodes] / each.half, ".", color=line.get_color())
    for profiles in fluids.values():
        convergence.loglog([each.nodes for each in profiles], [each.error(each.solved) for each in profiles], "o-")
    profile.set(xlabel="velocity, of the largest", ylabel="y / h")
    profile.legend()
    sizes = sorted({each.nodes for profiles in fluids.values() for each in profiles})
    convergence.set(xlabel="nodes between the plates", ylabel="relative L2 error", xticks=sizes, xticklabels=sizes)
    convergence.minorticks_off()
