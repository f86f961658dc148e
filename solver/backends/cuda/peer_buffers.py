# SPDX-License-Identifier: Apache-2.0
"""Buffers and sums of ranks whose devices write into each other's memory: nothing passes through the host."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.buffers import Buffers, Places, count, together
from solver.backends.communicator import Communicator
from solver.backends.cuda.device import THREADS, Queue, blocks_of, cuda
from solver.backends.cuda.peer_memory import Inbox, inboxes
from solver.backends.cuda.peer_pass import make_peer_pass
from solver.kernels.sums import LIMBS

WAITING = 32
"""Threads of a block that waits for other ranks."""


class _Mail:
    """What this rank sends to some others, and waits for from the same.

    Attributes
    ----------
    sender : arguments of a kernel that sends: number of messages, blocks that are done, rank, memory of the peers.
    number, peers, places, sent : arguments of those that wait and receive: number of messages, peers, own memory.
    """

    def __init__(self, boxes: list[Inbox], peers: list[int], rank: int) -> None:
        number, done = (cuda.to_device(np.zeros(1, np.int64)) for _ in range(2))
        theirs = [boxes[peer] for peer in peers]
        self._boxes = boxes  # which are held as long as kernels write into them
        self.sender = number, done, rank, tuple(box.places for box in theirs), tuple(box.sent for box in theirs)
        self.number, self.peers = number, cuda.to_device(np.array(peers, np.int64))
        self.places, self.sent = boxes[rank].places, boxes[rank].sent


class PeerBuffers(Buffers):
    """What passes between an array of the device and those of other ranks.

    Parameters
    ----------
    array : (K,) numbers on the device.
    outgoing, incoming : places in it by the number of the other rank.
    queue : the order in which the device works.
    ranks : all of them, which make such buffers together.
    """

    def __init__(
        self,
        array: Any,
        outgoing: Mapping[int, Places],
        incoming: Mapping[int, Places],
        queue: Queue,
        ranks: Communicator,
    ) -> None:
        self._array, self._queue = array, queue
        self.sent, self.received = {}, {}
        boxes = inboxes(ranks, incoming, array.dtype)
        peers = sorted({*outgoing, *incoming})
        self._sent_bytes = sum(map(count, outgoing.values())) * array.dtype.itemsize
        self._nbytes = int(boxes[ranks.rank].places.nbytes)
        self._mail = _Mail(boxes, peers, ranks.rank) if peers else None
        there = [boxes[peer].starts[ranks.rank] + np.arange(count(places)) for peer, places in outgoing.items()]
        peer = np.repeat([peers.index(peer) for peer in outgoing], [len(each) for each in there])
        self._out = tuple(map(cuda.to_device, (_listed(outgoing), peer.astype(np.uint8), _least(*there))))
        self._in = cuda.to_device(_listed(incoming))
        self._send, self._wait, self._receive, _ = make_peer_pass()

    @property
    def sent_bytes(self) -> int:
        """Of all messages that go out."""
        return self._sent_bytes

    @property
    def nbytes(self) -> int:
        """Memory that others write into, and of the places."""
        return self._nbytes + sum(int(array.nbytes) for array in (*self._out, self._in))

    def pack(self) -> None:
        """Send the array's present numbers."""
        if self._mail:
            launch = self._send[max(1, blocks_of(self._out[0].size, THREADS)), THREADS, self._queue.stream]
            launch(self._array, *self._out, *self._mail.sender)

    def wait(self) -> None:
        """Wait until all that the device was asked for is done."""
        self._queue.stream.synchronize()

    def unpack(self) -> None:
        """Wait for the numbers of the others, on the device, and put them where they belong."""
        if mail := self._mail:
            self._wait[1, WAITING, self._queue.stream](mail.number, mail.peers, mail.sent)
            if size := self._in.size:
                launch = self._receive[blocks_of(size, THREADS), THREADS, self._queue.stream]
                launch(self._array, self._in, mail.number, mail.places)


class PeerSum:
    """A sum over all ranks that is made on their devices.

    Parameters
    ----------
    size : numbers that are added up, in limbs.
    queue : the order in which the device works.
    ranks : all of them, which make such a sum together.
    """

    def __init__(self, size: int, queue: Queue, ranks: Communicator) -> None:
        self._queue, words = queue, size * LIMBS
        boxes = inboxes(ranks, {peer: slice(peer * words, (peer + 1) * words) for peer in range(ranks.size)}, np.int64)
        self._mail = _Mail(boxes, list(range(ranks.size)), ranks.rank)
        *_, self._add_up = make_peer_pass()

    def add_up(self, limbs: Any, into: Any) -> None:
        """Send the own limbs, (size, parts, LIMBS), of which parts are added up; wait for those of all others, on the
        device; and write the sums, (size, 1, LIMBS), which may be where the limbs are.
        """
        mail = self._mail
        launch = self._add_up[1, WAITING, self._queue.stream]
        launch(limbs, into, *mail.sender, mail.peers, mail.places, mail.sent)


def _listed(places: Mapping[int, Places]) -> NDArray[np.unsignedinteger]:
    """Places in an array, as a list."""
    all_of_them = together(places)
    if isinstance(all_of_them, slice):
        all_of_them = np.arange(all_of_them.start, all_of_them.stop)
    return _least(all_of_them)


def _least(*places: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """Places one after another, in 32 bits where they have room there."""
    listed = np.concatenate(places) if places else np.empty(0, np.int64)
    return listed.astype(np.uint32 if listed.max(initial=0) < 1 << 32 else np.uint64)
