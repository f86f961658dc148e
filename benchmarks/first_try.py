# SPDX-License-Identifier: Apache-2.0
"""First try: what the workflow makes of inputs that it was not written for, by the README's steps.

    HEMO_CASES=... python benchmarks/first_try.py --folder tried --until lattice
    HEMO_CASES=... python benchmarks/first_try.py --folder tried --until report

Each input of benchmarks/first_try.yaml becomes a case with nothing but its seeds, region, threshold where these are
given, and its flow. The workflow runs them, in a copy of the project, to the lattice (with plausibility) or to the
report. For each it is kept in benchmarks/results, and printed, how it ended, the volume beside the true one or the
reference, the openings beside those that there are, and what its figures are worth. Nothing is removed, so that a
second call goes on.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import add_results, write_results  # noqa: E402
from comparison import table  # noqa: E402

from tests.support.project_copy import copy_project  # noqa: E402

INPUTS = ROOT / "benchmarks" / "first_try.yaml"
TARGETS = {"lattice": ("nodes.h5", "plausibility.json"), "report": ("report.html",)}
FILES = ("dicom", "volume", "mask", "surface")
"""Keys of a case's input that name a file."""


def write_cases(project: Path, wanted: dict[str, Any]) -> list[str]:
    """Write phantoms and case files into a copy of the project; names of the cases whose input is there."""
    for name, phantom in wanted["phantoms"].items():
        (project / "data/phantoms" / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, **phantom}))
    real, names = os.environ.get("HEMO_CASES"), []
    for name, given in wanted["cases"].items():
        case: dict[str, Any] = {"solve": {"inlets": {"*": {"flow_ml_s": given["flow_ml_s"]}}}}
        case |= {section: given.get(section, {}) for section in ("filter", "segment")}
        if name in wanted["phantoms"]:
            centre = wanted["phantoms"][name]["image"]["centre_mm"]
            case["input"] = {"phantom": f"data/phantoms/{name}.yaml"}
            case["segment"]["seeds_mm"] = [[a + b for a, b in zip(centre, given["seed"], strict=True)]]
        elif real:
            at = {key: str(Path(real).resolve() / value) for key, value in given["input"].items() if key in FILES}
            case["input"] = given["input"] | at
        else:
            print(f"{name}: left out, HEMO_CASES names no folder")
            continue
        if "surface" in case["input"]:
            del case["filter"], case["segment"]
        (project / "config/cases" / f"{name}.yaml").write_text(yaml.safe_dump(case))
        names.append(name)
    return names


def run(project: Path, names: list[str], until: str, cores: str) -> None:
    """Run the cases as far as each goes."""
    targets = [f"results/{name}/{file}" for name in names for file in TARGETS[until]]
    command = [sys.executable, "-m", "snakemake", "--cores", cores, "--keep-going", "--quiet", "rules", "--config"]
    subprocess.run([*command, f"cases={','.join(names)}", "--", *targets], cwd=project, check=False)


def record(folder: Path, given: dict[str, Any]) -> dict[str, Any]:
    """How a case ended, and its figures as far as they were made."""
    found: dict[str, Any] = {"refusal": _refusal(folder), "seconds": _seconds(folder)}
    truth = _json(folder / "truth.json")
    found["true_ml"] = truth["volume_mm3"] / 1000 if truth else given.get("reference_ml")
    if surface := _json(folder / "openings.json"):
        quality = surface["quality"]
        found["mask_ml"] = quality.get("mask_volume_mm3", 0) / 1000 or None
        found["surface_ml"] = quality["volume_mm3"] / 1000
        found["cut_off_ml"] = sum(end["volume_mm3"] for end in quality.get("cut_ends", ())) / 1000
        found["openings"], found["true_openings"] = len(surface["openings"]), given.get("openings")
    if lattice := _json(folder / "voxelize.provenance.json"):
        found["lattice"] = {key: value for key, value in lattice.items() if isinstance(value, int | float)}
    if reported := _json(folder / "plausibility.json"):
        found["unusual"] = [check["name"] for check in reported["checks"] if not check["passed"]]
    if solved := _json(folder / "solve.json"):
        found["steps"], found["state"] = solved.get("steps"), solved.get("state")
    if indices := _json(folder / "indices.json"):
        found["trust"] = {each["figures"]: each["state"] for each in indices["trust"]}
    found["report"] = (folder / "report.html").exists()
    return found


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _refusal(folder: Path) -> str:
    """What the stage that failed said last; empty where none did."""
    logs = sorted((folder / "logs").glob("*.log"), key=lambda log: log.stat().st_mtime)
    said = [re.search(r"error: (.*)", log.read_text(encoding="utf-8")) for log in logs]
    return next((f"{log.stem}: {match[1]}" for log, match in zip(logs, said, strict=True) if match), "")


def _seconds(folder: Path) -> dict[str, float]:
    """Time of each stage, by its record."""
    records = {path.name.removesuffix(".provenance.json"): _json(path) for path in folder.glob("*.provenance.json")}
    return {stage: each["seconds"] for stage, each in records.items()}


def tell(records: dict[str, dict[str, Any]]) -> str:
    """The table."""
    columns = [
        "input",
        "ended in",
        "true or reference, mL",
        "mask, mL",
        "surface, mL",
        "cut off at ends, mL",
        "openings",
        "flow",
        "figures not good",
        "unusual",
    ]
    return table(columns, [[name, *_row(each)] for name, each in records.items()])


def _row(found: dict[str, Any]) -> list[str]:
    volumes = [found.get(key) for key in ("true_ml", "mask_ml", "surface_ml", "cut_off_ml")]
    ended = found["refusal"] or ("report" if found["report"] else "lattice" if "lattice" in found else "not run")
    wanted = f" of {found['true_openings']}" if found.get("true_openings") else ""
    openings = f"{found['openings']}{wanted}" if "openings" in found else ""
    flow = f"{found['state']}, {found['steps']} steps" if "state" in found else ""
    doubted = [f"{figures}: {state}" for figures, state in found.get("trust", {}).items() if state != "good"]
    return [
        ended,
        *("" if volume is None else f"{volume:.3g}" for volume in volumes),
        *(openings, flow, ", ".join(doubted), ", ".join(found.get("unusual", ()))),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for the copy of the project and its results")
    parser.add_argument("--until", choices=TARGETS, default="report", help="how far")
    parser.add_argument("--only", default=".*", help="regular expression that names of inputs fit as a whole")
    parser.add_argument("--cores", default="all")
    add_results(parser)
    options = parser.parse_args()
    wanted = yaml.safe_load(INPUTS.read_text(encoding="utf-8"))
    project = options.folder.resolve() / "project"
    if not project.exists():
        copy_project(project)
    names = [name for name in write_cases(project, wanted) if re.fullmatch(options.only, name)]
    run(project, names, options.until, options.cores)
    records = {name: record(project / "results" / name, wanted["cases"][name]) for name in names}
    file = write_results(options, "first-try", records)
    print(tell(records), file, sep="\n\n")


if __name__ == "__main__":
    main()
