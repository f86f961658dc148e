# SPDX-License-Identifier: Apache-2.0
"""What a run says: a line as a stage ends, and at last where the results are, or why it failed and what to do."""

import io
import json
import signal
import sys
from pathlib import Path

import pytest

from pipeline.case.case_file import read_cohort
from pipeline.case.stages import stages_of
from pipeline.command import launch, run
from pipeline.command.__main__ import main
from pipeline.command.events import CLEAR, LONG_S, Events, why
from pipeline.command.status import Stage, lines_of
from solver.runtime.errors import StageError

FLOW = """
rule all:
    input:
        "results/good/out.txt",
        "results/bad/out.txt",


rule filter:
    output:
        "results/good/out.txt",
    log:
        "results/good/logs/filter.log",
    shell:
        "echo noise >&2; echo 12:00:00 filter: fine > {log}; touch {output}"


rule solve:
    output:
        "results/{case}/out.txt",
    wildcard_constraints:
        case="bad",
    log:
        "results/{case}/logs/solve.log",
    shell:
        "echo '12:00:00 solve: error: too coarse; set voxelize.spacing_mm' | tee {log} >&2; echo more >> {log}; exit 1"


rule fails_once:
    output:
        "results/twice/out.txt",
    retries: 1
    shell:
        "test -e once && touch {output}; touch once; test -e {output}"
"""
"""A workflow of one rule that ends well, one that refuses, and one that needs a second try."""


