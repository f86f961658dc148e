"""Copies of consecutive numbers as vectors, and loads ahead of their use: what Numba has no words for.

Loops that copy from one array to another are not made vectors of unless it is checked first that the arrays do not
overlap, which takes longer than a short copy.
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from solver.node_physics import node_function

WIDTH = 8
"""Numbers of a vector."""


def copy_vector(to: Any, at: int, source: Any, begin: int) -> None:
    """Copy `WIDTH` numbers."""
    to[at : at + WIDTH] = source[begin : begin + WIDTH]


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


@intrinsic
def _copy_vector(typing: Any, to: Any, at: Any, source: Any, begin: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, _, other, _ = signature.args
        there = _place(context, builder, kind, *arguments[:2])
        here = _place(context, builder, other, *arguments[2:])
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        cgutils.raw_memcpy(builder, there, here, cgutils.intp_t(WIDTH), size)
        return context.get_dummy_value()

    return types.void(to, types.intp, source, types.intp), generate


@overload(copy_vector, strict=False)
def _copy_vector_compiled(to: Any, at: Any, source: Any, begin: Any) -> Any:
    return lambda to, at, source, begin: _copy_vector(to, at, source, begin)


def prefetch(array: Any, index: int) -> None:
    """Ask for the number at an index, which may lie beyond the end, to be brought near; it is going to be written."""


@intrinsic
def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.bitcast(_place(context, builder, signature.args[0], *arguments), cgutils.voidptr_t)
        to_write, to_nearest, data = (cgutils.int32_t(number) for number in (1, 3, 1))
        kinds = [cgutils.voidptr_t, *3 * [cgutils.int32_t]]
        kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), kinds)
        function = builder.module.declare_intrinsic("llvm.prefetch", kinds[:1], kind)
        builder.call(function, [place, to_write, to_nearest, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@overload(prefetch, strict=False)
def _prefetch_compiled(array: Any, index: Any) -> Any:
    return lambda array, index: _prefetch(array, index)


@node_function
def move(to: Any, at: int, source: Any, begin: int, count: int) -> None:
    """Copy consecutive numbers: in vectors, the last of which ends where they end and may overlap the one before."""
    if count < WIDTH:
        for k in range(count):
            to[at + k] = source[begin + k]
        return
    for k in range(0, count - WIDTH, WIDTH):
        copy_vector(to, at + k, source, begin + k)
    copy_vector(to, at + count - WIDTH, source, begin + count - WIDTH)
