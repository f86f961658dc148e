# SPDX-License-Identifier: Apache-2.0
"""What results of a large pulsatile flow cost: postprocess, trace and report, each with time, processor time, memory.

    python benchmarks/large_results.py --folder large [--nodes 5e6] [--snapshots 40] [--cores 2]

The aneurysm of `whole_case.py` runs on a coarse lattice for one cycle. Its flow is then taken to a lattice of so many
nodes, from the nearest node each, so that no device need solve it; what follows from a flow takes the same time whether
the lattice had made it or not. It needs some 45 bytes of disk a node and snapshot.
"""

import argparse
import json
import os
import shutil
from pathlib import Path
from typing import Any

import h5py
from bench import default_file
from scipy.spatial import cKDTree
from whole_case import LARGE, middle, provenance_of, run, table, write_case

from solver.domain.nodes import load
from solver.run.flow_file import FIELDS, IN_FILE, MEANS, VARYING, FlowStatistics, FlowWriter
from solver.runtime.checksums import checksum

COARSE_NODES = 2e4
OF_SOLVE = ("monitor.csv", "solve.json", "solve.provenance.json", "logs/solve.log")


def transfer(coarse: Path, fine: Path) -> None:
    """Write the flow of one folder of results on the lattice of another, each node with that of the nearest one."""
    few, many = load(coarse / "nodes.h5"), load(fine / "nodes.h5")
    nearest = cKDTree(few.points_mm()).query(many.points_mm())[1]
    with h5py.File(coarse / "flow.vtkhdf") as file, FlowWriter(fine / "flow.vtkhdf", many, varying=True) as writer:
        data, fields = file["VTKHDF/PointData"], [*FIELDS, *VARYING]
        for number, time_s in enumerate(file["VTKHDF/Steps/Values"]):
            rows = slice(number * few.total, (number + 1) * few.total)
            writer.append(float(time_s), *(data[IN_FILE[name]][rows][nearest] for name in fields))
        statistics = FlowStatistics(*(data[IN_FILE[name]][:][nearest] for name in FlowStatistics._fields))
        writer.average(*(data[IN_FILE[MEANS[name]]][:][nearest] for name in fields), statistics=statistics)
    for name in OF_SOLVE:
        shutil.copy(coarse / name, fine / name)
    record = json.loads((fine / "solve.provenance.json").read_text())
    record["inputs_sha256"] = {"nodes": checksum(fine / "nodes.h5")}
    record["outputs_sha256"] = {name: checksum(fine / name) for name in record["outputs_sha256"]}
    (fine / "solve.provenance.json").write_text(json.dumps(record))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Nodes, and what postprocess, trace and report took, each and together."""
    coarse, fine = options.folder / "coarse", options.folder / "fine"
    of_case = f"results/{LARGE}/"
    write_case(LARGE, "off", coarse, argparse.Namespace(**vars(options) | {"nodes": COARSE_NODES}))
    write_case(LARGE, "off", fine, options)
    run(LARGE, coarse, options.cores, ["--", of_case + "flow.vtkhdf"])
    run(LARGE, fine, options.cores, ["--", of_case + "nodes.h5", of_case + "plausibility.json"])
    transfer(coarse / of_case, fine / of_case)
    return middle([run(LARGE, fine, options.cores, ["--rerun-triggers", "mtime", "--", of_case + "report.html"])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="new, for cases and results")
    parser.add_argument("--nodes", type=float, default=5e6, help="about")
    parser.add_argument("--snapshots", type=int, default=40)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by the date")
    options = parser.parse_args()
    options.folder, options.cycles = options.folder.resolve(), 1
    load_before, results = os.getloadavg()[0], provenance_of(options)
    found = results["cases"][LARGE] = measure(options) | {"load_before": load_before}
    file = options.json or default_file("large-results", results["hardware"])
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(table(LARGE, found), file, sep="\n")


if __name__ == "__main__":
    main()
