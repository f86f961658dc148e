# SPDX-License-Identifier: Apache-2.0
"""The design: which values the variables of each member have."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri


def design(members: int, variables: int, seed: int) -> NDArray[np.float64]:
    """Values of standard normal variables, (members, variables).

    Half of the members are a Latin hypercube, in which each variable has one value of each of so many parts of equal
    probability (McKay et al. 1979, doi:10.1080/00401706.1979.10489755; by SciPy, permuted for least discrepancy); the
    other half mirrors it, z to -z, so that no square term passes for a linear one.

    Parameters
    ----------
    members : an even number.
    variables : of the case.
    seed : of what is drawn; the same seed gives the same design.
    """
    half = members // 2
    if not variables:
        return np.zeros((members, 0))
    from scipy.stats import qmc  # which takes a second to import, in each process of tests that draw nothing, too

    sampler = qmc.LatinHypercube(variables, optimization="random-cd", rng=np.random.default_rng(seed))
    drawn = ndtri(sampler.random(half))
    return np.concatenate([drawn, -drawn])
