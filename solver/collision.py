"""Collision models: functions ``(g, rates, force) -> g*`` of one node's 19 populations, in a dict by name.

``rates`` is (omega+, omega-), the relaxation rates of the even and the odd part; ``force`` a body force per volume.
The equilibrium is

    g_i^eq = w_i [drho + rho (3 c_i.u + B_i(u, u))],   rho u = sum c_i g_i + F/2,   p = drho/3,

with rho = 1 in the incompressible form of He and Luo (1997), doi:10.1023/B:JOSS.0000015179.12689.e4, the default, and
rho = 1 + drho in the compressible one; nu = (tau - 1/2)/3 with tau = 1/omega+. B_i is the form of second order of
:func:`solver.node_physics.make_quadratic`, 4.5 (c_i.u)^2 - 1.5 u.u with or without its anisotropic fourth moment.
Directions are treated in opposite pairs, which share most of the work.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from solver.d3q19 import WEIGHTS
from solver.node_physics import (
    Populations,
    make_density,
    make_macroscopic,
    make_quadratic,
    make_stress,
    node_function,
)
from solver.stage import StageError

Real = Callable[[float], Any]


def bgk(real: Real, equilibrium: str) -> Any:
    """One relaxation time (Bhatnagar, Gross and Krook 1954): TRT with omega- = omega+."""
    two_rates = trt(real, equilibrium)

    @node_function
    def collide(g: Populations, rates: Populations, force: Populations) -> Populations:
        return two_rates(g, (rates[0], rates[0]), force)

    return collide


def trt(real: Real, equilibrium: str) -> Any:
    """Two relaxation times (Ginzburg, Verhaeghe and d'Humières 2008, Commun. Comput. Phys. 3, 427).

    With g+- = (g_i +- g_o)/2, E+ = w[drho + rho B(u, u)], E- = 3 w rho c.u and the force S+ = 2 w B(u, F),
    S- = 3 w c.F:

        A = omega+ (g+ - E+) - (1 - omega+/2) S+,   B = omega- (g- - E-) - (1 - omega-/2) S-,
        g_i* = g_i - A - B,   g_o* = g_i - A + B.
    """
    macroscopic, density = make_macroscopic(real, equilibrium), make_density(real, equilibrium)
    quadratic = make_quadratic(real, equilibrium)
    half, one, two, three, fourhalf = (real(value) for value in (0.5, 1, 2, 3, 4.5))
    w_rest, w_axis, w_plane = real(WEIGHTS[0]), real(WEIGHTS[1]), real(WEIGHTS[7])

    @node_function
    def relax(
        a: Any, b: Any, w: Any, cu: Any, cf: Any, uu: Any, uf: Any, drho: Any, rho: Any, rates: Populations,
        forcing: Populations,
    ) -> tuple[Any, Any]:  # fmt: skip
        even = rates[0] * (half * (a + b) - w * (drho + rho * uu)) - forcing[0] * w * (two * uf)
        odd = rates[1] * (half * (a - b) - w * (three * cu * rho)) - forcing[1] * w * (three * cf)
        return a - even - odd, b - even + odd

    @node_function
    def relax_plane(
        a: Any, b: Any, cu: Any, cf: Any, uu: Any, uf: Any, drho: Any, rho: Any, rates: Populations,
        forcing: Populations,
    ) -> tuple[Any, Any]:  # fmt: skip
        return relax(a, b, w_plane, cu, cf, uu + fourhalf * cu * cu, uf + fourhalf * cu * cf, drho, rho, rates, forcing)

    @node_function
    def collide(g: Populations, rates: Populations, force: Populations) -> Populations:
        drho, x, y, z = macroscopic(g, force)
        fx, fy, fz = force
        s = (one - half * rates[0], one - half * rates[1])
        rho = density(drho)
        u_rest, u_x, u_y, u_z, u_xy, u_xz, u_yz = quadratic(x * x, y * y, z * z)
        f_rest, f_x, f_y, f_z, f_xy, f_xz, f_yz = quadratic(x * fx, y * fy, z * fz)
        g0 = g[0] - rates[0] * (g[0] - w_rest * (drho + rho * u_rest)) + s[0] * w_rest * (two * f_rest)
        g1, g2 = relax(g[1], g[2], w_axis, x, fx, u_x, f_x, drho, rho, rates, s)
        g3, g4 = relax(g[3], g[4], w_axis, y, fy, u_y, f_y, drho, rho, rates, s)
        g5, g6 = relax(g[5], g[6], w_axis, z, fz, u_z, f_z, drho, rho, rates, s)
        g7, g8 = relax_plane(g[7], g[8], x + y, fx + fy, u_xy, f_xy, drho, rho, rates, s)
        g9, g10 = relax_plane(g[9], g[10], x - y, fx - fy, u_xy, f_xy, drho, rho, rates, s)
        g11, g12 = relax_plane(g[11], g[12], x + z, fx + fz, u_xz, f_xz, drho, rho, rates, s)
        g13, g14 = relax_plane(g[13], g[14], x - z, fx - fz, u_xz, f_xz, drho, rho, rates, s)
        g15, g16 = relax_plane(g[15], g[16], y + z, fy + fz, u_yz, f_yz, drho, rho, rates, s)
        g17, g18 = relax_plane(g[17], g[18], y - z, fy - fz, u_yz, f_yz, drho, rho, rates, s)
        return g0, g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11, g12, g13, g14, g15, g16, g17, g18

    return collide


def _no_third_order(real: Real) -> Any:
    zero = real(0)

    @node_function
    def coefficients(u: Populations, rho: Any, pi: Populations, kept: Any) -> Populations:
        return zero, zero, zero, zero, zero, zero

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
        )

    return coefficients


def _regularised(real: Real, equilibrium: str, third_order: Any) -> Any:
    """Rebuild populations from moments: g* = g^eq + (1 - omega) 4.5 w (cc:Pi - tr Pi/3) + w H3 + w[1.5 c.F + B(u, F)].

    The third-order part H3 on D3Q19, for coefficients a = (xxy, xxz, xyy, yyz, xzz, yzz), is -9 (a_xyy + a_xzz) along
    +x, likewise y and z, and 9 (a_xxy + a_xyy) along (1, 1, 0), the sign of each following that of the odd component:
    the sum over the three pairs of Hermite polynomials that the lattice carries, written out.
    """
    macroscopic, stress = make_macroscopic(real, equilibrium), make_stress(real, equilibrium)
    density, quadratic = make_density(real, equilibrium), make_quadratic(real, equilibrium)
    one, onehalf, three, fourhalf, nine = (real(value) for value in (1, 1.5, 3, 4.5, 9))
    two = real(2)
    w_rest, w_axis, w_plane = real(WEIGHTS[0]), real(WEIGHTS[1]), real(WEIGHTS[7])

    @node_function
    def pair(w: Any, cu: Any, cf: Any, rho: Any, even: Any, viscous: Any, odd: Any) -> tuple[Any, Any]:
        even = w * (even + fourhalf * viscous)
        odd = w * (three * cu * rho + onehalf * cf + odd)
        return even + odd, even - odd

    @node_function
    def plane(cu: Any, cf: Any, rho: Any, even: Any, viscous: Any, odd: Any) -> tuple[Any, Any]:
        return pair(w_plane, cu, cf, rho, even, cu * (rho * cu + cf) + viscous, odd)

    @node_function
    def collide(g: Populations, rates: Populations, force: Populations) -> Populations:
        drho, x, y, z = macroscopic(g, force)
        fx, fy, fz = force
        rho, kept = density(drho), one - rates[0]
        pi = stress(g, drho, (x, y, z), force)
        xxy, xxz, xyy, yyz, xzz, yzz = third_order((x, y, z), rho, pi, kept)
        xx, yy, zz = kept * pi[0], kept * pi[1], kept * pi[2]
        xy, xz, yz = two * kept * pi[3], two * kept * pi[4], two * kept * pi[5]
        e = drho - onehalf * (xx + yy + zz)
        b, bx, by, bz, bxy, bxz, byz = quadratic(x * (rho * x + fx), y * (rho * y + fy), z * (rho * z + fz))
        g0 = w_rest * (e + b)
        g1, g2 = pair(w_axis, x, fx, rho, e + bx, xx, -nine * (xyy + xzz))
        g3, g4 = pair(w_axis, y, fy, rho, e + by, yy, -nine * (xxy + yzz))
        g5, g6 = pair(w_axis, z, fz, rho, e + bz, zz, -nine * (xxz + yyz))
        g7, g8 = plane(x + y, fx + fy, rho, e + bxy, xx + yy + xy, nine * (xxy + xyy))
        g9, g10 = plane(x - y, fx - fy, rho, e + bxy, xx + yy - xy, nine * (xyy - xxy))
        g11, g12 = plane(x + z, fx + fz, rho, e + bxz, xx + zz + xz, nine * (xxz + xzz))
        g13, g14 = plane(x - z, fx - fz, rho, e + bxz, xx + zz - xz, nine * (xzz - xxz))
        g15, g16 = plane(y + z, fy + fz, rho, e + byz, yy + zz + yz, nine * (yyz + yzz))
        g17, g18 = plane(y - z, fy - fz, rho, e + byz, yy + zz - yz, nine * (yzz - yyz))
        return g0, g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11, g12, g13, g14, g15, g16, g17, g18

    return collide


def projected(real: Real, equilibrium: str) -> Any:
    """Projected regularised collision (Latt and Chopard 2006, doi:10.1016/j.matcom.2006.05.017).

    g* = g^eq + (1 - omega) 4.5 w (cc:Pi - tr Pi/3) + w[1.5 c.F + B(u, F)].
    """
    return _regularised(real, equilibrium, _no_third_order(real))


def recursive(real: Real, equilibrium: str) -> Any:
    """Recursive regularised collision: the projected one plus the third-order Hermite terms that D3Q19 carries.

    a_xxy = ux^2 uy + (1 - omega)(2 ux Pi_xy + uy Pi_xx) and so on (Coreixas et al. 2017,
    doi:10.1103/PhysRevE.96.033306; Jacob, Malaspinas and Sagaut 2018, doi:10.1080/14685248.2018.1540879).
    """
    return _regularised(real, equilibrium, _recursive_third_order(real))


COLLISIONS: dict[str, Callable[[Real, str], Any]] = {
    "bgk": bgk, "trt": trt, "projected": projected, "recursive": recursive,
}  # fmt: skip
"""Makers of the collision function for one floating-point type and equilibrium, by name."""


def demand_collision(name: str, known: Iterable[str]) -> None:
    """Check the name of a collision model.

    Raises
    ------
    StageError
        If it is none of the known ones.
    """
    if name not in (names := tuple(known)):
        raise StageError(f"solve.collision {name!r}: unknown; known are {', '.join(names)}")


@cache
def make_collision(name: str, real: Real, equilibrium: str = "incompressible") -> Any:
    """The collision function of that name for one floating-point type and equilibrium.

    Raises
    ------
    StageError
        If there is no such model or equilibrium.
    """
    demand_collision(name, COLLISIONS)
    return COLLISIONS[name](real, equilibrium)


def relaxation_rates(tau: float, magic: float) -> tuple[float, float]:
    """Rates (omega+, omega-) from tau and TRT's magic parameter Lambda = (tau - 1/2)(1/omega- - 1/2)."""
    return 1 / tau, 1 / (0.5 + magic / (tau - 0.5))
