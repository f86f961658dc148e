# SPDX-License-Identifier: Apache-2.0
"""The spacing of the lattice that members run on, and what the case's own spacing is off by."""

MOST_RATIO = 2.0
"""Members run on lattices at most so many times as coarse as the case's."""

LEAST_ACROSS = 8.0
"""Nodes that the members' lattice has across the narrowest place, where the case's lattice is not coarser."""

TRUSTED_ACROSS = 10.0
"""The same below which a reader is told that what members change is less sure."""

LEAST_RATIO = 1.25
"""Below it a coarser lattice saves too little, and tells too little of the case's own spacing."""


def ratio_of(nodes_across: float, wanted: float, least: float | None = None) -> float:
    """Spacing of the lattice of runs beside a case over that of the case.

    Parameters
    ----------
    nodes_across : the narrowest opening or section, on the case's lattice.
    wanted : of them on the coarser one.
    least : of them where `LEAST_RATIO` times the spacing leaves fewer than are wanted; none: as many.

    Returns
    -------
    Between :data:`LEAST_RATIO` and :data:`MOST_RATIO`; 1 where the case's lattice is as coarse as it may be.
    """
    ratio = min(MOST_RATIO, max(LEAST_RATIO, nodes_across / wanted))
    return ratio if nodes_across / ratio >= min(wanted, least or wanted) else 1.0


def too_coarse(nodes_across: float) -> str | None:
    """Why bands are less sure than they seem; none where the members' lattice is fine enough.

    Parameters
    ----------
    nodes_across : the narrowest place, on that lattice.
    """
    if round(nodes_across) >= TRUSTED_ACROSS:
        return None
    return (
        f"members had {nodes_across:.2g} nodes across the narrowest place, and with fewer than {TRUSTED_ACROSS:g} the"
        " widths of bands are less sure, with 8 those of the largest stresses by some 14 %; uncertainty.nodes_across:"
        f" {TRUSTED_ACROSS:g}, or a finer spacing of a case that has fewer itself, makes them surer"
    )


ORDER, ORDER_OF_PEAKS = 1.5, 1.0
"""Orders with which figures come near to those of a vanishing spacing, and the largest stresses do, as measured on 23
drawn vessels with a sac on lattices of 8 to 48 nodes across (docs/uncertainty.md)."""


def spacing_deviation(differs: float, ratio: float, order: float = ORDER) -> float:
    """Standard deviation that is due to the spacing: the error of the case's lattice by Richardson's extrapolation.

    Parameters
    ----------
    differs : what a figure differs by between the members' lattice and the case's.
    ratio : spacing of the first over that of the second.
    order : with which the figure comes near to its limit.

    Returns
    -------
    |differs| / (ratio^order - 1); 0 where both are the same lattice.
    """
    return abs(differs) / (ratio**order - 1) if ratio > 1 else 0.0
