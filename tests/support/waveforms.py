# SPDX-License-Identifier: Apache-2.0
"""Files of inflow over time."""

from pathlib import Path

import numpy as np


def write_waveform(path: Path, times_s: np.ndarray, flow_ml_s: np.ndarray) -> str:
    """Write a CSV that an inlet takes; its path, as settings name it."""
    rows = "".join(f"{time},{flow}\n" for time, flow in zip(times_s, flow_ml_s, strict=True))
    path.write_text(f"time_s,flow_ml_s\n{rows}")
    return str(path)
