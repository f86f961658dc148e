# SPDX-License-Identifier: Apache-2.0
"""A lattice divided among ranks whose devices write into each other's memory.

Messages and sums pass from device to device, and the host has no part in a step: many of them are one launch, as on one
device. Each step takes off what the walls of the one before added on all ranks; the inner nodes collide while those at
the border do, and while what these leave for others is under way; the last ones while what walls added is added up.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from solver.backends.buffers import Buffers, Places
from solver.backends.communicator import Communicator
from solver.backends.cuda.cuda_driver import STEP, CudaDriver, at_once
from solver.backends.cuda.peer_buffers import PeerBuffers, PeerSum
from solver.backends.distributed import DistributedDriver, OwnPart
from solver.backends.lattice_driver import LatticeDriver
from solver.backends.subdomains import Make
from solver.kernels.sums import LIMBS


class PeerDriver(DistributedDriver):
    """Runs the subdomain of this rank on a device; see :class:`solver.backends.distributed.DistributedDriver`, whose
    parameters it takes.
    """

    _driver: CudaDriver

    def __init__(self, own: OwnPart, make: Make, ranks: Communicator) -> None:
        super().__init__(own, make, ranks, "from device to device")
        queue = self._driver.queue
        self._mass = PeerSum(1, queue, ranks) if self._walled else None
        self._found = [(kind, PeerSum(kind.count, queue, ranks)) for kind in self._driver.feedback.kinds]

    def _make_buffers(
        self, driver: LatticeDriver, name: str, outgoing: Mapping[int, Places], incoming: Mapping[int, Places]
    ) -> Buffers:
        assert isinstance(driver, CudaDriver)
        array = getattr(driver, name)
        return PeerBuffers(array.reshape(array.size), outgoing, incoming, driver.queue, self._ranks)

    def _exchange(self, buffers: Sequence[Buffers]) -> Callable[[], None]:
        (own,) = buffers
        own.pack()
        return own.unpack

    def _exchange_often(self, buffers: Buffers) -> None:
        exchange = super()._exchange_often
        self._driver.queue.replay(f"exchange of {id(buffers)}", lambda: exchange(buffers))

    def _run_pairs(self, first: int, count: int) -> None:
        """Run so many pairs of steps, which the device counts."""
        for many in at_once(count):
            self._driver.queue.replay(f"{STEP}{many} pairs of ranks", partial(self._launch_pairs, many))

    def _launch_pairs(self, count: int) -> None:
        for number in range(2 * count):
            self._launch_step(number % 2 == 0, pending=number > 0 and self._mass is not None)
        if self._mass:
            self._driver.correct_mass(False)

    def _launch_step(self, even: bool, pending: bool) -> None:
        """A step, as :meth:`solver.backends.subdomains.DividedDriver._step` has it."""
        driver, last = self._driver, self._first_of_last(self._driver)
        arrived = driver.queue.beside(lambda: self._pass_on(even, pending))
        driver.collide(even, driver.lattice.border, last, pending)
        arrived()
        if self._has_feedback:
            driver.apply_feedback(0)
        driver.treat_links(even)
        if self._mass:
            added = driver.queue.beside(lambda: self._add_mass(even))
            driver.collide(even, last, driver.lattice.count)
            added()
        if not even:
            self._add_momentum()

    def _pass_on(self, even: bool, pending: bool) -> None:
        """What passes between ranks while the inner nodes collide; sums do while messages are under way."""
        driver, (buffers,) = self._driver, self._buffers[even]
        driver.collide(even, 0, driver.lattice.border, pending)
        buffers.pack()
        if self._has_feedback:
            self._add_feedback(even)
        buffers.unpack()

    def _add_feedback(self, even: bool) -> None:
        """Add up over all ranks what pressures at outlets and flows at inlets follow from."""
        self._driver.add_up_feedback(even)
        for kind, ranks in self._found:
            ranks.add_up(kind.found.arrays[0], kind.given.arrays[0])

    def _add_mass(self, even: bool) -> None:
        """Put what walls added on all ranks in place of what they added here."""
        assert self._mass is not None
        own = self._driver.added[even].reshape(1, 1, LIMBS)
        self._mass.add_up(own, own)

    def _renew_corrections(self) -> None:
        self._driver.queue.replay("renew corrections of ranks", super()._renew_corrections)
