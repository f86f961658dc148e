# SPDX-License-Identifier: Apache-2.0
"""How often Python looks for garbage in tests and in the programs that they fork."""

import gc

OBJECTS = 20_000
"""Made and not yet freed before it does: at its own 700 that took a tenth of small tests and of interpreted loops."""


def freeze() -> None:
    """Leave what is there, which stays till the end, out of the search for garbage, and search seldom."""
    gc.freeze()
    gc.set_threshold(OBJECTS)
