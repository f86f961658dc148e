# SPDX-License-Identifier: Apache-2.0
"""Whether a grown mask is brighter than what is around it, as a vessel with contrast agent is."""

import numpy as np
from numpy.typing import NDArray

from pipeline.segmentation.following import spread_at_a_place
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.problem import Lumen
from solver.runtime.errors import StageError

CONTRAST_TO_NOISE = 4.0
"""Least contrast, in standard deviations of the noise, at which a structure counts as seen: below Rose's 5 (1948),
since the brightest quarter of the surroundings, not their mean, is what the lumen is compared with."""

LUMEN_TO_SPREAD = 3.0
"""How far, in standard deviations, the lumen's level lies above half way to its surroundings: of a normal distribution,
1 voxel in 700 is then darker than half way. Less means that lumen and surroundings are the noise of one tissue."""

CONTRAST_HU = 100.0
"""Least level of a contrast-filled lumen in CT: blood has 30 to 70 HU, with contrast agent 150 to 600."""

CLEAR_CONTRAST, TEXTURE_TO_SPREAD = 12.0, 2.25
"""Not in CT: with so much contrast to noise the spread is no noise of a tissue but that of the signal, which fades with
the distance to the coils of MR and with slow flow; the lumen's level must then be so many spreads above half way
(the aorta of a real MR has 2.5 to 2.9). In CT blood is even, and what varies so much is bone."""


def check_contrast(found: Levels, lumen: Lumen, modality: str | None, voxels: NDArray[np.floating]) -> None:
    """Refuse a mask that is hardly brighter than the soft tissue around it, or no brighter than noise makes one.

    Parameters
    ----------
    found : intensities.
    lumen : what was found.
    modality : ``CT``: intensities are HU, and blood without contrast agent is refused; None: unknown.
    voxels : intensities (Z, Y, X).

    Raises
    ------
    StageError
        If the contrast to noise is below `CONTRAST_TO_NOISE`, the lumen is less than `LUMEN_TO_SPREAD` times its own
        spread above half way to its surroundings, or above a wall that is lower (`TEXTURE_TO_SPREAD` where the contrast
        is clear, but not in CT), or, in CT, below `CONTRAST_HU`.
    """
    reference = min(lumen.wall, found.lumen - found.contrast / 2)
    clear = found.contrast_to_noise >= CLEAR_CONTRAST
    needed = TEXTURE_TO_SPREAD if clear and modality != "CT" else LUMEN_TO_SPREAD
    spread = found.spread
    # contrast that fades along a vessel is no noise of a tissue
    if clear and found.lumen - reference < needed * spread:
        spread = min(spread, max(spread_at_a_place(voxels, lumen.mask), found.noise))
    above = (found.lumen - reference) / spread
    if found.contrast_to_noise < CONTRAST_TO_NOISE:
        reason = (
            f"the mask's median {found.mask:.4g} is {found.contrast_to_noise:.1f} times the noise ({found.noise:.3g})"
            f" above its brighter surroundings ({found.bright_surroundings:.4g}), at least {CONTRAST_TO_NOISE:g} times"
            " are needed"
        )
    elif above < needed:
        reason = (
            f"the level at the seed {found.lumen:.4g} is {above:.1f} times its own spread ({spread:.3g}) above"
            f" {reference:.4g}, the lower of the threshold and half way to its surroundings ({found.surroundings:.4g}),"
            f" at least {needed:g} times are needed"
        )
    elif modality == "CT" and found.lumen < CONTRAST_HU:
        reason = (
            f"the level at the seed is {found.lumen:.0f} HU; blood without contrast agent has 30 to 70 HU, with it at"
            f" least {CONTRAST_HU:g} HU are needed"
        )
    else:
        return
    raise StageError(
        f"no contrast-filled vessel at the seed: at {lumen} {reason}: choose a"
        " series with contrast agent, correct the seed or the threshold, or smooth more (filter.smoothing: nonlocal)"
    )
