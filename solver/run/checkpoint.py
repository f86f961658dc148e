# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: the state of a run on disk, from which it goes on after a stop to the same bits as if there was none.

A checkpoint is a file of plain arrays with a checksum trailer, written beside the one before it and renamed when it is
whole. The two newest are kept; the newest that is valid, and belongs to the same run, is used. The snapshots that a
run has taken so far, which are larger than its state, stand beside them, each in a file of its own, written once.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from solver.backends.share import Index, index_of, pieces_of
from solver.domain.whole import row_blocks
from solver.runtime.checksum_trailer import require_checksum_trailer, write_checksum_trailer
from solver.runtime.errors import StageError, remedy_of
from solver.runtime.outputs import require_room

Arrays = Mapping[str, Any]
"""Arrays by name, or what has their shape and type and gives them in pieces: of ranks, of a file."""

KEPT = 2
"""Checkpoints that are kept: the newest, and the one before it in case that one is damaged."""
SUFFIX = ".h5"
IDENTITY, SNAPSHOTS = "identity", "snapshots"
"""Attribute with what the run is made of; array with the steps of snapshots."""


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Arrays whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class State:
    """What a run goes on from.

    Attributes
    ----------
    step : the last one that was done.
    arrays : by name.
    snapshots : those taken so far, by their step, in their order: arrays by name, each. What is as large as the flow is
        read only when it is used.
    """

    step: int
    arrays: Arrays
    snapshots: Mapping[int, Arrays]


