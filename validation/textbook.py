# SPDX-License-Identifier: Apache-2.0
"""The textbook solver: two lattices, textbook formulas over arrays, any velocity set; nothing shared with the drivers.

It is what these are compared with, and what runs pipes that are endless in any direction. Some ten to hundred times
slower.
Arrays of populations are (Q, N), shifted, g_i = f_i - w_i; vectors are (3, N); all in lattice units. `form` is the name
of the equilibrium, one of `solver.kernels.node_physics.EQUILIBRIA`; `stencil` the velocity set, `omega_plus` and
`omega_minus` rates of the even and the odd part, numbers or (N,), `force` (3,) a body force per volume. Links are those
of :mod:`validation.textbook_links`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from solver.boundary.parabolic_walls import WALL_PAIRS
from solver.kernels.cumulants import LIMIT
from solver.kernels.velocity_sets import VelocitySet
from solver.run.blood import MODELS
from validation.textbook_links import Links, Rate, slips
from validation.textbook_matrices import Quadratic

Array = NDArray[np.float64]


def density(drho: Array, form: str) -> Array:
    """What momentum and the terms of second order are taken with, in the form of the equilibrium of that name."""
    return 1 + drho if form in ("compressible", "compressible-standard") else np.ones_like(drho)


def moments(stencil: VelocitySet, g: Array, force: Array, form: str = "incompressible") -> tuple[Array, Array]:
    """Density deviation (N,) and velocity (3, N) of populations before collision, half of the force in it.

    The parameters are those of the module.
    """
    drho = g.sum(axis=0)
    return drho, (stencil.velocities.T @ g + force[:, None] / 2) / density(drho, form)


def equilibrium(stencil: VelocitySet, drho: Array, u: Array, form: str = "incompressible") -> Array:
    """w_i [drho + rho (3 c_i.u + B_i(u, u))], (Q, N).

    The parameters are those of the module; `drho` is (N,), `u` (3, N).
    """
    second = 3 * stencil.velocities @ u + quadratic(stencil, u, u, form)
    return stencil.weights[:, None] * (drho + density(drho, form) * second)


def quadratic(stencil: VelocitySet, a: Array, b: Array, form: str) -> Array:
    """B_i(a, b) = 4.5 (c_i.a)(c_i.b) - 1.5 a.b, (Q, N), on D3Q19 without its anisotropic fourth moment.

    That moment, -a_z b_z/6 of c_x^2 c_y^2 and so on, is taken off by adding S_k = a_k b_k/6 to w_i B_i at rest, -S_k/2
    along each axis but k, and S_k/4 in the plane across k (Bauer and Rüde 2018, arXiv:1803.04937). D3Q27 has none.

    The parameters are those of the module; `a` and `b` are (3, N) or (3, 1).
    """
    c = stencil.velocities
    standard = 4.5 * (c @ a) * (c @ b) - 1.5 * (a * b).sum(axis=0)
    if len(stencil) != 19 or form.endswith("-standard"):
        return standard
    share = np.array((1, -1 / 2, 1 / 4))[np.count_nonzero(c, axis=1)]
    return standard + (share / stencil.weights)[:, None] * ((c == 0) @ (a * b)) / 6


def stress(stencil: VelocitySet, g: Array, force: Array, form: str = "incompressible") -> Array:
    """Pi = sum c_i c_i g_i - (drho/3) I - rho u u + (u F + F u)/2, (3, 3, N).

    The parameters are those of the module.
    """
    drho, u = moments(stencil, g, force, form)
    uf = np.einsum("an,b->abn", u, force)
    uu = density(drho, form) * np.einsum("an,bn->abn", u, u)
    pi = np.tensordot(stencil.products, g, (0, 0)) - uu + (uf + uf.transpose(1, 0, 2)) / 2
    return pi - np.einsum("ab,n->abn", np.eye(3), drho / 3)


def relaxation(tau: Rate, lambda_trt: float) -> tuple[Rate, Rate]:
    """Rates (omega+, omega-) of the even and the odd part, Lambda = (tau - 1/2)(1/omega- - 1/2) = `lambda_trt`."""
    return 1 / tau, 1 / (0.5 + lambda_trt / (tau - 0.5))


def collide_trt(
    stencil: VelocitySet, g: Array, omega_plus: Rate, omega_minus: Rate, force: Array, form: str = "incompressible"
) -> Array:
    """Two relaxation times, of the even and the odd part of g - g^eq (Ginzburg, Verhaeghe and d'Humières 2008).

    The parameters are those of the module.
    """
    drho, u = moments(stencil, g, force, form)
    cf, uf = (stencil.velocities @ force)[:, None], quadratic(stencil, u, force[:, None], form)
    w, rest = stencil.weights[:, None], g - equilibrium(stencil, drho, u, form)
    even, odd = (rest + rest[stencil.opposite]) / 2, (rest - rest[stencil.opposite]) / 2
    relaxed = omega_plus * even - (1 - omega_plus / 2) * 2 * w * uf
    return g - relaxed - omega_minus * odd + (1 - omega_minus / 2) * 3 * w * cf


def collide_bgk(
    stencil: VelocitySet, g: Array, omega_plus: Rate, omega_minus: Rate, force: Array, form: str = "incompressible"
) -> Array:
    """One relaxation time.

    The parameters are those of the module.
    """
    return collide_trt(stencil, g, omega_plus, omega_plus, force, form)


def collide_projected(
    stencil: VelocitySet, g: Array, omega_plus: Rate, omega_minus: Rate, force: Array, form: str = "incompressible"
) -> Array:
    """Projected regularised: of g - g^eq only the stress is kept (Latt and Chopard 2006).

    The parameters are those of the module.
    """
    drho, u = moments(stencil, g, force, form)
    pi = stress(stencil, g, force, form)
    cf, uf = (stencil.velocities @ force)[:, None], quadratic(stencil, u, force[:, None], form)
    viscous = np.tensordot(stencil.products, pi) - np.trace(pi) / 3
    relaxed = (1 - omega_plus) * 4.5 * viscous + 1.5 * cf + uf
    return equilibrium(stencil, drho, u, form) + stencil.weights[:, None] * relaxed


def collide_recursive(
    stencil: VelocitySet, g: Array, omega_plus: Rate, omega_minus: Rate, force: Array, form: str = "incompressible"
) -> Array:
    """Recursive regularised: adds third-order terms rebuilt from the stress (Coreixas et al. 2017).

    a_abc = rho u_a u_b u_c + (1 - omega)(u_a Pi_bc + u_b Pi_ac + u_c Pi_ab).

    The parameters are those of the module.
    """
    drho, u = moments(stencil, g, force, form)
    viscous = np.einsum("an,bcn->abcn", u, (1 - omega_plus) * stress(stencil, g, force, form))
    third = density(drho, form) * np.einsum("an,bn,cn->abcn", u, u, u)
    third += viscous + viscous.transpose(1, 0, 2, 3) + viscous.transpose(1, 2, 0, 3)
    added = np.tensordot(stencil.third_order, third, 3)
    return collide_projected(stencil, g, omega_plus, omega_minus, force, form) + stencil.weights[:, None] * added


def collide_cumulant(
    stencil: VelocitySet, g: Array, omega_plus: Rate, omega_minus: Rate, force: Array, form: str = "incompressible"
) -> Array:
    """Cumulants relax (Geier, Schönherr, Pasquali and Krafczyk 2015); D3Q27 alone.

    By definition: central moments are sums over the populations, which after collision solve 27 equations for them.
    They are about the mean of the populations, which the force changes: u - F/(2 rho) before, u + F/(2 rho) after
    collision. In the incompressible form fluid of density 1 collides, without w_i drho.

    The parameters are those of the module.
    """
    drho, u = moments(stencil, g, force, form)
    rho = density(drho, form)
    at_rest, gained = stencil.weights[:, None] * (rho - drho), force[:, None] / (2 * rho)
    central = np.einsum("kqn,qn->kn", powers(stencil, u - gained), g + at_rest)
    cumulants = relaxed_cumulants(dict(zip(ORDERS, central / rho, strict=True)), u, omega_plus, omega_minus)
    after = np.stack([rho * moment(np.repeat(range(3), order).tolist(), cumulants) for order in ORDERS])
    solved = np.linalg.solve(powers(stencil, u + gained).transpose(2, 0, 1), after.T[:, :, None])[:, :, 0].T
    return np.asarray(solved - at_rest)


def powers(stencil: VelocitySet, mean: Array) -> Array:
    """Products of powers of c_i - `mean` by the exponents of `ORDERS`, (27, 27, N)."""
    away = [c[:, None] - v for c, v in zip(stencil.velocities.T, mean, strict=True)]
    return np.stack([np.prod([c**n for c, n in zip(away, order, strict=True)], axis=0) for order in ORDERS])


ORDERS = list(np.ndindex(3, 3, 3))
"""Exponents of the moments of D3Q27."""


def order_of(*axes: int) -> tuple[int, ...]:
    """How often each axis is among some."""
    return tuple(axes.count(axis) for axis in range(3))


def relaxed_cumulants(
    k: dict[tuple[int, ...], Array], u: Array, omega_plus: Rate, omega_minus: Rate
) -> dict[tuple[int, ...], Array]:
    """Cumulants of second and third order after collision, over the density, from what they were, by their exponents.

    Those of second order relax by omega+, but their trace at once, both with what makes up for c_x^3 = c_x; those of
    third order by omega-, and less is kept of them the larger they are. All above are 0.

    Parameters
    ----------
    k : by exponents, (N,), central moments over the density, which are the cumulants up to third order.
    u : (3, N) velocity.
    omega_plus, omega_minus : rates.
    """
    variances = np.stack([k[order_of(a, a)] for a in range(3)])
    trace = variances.sum(axis=0) - 1
    cubic = -(u**2) / 2 * (omega_plus * (3 * variances - trace - 1) + trace)  # u_a^2 d_a u_a
    deviator = (1 - omega_plus) * (variances - (trace + 1) / 3) - 3 * (1 - omega_plus / 2) * (
        cubic - cubic.mean(axis=0)
    )
    after = {order_of(a, a): 1 / 3 + deviator[a] - cubic.sum(axis=0) / 2 for a in range(3)}
    after |= {order_of(a, b): (1 - omega_plus) * k[order_of(a, b)] for a, b in combinations(range(3), 2)}

    def kept(cumulant: Array) -> Array:
        return (1 - omega_minus) * cumulant * LIMIT / (LIMIT + np.abs(cumulant))

    for a, b, d in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
        one, other = k[order_of(a, b, b)], k[order_of(a, d, d)]
        total, difference = kept(one + other), kept(one - other)
        after |= {order_of(a, b, b): (total + difference) / 2, order_of(a, d, d): (total - difference) / 2}
    return after | {(1, 1, 1): kept(k[1, 1, 1])}


def moment(axes: list[int], cumulants: dict[tuple[int, ...], Array]) -> Array | float:
    """Central moment of a product of components, over the density: the sum over all ways to part them into pairs and
    triples, of the products of their cumulants.
    """
    if not axes:
        return 1.0
    head, *others = axes
    total = np.zeros_like(cumulants[1, 1, 1])
    for size in (1, 2):
        for with_head in combinations(range(len(others)), size):
            left = [axis for n, axis in enumerate(others) if n not in with_head]
            total += cumulants[order_of(head, *(others[n] for n in with_head))] * moment(left, cumulants)
    return total


COLLISIONS: dict[str, Callable[..., Array]] = {
    "bgk": collide_bgk,
    "trt": collide_trt,
    "projected": collide_projected,
    "recursive": collide_recursive,
    "cumulant": collide_cumulant,
}
SECOND_DEGREE = ("bgk", "trt", "projected")
"""Those that are polynomials of second degree in the populations, where the density of the momentum is 1."""


@dataclass
class Thickening:
    """Viscosity that varies: of a model of `solver.run.blood` with parameters in lattice units, of eddies, by a blend.

    `omega` holds that of the step before; `onset` is the shear rate from which on there are eddies; `bounds` are those
    of tau where it follows from the model.
    """

    model: str
    parameters: tuple[float, ...]
    omega: Array
    lambda_trt: float
    smagorinsky: float = 0.0
    blend: Array | float = 0.0
    onset: float = 0.0
    bounds: tuple[float, float] = (0.5005, 100.0)

    def rates(self, pi: Array, rho: Array) -> tuple[Rate, Rate]:
        """Rates of a step from the Pi of each node, (3, 3, N), and its density."""
        size = np.sqrt((pi**2).sum(axis=(0, 1)))
        rate = 3 / np.sqrt(2) * size * self.omega / rho
        model = MODELS[self.model]
        named = dict(zip(model.parameters, self.parameters, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.model == "bingham":
                flowing = 1 / (0.5 + 3 * named["mu_p_pa_s"])
                tau = 1 / (flowing * np.maximum(0, 1 - named["yield_stress_pa"] / (size / np.sqrt(2))))
            else:
                tau = np.clip(0.5 + 3 * model.viscosity(rate, **named), *self.bounds)
            tau = tau + 3 * self.smagorinsky**2 * np.maximum(rate - self.onset, 0)
            self.omega = 1 / tau / (1 - self.blend + self.blend / tau)  # of tau + blend (1 - tau), infinite or not
            return relaxation(1 / self.omega, self.lambda_trt)


def returning(walls: str, q: Array, leaving: Array, back: Array, upstream: Array, push: Array) -> Array:
    """What comes back along wall links: from g_i*, g_o*, the upstream neighbour's g_i*, and the wall's -6 w_i c_i.u_w.

    Interpolated as in the schemes' sources: bouzidi along the way of the population that ends, or begins, at the node;
    yu what passes the wall's place, then between this and the population a node farther in; cli as half-way with both
    populations of the link moved by the same part.

    Parameters
    ----------
    walls : name of the scheme.
    q : (L,) distance of the wall over the length of the link.
    leaving, back, upstream : (L,) populations after collision: g_i* and g_o* of the node, g_i* of the neighbour
        away from the wall.
    push : (L,) -6 w_i c_i.u_w.
    """
    if walls == "half-way":
        return leaving + push
    if walls == "bouzidi":
        ends = 2 * q * leaving + (1 - 2 * q) * upstream + push
        return np.where(q < 0.5, ends, (leaving + push + (2 * q - 1) * back) / (2 * q))
    if walls == "yu":
        at_wall = upstream + q * (leaving - upstream) + push
        return at_wall + q / (1 + q) * (back - at_wall)
    k = (1 - 2 * q) / (1 + 2 * q)
    return leaving + k * (upstream - back) + (1 + k) * push


RENEWED = 2 * WALL_PAIRS
"""Steps between two looks at what walls that meet a parabola do; such walls diverge if they follow the flow at once."""


@dataclass
class TextbookSolver:
    """Two-lattice solver; `g` (Q, N) holds the populations that arrive at each node.

    `rates` are (omega+, omega-) where no `rheology` gives them for each node. `push` (L,) is -6 w_i c_i.u_w of the
    walls' velocities. `parabola` is the share s of walls that meet a parabola (`slips`), 0 for walls without it.
    """

    stencil: VelocitySet
    links: Links
    collision: str
    rates: tuple[Rate, Rate]
    walls: str = "bouzidi"
    force: Array = field(default_factory=lambda: np.zeros(3))
    form: str = "incompressible"
    rheology: Thickening | None = None
    push: Array | float = 0.0
    parabola: float = 0.0

    def __post_init__(self) -> None:
        links, opposite = self.links, self.stencil.opposite
        self.g = np.zeros(links.neighbour.shape)
        self.steps = 0
        self.back = opposite[links.direction]
        self.source = links.direction, links.neighbour[self.back, links.node]
        """What arrives along each wall link is what leaves, along a direction, from a node; -1 where that is a wall."""
        direction, node = np.nonzero(links.neighbour >= 0)
        place = np.arange(self.g.size).reshape(self.g.shape)
        self.arrives = np.full(self.g.shape, -1)
        self.arrives[direction, links.neighbour[direction, node]] = place[direction, node]
        """Place, in a flat array, from which each population arrives; -1 where none does."""
        self.unfed = np.flatnonzero(self.arrives < 0)
        self.whole = self._whole()

    def _whole(self) -> Callable[[Array], Array]:
        """The collision of a step where rates are numbers: by matrices where it is of second degree."""

        def collide(g: Array) -> Array:
            return COLLISIONS[self.collision](self.stencil, g, *self.rates, self.force, self.form)

        alike = self.rheology is None and not any(np.ndim(rate) for rate in self.rates)
        fixed = self.form in ("incompressible", "incompressible-standard")
        return Quadratic(self.stencil, collide) if alike and fixed and self.collision in SECOND_DEGREE else collide

    def start(self, u: Array, drho: Array | float = 0.0) -> None:
        """Equilibrium of a velocity (3, N)."""
        self.g = equilibrium(self.stencil, np.broadcast_to(drho, u[0].shape), u, self.form)

    def step(self) -> None:
        """Collision, streaming, walls."""
        if self.parabola and self.steps and self.steps % RENEWED == 0:
            self.push = slips(self.stencil, self.links, self.walls, self.rates, self.parabola, self.velocity())
        out = self.collided()
        self.g = self.bounced(out, self.streamed(out))
        self.steps += 1

    def collided(self) -> Array:
        """Populations after collision."""
        if self.rheology is None:
            return self.whole(self.g)
        rho = density(self.g.sum(axis=0), self.form)
        rates = self.rheology.rates(stress(self.stencil, self.g, self.force, self.form), rho)
        return COLLISIONS[self.collision](self.stencil, self.g, *rates, self.force, self.form)

    def streamed(self, out: Array) -> Array:
        """Populations that arrive from fluid nodes; NaN where none does."""
        new = out.take(self.arrives)
        new.flat[self.unfed] = np.nan
        return new

    def bounced(self, out: Array, new: Array) -> Array:
        """The same with what comes back from the walls, without the mass that this adds.

        It is taken off from the rest populations of the nodes at walls that are interpolated or move.
        """
        node, direction, q = self.links.node, self.links.direction, self.links.q
        along, behind = self.source
        leaving, push = out[direction, node], np.broadcast_to(self.push, q.shape)
        interpolated = returning(self.walls, q, leaving, out[self.back, node], out[along, behind], push)
        returned = np.where(behind < 0, leaving + push, interpolated)
        new[self.back, node] = returned
        half_way = (self.walls == "half-way") | (behind < 0) | ((q == 0.5) & (self.walls != "yu"))
        sharing = np.zeros(new.shape[1], np.bool_)
        sharing[node[~half_way | (push != 0)]] = True
        new[0, sharing] -= (returned - leaving).sum() / max(np.count_nonzero(sharing), 1)
        return new

    def velocity(self) -> Array:
        """(3, N)."""
        return moments(self.stencil, self.g, self.force, self.form)[1]
