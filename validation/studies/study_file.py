# SPDX-License-Identifier: Apache-2.0
"""Study: what a published work computed, to be run again; validated settings.

A study file, ``config/studies/<study>.yaml``, holds a case, the runs that differ from it by some settings, and the name
of the module here that measures something on them.
"""

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self

from pydantic import Field, PrivateAttr, model_validator

from pipeline.case.case_file import Case, RunSet, merged, read_config, require_listed
from pipeline.case.settings.base import Name, Section, parse, shipped
from pipeline.case.settings.yaml_file import read_yaml
from solver.runtime.errors import StageError
from validation.evidence import Evidence

if TYPE_CHECKING:
    from validation.studies.run import Run  # takes most of a second, which every start of the workflow would wait for

FOLDER = Path("config/studies")
NO_MEASURES = (
    "__init__",
    "balance",
    "bend_section",
    "pictures",
    "pipe_run",
    "reference",
    "rings",
    "run",
    "study_file",
    "torus_flow",
    "viscoplastic_fluids",
    "womersley_cycle",
    "womersley_solution",
)
"""Modules of this folder that measure nothing."""


class Measure(Protocol):
    """What a module offers that measures something on the runs of a study.

    Attributes
    ----------
    Options : what the key ``options`` of a study file may hold.
    FILES : names of files that it reads of each run beside its nodes and its flow; none if left out.
    """

    Options: type[Section]

    def measure(self, evidence: Evidence, runs: Mapping[str, "Run"], options: Any) -> None:
        """Put tables, pictures and what has to be reached into the evidence; runs by name, in their order.

        Parameters
        ----------
        evidence : of the study.
        runs : by name.
        options : the module's own.
        """


class Study(Section):
    """A study file."""

    title: str = Field(description="a few words")
    work: str = Field(description="what is reproduced, with its DOI or address")
    question: str = Field(description="the physical question that it answers, in a few sentences")
    measure: str = Field(description="module of validation/studies/")
    options: dict[str, Any] = Field(default_factory=dict, description="of the measure")
    threads: Annotated[int, Field(ge=1)] | None = Field(
        None, description="cores that a run takes, so that several can run side by side; none: all"
    )
    case: dict[str, Any] = Field(description="sections as of a file in config/cases/, the same for all runs")
    runs: dict[Name, dict[str, Any]] = Field(min_length=1, description="sections merged over case, by name of the run")
    sets: dict[RunSet, tuple[str, ...]] = Field(
        min_length=1, description="names of the runs of each set; the study is no part of a set that is missing"
    )
    _cases: dict[str, Case] = PrivateAttr(default_factory=dict)  # read once: each start of the workflow waits for it

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        known = {file.stem for file in Path(__file__).parent.glob("*.py")} - {*NO_MEASURES}
        if self.measure not in known:
            raise ValueError(
                f"measure: no module {self.measure} in validation/studies; known: {', '.join(sorted(known))}"
            )
        for name, runs in self.sets.items():
            if unknown := [run for run in runs if run not in self.runs] or ([] if runs else ["nothing"]):
                raise ValueError(f"sets.{name}: names {unknown[0]}, which is no run; known: {', '.join(self.runs)}")
        return self

    def cases(self, source: str) -> dict[str, Case]:
        """The case of each run by its name.

        Raises
        ------
        StageError
            One line a mistake, of the first run that has any.
        """
        if not self._cases:
            runs = {run: merged(self.case, over) for run, over in self.runs.items()}
            self._cases.update({run: parse(Case, case, f"{source}: run {run}") for run, case in runs.items()})
        return self._cases

    def input(self, name: str, runs_of: RunSet) -> str:
        """The study as JSON, as the stage `study` takes it: with its name and the set of runs."""
        return json.dumps(self.model_dump(mode="json") | {"name": name, "runs_of": runs_of}, sort_keys=True)

    def measured(self, source: str) -> tuple[Measure, Section]:
        """The module that measures, with its options.

        Raises
        ------
        StageError
            One line a mistake in the options.
        """
        module: Any = importlib.import_module(f"validation.studies.{self.measure}")
        return module, parse(module.Options, self.options, f"{source}: options")

    def files(self) -> tuple[str, ...]:
        """Names of files that the measure reads of each run beside its nodes and its flow."""
        return getattr(importlib.import_module(f"validation.studies.{self.measure}"), "FILES", ())


class StudyInput(Study):
    """What the command line takes: a study with its name, and the set of runs that were made."""

    name: Name
    runs_of: RunSet


def read_study(name: str, folder: Path = FOLDER, options: bool = True) -> Study:
    """Read ``<folder>/<name>.yaml``, with all its runs; without reading its `options`, it imports no measure.

    Parameters
    ----------
    name : of the study.
    folder : of the study files.
    options : whether the options of the measure are read.

    Raises
    ------
    StageError
        One line a mistake.
    """
    path = shipped(folder / f"{name}.yaml")
    require_listed("studies", name, path)
    if "." in name:
        raise StageError(f"{path}: the name of a study has no dot, which sets it apart from its runs; rename the file")
    study = parse(Study, read_yaml(path), str(path))
    study.cases(str(path))
    if options:
        study.measured(str(path))
    return study


def read_studies(config: dict[str, Any], folder: Path = FOLDER, options: bool = True) -> dict[str, Study]:
    """The studies that the configuration names, or all that there are, by name; see :func:`read_study`.

    Parameters
    ----------
    config : of the workflow, which may name studies.
    folder : of the study files.
    options : whether the options of the measures are read.

    Raises
    ------
    StageError
        One line a mistake, over all files.
    """
    chosen = read_config(config)
    studies, mistakes = {}, []
    for name in chosen.studies or sorted(file.stem for file in shipped(folder).glob("*.yaml")):
        try:
            studies[name] = read_study(name, folder, options)
            if chosen.studies and chosen.validation not in studies[name].sets:
                raise StageError(
                    f"studies: {name}: has no runs in the set {chosen.validation}; give validation="
                    f"{' or validation='.join(studies[name].sets)}"
                )
        except StageError as error:
            mistakes.append(str(error))
    if mistakes:
        raise StageError("\n".join(mistakes))
    return studies
