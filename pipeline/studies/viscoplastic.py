"""Flow that a force drives between plates of fluids whose viscosity follows the shear rate, beside what theory says.

The theory holds in any coherent units. y is the distance from the middle, h half the distance of the plates.
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

from pipeline.evidence import Evidence, order
from pipeline.settings.base import Positive, Section
from pipeline.studies.run import Run
from solver.blood import Blood
from solver.stage import StageError

Array = NDArray[np.float64]

LEAST_RATE, MOST_RATE = 1e-20, 1e2
"""Between these the quadrature looks for shear rates."""
SHEARED = 0.1
"""Of the largest shear rate: what is sheared by more tells where the plug ends."""


@dataclass(frozen=True)
class Fluid:
    """Herschel and Bulkley's fluid, whose stress is tau_y + k g^n where it is sheared.

    Bingham's where n = 1, a power law where tau_y = 0.

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

    def shear_rate(self, stress: float) -> float:
        """Shear rate at a stress."""
        return float((max(stress - self.yield_stress, 0.0) / self.consistency) ** (1 / self.index))

    def plug_width(self, force: float) -> float:
        """Width 2 tau_y/G over which the stress does not suffice to shear the fluid."""
        return 2 * self.yield_stress / force


def velocity_by_quadrature(
    y: Array, half: float, force: float, viscosity: Callable[[Array], Array], yield_stress: float = 0.0
) -> Array:
    """Velocity, (N,), from the balance G y = mu(g) g of any fluid, by quadrature.

    The shear rate at a place is found by bisection; the velocity is its integral from there to the plate, by Gauss's
    rule of 40 points in each of 8 pieces that grow finer towards the middle, where it may be as y^(1/n).
    """
    y = np.abs(y)
    edges = y[:, None] + (half - y)[:, None] * np.linspace(0, 1, 9) ** 2
    points, weights = np.polynomial.legendre.leggauss(40)
    middle, reach = (edges[:, 1:] + edges[:, :-1]) / 2, (edges[:, 1:] - edges[:, :-1]) / 2
    place = middle[..., None] + reach[..., None] * points
    low, high = np.full(place.shape, np.log10(LEAST_RATE)), np.full(place.shape, np.log10(MOST_RATE))
    for _ in range(80):
        exponent = (low + high) / 2
        less = viscosity(10**exponent) * 10**exponent < force * place
        low, high = np.where(less, exponent, low), np.where(less, high, exponent)
    rate = np.where(force * place > yield_stress, 10**low, 0.0)
    return ((rate * weights).sum(axis=-1) * reach).sum(axis=-1)


def plug_width(y: Array, velocity: Array, index: float) -> float:
    """Width of the plug as a profile of the velocity shows it; 0 where there is none.

    g^n grows linearly with the distance from the plug: its edge is where the line through g^n of the fluid that is
    well sheared, by least squares, reaches zero.

    Parameters
    ----------
    y, velocity : (N,) evenly spaced places and what flows there.
    index : the exponent n of the fluid.
    """
    place, rate = np.abs(y[1:] + y[:-1]) / 2, np.abs(np.diff(velocity) / np.diff(y))
    well = rate > SHEARED * rate.max()
    slope, at_zero = np.polyfit(place[well], rate[well] ** index, 1)
    return max(0.0, float(-2 * at_zero / slope))


MODELS = ("power-law", "bingham", "herschel-bulkley")
"""Models of `solver.blood` whose profile :class:`Fluid` tells."""
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
    """What a run shows across its channel, in SI."""

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
    def fluid(self) -> Fluid:
        """The fluid, which yields at once where it has a yield stress.

        Raises
        ------
        StageError
            If the model of the run is none of these.
        """
        given = self.blood.parameters
        if self.blood.model not in MODELS:
            raise StageError(
                f"run {self.run.name}: {self.blood.model} blood has no profile here; known are {', '.join(MODELS)}"
            )
        consistency = given["mu_p_pa_s"] if self.blood.model == "bingham" else given["k_pa_s_n"]
        return Fluid(given.get("yield_stress_pa", 0.0), consistency, given.get("n", 1.0))

    @property
    def ideal(self) -> Array:
        """Velocity of the fluid that yields at once, (N,)."""
        return self.fluid.velocity(self.y, self.half, self.force)

    @property
    def regularised(self) -> Array:
        """Velocity of the fluid as it is solved, which creeps where Papanastasiou's law makes it do so, (N,)."""
        if "m_s" not in self.blood.parameters:
            return self.ideal
        return velocity_by_quadrature(self.y, self.half, self.force, self.blood.viscosity_pa_s)

    @property
    def sharpness(self) -> float:
        """Papanastasiou's exponent m times the shear rate at the plates; infinite for Bingham's closed form."""
        return self.blood.parameters.get("m_s", np.inf) * self.fluid.shear_rate(self.force * self.half)

    @property
    def plug(self) -> float:
        """Width of the plug over the distance of the plates."""
        return plug_width(self.y, self.velocity, self.fluid.index) / (2 * self.half)

    @property
    def plug_wanted(self) -> float:
        """What theory says of it."""
        return self.fluid.plug_width(self.force) / (2 * self.half)

    @cached_property
    def tau(self) -> tuple[float, float]:
        """Least and largest relaxation time of the nodes, in steps."""
        viscosity = np.asarray(self.run.flow.viscosity_pa_s(-1))
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
        errors = {each.nodes: each.error(each.regularised) for each in profiles}
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
    rows = [(each.sharpness, each.error(each.regularised), *each.row) for each in ordered]
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
        convergence.loglog([each.nodes for each in profiles], [each.error(each.regularised) for each in profiles], "o-")
    profile.set(xlabel="velocity, of the largest", ylabel="y / h")
    profile.legend()
    sizes = sorted({each.nodes for profiles in fluids.values() for each in profiles})
    convergence.set(xlabel="nodes between the plates", ylabel="relative L2 error", xticks=sizes, xticklabels=sizes)
    convergence.minorticks_off()
