# SPDX-License-Identifier: Apache-2.0
"""Openings and wall links, in one launch: blocks of outlets' nodes, of links of inlets, of wall links.

An outlet needs all populations of its node as the collision left them, of which its links and wall links of the node
replace some. So a block takes some nodes at outlets, first finds the flow at them, then treats their links at outlets,
then their wall links. Nothing else that is read here is written here by another thread.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numba import float32, float64, int64
from numpy.typing import NDArray

from solver.backends.cuda.device import LINK_REGISTERS, SUM_THREADS, blocks_of, cuda, kernel, make_block_sum, on_device
from solver.backends.cuda.steps import make_addresses, make_mass_correction
from solver.backends.lattice import Lattice
from solver.boundary.opening_walls import taken_by_walls
from solver.boundary.openings import OutletLinks, make_outlet
from solver.boundary.parabolic_walls import make_wall_slip
from solver.boundary.walls import WallLinks, make_interpolation
from solver.kernels.storage import make_access
from solver.kernels.streaming import make_opposite
from solver.kernels.sums import LIMBS

OUTLET_NODES = 64
"""Nodes at outlets of a block, which has a few times as many links."""


@dataclass(frozen=True)
class Boundaries:
    """What the pass takes of a lattice, on the device.

    Attributes
    ----------
    outlets : nodes at outlets, where the links and the wall links of each begin, and the node of each link.
    outlet_links : of the links at outlets: slot, column, normal, velocity, weight, part, shear.
    inlets : of the links at inlets: slot, column, rows, weight, part.
    wall_slot : slots of the wall links, those of nodes at outlets first.
    source_slots : slots of their other populations after an even and after an odd step.
    coefficients : what goes with each of them, see :class:`solver.boundary.walls.WallLinks`.
    parabolic : what their walls' velocity follows from.
    ends : numbers of the blocks at which those of outlets, inlets and walls end.
    apart : whether outlets need a launch of their own: they must read what inlets of the same nodes are going to write.
    """

    outlets: tuple[Any, ...]
    outlet_links: tuple[Any, ...]
    inlets: tuple[Any, ...]
    wall_slot: Any
    source_slots: dict[bool, tuple[Any, ...]]
    coefficients: tuple[Any, ...]
    parabolic: tuple[Any, Any, Any]
    ends: tuple[int, int, int]
    apart: bool

    @classmethod
    def of(cls, lattice: Lattice) -> "Boundaries":
        """Those of a lattice."""
        walls, into, out, send = lattice.walls, lattice.inlets, lattice.outlets, cuda.to_device
        order, own = outlets_first(walls, out, lattice.stride)
        parabolic = lattice.parabolic.of_some(order) if walls.varies else lattice.parabolic
        node_of_link = np.repeat(np.arange(len(out.node), dtype=np.int32), np.diff(out.first))
        of_each = (
            blocks_of(len(out.node), OUTLET_NODES),
            blocks_of(len(into.slot), SUM_THREADS),
            blocks_of(len(walls.slot) - int(own[-1]), SUM_THREADS),
        )
        ends = np.cumsum(of_each).tolist()
        return cls(
            outlets=tuple(map(send, (out.node, out.first, own, node_of_link))),
            outlet_links=tuple(map(send, out.arrays)),
            inlets=tuple(map(send, (into.slot, into.column, into.rows, into.weight, into.part))),
            wall_slot=send(walls.slot[order]),
            source_slots={
                even: tuple(send(each[order]) for each in walls.source_slots(even)) for even in (True, False)
            },
            coefficients=tuple(send(each[order]) for each in walls.coefficients()),
            parabolic=(send(parabolic.rows), send(parabolic.weights), send(parabolic.share)),
            ends=(ends[0], ends[1], ends[2]),
            apart=len(np.intersect1d(out.node, into.slot % lattice.stride)) > 0,
        )

    def launches(self, first: int, last: int) -> list[tuple[int, int]]:
        """First block and number of blocks of the launches that treat a range of blocks."""
        between = [self.ends[0]] if self.apart and first < self.ends[0] < last else []
        limits = [first, *between, last]
        return [(begin, end - begin) for begin, end in pairwise(limits) if begin < end]


def outlets_first(walls: WallLinks, outlets: OutletLinks, stride: int) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Order of the wall links, (L,), those of nodes at outlets first, and where those of each node begin, (M + 1,).

    Parameters
    ----------
    walls : the wall links, L of them.
    outlets : with M nodes, in any order.
    stride : of the lattice.
    """
    count, node = len(outlets.node), walls.inside.astype(np.int64) % stride
    ascending = np.argsort(outlets.node)  # those of a part begin with its border
    found = np.searchsorted(outlets.node, node, sorter=ascending)
    place = np.append(ascending, count)[found]
    place[np.append(outlets.node, -1)[place] != node] = count
    order = np.argsort(place, kind="stable")
    return order, np.searchsorted(place[order], np.arange(count + 1)).astype(np.int32)


