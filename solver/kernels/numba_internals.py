# SPDX-License-Identifier: Apache-2.0
"""What is used of Numba beyond what it documents: names of its inner modules, and private attributes, all of them here.

A release of Numba may move any of them; tests/solver/kernels/test_numba_internals.py says what fails then, and what
would be lost.
"""

import ctypes
import struct
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np
from numba import jit
from numba.core import cgutils, targetconfig
from numba.core import ir as numba_ir
from numba.core.caching import FunctionCache
from numba.core.cgutils import ir
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen, get_host_cpu_features
from numba.core.compiler import Compiler, Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.datamodel import models, register_default
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.imputils import lower_builtin
from numba.core.registry import CPUDispatcher
from numba.core.runtime.context import NRTContext
from numba.core.target_extension import get_local_target
from numba.core.types.functions import BaseFunction
from numba.core.types.misc import DeferredType
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.parfors import parfor_lowering

from solver.kernels.turns import Turn

__all__ = [
    "AbstractTemplate",
    "InnerFunction",
    "KernelCache",
    "cgutils",
    "compile_sooner",
    "cuda_cache",
    "cuda_copies",
    "get_host_cpu_features",
    "infer_global",
    "ir",
    "keep",
    "lower_builtin",
    "memory_handle",
    "models",
    "opened_memory",
    "register_default",
    "signature",
    "simulated_memory",
]


HANDLE_BYTES = 64
HANDLE = f"<qq{HANDLE_BYTES}s"
"""Size, first byte, and the driver's handle (CU_IPC_HANDLE_SIZE), of memory for other processes."""


KERNEL_WRAPPERS = "parallelgufuncwrapper", "<numba.np.ufunc.wrappers._GufuncWrapper "
"""How names of libraries begin that do no more than call the body of a parallel loop."""


class _Library(JITCodeLibrary):
    """Code of which machine code is made where its address is asked for, or where it is kept.

    Numba makes it at once, of each function that a loop calls, of the body of a parallel loop, and twice of that with
    wrappers around it, though the loop links all these in, and machine code is made of it as a whole. Wrappers are
    optimised there, too, as others call nothing else of them.
    """

    _has_machine_code = False

    @property
    def _wraps(self) -> bool:
        return bool(self.name.startswith(KERNEL_WRAPPERS))

    def _optimize_final_module(self) -> None:
        if not self._wraps:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def _make_machine_code(self) -> None:
        with global_compiler_lock:
            self._ensure_finalized()
            if not self._has_machine_code:
                self._has_machine_code = True
                if self._wraps:
                    super()._optimize_final_module()
                super()._finalize_final_module()

    def get_pointer_to_function(self, name: str) -> int:
        """Address of a function, or 0."""
        self._make_machine_code()
        return int(super().get_pointer_to_function(name))

    def _get_compiled_object(self) -> Any:
        self._make_machine_code()
        return super()._get_compiled_object()


_make_body = parfor_lowering._create_gufunc_for_parfor_body


def _body_of_loop(
    lowerer: Any, parfor: Any, typemap: Any, typing: Any, target: Any, flags: Any, *more: Any
) -> tuple[Any, ...]:
    """The function of a parallel loop's body, without what Python and C would call it by."""
    flags = flags.copy()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    return tuple(_make_body(lowerer, parfor, typemap, typing, target, flags, *more))


class _InnerLibrary(_Library):
    """Code that others link in: it is optimised there, with theirs."""

    def _optimize_final_module(self) -> None:
        pass


class _InnerCompiler(_FunctionCompiler):
    """Compiles a function into such code."""

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        flags, target = Flags(), self.targetdescr
        target.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = True
        codegen = target.target_context.codegen()
        return compile_extra(
            target.typing_context,
            target.target_context,
            self.py_func,
            args,
            return_type,
            flags,
            self.locals,
            library=_InnerLibrary(codegen, self.py_func.__qualname__),
            pipeline_class=self.pipeline_class,
        )


class InnerFunction(CPUDispatcher):
    """A function that compiled code calls, without what Python and C would call it by, a fifth of its compilation, and
    without machine code of its own.

    Where Python calls it nevertheless, it is compiled once more, with that.
    """

    def __init__(self, function: Any, locals: Any = None, targetoptions: Any = None, **more: Any) -> None:  # noqa: A002
        options = {"nopython": True, "boundscheck": None} | (targetoptions or {})
        super().__init__(function, locals, options, **more)
        options = options | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        self._compiler: Any = _InnerCompiler(function, self.targetdescr, options, self.locals, Compiler)

    @cached_property
    def _for_python(self) -> Any:
        return jit(**self.targetoptions)(self.py_func)

    def add_overload(self, compiled: Any) -> None:
        """Keep what was compiled for calls from compiled code alone, which find it by an entry point that is none."""
        compiled = compiled._replace(entry_point=object())
        self.targetctx.insert_user_function(compiled.entry_point, compiled.fndesc, [compiled.library])
        self.overloads[tuple(compiled.signature.args)] = compiled

    def _compile_for_args(self, *arguments: Any, **named: Any) -> Any:
        """What a call from Python runs."""
        return self._for_python


class _ByContent:
    """Of a cache of Numba: finds what was compiled before by a digest that is given, instead of by a pickle of what a
    function closes over. The digest is asked for when the function is compiled: all that it closes over is there then.
    """

    def __init__(self, function: Any, digest: Callable[[], str]) -> None:
        super().__init__(function)  # type: ignore[call-arg]
        self._digest = digest

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        return signature, codegen.magic_tuple(), self._digest()


