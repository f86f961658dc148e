# SPDX-License-Identifier: Apache-2.0
"""What is asked of Snakemake by its command line, as far as it would answer with what does not help."""

import os
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.case.settings.base import CONFIG, shipped
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.workflow.recovery import RESULTS

TELLING = ("--dag", "--rulegraph", "--filegraph", "--summary", "-S", "--detailed-summary", "-D", "--dry-run", "-n")
"""Options by which nothing runs."""
OF_NO_CASE = "studies"
"""Folder among the results that is none of a case."""


def only_tells(arguments: Sequence[str]) -> bool:
    """Whether nothing is to run, so that nobody need say how many cores."""
    return any(each.partition("=")[0] in TELLING for each in arguments)


def take_table(config: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Let a table that is given on the command line, or in a file named there, take the place of the cases of the
    configuration's own file.

    Parameters
    ----------
    config : of the workflow, which is changed.
    given : what of it the command line gives.
    """
    if given.get("cohort") and "cases" not in given:
        config.pop("cases", None)


def stated_in(option: Mapping[str, Any], files: Sequence[Path]) -> Callable[[str], str]:
    """What tells where a key of the configuration was stated: on the command line, in a file named there, or in the
    configuration's own. It is the one that has most of the key; of several, the one that goes first with Snakemake.

    The files are read when the first mistake is told, and not at each start.

    Parameters
    ----------
    option : what ``--config`` gives.
    files : of the command line; the last one goes first.
    """

    @cache
    def stated() -> dict[str, Mapping[str, Any]]:
        given = {"--config": option} | {os.path.relpath(file): read_yaml(file) for file in reversed(files)}
        return {**given, CONFIG: given.get(CONFIG) or read_yaml(shipped(Path(CONFIG)))}

    def place(path: str) -> str:
        levels = {source: _levels(values, path) for source, values in stated().items()}
        source = max(levels, key=lambda each: levels[each]) if any(levels.values()) else CONFIG
        return f"{source}: {path}" if path else source

    return place


def _levels(values: Mapping[str, Any], path: str) -> int:
    """How many levels of a dotted key are among values."""
    within: Any = values
    for level, key in enumerate(path.split(".")):
        if not isinstance(within, Mapping) or key not in within:
            return level
        within = within[key]
    return path.count(".") + 1


def of_no_case(arguments: Sequence[str], known: Container[str], folder: Path) -> str | None:
    """What to type where a result is asked for of a case that is not among those of this run; none if all are.

    Parameters
    ----------
    arguments : of the command line.
    known : cases of this run.
    folder : where case files lie.
    """
    for asked in arguments:
        parts = Path(asked).parts
        if len(parts) < 3 or parts[0] != str(RESULTS) or parts[1] in known or parts[1] == OF_NO_CASE:
            continue
        name = parts[1].partition("@")[0]
        if shipped(folder / f"{name}.yaml").exists():
            return f"{asked}: {name} is none of the cases of this run; add --config cases={name} to the command"
        return f"{asked}: {folder / name}.yaml: no such case file; hemolattice new {name} writes one"
    return None
