# SPDX-License-Identifier: Apache-2.0
"""Time steps of a flow file that are written while a device goes on with the run.

A GPU does hundreds of steps in the time that a snapshot takes to be turned into SI units and written. So a thread of
its own does that, for one snapshot at a time; the run waits only for fields to come from the device, and for the
snapshot before where the disk is slower than the steps between two.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from solver.backends.driver import Driver
from solver.domain.nodes import Nodes
from solver.run.flow_file import FlowWriter, MakeFields, StoredRows
from solver.run.unwritten_flow import FlowOfRank, UnwrittenFlow


class BackgroundFlowWriter(UnwrittenFlow):
    """A flow file, of whose snapshots one may be on its way. All that is asked of the file next waits for that, and
    gets the error with which it ended.

    Parameters
    ----------
    writer : of the file.
    """

    def __init__(self, writer: FlowWriter) -> None:
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, "flow-file")
        self._written: Future[None] | None = None

    def wait(self) -> None:
        """Return when no snapshot is on its way.

        Raises
        ------
        StageError
            If it could not be written.
        """
        written, self._written = self._written, None
        if written:
            written.result()

    def append_deferred(self, time_s: float, make: MakeFields) -> None:
        """Begin to add the time step whose fields `make` gives."""
        self.wait()
        self._written = self._thread.submit(self._writer.append_deferred, time_s, make)

    def mix_deferred(self, step: int, make: MakeFields, part: float) -> None:
        """Begin to mix the state whose fields `make` gives into a time step, see :meth:`FlowWriter.mix`."""
        self.wait()
        self._written = self._thread.submit(self._writer.mix_deferred, step, make, part)

    def append(self, time_s: float, *fields: Any) -> None:
        """Add a time step."""
        self.wait()
        self._writer.append(time_s, *fields)

    def average(self, *fields: Any, statistics: Any = None) -> None:
        """Put means and statistics over time in place of those that there may be."""
        self.wait()
        self._writer.average(*fields, statistics=statistics)

    def taken(self, step: int) -> dict[str, NDArray[Any] | StoredRows]:
        """A time step that was added."""
        self.wait()
        return self._writer.taken(step)

    def restore(self, taken: Mapping[str, Any]) -> None:
        """Add a time step again that another writer had taken."""
        self.wait()
        self._writer.restore(taken)

    def start_over(self) -> None:
        """Take all time steps out again."""
        self.wait()
        self._writer.start_over()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        if error:
            self._writer.__exit__(kind, error, trace)
            return
        with self._writer:
            self.wait()


def flow_writer(path: Path | None, nodes: Nodes, varying: bool, driver: Driver) -> FlowWriter:
    """What writes the flow file of a run, or gives the first rank what it writes.

    Parameters
    ----------
    path : of the file; none on other ranks.
    nodes : the geometry.
    varying : whether the viscosity varies.
    driver : of the run. Ranks exchange what they write, which only their first threads may do.
    """
    if path is None:
        return FlowOfRank(nodes, driver.share)
    writer = FlowWriter(path, nodes, varying, driver.share)
    return BackgroundFlowWriter(writer) if not driver.on_host and nodes.ranks.size == 1 else writer
