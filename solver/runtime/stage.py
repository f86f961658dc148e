"""What the command lines of all stages share: arguments, log, progress, outputs that appear whole or not at all,
and provenance.

It lives beside the solver because the solver must run where `pipeline` cannot be imported; `pipeline` uses it too.
"""

import argparse
import ast
import errno
import hashlib
import json
import logging
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
"""Folder of the project."""

PACKAGES = (
    "numpy", "numba", "llvmlite", "numba-cuda", "h5py", "scipy", "scikit-image", "SimpleITK", "pydicom", "highdicom",
    "python-gdcm", "pyjpegls", "pylibjpeg", "pylibjpeg-openjpeg", "pylibjpeg-rle", "vtk", "pydantic", "pyyaml",
    "jinja2", "matplotlib", "pillow", "plotly", "rich", "snakemake",
)  # fmt: skip
"""All that the project asks for (pyproject.toml), and what makes Numba's machine code."""

ROOMS = ("pipeline", "solver", "validation")
"""Folders of the project's own programs."""

SOURCES = (".py", ".smk", ".j2", ".css", ".js", ".txt", ".rst")
"""Files that the project's own programs and pages are made of."""

FILE_KEYS = ("phantom", "mask", "surface", "waveform", "seeds_file", "background_file")
"""Keys of settings that name a file which the user gives."""

BY_CHECKSUM = "sha256:"
"""Begins what stands in place of the path of such a file: its checksum."""


class StageError(Exception):
    """A user's mistake or a result that must not be trusted: one message that names the quantity, its value, where it
    came from and the remedy. The command line prints it without a traceback and exits with status 1.

    Attributes
    ----------
    picture : PNG that shows what the message means, where one was drawn; the command line puts it beside the log and
        names it after the message.
    """

    picture: bytes | None = None


class Progress:
    """Progress, rate and time left as plain lines, the same in a terminal and in a log file.

    Parameters
    ----------
    log : where the lines go.
    total : how much there is to do.
    unit : of what, in the plural.
    every_s : least time between two lines.
    """

    def __init__(self, log: logging.Logger, total: int, unit: str, every_s: float = 5.0) -> None:
        self._log, self._total, self._unit, self._every_s = log, total, unit, every_s
        self._start = self._last = time.monotonic()

    def update(self, done: int, note: str = "") -> None:
        """Say how far the work is, unless the last line is younger than `every_s` and work is left."""
        now = time.monotonic()
        if now - self._last < self._every_s and done < self._total:
            return
        self._last = now
        elapsed = max(now - self._start, 1e-9)
        left_s = (self._total - done) * elapsed / max(done, 1)
        self._log.info(
            "%d of %d %s (%.0f %%), %.3g %s/s, %s left%s",
            done, self._total, self._unit, 100 * done / max(self._total, 1), done / elapsed, self._unit,
            _duration(left_s), f", {note}" if note else "",
        )  # fmt: skip


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


