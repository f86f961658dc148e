# SPDX-License-Identifier: Apache-2.0
"""The live line of a terminal: a bar, the rate and the time left, never wider than it; and none of it elsewhere."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.command.events import CLEAR
from pipeline.command.live import NARROWEST, SIGNS, WIDEST, Running, live_line
from solver.runtime.progress import in_time_units
from solver.runtime.sources import ROOT
from tests.support.variants import some

COUNTED = "254 of 1016 moments (25 %), 46 moments/s, 2 min 24 s left, 9355 particles on their way"
TIMED = "step 2400, 0.1119 s, residual 0.097 (wanted 0.001), max speed 0.327 m/s, 17 MLUPS, about 19 s left"
DONE, LEFT = SIGNS[True]


def bar(line: str) -> tuple[int, int]:
    return line.count(DONE), line.count(LEFT)


def test_a_stage_that_counts_has_its_count_as_a_bar_with_rate_and_time_left():
    line = live_line([Running("p1 trace", 40.0, COUNTED)], "3/17", 100, ascii_only=False)
    assert line == f"3/17 p1 trace {DONE * 8}{LEFT * 22} 25 %  46 moments/s  2 min 24 s left"
    assert sum(bar(line)) == WIDEST


def test_solve_has_its_time_as_a_bar_and_no_speed_of_blood_as_its_rate():
    line = live_line([Running("p1 solve", 19.0, TIMED)], "", 100, ascii_only=False)
    assert line == f"p1 solve {DONE * 15}{LEFT * 15} 50 %  17 MLUPS  19 s left"


def test_a_stage_that_says_nothing_has_its_time_alone():
    assert live_line([Running("p1 load", 5.0, "")], "", 80, ascii_only=False) == "p1 load 5 s"
    for said in ("100 files, skipped: none", "9 of 9 slices (100 %), 3 slices/s, 0 s left", "step 4, about 0 s left"):
        assert live_line([Running("p1 load", 5.0, said)], "", 80, ascii_only=False) == f"p1 load 5 s: {said}"


def test_several_stages_have_figures_without_a_bar():
    stages = [Running("p1 solve", 19.0, TIMED), Running("p2 trace", 4.0, COUNTED), Running("p3 load", 2.0, "")]
    line = live_line(stages, "5/40", 100, ascii_only=False)
    assert line == "5/40 p1 solve 50 %, 19 s left; p2 trace 25 %, 2 min 24 s left; p3 load 2 s"


def test_a_terminal_without_signs_gets_letters():
    line = live_line([Running("p1 trace", 40.0, COUNTED)], "", 100, ascii_only=True)
    assert "########......" in line
    assert line.isascii()


@given(st.integers(0, 10**6), st.integers(0, 100), st.integers(1, 200), st.text(max_size=40))
def test_the_line_fits_and_its_bar_has_the_part_that_is_done(left_s, percent, width, name):
    said = f"7 of 9 slices ({percent} %), 3e+02 slices/s, {in_time_units(left_s)} left"
    line = live_line([Running(f"x{name.replace(DONE, '').replace(LEFT, '')}", 1.0, said)], "1/2", width, False)
    assert len(line) <= width
    done, rest = bar(line)
    if len(line) < width or done + rest == 0:  # else it may be cut
        assert done + rest == 0 or NARROWEST <= done + rest <= WIDEST
        assert abs(done - percent / 100 * (done + rest)) <= 0.5


FLOW = r"""
rule trace:
    output:
        "results/p1/out.txt",
    log:
        "results/p1/logs/trace.log",
    shell:
        "echo '12:00:00 trace: 254 of 1016 moments (25 %), 46 moments/s, 17 s left' > {log}; sleep 4; touch {output}"
"""
RUN = """
import sys
from pathlib import Path
from pipeline.command import launch
from pipeline.command.__main__ import main
launch.ROOT = Path.cwd()
sys.exit(main(["run", "--cores", "1", "--", "results/p1/out.txt"]))
"""


def flow(folder: Path) -> Path:
    (folder / "config").mkdir(parents=True)
    (folder / "config/config.yaml").touch()
    (folder / "Snakefile").write_text(FLOW)
    return folder


def ran(folder: Path, out, **more) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "TERM": "xterm"} | more
    environment.pop("COLUMNS", None)
    return subprocess.Popen([sys.executable, "-c", RUN], cwd=folder, stdout=out, stderr=out, env=environment)


def in_terminal(folder: Path, columns: int, **more) -> str:
    """What a run writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = ran(folder, theirs, **more)
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert process.wait() == 0, written
    return written.decode()


def test_a_terminal_sees_the_bar_while_a_stage_runs_and_one_line_at_its_end(tmp_path):
    written = in_terminal(flow(tmp_path), 60)
    lives = [part for part in written.split(CLEAR) if DONE in part]
    assert lives
    for line in lives:
        assert len(line) <= 59
        done, rest = bar(line)
        assert done == round(0.25 * (done + rest))
        assert "25 %" in line
        assert "17 s left" in line
    kept = re.sub(r"[^\n]*\r\x1b\[K", "", written.replace("\r\n", "\n"))
    (line,) = [each for each in kept.splitlines() if each.strip()]
    assert re.fullmatch(r"all cases +trace +\d+ s", line)


@pytest.mark.parametrize("where", some(["terminal that clears no lines", "pipe"], "pipe"))
def test_elsewhere_there_are_plain_lines_alone(where, tmp_path):
    """In a pipe, as into a file, and in a terminal that clears no lines."""
    if where == "pipe":
        with ran(flow(tmp_path), subprocess.PIPE) as process:
            written = process.communicate()[0].decode()
    else:
        written = in_terminal(flow(tmp_path), 60, TERM="dumb")
    assert "\x1b" not in written
    assert DONE not in written
    assert re.fullmatch(r"all cases +trace +\d+ s\r?\n", written)
