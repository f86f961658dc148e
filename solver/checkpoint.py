"""Checkpoints: the state of a run on disk, from which it goes on after a stop to the same bits as if there was none.

A checkpoint is a file of plain arrays under their checksum, written beside the one before it and renamed when it is
whole. The two newest are kept; the newest that is valid, and belongs to the same run, is used. The snapshots that a run
has taken so far, which are larger than its state, stand beside them, each in a file of its own, written once.
"""

import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from solver.stage import StageError, demand_room

Arrays = Mapping[str, NDArray[np.generic]]

FORMAT = 1
KEPT = 2
"""Checkpoints that are kept: the newest, and the one before it in case that one is damaged."""
SUFFIX = ".h5"
DIGEST, IDENTITY, SNAPSHOTS = "sha256", "identity", "snapshots"
"""Attributes with the checksum of all arrays and with what the run is made of; array with the steps of snapshots."""


@dataclass(frozen=True)
class State:
    """What a run goes on from.

    Attributes
    ----------
    step : the last one that was done.
    arrays : by name.
    snapshots : those taken so far, by their step, in their order: arrays by name, each.
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
    log : where it is told what is used, and what is not.
    """

    folder: Path
    identity: str
    every_s: float
    log: logging.Logger
    _last: float = field(default_factory=time.monotonic)

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
            for taken, snapshot in snapshots.items():
                if not self._snapshot(taken).is_file():
                    _write(self._snapshot(taken), snapshot())
            path = self.folder / f"step-{step:012d}{SUFFIX}"
            _write(path, {**arrays, SNAPSHOTS: np.array([*snapshots], np.int64)}, self.identity)
            self._prune()
        except OSError as error:
            raise StageError(
                f"--checkpoint {self.folder}: cannot be written ({os.strerror(error.errno) if error.errno else error});"
                " let results/ lie where it can, and run the workflow again"
            ) from None
        self._last = time.monotonic()

    def newest(self, like: Callable[[], Arrays]) -> State | None:
        """The newest state that is valid and belongs to this run; none if there is none.

        Parameters
        ----------
        like : what gives arrays that it must hold, of these types and shapes.
        """
        for path in reversed(self._files("step-")):
            step = int(path.stem.removeprefix("step-"))
            try:
                if _identity(path) != self.identity:
                    self.log.info("checkpoint of step %d: of other settings, geometry or code; it is not used", step)
                    continue
                found = _read(path, like())
                snapshots = {int(taken): _read(self._snapshot(int(taken))) for taken in found[SNAPSHOTS]}
            except (OSError, KeyError, ValueError) as error:
                self.log.warning("warning: checkpoint of step %d is damaged (%s); it is not used", step, error)
                continue
            return State(step, found, snapshots)
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
        needed = {self._snapshot(taken) for path in files[-KEPT:] for taken in _listed(path)}
        for path in {*self._files("snapshot-")} - needed:
            path.unlink()


def _write(path: Path, arrays: Arrays, identity: str = "") -> None:
    """Write arrays under their checksum; the file appears whole, also after a loss of power, or not at all."""
    partial = path.with_name(f".{path.name}")
    demand_room(path, sum(array.nbytes for array in arrays.values()))
    try:
        with h5py.File(partial, "w") as file:
            file.attrs["format"], file.attrs[DIGEST], file.attrs[IDENTITY] = FORMAT, _digest(arrays), identity
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _read(path: Path, like: Arrays | None = None) -> dict[str, NDArray[np.generic]]:
    """The arrays of a file.

    Raises
    ------
    OSError, KeyError, ValueError
        If it is no such file, holds others than are wanted, or is damaged.
    """
    arrays: dict[str, NDArray[np.generic]] = {}
    with h5py.File(path, "r") as file:
        if file.attrs["format"] != FORMAT:
            raise ValueError(f"format {file.attrs['format']}, {FORMAT} is wanted")
        if like is not None:
            _demand_alike(file, like)
        names: list[str] = []
        file.visit(names.append)
        for name in names:
            if isinstance(file[name], h5py.Dataset):
                if file[name].nbytes > path.stat().st_size:  # a damaged file may claim any size
                    raise ValueError(f"{name} is larger than the file")
                arrays[name] = file[name][()]
        if _digest(arrays) != file.attrs[DIGEST]:
            raise ValueError("its checksum does not hold")
    return arrays


def _demand_alike(file: h5py.File, like: Arrays) -> None:
    """Check types and shapes of what is wanted, before anything is read."""
    for name, array in like.items():
        found = file[name]
        if found.shape != array.shape or found.dtype != array.dtype:
            raise ValueError(f"{name} is {found.dtype} {found.shape}, {array.dtype} {array.shape} is wanted")


def _digest(arrays: Arrays) -> str:
    """SHA-256 of the arrays with their names, types and shapes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _identity(path: Path) -> str:
    """What the run of a checkpoint is made of."""
    with h5py.File(path, "r") as file:
        return str(file.attrs[IDENTITY])


def _listed(path: Path) -> list[int]:
    """Steps of the snapshots that a checkpoint needs; none of one that cannot be read."""
    try:
        with h5py.File(path, "r") as file:
            return [int(step) for step in file[SNAPSHOTS]]
    except (OSError, KeyError):
        return []
