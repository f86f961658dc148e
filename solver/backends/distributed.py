# SPDX-License-Identifier: Apache-2.0
"""A lattice divided among ranks, one subdomain each: see :mod:`solver.backends.subdomains` for its steps.

A step sends one message to each neighbour. It waits for one sum over all ranks, of the mass that walls added, where
walls are treated, and of the flows that pressures at outlets follow from in the next step. On devices the last nodes
collide meanwhile; on the CPU none are left for then, since a sum takes little of a step there and rows that follow each
other collide several at a time. A second one, of the pressures that flows at inlets follow from, is under way while
nodes collide that are not at a border. Messages between devices go through the memory of the host, so that any MPI will
do, and ranks may share a device; where devices reach each other's memory, :mod:`solver.backends.cuda.peer_driver` does
without.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from solver.backends.buffers import Buffers, Places
from solver.backends.communicator import Communicator
from solver.backends.fields import Fields, Held
from solver.backends.lattice import Lattice
from solver.backends.lattice_driver import LatticeDriver
from solver.backends.part_rows import PartRows
from solver.backends.share import RankShare
from solver.backends.splitting import Subdomain, split
from solver.backends.subdomains import DividedDriver, Make
from solver.boundary.parabolic_walls import ParabolicWalls
from solver.boundary.walls import NEAR, WallLinks
from solver.domain.addresses import row_stride
from solver.domain.stencils import Stencils
from solver.domain.whole import Whole, places_among, row_numbers
from solver.kernels.sums import Limbs

TIMED, TOGETHER = 7, 8
"""Times that are taken, after a first one, and exchanges one after another in each."""


def places_of_walls(part: Subdomain, lattice: Lattice, whole: Whole) -> NDArray[np.int64]:
    """Places of a part's wall links among those of the whole domain, if it is cut out of a lattice of its surroundings.

    Links stand there by groups of nodes, in these by their slots (:func:`solver.boundary.walls.wall_links`).

    Parameters
    ----------
    part : the part of this rank.
    lattice : of its surroundings.
    whole : all nodes, among which these are; all ranks call this together.
    """
    back, node = np.divmod(lattice.walls.slot[part.wall_links].astype(np.int64), lattice.stride)
    group, within = np.divmod(whole.rows[node].astype(np.int64), NEAR)
    key = (group * lattice.q + back) * NEAR + within
    return places_among(whole.ranks, key)[0]


@dataclass(frozen=True)
class ExchangeSpeed:
    """How fast what a step sends goes from where nodes lie to where they lie on other ranks, nothing else being done.

    Attributes
    ----------
    bytes : that the rank with the most sends.
    seconds : until all ranks have all, median.
    latency_s : the same of one number to each neighbour.
    way : that they go, in words.
    """

    bytes: int
    seconds: float
    latency_s: float
    way: str

    @property
    def bytes_s(self) -> float:
        """Bytes a second that a rank sends, beside the latency."""
        return self.bytes / max(self.seconds - self.latency_s, 1e-9)

    def __str__(self) -> str:
        return (
            f"messages {self.way}, at most {1e-6 * self.bytes:.3g} MB a rank and step in {1e6 * self.seconds:.3g}"
            f" us: latency {1e6 * self.latency_s:.3g} us, {1e-9 * self.bytes_s:.3g} GB/s"
        )


@dataclass(frozen=True)
class OwnPart:
    """The part of a rank, cut out of the lattice of the whole domain or of its surroundings.

    Attributes
    ----------
    part : it.
    whole : numbers of the whole domain, without its nodes and links but those at openings.
    here : (lattice.count,) rows of the nodes of that lattice among all.
    wall_links : in the whole domain.
    moving : whether walls move anywhere.
    """

    part: Subdomain
    whole: Lattice
    here: NDArray[np.signedinteger]
    wall_links: int
    moving: bool

    @classmethod
    def of_lattice(
        cls,
        lattice: Lattice,
        subdomain: NDArray[np.integer],
        ranks: Communicator,
        whole: Whole | None = None,
        last: bool = False,
    ) -> Self:
        """Cut the part of a rank out; all ranks call this together.

        Parameters
        ----------
        lattice : of the whole domain, or of the surroundings of the own part.
        subdomain : (lattice.count,) the rank that each of its nodes belongs to.
        ranks : all of them.
        whole : all nodes, where the lattice is that of surroundings, whose addresses are overwritten.
        last : whether some nodes collide after walls, while ranks wait for the sum of the mass that these added.
        """
        (part,) = split(lattice, subdomain, {ranks.rank}, last, in_place=whole is not None)
        walls = part.lattice.walls
        links, near = ranks.begin_sum(np.array([len(walls.slot), len(walls.nodes)]))().tolist()
        moving = bool(ranks.largest(np.array([walls.moving], np.int64))[0])
        walls = replace(walls, mass_correction_nodes=near)
        part, count = replace(part, lattice=replace(part.lattice, walls=walls)), lattice.count
        if whole:
            places = places_of_walls(part, lattice, whole) if moving else part.wall_links
            part = replace(part, rows=whole.rows[part.rows], wall_links=row_numbers(places, max(links, 1)))
            count = whole.count
        here = whole.rows if whole else row_numbers(np.arange(count), count)
        return cls(part, _without_nodes(lattice, count), here, links, moving)


def _without_nodes(lattice: Lattice, count: int) -> Lattice:
    """What a driver of parts asks of the whole: no more than a node, or a link, of what there are as many as nodes."""
    walls, stencils = lattice.walls, lattice.stencils
    none = {name: array[:0].copy() for name, array in vars(walls).items() if isinstance(array, np.ndarray)}
    return replace(
        lattice,
        count=count,
        stride=row_stride(count),
        addresses=np.zeros(0, lattice.addresses.dtype),
        walls=WallLinks(**(vars(walls) | none)),
        rheology=None,
        stencils=Stencils(stencils.beside[:, :1].copy(), stencils.ends[:, :1].copy(), stencils.times[:, :1].copy()),
        parabolic=ParabolicWalls.none(),
        wide=lattice.wide[:0].copy(),
    )


class DistributedDriver(DividedDriver):
    """Runs the subdomain of this rank.

    Attributes
    ----------
    speed : of its messages, as measured once.

    Parameters
    ----------
    own : that subdomain.
    make : makes the driver of a part.
    ranks : all of them.
    way : that messages go, in words.
    """

    def __init__(self, own: OwnPart, make: Make, ranks: Communicator, way: str = "through the host") -> None:
        whole, self._ranks = own.whole, ranks
        super().__init__(whole, [own.part], make, own.wall_links, own.moving)
        (self._driver,), (self._part,) = self.drivers, self.subdomains
        self._own = PartRows(self._part.rows, self._part.lattice.ranges)
        self.share = RankShare(self._own, whole.count, ranks, own.here)
        if not self.on_host:
            ranks.beside_device()
        self.device = f"{self._driver.device}, {ranks.size} ranks"
        self.speed = self._timed(way)
        self.division = division = self._divided()
        self.layout = f"{division.words('rank')}; {self._driver.layout}; {self.speed}"

    def memory_bytes(self) -> int:
        """Memory that the run takes on all ranks, up to now."""
        return int(self._ranks.begin_sum(np.array([self._memory_bytes()]))()[0])

    def agreed(self, *numbers: int) -> tuple[int, ...]:
        """The largest of each number over all ranks."""
        return tuple(self._ranks.largest(np.array(numbers, np.int64)).tolist())

    def _exchange(self, buffers: Sequence[Buffers]) -> Callable[[], None]:
        """On the host messages leave at once, before other nodes collide; from a device only when it has been asked to
        collide them, since it is waited for.
        """
        (own,) = buffers
        own.pack()
        wait = self._swap(own) if self.on_host else None

        def arrive() -> None:
            (wait or self._swap(own))()
            own.unpack()

        return arrive

    def _swap(self, buffers: Buffers) -> Callable[[], None]:
        buffers.wait()
        return self._ranks.swap(buffers.sent, buffers.received)

    def _timed(self, way: str) -> ExchangeSpeed:
        """Time messages of even steps, which between pairs of steps leave nothing that is needed."""
        part, (full,) = self._part, self._buffers[True]
        halo: dict[int, Places] = {peer: slice(slots.start, slots.start + 1) for peer, slots in part.halo.items()}
        first: dict[int, Places] = {peer: slots[:1] for peer, slots in part.send_slots.items()}
        least = self._make_buffers(self._driver, "populations", first, halo)
        size = self._ranks.largest(np.array([full.sent_bytes]))
        seconds, latency_s = (self._seconds(buffers) for buffers in (full, least))
        return ExchangeSpeed(int(size[0]), seconds, latency_s, way)

    def _seconds(self, buffers: Buffers) -> float:
        """Median time until all ranks have all messages."""
        taken = []
        for _ in range(1 + TIMED):
            self._ranks.largest(np.zeros(1, np.int64))
            begin = time.perf_counter_ns()
            self._exchange_often(buffers)
            buffers.wait()
            taken.append(int(self._ranks.largest(np.array([time.perf_counter_ns() - begin]))[0]))
        return 1e-9 * float(np.median(taken[1:])) / TOGETHER

    def _exchange_often(self, buffers: Buffers) -> None:
        """Exchange messages `TOGETHER` times."""
        for _ in range(TOGETHER):
            self._exchange([buffers])()

    def _begin_sum(self, limbs: list[Limbs]) -> Callable[[], Limbs]:
        return self._ranks.begin_sum(np.sum(limbs, axis=0, dtype=np.int64))

    def _everywhere(self, numbers: NDArray[Any]) -> NDArray[Any]:
        return self._ranks.join(numbers.ravel()).reshape(-1, *numbers.shape[1:])

    def _of_part(self, fields: Fields, part: Subdomain) -> Fields:
        return Fields(*map(self._own.in_part, fields.arrays()))

    def _gather(self, read: Callable[[LatticeDriver], Held]) -> Held:
        held = read(self._driver)
        kind, left = type(held), held.arrays()[::-1]
        del held  # each array is let go once it is in order, or there would be twice the flow
        return kind(*(self._own.in_order(left.pop()) for _ in range(len(left))))

    def state(self) -> dict[str, Any]:
        """All that the next steps depend on, of which nodes and links are those of this rank."""
        return self._with_since(self._state.shared(self._part, self._driver.state(), self._ranks))
