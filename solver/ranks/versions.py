# SPDX-License-Identifier: Apache-2.0
"""What the bits of a run depend on besides its settings."""

import platform

import numba
import numpy as np

from solver.kernels.compilation import source


def versions() -> list[str]:
    """Digest of the solver's source, and versions of Python, NumPy and Numba."""
    return [source(), f"Python {platform.python_version()}", f"NumPy {np.__version__}", f"Numba {numba.__version__}"]
