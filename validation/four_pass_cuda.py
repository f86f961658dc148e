# SPDX-License-Identifier: Apache-2.0
"""The four passes of :mod:`validation.four_pass` on a CUDA device, a launch each."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.cuda.device import cuda, kernel, on_device
from solver.backends.lattice import Lattice
from solver.kernels.storage import FP16, NATIVE
from validation.four_pass import Ends, FourPasses, WallNodes, make_pass_functions


@cache
def make_passes(storage: str, real: Any, equilibrium: str, q: int) -> tuple[Any, Any, Any]:
    """Wall condition, streaming and macroscopic update.

    The parameters are those of :mod:`solver.kernels`.
    """
    extrapolate_link, swap_ends, update_node = map(on_device, make_pass_functions(storage, real, equilibrium, q))

    @kernel()
    def extrapolate(f: Any, stride: int, links: Any, coefficients: Any, drho: Any, u: Any) -> None:
        k = cuda.grid(1)
        if k < links[0].shape[0]:
            extrapolate_link(f, stride, k, links, coefficients, drho, u)

    @kernel()
    def swap(f: Any, one_end: Any, other_end: Any) -> None:
        k = cuda.grid(1)
        if k < one_end.shape[0]:
            swap_ends(f, k, one_end, other_end)

    @kernel()
    def update(f: Any, stride: int, force: Any, drho: Any, u: Any) -> None:
        n = cuda.grid(1)
        if n < drho.shape[0]:
            update_node(f, stride, n, force, drho, u)

    return extrapolate, swap, update


class CudaFourPass(FourPasses, CudaDriver):
    """Runs a lattice in four passes a step on a CUDA device; in all else as the CUDA driver.

    Parameters
    ----------
    lattice : what it runs.
    walls : wall nodes that carry populations, in place of the lattice's own wall scheme; none: the lattice's scheme.
    """

    def __init__(self, lattice: Lattice, walls: WallNodes | None = None) -> None:
        ends = Ends.of(lattice, walls)
        lattice = ends.lattice
        super().__init__(lattice)
        self.device += ", four passes"
        send = cuda.to_device
        self._links, self._coefficients, self._swapped = (
            tuple(map(send, arrays)) for arrays in (ends.links, ends.coefficients, ends.swapped)
        )
        self._extrapolate, self._swap, self._update = make_passes(
            FP16 if lattice.fp16 else NATIVE, lattice.real, lattice.equilibrium, lattice.q
        )
        self._drho = send(np.zeros(lattice.count, lattice.real))
        self._velocity = send(np.zeros((3, lattice.count), lattice.real))

    @property
    def velocity(self) -> NDArray[Any]:
        """Velocity of the fluid nodes, (3, N), as the last macroscopic update left it."""
        here: NDArray[Any] = self._velocity.copy_to_host(stream=self.queue.stream)
        return here

    def wall_condition(self) -> None:
        """Second pass: what the wall nodes send back."""
        if self._links:
            links, stride = len(self._links[0]), self.lattice.stride
            self._over(
                links,
                self._extrapolate,
                self.populations,
                stride,
                self._links,
                self._coefficients,
                self._drho,
                self._velocity,
            )

    def streaming(self) -> None:
        """Third pass: exchange what the ends of every link sent each other."""
        self._over(len(self._swapped[0]), self._swap, self.populations, *self._swapped)

    def macroscopic_update(self) -> None:
        """Fourth pass: density and velocity of the fluid nodes."""
        count, stride = self.lattice.count, self.lattice.stride
        self._over(count, self._update, self.populations, stride, self.lattice.force, self._drho, self._velocity)
