# SPDX-License-Identifier: Apache-2.0
"""Several nodes at once: vectors of consecutive numbers, on which functions of a node work as they do on numbers.

A compiler makes vectors of a loop where it can prove that no store reaches what a later iteration loads. It cannot
where populations are updated in place, though no slot is touched by two nodes. So loops over nodes ask for vectors
themselves: they load and store a few consecutive numbers at once, and what is done in between is written for one node.
The bits are those of one node after the other. Where nothing is compiled, vectors have one lane.
"""

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from solver.kernels.node_physics import node_function
from solver.kernels.numba_internals import (
    AbstractTemplate,
    cgutils,
    get_host_cpu_features,
    infer_global,
    ir,
    lower_builtin,
    models,
    register_default,
    signature,
)
from solver.kernels.power import Parts, make_power
from solver.kernels.rheology import Numbers, one_number
from solver.kernels.storage import FP16_BITS, NATIVE, SCALE, make_access


def _can(feature: str) -> bool:
    """Whether the processor that is compiled for is known to have a feature."""
    chosen = config.CPU_NAME or config.CPU_FEATURES  # by the user, for several kinds of processors perhaps
    return not chosen and f"+{feature}" in get_host_cpu_features().split(",")


BYTES = 64 if _can("avx512f") else 32
"""Of a vector; where the processor's own are shorter, the compiler makes several of one."""
CONVERTS_FP16 = _can("f16c")


class SimdVector(types.Type):
    """Numba's type of a vector of so many numbers of a type."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype, self.width = dtype, width
        super().__init__(f"Lanes({dtype}, {width})")


@register_default(SimdVector)
class _SimdVectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: SimdVector) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.dtype).get_value_type(), kind.width))


class _OfVectors(AbstractTemplate):
    """Types of a function of vectors, or of a vector and a number.

    Being for this target alone it is asked before those of numbers: each of these that knows no vectors takes as long
    as all else, since Numba writes a list of what it does know.
    """

    metadata: ClassVar = {"target": "cpu"}

    def generic(self, args: Any, kws: Any) -> Any:
        kind = next((each for each in args if isinstance(each, SimdVector)), None)
        if kind and all(each in (kind, kind.dtype) for each in args):
            return signature(kind, *args)
        return None


def _lanewise(function: Any, generate: Callable[..., Any]) -> None:
    """Let a function take vectors: instructions for it are generated from vectors of equal width."""

    def lower(context: Any, builder: Any, called: Any, values: Any) -> Any:
        width = called.return_type.width
        together = zip(values, called.args, strict=True)
        return generate(context, builder, *(_spread(builder, value, kind, width) for value, kind in together))

    infer_global(function)(type("OfVectors", (_OfVectors,), {"key": function}))
    for kinds in ((SimdVector,), (SimdVector, SimdVector), (SimdVector, types.Float), (types.Float, SimdVector)):
        lower_builtin(function, *kinds)(lower)


def _spread(builder: Any, value: Any, kind: Any, width: int) -> Any:
    """A vector as it is, a number in all lanes."""
    if isinstance(kind, SimdVector):
        return value
    nothing = ir.Constant(ir.VectorType(value.type, width), ir.Undefined)
    first = builder.insert_element(nothing, value, cgutils.int32_t(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(cgutils.int32_t, width), [0] * width))


def _square_root(context: Any, builder: Any, x: Any) -> Any:
    name = f"llvm.sqrt.v{x.type.count}{x.type.element.intrinsic_name}"
    return builder.call(builder.module.declare_intrinsic(name, (), ir.FunctionType(x.type, [x.type])), [x])


def _each_expm1(context: Any, builder: Any, x: Any) -> Any:
    """One lane after the other: processors have no instruction for it."""
    kind = types.float32 if isinstance(x.type.element, ir.FloatType) else types.float64
    function = context.get_function(math.expm1, signature(kind, kind))
    for lane in map(cgutils.int32_t, range(x.type.count)):
        x = builder.insert_element(x, function(builder, [builder.extract_element(x, lane)]), lane)
    return x


_lanewise(operator.add, lambda context, builder, a, b: builder.fadd(a, b))
_lanewise(operator.sub, lambda context, builder, a, b: builder.fsub(a, b))
_lanewise(operator.mul, lambda context, builder, a, b: builder.fmul(a, b))
_lanewise(operator.truediv, lambda context, builder, a, b: builder.fdiv(a, b))
_lanewise(max, lambda context, builder, a, b: builder.select(builder.fcmp_ordered(">", b, a), b, a))
_lanewise(min, lambda context, builder, a, b: builder.select(builder.fcmp_ordered("<", b, a), b, a))
_lanewise(math.sqrt, _square_root)
_lanewise(math.expm1, _each_expm1)


def _constant(value: int, kind: Any) -> Any:
    """A whole number in all lanes."""
    return ir.Constant(kind, [value] * kind.count)


def _layout(number: Any) -> tuple[Any, int, int]:
    """Of numbers: the type of their bits, how many bits stand behind the exponent, and the bits of 1/2."""
    size, behind = (32, 23) if isinstance(number.element, ir.FloatType) else (64, 52)
    return ir.VectorType(ir.IntType(size), number.count), behind, (2 ** (size - behind - 2) - 2) << behind


@intrinsic
def _apart(typing: Any, x: Any) -> Any:
    """See :class:`solver.kernels.power.Parts`."""

    def generate(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
        number = arguments[0].type
        whole, behind, half = _layout(number)
        bits = builder.bitcast(arguments[0], whole)
        exponent = builder.ashr(builder.sub(bits, _constant(half, whole)), _constant(behind, whole))
        short = builder.trunc(exponent, ir.VectorType(cgutils.int32_t, number.count)) if behind > 23 else exponent
        digits = builder.or_(builder.and_(bits, _constant(2**behind - 1, whole)), _constant(half, whole))
        parts = builder.bitcast(digits, number), builder.sitofp(short, number)
        return context.make_tuple(builder, called.return_type, parts)

    return types.UniTuple(x, 2)(x), generate


@intrinsic
def _together(typing: Any, mantissa: Any, exponent: Any) -> Any:
    """See :class:`solver.kernels.power.Parts`."""

    def generate(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
        number = arguments[0].type
        whole, behind, _ = _layout(number)
        short = builder.fptosi(arguments[1], ir.VectorType(cgutils.int32_t, number.count))
        exponent = builder.sext(short, whole) if behind > 23 else short
        added = builder.shl(exponent, _constant(behind, whole))
        return builder.bitcast(builder.add(builder.bitcast(arguments[0], whole), added), number)

    return mantissa(mantissa, exponent), generate


def _place(context: Any, builder: Any, array: Any, arguments: Any) -> Any:
    """Where an array's number at an index stands; a negative index does not count from the end."""
    return builder.gep(context.make_array(array)(context, builder, arguments[0]).data, [arguments[1]])


