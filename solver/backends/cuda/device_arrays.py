# SPDX-License-Identifier: Apache-2.0
"""Arrays of a device that a driver works on: how they are made, read, written, and gone over by kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.cuda.device import THREADS, Queue, blocks_of, cuda
from solver.backends.fields import Held
from solver.backends.lattice_driver import LatticeDriver


def here(array: Any) -> NDArray[Any]:
    """A copy of an array of the device, here; one of no numbers cannot be copied."""
    return np.asarray(array.copy_to_host() if array.size else np.empty(array.shape, array.dtype))


def store(array: Any, values: NDArray[Any]) -> None:
    """Put numbers into an array on the device."""
    if array.size:
        array.copy_to_device(np.ascontiguousarray(values))


def launch_over(queue: Queue, count: int, kernel: Any, *arguments: Any) -> None:
    """Launch a kernel with a thread for each of so many things, if there are any.

    Parameters
    ----------
    queue : the order in which the device works.
    count : of the things.
    kernel, arguments : what is launched, and with what.
    """
    if count:
        kernel[blocks_of(count, THREADS), THREADS, queue.stream](*arguments)


class DeviceLatticeDriver(LatticeDriver):
    """A lattice driver whose arrays lie on a device.

    Attributes
    ----------
    queue : the order in which the device works for it.
    """

    on_host = False
    queue: Queue

    def read(self, slots: slice) -> NDArray[Any]:
        """Populations in a range of slots."""
        return np.asarray(self.populations[slots].copy_to_host())

    def write(self, slots: slice, values: NDArray[Any]) -> None:
        """Replace populations in a range of slots."""
        self.populations[slots].copy_to_device(values)

    def empty(self, shape: tuple[int, ...]) -> Any:
        """An array of numbers on the device."""
        return cuda.device_array(shape, self.lattice.real)

    def here(self, array: Any) -> NDArray[Any]:
        """A copy of an array of the device, here."""
        return here(array)

    def store(self, array: Any, values: NDArray[Any]) -> None:
        """Put numbers into an array on the device."""
        store(array, values)

    def fetch(self, held: Held) -> Held:
        """Arrays of the device, here."""
        return type(held)(*(array.copy_to_host() for array in held.arrays()))

    def _over(self, count: int, kernel: Any, *arguments: Any) -> None:
        launch_over(self.queue, count, kernel, *arguments)