class KernelCache(_ByContent, FunctionCache):
    """Where loops are kept that run on the CPU. Of processes that need the same one at once, one compiles it."""

    _turn: Turn | None = None

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What is on disk; where nothing is, after those that compile the same loop."""
        if (found := super().load_overload(signature, context)) is None:
            key = self._index_key(signature, context.codegen())
            self._turn = Turn(f"{self.cache_path} {key}")
            self._turn.begin()
            found = super().load_overload(signature, context)
        return found

    def in_turn(self, compile_it: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The compilation of a dispatcher which, however it ends, lets others have their turn."""

        def compile_in_turn(signature: Any) -> Any:
            try:
                return compile_it(signature)
            finally:
                if self._turn:
                    self._turn.end()

        return compile_in_turn


@cache
def cuda_cache() -> Any:
    """The class of caches of kernels that run on a device; a function, since the simulator has none."""
    from numba.cuda.dispatcher import CUDACache

    class CudaKernelCache(_ByContent, CUDACache):
        pass

    return CudaKernelCache


@cache
def cuda_copies() -> tuple[Any, Any]:
    """Functions ``(to, array, bytes, stream)`` that copy to a device and from it; a function, as above.

    Those of the arrays of a device first compare shapes and strides, which takes the host 0.1 ms.
    """
    from numba.cuda.cudadrv.driver import device_to_host, host_to_device

    return host_to_device, device_to_host


def memory_handle(array: Any) -> bytes:
    """By which another process opens the memory of an array of the device: its size, where it begins in what the driver
    gave, and the driver's handle of that.
    """
    held = array.get_ipc_handle()._ipc_handle
    return struct.pack(HANDLE, held.size, held.offset, ctypes.string_at(held.handle.getPtr(), HANDLE_BYTES))


def opened_memory(handle: bytes) -> Any:
    """Memory of another process's device, as bytes, where the devices reach each other.

    What Numba documents asks for that device by its number here, and it has none where each process sees its own alone;
    and it cannot hand a handle on with every release of the CUDA bindings.
    """
    from numba.cuda import current_context
    from numba.cuda.cudadrv.devicearray import DeviceNDArray
    from numba.cuda.cudadrv.driver import IpcHandle, binding

    size, offset, there = struct.unpack(HANDLE, handle)
    of_driver = binding.CUipcMemHandle()
    ctypes.memmove(of_driver.getPtr(), there, HANDLE_BYTES)
    held = IpcHandle(None, of_driver, size, offset=offset)
    array = DeviceNDArray((size,), (1,), np.dtype(np.uint8), gpu_data=held.open_direct(current_context()))
    array.handle = held  # which holds the memory open
    return array


def simulated_memory(array: Any) -> Any:
    """An array of the simulator that is an array here, and no copy of it."""
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    return FakeCUDAArray(array)


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    return {name: option.default for name, option in kind.options.items()}


def _values(options: Any) -> dict[str, Any]:
    """All options of a compilation, those that are not set by their defaults."""
    return {**_defaults(options.__class__), **options._values}


def _variables(instruction: Any, part: Any) -> list[Any]:
    """Variables in a part of an instruction."""
    if isinstance(part, numba_ir.Var):
        return [part]
    if isinstance(part, numba_ir.Inst):
        variables: list[Any] = part.list_vars()
        return variables
    parts = part.values() if isinstance(part, dict) else part if isinstance(part, (list, tuple)) else ()
    return [found for each in parts if type(each) not in PLAIN for found in _variables(instruction, each)]


PLAIN = {str, int, type(None), numba_ir.Loc}
"""Types of most parts of an instruction, in which there is no variable."""


@cache
def _holds_memory(model: Any) -> bool:
    """Whether there is memory that Numba counts the users of in values of a type."""
    deferred = any(isinstance(each, DeferredType) for each in model.traverse_types())
    return bool(deferred or model.contains_nrt_meminfo())


def _memory_in(nrt: Any, builder: Any, kind: Any, value: Any) -> list[tuple[Any, Any]]:
    """Memory in a value, of whose users one more or one less is to be counted."""
    models = nrt._context.data_model_manager
    found = [(kind, models[kind].get_nrt_meminfo(builder, value))] if models[kind].has_nrt_meminfo() else []
    for part, of_value in models[kind].traverse(builder):
        if _holds_memory(models[part]):
            found += nrt.get_meminfos(builder, part, of_value(value))
    return found


_find_call_type = BaseFunction.get_call_type
_CALL_TYPES: dict[tuple[Any, ...], tuple[Any, Any]] = {}


def _call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Signature of a call, found once for a function of Numba's own or of NumPy and the types of what it is given."""
    called = id(function), id(context), get_local_target(context), tuple(args), tuple(kws.items())
    if called not in _CALL_TYPES:  # with both, so that no other has the identity of one
        _CALL_TYPES[called] = _find_call_type(function, context, args, kws), (function, context)
    return _CALL_TYPES[called][0]


def compile_sooner() -> None:
    """Let Numba find the same in less time where it spends most of Python's: it compares all options of a compilation,
    a property each, at each look for a function of NumPy, asks all parts of an instruction for variables, looks for the
    same product of two numbers in a list of functions again, and takes tuples of numbers to pieces, which hold no
    memory. And let it make machine code once, of what is called from outside of it.
    """
    targetconfig.TargetConfig.values = _values
    numba_ir.Inst._rec_list_vars = _variables
    NRTContext.get_meminfos = _memory_in
    BaseFunction.get_call_type = _call_type  # type: ignore[assignment, method-assign]
    JITCPUCodegen._library_class = _Library
    parfor_lowering._create_gufunc_for_parfor_body = _body_of_loop


def keep(compiled: Any, where: Any) -> Any:
    """Let a compiled function, or kernel, be kept in a cache; the function."""
    compiled._cache = where
    if isinstance(where, KernelCache):
        compiled.compile = where.in_turn(compiled.compile)
    return compiled