# long and many parameters because openings and walls are treated in one launch, which takes each array by itself
@cache
def make_boundary_pass(
    storage: str, real: Any, equilibrium: str, terms: tuple[bool, bool], q: int
) -> tuple[Any, Any, Any]:
    """Treat a range of openings and wall links, and add up the mass that walls add; take it off nodes next to walls;
    find what the walls' velocity adds.

    The parameters are those of :mod:`solver.kernels`.
    """
    flow_at, treat_link = map(on_device, make_outlet(storage, real, equilibrium, q))
    addresses_of, correct_node_mass, opposite = (
        make_addresses(q),
        make_mass_correction(storage, real),
        on_device(make_opposite(q)),
    )
    kind = float64 if real is np.float64 else float32
    access = make_access(storage, real, q)
    load_slot, store_slot, load, gather = map(
        on_device, (access.load_slot, access.store_slot, access.load, access.gather)
    )
    interpolate, add_block = on_device(make_interpolation(storage, real, *terms)), make_block_sum(LIMBS)
    slip_of, beside = on_device(make_wall_slip(real)), on_device(taken_by_walls)

    @kernel(LINK_REGISTERS[real])
    def treat(
        f: Any,
        ends: Any,
        begin: int,
        runs: Any,
        stride: int,
        even: bool,
        force: Any,
        boundary_values: Any,
        step_counter: Any,
        width: int,
        outlets: Any,
        outlet_links: Any,
        outlet_flux: Any,
        inlets: Any,
        inlet_flux: Any,
        slot: Any,
        source_slots: Any,
        coefficients: Any,
        added: Any,
    ) -> None:
        sums = cuda.shared.array((LIMBS, SUM_THREADS), int64)
        flows = cuda.shared.array((OUTLET_NODES, 4), kind)
        block, t = begin + cuda.blockIdx.x, cuda.threadIdx.x
        node, first, own, node_of_link = outlets
        inlet_slot, inlet_column, inlet_rows, inlet_weight, inlet_part = inlets
        outlet_part = outlet_links[5]
        nodes = node.shape[0]
        of_outlets, of_openings, _ = ends
        row = step_counter[0] * width
        motion = boundary_values[row + width - 1]
        x, y, z = np.int64(0), np.int64(0), np.int64(0)
        if block < of_outlets:
            begins = block * OUTLET_NODES
            beyond = min(begins + OUTLET_NODES, nodes)
            if t < beyond - begins:
                n = node[begins + t]
                g = opposite(load(f, n, stride)) if even else gather(f, addresses_of(runs, n), n)
                flows[t, 0], flows[t, 1], flows[t, 2], flows[t, 3] = flow_at(g, force)
            cuda.syncthreads()
            for k in range(first[begins] + t, first[beyond], SUM_THREADS):
                m = node_of_link[k] - begins
                flow = (flows[m, 0], flows[m, 1], flows[m, 2], flows[m, 3])
                treat_link(f, k, flow, outlet_links, boundary_values, row, outlet_flux)
                limbs = beside(outlet_flux[k], outlet_part[k])
                x, y, z = x + limbs[0], y + limbs[1], z + limbs[2]
            for k in range(own[begins] + t, own[beyond], SUM_THREADS):
                limbs = interpolate(f, k, slot, source_slots, coefficients, motion)
                x, y, z = x + limbs[0], y + limbs[1], z + limbs[2]
        elif block < of_openings:
            k = (block - of_outlets) * SUM_THREADS + t
            if k < inlet_slot.shape[0]:
                at = row + inlet_column[k]
                more = inlet_weight[0, k] * boundary_values[at]
                for r in range(1, inlet_rows[k]):
                    more += inlet_weight[r, k] * boundary_values[at + r]
                store_slot(f, inlet_slot[k], load_slot(f, inlet_slot[k]) + more)
                inlet_flux[k] = inlet_part[k] * more
                x, y, z = beside(inlet_flux[k], inlet_part[k])
        else:
            k = own[nodes] + (block - of_openings) * SUM_THREADS + t
            if k < slot.shape[0]:
                x, y, z = interpolate(f, k, slot, source_slots, coefficients, motion)
        sums[0, t], sums[1, t], sums[2, t] = x, y, z
        add_block(sums, t)
        if t < LIMBS:
            cuda.atomic.add(added, t, sums[t, 0])

    @kernel()
    def subtract(f: Any, nodes: Any, added: Any, mass_correction_nodes: int) -> None:
        k = cuda.grid(1)
        if k < nodes.shape[0]:
            correct_node_mass(f, nodes[k], added, mass_correction_nodes)

    @kernel()
    def write_slip(velocity: Any, rows: Any, weights: Any, share: Any, into: Any) -> None:
        k = cuda.grid(1)
        if k < into.shape[0]:
            into[k] = slip_of(velocity, rows, weights, share, k)

    return treat, subtract, write_slip
