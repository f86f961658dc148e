# SPDX-License-Identifier: Apache-2.0
"""Fully developed steady laminar flow in a torus, a pipe that bends on and on, by a spectral method.

Lengths are in radii a of the section, speeds in mean speeds W; R is the radius of the centreline. In the section x
points away from the centre of curvature, y across the plane of the bend. With the curvature delta = a/R, a way along
the torus is h = 1 + delta x of that along the centreline; Re = 2 a W/nu. Nothing changes along the torus but the
pressure, which falls by g, in rho W^2/a, per length of the centreline. The velocity is w along it and, by a stream
function s,

    u = (ds/dy)/h,  v = -(ds/dx)/h,  q = du/dy - dv/dx = div(grad(s)/h)

in the section. The equations of Navier and Stokes, with D = u d/dx + v d/dy, are

    D w + delta u w/h = g/h + (2/Re) (lap w + (delta/h) dw/dx - delta^2 w/h^2),
    D q - delta u q/h - (delta/h) d(w^2)/dy = (2/Re) (lap q + (delta/h) dq/dx - delta^2 q/h^2),

of the whole curvature, not only to its first order; w = s = ds/dr = 0 at the wall and the mean of w is 1. They are
solved by Newton's method at the points of a polar grid, of Chebyshev along whole diameters and of equal angles.

Source: Dean (1927), doi:10.1080/14786440708564324, for the equations; Trefethen (2000), Spectral Methods in MATLAB,
doi:10.1137/1.9780898719598, chapter 11, for the grid.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from solver.runtime.errors import StageError

Array = NDArray[np.float64]

RADII, ANGLES = 12, 28
"""Points on a radius, that on the wall counted, and on a circle."""
DEAN_STEP = 25.0
"""Of the Dean number Re sqrt(delta) between flows of which one is the first guess of the next."""
NEWTON, SETTLED = 15, 1e-9
"""Corrections at most, and how small the last one is, of the largest value; it falls as its square."""


@dataclass(frozen=True)
class Grid:
    """Points of a disc and derivatives on them.

    Points are numbered circle by circle from the wall inwards; none lies in the centre.

    Attributes
    ----------
    x, y : (P,) points.
    d_x, d_y, laplace : (P, P), operators on values at the points.
    d_r : (A, P), derivative outwards at the points on the wall.
    weights : (P,) of the mean over the disc.
    angles : points on a circle, A.
    """

    x: Array
    y: Array
    d_x: Array
    d_y: Array
    laplace: Array
    d_r: Array
    weights: Array
    angles: int

    @staticmethod
    @cache
    def of(radii: int, angles: int) -> "Grid":
        """Of so many points on a radius and, an even number, on a circle.

        The Chebyshev points of a diameter are 2 radii, those of negative r at the opposite angles.
        """
        across, d = chebyshev(2 * radii - 1)
        r, theta = across[:radii], 2 * np.pi * np.arange(angles) / angles
        same, opposite = np.eye(angles), np.roll(np.eye(angles), angles // 2, axis=1)

        def radial(operator: Array) -> Array:
            return np.kron(operator[:radii, :radii], same) + np.kron(operator[:radii, : radii - 1 : -1], opposite)

        d_r, d_rr = radial(d), radial(d @ d)
        d_t = np.kron(np.diag(1 / r), fourier(angles, 1))
        laplace = d_rr + np.repeat(1 / r, angles)[:, None] * d_r + np.kron(np.diag(1 / r**2), fourier(angles, 2))
        cos, sin = np.tile(np.cos(theta), radii), np.tile(np.sin(theta), radii)
        d_x, d_y = cos[:, None] * d_r - sin[:, None] * d_t, sin[:, None] * d_r + cos[:, None] * d_t
        x, y = np.repeat(r, angles) * cos, np.repeat(r, angles) * sin
        return Grid(x, y, d_x, d_y, laplace, d_r[:angles], np.repeat(_disc_weights(r) / angles, angles), angles)


def chebyshev(n: int) -> tuple[Array, Array]:
    """Points cos(j pi/n), (n + 1,), and the derivative on them, (n + 1, n + 1)."""
    x = np.cos(np.pi * np.arange(n + 1) / n)
    c = np.r_[2.0, np.ones(n - 1), 2.0] * (-1.0) ** np.arange(n + 1)
    d = np.outer(c, 1 / c) / (x[:, None] - x + np.eye(n + 1))
    return x, d - np.diag(d.sum(axis=1))


def fourier(n: int, order: int) -> Array:
    """Derivative of an order, 1 or 2, of periodic values at n equal angles, (n, n)."""
    modes = np.fft.fftfreq(n, 1 / n)
    return np.asarray(np.fft.ifft((1j * modes[:, None]) ** order * np.fft.fft(np.eye(n), axis=0), axis=0).real)


def _disc_weights(r: Array) -> Array:
    """Of circles of radii r in the mean over the disc, the integral of f(t) dt, t = r^2; exact for polynomials in t."""
    # Legendre's, on (0, 1), of which only the first has a mean
    matrix = np.polynomial.legendre.legvander(2 * r**2 - 1, len(r) - 1)
    return np.asarray(np.linalg.solve(matrix.T, np.r_[1.0, np.zeros(len(r) - 1)]), np.float64)


@dataclass(frozen=True)
class TorusFlow:
    """Flow in a section of a torus, in radii of the section and mean speeds.

    Attributes
    ----------
    curvature, reynolds : delta and Re.
    grid : where the values stand.
    velocity : (3, P): u away from the centre of curvature, v across the plane of the bend, w along the torus.
    gradient : g.
    """

    curvature: float
    reynolds: float
    grid: Grid
    velocity: Array
    gradient: float

    @property
    def friction_ratio(self) -> float:
        """Fall of the pressure along the centreline over that in a straight pipe of the same flow, 16/Re here."""
        return self.gradient * self.reynolds / 16

    @cached_property
    def _coefficients(self) -> NDArray[np.complex128]:
        """(3, 2 radii, angles): of Chebyshev's polynomials along whole diameters and of exp(i m theta)."""
        angles, radii = self.grid.angles, len(self.grid.x) // self.grid.angles
        rings = np.fft.fft(self.velocity.reshape(3, radii, angles), axis=2) / angles
        parity = (-1.0) ** np.arange(angles)
        whole = np.concatenate((rings, parity * rings[:, ::-1]), axis=1)
        across, _ = chebyshev(2 * radii - 1)
        inverse = np.linalg.inv(np.polynomial.chebyshev.chebvander(across, 2 * radii - 1))
        return np.asarray(np.einsum("kr,crm->ckm", inverse, whole))

    def at(self, x: Array, y: Array) -> Array:
        """Velocity (u, v, w) at points of the section, (N,) each: (3, N)."""
        angles = self.grid.angles
        r, theta = np.hypot(x, y), np.arctan2(y, x)
        along_r = np.polynomial.chebyshev.chebvander(r, self._coefficients.shape[1] - 1)
        around = np.exp(1j * theta[:, None] * np.fft.fftfreq(angles, 1 / angles))
        return np.asarray(np.einsum("nk,ckm,nm->cn", along_r, self._coefficients, around).real)


