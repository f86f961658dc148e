# SPDX-License-Identifier: Apache-2.0
"""Buffers of an array on the device: packed there, and brought here and back in one copy each way.

Copies go beside what the device is asked for meanwhile: what goes out leaves while the inner nodes collide, and so does
what comes in arrive. On the host, messages lie in memory that the device reads and writes by itself.
"""

from collections.abc import Mapping
from itertools import count as numbers
from typing import Any

from solver.backends.buffers import Buffers, Places, count, cut, together
from solver.backends.cuda.device import THREADS, Queue, blocks_of, cuda
from solver.backends.cuda.sampling import make_exchange
from solver.kernels.numba_internals import cuda_copies

_NUMBERS = numbers()
"""Of all buffers, by which what they launch is recorded."""


class DeviceBuffers(Buffers):
    """What passes between an array of the device and other parts.

    Parameters
    ----------
    array : (K,) numbers on the device.
    outgoing, incoming : places in it by the number of the other part; those of `incoming` are touched by nothing that
        the device is asked for between :meth:`ready` and :meth:`deliver`.
    queue : the order in which the device works.
    """

    def __init__(
        self, array: Any, outgoing: Mapping[int, Places], incoming: Mapping[int, Places], queue: Queue
    ) -> None:
        self._array, self._queue, self._beside = array, queue, cuda.stream()
        self._number = next(_NUMBERS)
        self._left, self._arrived, self._delivered = cuda.event(), cuda.event(), cuda.event()
        self._bring, self._send = cuda_copies()[::-1]
        self._read, self._write = make_exchange()
        self._out, self._in = (self._piece(together(places)) for places in (outgoing, incoming))
        self._sent, self._received = (
            cuda.pinned_array(max(1, sum(map(count, places.values()))), array.dtype) for places in (outgoing, incoming)
        )
        self.sent, self.received = cut(self._sent, outgoing), cut(self._received, incoming)

    def _piece(self, places: Places) -> tuple[Any, Any]:
        """Places on the device, none where they follow each other; and the piece that is copied, none of no place."""
        if not (size := count(places)):
            return None, None
        if isinstance(places, slice):
            return None, self._array[places]
        return cuda.to_device(places), cuda.device_array(size, self._array.dtype)

    def pack(self) -> None:
        """Begin to pack, and to bring here what goes out."""
        places, piece = self._out
        if places is not None:
            self._queue.replay(f"pack {self._number}", lambda: self._launch(self._read, places, piece))
        self._left.record(self._queue.stream)
        self._left.wait(self._beside)
        if piece is not None:
            self._bring(self._sent, piece, self._sent.nbytes, self._beside)
        self._arrived.record(self._beside)

    def wait(self) -> None:
        """Wait until it is here, and until what came in before has left."""
        self._arrived.synchronize()
        self._delivered.synchronize()

    def unpack(self) -> None:
        """Put what came in where it belongs."""
        places, piece = self._in
        if piece is not None:
            self._send(piece, self._received, self._received.nbytes, self._beside)
        self._delivered.record(self._beside)
        self._delivered.wait(self._queue.stream)
        if places is not None:
            self._queue.replay(f"unpack {self._number}", lambda: self._launch(self._write, places, piece))

    def _launch(self, kernel: Any, places: Any, piece: Any) -> None:
        kernel[blocks_of(piece.size, THREADS), THREADS, self._queue.stream](self._array, places, piece)