@dataclass
class Job:
    """One run of a stage.

    Attributes
    ----------
    inputs, outputs : paths by role; an output's path is a temporary one that is renamed when the stage succeeds.
    lists : the same for inputs that are several paths.
    settings : the stage's section of the case.
    log : logger to the terminal and to the log file.
    more : values of the options of the stage's own.
    facts : what the stage wants kept in its provenance beside the common part (device, choices made).
    """

    stage: str
    inputs: dict[str, Path]
    outputs: dict[str, Path]
    settings: dict[str, Any]
    log: logging.Logger
    facts: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    lists: dict[str, list[Path]] = field(default_factory=dict)


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
) -> None:
    """Command line of a stage: parse, compute, then let all outputs appear together with their provenance.

    Parameters
    ----------
    stage : name of the stage.
    description : text for ``--help``, the module's docstring.
    inputs, outputs : role (the name of the option) and help text of each file.
    compute : does the work; raises :class:`StageError` for what the user must mend.
    several : roles of inputs that take one path or more.
    optional : roles of inputs that may be left out; the job then has none of that role, or an empty list.
    afterwards : called once the outputs are where they belong.
    more : options of the stage's own, which what it makes does not depend on, by name: what `argparse` is told of each.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {_module_name()}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for role, text in (inputs | outputs).items():
        required, count = role not in optional, "+" if role in several else None
        parser.add_argument(
            f"--{role}", dest=role, type=Path, required=required, help=text, metavar="PATH", nargs=count
        )
    for name, told in (more or {}).items():
        parser.add_argument(f"--{name}", dest=name, **told)
    parser.add_argument(
        "--settings", default="{}", metavar="JSON", help="the stage's section of the case file, as JSON"
    )
    parser.add_argument(
        "--provenance", type=Path, required=True, metavar="PATH", help="where to write how this was made"
    )
    parser.add_argument("--log", type=Path, metavar="PATH", help="log file (default: terminal only)")
    arguments = vars(parser.parse_args())
    log = _open_log(stage)
    picture = arguments["log"].with_suffix(".png") if arguments["log"] else None
    try:
        if picture:
            _keep_log(log, arguments["log"])
            picture.unlink(missing_ok=True)  # of an earlier refusal
        settings = _parse_settings(arguments["settings"])
        targets = {role: arguments[role] for role in outputs}
        sources = {role: arguments[role] for role in inputs if role not in several and arguments[role]}
        lists = {role: arguments[role] or [] for role in several}
        for role, path in [*sources.items(), *((many, path) for many, paths in lists.items() for path in paths)]:
            if not path.exists():
                raise StageError(f"--{role} {path}: no such file; run the stage that makes it, or correct the path")
            demand_as_written(path)
        for number in STOP_SIGNALS:
            signal.signal(number, _stop)
        with _outputs(targets | {"provenance": arguments["provenance"]}) as partial:
            job = Job(stage, sources, {role: partial[role] for role in outputs}, settings, log, lists=lists)
            job.more = {name: arguments[name] for name in more or {}}
            started, clock = datetime.now(UTC), time.monotonic()
            compute(job)
            names = {role: path.name for role, path in targets.items()}
            record = _provenance(job, names, started, time.monotonic() - clock)
            partial["provenance"].write_text(json.dumps(record, indent=2) + "\n")
        if afterwards:
            afterwards(job)
    except StageError as error:
        if picture and error.picture:
            picture.write_bytes(error.picture)
        log.error("error: %s%s", error, f"; see {picture}" if picture and error.picture else "")
        sys.exit(1)
    except OSError as error:
        made = [path for role, path in arguments.items() if path and role in (*outputs, "provenance", "log")]
        log.error("error: %s", _told(error, arguments.values(), made) or f"{stage}: {error}")
        sys.exit(1)


REMEDIES = {
    errno.ENOSPC: "make room, or let results/ lie on a larger disk, and run the workflow again",
    errno.EDQUOT: "make room, or let results/ lie on a larger disk, and run the workflow again",
    errno.EROFS: "make it writable, or let results/ lie on a disk that is, and run the workflow again",
}
"""What helps where a disk does not take what is written."""


def _told(error: OSError, arguments: Iterable[Any], made: list[Path]) -> str:
    """What is said of an error of the system; `made` are the paths that are written to."""
    reason = error.strerror or type(error).__name__
    if remedy := remedy_of(error):
        path = Path(os.fsdecode(error.filename)) if error.filename else made[0]
        return f"{path if path.is_dir() else path.parent}: {reason}; {remedy}"
    place = _place(error, arguments)
    return f"{place}: {reason}" if place else ""


def remedy_of(error: OSError) -> str:
    """What helps against an error of writing; empty where it is none."""
    return REMEDIES.get(error.errno or 0, "")


def _place(error: OSError, arguments: Iterable[Any]) -> str:
    """The file of an error; of a file below a folder that was given only the folder, since names may be a patient's."""
    if not error.filename:
        return ""
    path = Path(os.fsdecode(error.filename))
    given = [each for value in arguments for each in (value if isinstance(value, list) else [value])]
    folder = next((each for each in given if isinstance(each, Path) and each.is_dir() and each in path.parents), None)
    return f"a file below {folder}" if folder else str(path)


def _module_name() -> str:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return (spec.name if spec else "pipeline").removesuffix(".__main__")


