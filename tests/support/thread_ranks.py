# SPDX-License-Identifier: Apache-2.0
"""Ranks that are threads of one process: they say what :class:`solver.domain.whole.Ranks` says."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

Found = TypeVar("Found")


class ThreadRank:
    """What a thread asks the others; one that asks nothing needs none.

    Parameters
    ----------
    rank, size : its number, and how many there are.
    given, barrier : what each gave last, and where they wait for each other.
    """

    def __init__(
        self, rank: int, size: int, given: list[Any] | None = None, barrier: threading.Barrier | None = None
    ) -> None:
        self.rank, self.size = rank, size
        self._given = [None] * size if given is None else given
        self._barrier = barrier or threading.Barrier(1)

    def _all(self, mine: Any) -> list[Any]:
        self._given[self.rank] = mine
        self._barrier.wait()
        found = list(self._given)
        self._barrier.wait()
        return found

    def swap(self, sent: Mapping[int, np.ndarray], received: Mapping[int, np.ndarray]) -> Callable[[], None]:
        found = self._all({peer: array.copy() for peer, array in sent.items()})
        assert received.keys() == {peer for peer, given in enumerate(found) if self.rank in given}
        for peer, array in received.items():
            assert array.shape == found[peer][self.rank].shape
            array[:] = found[peer][self.rank]
        return lambda: None

    def begin_sum(self, numbers: np.ndarray) -> Callable[[], np.ndarray]:
        found = np.sum(self._all(numbers.copy()), axis=0, dtype=np.int64)
        return lambda: found

    def largest(self, numbers: np.ndarray) -> np.ndarray:
        return np.max(self._all(numbers.copy()), axis=0)

    def join(self, numbers: np.ndarray) -> np.ndarray:
        return np.concatenate(self._all(numbers.copy()))

    def collect(self, numbers: np.ndarray) -> np.ndarray | None:
        found = np.concatenate(self._all(numbers.copy()))
        return found if self.rank == 0 else None

    def broadcast(self, arrays: Mapping[str, np.ndarray] | None) -> dict[str, np.ndarray] | None:
        found = self._all(arrays)[0]
        return None if found is None else {name: np.array(array) for name, array in found.items()}


def on_ranks(count: int, work: Callable[[ThreadRank], Found]) -> list[Found]:
    """What each of so many ranks finds; an error of one ends all.

    Parameters
    ----------
    count : of ranks.
    work : of each.
    """
    given: list[Any] = [None] * count
    barrier, errors = threading.Barrier(count), list[BaseException]()
    results: dict[int, Found] = {}

    def run(number: int) -> None:
        try:
            results[number] = work(ThreadRank(number, count, given, barrier))
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return [results[number] for number in range(count)]
