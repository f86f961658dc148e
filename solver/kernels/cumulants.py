# SPDX-License-Identifier: Apache-2.0
"""The cumulant collision on D3Q27: fluid in motion relaxes as fluid at rest does.

Cumulants of the populations relax in place of their moments (Geier, Schönherr, Pasquali and Krafczyk 2015,
doi:10.1016/j.camwa.2015.05.001). With u the velocity of the node they follow from its central moments

    k_abc = sum_i (c_ix - u_x)^a (c_iy - u_y)^b (c_iz - u_z)^c f_i,   a, b, c = 0, 1, 2,

which are sums and differences along one axis after the other, and back. A force F changes the mean of the populations
by F/rho, u lies in the middle: moments are about u - F/(2 rho) before and about u + F/(2 rho) after the collision, so
that those of first order are 0. About u itself a force would leave -F/6 in those of third order, which is no cumulant,
and would move walls.

- Second order: what is sheared relaxes by omega+, the trace at once; both also make up for c_x^3 = c_x.
- Third order: a part 1 - omega- of the sums and differences k_120 +- k_102, and so on, and of k_111 is kept, and less
  the larger they are, by the limiter LIMIT/(LIMIT + |k|/rho) of Geier, Pasquali and Schönherr (2017,
  doi:10.1016/j.jcp.2017.05.040). With a fixed Lambda the friction of a curved wall does not depend on the viscosity;
  where they relax at once, as with regularised collision, it grows as the viscosity falls.
- Above: 0, which is not to say that the moments are.

All is written for what is left of the moments when those of fluid at rest, 1, 1/3, 1/9 and 1/27 where a, b and c are
even, are taken off, so that single precision keeps its digits. In the incompressible form the populations without their
w_i drho collide as fluid of the density 1.
"""

from typing import Any

import numpy as np

from solver.kernels.node_physics import Populations, make_density, make_macroscopic, node_function
from solver.kernels.velocity_sets import velocity_set

LIMIT = 0.01
"""Size of a cumulant of third order, over the density, at which half of it is kept."""


def make_cumulant(real: Any, equilibrium: str) -> Any:
    """Collision function ``(g, rates, force) -> g*`` of D3Q27.

    Moments stand in the order 9 a + 3 b + c, populations in between in that of their components plus 1.
    """
    half, one, macroscopic = real(0.5), real(1), make_macroscopic(real, equilibrium, 27)
    density, compressible, zero = make_density(real, equilibrium), equilibrium.startswith("compressible"), real(0)
    w0, w1, w2, w3 = (real(velocity_set(27).weights[n]) for n in (0, 1, 7, 19))
    (to_x, to_y, to_z), (from_z, from_y, from_x) = _make_transforms(real)
    relaxed = _make_relaxed(real)

    @node_function
    def placed(g: Populations, drho: Any) -> Populations:
        """In the order of components, less w_i drho."""
        w, x, d, c = w0 * drho, w1 * drho, w2 * drho, w3 * drho
        return (
            g[20] - c, g[8] - d, g[22] - c, g[12] - d, g[2] - x, g[14] - d, g[24] - c, g[10] - d, g[26] - c,
            g[16] - d, g[4] - x, g[18] - d, g[6] - x, g[0] - w, g[5] - x, g[17] - d, g[3] - x, g[15] - d,
            g[25] - c, g[9] - d, g[23] - c, g[13] - d, g[1] - x, g[11] - d, g[21] - c, g[7] - d, g[19] - c,
        )  # fmt: skip

    @node_function
    def replaced(f: Populations, drho: Any) -> Populations:
        """The inverse of that."""
        w, x, d, c = w0 * drho, w1 * drho, w2 * drho, w3 * drho
        return (
            f[13] + w, f[22] + x, f[4] + x, f[16] + x, f[10] + x, f[14] + x, f[12] + x, f[25] + d, f[1] + d,
            f[19] + d, f[7] + d, f[23] + d, f[3] + d, f[21] + d, f[5] + d, f[17] + d, f[9] + d, f[15] + d,
            f[11] + d, f[26] + c, f[0] + c, f[24] + c, f[2] + c, f[20] + c, f[6] + c, f[18] + c, f[8] + c,
        )  # fmt: skip

    @node_function
    def collide(g: Populations, rates: Populations, force: Populations) -> Populations:
        drho, x, y, z = macroscopic(g, force)
        rho, off = density(drho), zero if compressible else drho
        gained = half / rho
        a, b, c = gained * force[0], gained * force[1], gained * force[2]
        k = to_x(to_y(to_z(placed(g, off), z - c), y - b), x - a)
        k = relaxed(k, rho, rho - one, rates, (x, y, z))
        return replaced(from_x(from_y(from_z(k, z + c), y + b), x + a), off)

    return collide


