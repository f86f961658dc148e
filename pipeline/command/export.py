# SPDX-License-Identifier: Apache-2.0
"""Export: results of a case as others take them, into a folder that the user names.

DICOM objects hold who the patient is, since an archive files them by that. So they are made only when they are asked
for, from the images at that moment, and never below results/.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.command.cases import name_of
from pipeline.command.run import report_of
from pipeline.command.version import version
from pipeline.dicom.objects import write_objects
from pipeline.dicom.source import Source, find_source
from pipeline.files.json_file import read_json
from pipeline.files.mesh import read_openings
from pipeline.geometry.branches.branch_files import read_branches
from pipeline.reporting.measurements import measurements
from pipeline.reporting.printed import printed_report
from pipeline.reporting.slicer import write_centreline, write_model, write_openings, write_seeds
from pipeline.workflow.recovery import RESULTS
from solver.runtime.errors import StageError

WITHOUT = (
    "export: say what: --dicom SOURCE makes DICOM objects, which have to refer to the images and hold who the patient"
    " is: results keep neither, so give the images that the case file names; --slicer makes files for 3D Slicer"
)
ENTRIES = {"volume": "a volume file", "no image": "a mask, a surface or a shape"}


@dataclass(frozen=True)
class Maker:
    """Names of files that are made together, and what makes them, given where each is to lie."""

    names: tuple[str, ...]
    write: Callable[..., None]


def export(arguments: argparse.Namespace) -> int:
    """Write what is asked for; the exit status.

    Raises
    ------
    StageError
        If the case has no report yet, nothing is asked for, the folder lies below results/, or a file is there already.
    """
    case = name_of(arguments.case)
    folder, target = RESULTS / case, Path(arguments.to)
    if not arguments.dicom and not arguments.slicer:
        raise StageError(WITHOUT)
    if not report_of(case).exists():
        raise StageError(f"{case}: has no report yet; hemolattice run {case}")
    if not (folder / "indices.json").exists():
        raise StageError(f"{case}: is a network of arteries alone, without images or a vessel; nothing can be exported")
    if target.resolve().is_relative_to(RESULTS.resolve()):
        raise StageError(
            f"--to {target}: lies below results/, which must not tell who a patient is; name a folder elsewhere"
        )
    source = _source(case, folder, arguments.dicom) if arguments.dicom else None
    makers = [*(_dicom(folder, source) if source else ()), *(_slicer(folder) if arguments.slicer else ())]
    names = [name for each in makers for name in each.names]
    for name in names:
        if (target / name).exists():
            raise StageError(f"{target / name}: is there already; name another folder, or take that file away")
    try:
        target.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".hemolattice-", dir=target) as place:  # so that all appear, or none
            for each in makers:
                each.write(*(Path(place) / name for name in each.names))
            for name in names:
                (Path(place) / name).rename(target / name)
    except OSError as error:
        raise StageError(f"--to {target}: cannot be written ({error.strerror}); name a folder that can") from None
    print("\n".join(str(target / name) for name in names))
    return 0


def _source(case: str, folder: Path, given: list[str]) -> Source:
    """The images of a case, for objects that refer to them."""
    series = folder / "series.json"
    loaded = read_json(series) if series.exists() else {"source": "no image"}
    if loaded["source"] != "dicom":
        raise StageError(
            f"--dicom: {case} was computed from {ENTRIES[loaded['source']]}, so that no DICOM images are known to refer"
            " to; --slicer needs none"
        )
    sources = [Path(each) for each in given]
    for path in sources:
        if not path.exists():
            raise StageError(f"--dicom {path}: no such file or folder; give the images that the case file names")
    return find_source(sources, loaded)


def _dicom(folder: Path, source: Source) -> list[Maker]:
    """The measurements and the printed report as DICOM objects."""

    def write(measured: Path, report: Path) -> None:
        record = read_json(folder / "report.provenance.json")["settings"]
        title = record["title"] or record["case"]
        pdf = printed_report(folder, title, record["description"], version())
        groups = measurements(read_json(folder / "indices.json"))
        write_objects(source, groups, pdf, version(), (measured, report))

    return [Maker(("measurements.dcm", "report.dcm"), write)]


def _slicer(folder: Path) -> list[Maker]:
    """What there is of a case for 3D Slicer: every vessel has a wall, not every one openings, lines and seeds."""
    lines, lumen = folder / "centreline.vtp", folder / "segmentation.json"
    makers = [Maker(("wall.vtp",), lambda path: write_model(folder / "wall.vtp", path))]
    if openings := read_openings(folder / "openings.json"):
        makers.append(Maker(("openings.mrk.json",), lambda path: write_openings(openings, path)))
    if lines.exists():
        makers.append(Maker(("centreline.mrk.json",), lambda path: write_centreline(read_branches(lines), path)))
    seeds = read_json(lumen).get("seeds", ()) if lumen.exists() else ()
    if seeds:
        makers.append(Maker(("seeds.mrk.json",), lambda path: write_seeds([seed["mm"] for seed in seeds], path)))
    return makers
