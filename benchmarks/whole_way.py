# SPDX-License-Identifier: Apache-2.0
"""The whole way: inputs drawn at random go by the command from `hemolattice new` to the report.

    python benchmarks/whole_way.py --folder tried --kinds 'coronal|flow-.*' --seeds 100 102

Each becomes a case with seeds, flow and, by chance, a threshold, in a folder of its own. What a refusal advises is read
out of what the command prints and followed to the letter (tests/support/advice.py). Kept are the way there, volumes and
places of openings beside the truth, how the flow ended and divides, failed checks, marks, and seconds of stages.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import default_file, provenance  # noqa: E402
from comparison import table  # noqa: E402
from strangers import WIDE, advice_of, of_image  # noqa: E402

from tests.support import strangers  # noqa: E402
from tests.support.advice import Refusal, Values, follow, merged  # noqa: E402

NAME = "case1"
REFUSED = re.compile(rf"^{NAME}: (\w+): (.*?)(?=^Next: |\Z)", re.MULTILINE | re.DOTALL)
APART = 2.0
"""Radii of an opening by which it may lie from a true end: cuts lie within the tip."""


class Command:
    """The command in a folder, as a user calls it."""

    def __init__(self, folder: Path, cores: str, most_nodes: int):
        self.folder, self.cores, self.most_nodes = folder, cores, most_nodes
        self.said: list[str] = []

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        line = [sys.executable, "-m", "pipeline.command", *words]
        done = subprocess.run(
            line, cwd=self.folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        self.said.append(f"$ hemolattice {' '.join(words)}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}")
        return done

    def run(self, values: Values) -> Refusal | None:
        """Write the case file and run it; the refusal, or none where there is a report."""
        file = self.folder / "config" / "cases" / f"{NAME}.yaml"
        if not file.exists():
            made = self("new", NAME, *_entry(values))
            if made.returncode:
                return Refusal("new", made.stderr.strip())
        limit: Values = {"voxelize": {"most_nodes": self.most_nodes}}
        file.write_text(yaml.safe_dump(merged(limit, values)), encoding="utf-8")
        done = self("run", NAME, "--cores", self.cores)
        if done.returncode == 0:
            return None
        match = REFUSED.search(done.stderr)
        return Refusal(match[1], match[2].strip()) if match else Refusal("case", done.stderr.strip())


def _entry(values: Values) -> list[str]:
    """Options of `new` that a case stands for."""
    given = values["input"]
    entry = next(key for key in ("dicom", "volume", "mask", "surface") if key in given)
    unit = ["--unit", given["surface_unit"]] if "surface_unit" in given else []
    flow = next(iter(values["solve"]["inlets"].values())).get("flow_ml_s", 1.0)
    return [f"--{entry}", str(given[entry]), *unit, "--flow", str(flow)]


def _add_row(folder: Path) -> Callable[[str], None]:
    """What adds the row that a refusal of a flow over time names, in a file whose heads are those of the project."""

    def added(said: str) -> None:
        if match := re.search(r"add a row of (\S+) for time_s and (\S+) for flow_ml_s;", said):
            with (folder / "given" / "flow.csv").open("a", encoding="utf-8") as stream:
                stream.write(f"{match[1]},{match[2]}\n")

    return added


def tried(kind: str, seed: int, folder: Path, command: Command) -> dict[str, Any]:
    """Make and run one."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "given").mkdir(parents=True)
    maker = of_image if kind in strangers.IMAGES else strangers.given
    case, truth = maker(kind, seed, folder / "given")
    began, ended = time.time(), ""
    way: list[Any] = []
    try:
        steps = follow(command.run, case, {"row": _add_row(folder)})
        way = [[step.refusal.stage, step.refusal.said, step.taken and step.taken.text] for step in steps]
        ended = "" if not steps or steps[-1].taken else f"no setting: {steps[-1].refusal.said}"
    except AssertionError as error:
        ended = str(error)
    found = {"case": case, **truth, "way": way, "ended": ended, "seconds": round(time.time() - began)}
    if any("Traceback" in text for text in command.said):
        found["traceback"] = True
    (folder / "said.txt").write_text("\n\n".join(command.said), encoding="utf-8")
    if ended:
        return found | {"verdict": "refused"}
    found |= judged(folder / "results" / NAME, truth)
    for step in steps:
        case = merged(case, step.taken.settings if step.taken else {})
    found["advice"] = advice_of(found["failed"], case)
    return found


