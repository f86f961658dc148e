# SPDX-License-Identifier: Apache-2.0
"""What drives a scalar, by the name of a backend."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.scalar_driver import TransportDriver
from solver.backends.scalar_lattice import ScalarLattice
from solver.run.setup import choose_backend


def make_transport_driver(
    backend: str,
    lattice: ScalarLattice,
    real: Any,
    diffusivity: float,
    source: float = 0.0,
    wall_amount: NDArray[np.float64] | None = None,
) -> TransportDriver:
    """Driver of a backend, which fails as :func:`solver.run.setup.choose_backend` does.

    Parameters
    ----------
    backend : ``cpu``, ``cuda`` or ``auto``.
    lattice, real, diffusivity, source, wall_amount : of :class:`solver.backends.scalar_driver.TransportDriver`.
    """
    make: type[TransportDriver]
    if choose_backend(backend) == "cpu":
        from solver.backends.cpu.transport_driver import CpuTransport as make
    else:
        from solver.backends.cuda.transport_driver import CudaTransport as make
    return make(lattice, real, diffusivity, source, wall_amount)