@dataclass
class Checkpoints:
    """The checkpoints of one run.

    Attributes
    ----------
    folder : where they lie, and nothing else; made when the first is written.
    identity : of the run: a checkpoint of another one is not used.
    every_s : time between two.
    log : says what is used, and what is not.
    """

    folder: Path
    identity: str
    every_s: float
    log: logging.Logger
    _last: float = field(default_factory=time.monotonic)
    _needed: dict[Path, set[Path]] = field(default_factory=dict)
    """Files of the snapshots that a state needs, by its own; of states that this process wrote or read."""

    @property
    def due(self) -> bool:
        """Whether it is time for another."""
        return time.monotonic() - self._last >= self.every_s

    def write(self, step: int, arrays: Arrays, snapshots: Mapping[int, Callable[[], Arrays]]) -> None:
        """Keep a state.

        Parameters
        ----------
        step : the last one that was done.
        arrays : of the state.
        snapshots : what gives those taken so far, by their step; asked for what is not kept yet.

        Raises
        ------
        StageError
            If it cannot be written; those from before are as they were.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            kept = set().union(*self._needed.values())
            for taken, snapshot in snapshots.items():
                if self._snapshot(taken) not in kept:
                    _write(self._snapshot(taken), snapshot())
            path = self.folder / f"step-{step:012d}{SUFFIX}"
            _write(path, {**arrays, SNAPSHOTS: np.array([*snapshots], np.int64)}, self.identity)
            self._needed[path] = {*map(self._snapshot, snapshots)}
            self._prune()
        except OSError as error:
            remedy = remedy_of(error) or "let results/ lie where it can, and run the workflow again"
            raise StageError(
                f"--checkpoint {self.folder}: cannot be written ({os.strerror(error.errno) if error.errno else error});"
                f" {remedy}, which goes on from the last state that was kept"
            ) from None
        self._last = time.monotonic()

    def newest(
        self,
        like: Callable[[], Arrays],
        fits: Callable[[int, Arrays], bool] = lambda step, arrays: True,
        late: tuple[str, ...] = (),
    ) -> State | None:
        """The newest state that is valid and belongs to this run; none if there is none.

        Parameters
        ----------
        like : what gives arrays that it must hold, of these types and shapes.
        fits : whether the run comes by the state of a step with such arrays.
        late : how names of arrays begin that come as :class:`Stored`, to be read when they are used.
        """
        for path in reversed(self._files("step-")):
            step = int(path.stem.removeprefix("step-"))
            try:
                with _opened(path) as file:
                    if file.attrs[IDENTITY] != self.identity:
                        message = "checkpoint of step %d: of other settings, geometry or code; it is not used"
                        self.log.info(message, step)
                        continue
                    _require_alike(file, like())
                    found = _arrays(file, path, late)
                if not fits(step, found):
                    self.log.info("checkpoint of step %d: of a run with another end; it is not used", step)
                    continue
                snapshots = {int(taken): _snapshot(self._snapshot(int(taken))) for taken in found[SNAPSHOTS]}
            except (OSError, KeyError, ValueError) as error:
                self.log.warning("warning: checkpoint of step %d is damaged (%s); it is not used", step, error)
                continue
            self._needed[path] = {*map(self._snapshot, snapshots)}
            return State(step, found, snapshots)
        return None

    def peek(self, name: str) -> NDArray[np.generic] | None:
        """An array of the newest state that is valid and belongs to this run; none if there is none."""
        for path in reversed(self._files("step-")):
            try:
                with _opened(path) as file:
                    if file.attrs[IDENTITY] == self.identity:
                        found: NDArray[np.generic] = file[name][()]
                        return found
            except (OSError, KeyError, ValueError):
                continue  # which is logged when the state is taken
        return None

    def remove(self) -> None:
        """Remove all, once the run is over or where none of them is of use."""
        for path in (*self._files("step-"), *self._files("snapshot-"), *self._files(".")):
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _snapshot(self, step: int) -> Path:
        return self.folder / f"snapshot-{step:012d}{SUFFIX}"

    def _files(self, prefix: str) -> list[Path]:
        return sorted(self.folder.glob(f"{prefix}*{SUFFIX}"))

    def _prune(self) -> None:
        """Remove checkpoints but the newest ones, and snapshots that none of them needs."""
        files = self._files("step-")
        for path in files[:-KEPT]:
            path.unlink()
        self._needed = {path: self._needed.get(path, set()) for path in files[-KEPT:]}
        for path in {*self._files("snapshot-")}.difference(*self._needed.values()):
            path.unlink()


@dataclass(frozen=True)
class Stored:
    """An array of a file, which is read when and as far as it is used.

    Attributes
    ----------
    path, name : the file, and the array in it.
    shape, dtype : of it.
    """

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.read(())

    def read(self, index: Index) -> NDArray[Any]:
        """A piece of it."""
        with h5py.File(self.path, "r") as file:
            return np.asarray(file[self.name][index])

    def blocks(self) -> Iterator[NDArray[Any]]:
        """All of it, some rows after others."""
        for rows in row_blocks(self.shape[0]):
            yield self.read((rows,))

    def pick(self, places: NDArray[np.int64], split: tuple[int, ...], into: NDArray[Any] | None = None) -> NDArray[Any]:
        """Numbers at some places along the last axis of an array that is stored flat or in its shape, (..., K).

        Parameters
        ----------
        places : (K,) of them.
        split : shape of the array.
        into : where they are put, if that is there.
        """
        found = np.empty((*split[:-1], len(places)), self.dtype) if into is None else into
        order = np.argsort(places)
        ascending = places[order]
        for lead, first, last in pieces_of(split):
            block = self.read(index_of(self.shape, split, lead, first, last))
            own = slice(*np.searchsorted(ascending, (first, last)).tolist())
            found[lead][order[own]] = block[ascending[own] - first]
        return found


def _write(path: Path, arrays: Arrays, identity: str = "") -> None:
    """Write arrays, with a checksum trailer; the file appears whole, also after a loss of power, or not at all."""
    partial = path.with_name(f".{path.name}")
    require_room(path, sum(array.nbytes for array in arrays.values()))
    try:
        with h5py.File(partial, "w") as file:
            file.attrs[IDENTITY] = identity
            for name, array in arrays.items():
                _put(file, name, array)
        write_checksum_trailer(partial)
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    """A file that is what was written.

    Raises
    ------
    OSError, KeyError, ValueError
        If it is no such file, or damaged.
    """
    require_checksum_trailer(path)
    with h5py.File(path, "r") as file:
        yield file


def _put(file: h5py.File, name: str, array: Any) -> None:
    """Write an array, or piece after piece."""
    if isinstance(array, np.ndarray):
        file.create_dataset(name, data=array)
        return
    dataset = file.create_dataset(name, array.shape, array.dtype, fillvalue=array.fill)
    for index, piece in array.pieces():
        dataset[index] = piece


def _snapshot(path: Path) -> dict[str, Any]:
    """The arrays of a snapshot; errors are those of :func:`_opened`."""
    with _opened(path) as file:
        return _arrays(file, path, ("",))


def _arrays(file: h5py.File, path: Path, late: tuple[str, ...]) -> dict[str, Any]:
    """The arrays of a file, those in groups too; names that begin so, but for single numbers, are read later."""
    names: list[str] = []
    file.visit(names.append)
    sets = {name: file[name] for name in names if isinstance(file[name], h5py.Dataset)}
    return {
        name: Stored(path, name, found.shape, found.dtype) if name.startswith(late) and found.ndim else found[()]
        for name, found in sets.items()
    }


def _require_alike(file: h5py.File, like: Arrays) -> None:
    """Check types and shapes of what is wanted, before anything is read."""
    for name, array in like.items():
        found = file[name]
        if found.shape != array.shape or found.dtype != array.dtype:
            raise ValueError(f"{name} is {found.dtype} {found.shape}, {array.dtype} {array.shape} is wanted")