@intrinsic
def _get(typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
        return builder.load(_place(context, builder, array, arguments))

    return array.dtype(array, types.intp), generate


@intrinsic
def _set(typing: Any, array: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _place(context, builder, array, arguments))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), generate


def _as_stored(context: Any, builder: Any, array: Any, arguments: Any, width: int) -> tuple[Any, int]:
    """Where a vector begins in an array, of fp16 numbers where it holds their bits; at multiples of how many bytes."""
    element = ir.HalfType() if array.dtype == types.uint16 else context.get_data_type(array.dtype)
    place = builder.bitcast(_place(context, builder, array, arguments), ir.VectorType(element, width).as_pointer())
    return place, array.dtype.bitwidth // 8


@intrinsic(prefer_literal=True)
def _load(typing: Any, array: Any, index: Any, width: Any) -> Any:
    simd = SimdVector(types.float32 if array.dtype == types.uint16 else array.dtype, width.literal_value)

    def generate(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
        place, alignment = _as_stored(context, builder, array, arguments[:2], simd.width)
        stored, wanted = builder.load(place, align=alignment), context.get_value_type(simd)
        return stored if stored.type == wanted else builder.fpext(stored, wanted)

    return simd(array, types.intp, width), generate


@intrinsic
def _store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
        place, alignment = _as_stored(context, builder, array, arguments, value.width)
        wanted = place.type.pointee
        stored = arguments[2] if arguments[2].type == wanted else builder.fptrunc(arguments[2], wanted)
        builder.store(stored, place, align=alignment)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


class Several(NamedTuple):
    """How several nodes are worked on at once.

    Attributes
    ----------
    width : nodes at a time.
    load_slot, store_slot : populations of consecutive slots, decoded and encoded.
    get, set : one number as it is stored.
    numbers : other numbers of nodes.
    """

    width: int
    load_slot: Any
    store_slot: Any
    get: Any
    set: Any
    numbers: Numbers


@cache
def make_simd(storage: str, real: Any, part: int = 1) -> Several:
    """Work on vectors of the given part of their full length.

    Where nothing is compiled, or the processor does not convert fp16 itself, on one node at a time.

    Parameters
    ----------
    storage, real : those of :mod:`solver.kernels`.
    part : 1 for full vectors, 2 for those of half as many numbers.
    """
    if config.DISABLE_JIT or (storage == FP16_BITS and not CONVERTS_FP16):
        access = make_access(storage, real)
        stored = make_access(NATIVE, real)
        return Several(1, access.load_slot, access.store_slot, stored.load_slot, stored.store_slot, one_number(real))
    down, up, width = real(1 / SCALE), real(SCALE), BYTES // int(np.dtype(real).itemsize) // part

    @node_function
    def get(f: Any, k: int) -> Any:
        return _get(f, k)

    @node_function
    def set_(f: Any, k: int, value: Any) -> None:
        _set(f, k, value)

    @node_function
    def load_slot(f: Any, k: int) -> Any:
        return _load(f, k, width)

    @node_function
    def store_slot(f: Any, k: int, value: Any) -> None:
        _store(f, k, value)

    @node_function
    def load_fp16(f: Any, k: int) -> Any:
        return _load(f, k, width) * down

    @node_function
    def store_fp16(f: Any, k: int, value: Any) -> None:
        _store(f, k, value * up)

    populations = (load_fp16, store_fp16) if storage == FP16_BITS else (load_slot, store_slot)
    return Several(
        width, *populations, get, set_, Numbers(load_slot, store_slot, make_power(real, Parts(_apart, _together)))
    )
