# SPDX-License-Identifier: Apache-2.0
"""Loads ahead of their use, for which Numba has no words."""

from typing import Any

from numba import types
from numba.extending import intrinsic, overload

from solver.kernels.numba_internals import cgutils


def prefetch(array: Any, index: int) -> None:
    """Ask for the number at an index, which may lie beyond the end, to be brought near; it is going to be written."""


@intrinsic
def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(numbers, [arguments[1]]), cgutils.voidptr_t)
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
