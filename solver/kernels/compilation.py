# SPDX-License-Identifier: Apache-2.0
"""Compilation by Numba, kept on disk from one run to the next.

Models are chosen before compilation: loops over nodes close over the functions of a node that were chosen. Numba finds
what it compiled before by a pickle of what a loop closes over, in which compiled functions have a random name. Here
the key is what a loop is made of, and the source of the whole solver: any change of it compiles everything again.

Numba tells machine code of the same function over other models apart by a number that counts from 1 in each process.
Two such, found on disk where different processes left them, may have the same name, and the first is then run in place
of the second. Hence loops bear what they are made of in their names.
"""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import CodeType
from typing import Any

from numba import config, njit

from solver.kernels.numba_internals import InnerFunction, KernelCache, compile_sooner, keep

compile_sooner()

DIGITS = 24
"""Of the digest in the name of a loop."""

SOLVER = Path(__file__).resolve().parents[1]
"""Folder of the solver."""


@cache
def source(folder: Path = SOLVER) -> str:
    """Digest of the solver's source and of that in the folder of a loop, which may lie outside."""
    files = {*SOLVER.rglob("*.py"), *folder.glob("*.py")}
    return sha256(b"\0".join(file.read_bytes() for file in sorted(files))).hexdigest()


def identity(value: Any) -> str:
    """Identity of what a function closes over, the same in each process: a function by its code and by what it closes
    over.
    """
    function = getattr(value, "py_func", value)
    if isinstance(code := getattr(function, "__code__", function), CodeType):
        cells = tuple(cell.cell_contents for cell in getattr(function, "__closure__", None) or ())
        return f"{code.co_qualname} {code.co_code.hex()} {code.co_names} {identity(code.co_consts)} {identity(cells)}"
    if isinstance(value, tuple):
        return f"({', '.join(map(identity, value))})"
    return repr(value)


def made_of(function: Any, options: dict[str, Any]) -> str:
    """Digest of a function's identity, of how it is compiled, and of its source and the solver's."""
    folder = Path(getattr(function, "py_func", function).__code__.co_filename).resolve().parent
    return sha256(f"{source(folder)} {identity(function)} {options}".encode()).hexdigest()


def named_by_digest(function: Any, options: dict[str, Any]) -> str:
    """Let a function bear that digest in its name; the digest."""
    digest = made_of(function, options)
    function.__qualname__ += f"_{digest[:DIGITS]}"
    return digest


def inner_loop(function: Any) -> Any:
    """Decorator of a loop that another one calls: compiled with it, and kept on disk as a part of it."""
    options = {"error_model": "numpy"}
    named_by_digest(function, options)
    return inner_function(**options)(function)


def inner_function(**options: Any) -> Callable[[Any], Any]:
    """Decorator of functions that loops outside of the solver call: compiled as a part of these alone, in a fifth less
    time. Python should not call them: each process would compile them for that once more.
    """

    def decorator(function: Any) -> Any:
        return function if config.DISABLE_JIT else InnerFunction(function, targetoptions=options)

    return decorator


def cached_njit(**options: Any) -> Callable[[Any], Any]:
    """Decorator of loops: compile them for the CPU, and keep the machine code on disk.

    They are without Python's check for division by zero, which would keep them from being made of vectors, and without
    what C would call them by.
    """

    def decorator(function: Any) -> Any:
        digest = named_by_digest(function, options)
        compiled = njit(error_model="numpy", no_cfunc_wrapper=True, **options)(function)
        return compiled if config.DISABLE_JIT else keep(compiled, KernelCache(function, lambda: digest))

    return decorator
