# SPDX-License-Identifier: Apache-2.0
"""Powers of positive numbers, of additions and multiplications alone: alike for one number and for vectors of them.

A library's power is called for each number by itself, and takes longer than a collision. This one is

    x^e = 2^(e log2 x),    log2 x = k - 1/2 + 2/ln 2 (s + s^3/3 + s^5/5 + ...),    s = (m - r)/(m + r),

with x = m 2^k, 1/2 <= m < 1 and r = sqrt(1/2), so that abs(s) <= 0.172; and 2^y = 2^n (1 + f ln 2 + (f ln 2)^2/2 + ...)
with n the whole number nearest to y and f = y - n. The series end where their next term is below the last digit. Then
the relative error is that of the product e log2 x, of which single precision keeps 24 bits: 1e-6 where it is 20.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from solver.kernels.node_physics import node_function

Real = Callable[[float], Any]


class Terms(NamedTuple):
    """For a type of numbers: terms of the series of log2 and of 2^y, bounds of y, binary digits behind the first."""

    logarithm: int
    exponential: int
    least: float
    most: float
    digits: int


TERMS: dict[Any, Terms] = {np.float32: Terms(5, 8, -126.0, 127.0, 23), np.float64: Terms(11, 14, -1022.0, 1023.0, 52)}


class Parts(NamedTuple):
    """Functions that take a positive number apart, and put it together.

    Attributes
    ----------
    apart : ``x -> (m, k)``, x = m 2^k with 1/2 <= m < 1, k as a number of the type of x.
    together : ``(m, k) -> m 2^k``.
    """

    apart: Any
    together: Any


@cache
def make_parts(real: Real) -> Parts:
    """The operations of a single number."""

    @node_function
    def apart(x: Any) -> tuple[Any, Any]:
        mantissa, exponent = math.frexp(x)
        return real(mantissa), real(exponent)

    @node_function
    def together(mantissa: Any, exponent: Any) -> Any:
        return real(math.ldexp(mantissa, int(exponent)))

    return Parts(apart, together)


def _polynomial(coefficients: list[Any]) -> Any:
    """Function ``x -> c_0 + c_1 x + c_2 x^2 + ...``, in Horner's form.

    As long as there are more than three, three coefficients are one function: to compile one for each took seconds.
    """
    first = coefficients[0]
    if len(coefficients) == 1:

        @node_function
        def constant(x: Any) -> Any:
            return first

        return constant
    if len(coefficients) <= 3:
        rest = _polynomial(coefficients[1:])

        @node_function
        def one(x: Any) -> Any:
            return first + x * rest(x)

        return one
    second, third = coefficients[1:3]
    others = _polynomial(coefficients[3:])

    @node_function
    def three(x: Any) -> Any:
        return first + x * (second + x * (third + x * others(x)))

    return three


@cache
def make_power(real: Real, parts: Parts) -> Any:
    """Function ``(x, e) -> x^e`` of normal numbers x > 0, within the range of normal numbers."""
    apart, together = parts
    terms = TERMS[real]
    logarithm = _polynomial([real(2 / math.log(2) / (2 * k + 1)) for k in range(terms.logarithm)])
    exponential = _polynomial([real(math.log(2) ** k / math.factorial(k)) for k in range(terms.exponential)])
    least, most, half, root = (real(number) for number in (terms.least, terms.most, 0.5, 0.5**0.5))
    rounding = real(1.5 * 2.0**terms.digits)  # beside it whole numbers alone are kept

    @node_function
    def power(x: Any, e: Any) -> Any:
        mantissa, exponent = apart(x)
        s = (mantissa - root) / (mantissa + root)
        y = max(least, min(most, e * (exponent - half + s * logarithm(s * s))))
        whole = (y + rounding) - rounding
        return together(exponential(y - whole), whole)

    return power
