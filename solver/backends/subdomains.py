"""Subdomains: a lattice split between several drivers, and the populations that they exchange.

A subdomain holds the nodes that it owns. Behind their slots stand *halo* slots, one for each link to a node of another
part, which is the least: every such link carries one population a step. They are ordered by owner, so that each
message is one piece of the array on one side and a list of the owner's slots on the other.

A slot that a link reaches across the border is touched by its owner in even steps and by the link's node in odd steps:

* even: collide; owners send what they left in such slots to the halos;
* odd: collide, which reads and writes the halos; halos send what was left there back to the owners.

Wall links come after the exchange, because interpolation reads what arrives from other parts; openings do not, because
they read and write what stays in a part. Nodes at the border are the first rows of a part: once they have collided
the exchange may begin, while the others follow.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.driver import (
    Fields,
    Held,
    LatticeDriver,
    Observation,
    ObservationAccumulator,
    Statistics,
    held_bytes,
)
from solver.backends.lattice import Lattice
from solver.boundary.openings import InletLinks, OutletLinks
from solver.boundary.walls import WallLinks
from solver.domain.addresses import ALIGNMENT, row_stride
from solver.domain.stencils import Stencils
from solver.kernels.isotropy import PAIRS
from solver.kernels.rheology import Rheology
from solver.kernels.sums import Limbs
from solver.kernels.velocity_sets import velocity_set

Slots = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Subdomain:
    """What one driver runs.

    Attributes
    ----------
    number : of the subdomain.
    lattice : of its own nodes.
    rows : (lattice.count,) rows of these nodes in the whole domain.
    halo : by the number of each other subdomain that links of this one reach, the halo slots that stand for slots
        there.
    send_slots : by the number of each other subdomain that reaches slots of this one, these slots, in the order of its
        halo.
    ghosts : by the number of each other subdomain, the rows behind the own ones that stand for its nodes.
    send_nodes : by the number of each other subdomain that has such rows for nodes of this one, these nodes.
    """

    number: int
    lattice: Lattice
    rows: NDArray[np.int64]
    halo: dict[int, slice]
    send_slots: dict[int, Slots]
    ghosts: dict[int, slice]
    send_nodes: dict[int, NDArray[np.int64]]


def split(whole: Lattice, subdomain: NDArray[np.integer]) -> list[Subdomain]:
    """Lattices of the subdomains of a domain.

    Parameters
    ----------
    whole : the lattice of the whole domain.
    subdomain : (N,) number of the subdomain of each node, 0, 1, ...
    """
    cuts = [_Cut(whole, subdomain, number) for number in range(int(subdomain.max()) + 1)]
    place = np.empty(whole.count, np.int64)
    for cut in cuts:
        place[cut.rows] = np.arange(len(cut.rows))
    return [
        Subdomain(
            number=cut.number,
            lattice=cut.lattice(place),
            rows=cut.rows,
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
    ]


class _Cut:
    """A subdomain while it is cut out of the whole.

    Attributes
    ----------
    number : of the subdomain.
    rows : its nodes, those at the border first, with others up to a multiple of the alignment.
    outside : slots of the whole domain that its links reach in other parts, by owner and then in their order.
    ranges : by the number of the owner, first and last of its slots in `outside`.
    own_slots : number of its own slots, after which the halo stands.
    ghosts, ghost_ranges : nodes of other parts whose squares and fluxes its own need, likewise.
    """

    def __init__(self, whole: Lattice, subdomain: NDArray[np.integer], number: int) -> None:
        self._whole, self._subdomain, self.number = whole, subdomain, number
        mine = np.flatnonzero(subdomain == number)
        at_border, reached = np.zeros(len(mine), np.bool_), []
        for addresses in whole.addresses.reshape(whole.q - 1, whole.stride):
            slots = addresses[mine]
            outward = self._owner(slots) != number
            at_border |= outward
            reached.append(slots[outward])
        outside = np.concatenate(reached)
        self.outside = outside[np.lexsort((outside, self._owner(outside)))]
        self._ascending = np.argsort(self.outside)
        self.ranges = _by_owner(self._owner(self.outside))
        stencils = whole.stencils
        beside = np.unique([rows[:, mine] if whole.isotropic else rows for rows in (stencils.beside, stencils.ends)])
        beside = beside[(beside >= 0) & (subdomain[beside] != number)]
        self.ghosts = beside[np.argsort(subdomain[beside], kind="stable")].astype(np.int64)
        self.ghost_ranges = _by_owner(subdomain[self.ghosts])
        wanted = -(-int(at_border.sum()) // ALIGNMENT) * ALIGNMENT
        at_border[np.flatnonzero(~at_border)[: max(0, wanted - int(at_border.sum()))]] = True
        self._border = int(at_border.sum())
        self.rows = np.concatenate((mine[at_border], mine[~at_border]))
        self._stride = row_stride(len(mine))
        self.own_slots = whole.q * self._stride

    def _owner(self, slots: Slots) -> NDArray[np.integer]:
        owner: NDArray[np.integer] = self._subdomain[slots % self._whole.stride]
        return owner

    def localise(self, slots: Slots, place: NDArray[np.int64]) -> Slots:
        """Slots of the part that stand for slots of the whole domain; `place`: row of each node in its part."""
        direction, node = np.divmod(slots.astype(np.int64), self._whole.stride)
        local = direction * self._stride + place[node]
        foreign = self._subdomain[node] != self.number
        found = np.searchsorted(self.outside, slots[foreign], sorter=self._ascending)
        local[foreign] = self.own_slots + self._ascending[found]
        return local.astype(np.uint32 if self.own_slots + len(self.outside) < 2**32 else np.uint64)

    def lattice(self, place: NDArray[np.int64]) -> Lattice:
        """The lattice of the subdomain."""
        whole, count = self._whole, len(self.rows)
        addresses = whole.addresses.reshape(whole.q - 1, whole.stride)
        back = velocity_set(whole.q).opposite[1:, None]
        own = back * self._stride + np.arange(self._stride)  # of padding nodes
        local = own.astype(self.localise(addresses[0, :1], place).dtype)
        for i in range(whole.q - 1):
            local[i, :count] = self.localise(addresses[i, self.rows], place)
        probes = self._subdomain[whole.probe_node] == self.number
        return replace(
            whole,
            count=count,
            stride=self._stride,
            addresses=local.ravel(),
            walls=self._walls(place),
            inlets=self._inlets(place),
            outlets=self._outlets(place),
            probe_node=place[whole.probe_node[probes]].astype(np.int32),
            probe_opening=whole.probe_opening[probes],
            rheology=self._rheology(),
            border=self._border,
            halo=len(self.outside),
            stencils=self._stencils(place),
            ghosts=len(self.ghosts),
        )

    def _stencils(self, place: NDArray[np.int64]) -> Stencils:
        stencils, local = self._whole.stencils, place.astype(np.int32)
        if not self._whole.isotropic:
            return stencils
        local[self.ghosts] = len(self.rows) + np.arange(len(self.ghosts))
        beside, ends = (np.where(rows < 0, np.int32(-1), local[rows]) for rows in (stencils.beside, stencils.ends))
        return Stencils(beside[:, self.rows], ends[:, self.rows], stencils.times[:, self.rows])

    def _rheology(self) -> Rheology | None:
        rheology = self._whole.rheology
        if rheology is None or rheology.blend is None:
            return rheology
        return replace(rheology, blend=rheology.blend[self.rows])

    def _walls(self, place: NDArray[np.int64]) -> WallLinks:
        walls, near = self._whole.walls, self._whole.walls.nodes
        mine = self._owner(walls.slot) == self.number
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
        mine = self._owner(inlets.slot) == self.number
        return InletLinks(
            slot=self.localise(inlets.slot[mine], place),
            opening=inlets.opening[mine],
            column=inlets.column[mine],
            rows=inlets.rows[mine],
            weight=np.ascontiguousarray(inlets.weight[:, mine]),
        )

    def _outlets(self, place: NDArray[np.int64]) -> OutletLinks:
        outlets = self._whole.outlets
        mine, links = self._subdomain[outlets.node] == self.number, self._owner(outlets.slot) == self.number
        return OutletLinks(
            node=place[outlets.node[mine]].astype(np.int32),
            first=np.append(0, np.cumsum(np.diff(outlets.first)[mine])).astype(np.int32),
            slot=self.localise(outlets.slot[links], place),
            opening=outlets.opening[links],
            column=outlets.column[links],
            normal=outlets.normal[links],
            velocity=outlets.velocity[links],
            weight=outlets.weight[links],
        )


def _by_owner(owner: NDArray[np.integer]) -> dict[int, NDArray[np.int64]]:
    """First and last place of each owner in an ascending list of them."""
    owners, first = np.unique(owner, return_index=True)
    ends = np.append(first, len(owner))
    return {int(each): ends[k : k + 2] for k, each in enumerate(owners)}


class SubdomainsDriver:
    """Runs the subdomains one after another in one process; see :class:`solver.backends.driver.Driver`.

    What passes between subdomains goes through three methods, `_exchange`, `_fill_ghosts` and `_add_up`: messages
    between neighbours and a sum over all parts, which is all that a distributed run has to replace.

    Attributes
    ----------
    device, layout, on_host : what it runs on, and how.
    subdomains, drivers : the parts and who runs each.
    """

    def __init__(
        self, whole: Lattice, subdomain: NDArray[np.integer], make: Callable[[Lattice], LatticeDriver]
    ) -> None:
        self.subdomains = split(whole, subdomain)
        self.drivers = [make(subdomain.lattice) for subdomain in self.subdomains]
        self.device = f"{self.drivers[0].device}, {len(self.subdomains)} parts one after another"
        counts, cut = (
            [len(subdomain.rows) for subdomain in self.subdomains],
            sum(subdomain.lattice.halo for subdomain in self.subdomains),
        )
        self.layout = f"{min(counts)} to {max(counts)} nodes a part, {cut} links between them; {self.drivers[0].layout}"
        self.on_host = self.drivers[0].on_host
        self._count, self._real, self._probes = whole.count, whole.real, whole.probes()
        self._has_feedback, self._isotropic, self._since = len(whole.outlet_feedback.opening) > 0, whole.isotropic, 0
        self._send_slots = [
            {peer: driver.place(slots) for peer, slots in subdomain.send_slots.items()}
            for subdomain, driver in zip(self.subdomains, self.drivers, strict=True)
        ]

    def memory_bytes(self) -> int:
        """Memory that the run takes where it runs, up to now."""
        return sum(driver.memory_bytes() for driver in self.drivers) + held_bytes(self._send_slots)

    def advance(self, boundary_values: NDArray[np.float64]) -> None:
        """Run an even number of steps, one a row of `boundary_values`."""
        for driver in self.drivers:
            driver.begin(boundary_values)
        for step in range(len(boundary_values)):
            even = step % 2 == 0
            for driver in self.drivers:
                driver.collide(even, 0, driver.lattice.border)
            self._exchange(even)
            for driver in self.drivers:
                driver.collide(even, driver.lattice.border, driver.lattice.count)
            if self._has_feedback:
                flux = self._add_up([np.asarray(driver.outlet_flux()) for driver in self.drivers])
                for driver in self.drivers:
                    driver.apply_outlet_feedback(step, flux)
            for driver in self.drivers:
                driver.treat_openings(step, even)
            walled = [driver for driver in self.drivers if len(driver.lattice.walls.slot)]
            added = self._add_up([np.asarray(driver.treat_walls(step, even)) for driver in walled])
            for driver in walled:
                driver.correct_mass(added)
            if self._isotropic and not even:
                self._apply_force()

    def _apply_force(self) -> None:
        """Let the force of :mod:`solver.kernels.isotropy` act on a pair of steps, and find it again where that is
        due.
        """
        for driver in self.drivers:
            driver.add_momentum()
        self._since += 1
        if self._since == PAIRS:
            for driver in self.drivers:
                driver.write_squares()
            self._fill_ghosts("squares")
            for driver in self.drivers:
                driver.write_fluxes()
            self._fill_ghosts("fluxes")
            for driver in self.drivers:
                driver.write_momentum()
            self._since = 0

    def _fill_ghosts(self, name: str) -> None:
        """Numbers of nodes beside those of other parts, from owners to ghosts."""
        held = [driver.here(getattr(driver, name)) for driver in self.drivers]
        for driver, subdomain, mine in zip(self.drivers, self.subdomains, held, strict=True):
            for peer, ghosts in subdomain.ghosts.items():
                mine[:, ghosts] = held[peer][:, self.subdomains[peer].send_nodes[subdomain.number]]
            driver.store(getattr(driver, name), mine)

    def _exchange(self, even: bool) -> None:
        """From owners to halos after an even step's collision, back after an odd one's."""
        for driver, subdomain in zip(self.drivers, self.subdomains, strict=True):
            for peer, halo in subdomain.halo.items():
                owner, send_slots = self.drivers[peer], self._send_slots[peer][subdomain.number]
                if even:
                    driver.write(halo, owner.read(send_slots))
                else:
                    owner.write(send_slots, driver.read(halo))

    def _add_up(self, limbs: list[Limbs]) -> Limbs:
        """Limbs of a sum over all subdomains, from those of each."""
        return np.sum(limbs, axis=0, dtype=np.int64)

    def observe(self, keep: bool) -> None:
        """Begin to observe the flow."""
        for driver in self.drivers:
            driver.observe(keep)

    def observation(self) -> Observation:
        """The last observation."""
        accumulators = [driver.accumulator() for driver in self.drivers]
        for subdomain, accumulator in zip(self.subdomains, accumulators, strict=True):
            accumulator.extremes[:, 1::2] = subdomain.rows[accumulator.extremes[:, 1::2].astype(np.int64)]
        sums, extremes = (
            np.concatenate([getattr(accumulator, name) for accumulator in accumulators])
            for name in ("sums", "extremes")
        )
        return ObservationAccumulator(
            sums, extremes, self._add_up([accumulator.openings for accumulator in accumulators])
        ).observation(self._count, self._probes)

    def fields(self) -> Fields:
        """Fields of all nodes."""
        return self._gather(driver.fields() for driver in self.drivers)

    def average(self, number: int, restart: bool) -> None:
        """Take the present state into the running mean of that number, or begin it with it; `MEAN` has statistics."""
        for driver in self.drivers:
            driver.average(number, restart)

    def mean(self, number: int) -> Fields:
        """Mean of the fields that were taken into it."""
        return self._gather(driver.mean(number) for driver in self.drivers)

    def statistics(self) -> Statistics:
        """Statistics of the states that were taken into the mean over time."""
        return self._gather(driver.statistics() for driver in self.drivers)

    def _gather(self, each: Iterator[Held]) -> Held:
        """What is held of all nodes, from what is held of those of each part."""
        first = next(each)
        whole = type(first)(*map(self._room, first.arrays()))
        for subdomain, held in zip(self.subdomains, chain((first,), each), strict=True):
            for into, values in zip(whole.arrays(), held.arrays(), strict=True):
                into[..., subdomain.rows] = values
        return whole

    def _room(self, of_subdomain: NDArray[np.floating]) -> NDArray[np.floating]:
        """Empty arrays for all nodes, shaped like these of a subdomain."""
        return np.empty((*of_subdomain.shape[:-1], self._count), self._real)

    def at_bounds(self) -> NDArray[np.int64]:
        """Number of nodes whose tau is at its lower and its upper bound."""
        return self._add_up([driver.at_bounds() for driver in self.drivers])

    def begin_with(self, fields: Fields, pressures: NDArray[np.float64]) -> None:
        """Begin with a flow instead of fluid at rest."""
        for subdomain, driver in zip(self.subdomains, self.drivers, strict=True):
            driver.begin_with(Fields(*(array[..., subdomain.rows] for array in fields.arrays())), pressures)

    def shift(self, before: Fields, after: Fields) -> None:
        """Change the flow by what two sets of fields differ in."""
        for subdomain, driver in zip(self.subdomains, self.drivers, strict=True):
            driver.shift(
                *(Fields(*(array[..., subdomain.rows] for array in each.arrays())) for each in (before, after))
            )

    def pressures(self) -> NDArray[np.float64]:
        """Filtered flow and stored pressure of each outlet with feedback, which all parts know."""
        return self.drivers[0].pressures()

    def state(self) -> dict[str, NDArray[Any]]:
        """The states of all parts."""
        states = {
            f"part-{k}/{name}": array for k, driver in enumerate(self.drivers) for name, array in driver.state().items()
        }
        return states | {"since": np.array(self._since)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a state of a driver of the same parts."""
        self._since = int(state["since"])
        for k, driver in enumerate(self.drivers):
            own = f"part-{k}/"
            driver.restore({name.removeprefix(own): array for name, array in state.items() if name.startswith(own)})
