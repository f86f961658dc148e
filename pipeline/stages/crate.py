"""Crate: the folder of a case's results as an RO-Crate, which says how each file was made and how to make it again.

The crate follows Provenance Run Crate 0.5: the workflow, its steps, and each run of a stage with its inputs, outputs,
settings, versions, times and memory, as the stage's own record has them (``*.provenance.json``). Beside it lie the case
with all its settings, as a file for ``config/cases/``, and the workflow. Inputs appear by role and checksum.

With ``--check`` it compares a crate with its files, and with this project or with another crate.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from pydantic import Field

from pipeline.case.settings.base import RunName, Section, parse
from pipeline.case.settings.yaml_file import write_yaml
from solver.runtime.checksums import BY_CHECKSUM, STAMP, by_checksum, checksum, combined
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job, versions

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

OF_THE_RUN = {"solve.json", "report.html", "open-in-paraview.py"}
"""Outputs that hold how long a run took or how it is called, and so differ from run to run."""

HEAD = """\
# The case as it ran, with all settings. To run it again, copy this file to config/cases/NAME.yaml and give
# `snakemake --cores all --config cases=NAME`. What begins with sha256: stands for the file with that checksum: those of
# data/phantoms and data/waveforms are found, in place of others write where the file is.
"""

Entity = dict[str, Any]


class CrateInput(Section):
    """What the command line takes: the case with all its settings, and how its run is called."""

    run: RunName
    case: dict[str, Any] = Field(description="all sections of the case file, after defaults")


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
        """In which its record and its outputs lie: nothing, or ``coarser-1/``."""
        return self.name.removesuffix(self.record["stage"])


def case_again(case: Mapping[str, Any], runs: Sequence[StageRun]) -> dict[str, Any]:
    """A case file that makes the same results, and that names neither a file nor a patient.

    Parameters
    ----------
    case : all sections of the case, after defaults.
    runs : of its stages.

    Returns
    -------
    The sections with checksums in place of paths, what chooses a series or a segment as the stage's record has it, and
    the backend that the flow was solved on.
    """
    records = {run.name: run.record for run in runs}
    again = by_checksum(case)
    if load := records.get("load"):
        again["load"] = load["settings"]
        given = [key for key in ("dicom", "volume") if case["input"][key]]
        again["input"] |= dict.fromkeys(given, BY_CHECKSUM + load["inputs_sha256"]["source"])
    if mask := records.get("import_mask"):
        again["input"]["mask_segment"] = mask["settings"]["segment"]
    if solve := records.get("solve"):
        again["solve"]["backend"] = "cpu" if solve["device"].startswith("CPU") else "cuda"
    return again


def crate(folder: Path, run: str, description: str, runs: Sequence[StageRun], added: Mapping[str, Path]) -> Entity:
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
        needed = (*NEEDED.get(key, ()), *NEEDED.get(_kinds(entity)[0], ()))
        found += [f"{key}: {need}: missing" for need in needed if need not in entity]
    reached = _reached(entities)
    for key, entity in entities.items():
        if {*_kinds(entity)} & {"File", "Dataset"}:
            found += [] if key in reached else [f"{key}: no part of the crate"]
            found += _faults_of_file(folder, entity) if "File" in _kinds(entity) else []
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


def _record(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise StageError(f"{path}: no record of a stage; delete it and run the workflow again") from None
    return document


def _kinds(entity: Entity) -> list[str]:
    return entity["@type"] if isinstance(entity["@type"], list) else [entity["@type"]]


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
    return [StageRun(name, _record(folder / f"{name}{RECORD}")) for name in names]


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


def _made_by(runs: Sequence[StageRun]) -> dict[str, str]:
    """Versions, processor and device by which a crate was made, several where stages had other ones."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        said = run.record["versions"] | {"processor": run.record["host"]["processor"]}
        for name, value in (said | {key: run.record[key] for key in ("device", "driver") if key in run.record}).items():
            found.setdefault(name, {})[value] = None
    return {name: " and ".join(values) for name, values in found.items()}


def check() -> int:
    """Command line that compares a crate with its files, and with this project or another crate; 1 if it is not so."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.crate", description=check.__doc__)
    parser.add_argument("--check", nargs="+", type=Path, required=True, metavar="FOLDER", help="one crate, or two")
    folders = parser.parse_args().check[:2]
    try:
        wrong = [f"{folder}: {fault}" for folder in folders for fault in faults(folder)]
        both = [read_runs(folder) for folder in folders] if not wrong else []
    except StageError as error:
        print(f"crate: error: {error}", file=sys.stderr)
        return 1
    if wrong:
        print("\n".join(wrong))
        return 1
    print("\n".join(f"{folder}: all files are as it says" for folder in folders))
    made = _made_by(both[0])
    beside, where = (_made_by(both[1]), str(folders[1])) if len(both) == 2 else (versions(), "here")
    for name in made.keys() & beside.keys():
        if made[name] != beside[name]:
            print(f"{name}: {made[name]}; {where}: {beside[name]}")
    changed = differences(*both) if len(both) == 2 else []
    if len(both) == 2:
        print("\n".join(changed) or "the same bits in all results")
    return int(bool(changed))


def _compute(job: Job) -> None:
    given = parse(CrateInput, job.settings, "--settings")
    folder = job.outputs["metadata"].parent
    runs = [_run_of(path, folder) for path in job.lists["records"]]
    again = case_again(given.case, runs)
    job.outputs["case"].write_text(HEAD + write_yaml(again), encoding="utf-8")
    shutil.copyfile(job.inputs["snakefile"], job.outputs["workflow"])
    added = {CASE: job.outputs["case"], WORKFLOW: job.outputs["workflow"]}
    job.outputs["workflow-rules"].mkdir()
    for path in job.lists["rules"]:
        added[RULES + path.name] = Path(shutil.copy(path, job.outputs["workflow-rules"]))
    metadata = crate(folder, given.run, given.case.get("description", ""), runs, added)
    job.outputs["metadata"].write_text(json.dumps(metadata, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    job.settings = {"run": given.run, "case": again}
    files = [entity for entity in metadata["@graph"] if "File" in _kinds(entity)]
    size = sum(int(entity["contentSize"]) for entity in files)
    job.log.info("%d files, %.3g MB, %d runs of stages", len(files), size / 1e6, len(runs))


def _run_of(path: Path, folder: Path) -> StageRun:
    if folder not in path.parents or not path.name.endswith(RECORD):
        raise StageError(f"--records {path}: no record of a stage in {folder}, which is to be the crate; leave it out")
    return StageRun(path.relative_to(folder).as_posix().removesuffix(RECORD), _record(path))


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(check())
    run_stage(
        "crate",
        __doc__,
        inputs={
            "records": "how each stage of the case made its files (*.provenance.json), in the order of the stages",
            "snakefile": "the workflow",
            "rules": "files of rules that it includes",
        },
        outputs={
            "metadata": "ro-crate-metadata.json, in the folder of the results",
            "case": "case.yaml, beside it: the case with all its settings",
            "workflow": "workflow.smk, beside it: the workflow",
            "workflow-rules": "pipeline/rules, below it: a folder for the files that it includes",
        },
        compute=_compute,
        several=("records", "rules"),
    )
