# SPDX-License-Identifier: Apache-2.0
"""How many CUDA devices a machine shows, told by its driver's own program: nothing of CUDA is loaded for it."""

import os
import subprocess
from functools import cache

LIST_DEVICES = ("nvidia-smi", "--list-gpus")
"""One line for each device."""


def device_count() -> int:
    """CUDA devices that programs see here; 0 where there is no driver, or none answers within 20 s.

    Of CUDA_VISIBLE_DEVICES those before the first that is no device count, as CUDA has it.
    """
    lines = _listed()
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is None:
        return len(lines)
    count = 0
    for name in shown.split(","):
        chosen = name.strip()  # a number, or how an identifier begins
        named = chosen.startswith("GPU-") and any(f"UUID: {chosen}" in line for line in lines)
        if not named and not (chosen.isdecimal() and int(chosen) < len(lines)):
            break
        count += 1
    return count


@cache
def _listed() -> tuple[str, ...]:
    """The line of each device, asked for once: a cohort reads many case files."""
    try:
        listed = subprocess.run(LIST_DEVICES, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line for line in listed.splitlines() if line.startswith("GPU "))
