# SPDX-License-Identifier: Apache-2.0
"""Particles that move through the view to turn: where they are, picture by picture, from the paths that trace wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.files.lines import read_lines
from pipeline.haemodynamics.paths import Paths
from pipeline.reporting.animation import median_way_s, pick

SHOWN, FRAMES = 250, 48
"""Particles in a picture, about, and pictures of a round: a page should carry them."""


@dataclass(frozen=True)
class Moving:
    """Particles over one round, which repeats.

    Attributes
    ----------
    frames : each (K, 4): x, y, z in mm, LPS, and speed in m/s.
    round_s : the period, or of a steady flow the median time of the blood's way through the vessel.
    """

    frames: Sequence[NDArray[np.float64]]
    round_s: float


def read_paths(path: Path) -> Paths:
    """Paths of a file that trace wrote, their places in mm; each stands for a flow as fast as it began.

    Parameters
    ----------
    path : ``pathlines.vtp``.
    """
    points, offsets, at_points, on_lines = read_lines(path)
    speed = at_points["speed (m s-1)"].astype(np.float64)
    return Paths(
        points.astype(np.float64),
        at_points["time (s)"].astype(np.float64),
        speed,
        offsets,
        on_lines["released (s)"].astype(np.float64),
        on_lines["left through"],
        speed[offsets[:-1]],
    )


def moving(paths: Paths, period_s: float | None) -> Moving | None:
    """Particles on some of the paths, each at its own time of the round; none where there is no path.

    Parameters
    ----------
    paths : with places in mm.
    period_s : of the flow; none of a steady one.
    """
    if not len(paths.flux) or not paths.flux.sum():
        return None
    round_s = period_s or median_way_s(paths)
    rows, phase_s = pick(paths, round_s, period_s is not None, SHOWN)
    lasts_s = paths.lasted_s()
    frames = []
    for moment in np.arange(FRAMES) * round_s / FRAMES:
        found = [np.empty((0, 4))]
        for row, phase in zip(rows.tolist(), phase_s.tolist(), strict=True):
            part = slice(paths.offsets[row], paths.offsets[row + 1])
            ages = np.arange((moment - phase) % round_s, lasts_s[row], round_s)
            table = np.column_stack((paths.place[part], paths.speed_m_s[part]))
            since = paths.time_s[part] - paths.released_s[row]
            found.append(np.column_stack([np.interp(ages, since, values) for values in table.T]))
        frames.append(np.concatenate(found))
    return Moving(frames, round_s)
