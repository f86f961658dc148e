# SPDX-License-Identifier: Apache-2.0
"""From a patient's angiography to blood flow: DICOM in, report out. Cases, data and results lie in the folder in which
the command is called: config/cases/CASE.yaml, and results/CASE/.
"""

import argparse
import sys
from collections.abc import Callable

from solver.runtime.errors import StageError

CASES = "names of files in config/cases/, of rows of the cohort table, or case files; none: all that lie there"
FIRST_CASE = """\
The first case of your own:
  hemolattice new case1 --dicom FOLDER --flow 4    lists the series, writes config/cases/case1.yaml
  hemolattice pick case1                           makes a page on which to complete it
  hemolattice run case1                            from the images to the report
  hemolattice open case1                           shows the report
"""
WHAT_IF = "For cases with the section reduced; where the model does not hold, the answer says so."
Function = Callable[[argparse.Namespace], int]


def _new(arguments: argparse.Namespace) -> int:
    from pipeline.command.new import new

    return new(arguments)


def _pick(arguments: argparse.Namespace) -> int:
    from pipeline.command.run import pick

    return pick(arguments.case)


def _run(arguments: argparse.Namespace) -> int:
    from pipeline.command.run import run

    return run(arguments.cases, arguments.options)


def _demo(arguments: argparse.Namespace) -> int:
    from pipeline.command.run import run

    return run(["demo"], arguments.options)


def _status(arguments: argparse.Namespace) -> int:
    from pipeline.command.status import status

    return status(arguments.cases)


def _open(arguments: argparse.Namespace) -> int:
    from pipeline.command.status import open_page

    return open_page(arguments.case)


def _export(arguments: argparse.Namespace) -> int:
    from pipeline.command.export import export

    return export(arguments)


def _what_if(arguments: argparse.Namespace) -> int:
    from pipeline.command.what_if import what_if

    return what_if(arguments)


def _check(arguments: argparse.Namespace) -> int:
    from pipeline.command.check import check

    return check(with_self_test=not arguments.quick)


def _version(arguments: argparse.Namespace) -> int:
    from pipeline.command.version import version

    print(f"hemolattice {version()}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line. What a subcommand needs is imported only when it is called."""
    plain = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser("hemolattice", description=__doc__, epilog=FIRST_CASE, formatter_class=plain)
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: Function, text: str, more: str = "") -> argparse.ArgumentParser:
        added = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}. {more}", formatter_class=plain
        )
        added.set_defaults(function=function)
        return added

    _add_new(add("new", _new, "look at the images and write a case file", "It never overwrites one."))
    added = add("pick", _pick, "make the page on which region, seed, threshold and openings are chosen")
    added.add_argument("case", metavar="CASE", help="its name or its file")
    added = add("run", _run, "run cases from the images to the report", "Snakemake works beneath.")
    added.usage = "hemolattice run [CASE ...] [OPTION ...]"
    added.add_argument("cases", nargs="*", metavar="CASE", help=CASES)
    added.epilog = (
        "Cases stand before the options. All options are Snakemake's and handed on to it: --cores 4 (all, where none\n"
        "is given), --keep-going, --dry-run, --config threads=1, and behind -- the files to make in place of all.\n"
        "--verbose prints what Snakemake and the stages do; else results/CASE/logs/ and .snakemake/log/ tell it."
    )
    add("demo", _demo, "run the demo, a synthetic CT angiography of an aneurysm", "Options are those of run.")
    added = add("status", _status, "say which stages are done, are running or have failed, and where the report is")
    added.add_argument("cases", nargs="*", metavar="CASE", help=CASES)
    added = add("open", _open, "show the report in a browser and print where it is")
    added.add_argument("case", nargs="?", metavar="CASE", help="its name or its file; none: the page of all cases")
    _add_export(add("export", _export, "write results as archives and 3D Slicer take them", "It overwrites nothing."))
    _add_what_if(add("what-if", _what_if, "answer what another flow would do, by the reduced model", WHAT_IF))
    added = add(
        "check", _check, "look at Python, packages, processor, memory, disk and GPU, and let the solver compute a flow"
    )
    added.add_argument("--quick", action="store_true", help="without the flow")
    add("version", _version, "print the version")
    return top


def _add_new(added: argparse.ArgumentParser) -> None:
    added.add_argument("name", metavar="NAME", help="of the case, as of its folder of results; no name of a patient")
    source = added.add_mutually_exclusive_group(required=True)
    source.add_argument("--dicom", nargs="+", metavar="PATH", help="folder at any depth, DICOMDIR, ZIP file, or files")
    source.add_argument("--volume", metavar="FILE", help="image: NRRD, NIfTI or MHA")
    source.add_argument("--mask", metavar="PATH", help="mask of the lumen: NRRD, NIfTI, MHA, or DICOM")
    source.add_argument("--surface", metavar="FILE", help="surface of the lumen: STL, VTP, OBJ or PLY; needs --unit")
    added.add_argument("--unit", choices=("mm", "cm", "m", "um", "inch"), help="of the surface's coordinates")
    added.add_argument("--flow", type=float, required=True, metavar="ML_S", help="mean flow through the inlet, mL/s")
    added.add_argument("--vessel", choices=("aorta", "carotid", "coronary"), help="whose ranges of flow then hold")


def _add_export(added: argparse.ArgumentParser) -> None:
    added.add_argument("case", metavar="CASE", help="its name or its file")
    added.add_argument("--to", required=True, metavar="FOLDER", help="where to, not below results/; it is made")
    added.add_argument(
        "--dicom",
        nargs="+",
        metavar="PATH",
        help="the images, for a structured report and a PDF in their study, which tell who the patient is",
    )
    added.add_argument("--slicer", action="store_true", help="wall, centreline, openings and seeds for 3D Slicer")


def _add_what_if(added: argparse.ArgumentParser) -> None:
    added.add_argument("case", metavar="CASE", help="its name or its file")
    asked = added.add_mutually_exclusive_group()
    asked.add_argument("--flow", type=float, default=1.0, metavar="TIMES", help="the inflow, by that of the case")
    asked.add_argument("--flow-ml-s", type=float, metavar="ML_S", help="the inflow of all inlets together")
    asked.add_argument("--waveform", metavar="FILE", help="CSV with time_s and flow_ml_s: one period, for one inlet")
    added.add_argument(
        "--outlet",
        action="append",
        default=[],
        metavar="NAME=LAW",
        help="what holds there instead: pressure:80 (mmHg), resistance:12 (mmHg s/mL), or part:0.4 of the inflow",
    )
    added.add_argument("--json", metavar="FILE", help="the answer as a file, too")


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Words of the command line, and options that are Snakemake's: those of run and demo, but for a call for help."""
    if words[:1] not in (["run"], ["demo"]) or {"-h", "--help"} & {*words}:
        return words, []
    begin = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    return words[:begin], words[begin:]


def main(words: list[str] | None = None) -> int:
    """The command; returns its exit status: 1 after a mistake in what was given, 2 after one in how it was written."""
    given, options = split(sys.argv[1:] if words is None else words)
    arguments = parser().parse_args(given)
    arguments.options = options
    try:
        status: int = arguments.function(arguments)
    except StageError as error:
        print(f"hemolattice: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


if __name__ == "__main__":
    sys.exit(main())
