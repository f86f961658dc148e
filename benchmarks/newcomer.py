# SPDX-License-Identifier: Apache-2.0
"""A first day with HemoLattice: what a newcomer types in an empty folder, and what is answered.

    python benchmarks/newcomer.py docs/first-day.md

Installs the checkout into a new environment, as `pip install .` does, then goes from `hemolattice check` to a cohort,
with a mistake in each part. Every answer is kept as it was printed, but for paths and for the middle of long ones. A
step that ends otherwise than a reader is told makes the script fail.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from vtkmodules.vtkFiltersCore import vtkTubeFilter
from vtkmodules.vtkFiltersSources import vtkLineSource
from vtkmodules.vtkIOGeometry import vtkSTLWriter

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from pipeline.case.settings.base import parse  # noqa: E402
from pipeline.case.settings.yaml_file import read_yaml  # noqa: E402
from pipeline.files.volume import Volume  # noqa: E402
from pipeline.stages.phantom import PhantomSettings, SeriesHeader, synthesize, write_series  # noqa: E402

HOME = "/home/you/study"
LINES = 26
"""Of an answer that are shown at most: the first eight and the last."""
CASE = """\
input: {dicom: data/patients/scan}
segment: {seeds_mm: [[4.82, 13.27, -35.22]]}
voxelize: {nodes_across: 12}
solve: {inlets: {"*": {flow_ml_s: 1.0}}}
"""
SCENARIOS = """\
cohort: config/cohort.csv
scenarios:
  rest: {}
  exercise: {solve: {inlets: {"*": {flow_ml_s: 1.5}}}}
