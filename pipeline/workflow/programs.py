# SPDX-License-Identifier: Apache-2.0
"""What runs in a rule: the command line of its stage, the image that this runs in, its files and their checksum."""

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from solver.runtime.checksums import checksum, combined
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT, sources

Wildcards = Any
Files = Mapping[str, str | Iterable[str]]
"""Paths by name; Snakemake's lists of inputs and of outputs have `items`, too."""


class Settings(Protocol):
    """What a command line asks of the cases."""

    def stages(self, run: str) -> list[str]:
        """Stages of a run, in their order."""

    @property
    def section(self) -> Callable[..., str]:
        """Settings of a run's stage as JSON, by the names of both."""


@cache
def code(module: str) -> str:
    """Checksum of the modules that a stage is made of: a parameter, so that an edit reruns the stage. As inputs they
    would be looked up on disk for every job that is ready each time that Snakemake chooses the next one.
    """
    return combined(_code_of_file(path) for path in sources(module))


@cache  # most modules have most of their files in common
def _code_of_file(path: str) -> str:
    return checksum(ROOT / path)


def project_files(pattern: str) -> list[str]:
    """Files of the project, as seen from the working directory, sorted."""
    return sorted(str(path.relative_to(ROOT) if Path.cwd() == ROOT else path) for path in ROOT.glob(pattern))


def options(*files: Files) -> str:
    """Options of a command line by the names of files, each with its path or paths, in quotes; none where there is no
    path.
    """
    found = []
    for name, given in (item for each in files for item in each.items()):
        paths = [given] if isinstance(given, str) else list(given)
        found += [f"--{name.replace('_', '-')}", *map(shlex.quote, paths)] if paths else []
    return " ".join(found)


class Programs:
    """Command lines of the stages, as parameters of their rules.

    Each is a function of the rule's files, and such a parameter reruns nothing: another Python, another folder of the
    project or another pause between checkpoints changes no result.

    Parameters
    ----------
    image : image of a container in which the stages run; none: the Python that runs Snakemake does.

    Attributes
    ----------
    image : the same.
    """

    def __init__(self, image: str | None = None) -> None:
        self.image = image
        python = "python" if image else shlex.quote(sys.executable)
        self._python = python if Path.cwd() == ROOT else f"env PYTHONPATH={shlex.quote(search_path())} {python} -P"

    def __call__(self, module: str, **more: float) -> Callable[..., str]:
        """The command of a module with an option for each named file, and more options with their values."""
        values = {name: str(value) for name, value in more.items()}

        def command(wildcards: Wildcards, input: Files, output: Files) -> str:  # noqa: A002
            return f"{self._python} -m {module} {options(input, output, values)}".rstrip()

        return command

    def gate(self, openings: str, centreline: str, cases: Settings) -> Callable[..., str]:
        """The command that refuses what no patient has before the solver steps.

        It is a function of the input, as all command lines are: a case that accepts more does not run again.

        Parameters
        ----------
        openings, centreline : paths of what is judged, with wildcards.
        cases : whose settings are asked for.
        """

        def command(wildcards: Wildcards, input: Files) -> str:  # noqa: A002
            if "plausibility" not in cases.stages(wildcards.case):
                return ""
            files = {"openings": openings, "centreline": centreline, "log": "results/{case}/{level}logs/solve.log"}
            given = options({name: path.format(**wildcards) for name, path in files.items()})
            settings = shlex.quote(cases.section(wildcards.case, "plausibility"))
            return f"{self._python} -m pipeline.stages.plausibility --check {given} --settings {settings} && "

        return command


def search_path() -> str:
    """PYTHONPATH with the project first; with ``-P``, modules of these names in the working directory stay out."""
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def image_of(container: str, deployment: Any) -> str | None:
    """The image in which the stages run; none where Snakemake runs without one.

    Parameters
    ----------
    container : the image that the configuration names.
    deployment : Snakemake's settings of how software is deployed (``--sdm``).

    Raises
    ------
    StageError
        If the image is a file that is not there.
    """
    methods = [method.name for method in deployment.deployment_method] if deployment else []
    if "APPTAINER" not in methods:
        return None
    if "://" not in container and not Path(container).exists():
        raise StageError(
            f"container: {container}: no such file; build it by `apptainer build {container} apptainer.def` in"
            " HemoLattice's folder, or name another image in config/config.yaml"
        )
    return container
