# SPDX-License-Identifier: Apache-2.0
"""Launch: Snakemake, as a process of the command."""

import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from solver.runtime.sources import ROOT

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
    entries = [*given, *(f"{key}={_as_word(value)}" for key, value in config.items())]
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


def _as_word(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def launch(command: list[str], **more: Any) -> int:
    """Run it to its end; its exit status. A signal to stop, of the terminal or of others, reaches it alone."""
    process = subprocess.Popen(command, **more)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT,)}
    before[signal.SIGTERM] = signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number))
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
