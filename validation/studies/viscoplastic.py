# SPDX-License-Identifier: Apache-2.0
"""Flow that a force drives between plates of fluids whose viscosity follows the shear rate, beside what theory says.

The theory is in :mod:`validation.studies.viscoplastic_fluids`.
Runs are named by their fluid and a number, ``bingham-64``; ``regularised-300`` and ``relaxed-62`` are for the tables of
Papanastasiou's exponent and of the relaxation time alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from solver.run.blood import Blood
from solver.runtime.errors import StageError
from validation.evidence import Evidence
from validation.goals import order
from validation.studies.run import Run
from validation.studies.viscoplastic_fluids import (
    CLOSED,
    Array,
    Casson,
    Fluid,
    plug_width,
    shear_between,
    velocity_by_quadrature,
)

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
    """Errors and their order, plugs, what the regularisation and the relaxation time make of them.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
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
