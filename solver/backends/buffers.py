# SPDX-License-Identifier: Apache-2.0
"""Send and receive buffers: numbers of an array of one part that other parts need, and theirs that it needs, one
message for each.

Who runs a part packs what goes out, where it runs, and puts what came in where it belongs. In between, messages lie
here, as arrays by the number of the other part, but where devices write into each other's memory
(:mod:`solver.backends.cuda.peer_buffers`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Places = slice | NDArray[np.integer]
"""Places in an array: a range of them, or a list."""


class Buffers(ABC):
    """What passes between one part and others again and again.

    Attributes
    ----------
    sent, received : messages by the number of the other part; none of those that do not lie here.
    """

    sent: dict[int, NDArray[Any]]
    received: dict[int, NDArray[Any]]

    @property
    def sent_bytes(self) -> int:
        """Of all messages that go out."""
        return sum(message.nbytes for message in self.sent.values())

    @property
    def nbytes(self) -> int:
        """Memory of the messages."""
        return self.sent_bytes + sum(message.nbytes for message in self.received.values())

    @abstractmethod
    def pack(self) -> None:
        """Begin to fill `sent` with the array's present numbers, or to send these."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until that is done."""

    @abstractmethod
    def unpack(self) -> None:
        """Put `received` where it belongs, or what comes in, before all that the part is asked for next."""


class HostBuffers(Buffers):
    """Buffers of an array in the memory of the processor.

    Parameters
    ----------
    array : (K,) numbers.
    outgoing, incoming : places in it by the number of the other part.
    """

    def __init__(self, array: NDArray[Any], outgoing: Mapping[int, Places], incoming: Mapping[int, Places]) -> None:
        self._array, self._outgoing, self._incoming = array, outgoing, incoming
        self.sent = {peer: np.empty(count(places), array.dtype) for peer, places in outgoing.items()}
        self.received = {peer: np.empty(count(places), array.dtype) for peer, places in incoming.items()}
        self._shared = False

    def back(self) -> Self:
        """What passes the other way, when nothing passes this way: messages lie in the same memory."""
        way = type(self)(self._array, {}, {})
        way._outgoing, way._incoming, way._shared = self._incoming, self._outgoing, True
        way.sent, way.received = self.received, self.sent
        return way

    @property
    def nbytes(self) -> int:
        """Memory of the messages, but for those that lie in the memory of others."""
        return 0 if self._shared else super().nbytes

    def pack(self) -> None:
        """Fill `sent`."""
        for peer, places in self._outgoing.items():
            self.sent[peer][:] = self._array[places]

    def wait(self) -> None:
        """It is filled."""

    def unpack(self) -> None:
        """Put `received` where it belongs."""
        for peer, places in self._incoming.items():
            self._array[places] = self.received[peer]


def count(places: Places) -> int:
    """How many there are."""
    return int(places.stop - places.start) if isinstance(places, slice) else len(places)


def cut(whole: NDArray[Any], places: Mapping[int, Places]) -> dict[int, NDArray[Any]]:
    """Pieces of an array, one after another, with room for the numbers of each part."""
    ends = pairwise(np.cumsum([0, *map(count, places.values())]).tolist())
    return {peer: whole[first:last] for peer, (first, last) in zip(places, ends, strict=True)}


def together(places: Mapping[int, Places]) -> Places:
    """All places in their order: one range where each begins where the one before ends."""
    each = list(places.values())
    ranges = [one for one in each if isinstance(one, slice)]
    if len(ranges) == len(each) and all(one.stop == other.start for one, other in pairwise(ranges)):
        return slice(ranges[0].start, ranges[-1].stop) if ranges else slice(0, 0)
    return np.concatenate([np.arange(one.start, one.stop) if isinstance(one, slice) else one for one in each])