"""
COHORT = """\
case,file,input.mask
p01,tube,data/patients/p01.nrrd
p02,tube,data/patients/p02.nrrd
p03,tube,data/patients/p03.nrrd
"""
TUBE = 'input: {mask: data/patients/p01.nrrd}\nvoxelize: {nodes_across: 10}\nsolve: {inlets: {"*": {flow_ml_s: 1.0}}}\n'


@dataclass(frozen=True)
class Step:
    """A line of text, what is typed or written, and how it ends."""

    said: str
    typed: str = ""
    fails: bool = False
    file: str = ""
    text: str = ""


STEPS = (
    Step("## Install", "pip install --quiet hemolattice/"),
    Step("", "hemolattice check"),
    Step("## The demo", "hemolattice demo"),
    Step(
        "## Your own DICOM\n\nA folder that is not there, and the right one:",
        "hemolattice new scan --dicom data/patients/scam --flow 1.0",
        fails=True,
    ),
    Step("", "hemolattice new scan --dicom data/patients/scan --flow 1.0"),
    Step("", "hemolattice run scan"),
    Step(
        "On its page a click sets the seed, and *Copy* gives a case file. A seed outside of the image:",
        "hemolattice pick scan",
    ),
    Step("", file="config/cases/scan.yaml", text=CASE.replace("4.82", "14.82")),
    Step("", "hemolattice run scan", fails=True),
    Step(
        "## Your own surface\n\nA file does not tell its unit:",
        "hemolattice new vessel --surface vessel.stl --flow 1.0",
        fails=True,
    ),
    Step("", "hemolattice new vessel --surface vessel.stl --unit mm --flow 1.0"),
    Step("", "hemolattice run vessel"),
    Step(
        "## A cohort of three in two conditions\n\nThe case that all share, the conditions, and a table with a slip:",
        file="config/cases/tube.yaml",
        text=TUBE,
    ),
    Step("", file="config/config.yaml", text=SCENARIOS),
    Step("", file="config/cohort.csv", text=COHORT.replace("p02.nrrd", "p20.nrrd")),
    Step("", "hemolattice run", fails=True),
    Step("", file="config/cohort.csv", text=COHORT),
    Step("", "hemolattice run"),
    Step("", "hemolattice status"),
)


def images(folder: Path) -> None:
    """What a newcomer brings: a series of a small fork, a surface of a tube, three masks."""
    made = synthesize(parse(PhantomSettings, read_yaml(ROOT / "data/phantoms/tiny.yaml"), "tiny.yaml"))
    write_series(made.image, folder / "data/patients/scan", SeriesHeader("tiny", 2, "tiny", "AXIAL", 1.0))
    z, y, x = np.indices((48, 17, 17)) * 0.4
    for case, narrowing in {"p01": 0.0, "p02": 0.3, "p03": 0.5}.items():
        radius_mm = 2.0 * (1 - narrowing * np.exp(-(((z - 9.4) / 2) ** 2)))
        mask = (np.hypot(x - 3.2, y - 3.2) < radius_mm).astype(np.uint8)
        image = Volume(mask, (0.4, 0.4, 0.4), (0.0, 0.0, 0.0), np.eye(3))
        image.write(folder / f"data/patients/{case}.nrrd")
    line, pipe, writer = vtkLineSource(), vtkTubeFilter(), vtkSTLWriter()
    line.SetPoint2(6.0, 3.0, 18.0)
    line.SetResolution(40)
    pipe.SetInputConnection(line.GetOutputPort())
    pipe.SetRadius(1.5)
    pipe.SetNumberOfSides(48)
    pipe.CappingOn()
    writer.SetInputConnection(pipe.GetOutputPort())
    writer.SetFileName(str(folder / "vessel.stl"))
    writer.Write()


def typed(step: Step, folder: Path, environment: dict[str, str]) -> str:
    """What is answered, and how long it took.

    Raises
    ------
    RuntimeError : the step ends otherwise than it says.
    """
    begin = time.perf_counter()
    command = step.typed.replace("hemolattice/", f"{ROOT}/")
    print(f"$ {step.typed}", flush=True)
    ended = subprocess.run(
        command, shell=True, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    answer = _anonymous(ended.stdout, folder)
    if (ended.returncode != 0) != step.fails:
        raise RuntimeError(f"{step.typed} ended with {ended.returncode}:\n{answer}")
    lines = answer.rstrip().splitlines()
    if len(lines) > LINES:
        lines = [*lines[:8], f"... {len(lines) - LINES + 1} lines more", *lines[9 - LINES :]]
    end = f"(exit status {ended.returncode}, " if step.fails else "("
    return "\n".join((f"$ {step.typed}", *lines, f"{end}{time.perf_counter() - begin:.0f} s)"))


def _anonymous(text: str, folder: Path) -> str:
    """Without escape sequences and paths of this machine."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n")
    for path in {folder, folder.resolve()}:
        plain = plain.replace(str(path), HOME)
    return plain.replace(str(ROOT), f"{HOME}/hemolattice").replace(str(Path.home()), "/home/you")


def page(folder: Path) -> str:
    """The transcript, in Markdown."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV", "HEMO_"))}
    environment = kept | {"PATH": f"{folder / 'env/bin'}:{os.environ['PATH']}", "HOME": str(folder)}
    images(folder)
    parts = [
        "# A first day",
        "What a newcomer types in an empty folder, and what is answered: made by `python benchmarks/newcomer.py`, which"
        " fails where a step ends otherwise. Seconds are of two cores, shared with others. The folder holds a series"
        " in `data/patients/scan`, three masks beside it, and `vessel.stl`.",
    ]
    for step in STEPS:
        parts += [step.said] if step.said else []
        if step.file:
            to = folder / step.file
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(step.text)
            parts.append(f"`{step.file}`:\n\n```{to.suffix[1:]}\n{step.text}```")
        else:
            parts.append(f"```text\n{typed(step, folder, environment)}\n```")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, help="file to write")
    to = parser.parse_args().page
    with tempfile.TemporaryDirectory() as made:
        to.write_text(page(Path(made)))


if __name__ == "__main__":
    main()
