# SPDX-License-Identifier: Apache-2.0
"""Comparison of a crate with its files, and of the runs of two crates with each other."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pipeline.reporting.crate_graph import (
    CASE,
    CONTEXT,
    METADATA,
    RECORD,
    SPECIFICATION,
    WORKFLOW,
    Entity,
    StageRun,
    kinds_of,
)
from solver.runtime.checksums import checksum
from solver.runtime.errors import StageError

OF_THE_RUN = {"solve.json", "report.html", "open-in-paraview.py"}
"""Outputs that hold how long a run took or how it is called, and so differ from run to run."""


def faults(folder: Path) -> list[str]:
    """What is wrong with a crate, a line each: with its metadata, and with files that are not as it says.

    Raises
    ------
    StageError
        If the folder holds no metadata of a crate.
    """
    document, entities = _read(folder)
    found = [] if document.get("@context") == CONTEXT else [f"@context: is not {', '.join(CONTEXT)}"]
    if len(entities) != len(document["@graph"]):
        found.append("@graph: an entity stands there twice")
    found += [f"{key}: missing" for key in (METADATA, "./", CASE, WORKFLOW, "#run", "#engine") if key not in entities]
    for key, entity in entities.items():
        targets = {*_targets(list(entity.values()))} - {SPECIFICATION}
        found += [f"{key}: refers to {target}, of which nothing is said" for target in sorted(targets - {*entities})]
        needed = (*NEEDED.get(key, ()), *NEEDED.get(kinds_of(entity)[0], ()))
        found += [f"{key}: {need}: missing" for need in needed if need not in entity]
    reached = _reached(entities)
    for key, entity in entities.items():
        if {*kinds_of(entity)} & {"File", "Dataset"}:
            found += [] if key in reached else [f"{key}: no part of the crate"]
            found += _faults_of_file(folder, entity) if "File" in kinds_of(entity) else []
    return found


NEEDED: dict[str, tuple[str, ...]] = {
    METADATA: ("about", "conformsTo"),
    "./": ("name", "description", "datePublished", "license", "conformsTo", "hasPart", "mainEntity", "mentions"),
    WORKFLOW: ("programmingLanguage", "hasPart", "step"),
    "File": ("contentSize", "sha256"),
    "CreateAction": ("instrument", "object", "result", "startTime", "endTime"),
    "ControlAction": ("instrument", "object"),
    "OrganizeAction": ("instrument", "object", "result"),
    "HowToStep": ("workExample", "position"),
    "SoftwareApplication": ("name",),
    "PropertyValue": ("name", "value"),
}
"""Properties without which an entity is wrong, by its identifier or its first type."""


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Entity]]:
    try:
        document = json.loads((folder / METADATA).read_text(encoding="utf-8"))
        return document, {entity["@id"]: entity for entity in document["@graph"] if entity["@type"]}
    except FileNotFoundError:
        raise StageError(f"{folder}: holds no {METADATA}; give the folder of a crate") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StageError(f"{folder / METADATA}: no metadata of a crate; it was changed or cut off") from None


def read_record(path: Path) -> dict[str, Any]:
    """What a stage says of itself.

    Raises
    ------
    StageError
        If there is no such file, or it is no JSON.
    """
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise StageError(f"{path}: no record of a stage; delete it and run the workflow again") from None
    return document


def _targets(value: Any) -> Iterator[str]:
    """Identifiers that a value refers to."""
    if isinstance(value, dict):
        yield str(value.get("@id"))
    elif isinstance(value, list):
        for each in value:
            yield from _targets(each)


def _reached(entities: Mapping[str, Entity]) -> set[str]:
    """What the crate is made of, as far as it says so."""
    reached, queue = {"./"}, ["./"]
    while queue:
        parts = {*_targets(entities.get(queue.pop(), {}).get("hasPart"))} - reached
        reached |= parts
        queue += parts
    return reached


def _faults_of_file(folder: Path, entity: Entity) -> Iterator[str]:
    path = unquote(entity["@id"])
    file = folder / path
    if Path(path).is_absolute() or ".." in Path(path).parts:
        yield f"{path}: lies outside the crate"
    elif not file.is_file():
        yield f"{path}: no such file"
    elif str(file.stat().st_size) != entity.get("contentSize") or checksum(file) != entity.get("sha256"):
        yield f"{path}: not as the crate says"


def read_runs(folder: Path) -> list[StageRun]:
    """Runs of the stages as their records in a crate have them, in the order of the workflow.

    Raises
    ------
    StageError
        If the folder is no crate, or a record is not there.
    """
    names = [unquote(key).removesuffix(RECORD) for key in _read(folder)[1] if key.endswith(RECORD)]
    return [StageRun(name, read_record(folder / f"{name}{RECORD}")) for name in names]


def differences(one: Sequence[StageRun], other: Sequence[StageRun]) -> list[str]:
    """Outputs of the same names that have other bits, a line each: stage, name, and whether its inputs were the same.

    Left out are those that hold how long a run took or how it is called.
    """
    records = {run.name: run.record for run in other}
    found = [f"{run.name}: only in one of them" for run in one if run.name not in records]
    found += [f"{name}: only in one of them" for name in records.keys() - {run.name for run in one}]
    for run in one:
        beside = records.get(run.name, run.record)
        changed = [role for role in run.record["inputs_sha256"] if _differ(run.record, beside, "inputs_sha256", role)]
        cause = f"of other {', '.join(changed)}" if changed else "of the same inputs"
        found += [
            f"{run.name}: {name} differs, {cause}"
            for name in run.record["outputs_sha256"]
            if _differ(run.record, beside, "outputs_sha256", name) and name not in OF_THE_RUN
        ]
    return found


def _differ(one: Mapping[str, Any], other: Mapping[str, Any], part: str, key: str) -> bool:
    return one[part].get(key) != other[part].get(key)


def made_by(runs: Sequence[StageRun]) -> dict[str, str]:
    """Versions, processor and device by which a crate was made, several where stages had other ones."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        said = run.record["versions"] | {"processor": run.record["host"]["processor"]}
        for name, value in (said | {key: run.record[key] for key in ("device", "driver") if key in run.record}).items():
            found.setdefault(name, {})[value] = None
    return {name: " and ".join(values) for name, values in found.items()}
