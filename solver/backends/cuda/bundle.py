# SPDX-License-Identifier: Apache-2.0
"""Arrays of the device that are copied together."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.cuda.device import cuda
from solver.backends.fields import Held
from solver.kernels.numba_internals import cuda_copies

ALIGNMENT = 8
"""Bytes at multiples of which arrays begin that lie in one piece."""


class Bundle:
    """Arrays that lie in one piece on the device, so that one copy moves all of them.

    Copies wait for what was asked of the device before, and the host for neither until it asks for their numbers.

    Attributes
    ----------
    arrays : the arrays, on the device.
    """

    def __init__(self, stream: Any, *values: NDArray[Any]) -> None:
        self._stream, self._beside, self._templates = stream, cuda.stream(), values
        self._starts = np.cumsum([0, *(-(-array.nbytes // ALIGNMENT) * ALIGNMENT for array in values)])
        size = self._size = max(int(self._starts[-1]), ALIGNMENT)
        self._send, self._bring = cuda_copies()
        self._whole = cuda.device_array(size, np.uint8)
        self._staged = [(cuda.pinned_array(size, np.uint8), cuda.event()) for _ in range(2)]
        self._fetched, self._left, self._arrived = cuda.pinned_array(size, np.uint8), cuda.event(), cuda.event()
        self.arrays = self._cut(self._whole)
        self.replace(*values)

    def replace(self, *values: NDArray[Any]) -> None:
        """Put other numbers into the arrays, into the first of them where there are fewer."""
        self._staged.reverse()  # what was put in last may still be on its way
        staged, sent = self._staged[0]
        sent.synchronize()
        for here, array in zip(self._cut(staged), values, strict=True):
            here.flat[: array.size] = array.flat
        self._send(self._whole, staged, self._size, self._stream)
        sent.record(self._stream)

    def fetch(self) -> None:
        """Begin to bring the numbers here, beside what the device is asked for next, which must leave them alone."""
        self._left.record(self._stream)
        self._left.wait(self._beside)
        self._bring(self._fetched, self._whole, self._size, self._beside)
        self._arrived.record(self._beside)

    def here(self) -> list[NDArray[Any]]:
        """The numbers that were fetched last."""
        self._arrived.synchronize()
        return self._cut(self._fetched)

    def _cut(self, whole: Any) -> list[Any]:
        return [
            whole[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
            for first, array in zip(self._starts.tolist(), self._templates, strict=False)
        ]


class PinnedMemory:
    """Page-locked memory of the host, into which a device copies several times as fast as into newly allocated memory.

    Parameters
    ----------
    stream : of the device, in whose order it writes.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._here: list[Any] = []

    def fetch(self, held: Held) -> Held:
        """Arrays of the device, here, in the memory that those before had."""
        there = held.arrays()
        if [array.shape for array in self._here] != [array.shape for array in there]:
            self._here = [cuda.pinned_array(array.shape, array.dtype) for array in there]
        for array, here in zip(there, self._here, strict=True):
            array.copy_to_host(here, stream=self._stream)
        self._stream.synchronize()
        return type(held)(*self._here)
