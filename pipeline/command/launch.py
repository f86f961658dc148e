# SPDX-License-Identifier: Apache-2.0
"""Launch: Snakemake, as a process of the command."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.command.events import Events
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT

LOGGER = Path(__file__).parent / "logger"
"""Where Snakemake finds the plugin of its log."""
TICK_S = 1.0
"""How often the live line is drawn."""

CONFIG = ("--config", "-C")
NUMBER_OF_JOBS = ("--cores", "-c", "--jobs", "-j", "--profile", "--workflow-profile")
"""Options of Snakemake that say on how many cores it runs, the last two by a file."""


def snakemake(options: Iterable[str], config: Mapping[str, Any], targets: Iterable[str] = ()) -> list[str]:
    """Command line of Snakemake for the project's workflow, in the folder in which it is called.

    Parameters
    ----------
    options : of Snakemake; it takes all cores where they do not say how many.
    config : keys of the workflow's configuration that go before those of the options.
    targets : files to make; none: all of the cases.
    """
    own, given, files = _sorted_out(list(options))
    cores = [] if any(_is_one_of(option, NUMBER_OF_JOBS) for option in own) else ["--cores", "all"]
    entries = [*given, *(f"{key}={json.dumps(value)}" for key, value in config.items())]  # else 007 would be a number
    chosen = ["--config", *entries] if entries else []
    wanted = [*files, *targets]
    whole = [*cores, *own, *chosen, *(["--", *wanted] if wanted else [])]
    return [sys.executable, "-P", "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), *whole]


def _sorted_out(options: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Options but for the configuration, its entries, and what stands behind ``--``: Snakemake takes the last
    ``--config`` alone.
    """
    end = options.index("--") if "--" in options else len(options)
    others, entries, within = list[str](), list[str](), False
    for word in options[:end]:
        within = word in CONFIG or (within and not word.startswith("-"))
        if within:
            entries += [word] if word not in CONFIG else []
        elif word.startswith("--config="):
            entries.append(word.removeprefix("--config="))
        else:
            others.append(word)
    return others, entries, options[end + 1 :]


def _is_one_of(option: str, names: Iterable[str]) -> bool:
    return any(
        option == name or option.startswith(f"{name}=") or (len(name) == 2 and option[:2] == name) for name in names
    )


def launch(command: list[str], during: Callable[[], None] = lambda: None, **more: Any) -> int:
    """Run it to its end, with something to do meanwhile; its exit status. A signal to stop, of the terminal or of
    others, reaches it alone.

    Parameters
    ----------
    command : program and its words.
    during : what is done once it has begun.
    more : options of :class:`subprocess.Popen`.
    """
    process = subprocess.Popen(command, **more)
    before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    before[signal.SIGTERM] = signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number))
    try:
        during()
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def launch_quietly(command: list[str], events: Events, terminal: Path) -> int:
    """Run Snakemake and let what happens be said by `events`; its exit status.

    Parameters
    ----------
    command : of :func:`snakemake`.
    events : takes in what happens.
    terminal : file for what Snakemake and its stages would have printed.

    Raises
    ------
    StageError
        If the file cannot be written.
    """
    from pipeline.command.logger.snakemake_logger_plugin_hemolattice import PIPE  # only now: it imports of Snakemake

    path = os.pathsep.join(filter(None, (str(LOGGER), os.environ.get("PYTHONPATH"))))
    at = command.index("--snakefile")
    quiet = [*command[:at], "--logger", "hemolattice", *command[at:]]
    ours, theirs = os.pipe()
    try:
        terminal.parent.mkdir(parents=True, exist_ok=True)
        with terminal.open("w") as kept:
            environment = os.environ | {"PYTHONPATH": path, PIPE: str(theirs)}

            def follow() -> None:
                os.close(theirs)  # so that the other end is the last one
                _follow(ours, events)

            return launch(quiet, follow, stdout=kept, stderr=kept, env=environment, pass_fds=(theirs,))
    except OSError as error:
        raise StageError(
            f"{terminal.parent}: {error.strerror}; make room, or go to a folder that can be written to"
        ) from None
    finally:
        os.close(ours)


def _follow(pipe: int, events: Events) -> None:
    """Take in events until the other end is closed, and let time pass where there are none."""
    left = b""
    while True:
        if not select.select([pipe], [], [], TICK_S)[0]:
            events.tick()
        elif more := os.read(pipe, 65536):
            *lines, left = (left + more).split(b"\n")
            for line in lines:
                events.take(json.loads(line))
        else:
            events.finish()
            return
