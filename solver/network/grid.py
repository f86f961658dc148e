# SPDX-License-Identifier: Apache-2.0
"""Cells of a network, as flat arrays over all of its segments, for compiled loops.

Each segment is a row of cells with one more before its first and one after its last, which hold what is extrapolated
beyond the ends. Face j lies between the cells j and j + 1; the faces of a segment's ends are those of its nodes. A face
between two segments' rows belongs to nobody: it is computed, so that loops run through, and nothing uses it.
"""

from dataclasses import dataclass
from math import pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.network.arterial_walls import COEFFICIENTS, along
from solver.network.laws import is_linear, table_of
from solver.network.network import Blood, Network, Segment

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]

LEAST_CELLS = 2
"""Of a segment."""


class Grid(NamedTuple):
    """Arrays over cells and faces, (M,) each, and over segments, (S,).

    Attributes
    ----------
    density : of blood, kg/m^3.
    per_length : 1/dx of a cell, 1/m; 0 in the cells beyond ends, which hence never change.
    area, face_area : A0, m^2.
    table, face_table : coefficients of the wall, (8, M), see :mod:`solver.network.laws`.
    offset : pressure at which the lumen has its area A0, Pa; of the face on the cell's right, too.
    friction : 2 (gamma + 2) pi nu, m^2/s: friction slows by friction u/A.
    linear_loss : of a stenosis or stated, 1/(m^2 s): it slows by linear_loss A u.
    square_loss : of a stenosis or stated, 1/m^5: it slows by square_loss A^2 |u| u.
    viscous : Gamma/A0 at faces, Pa s/m.
    first, last : cells of a segment at its ends.
    viscoelastic : segments whose wall is viscous, (V,).
    excess : alpha - 1 of segments, (S,), see :mod:`solver.network.momentum`.
    profiled : segments where it is not 0, (P,).
    """

    density: float
    per_length: Reals
    area: Reals
    face_area: Reals
    table: Reals
    face_table: Reals
    offset: Reals
    friction: Reals
    linear_loss: Reals
    square_loss: Reals
    viscous: Reals
    first: Integers
    last: Integers
    viscoelastic: Integers
    excess: Reals
    profiled: Integers


@dataclass(frozen=True)
class _Row:
    """A segment's cells and faces, with those beyond its ends."""

    per_length: Reals
    area: Reals
    face_area: Reals
    coefficients: Reals
    face_coefficients: Reals
    offset: Reals
    friction: Reals
    linear_loss: Reals
    square_loss: Reals
    viscous: Reals


def cells_of(segment: Segment, spacing_m: float) -> int:
    """Cells of a segment: as long as the spacing nearly."""
    return max(LEAST_CELLS, round(segment.length_m / spacing_m))


def make_grid(network: Network, spacing_m: float) -> tuple[Grid, bool]:
    """The cells of a network, and whether all of its walls are linear.

    Parameters
    ----------
    network : as stated.
    spacing_m : length of a cell, nearly.
    """
    rows = [_row(segment, network.blood, cells_of(segment, spacing_m)) for segment in network.segments]
    sizes = np.array([len(row.area) for row in rows], np.int64)
    starts = np.cumsum(sizes) - sizes

    def joined(name: str) -> Reals:
        return np.ascontiguousarray(np.concatenate([getattr(row, name) for row in rows], axis=-1))

    excess = np.array([segment.momentum - 1.0 for segment in network.segments])
    coefficients, faces = joined("coefficients"), joined("face_coefficients")
    grid = Grid(
        density=network.blood.density_kg_m3,
        per_length=joined("per_length"),
        area=joined("area"),
        face_area=joined("face_area"),
        table=table_of(coefficients),
        face_table=table_of(faces),
        offset=joined("offset"),
        friction=joined("friction"),
        linear_loss=joined("linear_loss"),
        square_loss=joined("square_loss"),
        viscous=joined("viscous"),
        first=starts + 1,
        last=starts + sizes - 2,
        viscoelastic=np.array([s for s, row in enumerate(rows) if row.viscous.any()], np.int64),
        excess=excess,
        profiled=np.flatnonzero(excess).astype(np.int64),
    )
    return grid, is_linear(coefficients)


def _row(segment: Segment, blood: Blood, cells: int) -> _Row:
    """The cells of a segment: lumen and wall are those at the middles of cells and at faces."""
    faces = np.clip(np.arange(cells + 2) / cells, 0.0, 1.0)
    middles = np.clip((np.arange(cells + 2) - 0.5) / cells, 0.5 / cells, 1.0 - 0.5 / cells)
    radius, face_radius = along(segment.radius_m, middles), along(segment.radius_m, faces)
    face_area = pi * face_radius**2
    area = pi * radius**2
    per_length = np.full(cells + 2, cells / segment.length_m)
    per_length[[0, -1]] = 0.0
    kinematic = blood.viscosity_pa_s / blood.density_kg_m3
    friction, linear, square = 2.0 * (segment.profile_exponent + 2.0) * pi * kinematic, 0.0, 0.0
    if segment.stenosis:
        per_mass = 1.0 / (blood.density_kg_m3 * segment.length_m)
        friction = 0.0
        linear = segment.stenosis.linear_pa_s_m3(blood, segment.length_m) * per_mass
        square = segment.stenosis.square_pa_s2_m6(blood) * per_mass
    elif segment.loss:
        per_mass = 1.0 / (blood.density_kg_m3 * segment.length_m)
        friction = 0.0
        linear, square = segment.loss.linear_pa_s_m3 * per_mass, segment.loss.square_pa_s2_m6 * per_mass
    same = np.ones(cells + 2)
    return _Row(
        per_length,
        area,
        face_area,
        segment.wall.coefficients(middles, radius).reshape(COEFFICIENTS, -1),
        segment.wall.coefficients(faces, face_radius).reshape(COEFFICIENTS, -1),
        segment.offset_pa * same,
        friction * same,
        linear * same,
        square * same,
        along(segment.wall.viscous_pa_s_m, faces) / face_area,
    )
