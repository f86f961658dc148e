# SPDX-License-Identifier: Apache-2.0
"""What the command lines of all stages share: arguments, log, progress, outputs that appear whole or not at all,
and provenance.

It lives beside the solver because the solver must run where `pipeline` cannot be imported; `pipeline` uses it too.
"""

import argparse
import atexit
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from solver.runtime.errors import StageError, remedy_of
from solver.runtime.interruption import Stopped, heed_signals
from solver.runtime.log import keep_log, open_log
from solver.runtime.memory import seldom_collect
from solver.runtime.outputs import appearing_whole
from solver.runtime.provenance import Job, program_name, provenance_record, require_as_written

CHECKPOINT_MINUTES = 10.0
"""Between two states that a long stage keeps, unless it is told otherwise."""

CHECKPOINT_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "checkpoint": {"type": Path, "metavar": "PATH", "help": "folder for the state on the way (default: none)"},
    "checkpoint-minutes": {
        "type": float,
        "default": CHECKPOINT_MINUTES,
        "metavar": "N",
        "help": f"between two states (default: {CHECKPOINT_MINUTES:g})",
    },
}
"""Options of a stage that keeps its state on the way."""


# long and many parameters because a stage states here what its command line takes, most of it optional
def run_stage(
    stage: str,
    description: str | None,
    inputs: dict[str, str],
    outputs: dict[str, str],
    compute: Callable[[Job], None],
    several: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    more: Mapping[str, Mapping[str, Any]] | None = None,
    afterwards: Callable[[Job], None] | None = None,
) -> NoReturn:
    """Command line of a stage: parse, compute, then let all outputs appear together with their provenance.

    Parameters
    ----------
    stage : name of the stage.
    description : text for ``--help``, the module's docstring.
    inputs, outputs : role (the name of the option) and help text of each file.
    compute : does the work; raises :class:`StageError` for what the user must repair.
    several : roles of inputs that take one path or more.
    optional : roles of inputs that may be left out; the job then has none of that role, or an empty list.
    afterwards : called once the outputs are where they belong; nothing after it, since the process ends.
    more : options of the stage's own, which what it makes does not depend on, by name: the arguments of `argparse` for
        each.
    """
    arguments = _parse_arguments(description, inputs | outputs, several, optional, more or {})
    log = open_log(stage)
    picture = arguments["log"].with_suffix(".png") if arguments["log"] else None
    try:
        if picture:
            keep_log(log, arguments["log"])
            picture.unlink(missing_ok=True)  # of an earlier refusal
        settings = _parse_settings(arguments["settings"])
        targets = {role: arguments[role] for role in outputs}
        sources = {role: arguments[role] for role in inputs if role not in several and arguments[role]}
        lists = {role: arguments[role] or [] for role in several}
        _require_inputs([*sources.items(), *((many, path) for many, paths in lists.items() for path in paths)])
        heed_signals()
        with appearing_whole(targets | {"provenance": arguments["provenance"]}) as partial:
            job = Job(stage, sources, {role: partial[role] for role in outputs}, settings, log, lists=lists)
            job.more = {name: arguments[name] for name in more or {}}
            seldom_collect()
            started, clock = datetime.now(UTC), time.monotonic()
            compute(job)
            names = {role: path.name for role, path in targets.items()}
            record = provenance_record(job, names, started, time.monotonic() - clock)
            partial["provenance"].write_text(json.dumps(record, indent=2) + "\n")
        if afterwards:
            afterwards(job)
    except StageError as error:
        if picture and error.picture:
            picture.write_bytes(error.picture())
        log.error("error: %s%s", error, f"; see {picture}" if picture and error.picture else "")
    except Stopped as stop:
        log.error("error: %s", stop)
    except OSError as error:
        made = [path for role, path in arguments.items() if path and role in (*outputs, "provenance", "log")]
        log.error("error: %s", _error_message(error, arguments.values(), made) or f"{stage}: {error}")
    else:
        end_process(None)
    end_process("")


def end_process(refusal: str | None) -> NoReturn:
    """End the process once all is written, without taking Python down, which costs a stage up to a second: every object
    of VTK and SciPy is looked through. What is to be done at exit is done, and what lies in buffers is written.

    Parameters
    ----------
    refusal : a message for the terminal, empty where it has been told, with the exit status 1; none: 0.
    """
    status = 0 if refusal is None else 1
    try:
        if refusal:
            print(refusal, file=sys.stderr)
        atexit._run_exitfuncs()
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more, or it is closed
                stream.flush()
    finally:
        os._exit(status)


def _parse_arguments(
    description: str | None,
    roles: Mapping[str, str],
    several: tuple[str, ...],
    optional: tuple[str, ...],
    more: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Values of the command line's options by name: paths by role, and what each stage has beside them."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program_name()}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for role, text in roles.items():
        required, count = role not in optional, "+" if role in several else None
        parser.add_argument(
            f"--{role}", dest=role, type=Path, required=required, help=text, metavar="PATH", nargs=count
        )
    for name, options in more.items():
        parser.add_argument(f"--{name}", dest=name, **options)
    parser.add_argument(
        "--settings", default="{}", metavar="JSON", help="the stage's section of the case file, as JSON"
    )
    parser.add_argument(
        "--provenance", type=Path, required=True, metavar="PATH", help="where to write how this was made"
    )
    parser.add_argument("--log", type=Path, metavar="PATH", help="log file (default: terminal only)")
    return vars(parser.parse_args())


def _require_inputs(given: Iterable[tuple[str, Path]]) -> None:
    """Check that each file of a role is there, and as the stage that made it left it."""
    for role, path in given:
        if not path.exists():
            raise StageError(f"--{role} {path}: no such file; run the stage that makes it, or correct the path")
        require_as_written(path)


def _error_message(error: OSError, arguments: Iterable[Any], made: list[Path]) -> str:
    """Message for an error of the system; `made` are the paths that are written to."""
    reason = error.strerror or type(error).__name__
    if remedy := remedy_of(error):
        path = Path(os.fsdecode(error.filename)) if error.filename else made[0]
        return f"{path if path.is_dir() else path.parent}: {reason}; {remedy}"
    place = _place(error, arguments)
    return f"{place}: {reason}" if place else ""


def _place(error: OSError, arguments: Iterable[Any]) -> str:
    """The file of an error; of a file below a folder that was given only the folder, since names may be a patient's."""
    if not error.filename:
        return ""
    path = Path(os.fsdecode(error.filename))
    given = [each for value in arguments for each in (value if isinstance(value, list) else [value])]
    folder = next((each for each in given if isinstance(each, Path) and each.is_dir() and each in path.parents), None)
    return f"a file below {folder}" if folder else str(path)


def _parse_settings(text: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except json.JSONDecodeError as error:
        raise StageError(f"--settings {text!r}: not JSON ({error}); give an object such as '{{}}'") from None
    if not isinstance(settings, dict):
        raise StageError(f"--settings {text!r}: an object is wanted, such as '{{}}'")
    return settings
