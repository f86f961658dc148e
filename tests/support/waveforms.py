# SPDX-License-Identifier: Apache-2.0
"""Files of inflow over time."""

from pathlib import Path

import numpy as np


def write_waveform(path: Path, times_s: np.ndarray, values: np.ndarray, column: str = "flow_ml_s") -> str:
    """Write a CSV that an opening takes; its path, as settings name it."""
    rows = "".join(f"{time},{value}\n" for time, value in zip(times_s, values, strict=True))
    path.write_text(f"time_s,{column}\n{rows}")
    return str(path)
