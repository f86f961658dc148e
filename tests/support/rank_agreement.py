# SPDX-License-Identifier: Apache-2.0
"""Whether a lattice that is divided among ranks has the bits of the whole, for tests and benchmarks: without pytest."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.communicator import Communicator
from solver.backends.distributed import DistributedDriver, OwnPart
from solver.backends.driver import Driver
from solver.backends.fields import MEAN
from solver.backends.lattice import Lattice
from solver.backends.lattice_driver import LatticeDriver
from solver.backends.share import Shared
from tests.support.geometries import numbers, observe


class Counting(Communicator):
    """Counts what is said."""

    def __init__(self, ranks: Communicator) -> None:
        vars(self).update(vars(ranks))
        self.counted: Counter[str] = Counter()

    def swap(self, sent: Any, received: Any) -> Callable[[], None]:
        self.counted["messages"] += 1  # at most one to each neighbour
        return super().swap(sent, received)

    def begin_sum(self, values: NDArray[np.int64]) -> Callable[[], NDArray[np.int64]]:
        self.counted["sums"] += 1
        return super().begin_sum(values)


def read(driver: Driver, lattice: Lattice) -> dict[str, list[NDArray[Any]]]:
    """All that can be read of a driver, but for padding."""
    driver.ask_volume()
    state = whole(driver)
    state["populations"] = state["populations"].reshape(lattice.q, lattice.stride)[:, : lattice.count]
    state["omega"] = state["omega"][: lattice.count]
    return {
        "observation": [numbers(observe(driver, True))],
        "fields": driver.share.whole(driver.fields()).arrays(),
        "statistics": driver.share.whole(driver.statistics()).arrays(),
        "volume": [driver.volume()],
        "at bounds": [driver.at_bounds()],
        **{f"state, {name}": [state[name]] for name in sorted(state)},
    }


def whole(driver: Driver) -> dict[str, NDArray[Any]]:
    """The state of a driver, on all ranks."""
    return {name: each.whole() if isinstance(each, Shared) else each for name, each in driver.state().items()}


def random_parts(lattice: Lattice, ranks: Communicator) -> NDArray[np.int64]:
    """A rank for each node, at random: nearly all nodes are at a border."""
    return np.random.default_rng(1).integers(0, ranks.size, lattice.count)


def check(
    lattice: Lattice,
    boundary_values: NDArray[np.float64],
    part: NDArray[np.integer],
    ranks: Counting,
    make: Callable[[Lattice], LatticeDriver],
    divide: Callable[..., DistributedDriver] = DistributedDriver,
) -> dict[str, Any]:
    """What differs after some steps from the first rank alone, and from one process that goes on half-way; whether
    anything moved; and what was said in a step.

    Parameters
    ----------
    lattice, boundary_values : what is run, and its conditions, (steps, columns), a multiple of 4 of them.
    part : (N,) rank of each node.
    ranks : all of them, which call this together.
    make : makes the driver of a lattice.
    divide : makes that of a part.
    """
    divided = divide(OwnPart.of_lattice(lattice, part, ranks, last=True), make, ranks)
    noise = 1e-3 * np.random.default_rng(0).standard_normal(lattice.slots)
    state = whole(divided)
    kind = state["populations"].dtype
    state["populations"] = noise.astype(np.float16).view(kind) if lattice.fp16 else noise.astype(kind)
    alone = [make(lattice)] if ranks.rank == 0 else []
    first, second = np.split(boundary_values, 2)
    for driver in (*alone, divided):
        driver.restore(state)
        ranks.counted.clear()
        driver.advance(first)
    said = {name: count / len(first) for name, count in ranks.counted.items()}
    for driver in (*alone, divided):
        driver.average(MEAN, True)
    half_way = whole(divided)
    if alone:
        alone.append(make(lattice))
        alone[1].restore(half_way)
    for driver in (*alone, divided):
        observe(driver, True)
        driver.advance(second)
        driver.average(MEAN, False)
    found, *others = (read(driver, lattice) for driver in (divided, *alone))
    differ = [
        name
        for other in others
        for name in found.keys() | other.keys()
        if not all(map(np.array_equal, found.get(name, [None]), other.get(name, [None])))
    ]
    velocity = found["fields"][1]
    moved = bool(np.isfinite(velocity).all() and np.abs(velocity).max() > 1e-6)
    return {"differ": differ, "moved": moved, "said": said}
