# SPDX-License-Identifier: Apache-2.0
"""Compilation of loops that another loop calls."""

from typing import Any

from numba import config

from solver.kernels.numba_internals import InnerFunction


def inner_loop(function: Any) -> Any:
    """Decorator of a loop that another one calls: compiled with it, and kept on disk as a part of it."""
    return function if config.DISABLE_JIT else InnerFunction(function, targetoptions={"error_model": "numpy"})
