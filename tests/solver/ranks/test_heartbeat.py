# SPDX-License-Identifier: Apache-2.0
"""Beats are told from what ranks say, and who is silent is known by them alone."""

import json
import os
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.ranks import heartbeat
from solver.ranks.heartbeat import SILENT_S, STALL_S, Heartbeats, beating, text_of


@given(st.lists(st.text()), st.lists(st.integers(0, 7), min_size=1), st.randoms(use_true_random=False))
def test_what_is_said_stays_whole_wherever_beats_and_pieces_fall(words, beats, chance):
    """Beats arrive between any two bytes, and what is said in pieces of any length."""
    said = b"".join(json.dumps(word).encode() + b"\n" for word in words)
    places = sorted(chance.randint(0, len(said)) for _ in beats)
    ends = zip([0, *places], [*places, len(said)], strict=True)
    pieces = [said[first:last] for first, last in ends]
    stream = pieces[0] + b"".join(text_of(beat) + piece for beat, piece in zip(beats, pieces[1:], strict=True))
    heartbeats, lines, rest = Heartbeats(8), [], b""
    while stream:
        size = chance.randint(1, 20)
        *found, rest = heartbeats.take_out(rest + stream[:size], 0.0).split(b"\n")
        lines, stream = [*lines, *found], stream[size:]
    assert [json.loads(line) for line in lines] == words
    assert not rest
    heartbeats._heard = {rank: 0.0 if rank in beats else -np.inf for rank in range(8)}
    assert set(heartbeats.silent(0.0)) == set(range(8)) - set(beats)


def silent_after(heartbeats: Heartbeats, until_s: float, beats: list[int], begin_s: float = 0.0) -> list[int]:
    """Who is silent after a time in which some beat."""
    found: list[int] = []
    for now in np.arange(begin_s, until_s, 0.5):
        for rank in beats:
            heartbeats.take_out(text_of(rank), now)
        found = heartbeats.silent(now)
    return found


def test_one_that_beats_no_more_is_silent_and_one_that_ended_or_never_began_is_not():
    assert silent_after(Heartbeats(3), 100.0, []) == []  # all still start
    heartbeats = Heartbeats(3)
    assert silent_after(heartbeats, SILENT_S, [0, 2]) == []
    assert silent_after(heartbeats, SILENT_S + 2, [0, 2], SILENT_S) == [1]
    heartbeats = Heartbeats(2)
    heartbeats.take_out(text_of(0), 0.0)
    heartbeats.take_out(text_of(1, b"."), 0.0)
    assert silent_after(heartbeats, 100.0, [0]) == []


@pytest.mark.parametrize("stalled_s", [STALL_S + 0.1, 3600.0])
def test_nobody_is_silent_because_the_listener_was_stopped(stalled_s):
    heartbeats = Heartbeats(2)
    silent_after(heartbeats, 5.0, [0, 1])
    assert heartbeats.silent(4.5 + stalled_s) == []
    assert silent_after(heartbeats, stalled_s + 20, [0], stalled_s + 5) == [1]


def test_a_rank_beats_while_python_waits_and_says_when_it_was_the_last_time(monkeypatch):
    """Another thread that never gives the interpreter away for less than a second does not stop it."""
    monkeypatch.setattr(heartbeat, "TICK_S", 0.002)
    read, write = os.pipe()
    gone = threading.Event()
    with beating(3, write):
        while not os.read(read, 100):
            gone.wait(0.01)
        begin = time.monotonic()
        while time.monotonic() - begin < 0.2:
            pass
    os.close(write)
    said = os.read(read, 2**16)
    assert said.endswith(text_of(3, b"."))
    assert set(heartbeat.BEAT.findall(said)) == {(b"3", b""), (b"3", b".")}
    assert len(heartbeat.BEAT.findall(said)) > 3
    os.close(read)
