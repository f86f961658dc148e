# SPDX-License-Identifier: Apache-2.0
"""Splitting a lattice: the lattices of its subdomains, and which populations they exchange.

A subdomain holds the nodes that it owns. Behind their slots stand *halo* slots, one for each link to a node of another
part, which is the least: every such link carries one population a step. They are ordered by owner, so that each
message is one piece of the array on one side and a list of the owner's slots on the other.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.buffers import Places
from solver.backends.lattice import Lattice
from solver.boundary.openings import InletLinks, OutletLinks
from solver.boundary.parabolic_walls import ParabolicWalls
from solver.boundary.walls import WallLinks
from solver.domain.addresses import ALIGNMENT, row_stride
from solver.domain.stencils import Stencils
from solver.domain.whole import row_blocks
from solver.kernels.rheology import Rheology
from solver.kernels.velocity_sets import velocity_set

Slots = NDArray[np.unsignedinteger]
LAST = 16
"""One node in so many, at most, collides after walls: of 20 million on a device, whose step takes 1 ms, for as long as
a sum over a thousand ranks does, 20 to 50 us. More would only break the runs of rows' addresses."""


@dataclass(frozen=True)
class Subdomain:
    """What one driver runs.

    Attributes
    ----------
    number : of the subdomain.
    lattice : of its own nodes.
    rows : (lattice.count,) rows of these nodes in the whole domain.
    wall_links, inlet_links, outlet_links : places of its links among those of the whole domain.
    halo : by the number of each other subdomain that links of this one reach, the halo slots that stand for slots
        there.
    send_slots : by the number of each other subdomain that reaches slots of this one, these slots, in the order of its
        halo.
    ghosts : by the number of each other subdomain, the rows behind the own ones that stand for its nodes.
    send_nodes : by the number of each other subdomain that has such rows for nodes of this one, these nodes.
    """

    number: int
    lattice: Lattice
    rows: NDArray[np.signedinteger]
    wall_links: NDArray[np.signedinteger]
    inlet_links: NDArray[np.int64]
    outlet_links: NDArray[np.int64]
    halo: dict[int, slice]
    send_slots: dict[int, Slots]
    ghosts: dict[int, slice]
    send_nodes: dict[int, NDArray[np.int64]]

    def ghost_places(self, rows: int) -> tuple[dict[int, Places], dict[int, Places]]:
        """Places in an array (3, rows) of nodes that others need, and of ghosts, by the number of the other part."""
        starts = rows * np.arange(3)[:, None]
        sent: dict[int, Places] = {peer: (starts + nodes).ravel() for peer, nodes in self.send_nodes.items()}
        ghosts = {peer: np.arange(own.start, own.stop) for peer, own in self.ghosts.items()}
        return sent, {peer: (starts + nodes).ravel() for peer, nodes in ghosts.items()}


def split(
    whole: Lattice,
    subdomain: NDArray[np.integer],
    wanted: Collection[int] | None = None,
    last: bool = False,
    in_place: bool = False,
) -> list[Subdomain]:
    """Lattices of the subdomains of a domain.

    Parameters
    ----------
    whole : the lattice of the whole domain.
    subdomain : (N,) number of the subdomain of each node, 0, 1, ...
    wanted : numbers of those that are laid out; all if not given.
    last : whether some nodes of each collide after walls, see :attr:`solver.backends.lattice.Lattice.last`.
    in_place : whether the addresses of the whole, which take a fifth of a rank's memory, are no more needed afterwards:
        those of the one that is wanted are put in their place.
    """
    treated = _treated(whole) if last else None
    cuts = [_Cut(whole, subdomain, number, treated) for number in np.unique(subdomain).tolist()]
    place = np.empty(whole.count, np.int64)
    for cut in cuts:
        place[cut.rows] = np.arange(len(cut.rows))
    return [
        Subdomain(
            number=cut.number,
            lattice=cut.lattice(place, in_place),
            rows=cut.rows,
            wall_links=np.flatnonzero(cut.links),
            inlet_links=np.flatnonzero(cut.owns(whole.inlets.slot)),
            outlet_links=np.flatnonzero(cut.owns(whole.outlets.slot)),
            halo={peer: slice(*(cut.own_slots + ends)) for peer, ends in cut.ranges.items()},
            send_slots={
                peer.number: cut.localise(peer.outside[slice(*peer.ranges[cut.number])], place)
                for peer in cuts
                if cut.number in peer.ranges
            },
            ghosts={peer: slice(*(len(cut.rows) + ends)) for peer, ends in cut.ghost_ranges.items()},
            send_nodes={
                peer.number: place[peer.ghosts[slice(*peer.ghost_ranges[cut.number])]]
                for peer in cuts
                if cut.number in peer.ghost_ranges
            },
        )
        for cut in cuts
        if wanted is None or cut.number in wanted
    ]


