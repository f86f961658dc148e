# SPDX-License-Identifier: Apache-2.0
"""The table of `benchmarks/whole_case.py`: how processes become stages. Never how long anything takes."""

import argparse
import json
import sys

import pytest

from pipeline.case.case_file import read_cohort
from solver.runtime.sources import ROOT

sys.path.append(str(ROOT / "benchmarks"))

from whole_case import LARGE, LIKE_NODES, by_stage, case_file, middle


def process(module: str, began: float, seconds: float, processor: float, memory_mb: float) -> dict[str, object]:
    return {
        "module": module,
        "began": began,
        "seconds": seconds,
        "processor": processor,
        "memory_mb": memory_mb,
    }


def test_processes_of_a_stage_are_added_up_in_the_order_of_the_run(tmp_path):
    (tmp_path / "solve.provenance.json").write_text(json.dumps({"seconds": 7.0}))
    found = by_stage(
        [
            process("solver", 3.0, 9.0, 12.0, 300.0),
            process("pipeline.stages.plausibility", 1.0, 2.0, 1.5, 90.0),
            process("pipeline.stages.plausibility", 2.0, 1.0, 0.5, 80.0),
        ],
        tmp_path,
    )
    assert [*found] == ["plausibility", "solve"]
    assert found["plausibility"] == {"seconds": 3.0, "start": 3.0, "processor": 2.0, "memory_mb": 90.0}
    assert found["solve"] == {"seconds": 9.0, "start": 2.0, "processor": 12.0, "memory_mb": 300.0}


def test_repeats_give_the_median_of_each_figure():
    runs = [
        {"nodes": 5, "seconds": s, "processor": 2 * s, "snakemake": 1.0, "stages": by_stage([], ROOT)}
        for s in (1.0, 9.0, 2.0)
    ]
    assert middle(runs) == {"nodes": 5, "seconds": 2.0, "processor": 4.0, "snakemake": 1.0, "stages": {}}


@pytest.mark.parametrize("times", [1, 8])
def test_the_aneurysm_is_a_case_whose_spacing_follows_from_the_nodes(tmp_path, times):
    """Eight times the nodes have half of the spacing."""
    case = case_file(LARGE, "off", argparse.Namespace(nodes=times * LIKE_NODES, cycles=1, snapshots=40))
    (tmp_path / f"{LARGE}.yaml").write_text(json.dumps(case))
    read = read_cohort({"cases": LARGE, "case_folder": str(tmp_path)})[LARGE]
    assert read.voxelize.nodes_across == pytest.approx(30 * times ** (1 / 3))
    assert (read.solve.cycles, read.solve.snapshots) == (1, 40)