def judged(folder: Path, truth: dict[str, Any]) -> dict[str, Any]:
    """What came to a report, against the truth."""
    surface = json.loads((folder / "openings.json").read_text())
    quality, openings = surface["quality"], surface["openings"]
    cut_ml = sum(end["volume_mm3"] for end in quality.get("cut_ends", ())) / 1000
    mask_ml = (quality.get("mask_volume_mm3") or 0) / 1000
    found: dict[str, Any] = {"mask_ml": mask_ml or None, "surface_ml": quality["volume_mm3"] / 1000, "cut_ml": cut_ml}
    whole = found["surface_ml"] + (cut_ml if mask_ml else 0)
    found["error"], found["surface_error"] = (mask_ml or whole) / truth["true_ml"] - 1, whole / truth["true_ml"] - 1
    found["openings"] = len(openings)
    found["far"] = _far(openings, np.array(truth["ends_mm"])) if truth.get("ends_mm") else None
    checks = json.loads((folder / "plausibility.json").read_text())["checks"]
    found["failed"] = [f"{check['name']}: {check.get('advice')}" for check in checks if not check["passed"]]
    found["flow"] = _flow(folder)
    true = len(truth["ends_mm"]) if truth.get("ends_mm") else truth["true_openings"]
    wrong = [
        *(["volume"] if max(abs(found["error"]), abs(found["surface_error"])) > WIDE else []),
        *(["openings"] if found["openings"] != true or (found["far"] or 0) > APART else []),
        *_wrong_flow(found["flow"], truth),
    ]
    found["wrong"] = wrong
    marked = found["failed"] or any(state == "not usable" for state in found["flow"]["trust"].values())
    found["verdict"] = "right" if not wrong else "wrong, marked" if marked else "WRONG, GREEN"
    return found


def _far(openings: list[dict[str, Any]], ends: np.ndarray) -> float:
    """The largest distance of an opening from the true end next to it, in radii of the opening."""
    places = [(np.array(each["centre_mm"]), each["radius_mm"]) for each in openings]
    return float(max(np.linalg.norm(ends - place, axis=1).min() / radius for place, radius in places))


def _flow(folder: Path) -> dict[str, Any]:
    """How the flow ended, what goes through each opening, and what figures are worth."""
    solved, indices = (json.loads((folder / name).read_text()) for name in ("solve.json", "indices.json"))
    rows = [line.split(",") for line in (folder / "openings.csv").read_text().splitlines()]
    return {
        "state": solved["state"],
        "steps": solved["steps"],
        "openings": [dict(zip(rows[0], row, strict=True)) for row in rows[1:]],
        "trust": {each["figures"]: each["state"] for each in indices["trust"]},
        "unusual": list(solved.get("warnings", ())),
    }


def _wrong_flow(flow: dict[str, Any], truth: dict[str, Any]) -> list[str]:
    """What is wrong with the flow: what comes in leaves, in no outlet nothing or backwards; a file's flow is met."""
    through = {each["name"]: (each["role"], float(each["flow_ml_s"])) for each in flow["openings"]}
    inflow = sum(abs(value) for role, value in through.values() if role == "inlet")
    outflow = sum(abs(value) for role, value in through.values() if role == "outlet")
    wrong = ["balance"] if abs(outflow / inflow - 1) > 0.02 else []
    if any(abs(value) < 0.005 * inflow for _, value in through.values()):
        wrong.append("split")
    if "mean_ml_s" in truth and abs(inflow / truth["mean_ml_s"] - 1) > 0.02:
        wrong.append("inflow")
    return wrong


def row(name: str, found: dict[str, Any]) -> list[str]:
    """Of the table."""
    volumes = [f"{100 * found[key]:+.1f}" if key in found else "" for key in ("error", "surface_error")]
    way = "; ".join(f"{stage}: {said[:80]} -> {taken}" for stage, said, taken in found["way"])
    flow = found.get("flow") or {}
    return [
        name,
        found["verdict"],
        *volumes,
        f"{found.get('openings', '')} of {found['true_openings']}",
        f"{flow.get('state', '')}, {flow.get('steps', '')}",
        " / ".join([*found.get("wrong", ()), *found.get("failed", ())])[:160],
        way,
        found["ended"][:400],
        str(found["seconds"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for what is drawn and made")
    parser.add_argument("--kinds", default=".*", help="regular expression that names of kinds fit as a whole")
    parser.add_argument("--seeds", type=int, nargs=2, default=(100, 101), help="from, and up to but not with")
    parser.add_argument("--cores", default="1")
    parser.add_argument("--most-nodes", type=int, default=300_000, help="of the lattices (voxelize.most_nodes)")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by date")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    records = {}
    file = options.json
    for kind in (*strangers.IMAGES, *strangers.GIVEN):
        for seed in range(*options.seeds) if re.fullmatch(options.kinds, kind) else ():
            name = f"{kind}-{seed}"
            folder = options.folder.resolve() / name
            command = Command(folder, options.cores, options.most_nodes)
            records[name] = tried(kind, seed, folder, command)
            print(" | ".join(row(name, records[name])), flush=True)
            results = {**provenance(options), "records": records}
            file = file or default_file("whole-way", results["hardware"])
            file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    columns = ["input", "verdict", "mask, %", "surface, %", "openings", "flow", "wrong or failed", "way", "ended", "s"]
    print(table(columns, [row(name, each) for name, each in records.items()]), file, sep="\n\n")


if __name__ == "__main__":
    main()