@cache
def torus_flow(curvature: float, reynolds: float, radii: int = RADII, angles: int = ANGLES) -> TorusFlow:
    """The flow at a curvature a/R, 0 for a straight pipe, and a Reynolds number 2 a W/nu.

    It is followed from that in a straight pipe through rising Reynolds numbers.

    Parameters
    ----------
    curvature : a/R, radius of the pipe over that of its axis.
    reynolds : 2 a W/nu.
    radii, angles : points of the grid, see :class:`Grid`.

    Raises
    ------
    StageError
        If Newton's method does not find it.
    """
    grid = Grid.of(radii, angles)
    stages = 1 + int(reynolds * curvature**0.5 / DEAN_STEP)
    z = np.concatenate((2 * (1 - grid.x**2 - grid.y**2), np.zeros(2 * len(grid.x)), [16 * stages / reynolds]))
    for stage in range(1, stages + 1):
        z = _newton(_Equations(grid, curvature, reynolds * stage / stages), z)
    w, s, _ = z[:-1].reshape(3, -1)
    h = 1 + curvature * grid.x
    velocity = np.stack((grid.d_y @ s / h, -grid.d_x @ s / h, w))
    return TorusFlow(curvature, reynolds, grid, velocity, float(z[-1]))


@dataclass(frozen=True)
class _Equations:
    """Of the unknowns z = (w, s, q at the points, g), (3 P + 1,)."""

    grid: Grid
    curvature: float
    reynolds: float

    def __call__(self, z: Array) -> tuple[Array, Array]:
        """What is to vanish, (3 P + 1,), and its derivatives, (3 P + 1, 3 P + 1)."""
        grid, count = self.grid, len(self.grid.x)
        w, s, q = z[:-1].reshape(3, count)
        h = 1 + self.curvature * grid.x
        bend = self.curvature / h
        friction = 2 / self.reynolds * (grid.laplace + bend[:, None] * grid.d_x - np.diag(bend**2))
        curl = (grid.laplace - bend[:, None] * grid.d_x) / h[:, None]
        u, v = grid.d_y @ s / h, -grid.d_x @ s / h
        w_x, w_y, q_x, q_y = grid.d_x @ w, grid.d_y @ w, grid.d_x @ q, grid.d_y @ q
        carried, turned = u[:, None] * grid.d_x + v[:, None] * grid.d_y - friction, np.diag(bend * u)
        along, across = carried @ w + bend * u * w - z[-1] / h, carried @ q - bend * u * q - 2 * bend * w * w_y
        rest = np.concatenate((along, q - curl @ s, across, [grid.weights @ w - 1]))
        w_by_s = ((w_x + bend * w) / h)[:, None] * grid.d_y - (w_y / h)[:, None] * grid.d_x
        q_by_s = ((q_x - bend * q) / h)[:, None] * grid.d_y - (q_y / h)[:, None] * grid.d_x
        q_by_w = -2 * bend[:, None] * (np.diag(w_y) + w[:, None] * grid.d_y)
        each, zero = np.eye(count), np.zeros((count, count))
        slope = np.zeros((len(z), len(z)))
        slope[:-1, :-1] = np.block(
            [[carried + turned, w_by_s, zero], [zero, -curl, each], [q_by_w, q_by_s, carried - turned]]
        )
        slope[:count, -1], slope[-1, :count] = -1 / h, grid.weights
        for row, (of, operator) in enumerate(((0, each), (1, each), (1, grid.d_r))):  # w = s = ds/dr = 0 at the wall
            on_wall = slice(row * count, row * count + grid.angles)
            rest[on_wall] = operator[: grid.angles] @ (w, s)[of]
            slope[on_wall] = 0
            slope[on_wall, of * count : (of + 1) * count] = operator[: grid.angles]
        return rest, slope


def _newton(equations: _Equations, z: Array) -> Array:
    for _ in range(NEWTON):
        change = np.linalg.solve(*equations(z)[::-1])
        z = z - change
        if np.abs(change).max() < SETTLED * np.abs(z).max():
            return z
    raise StageError(
        f"flow in a torus of curvature {equations.curvature:g} at Reynolds number {equations.reynolds:g}: not found in"
        f" {NEWTON} steps of Newton's method; choose a lower one"
    )


def white(dean: float) -> float:
    """Friction in a bent pipe over that in a straight one, 1/(1 - (1 - (11.6/De)^0.45)^(1/0.45)), 1 below De = 11.6.

    Source: White (1929), doi:10.1098/rspa.1929.0089, from measurements at De up to 2000 and little curvature.
    """
    return float(1 / (1 - (1 - (11.6 / max(dean, 11.6)) ** 0.45) ** (1 / 0.45)))


def mishra_gupta(dean: float) -> float:
    """The same by 1 + 0.033 log10(De)^4, from De = 1 on.

    Source: Mishra and Gupta (1979), doi:10.1021/i260069a017, from measurements of many coils.
    """
    return float(1 + 0.033 * np.log10(max(dean, 1.0)) ** 4)