class _Cut:
    """A subdomain while it is cut out of the whole.

    Attributes
    ----------
    number : of the subdomain.
    rows : its nodes, those at the border and at inlets with feedback first, with others up to a multiple of the
        alignment; at last some that touch nothing that openings and walls do, from a multiple of it on.
    outside : slots of the whole domain that its links reach in other parts, by owner and then in their order.
    ranges : by the number of the owner, first and last of its slots in `outside`.
    own_slots : number of its own slots, after which the halo stands.
    ghosts, ghost_ranges : nodes of other parts whose velocity and fluxes its own need, likewise.
    links : which of the wall links of the whole domain are its own.
    """

    def __init__(
        self, whole: Lattice, subdomain: NDArray[np.integer], number: int, treated: NDArray[np.bool_] | None
    ) -> None:
        self._whole, self._subdomain, self.number = whole, subdomain, number
        mine = np.flatnonzero(subdomain == number)
        at_border, near, reached = np.zeros(len(mine), np.bool_), np.ones(len(mine), np.bool_), []
        if treated is not None:
            near = treated[mine]
        for addresses in whole.addresses.reshape(whole.q - 1, whole.stride):
            slots = addresses[mine]
            node = slots % whole.stride
            outward = subdomain[node] != number
            at_border |= outward
            if treated is not None:
                near |= treated[node]
            reached.append(slots[outward])
        at_border |= np.isin(mine, whole.nodes_of_inlet_feedback[0])
        outside = np.concatenate(reached)
        self.outside = outside[np.lexsort((outside, self._owner(outside)))]
        self._ascending = np.argsort(self.outside)
        self.ranges = _by_owner(self._owner(self.outside))
        self.links = self.owns(whole.walls.slot)
        beside = self._beside(mine)
        self.ghosts = beside[np.argsort(subdomain[beside], kind="stable")]
        self.ghost_ranges = _by_owner(subdomain[self.ghosts])
        wanted = -(-int(at_border.sum()) // ALIGNMENT) * ALIGNMENT
        at_border[np.flatnonzero(~at_border)[: max(0, wanted - int(at_border.sum()))]] = True
        last = _last(at_border | near)
        self._border, self._last = int(at_border.sum()), int(last.sum())
        self.rows = np.concatenate((mine[at_border], mine[~(at_border | last)], mine[last]))
        self._stride = row_stride(len(mine))
        self.own_slots = whole.q * self._stride

    def _beside(self, mine: NDArray[np.int64]) -> NDArray[np.int64]:
        """Nodes of other parts, ascending, whose velocity or fluxes those of the part need.

        They are marked, a row of the tables after another: sorted together these would take as much as addresses do.
        """
        whole, stencils = self._whole, self._whole.stencils
        needed = np.zeros(whole.count + 1, np.bool_)  # the one more is that of -1, no node
        if whole.isotropic:
            for row in (*stencils.beside, *stencils.ends):
                needed[row[mine]] = True
        if whole.walls.varies:
            for row in whole.parabolic.rows:
                needed[row[self.links]] = True
        return np.flatnonzero(needed[:-1] & (self._subdomain != self.number))

    def _owner(self, slots: Slots) -> NDArray[np.integer]:
        owner: NDArray[np.integer] = self._subdomain[slots % self._whole.stride]
        return owner

    def owns(self, slots: Slots) -> NDArray[np.bool_]:
        """Which slots of the whole domain are its own."""
        return self._owner(slots) == self.number

    def localise(self, slots: Slots, place: NDArray[np.int64]) -> Slots:
        """Slots of the part that stand for slots of the whole domain; `place`: row of each node in its part."""
        direction, node = np.divmod(slots.astype(np.int64), self._whole.stride)
        local = direction * self._stride + place[node]
        foreign = self._subdomain[node] != self.number
        found = np.searchsorted(self.outside, slots[foreign], sorter=self._ascending)
        local[foreign] = self.own_slots + self._ascending[found]
        return local.astype(self._kind)

    @property
    def _kind(self) -> Any:
        """Type of slots."""
        return np.uint32 if self.own_slots + len(self.outside) < 2**32 else np.uint64

    def _addresses(self, place: NDArray[np.int64], in_place: bool) -> Slots:
        """Addresses of its links, a direction after another; in place each ends before the next of the whole begins."""
        whole, count, size = self._whole, len(self.rows), (self._whole.q - 1) * self._stride
        back = velocity_set(whole.q).opposite[1:]
        fits = in_place and whole.addresses.dtype == self._kind
        local = whole.addresses[:size] if fits else np.empty(size, self._kind)
        for i, addresses in enumerate(whole.addresses.reshape(whole.q - 1, whole.stride)):
            own, begin = addresses[self.rows], i * self._stride
            for some in row_blocks(count):
                local[begin + some.start : begin + some.stop] = self.localise(own[some], place)
            padding = np.arange(count, self._stride)  # these nodes have their own
            local[begin + count : begin + self._stride] = back[i] * self._stride + padding
        return local

    def lattice(self, place: NDArray[np.int64], in_place: bool = False) -> Lattice:
        """The lattice of the subdomain."""
        whole, count = self._whole, len(self.rows)
        probes = self._subdomain[whole.probe_node] == self.number
        return replace(
            whole,
            count=count,
            stride=self._stride,
            addresses=self._addresses(place, in_place),
            walls=self._walls(place),
            inlets=self._inlets(place),
            outlets=self._outlets(place),
            probe_node=place[whole.probe_node[probes]].astype(np.int32),
            probe_opening=whole.probe_opening[probes],
            rheology=self._rheology(),
            border=self._border,
            last=self._last,
            halo=len(self.outside),
            stencils=self._stencils(place),
            parabolic=self._parabolic(place),
            ghosts=len(self.ghosts),
            wide=whole.wide[self.rows] if len(whole.wide) else whole.wide,
        )

    def _stencils(self, place: NDArray[np.int64]) -> Stencils:
        stencils, local = self._whole.stencils, self._with_ghosts(place)
        if not self._whole.isotropic:
            return stencils

        def own(table: NDArray[np.int32]) -> NDArray[np.int32]:
            found = np.empty((len(table), len(self.rows)), np.int32)
            for of_part, row in zip(found, table, strict=True):
                ends = row[self.rows]
                of_part[:] = np.where(ends < 0, np.int32(-1), local[ends])
            return found

        return Stencils(own(stencils.beside), own(stencils.ends), stencils.times[:, self.rows])

    def _parabolic(self, place: NDArray[np.int64]) -> ParabolicWalls:
        if not self._whole.walls.varies:
            return self._whole.parabolic
        mine = self._whole.parabolic.of_some(self.links)
        return replace(mine, rows=self._with_ghosts(place)[mine.rows])

    def _with_ghosts(self, place: NDArray[np.int64]) -> NDArray[np.int32]:
        """Row of each node in this part, where it may be a ghost."""
        local = place.astype(np.int32)
        local[self.ghosts] = len(self.rows) + np.arange(len(self.ghosts))
        return local

    def _rheology(self) -> Rheology | None:
        rheology = self._whole.rheology
        if rheology is None or rheology.blend is None:
            return rheology
        return replace(rheology, blend=rheology.blend[self.rows].astype(self._whole.real))

    def _walls(self, place: NDArray[np.int64]) -> WallLinks:
        walls, near = self._whole.walls, self._whole.walls.nodes
        mine = self.links
        return replace(
            walls,
            slot=self.localise(walls.slot[mine], place),
            inside=self.localise(walls.inside[mine], place),
            upstream=self.localise(walls.upstream[mine], place),
            a=walls.a[mine],
            b=walls.b[mine],
            c=walls.c[mine],
            s=walls.s[mine],
            nodes=place[near[self._subdomain[near] == self.number]].astype(np.int32),
        )

    def _inlets(self, place: NDArray[np.int64]) -> InletLinks:
        inlets = self._whole.inlets
        mine = self.owns(inlets.slot)
        return InletLinks(
            slot=self.localise(inlets.slot[mine], place),
            opening=inlets.opening[mine],
            column=inlets.column[mine],
            rows=inlets.rows[mine],
            weight=np.ascontiguousarray(inlets.weight[:, mine]),
            part=inlets.part[mine],
        )

    def _outlets(self, place: NDArray[np.int64]) -> OutletLinks:
        outlets = self._whole.outlets
        mine, links = self._subdomain[outlets.node] == self.number, self.owns(outlets.slot)
        return OutletLinks(
            node=place[outlets.node[mine]].astype(np.int32),
            first=np.append(0, np.cumsum(np.diff(outlets.first)[mine])).astype(np.int32),
            slot=self.localise(outlets.slot[links], place),
            opening=outlets.opening[links],
            column=outlets.column[links],
            normal=outlets.normal[links],
            velocity=outlets.velocity[links],
            weight=outlets.weight[links],
            part=outlets.part[links],
            shear=outlets.shear[links],
        )


def _treated(whole: Lattice) -> NDArray[np.bool_]:
    """Nodes, (stride,), at openings, and those whose own slots the passes over links read or write.

    In an odd step a node touches slots of its neighbours in their place: what it collides is apart from what those
    passes do if neither it nor a neighbour is among these.
    """
    treated, walls = np.zeros(whole.stride, np.bool_), whole.walls
    for slots in (walls.slot, walls.inside, walls.upstream, whole.inlets.slot, whole.outlets.slot):
        treated[slots % whole.stride] = True
    treated[walls.nodes] = treated[whole.outlets.node] = treated[whole.probe_node] = True
    return treated


def _last(taken: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which nodes of a part come last: of those that are not taken the longest rows, so that few runs of rows break."""
    count = len(taken)
    ends = np.flatnonzero(np.diff(np.concatenate(([True], taken, [True]))))
    first, length = ends[::2], np.diff(ends)[::2]
    longest = np.argsort(-length, kind="stable")
    reached = np.cumsum(length[longest])
    number = max(0, count - row_stride(count - min(count // LAST, reached[-1] if len(reached) else 0)))
    last = np.zeros(count, np.bool_)
    for k in longest[: np.searchsorted(reached, number) + 1]:
        last[first[k] : first[k] + length[k]] = True
    last[np.flatnonzero(last)[number:]] = False
    return last


def _by_owner(owner: NDArray[np.integer]) -> dict[int, NDArray[np.int64]]:
    """First and last place of each owner in an ascending list of them."""
    owners, first = np.unique(owner, return_index=True)
    ends = np.append(first, len(owner))
    return {int(each): ends[k : k + 2] for k, each in enumerate(owners)}
