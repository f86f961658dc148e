# SPDX-License-Identifier: Apache-2.0
"""How populations are stored: as the numbers that are computed with, or as fp16 numbers, scaled.

An fp16 number (IEEE 754 binary16) has 11 significant bits down to 2^-14. Populations are shifted, and far below 1 as
long as the flow is sound, so that they are stored 2^15 times as large: digits are kept from 2 down to 2e-9. A CUDA
device converts fp16 itself; on the CPU the bits are made and read here, rounded to the nearest, ties to even.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import node_function
from solver.kernels.streaming import make_moves

NATIVE, FP16_BITS, FP16 = "native", "fp16-bits", "fp16"
"""Ways of storage: numbers as they are, bits of fp16 numbers (uint16), the device's own fp16 (float16)."""
SCALE = 2.0**15

_ONE, _SIGN, _REST, _MAGNITUDE = np.uint32(1), np.uint32(0x8000), np.uint32(0x7FFF), np.uint32(0x7FFFFFFF)
_INFINITE, _QUIET, _SINGLE_INFINITE = np.uint32(0x7C00), np.uint32(0x7E00), np.uint32(0x7F800000)
_ULP, _BELOW_TIE, _SIGN_UP = np.uint32(13), np.uint32(0xFFF), np.uint32(16)
"""Digits that single precision has beyond a half's, just below half of a half's last one, places of the sign."""
_HIDDEN, _REBIAS, _TO_INFINITE = np.uint32(1 << 23), np.uint32((127 - 15) << 23), np.uint32((255 - 31) << 23)
"""Bits of single precision: of one in the exponent, of the difference between both biases, and to both's infinity."""
_LEAST_NORMAL, _BEYOND = np.uint32((127 - 14) << 23), np.uint32((127 + 16) << 23)
"""Bits in single precision of the least normal fp16 number 2^-14, and of 2^16, where fp16 ends."""
_SUBNORMAL_UNIT = np.float32(0.5)
"""Where single precision's last digit is 2^-24, that of subnormal fp16: adding it rounds to them."""


LEAST_FP16_MARGIN, GOOD_FP16_MARGIN = 0.5, 3.0
"""Values of :func:`fp16_margin` below which a flow stalls, and from which on it is off by a few per cent at most."""


def fp16_margin(force: float, drho: float, speed: float) -> float:
    """What a step adds over half of the last digit that fp16 keeps of it, for flow at a speed beside a deviation drho.

    A force F adds 3 w_i c_i.F to populations of the size w_i (drho + 3 u), of which fp16 keeps the part 2^-11:

        F / (2^-11 (drho/3 + u)).

    Steady flow needs the force, or the gradient of pressure, that its friction takes up. Lattice units.

    Parameters
    ----------
    force : F per volume.
    drho : deviation of the density.
    speed : u.
    """
    return force / (2.0**-11 * (drho / 3 + speed))


class Access(NamedTuple):
    """Reads and writes of one way of storage.

    Attributes
    ----------
    load_slot : ``(f, k)``, the population in a slot.
    store_slot : ``(f, k, population)``, to there.
    load, store, gather, scatter : all populations of a node, as of :class:`solver.kernels.streaming.Moves`.
    """

    load_slot: Any
    store_slot: Any
    load: Any
    store: Any
    gather: Any
    scatter: Any


@node_function
def _number(bits: Any) -> Any:
    return np.uint32(bits).view(np.float32)


@node_function
def _bits(number: Any) -> Any:
    return np.float32(number).view(np.uint32)


@node_function
def fp16_to_fp32(half: Any) -> Any:
    """Single precision from the bits of a half; exact."""
    wide = np.uint32(half)
    size = np.uint32((wide & _REST) << _ULP)
    if size < _HIDDEN:  # zero and subnormal: there is no hidden digit
        size = _bits(_number(size + _LEAST_NORMAL) - _number(_LEAST_NORMAL))
    elif size >= np.uint32(_INFINITE << _ULP):
        size = np.uint32(size + _TO_INFINITE)
    else:
        size = np.uint32(size + _REBIAS)
    return _number(size | ((wide & _SIGN) << _SIGN_UP))


@node_function
def fp32_to_fp16(number: Any) -> Any:
    """Bits of the half nearest to a number in single precision, ties to even."""
    wide = _bits(number)
    size = np.uint32(wide & _MAGNITUDE)
    if size >= _BEYOND:
        half = np.uint32(_QUIET) if size > _SINGLE_INFINITE else np.uint32(_INFINITE)
    elif size < _LEAST_NORMAL:
        half = np.uint32(_bits(_number(size) + _SUBNORMAL_UNIT) - _bits(_SUBNORMAL_UNIT))
    else:
        half = np.uint32((size - _REBIAS + _BELOW_TIE + ((size >> _ULP) & _ONE)) >> _ULP)
    return np.uint16(half | ((wide >> _SIGN_UP) & _SIGN))


@node_function
def _as_it_is(population: Any) -> Any:
    return population


@cache
def make_access(storage: str, real: Any, q: int = Q) -> Access:
    """Reads and writes for a way of storage, the type that is computed with, and so many populations a node.

    The parameters are those of :mod:`solver.kernels`.
    """
    up, down = real(SCALE), real(1 / SCALE)
    to_real, to_stored = (fp16_to_fp32, fp32_to_fp16) if storage == FP16_BITS else (real, _as_it_is)

    @node_function
    def decode(stored: Any) -> Any:
        return to_real(stored) * down

    @node_function
    def encode(population: Any) -> Any:
        return to_stored(population * up)

    if storage == NATIVE:
        decode = encode = _as_it_is

    @node_function
    def load_slot(f: Any, k: int) -> Any:
        return decode(f[k])

    @node_function
    def store_slot(f: Any, k: int, population: Any) -> None:
        f[k] = encode(population)

    return Access(load_slot, store_slot, *make_moves(load_slot, store_slot, q))
