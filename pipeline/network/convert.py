# SPDX-License-Identifier: Apache-2.0
"""Convert a network of another program into one of this project's.

    python -m pipeline.network.convert IN OUT.yaml [--untapered]

IN is a YAML file of openBF or a deck (.in) of svOneDSolver. A waveform at the inlet is written beside OUT.yaml, as
OUT-inlet.csv. The network is checked as any other; quantities that no artery has are accepted, and told.
"""

import argparse
import csv
import io
import logging
import sys
from pathlib import Path

from pipeline.network.checks import beyond, require_sound
from pipeline.network.network_file import Network
from pipeline.network.openbf import Columns, read_openbf
from pipeline.network.svonedsolver import read_svonedsolver
from pipeline.network.writing import commented, network_text
from solver.runtime.errors import StageError
from solver.runtime.log import open_log
from solver.runtime.outputs import appearing_whole

log = logging.getLogger("pipeline.network.convert")  # also where this module is run, and called otherwise


def convert(source: Path, target: Path, untapered: bool = False) -> Network:
    """Read a network of another program, check it and write it.

    Parameters
    ----------
    source : file of openBF (YAML), or of svOneDSolver.
    target : file to be written; a waveform comes beside it.
    untapered : give segments of openBF their proximal radius all along.

    Raises
    ------
    StageError
        One line a mistake.
    """
    if target.suffix not in (".yaml", ".yml"):
        raise StageError(f"{target}: a network is written as YAML; call it {target.stem}.yaml")
    inflow = f"{target.stem}-inlet.csv"
    if source.suffix in (".yaml", ".yml"):
        network, waveforms = read_openbf(source, inflow, untapered)
    else:
        network, waveforms = read_svonedsolver(source, inflow)
    if odd := beyond(network):
        log.warning("%s: what no artery has: %s; accepted, as the file says so", source, ", ".join(odd))
        network = network.changed(accept=tuple(odd))
    require_sound(network, str(source))
    how = " with untapered segments" if untapered else ""
    texts = {name: _csv(f"Inlet of {source.name}.", columns) for name, columns in waveforms.items()}
    texts[target.name] = network_text(network, commented(f"Converted from {source.name}{how}."))
    with appearing_whole({name: target.parent / name for name in texts}) as partial:
        for name, text in texts.items():
            partial[name].write_text(text, encoding="utf-8")
    return network


def _csv(comment: str, columns: Columns) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return f"# {comment}\n{stream.getvalue()}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.network.convert",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", type=Path, metavar="IN")
    parser.add_argument("target", type=Path, metavar="OUT.yaml")
    parser.add_argument(
        "--untapered", action="store_true", help="openBF: the proximal radius all along, as openBF 2.8.0 computes"
    )
    given = parser.parse_args()
    report = open_log("pipeline.network")  # to which the modules' own loggers pass their lines
    try:
        network = convert(given.source, given.target, given.untapered)
    except StageError as error:
        report.error("error: %s", error)
        sys.exit(1)
    except OSError as error:
        report.error("error: %s: %s", error.filename or given.target, error.strerror)
        sys.exit(1)
    report.info("%s: segments: %d, terminals: %d", given.target, len(network.segments), len(network.terminals))


if __name__ == "__main__":
    main()