class Clock:
    """Seconds, as a test sets them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def begin(job: int, rule: str, case: str = "tiny", level: str = "", log: str = "") -> dict[str, object]:
    return {"event": "begin", "job": job, "rule": rule, "case": case, "level": level, "log": log}


def test_a_stage_has_a_line_more_where_it_takes_long():
    case = read_cohort({"cases": ["tiny"]})["tiny"]
    rules = [*stages_of(case, makes_images=True), "crate"]
    assert {"phantom", "solve", "crate"} < {*rules}
    for seconds, more in ((1, 0), (2 * LONG_S, len(rules))):
        out, clock = io.StringIO(), Clock()
        events = Events(out, is_live=False, clock=clock)
        for job, rule in enumerate(rules):
            events.take(begin(job, rule))
            for _ in range(5):
                clock.now += seconds / 5
                events.tick()
            events.take({"event": "end", "job": job})
        lines = out.getvalue().splitlines()
        assert len(lines) == len(rules) + more
        assert lines[-1].split() == ["tiny", "crate", *(["1", "s"] if seconds == 1 else ["2", "min", "00", "s"])]
        assert events.cases == ["tiny"]
        assert not events.failed


def test_a_long_stage_says_once_how_far_it_is_and_a_terminal_all_the_time(tmp_path, monkeypatch):
    log = tmp_path / "solve.log"
    for is_live in (False, True):
        out, clock = io.StringIO(), Clock()
        events = Events(out, is_live, clock)
        log.unlink(missing_ok=True)
        events.take(begin(1, "solve", level="coarser-1/", log=str(log)))
        log.write_text("12:00:00 solve: step 100, about 20 s left\nno line of a log\n")
        for now in (1, 61, 62, 63):
            clock.now = now
            events.tick()
        shown = [line for line in out.getvalue().replace(CLEAR, "\n").splitlines() if line]
        assert shown[-1].split(maxsplit=3)[:3] == ["tiny", "solve", "(coarser-1)"]
        assert ("76 %" if is_live else "running for 1 min 01 s") in shown[-1]  # of 63 s and 20 s more
        assert len(shown) == (5 if is_live else 1)
        assert is_live or shown[-1].endswith("running for 1 min 01 s: step 100, about 20 s left")
        assert not is_live or max(map(len, shown)) < 80  # of a terminal that does not say how wide it is


def test_a_job_that_is_tried_again_has_not_failed():
    events = Events(io.StringIO(), is_live=False)
    for event in (begin(1, "solve"), {"event": "fail", "job": 1}):
        events.take(event)
    assert [job.name for job in events.failed] == ["solve"]
    for event in (begin(1, "solve"), {"event": "end", "job": 1}):
        events.take(event)
    assert events.failed == []


def test_members_have_no_line_unless_one_fails():
    out, clock = io.StringIO(), Clock()
    events = Events(out, is_live=False, clock=clock)
    for number in range(13):
        events.take(begin(number, "member", level=str(number)))
    clock.now += 2 * LONG_S
    events.tick()
    for number in range(13):
        events.take({"event": "fail" if number == 3 else "end", "job": number})
    events.take(begin(13, "member", level="5"))
    assert [line.split()[:3] for line in out.getvalue().splitlines()] == [["tiny", "member", "(3)"]]
    assert [job.name for job in events.failed] == ["member (3)"]


def test_what_a_scenario_takes_from_another_has_no_line_unless_that_fails():
    out = io.StringIO()
    events = Events(out, is_live=False)
    for number, (rule, end) in enumerate((("link_surface", "end"), ("link_voxelize", "fail"), ("solve", "end"))):
        events.take(begin(number, rule, "p1@rest"))
        events.take({"event": end, "job": number})
    assert [line.split()[:2] for line in out.getvalue().splitlines()] == [
        ["p1@rest", "link_voxelize"],
        ["p1@rest", "solve"],
    ]


def test_reasons_stand_once_before_the_next_step(tmp_path):
    (tmp_path / "a.log").write_text("1 a: error: first; do this\n2 a: error: second\n")
    (tmp_path / "b.log").write_text("no message\n")
    events = Events(io.StringIO(), is_live=False)
    for job, (rule, case, log) in enumerate((("segment", "p1@rest", "a.log"), ("load", "p2", "b.log"))):
        events.take(begin(job, rule, case, log=str(tmp_path / log)))
        events.take({"event": "fail", "job": job})
    assert why(events.failed, Path("printed.log")) == [
        "p1@rest: segment: first; do this",
        "p2: load: ended without a message; printed.log tells more",
        f"Next: do what it says, then hemolattice run p1 p2; what is done is kept (more in {tmp_path}/a.log"
        f" {tmp_path}/b.log)",
    ]


@pytest.fixture
def flow(tmp_path, monkeypatch) -> Path:
    """A folder in which the workflow is that of above."""
    (tmp_path / "Snakefile").write_text(FLOW)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").touch()
    monkeypatch.setattr(launch, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_snakemake_hands_on_what_happens_and_files_keep_what_it_prints(flow, capfd):
    targets = [f"results/{name}/out.txt" for name in ("good", "bad", "twice")]
    assert main(["run", "--cores", "1", "--keep-going", "--", *targets]) == 1
    printed, said = capfd.readouterr()
    assert sorted(line.split(maxsplit=2)[:2] for line in printed.splitlines()) == [
        ["all", "cases"],
        ["all", "cases"],
        ["all", "cases"],
        ["bad", "solve"],
    ]
    assert "failed after" in next(line for line in printed.splitlines() if line.startswith("bad"))
    assert said.splitlines() == [
        "bad: solve: too coarse; set voxelize.spacing_mm",
        "Next: do what it says, then hemolattice run bad; what is done is kept (more in results/bad/logs/solve.log)",
    ]
    kept = "".join(path.read_text() for path in Path(".snakemake/log").glob("*.log"))
    assert "noise" in kept  # of a stage that ended well
    assert "rule solve" in kept


@pytest.mark.parametrize(
    ("text", "status", "last"),
    [
        ("config/cases/a.yaml: solve: missing; give it", 1, "config/cases/a.yaml: solve: missing; give it"),
        ("usage: of all options\nprogram: error: unrecognized arguments: --foo", 2, "unrecognized arguments: --foo"),
        ("", 1, "stopped; the same command goes on"),
    ],
)
def test_what_ends_a_run_before_its_stages_is_its_last_line(text, status, last, flow, monkeypatch, capfd):
    program = f"import sys; print({text!r}, file=sys.stderr); sys.exit({status})"
    monkeypatch.setattr(run, "snakemake", lambda *_: [sys.executable, "-c", program, "--snakefile", "none"])
    assert main(["run"]) == status
    assert capfd.readouterr() == ("", f"{last}\n")


def test_a_folder_that_takes_no_files_is_refused(flow, monkeypatch):
    Path(".snakemake").write_text("a file")
    with pytest.raises(StageError, match=r"^\.snakemake/log: Not a directory; make room, or go to a folder"):
        run.run([], [])


def test_a_signal_to_stop_reaches_what_runs_and_its_status_is_handed_on():
    text = "import signal, time; signal.signal(15, lambda *_: exit(7)); print('up', flush=True); time.sleep(60)"
    read, write = launch.os.pipe()

    def stop() -> None:
        assert launch.os.read(read, 2) == b"up"
        signal.raise_signal(signal.SIGINT)  # of the terminal, which the other process gets by itself
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert launch.launch([sys.executable, "-c", text], stop, stdout=write) == 7
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_the_last_lines_say_where_report_and_fields_are_and_what_the_checks_say(tmp_path):
    folder = tmp_path / "mine"
    assert list(run.closing(folder)) == []
    folder.mkdir()
    for name in ("report.html", "flow.vtkhdf", "wall.vtp"):
        (folder / name).touch()
    checks = [
        {"name": "flow balance", "passed": True, "state": "good"},
        {"name": "nodes across", "passed": False, "state": "unusable"},
        {"name": "Mach number", "passed": False, "state": "reservation"},
        {"name": "viscosity", "passed": False},
    ]
    (folder / "indices.json").write_text(json.dumps({"checks": checks}))
    assert "\n".join(run.closing(folder)) == (
        f"mine: report {folder}/report.html\n  fields {folder}/flow.vtkhdf, {folder}/wall.vtp\n"
        "  checks 1 of 4 passed; not usable: nodes across; with reservations: Mach number, viscosity\n"
    )
    assert run.said_of_checks(checks[:1]) == "1 of 1 passed"


def test_a_long_run_says_once_what_coarser_lattices_take_and_so_does_its_status(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where there is no report
    log = tmp_path / "solve.log"
    taken = [
        "this lattice, 0.2 mm, takes 35 h 00 min",
        "voxelize: {spacing_mm: 0.32, nodes_across: null} takes 5 h 22 min",
    ]
    lines = "".join(f"12:00:00 solve: choice: {line}\n" for line in taken)
    log.write_text(f"{lines}12:00:05 solve: step 100, about 35 h left\n")
    for is_live in (False, True):
        out, clock = io.StringIO(), Clock()
        events = Events(out, is_live, clock)
        log.unlink()
        events.take(begin(1, "solve", log=str(log)))
        for now in (1, 61, 62, 200):
            clock.now = now
            if now == 62:  # a large lattice is planned for more than a minute
                log.write_text(f"{lines}12:00:05 solve: step 100, about 35 h left\n")
            events.tick()
        shown = out.getvalue()
        assert [shown.count(line) for line in taken] == [1, 1]
    shown = list(lines_of("tiny", [Stage("solve", "running", "step 100", log)]))
    assert shown[2:4] == [f"    {line}" for line in taken]
    assert len(list(lines_of("tiny", [Stage("solve", "done", "", log)]))) == 1


def test_a_second_run_in_a_folder_says_that_there_is_another():
    """As Snakemake prints it; other lines are kept as they are."""
    printed = ["LockException:", "Error: Directory cannot be locked. Please make sure ...", "/there"]
    (line,) = run.before_any_stage(printed, 1)
    assert "hemolattice run CASE OTHER" in line
    assert "--unlock" in line
    assert run.before_any_stage(["", "Missing input files"], 1) == ["Missing input files"]
    assert run.before_any_stage(["snakemake: error: no such option"], 2) == ["no such option"]
