"""Wall links: interpolated bounce-back at the distance q, as a short pass after each step.

For a link i from fluid node n into a wall, o its opposite and * after collision, the population that comes back is

    g_o(n, t + 1) = a g_i*(n, t) + b g_o*(n, t) + c g_i*(n - c_i, t).

The last is what arrives at n as g_i at t + 1, so that all three stand in slots of node n: the first in slot (o, n),
where streaming alone would bounce it back half-way, the others in slot (i, n) and at the address of link o, which
change places between even and odd steps. A link writes its own slot and reads slots that no link writes, so the
order of links does not matter.

Interpolation does not conserve mass. What a pass adds in total, D, is taken off again from the rest populations of
all nodes next to a wall in equal parts, which keeps the order of accuracy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.d3q19 import OPPOSITE
from solver.nodes import Nodes
from solver.stage import StageError

Coefficients = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class WallLinks:
    """Links whose returning population is interpolated.

    Attributes
    ----------
    slot : (L,) slot (o, n), that of the returning population.
    inside : (L,) slot (i, n).
    upstream : (L,) address of link o.
    a, b, c : (L,) coefficients.
    nodes : (B,) rows of the nodes that share the correction of mass.
    """

    slot: NDArray[np.unsignedinteger]
    inside: NDArray[np.unsignedinteger]
    upstream: NDArray[np.unsignedinteger]
    a: NDArray[np.floating]
    b: NDArray[np.floating]
    c: NDArray[np.floating]
    nodes: NDArray[np.int32]


def half_way(q: NDArray[np.float64]) -> Coefficients:
    """Bounce-back at the middle of the link whatever q: first order in space on curved walls (Ladd 1994)."""
    return np.ones_like(q), np.zeros_like(q), np.zeros_like(q)


def bouzidi(q: NDArray[np.float64]) -> Coefficients:
    """Linear interpolation (Bouzidi, Firdaouss and Lallemand 2001, doi:10.1063/1.1399290): second order.

    q < 1/2: (2q, 0, 1 - 2q); else (1/(2q), 1 - 1/(2q), 0).
    """
    near = q < 0.5
    inverse = 1 / (2 * q)
    return np.where(near, 2 * q, inverse), np.where(near, 0.0, 1 - inverse), np.where(near, 1 - 2 * q, 0.0)


WALLS: dict[str, Callable[[NDArray[np.float64]], Coefficients]] = {"bouzidi": bouzidi, "half-way": half_way}
"""Coefficients (a, b, c) as functions of q, by name of the scheme."""


def wall_links(nodes: Nodes, addresses: NDArray[np.unsignedinteger], stride: int, scheme: str, real: Any) -> WallLinks:
    """Interpolated links of a geometry. Where n - c_i is no fluid node the link stays half-way, which needs no entry.

    Raises
    ------
    StageError
        If there is no such scheme.
    """
    if scheme not in WALLS:
        raise StageError(f"walls {scheme!r}: unknown; known are {', '.join(WALLS)}")
    node = nodes.wall_link_node.astype(np.int64)
    direction = nodes.wall_link_direction.astype(np.int64)
    back = OPPOSITE[direction].astype(np.int64)
    upstream = addresses[(back - 1) * stride + node]
    inside = direction * stride + node
    a, b, c = WALLS[scheme](nodes.wall_link_q.astype(np.float64))
    kept = (upstream != inside) & ((b != 0) | (c != 0))
    kind = addresses.dtype
    return WallLinks(
        slot=(back * stride + node)[kept].astype(kind),
        inside=inside[kept].astype(kind),
        upstream=upstream[kept].astype(kind),
        a=a[kept].astype(real),
        b=b[kept].astype(real),
        c=c[kept].astype(real),
        nodes=np.unique(node[kept]).astype(np.int32),
    )
