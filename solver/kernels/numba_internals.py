# SPDX-License-Identifier: Apache-2.0
"""What is used of Numba beyond what it documents: names of its inner modules, and private attributes, all of them here.

A release of Numba may move any of them; tests/solver/kernels/test_numba_internals.py says what fails then, and what
would be lost.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.cgutils import ir
from numba.core.codegen import get_host_cpu_features
from numba.core.datamodel import models, register_default
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

__all__ = [
    "AbstractTemplate",
    "KernelCache",
    "cgutils",
    "cuda_cache",
    "get_host_cpu_features",
    "infer_global",
    "ir",
    "keep",
    "lower_builtin",
    "models",
    "register_default",
    "signature",
]


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
    """Where loops are kept that run on the CPU."""


@cache
def cuda_cache() -> Any:
    """The class of caches of kernels that run on a device; a function, since the simulator has none."""
    from numba.cuda.dispatcher import CUDACache

    class CudaKernelCache(_ByContent, CUDACache):
        pass

    return CudaKernelCache


def keep(compiled: Any, where: Any) -> Any:
    """Let a compiled function, or kernel, be kept in a cache; the function."""
    compiled._cache = where
    return compiled