def _parse_settings(text: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except json.JSONDecodeError as error:
        raise StageError(f"--settings {text!r}: not JSON ({error}); give an object such as '{{}}'") from None
    if not isinstance(settings, dict):
        raise StageError(f"--settings {text!r}: an object is wanted, such as '{{}}'")
    return settings


def _open_log(stage: str) -> logging.Logger:
    log = logging.getLogger(stage)
    log.setLevel(logging.INFO)
    log.propagate = False
    _add(log, logging.StreamHandler(sys.stderr))
    return log


def _keep_log(log: logging.Logger, path: Path) -> None:
    """Let the lines go to a file, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _add(log, _LogFile(path, mode="w"))


def _add(log: logging.Logger, handler: logging.Handler) -> None:
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    log.addHandler(handler)


class _LogFile(logging.FileHandler):
    """A log file that may lack lines which a full disk does not take: the terminal has them."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Say nothing of it here."""


RECORDS = "*.provenance.json"
"""Where stages of the workflow tell what they wrote, beside it."""
ROOM, LEAST_ROOM = 1.02, 1_000_000
"""Of what is written, and beside it: what a file's own tables take, at most."""
FULL = 2**16
"""A disk with less room than this does not take what a library still holds back."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
STAMP = ".snakemake_timestamp"
"""What Snakemake leaves in a folder that a stage made."""


class Interruption:
    """Remembers a signal to stop until the work is where it can; a second one stops it where it is. A context manager.

    Attributes
    ----------
    number : of the signal; 0 while there is none.
    """

    number = 0

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in STOP_SIGNALS}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            _stop(number, frame)
        self.number = number

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    raise StageError(f"stopped by signal {number}; nothing was written, run the workflow again to continue")


@contextmanager
def _outputs(targets: dict[str, Path]) -> Iterator[dict[str, Path]]:
    """Give a temporary path beside each target; rename all of them on success, remove all of them on failure."""
    partial = {role: path.with_name(f".{path.stem}.partial{path.suffix}") for role, path in targets.items()}
    for role, path in targets.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove(partial[role])  # left by a killed run
    try:
        with _full_disk_told(targets.values()):
            yield partial
        for role, path in targets.items():
            if path.is_dir():
                shutil.rmtree(path)
            partial[role].replace(path)
    finally:
        for path in partial.values():
            with suppress(OSError):  # a disk that became read-only keeps them, until the next run
                _remove(path)


@contextmanager
def _full_disk_told(targets: Iterable[Path]) -> Iterator[None]:
    """Libraries tell of a full disk each in words of its own, or not at all: then it is told here.

    Raises
    ------
    OSError
        If a disk that was written to is full.
    """
    try:
        yield
    except (StageError, OSError):
        raise
    except Exception:
        _demand_free(targets)
        raise
    _demand_free(targets)


def _demand_free(targets: Iterable[Path]) -> None:
    for path in targets:
        if shutil.disk_usage(path.parent).free < FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _provenance(job: Job, names: dict[str, str], started: datetime, seconds: float) -> dict[str, Any]:
    """How the outputs, of some names by role, were made. Inputs appear by role and checksum: their names may hold a
    patient's.
    """
    return {
        "stage": job.stage,
        "program": _module_name(),
        "settings": by_checksum(job.settings),
        "inputs_sha256": {role: checksum(path) for role, path in job.inputs.items()}
        | {role: checksum(*paths) for role, paths in job.lists.items() if paths},
        "outputs_sha256": {names[role]: checksum(path) for role, path in job.outputs.items()},
        **job.facts,
        "versions": versions(),
        "host": {
            "machine": platform.machine(),
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
        },
        "started": started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        **peak_memory_mb(),
    }


def demand_as_written(path: Path) -> None:
    """Check that an input is what a stage wrote, where the provenance of one beside it tells of a file of its name.

    Raises
    ------
    StageError
        If it is not, or the provenance cannot be read.
    """
    wanted: dict[str, str] = {}
    for record in path.parent.glob(RECORDS):
        stage = record.name.removesuffix(RECORDS[1:])
        try:
            written = json.loads(record.read_bytes()).get("outputs_sha256", {})
            wanted |= {written[path.name]: stage} if path.name in written else {}
        except (ValueError, AttributeError, TypeError):
            raise StageError(f"{record}: is damaged; run {stage} again") from None
    if wanted and checksum(path) not in wanted:
        stages = " or ".join(sorted(wanted.values()))
        raise StageError(
            f"{path}: is not what {stages} wrote, by the SHA-256 in the provenance beside it: it is damaged, or was"
            f" changed by hand; run {stages} again"
        )


def by_checksum(settings: Any) -> Any:
    """Settings with the checksum of each file that the user gives in place of its path (:data:`BY_CHECKSUM`)."""
    if isinstance(settings, Mapping):
        return {
            key: f"{BY_CHECKSUM}{checksum(Path(os.path.expandvars(value)).expanduser())}"
            if key in FILE_KEYS and isinstance(value, str) and not value.startswith(BY_CHECKSUM)
            else by_checksum(value)
            for key, value in settings.items()
        }
    return [by_checksum(value) for value in settings] if isinstance(settings, list | tuple) else settings


def _processor() -> str:
    """Model of the processor; nothing where the system does not tell."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(errors="replace").splitlines() if told.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def peak_memory_mb() -> dict[str, float]:
    """The most memory that this process has held, and that of the processes that work for it, where there are any.

    Linux counts for each program from its start; the figure of :mod:`resource` also counts the program that a process
    ran before, which is Snakemake.
    """
    own, helpers = 0.0, 0.0
    for file in Path("/proc").glob("[0-9]*/status"):
        try:
            told = dict(line.partition(":\t")[::2] for line in file.read_text(errors="replace").splitlines())
        except OSError:  # ended meanwhile
            continue
        megabytes = int(told.get("VmHWM", "0 kB").split()[0]) / 1024
        if told.get("Pid") == str(os.getpid()):
            own = megabytes
        elif told.get("PPid") == str(os.getpid()):
            helpers += megabytes
    return {"peak_memory_mb": round(own, 1)} | ({"peak_memory_of_helpers_mb": round(helpers, 1)} if helpers else {})


def demand_room(path: Path, size: int) -> None:
    """Check that the disk has room for so many bytes more of a file, before HDF5 writes them.

    HDF5 tells of a full disk too late, when it gives its buffers back, and may crash then.

    Raises
    ------
    StageError
        With what is needed and what is free.
    """
    free = shutil.disk_usage(next(folder for folder in path.absolute().parents if folder.is_dir())).free
    if free < ROOM * size + LEAST_ROOM:
        raise StageError(
            f"{path}: {size / 1e6:.3g} MB more are to be written, and {free / 1e6:.3g} MB are free on its disk; make"
            " room, or let results/ lie on a larger disk, and run the workflow again"
        )


def checksum(*paths: Path) -> str:
    """SHA-256 of a file, or of the contents of several files or of all files of a folder, whatever their names, but for
    :data:`STAMP`.
    """
    if len(paths) > 1 or paths[0].is_dir():
        files = (
            paths if len(paths) > 1 else [file for file in paths[0].rglob("*") if file.is_file() and file.name != STAMP]
        )
        return combined(checksum(file) for file in files)
    with paths[0].open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def combined(checksums: Iterable[str]) -> str:
    """Checksum of several files by those of each, whatever their order."""
    return hashlib.sha256("".join(sorted(checksums)).encode()).hexdigest()


def sources(module: str) -> list[str]:
    """Files of the project that a module is made of: its own, and those of all project modules that it imports, with
    what bears a module's name beside it (``page.py`` and its ``page.css``).

    Parameters
    ----------
    module : dotted name, such as ``pipeline.stages.segment``.

    Returns
    -------
    Paths relative to the project's folder, sorted.
    """
    found: set[str] = set()
    queue = [module]
    while queue:
        file = _file_of(queue.pop())
        if file and str(file) not in found:
            found.update(_beside(file))
            queue += imports(ROOT / file)
    return sorted(found)


@cache
def _beside(file: Path) -> tuple[str, ...]:
    return tuple(str(part.relative_to(ROOT)) for part in (ROOT / file.parent).glob(f"{file.stem}.*"))


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Dotted names that a Python file imports, with ``from a import b`` given as ``a`` and ``a.b``."""
    names: list[str] = []
    for node in statements(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(names)


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node, without a look at expressions, of which there are twenty times as many."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, block, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            yield from statements(inner)


@cache
def _file_of(module: str) -> Path | None:
    path = Path(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in candidates if path.parts[0] in ROOMS and (ROOT / file).is_file()), None)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages; the checksum of the project's source; its commit, where Git keeps it,
    with ``-dirty`` where the source differs from it.
    """
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*") if file.suffix in SOURCES]
    found["hemolattice_source"] = checksum(*ROOT.glob("Snakefile"), *files)
    if (ROOT / ".git").exists() and (commit := _git("rev-parse", "HEAD").stdout.strip()):
        changed = _git("diff", "--quiet", "HEAD", "--", "Snakefile", *ROOMS).returncode
        found["hemolattice_commit"] = commit + ("-dirty" if changed else "")
    return found


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    """What Git says of the project; nothing where there is no Git."""
    try:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, "", "")
