# SPDX-License-Identifier: Apache-2.0
"""New: a commented case file, after a look at the images."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.case.case_file import RESERVED, Case, Cohort
from pipeline.case.settings.base import parse
from pipeline.case.settings.yaml_file import one_line, value_of
from pipeline.command.cases import FOLDER
from pipeline.dicom.listing import listing
from solver.runtime.errors import StageError

OF_IMAGES = """
# Which images, where the series that has the most voxels is not meant: its hash in the list of `hemolattice new`:
# load:
#   series: "1a2b3c4d"

# The part of the image that is computed; where it cuts a vessel, the vessel is open:
# filter:
#   region_voxels: {low: [130, 183, 8], high: [256, 306, 43]}

# A point in the vessel (patient coordinates, LPS) and the smallest intensity of its lumen; without them the largest
# vessel with contrast agent is taken, and the threshold is found:
# segment:
#   seeds_mm: [[-31.2, 14.0, 120.5]]
#   lower: 200
"""
OF_OPENINGS = """
# Names of openings, each by the nearest point; else the largest one is `inlet`, others are `outlet_1`, `outlet_2`, ...:
# surface:
#   openings:
#     - {name: ica, role: inlet, near_mm: [-29.9, 11.2, 101.0]}
#     - {name: mca, role: outlet, near_mm: [-33.1, 16.0, 139.5]}

# Nodes of the lattice across the smallest opening or branch; else chosen by the vessel and the flow:
# voxelize:
#   nodes_across: 20
"""


def new(arguments: argparse.Namespace) -> int:
    """Write the case file that the arguments ask for, and say what comes next.

    Raises
    ------
    StageError
        If the file is there already, or the case would not run: nothing is written then.
    """
    parse(Cohort, {"cases": [arguments.name]}, lambda _: "NAME")
    if arguments.name.split(".")[0] in RESERVED:
        raise StageError(f"NAME = {arguments.name!r}: results/{arguments.name} is made of all cases; call it otherwise")
    path = FOLDER / f"{arguments.name}.yaml"
    if path.exists():
        raise StageError(f"{path}: is there already; give another name, or rename that file")
    text = case_file(arguments)
    if arguments.dicom:
        print(listing([Path(given) for given in arguments.dicom]), end="\n\n")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise StageError(f"{path}: cannot be written ({error.strerror}); go to a folder where it can") from None
    print(f"Written: {path}, with a flow of {arguments.flow:g} mL/s through each inlet.")
    images = arguments.dicom or arguments.volume
    print(f"Next: hemolattice {'pick' if images else 'run'} {arguments.name}")
    return 0


def case_file(arguments: argparse.Namespace) -> str:
    """Text of a case file that is valid, also where what its comments show is put in.

    Raises
    ------
    StageError
        If what is given makes no valid case.
    """
    if arguments.surface and not arguments.unit:
        raise StageError("--unit: missing; a surface's file does not tell its unit: give mm, cm, m, um or inch")
    if arguments.unit and not arguments.surface:
        raise StageError(f"--unit {arguments.unit}: belongs to --surface; leave it out")
    entry = next(key for key in ("dicom", "volume", "mask", "surface") if getattr(arguments, key))
    given = getattr(arguments, entry)
    stated: dict[str, Any] = {entry: given[0] if entry == "dicom" and len(given) == 1 else given}
    stated |= {"surface_unit": arguments.unit} if arguments.unit else {}
    values: dict[str, Any] = {"input": stated, "solve": {"inlets": {"*": {"flow_ml_s": arguments.flow}}}}
    values |= {"vessel": arguments.vessel} if arguments.vessel else {}
    parse(Case, values, "new")
    return "\n".join(_lines(values, entry)) + "\n"


def _lines(values: dict[str, Any], entry: str) -> Iterator[str]:
    yield "# Every key stands in docs/settings.md of HemoLattice; what is not given has its default."
    yield '\ndescription: ""   # what this case is; no name of a patient'
    if "vessel" in values:
        yield f"vessel: {values['vessel']}   # whose physiological ranges hold"
    yield "\ninput:"
    yield from (f"  {key}: {_written(value)}" for key, value in values["input"].items())
    if entry in ("dicom", "volume"):
        yield OF_IMAGES.rstrip("\n")
    yield OF_OPENINGS
    yield "solve:\n  inlets:"
    inlet = one_line(values["solve"]["inlets"]["*"])
    yield f'    "*": {inlet}   # mean flow through each inlet; or {{waveform: FILE.csv}}'


def _written(value: Any) -> str:
    """A value as it stands in the file: what reads as itself."""
    text = one_line(value)
    assert value_of(text) == value
    return text
