"""The solver written the obvious way: two lattices, textbook formulas over arrays, nothing shared with the drivers."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solver.blood import MODELS
from solver.d3q19 import OPPOSITE, VELOCITIES, WEIGHTS
from solver.nodes import Neighbours, Nodes
from solver.openings import Control

Rate = float | NDArray
C, W = VELOCITIES.astype(float), WEIGHTS
CC = np.einsum("ia,ib->iab", C, C)


def moments(g: NDArray, force: NDArray, compressible: bool = False) -> tuple[NDArray, NDArray]:
    drho = g.sum(axis=0)
    return drho, (np.einsum("ia,in->an", C, g) + force[:, None] / 2) / density(drho, compressible)


def density(drho: NDArray, compressible: bool) -> NDArray:
    """What momentum and the terms of second order are taken with."""
    return 1 + drho if compressible else np.ones_like(drho)


def equilibrium(drho: NDArray, u: NDArray, compressible: bool = False) -> NDArray:
    cu = C @ u
    return W[:, None] * (drho + density(drho, compressible) * (3 * cu + 4.5 * cu**2 - 1.5 * (u**2).sum(axis=0)))


def stress(g: NDArray, force: NDArray, compressible: bool = False) -> NDArray:
    """Pi, (3, 3, N)."""
    drho, u = moments(g, force, compressible)
    uf = np.einsum("an,b->abn", u, force)
    uu = density(drho, compressible) * np.einsum("an,bn->abn", u, u)
    pi = np.einsum("iab,in->abn", CC, g) - uu + (uf + uf.transpose(1, 0, 2)) / 2
    return pi - np.einsum("ab,n->abn", np.eye(3), drho / 3)


def collide_trt(g: NDArray, omega_plus: Rate, omega_minus: Rate, force: NDArray, compressible: bool = False) -> NDArray:
    drho, u = moments(g, force, compressible)
    cu, cf, uf = C @ u, (C @ force)[:, None], force @ u
    w, o = W[:, None], OPPOSITE
    whole = equilibrium(drho, u, compressible)
    even, odd, even_eq, odd_eq = (g + g[o]) / 2, (g - g[o]) / 2, (whole + whole[o]) / 2, (whole - whole[o]) / 2
    relaxed = omega_plus * (even - even_eq) - (1 - omega_plus / 2) * w * (9 * cu * cf - 3 * uf)
    return g - relaxed - omega_minus * (odd - odd_eq) + (1 - omega_minus / 2) * 3 * w * cf


def collide_bgk(g: NDArray, omega_plus: Rate, omega_minus: Rate, force: NDArray, compressible: bool = False) -> NDArray:
    return collide_trt(g, omega_plus, omega_plus, force, compressible)


def collide_projected(
    g: NDArray, omega_plus: Rate, omega_minus: Rate, force: NDArray, compressible: bool = False
) -> NDArray:
    drho, u = moments(g, force, compressible)
    pi, kept = stress(g, force, compressible), 1 - omega_plus
    cu, cf, uf = C @ u, (C @ force)[:, None], force @ u
    viscous = np.einsum("iab,abn->in", CC, pi) - np.trace(pi) / 3
    relaxed = kept * 4.5 * viscous + 1.5 * cf + 4.5 * cu * cf - 1.5 * uf
    return equilibrium(drho, u, compressible) + W[:, None] * relaxed


def collide_recursive(
    g: NDArray, omega_plus: Rate, omega_minus: Rate, force: NDArray, compressible: bool = False
) -> NDArray:
    drho, u = moments(g, force, compressible)
    pi, kept, rho = stress(g, force, compressible), 1 - omega_plus, density(drho, compressible)

    def h(a: int, b: int, c: int) -> NDArray:
        delta = np.eye(3)
        trace = C[:, a] * delta[b, c] + C[:, b] * delta[a, c] + C[:, c] * delta[a, b]
        return C[:, a] * C[:, b] * C[:, c] - trace / 3

    def coefficient(a: int, b: int) -> NDArray:
        """a_aab = rho u_a^2 u_b + (1 - omega)(2 u_a Pi_ab + u_b Pi_aa)."""
        return rho * u[a] ** 2 * u[b] + kept * (2 * u[a] * pi[a, b] + u[b] * pi[a, a])

    third = np.zeros_like(g)
    for (a, b), (c, d) in (((0, 1), (2, 1)), ((2, 0), (1, 0)), ((1, 2), (0, 2))):
        first, second = h(a, a, b)[:, None], h(c, c, d)[:, None]
        plus, minus = coefficient(a, b) + coefficient(c, d), coefficient(a, b) - coefficient(c, d)
        third += 13.5 * (first + second) * plus + 4.5 * (first - second) * minus
    return collide_projected(g, omega_plus, omega_minus, force, compressible) + W[:, None] * third


@dataclass
class Thickening:
    """Viscosity that varies: of a model of `solver.blood` with parameters in lattice units, of eddies, by a blend.

    `omega` holds that of the step before; `bounds` are those of tau where it follows from the model.
    """

    model: str
    parameters: tuple[float, ...]
    omega: NDArray
    magic: float
    smagorinsky: float = 0.0
    blend: NDArray | float = 0.0
    bounds: tuple[float, float] = (0.5005, 100.0)

    def rates(self, pi: NDArray, rho: NDArray) -> tuple[NDArray, NDArray]:
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
            tau = tau + 3 * self.smagorinsky**2 * rate
            self.omega = 1 / tau / (1 - self.blend + self.blend / tau)  # of tau + blend (1 - tau), infinite or not
            return self.omega, 1 / (0.5 + self.magic / (1 / self.omega - 0.5))


def direction(velocity: NDArray) -> int:
    return int(np.flatnonzero((velocity == C).all(axis=1))[0])


COLLISIONS = {"bgk": collide_bgk, "trt": collide_trt, "projected": collide_projected, "recursive": collide_recursive}


def returning(walls: str, q: float, leaving: float, back: float, upstream: float | None, push: float) -> float:
    """What comes back along a wall link: from g_i*, g_o*, the upstream neighbour's g_i*, and the wall's -6 w_i c_i.u_w.

    Interpolated as in the schemes' sources: bouzidi along the way of the population that ends, or begins, at the node;
    yu what passes the wall's place, then between this and the population a node farther in; cli as half-way with both
    populations of the link moved by the same part.
    """
    if walls == "half-way" or upstream is None:
        return leaving + push
    if walls == "bouzidi" and q < 0.5:
        return 2 * q * leaving + (1 - 2 * q) * upstream + push
    if walls == "bouzidi":
        return (leaving + push + (2 * q - 1) * back) / (2 * q)
    if walls == "yu":
        at_wall = upstream + q * (leaving - upstream) + push
        return at_wall + q / (1 + q) * (back - at_wall)
    k = (1 - 2 * q) / (1 + 2 * q)
    return leaving + k * (upstream - back) + (1 + k) * push


@dataclass
class Naive:
    """Two-lattice solver; `g` (19, N) holds the populations that arrive at each node.

    `moving` holds the velocity of patches of the wall by name, `slip` the names of those along which fluid slips.
    `inlet_weight` (R, K) holds the part of each of an inlet's columns of the conditions that enters through each link,
    `columns` where the columns of each opening begin; `control` are outlets whose pressure follows from their flow.
    """

    nodes: Nodes
    collision: str
    rates: tuple[float, float]
    walls: str
    inlet_weight: NDArray
    force: NDArray = field(default_factory=lambda: np.zeros(3))
    moving: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    slip: tuple[str, ...] = ()
    columns: NDArray | None = None
    control: Control | None = None
    compressible: bool = False
    rheology: Thickening | None = None

    def __post_init__(self) -> None:
        if self.columns is None:
            self.columns = np.arange(len(self.nodes.openings) + 1)
        self.entered = np.zeros(len(self.nodes.openings))
        self.filtered, self.stored = self.control.start.T.copy() if self.control else (None, None)
        self.g = np.zeros((19, self.nodes.count))
        neighbours = Neighbours(self.nodes)
        self.neighbour = np.array([neighbours.along(i) for i in range(19)])

    def step(self, conditions: NDArray) -> None:
        """One step; `conditions` holds the flows of an inlet, drho of an outlet and the flow that belongs to it."""
        nodes, conditions = self.nodes, self.controlled(conditions)
        drho, u = moments(self.g, self.force, self.compressible)
        rho, pi = density(drho, self.compressible), stress(self.g, self.force, self.compressible)
        rates = self.rheology.rates(pi, rho) if self.rheology else self.rates
        out = COLLISIONS[self.collision](self.g, *rates, self.force, self.compressible)
        new = np.full_like(out, np.nan)
        new[0] = out[0]
        for i in range(1, 19):
            end = self.neighbour[i]
            new[i, end[end >= 0]] = out[i, end >= 0]
        self._openings(out, u, rho, new, conditions)
        added, shared = 0.0, set()
        for n, i, q, patch in zip(
            nodes.wall_link_node, nodes.wall_link_direction, nodes.wall_link_q, nodes.wall_link_patch, strict=True
        ):
            o = OPPOSITE[i]
            name = nodes.patches[patch - 1] if patch else None
            if name in self.slip:
                end, r = self.reflected(int(n), int(i))
                new[r, end] = out[i, n]
                continue
            upstream = self.upstream(int(n), int(i), out)
            push = -6 * W[i] * (C[i] @ np.array(self.moving.get(name, (0, 0, 0))))
            new[o, n] = returning(self.walls, float(q), out[i, n], out[o, n], upstream, push)
            half_way = self.walls == "half-way" or upstream is None or (q == 0.5 and self.walls != "yu")
            if push or not half_way:
                shared.add(int(n))
            added += new[o, n] - out[i, n]
        if shared:
            new[0, sorted(shared)] -= added / len(shared)
        self.g = new

    def slips(self, n: int, c: NDArray) -> bool:
        """Whether the link along `c` crosses a wall along which fluid slips."""
        nodes, i = self.nodes, direction(c)
        link = np.flatnonzero((nodes.wall_link_node == n) & (nodes.wall_link_direction == i))
        patch = nodes.wall_link_patch[link[0]] if len(link) else 0
        return bool(patch) and nodes.patches[patch - 1] in self.slip

    def reflected(self, n: int, i: int) -> tuple[int, int]:
        """Where what leaves `n` along `i` into a slipping wall arrives, and along which direction."""
        parts = [np.where(np.arange(3) == axis, C[i], 0) for axis in np.flatnonzero(C[i])]
        for into, along in (parts, parts[::-1]) if len(parts) == 2 else ():
            beside = self.neighbour[direction(along), n]
            if beside >= 0 and self.slips(n, into) and self.slips(beside, into) and self.slips(beside, into - along):
                return beside, direction(along - into)
        return n, OPPOSITE[i]

    def upstream(self, n: int, i: int, out: NDArray) -> float | None:
        """What leaves upstream of `n` to arrive there along `i`; none where that is a wall or an opening."""
        behind = self.neighbour[OPPOSITE[i], n]
        if behind >= 0:
            return out[i, behind]
        if self.slips(n, -C[i]):  # n is the image of the end that it would send to
            end, r = self.reflected(n, OPPOSITE[i])
            return out[OPPOSITE[r], end] if end != n else None
        return None

    def controlled(self, conditions: NDArray) -> NDArray:
        """The conditions with pressures that answer the flow of the last step."""
        if not self.control:
            return conditions
        conditions = conditions.copy()
        alpha, decay, gain, resistance = self.control.rule.T
        at = self.control.column
        self.filtered += alpha * (-self.entered[self.control.opening] - self.filtered)
        excess = self.filtered - conditions[at + 1]
        self.stored = decay * self.stored + gain * excess
        conditions[at] += self.stored + resistance * excess
        return conditions

    def _openings(self, out: NDArray, u: NDArray, rho: NDArray, new: NDArray, conditions: NDArray) -> None:
        nodes, k = self.nodes, 0
        self.entered[:] = 0
        for n, i, identity in zip(
            nodes.opening_link_node, nodes.opening_link_direction, nodes.opening_link_opening, strict=True
        ):
            o, opening = OPPOSITE[i], nodes.openings[identity - 1]
            values = conditions[self.columns[identity - 1] : self.columns[identity]]
            if opening.role == "inlet":
                new[o, n] = out[i, n] + values @ self.inlet_weight[: len(values), k]
                k += 1
            else:
                outward = 1.0 if u[:, n] @ np.array(opening.normal) >= 0 else 0.0
                square = 4.5 * (C[i] @ u[:, n]) ** 2 - 1.5 * u[:, n] @ u[:, n]
                new[o, n] = -out[i, n] + 2 * W[i] * (values[0] + outward * rho[n] * square)
            self.entered[identity - 1] += new[o, n] - out[i, n]
