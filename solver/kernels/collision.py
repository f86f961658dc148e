# SPDX-License-Identifier: Apache-2.0
"""Collision models: functions ``(g, rates, force) -> g*`` of one node's 19 or 27 populations, in a dict by name.

``rates`` is (omega+, omega-), the relaxation rates of the even and the odd part; ``force`` a body force per volume.
The equilibrium is

    g_i^eq = w_i [drho + rho (3 c_i.u + B_i(u, u))],   rho u = sum c_i g_i + F/2,   p = drho/3,

with rho = 1 in the incompressible form of He and Luo (1997), doi:10.1023/B:JOSS.0000015179.12689.e4, the default, and
rho = 1 + drho in the compressible one; nu = (tau - 1/2)/3 with tau = 1/omega+. B_i is the form of second order of
:func:`solver.kernels.node_physics.make_quadratic`, 4.5 (c_i.u)^2 - 1.5 u.u with or without its anisotropic fourth
moment. Directions are treated in opposite pairs, which share most of the work; those of D3Q27's corners come last.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from solver.kernels.cumulants import make_cumulant
from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import (
    Populations,
    make_density,
    make_macroscopic,
    make_quadratic,
    make_stress,
    node_function,
)
from solver.kernels.velocity_sets import velocity_set

Real = Callable[[float], Any]


def bgk(real: Real, equilibrium: str, q: int) -> Any:
    """One relaxation time (Bhatnagar, Gross and Krook 1954): TRT with omega- = omega+.

    The parameters are those of :mod:`solver.kernels`.
    """
    two_rates = trt(real, equilibrium, q)

    @node_function
    def collide(g: Populations, rates: Populations, force: Populations) -> Populations:
        return two_rates(g, (rates[0], rates[0]), force)

    return collide


# long because the formula of each direction is written out, and the functions close over the same numbers
def trt(real: Real, equilibrium: str, q: int) -> Any:
    """Two relaxation times (Ginzburg, Verhaeghe and d'Humières 2008, Commun. Comput. Phys. 3, 427).

    With g+- = (g_i +- g_o)/2, the equilibrium's parts E+ = w[drho + rho B(u, u)], E- = 3 w rho c.u, and the force's
    S+ = 2 w B(u, F), S- = 3 w c.F:

        A = omega+ (g+ - E+) - (1 - omega+/2) S+,   B = omega- (g- - E-) - (1 - omega-/2) S-,
        g_i* = g_i - A - B,   g_o* = g_i - A + B.

    Velocity and force come in as two vectors, since B is bilinear:

        h = omega+ rho u + 2 (1 - omega+/2) F,   A = omega+ g+ - w[omega+ drho + B(u, h)],
        v = 3 omega- rho u + 3 (1 - omega-/2) F,   B = omega- g- - w c.v.

    The parameters are those of :mod:`solver.kernels`.
    """
    macroscopic, density = make_macroscopic(real, equilibrium, q), make_density(real, equilibrium)
    quadratic = make_quadratic(real, equilibrium, q)
    half, one, two, three, fourhalf = (real(value) for value in (0.5, 1, 2, 3, 4.5))
    w_rest, w_axis, w_plane, w_corner = _weights(real, q)

    @node_function
    def relax(a: Any, b: Any, w: Any, even: Any, cv: Any, rates: Populations) -> tuple[Any, Any]:
        even = rates[0] * (half * (a + b)) - w * even
        odd = rates[1] * (half * (a - b)) - w * cv
        return a - even - odd, b - even + odd

    @node_function
    def relax_diagonal(
        a: Any, b: Any, w: Any, cu: Any, ch: Any, even: Any, cv: Any, rates: Populations
    ) -> tuple[Any, Any]:
        return relax(a, b, w, even + fourhalf * cu * ch, cv, rates)

    @node_function
    def driving(rates: Populations, force: Populations, drho: Any, u: Populations) -> tuple[Populations, Populations]:
        (x, y, z), (fx, fy, fz), rho = u, force, density(drho)
        even, odd = rates[0] * rho, three * (rates[1] * rho)
        of_even, of_odd = two * (one - half * rates[0]), three * (one - half * rates[1])
        h = even * x + of_even * fx, even * y + of_even * fy, even * z + of_even * fz
        return h, (odd * x + of_odd * fx, odd * y + of_odd * fy, odd * z + of_odd * fz)

    @node_function
    def first(g: Populations, rates: Populations, force: Populations, drho: Any, u: Populations) -> Populations:
        (x, y, z), ((hx, hy, hz), (vx, vy, vz)) = u, driving(rates, force, drho, u)
        e, (rest, on_x, on_y, on_z, in_xy, in_xz, in_yz) = rates[0] * drho, quadratic(x * hx, y * hy, z * hz)
        xy, xz, yz = e + in_xy, e + in_xz, e + in_yz
        g0 = g[0] - rates[0] * g[0] + w_rest * (e + rest)
        g1, g2 = relax(g[1], g[2], w_axis, e + on_x, vx, rates)
        g3, g4 = relax(g[3], g[4], w_axis, e + on_y, vy, rates)
        g5, g6 = relax(g[5], g[6], w_axis, e + on_z, vz, rates)
        g7, g8 = relax_diagonal(g[7], g[8], w_plane, x + y, hx + hy, xy, vx + vy, rates)
        g9, g10 = relax_diagonal(g[9], g[10], w_plane, x - y, hx - hy, xy, vx - vy, rates)
        g11, g12 = relax_diagonal(g[11], g[12], w_plane, x + z, hx + hz, xz, vx + vz, rates)
        g13, g14 = relax_diagonal(g[13], g[14], w_plane, x - z, hx - hz, xz, vx - vz, rates)
        g15, g16 = relax_diagonal(g[15], g[16], w_plane, y + z, hy + hz, yz, vy + vz, rates)
        g17, g18 = relax_diagonal(g[17], g[18], w_plane, y - z, hy - hz, yz, vy - vz, rates)
        return g0, g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11, g12, g13, g14, g15, g16, g17, g18

    @node_function
    def corners(g: Populations, rates: Populations, force: Populations, drho: Any, u: Populations) -> Populations:
        (x, y, z), ((hx, hy, hz), (vx, vy, vz)) = u, driving(rates, force, drho, u)
        e = rates[0] * drho + quadratic(x * hx, y * hy, z * hz)[0]
        p, hp, vp, m, hm, vm = x + y, hx + hy, vx + vy, x - y, hx - hy, vx - vy
        g19, g20 = relax_diagonal(g[19], g[20], w_corner, p + z, hp + hz, e, vp + vz, rates)
        g21, g22 = relax_diagonal(g[21], g[22], w_corner, p - z, hp - hz, e, vp - vz, rates)
        g23, g24 = relax_diagonal(g[23], g[24], w_corner, m + z, hm + hz, e, vm + vz, rates)
        g25, g26 = relax_diagonal(g[25], g[26], w_corner, m - z, hm - hz, e, vm - vz, rates)
        return g19, g20, g21, g22, g23, g24, g25, g26

    @node_function
    def collide(g: Populations, rates: Populations, force: Populations) -> Populations:
        drho, x, y, z = macroscopic(g, force)
        return first(g, rates, force, drho, (x, y, z))

    @node_function
    def collide_27(g: Populations, rates: Populations, force: Populations) -> Populations:
        drho, x, y, z = macroscopic(g, force)
        return (*first(g, rates, force, drho, (x, y, z)), *corners(g, rates, force, drho, (x, y, z)))

    return collide_27 if q == 27 else collide


def _weights(real: Real, q: int) -> tuple[Any, Any, Any, Any]:
    """Those at rest, along the axes, in the planes, to the corners: 0 where there are none."""
    w = velocity_set(q).weights
    return real(w[0]), real(w[1]), real(w[7]), real(w[19] if q == 27 else 0)


def _no_third_order(real: Real) -> Any:
    zero = real(0)

    @node_function
    def coefficients(u: Populations, rho: Any, pi: Populations, kept: Any) -> Populations:
        return zero, zero, zero, zero, zero, zero, zero

    return coefficients


def _recursive_third_order(real: Real) -> Any:
    two = real(2)

    @node_function
    def coefficients(u: Populations, rho: Any, pi: Populations, kept: Any) -> Populations:
        x, y, z = u
        xx, yy, zz, xy, xz, yz = pi
        return (
            rho * x * x * y + kept * (two * x * xy + y * xx),
            rho * x * x * z + kept * (two * x * xz + z * xx),
            rho * x * y * y + kept * (two * y * xy + x * yy),
            rho * y * y * z + kept * (two * y * yz + z * yy),
            rho * x * z * z + kept * (two * z * xz + x * zz),
            rho * y * z * z + kept * (two * z * yz + y * zz),
            rho * x * y * z + kept * (x * yz + y * xz + z * xy),
        )

    return coefficients


# long because the formula of each direction is written out, and the functions close over the same numbers
def _regularised(real: Real, equilibrium: str, q: int, third_order: Any) -> Any:
    """Rebuild populations from moments: g* = g^eq + (1 - omega) 4.5 w (cc:Pi - tr Pi/3) + w H3 + w[1.5 c.F + B(u, F)].

    The third-order part H3 is the sum over the Hermite polynomials that a lattice carries, written out, for
    coefficients a = (xxy, xxz, xyy, yyz, xzz, yzz, xyz); the sign of each follows that of the odd component. On D3Q19,
    which carries them in pairs and xyz not at all, it is -9 (a_xyy + a_xzz) along +x, likewise y and z, and
    9 (a_xxy + a_xyy) along (1, 1, 0). On D3Q27 it is -4.5 (a_xyy + a_xzz) along +x,
    9 (a_xxy + a_xyy) - 4.5 (a_xzz + a_yzz) along (1, 1, 0), and 9 times the sum of the first six + 27 a_xyz along
    (1, 1, 1).
    """
    macroscopic, stress = make_macroscopic(real, equilibrium, q), make_stress(real, equilibrium, q)
    density, quadratic = make_density(real, equilibrium), make_quadratic(real, equilibrium, q)
    one, onehalf, three, fourhalf, nine, many = (real(value) for value in (1, 1.5, 3, 4.5, 9, 27))
    two, along, beside = real(2), real(-4.5 if q == 27 else -9), real(-4.5 if q == 27 else 0)
    w_rest, w_axis, w_plane, w_corner = _weights(real, q)

    @node_function
    def pair(w: Any, cu: Any, cf: Any, rho: Any, even: Any, viscous: Any, odd: Any) -> tuple[Any, Any]:
        even = w * (even + fourhalf * viscous)
        odd = w * (three * cu * rho + onehalf * cf + odd)
        return even + odd, even - odd

    @node_function
    def diagonal(w: Any, cu: Any, cf: Any, rho: Any, even: Any, viscous: Any, odd: Any) -> tuple[Any, Any]:
        return pair(w, cu, cf, rho, even, cu * (rho * cu + cf) + viscous, odd)

    @node_function
    def first(drho: Any, u: Populations, force: Populations, kept: Any, pi: Populations) -> Populations:
        (x, y, z), (fx, fy, fz), rho = u, force, density(drho)
        xxy, xxz, xyy, yyz, xzz, yzz, _ = third_order(u, rho, pi, kept)
        xx, yy, zz = kept * pi[0], kept * pi[1], kept * pi[2]
        xy, xz, yz = two * kept * pi[3], two * kept * pi[4], two * kept * pi[5]
        e = drho - onehalf * (xx + yy + zz)
        b, bx, by, bz, bxy, bxz, byz = quadratic(x * (rho * x + fx), y * (rho * y + fy), z * (rho * z + fz))
        g0 = w_rest * (e + b)
        g1, g2 = pair(w_axis, x, fx, rho, e + bx, xx, along * (xyy + xzz))
        g3, g4 = pair(w_axis, y, fy, rho, e + by, yy, along * (xxy + yzz))
        g5, g6 = pair(w_axis, z, fz, rho, e + bz, zz, along * (xxz + yyz))
        z_p, z_m = beside * (xzz + yzz), beside * (xzz - yzz)
        y_p, y_m = beside * (xyy + yyz), beside * (xyy - yyz)
        x_p, x_m = beside * (xxy + xxz), beside * (xxy - xxz)
        g7, g8 = diagonal(w_plane, x + y, fx + fy, rho, e + bxy, xx + yy + xy, nine * (xxy + xyy) + z_p)
        g9, g10 = diagonal(w_plane, x - y, fx - fy, rho, e + bxy, xx + yy - xy, nine * (xyy - xxy) + z_m)
        g11, g12 = diagonal(w_plane, x + z, fx + fz, rho, e + bxz, xx + zz + xz, nine * (xxz + xzz) + y_p)
        g13, g14 = diagonal(w_plane, x - z, fx - fz, rho, e + bxz, xx + zz - xz, nine * (xzz - xxz) + y_m)
        g15, g16 = diagonal(w_plane, y + z, fy + fz, rho, e + byz, yy + zz + yz, nine * (yyz + yzz) + x_p)
        g17, g18 = diagonal(w_plane, y - z, fy - fz, rho, e + byz, yy + zz - yz, nine * (yzz - yyz) + x_m)
        return g0, g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11, g12, g13, g14, g15, g16, g17, g18

    @node_function
    def corners(drho: Any, u: Populations, force: Populations, kept: Any, pi: Populations) -> Populations:
        (x, y, z), (fx, fy, fz), rho = u, force, density(drho)
        xxy, xxz, xyy, yyz, xzz, yzz, xyz = third_order(u, rho, pi, kept)
        trace = kept * (pi[0] + pi[1] + pi[2])
        xy, xz, yz = two * kept * pi[3], two * kept * pi[4], two * kept * pi[5]
        e = drho - onehalf * trace + quadratic(x * (rho * x + fx), y * (rho * y + fy), z * (rho * z + fz))[0]
        on_x, on_y, on_z, skew = nine * (xyy + xzz), nine * (xxy + yzz), nine * (xxz + yyz), many * xyz
        p, fp, m, fm = x + y, fx + fy, x - y, fx - fy
        p_on, m_on = on_x + on_y, on_x - on_y
        g19, g20 = diagonal(w_corner, p + z, fp + fz, rho, e, trace + xy + xz + yz, p_on + on_z + skew)
        g21, g22 = diagonal(w_corner, p - z, fp - fz, rho, e, trace + xy - xz - yz, p_on - on_z - skew)
        g23, g24 = diagonal(w_corner, m + z, fm + fz, rho, e, trace - xy + xz - yz, m_on + on_z - skew)
        g25, g26 = diagonal(w_corner, m - z, fm - fz, rho, e, trace - xy - xz + yz, m_on - on_z + skew)
        return g19, g20, g21, g22, g23, g24, g25, g26

    @node_function
    def collide(g: Populations, rates: Populations, force: Populations) -> Populations:
        drho, x, y, z = macroscopic(g, force)
        return first(drho, (x, y, z), force, one - rates[0], stress(g, drho, (x, y, z), force))

    @node_function
    def collide_27(g: Populations, rates: Populations, force: Populations) -> Populations:
        drho, x, y, z = macroscopic(g, force)
        u, kept, pi = (x, y, z), one - rates[0], stress(g, drho, (x, y, z), force)
        return (*first(drho, u, force, kept, pi), *corners(drho, u, force, kept, pi))

    return collide_27 if q == 27 else collide


def projected(real: Real, equilibrium: str, q: int) -> Any:
    """Projected regularised collision (Latt and Chopard 2006, doi:10.1016/j.matcom.2006.05.017).

    g* = g^eq + (1 - omega) 4.5 w (cc:Pi - tr Pi/3) + w[1.5 c.F + B(u, F)].

    The parameters are those of :mod:`solver.kernels`.
    """
    return _regularised(real, equilibrium, q, _no_third_order(real))


def recursive(real: Real, equilibrium: str, q: int) -> Any:
    """Recursive regularised collision: the projected one plus the third-order Hermite terms that the lattice carries.

    a_xxy = ux^2 uy + (1 - omega)(2 ux Pi_xy + uy Pi_xx) and so on (Coreixas et al. 2017,
    doi:10.1103/PhysRevE.96.033306; Jacob, Malaspinas and Sagaut 2018, doi:10.1080/14685248.2018.1540879).

    The parameters are those of :mod:`solver.kernels`.
    """
    return _regularised(real, equilibrium, q, _recursive_third_order(real))


def cumulant(real: Real, equilibrium: str, q: int) -> Any:
    """Cumulant collision, see :mod:`solver.kernels.cumulants`.

    The parameters are those of :mod:`solver.kernels`.

    Raises
    ------
    ValueError
        On D3Q19.
    """
    if q != 27:
        raise ValueError(f"cumulant collision with {q} velocities: it is for 27")
    return make_cumulant(real, equilibrium)


ON_D3Q27 = ("cumulant",)
"""Names of the collision models that only D3Q27 has."""
COLLISIONS: dict[str, Callable[[Real, str, int], Any]] = {
    "bgk": bgk,
    "trt": trt,
    "projected": projected,
    "recursive": recursive,
    "cumulant": cumulant,
}
"""Makers of the collision function for one floating-point type, equilibrium and number of populations, by name."""
ON_D3Q19 = tuple(name for name in COLLISIONS if name not in ON_D3Q27)


@cache
def make_collision(name: str, real: Real, equilibrium: str = "incompressible", q: int = Q) -> Any:
    """The collision function of that name for one floating-point type, equilibrium and number of populations.

    The parameters are those of :mod:`solver.kernels`, `name` that of the collision.

    Raises
    ------
    ValueError
        If there is no such model or equilibrium.
    """
    if name not in COLLISIONS:
        raise ValueError(f"collision {name!r}: unknown; known are {', '.join(COLLISIONS)}")
    return COLLISIONS[name](real, equilibrium, q)


def relaxation_rates(tau: float, lambda_trt: float) -> tuple[float, float]:
    """Rates (omega+, omega-) from tau and TRT's parameter Lambda = (tau - 1/2)(1/omega- - 1/2)."""
    return 1 / tau, 1 / (0.5 + lambda_trt / (tau - 0.5))
