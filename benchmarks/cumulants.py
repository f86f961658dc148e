"""A cumulant collision on D3Q27, tried beside walls by `wall_friction.py`; not part of the solver yet.

Geier, Schönherr, Pasquali and Krafczyk (2015, doi:10.1016/j.camwa.2015.05.001): cumulants of the populations relax in
place of their moments, so that fluid in motion is treated as fluid at rest, and the second ones also make up for
c_x^3 = c_x. Those of second order relax by omega, those above the third are 0. Those of third order keep, of what
they are, 1 - omega-, omega- by Lambda = (tau - 1/2)(1/omega- - 1/2), and less the larger they are, a part of
limit rho/(limit rho + |C|), as in Geier, Pasquali and Schönherr (2017, doi:10.1016/j.jcp.2017.05.040).
"""

from typing import Any

from solver.collision import Real
from solver.node_physics import Populations, make_moments, node_function
from solver.velocity_sets import velocity_set


def cumulant(real: Real, magic: float, limit: float) -> Any:
    """Collision function ``(g, rates, force) -> g*``. Populations and moments lie in the order 9 a + 3 b + c of
    exponents, or components plus 1, a, b, c along x, y, z.
    """
    zero, third, half, one, two, three, four, many = (real(n) for n in (0, 1 / 3, 0.5, 1, 2, 3, 4, 16))
    w0, w1, w2, w3 = (real(velocity_set(27).weights[n]) for n in (0, 1, 7, 19))
    between, little, (sums, _) = real(magic), real(limit), make_moments(27)

    @node_function
    def placed(g: Populations) -> Populations:
        return (
            g[20] + w3, g[8] + w2, g[22] + w3, g[12] + w2, g[2] + w1, g[14] + w2, g[24] + w3, g[10] + w2, g[26] + w3,
            g[16] + w2, g[4] + w1, g[18] + w2, g[6] + w1, g[0] + w0, g[5] + w1, g[17] + w2, g[3] + w1, g[15] + w2,
            g[25] + w3, g[9] + w2, g[23] + w3, g[13] + w2, g[1] + w1, g[11] + w2, g[21] + w3, g[7] + w2, g[19] + w3,
        )  # fmt: skip

    @node_function
    def shifted(f: Populations) -> Populations:
        return (
            f[13] - w0, f[22] - w1, f[4] - w1, f[16] - w1, f[10] - w1, f[14] - w1, f[12] - w1, f[25] - w2, f[1] - w2,
            f[19] - w2, f[7] - w2, f[23] - w2, f[3] - w2, f[21] - w2, f[5] - w2, f[17] - w2, f[9] - w2, f[15] - w2,
            f[11] - w2, f[26] - w3, f[0] - w3, f[24] - w3, f[2] - w3, f[20] - w3, f[6] - w3, f[18] - w3, f[8] - w3,
        )  # fmt: skip

    @node_function
    def turned(f: Populations) -> Populations:
        """The last axis first."""
        return (
            f[0], f[3], f[6], f[9], f[12], f[15], f[18], f[21], f[24],
            f[1], f[4], f[7], f[10], f[13], f[16], f[19], f[22], f[25],
            f[2], f[5], f[8], f[11], f[14], f[17], f[20], f[23], f[26],
        )  # fmt: skip

    @node_function
    def centred(minus: Any, rest: Any, plus: Any, u: Any) -> Populations:
        even, odd = plus + minus, plus - minus
        all_three = even + rest
        return all_three, odd - u * all_three, even - two * u * odd + u * u * all_three

    @node_function
    def spread(zeroth: Any, first: Any, second: Any, u: Any) -> Populations:
        even, odd = u * u * zeroth + two * u * first + second, u * zeroth + first
        return half * (even - odd), zeroth - even, half * (even + odd)

    @node_function
    def moments(f: Populations, u: Any) -> Populations:
        return (
            *centred(f[0], f[1], f[2], u), *centred(f[3], f[4], f[5], u), *centred(f[6], f[7], f[8], u),
            *centred(f[9], f[10], f[11], u), *centred(f[12], f[13], f[14], u), *centred(f[15], f[16], f[17], u),
            *centred(f[18], f[19], f[20], u), *centred(f[21], f[22], f[23], u), *centred(f[24], f[25], f[26], u),
        )  # fmt: skip

    @node_function
    def populations(f: Populations, u: Any) -> Populations:
        return (
            *spread(f[0], f[1], f[2], u), *spread(f[3], f[4], f[5], u), *spread(f[6], f[7], f[8], u),
            *spread(f[9], f[10], f[11], u), *spread(f[12], f[13], f[14], u), *spread(f[15], f[16], f[17], u),
            *spread(f[18], f[19], f[20], u), *spread(f[21], f[22], f[23], u), *spread(f[24], f[25], f[26], u),
        )  # fmt: skip

    @node_function
    def kept(c: Any, part: Any, rho: Any) -> Any:
        return part * c * (little * rho / (little * rho + max(c, zero - c)))

    @node_function
    def kept_pair(a: Any, b: Any, part: Any, rho: Any) -> tuple[Any, Any]:
        total, difference = kept(a + b, part, rho), kept(a - b, part, rho)
        return half * (total + difference), half * (total - difference)

    @node_function
    def relaxed(k: Populations, omega: Any, u: Any, v: Any, w: Any) -> Populations:
        (
            k000, k001, k002, k010, k011, k012, k020, k021, k022,
            k100, k101, k102, k110, k111, k112, k120, k121, k122,
            k200, k201, k202, k210, k211, k212, k220, k221, k222,
        ) = k  # fmt: skip
        over, keep = one / k000, one - omega
        xy, xz, trace = k200 - k020, k200 - k002, k200 + k020 + k002
        ux = zero - half * over * (omega * (xy + xz) + trace - k000)
        vy, wz = ux + three * half * over * omega * xy, ux + three * half * over * omega * xz
        less = three * k000 * (one - half * omega)
        xy = keep * xy - less * (u * u * ux - v * v * vy)
        xz = keep * xz - less * (u * u * ux - w * w * wz)
        trace = k000 - three * half * k000 * (u * u * ux + v * v * vy + w * w * wz)
        k200 = third * (xy + xz + trace)
        k020, k002 = k200 - xy, k200 - xz
        k110, k101, k011 = keep * k110, keep * k101, keep * k011
        part = one - one / (half + between / (one / omega - half))
        k120, k102 = kept_pair(k120, k102, part, k000)
        k210, k012 = kept_pair(k210, k012, part, k000)
        k201, k021 = kept_pair(k201, k021, part, k000)
        k111 = kept(k111, part, k000)
        k211 = over * (k200 * k011 + two * k110 * k101)
        k121 = over * (k020 * k101 + two * k110 * k011)
        k112 = over * (k002 * k110 + two * k101 * k011)
        k220 = over * (k200 * k020 + two * k110 * k110)
        k202 = over * (k200 * k002 + two * k101 * k101)
        k022 = over * (k020 * k002 + two * k011 * k011)
        k122 = over * (k002 * k120 + k020 * k102 + four * k011 * k111 + two * (k101 * k021 + k110 * k012))
        k212 = over * (k002 * k210 + k200 * k012 + four * k101 * k111 + two * (k011 * k201 + k110 * k102))
        k221 = over * (k200 * k021 + k020 * k201 + four * k110 * k111 + two * (k101 * k120 + k011 * k210))
        pairs = four * k111 * k111 + k200 * k022 + k020 * k202 + k002 * k220
        pairs = pairs + four * (k011 * k211 + k101 * k121 + k110 * k112)
        pairs = pairs + two * (k120 * k102 + k210 * k012 + k201 * k021)
        triples = four * (k101 * k101 * k020 + k011 * k011 * k200 + k110 * k110 * k002)
        triples = triples + many * k110 * k101 * k011 + two * k200 * k020 * k002
        k222 = over * (pairs - over * triples)
        return (
            k000, k001, k002, k010, k011, k012, k020, k021, k022,
            k100, k101, k102, k110, k111, k112, k120, k121, k122,
            k200, k201, k202, k210, k211, k212, k220, k221, k222,
        )  # fmt: skip

    @node_function
    def collide(g: Populations, rates: Populations, force: Populations) -> Populations:
        drho, x, y, z = sums(g)
        rho, f = one + drho, placed(g)
        u, v, w = (x + half * force[0]) / rho, (y + half * force[1]) / rho, (z + half * force[2]) / rho
        k = turned(moments(turned(moments(turned(moments(f, w)), v)), u))
        k = relaxed(k, rates[0], u, v, w)
        k = (k[0], zero - k[1], k[2], zero - k[3], *k[4:9], zero - k[9], *k[10:])
        return shifted(turned(populations(turned(populations(turned(populations(k, w)), v)), u)))

    return collide
