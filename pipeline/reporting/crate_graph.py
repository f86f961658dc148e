# SPDX-License-Identifier: Apache-2.0
"""Metadata of a crate: the graph of a case's results, of the stages that made them and of what these were given.

The crate follows Provenance Run Crate 0.5: the workflow, its steps, and each run of a stage with its inputs, outputs,
settings, versions, times and memory, as the stage's own record has them (``*.provenance.json``).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from solver.runtime.checksums import BY_CHECKSUM, STAMP, checksum, combined
from solver.runtime.errors import StageError

METADATA, CASE, WORKFLOW, RULES = "ro-crate-metadata.json", "case.yaml", "workflow.smk", "pipeline/rules/"
"""What the stage adds to the folder; the rules lie where the workflow includes them from."""

RECORD = ".provenance.json"

CONTEXT = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"]

SPECIFICATION = "https://w3id.org/ro/crate/1.1"

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/provenance/0.5": ("Provenance Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}

SNAKEMAKE = "https://w3id.org/workflowhub/workflow-ro-crate#snakemake"

LICENCE = "http://spdx.org/licenses/Apache-2.0"

USE = "How the results may be used, those say who share them; the workflow is licensed under Apache-2.0."

FORMATS = {
    ".json": "application/json",
    ".csv": "text/csv",
    ".html": "text/html",
    ".png": "image/png",
    ".gif": "image/gif",
    ".yaml": "application/yaml",
    ".py": "text/x-python",
    ".smk": "text/x-snakemake",
    ".dcm": "application/dicom",
    ".h5": "application/x-hdf5",
    ".vtkhdf": "application/x-hdf5",
    ".vtp": "application/xml",
    ".vti": "application/xml",
}

USAGE = {
    "seconds": ("https://w3id.org/ro/terms/nf-trace#realTime", "https://qudt.org/vocab/unit/SEC"),
    "peak_memory_mb": (
        "https://www.kernel.org/doc/html/latest/filesystems/proc.html#vmhwm",
        "https://qudt.org/vocab/unit/MebiBYTE",
    ),
}
"""What a run of a stage took: the key in its record, what it means, and its unit."""


Entity = dict[str, Any]


@dataclass(frozen=True)
class StageRun:
    """A run of a stage.

    Attributes
    ----------
    name : of its record in the crate, without its ending: ``solve``, ``coarser-1/solve``.
    record : what the stage says of itself.
    """

    name: str
    record: Mapping[str, Any]

    @property
    def folder(self) -> str:
        """In which its record and its outputs lie: nothing, ``coarser-1/`` or ``members/``."""
        return self.name[: self.name.rfind("/") + 1]


def crate_metadata(
    folder: Path, run: str, description: str, runs: Sequence[StageRun], added: Mapping[str, Path]
) -> Entity:
    """The metadata of a crate.

    Parameters
    ----------
    folder : of the results, which becomes the crate.
    run, description : how the run of the case is called, and what the case is.
    runs : of its stages, in the order of the workflow.
    added : files that were not made by these, by their path in the crate: where each is now. The case and the workflow
        are among them, and the files of rules that it includes.

    Raises
    ------
    StageError
        If an output of a stage is not there as the stage made it.
    """
    graph = _Graph(folder)
    for each in runs:
        graph.add_outputs(each)
    for path, now in added.items():
        graph.add_file(path, now)
    for each in runs:
        graph.add_run(each)
    graph.add_workflow(runs, [path for path in added if path.startswith(RULES)])
    return {"@context": CONTEXT, "@graph": [*_head(run, description, runs, graph), *graph.entities.values()]}


def _ref(*identifiers: str) -> Any:
    """Reference to an entity, or to several."""
    found = [{"@id": identifier} for identifier in dict.fromkeys(identifiers)]
    return found[0] if len(found) == 1 else found


def _head(run: str, description: str, runs: Sequence[StageRun], graph: "_Graph") -> list[Entity]:
    """The metadata of the metadata, and of the crate as a whole."""
    return [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "about": _ref("./"),
            "conformsTo": _ref(SPECIFICATION, "https://w3id.org/workflowhub/workflow-ro-crate/1.0"),
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"HemoLattice: {run}",
            "description": description or f"Results of the case {run}.",
            "datePublished": max(each.record["finished"] for each in runs),
            "license": _ref("#licence"),
            "conformsTo": _ref(*PROFILES),
            "hasPart": _ref(*graph.parts),
            "mainEntity": _ref(WORKFLOW),
            "mentions": _ref("#run", "#engine", *(f"#run/{each.name}" for each in runs)),
        },
        *(
            {"@id": profile, "@type": "CreativeWork", "name": name, "version": version}
            for profile, (name, version) in PROFILES.items()
        ),
    ]


class _Graph:
    """Entities of a crate by their identifier, as they come together.

    Attributes
    ----------
    parts : what the crate is made of.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._digests: dict[str, dict[str, str]] = {}
        self._made: dict[str, list[str]] = {}
        self._results: dict[str, list[str]] = {}
        self.entities: dict[str, Entity] = {}
        self.parts: list[str] = []

    def add(self, key: str, kind: str, /, **properties: Any) -> str:
        """Add an entity, or what is new of one; properties that are none are left out."""
        entity = self.entities.setdefault(key, {"@id": key, "@type": kind})
        entity.update({name: value for name, value in properties.items() if value is not None})
        return key

    def add_file(self, path: str, now: Path | None = None, whole: str | None = None, **properties: Any) -> str:
        """Add a file of the crate, which may lie elsewhere as yet, and may be part of a folder."""
        file = now or self._folder / path
        identifier = self.add(
            quote(path),
            "File",
            name=path,
            contentSize=str(file.stat().st_size),
            sha256=checksum(file),
            encodingFormat=FORMATS.get(Path(path).suffix, "application/octet-stream"),
            **properties,
        )
        if not whole and identifier not in self.parts:
            self.parts.append(identifier)
        return identifier

    def add_outputs(self, run: StageRun) -> None:
        """Add the files and folders that a stage made, which must be as it left them, and its record."""
        for name, digest in run.record["outputs_sha256"].items():
            path = f"{run.folder}{name}"
            if not (self._folder / path).exists() or checksum(self._folder / path) != digest:
                raise StageError(
                    f"{run.name}{RECORD}: {name}: not in the folder as {run.record['stage']} made it; delete this"
                    " record and run the workflow again"
                )
            added = self._add_output(path, run)
            self._made.setdefault(digest, []).append(added)
            self._results.setdefault(run.name, []).append(added)
            self._digests.setdefault(name, {})[added] = digest
        self.add_file(f"{run.name}{RECORD}", about=_ref(f"#run/{run.name}"))

    def _add_output(self, path: str, run: StageRun) -> str:
        description = f"Made by {run.record['stage']}"
        if (self._folder / path).is_file():
            return self.add_file(path, description=description)
        inside = [file for file in sorted((self._folder / path).rglob("*")) if file.is_file() and file.name != STAMP]
        files = [self.add_file(file.relative_to(self._folder).as_posix(), whole=path) for file in inside]
        identifier = self.add(f"{quote(path)}/", "Dataset", name=path, description=description, hasPart=_ref(*files))
        self.parts.append(identifier)
        return identifier

    def add_run(self, run: StageRun) -> None:
        """Add a run of a stage with all that it took."""
        record, action = run.record, f"#run/{run.name}"
        settings = self.add(
            f"{action}/settings",
            "PropertyValue",
            name=f"settings of {record['stage']}",
            value=json.dumps(record["settings"], sort_keys=True),
        )
        usage = [
            self.add(
                f"{action}/{key}", "PropertyValue", name=key, propertyID=meaning, unitCode=unit, value=str(record[key])
            )
            for key, (meaning, unit) in USAGE.items()
        ]
        self.add(
            action,
            "CreateAction",
            name=f"Run of {record['stage']}",
            description=_where(record),
            startTime=record["started"],
            endTime=record["finished"],
            instrument=_ref(f"#{record['program']}"),
            object=_ref(*self._inputs(record), settings),
            result=_ref(*self._results[run.name]),
            resourceUsage=_ref(*usage),
            subjectOf=_ref(quote(f"{run.name}{RECORD}")),
        )
        step = self.add(f"#step/{record['stage']}", "HowToStep", workExample=_ref(f"#{record['program']}"))
        self.add(f"#control/{run.name}", "ControlAction", instrument=_ref(step), object=_ref(action))

    def _inputs(self, record: Mapping[str, Any]) -> Iterator[str]:
        """What a stage was given: outputs of others, or files of the user, of which there is the checksum alone."""
        named = {f"file named in the settings of {record['stage']}": each for each in _checksums(record["settings"])}
        for role, digest in (record["inputs_sha256"] | named).items():
            if digest in self._made:
                yield from self._made[digest]
            elif several := self._several.get(digest):
                yield from several
            else:
                yield self.add(
                    f"#{BY_CHECKSUM}{digest}",
                    "CreativeWork",
                    name=role,
                    sha256=digest,
                    description=f"Given to {record['stage']}; no part of this crate",
                )

    @cached_property
    def _several(self) -> dict[str, list[str]]:
        """Files that are made on each lattice, by the checksum of all of them."""
        return {combined(each.values()): list(each) for each in self._digests.values() if len(each) > 1}

    def _add_tool(self, program: str, runs: Sequence[StageRun]) -> str:
        """Add the program of a stage with the versions of what it is made of, several where its runs had several."""
        said = [run.record["versions"] for run in runs if run.record["program"] == program]
        code = [_code(each) for each in said]
        packages = [
            self.add(f"#{name}-{quote(version)}", "SoftwareApplication", name=name, softwareVersion=version)
            for each in said
            for name, version in each.items()
            if not name.startswith("hemolattice")
        ]
        return self.add(
            f"#{program}",
            "SoftwareApplication",
            name=program,
            version=" and ".join(dict.fromkeys(code)),
            softwareRequirements=_ref(*packages),
        )

    def add_workflow(self, runs: Sequence[StageRun], included: Sequence[str]) -> None:
        """Add the workflow with its steps, the files that it includes, and its run."""
        tools = [self._add_tool(program, runs) for program in dict.fromkeys(run.record["program"] for run in runs)]
        steps = list(dict.fromkeys(f"#step/{run.record['stage']}" for run in runs))
        for position, step in enumerate(steps, 1):
            self.add(step, "HowToStep", position=str(position))
        self.add(
            SNAKEMAKE,
            "ComputerLanguage",
            name="Snakemake",
            url="https://snakemake.readthedocs.io",
            identifier="https://doi.org/10.1093/bioinformatics/bts480",
        )
        self.add("#licence", "CreativeWork", name="Use of the results", description=USE)
        self.add(LICENCE, "CreativeWork", name="Apache License 2.0", identifier="Apache-2.0", url=LICENCE)
        newest = runs[-1].record["versions"]
        self.entities[WORKFLOW]["@type"] = ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"]
        for path in map(quote, included):
            self.entities[path]["@type"] = ["File", "SoftwareSourceCode"]
            self.add(path, "File", description="Included by the workflow", programmingLanguage=_ref(SNAKEMAKE))
        self.add(
            WORKFLOW,
            "File",
            name="HemoLattice",
            description="The workflow; its programs have a version of their own",
            version=_code(newest),
            programmingLanguage=_ref(SNAKEMAKE),
            license=_ref(LICENCE),
            step=_ref(*steps),
            hasPart=_ref(*map(quote, included), *tools),
        )
        given = [key for key, entity in self.entities.items() if key.startswith(f"#{BY_CHECKSUM}")]
        self.add(
            "#run",
            "CreateAction",
            name="Run of the workflow",
            description="All stages of the case",
            instrument=_ref(WORKFLOW),
            startTime=min(run.record["started"] for run in runs),
            endTime=max(run.record["finished"] for run in runs),
            object=_ref(CASE, *given),
            result=_ref(*(each for made in self._results.values() for each in made)),
        )
        self.add(
            "#engine",
            "OrganizeAction",
            name="Run of Snakemake",
            instrument=_ref(f"#snakemake-{quote(newest['snakemake'])}"),
            object=_ref(*(f"#control/{run.name}" for run in runs)),
            result=_ref("#run"),
        )


def _checksums(settings: Any) -> Iterator[str]:
    """Of the files that settings name."""
    if isinstance(settings, str) and settings.startswith(BY_CHECKSUM):
        yield settings.removeprefix(BY_CHECKSUM)
    elif isinstance(settings, list | dict):
        for each in settings.values() if isinstance(settings, dict) else settings:
            yield from _checksums(each)


def _code(said: Mapping[str, str]) -> str:
    """Commit of the project, or checksum of its source where there is none."""
    return said.get("hemolattice_commit", said["hemolattice_source"])


def _where(record: Mapping[str, Any]) -> str:
    """On what a stage ran, in a line."""
    host = record["host"]
    device = [f"on {record['device']}"] if "device" in record else []
    driver = [f"driver {record['driver']}"] if "driver" in record else []
    return ", ".join(
        [*device, *driver, f"{host['processor'] or host['machine']}, {host['cores']} cores", host["system"]]
    )


def kinds_of(entity: Entity) -> list[str]:
    """Types of an entity, which may have one or several."""
    return entity["@type"] if isinstance(entity["@type"], list) else [entity["@type"]]