def _make_transforms(real: Any) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Functions ``(values, u) -> values`` from populations to central moments along x, y and z, in which z comes first,
    and back along z, y and x.

    Each treats the last axis, of nine lines of three values, and puts it first. `rests` are what the lines' zeroth
    moments are in fluid at rest: products of weights and of moments of one dimension.
    """
    half, two = real(0.5), real(2)
    weights, at_rest = np.array((1 / 6, 2 / 3, 1 / 6)), np.array((1, 0, 1 / 3))

    @node_function
    def centred(minus: Any, rest: Any, plus: Any, u: Any, at_rest: Any) -> Populations:
        even, odd = plus + minus, plus - minus
        zeroth = even + rest
        whole = zeroth + at_rest
        return zeroth, odd - u * whole, even - u * (two * odd - u * whole)

    @node_function
    def spread(zeroth: Any, first: Any, second: Any, u: Any, at_rest: Any) -> Populations:
        whole = zeroth + at_rest
        even, odd = second + u * (two * first + u * whole), first + u * whole
        return half * (even - odd), zeroth - even, half * (even + odd)

    def along(line: Any, rests: Any) -> Any:
        r0, r1, r2, r3, r4, r5, r6, r7, r8 = (real(each) for each in rests.ravel())

        @node_function
        def transform(f: Populations, u: Any) -> Populations:
            a, b, c = line(f[0], f[1], f[2], u, r0), line(f[3], f[4], f[5], u, r1), line(f[6], f[7], f[8], u, r2)
            d, e = line(f[9], f[10], f[11], u, r3), line(f[12], f[13], f[14], u, r4)
            g, h = line(f[15], f[16], f[17], u, r5), line(f[18], f[19], f[20], u, r6)
            i, j = line(f[21], f[22], f[23], u, r7), line(f[24], f[25], f[26], u, r8)
            return (
                a[0], b[0], c[0], d[0], e[0], g[0], h[0], i[0], j[0],
                a[1], b[1], c[1], d[1], e[1], g[1], h[1], i[1], j[1],
                a[2], b[2], c[2], d[2], e[2], g[2], h[2], i[2], j[2],
            )  # fmt: skip

        return transform

    both = np.outer(weights, weights), np.outer(at_rest, weights), np.outer(at_rest, at_rest)
    to_z, to_y, to_x = (along(centred, rests) for rests in both)
    from_x, from_y, from_z = (along(spread, rests.T) for rests in both)
    return (to_x, to_y, to_z), (from_z, from_y, from_x)


# long and many parameters because each moment is written out, in functions that close over the same numbers
def _make_relaxed(real: Any) -> Any:
    """Function ``(k, rho, rho - 1, rates, u) -> k*`` of central moments, less those of fluid of density 1 at rest.

    Moments of fourth order and more are those of a distribution whose cumulants above the third are 0.
    """
    third, half, one, onehalf, two, three, four, eight = (real(n) for n in (1 / 3, 0.5, 1, 1.5, 2, 3, 4, 8))
    zero, ninth, least, limit = real(0), real(1 / 9), real(1 / 27), real(LIMIT)

    @node_function
    def sheared(xx: Any, yy: Any, zz: Any, omega: Any, u: Populations) -> tuple[Any, Any, Any]:
        """Variances over the density, less 1/3; -2 d_x u_x = omega (2 xx - yy - zz) + xx + yy + zz, and so on."""
        xy, xz, trace = xx - yy, xx - zz, xx + yy + zz
        along_x = zero - half * (omega * (xy + xz) + trace)
        x = u[0] * u[0] * along_x
        y = u[1] * u[1] * (along_x + onehalf * omega * xy)
        z = u[2] * u[2] * (along_x + onehalf * omega * xz)
        keep, less = one - omega, three * (one - half * omega)
        xy, xz, trace = keep * xy - less * (x - y), keep * xz - less * (x - z), zero - onehalf * (x + y + z)
        xx = third * (xy + xz + trace)
        return xx, xx - xy, xx - xz

    @node_function
    def kept(c: Any, part: Any) -> Any:
        return part * c * (limit / (limit + max(c, zero - c)))

    @node_function
    def kept_pair(a: Any, b: Any, part: Any) -> tuple[Any, Any]:
        total, difference = kept(a + b, part), kept(a - b, part)
        return half * (total + difference), half * (total - difference)

    @node_function
    def fourth(xx: Any, yy: Any, xy: Any) -> Any:
        return third * (xx + yy) + xx * yy + two * xy * xy

    @node_function
    def skew_fourth(xx: Any, xy: Any, xz: Any, yz: Any) -> Any:
        return (third + xx) * yz + two * xy * xz

    @node_function
    def fifth(
        k120: Any, k102: Any, k111: Any, k021: Any, k012: Any, yy: Any, zz: Any, xy: Any, xz: Any, yz: Any
    ) -> Any:
        return (third + zz) * k120 + (third + yy) * k102 + four * yz * k111 + two * (xz * k021 + xy * k012)

    @node_function
    def relaxed(k: Populations, rho: Any, drho: Any, rates: Populations, u: Populations) -> Populations:
        (
            k000, _, k002, _, k011, k012, k020, k021, _,
            _, k101, k102, k110, k111, _, k120, _, _,
            k200, k201, _, k210, _, _, _, _, _,
        ) = k  # fmt: skip
        over, keep, part, base = one / rho, one - rates[0], one - rates[1], third * drho
        xx, yy, zz = sheared((k200 - base) * over, (k020 - base) * over, (k002 - base) * over, rates[0], u)
        xy, xz, yz = keep * over * k110, keep * over * k101, keep * over * k011
        k120, k102 = kept_pair(over * k120, over * k102, part)
        k210, k012 = kept_pair(over * k210, over * k012, part)
        k201, k021 = kept_pair(over * k201, over * k021, part)
        k111 = kept(over * k111, part)
        k122 = fifth(k120, k102, k111, k021, k012, yy, zz, xy, xz, yz)
        k212 = fifth(k210, k012, k111, k201, k102, xx, zz, xy, yz, xz)
        k221 = fifth(k201, k021, k111, k210, k120, xx, yy, xz, yz, xy)
        products = ninth * (xx + yy + zz) + third * (xx * yy + xx * zz + yy * zz) + xx * yy * zz
        squares = (third + xx) * yz * yz + (third + yy) * xz * xz + (third + zz) * xy * xy
        pairs = k120 * k102 + k210 * k012 + k201 * k021
        k222 = products + two * (squares + pairs) + eight * xy * xz * yz + four * k111 * k111
        even = ninth * drho
        return (
            k000, zero, rho * zz + base, zero, rho * yz, rho * k012,
            rho * yy + base, rho * k021, rho * fourth(yy, zz, yz) + even,
            zero, rho * xz, rho * k102, rho * xy, rho * k111, rho * skew_fourth(zz, xz, yz, xy),
            rho * k120, rho * skew_fourth(yy, xy, yz, xz), rho * k122,
            rho * xx + base, rho * k201, rho * fourth(xx, zz, xz) + even,
            rho * k210, rho * skew_fourth(xx, xy, xz, yz), rho * k212,
            rho * fourth(xx, yy, xy) + even, rho * k221, rho * k222 + least * drho,
        )  # fmt: skip

    return relaxed
