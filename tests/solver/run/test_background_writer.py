# SPDX-License-Identifier: Apache-2.0
"""Snapshots that a thread writes while a device goes on: the same file, and no error is lost."""

from collections.abc import Callable
from pathlib import Path
from threading import Event, get_ident
from types import SimpleNamespace

import numpy as np
import pytest

from solver.backends.share import Share
from solver.run.background_writer import BackgroundFlowWriter, flow_writer
from solver.run.flow_file import FIELDS, FlowStatistics, FlowWriter
from solver.run.unwritten_flow import FlowOfRank
from solver.runtime.errors import StageError
from tests.support.geometries import pipe

NODES = pipe((0, 0, 1), 2.5, 5)


def fields(seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return rng.random((NODES.count, 3)), rng.random(NODES.count), rng.random((NODES.count, 6))


def write(writer: FlowWriter) -> None:
    """All that a run asks of it: snapshots of a cycle that begins again, a mean over two cycles, and what ends it."""
    writer.append_deferred(0.0, lambda: fields(0))
    writer.start_over()
    for k in (1, 2):
        writer.append_deferred(0.1 * k, lambda k=k: fields(k))
    writer.mix_deferred(1, lambda: fields(3), 0.5)
    before = zip(FIELDS, fields(7), strict=True)
    writer.restore({"time_s": 0.5, **{name: SimpleNamespace(blocks=lambda each=each: [each]) for name, each in before}})
    writer.append(0.6, *fields(4))
    statistics = FlowStatistics(*np.random.default_rng(5).random((4, NODES.count)))
    writer.average(*fields(6), statistics=statistics)


def test_file_is_that_of_one_thread(tmp_path):
    with FlowWriter(tmp_path / "alone", NODES) as writer:
        write(writer)
    with BackgroundFlowWriter(FlowWriter(tmp_path / "beside", NODES)) as writer:
        write(writer)
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "beside").read_bytes()


def test_run_goes_on_while_a_snapshot_is_written(tmp_path):
    """The fields are made in another thread, after the call has come back; what is asked for next waits for them."""
    go_on, made_by = Event(), list[int]()

    def make():
        assert go_on.wait(60)
        made_by.append(get_ident())
        return fields(0)

    with BackgroundFlowWriter(FlowWriter(tmp_path / "flow", NODES)) as writer:
        writer.append_deferred(0.0, make)
        assert not made_by
        go_on.set()
        writer.wait()
        assert made_by[0] != get_ident()
        np.testing.assert_array_equal(next(iter(writer.taken(0)["pressure_pa"].pieces()))[1], np.float32(fields(0)[1]))


def full():
    raise StageError("no room")


def one_more(writer: FlowWriter) -> None:
    writer.append_deferred(0.1, lambda: fields(1))


def leave(writer: FlowWriter) -> None:
    """Nothing more is asked: the file is closed."""


def fail(writer: FlowWriter) -> None:
    raise ValueError("of the run")


def full_then(path: Path, then: Callable[[FlowWriter], object]) -> None:
    """A snapshot for which there is no room, and what is asked next."""
    with BackgroundFlowWriter(FlowWriter(path, NODES)) as writer:
        writer.append_deferred(0.0, full)
        then(writer)


@pytest.mark.parametrize("then", [one_more, lambda writer: writer.taken(0), leave])
def test_error_of_a_snapshot_comes_with_what_is_asked_next(tmp_path, then):
    """And the file, which is none then, gets no checksum trailer."""
    with pytest.raises(StageError, match="no room"):
        full_then(tmp_path / "flow", then)
    with FlowWriter(tmp_path / "empty", NODES):
        pass
    assert (tmp_path / "flow").stat().st_size < (tmp_path / "empty").stat().st_size


def test_error_of_the_run_is_not_hidden_by_that_of_a_snapshot(tmp_path):
    with pytest.raises(ValueError, match="of the run"):
        full_then(tmp_path / "flow", fail)


def test_devices_alone_are_written_beside(tmp_path):
    """A processor would write and step on the same cores; ranks exchange what they write in their first threads."""
    device, host = (SimpleNamespace(on_host=here, share=Share()) for here in (False, True))
    for driver, kind in ((device, BackgroundFlowWriter), (host, FlowWriter)):
        with flow_writer(tmp_path / kind.__name__, NODES, False, driver) as writer:
            assert type(writer) is kind
    assert type(flow_writer(None, NODES, False, device)) is FlowOfRank
