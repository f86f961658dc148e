# SPDX-License-Identifier: Apache-2.0
"""The spacing of the lattice that members run on."""

MOST_RATIO = 2.0
"""Members run on lattices at most so many times as coarse as the case's."""

LEAST_ACROSS = 8.0
"""Nodes that the members' lattice has across the narrowest place, where the case's lattice is not coarser."""

LEAST_RATIO = 1.25
"""Below it a coarser lattice saves too little, and tells too little of the case's own spacing."""


def ratio_of(nodes_across: float) -> float:
    """Spacing of the members' lattice over that of the case.

    Parameters
    ----------
    nodes_across : the narrowest opening or section, on the case's lattice.

    Returns
    -------
    Between :data:`LEAST_RATIO` and :data:`MOST_RATIO`; 1 where the case's lattice is as coarse as it may be.
    """
    ratio = min(MOST_RATIO, nodes_across / LEAST_ACROSS)
    return ratio if ratio >= LEAST_RATIO else 1.0
