# SPDX-License-Identifier: Apache-2.0
"""Nodes through which the lattice cannot carry flow, taken out of the fluid: links through the wall, passages one node
wide, and islands.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from scipy import ndimage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline.geometry.lattice.crossings import Raster
from pipeline.geometry.lattice.frame import Frame
from pipeline.geometry.lattice.links import short_cuts
from solver.kernels.compilation import inner_function
from solver.runtime.errors import StageError

BLOCK, THIN = 1, 2
"""Fluid nodes that belong to a cube of 2 x 2 x 2 fluid nodes, and those that belong to none."""


def without_thin_passages(
    raster: Raster, closed: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """The nodes that the surface encloses and flow can pass, [z, y, x], and how many were taken out, by kind.

    - ``closed_branches``: those of branches that are closed, `closed`, as places in the flattened lattice.
    - ``short_cuts``: ends of links that leave the vessel between two of its nodes, see
      :func:`pipeline.geometry.lattice.links.short_cuts`. No such link is left.
    - ``passages``: one node wide, see :func:`without_passages`.
    - ``islands``: what no link joins to the largest part.
    """
    whole = raster.enclosed
    if closed is not None:
        whole.reshape(-1)[closed] = False
    fluid, removed = whole, {"short_cuts": 0, "passages": 0, "islands": 0}
    while True:
        nodes = short_cuts(raster, fluid)
        fluid.reshape(-1)[nodes] = False
        wide = without_passages(fluid, raster.frame)
        largest = largest_component(wide, raster.frame)
        counts = [int(np.count_nonzero(mask)) for mask in (fluid, wide, largest)]
        for kind, count in zip(removed, (len(nodes), counts[0] - counts[1], counts[1] - counts[2]), strict=True):
            removed[kind] += count
        if counts[0] == counts[2]:  # what else is taken out may have joined both ends of a link within the vessel
            return fluid, removed | ({} if closed is None else {"closed_branches": len(closed)})
        fluid = largest


def without_passages(fluid: NDArray[np.bool_], frame: Frame) -> NDArray[np.bool_]:
    """Fluid nodes, [z, y, x], without passages, fins and tips that are one node wide.

    A node that belongs to no cube of 2 x 2 x 2 fluid nodes stays only as a bump on such cubes: with a neighbour along
    an axis that belongs to one, and no fluid opposite. What is no bump is peeled off from the outside: nodes without a
    neighbour in a cube along any axis first, until none of them is left; then all others at once; and again.
    """
    state = frame.pad(fluid).astype(np.int8)
    _mark_thin(state)
    flat, strides = state.reshape(-1), frame.padded().strides
    _repeat(state, frame)
    thin = np.flatnonzero(np.ascontiguousarray(_marked(state, frame)))
    while True:
        bump, beside = _judge(flat, thin, strides)
        peeled = ~bump & ~beside
        if not peeled.any():
            peeled = ~bump
        if not peeled.any():
            return np.ascontiguousarray(frame.core(state) > 0)
        flat[thin[peeled]] = 0
        thin = thin[~peeled]
        _repeat(state, frame)


def _marked(state: NDArray[np.int8], frame: Frame) -> NDArray[np.bool_]:
    """Thin nodes, without those that only repeat others."""
    marked = np.zeros(state.shape, np.bool_)
    frame.core(marked)[:] = frame.core(state) == THIN
    return marked


def _repeat(state: NDArray[np.int8], frame: Frame) -> None:
    """Bring the nodes around a lattice that repeats in step with those that they repeat."""
    if any(frame.periodic):
        state[:] = frame.pad(frame.core(state))


@njit(parallel=True, cache=True)
def _mark_thin(state: NDArray[np.int8]) -> None:
    """Mark fluid nodes, all BLOCK, that belong to no cube of fluid nodes as THIN, the outermost layer left out."""
    depth, height, width = state.shape
    flat = state.reshape(-1)
    for z in prange(1, depth - 1):
        for y in range(1, height - 1):
            first = (z * height + y) * width
            for n in range(first + 1, first + width - 1):
                if flat[n] and not _in_cube(flat, n, width, height * width):
                    flat[n] = THIN


@inner_function()
def _in_cube(flat: NDArray[np.int8], n: int, y: int, z: int) -> bool:
    for dx in (1, -1):
        if flat[n + dx]:
            for dy in (y, -y):
                if flat[n + dy] and flat[n + dx + dy]:
                    for dz in (z, -z):
                        if flat[n + dz] and flat[n + dz + dx] and flat[n + dz + dy] and flat[n + dz + dx + dy]:
                            return True
    return False


@njit(cache=True)
def _judge(
    flat: NDArray[np.int8], thin: NDArray[np.int64], strides: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether thin nodes are bumps, and whether they have a neighbour in a cube along an axis."""
    bump, beside = np.zeros(len(thin), np.bool_), np.zeros(len(thin), np.bool_)
    for row in range(len(thin)):
        for stride in strides:
            low, high = flat[thin[row] - stride], flat[thin[row] + stride]
            beside[row] |= low == BLOCK or high == BLOCK
            bump[row] |= (low == BLOCK and high == 0) or (high == BLOCK and low == 0)
    return bump, beside


def largest_component(fluid: NDArray[np.bool_], frame: Frame) -> NDArray[np.bool_]:
    """The largest part, [z, y, x], that the 18 links join; of several the first.

    Raises
    ------
    StageError
        If there is no fluid.
    """
    label, count = ndimage.label(frame.pad(fluid), ndimage.generate_binary_structure(3, 2))
    if not count:
        raise StageError("the surface encloses no node; set a smaller voxelize.spacing_mm")
    if count == 1:
        return fluid
    core = np.ascontiguousarray(frame.core(label))
    part = np.arange(count + 1)
    if any(frame.periodic):
        pairs = np.unique(np.stack((frame.pad(core).ravel(), label.ravel())), axis=1)
        part = connected_components(coo_array((np.ones(pairs.shape[1]), pairs), (count + 1, count + 1)))[1]
        part[part == part[0]], part[0] = part.max() + 1, 0
    sizes = np.bincount(part, np.bincount(core.ravel(), minlength=count + 1))
    sizes[part[0]] = 0
    return part[core] == sizes.argmax()
