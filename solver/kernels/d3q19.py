# SPDX-License-Identifier: Apache-2.0
"""The D3Q19 velocity set.

Direction 0 is at rest; opposite directions stand side by side, so that ``OPPOSITE[i]`` is ``i + 1`` for odd ``i``
and ``i - 1`` for even ``i > 0``. Vectors are ``(x, y, z)``.

Source: Qian, d'Humières and Lallemand (1992), doi:10.1209/0295-5075/17/6/001.
"""

from typing import Final

import numpy as np

Q: Final = 19

VELOCITIES: Final = np.array(
    [
        (0, 0, 0),
        (1, 0, 0), (-1, 0, 0),
        (0, 1, 0), (0, -1, 0),
        (0, 0, 1), (0, 0, -1),
        (1, 1, 0), (-1, -1, 0),
        (1, -1, 0), (-1, 1, 0),
        (1, 0, 1), (-1, 0, -1),
        (1, 0, -1), (-1, 0, 1),
        (0, 1, 1), (0, -1, -1),
        (0, 1, -1), (0, -1, 1),
    ],
    dtype=np.int8,
)  # fmt: skip
"""Velocities, shape (19, 3), components (x, y, z), in lattice units."""

WEIGHTS: Final = np.array([1 / 3] + [1 / 18] * 6 + [1 / 36] * 12)
"""Weights, shape (19,); they sum to 1, and sum(w c c) is I/3."""

OPPOSITE: Final = np.array([0] + [i + 1 if i % 2 else i - 1 for i in range(1, Q)], dtype=np.int8)
"""``VELOCITIES[OPPOSITE[i]] == -VELOCITIES[i]``, shape (19,)."""
