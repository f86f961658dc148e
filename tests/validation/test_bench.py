# SPDX-License-Identifier: Apache-2.0
"""`make bench` on tiny lattices: what it keeps and draws; and the tree that it runs on. Never how fast anything is."""

import json
import subprocess
import sys

import numpy as np
import pytest

from solver.kernels.d3q19 import VELOCITIES, WEIGHTS
from solver.runtime.sources import ROOT

BENCH = [sys.executable, ROOT / "benchmarks" / "bench.py"]
TINY = ["--sizes", "0.002", "0.004", "--collisions", "--precisions", "fp32", "--seconds", "1e-4", "--repeats", "1"]


@pytest.mark.slow  # it compiles what no other test does, and no figure of a patient follows from it
def test_bench_keeps_what_it_measures_and_draws_it(tmp_path):
    file = tmp_path / "results.json"
    command = [*BENCH, "--quick", "--backends", "cpu", "--shapes", "pipe", "cavity", "--copied", "1e-3", *TINY]
    reported = subprocess.run([*command, "--json", file], capture_output=True, text=True, check=True).stdout
    results = json.loads(file.read_text())
    assert {"date", "commit", "options", "hardware", "versions", "bandwidth", "seconds"} <= set(results)
    assert set(results["bandwidth"]["cpu"]) == {"in place", "copy"}
    cases = results["cases"]
    assert [(case["shape"], case["size"]) for case in cases] == [
        ("pipe", 0.002),
        ("pipe", 0.004),
        ("cavity", 0.002),
        ("cavity", 0.004),
    ]
    for case in cases:
        assert f"{case['nodes']:,}" in reported
        assert case["nodes"] == pytest.approx(1e6 * case["size"], rel=0.2)
        assert case["memory_bytes"] > case["update_bytes"] / 2  # at least the populations
        assert case["updates_s"] * case["step_s"] == pytest.approx(case["nodes"])
    largest = [case for case in cases if case["size"] == 0.004]
    assert {"openings", "walls", "sharing of mass", "look", "mean"} <= set(largest[0]["passes_s"])
    assert not {"openings", "walls"} & set(largest[1]["passes_s"])  # of a closed box whose walls are half-way
    assert all(set(case["start_s"]) == {"load", "addresses", "first steps"} for case in largest)

    subprocess.run([*BENCH, "--draw", file, "--figures", tmp_path], check=True)
    pictures = {picture.name: picture.read_bytes() for picture in tmp_path.glob("bench-*.png")}
    assert set(pictures) == {"bench-roofline.png", "bench-passes.png"}
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())


@pytest.mark.slow
def test_caps_of_the_tree_are_open(monkeypatch):
    """Of an area with normal n, |c . n| links along c cross each unit, so that a link stands for 6 w |c . n|.

    Some twigs grow into others, which take up a part of their caps.
    """
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from vessel_tree import vessel_tree

    nodes = vessel_tree(5e4)
    assert nodes.count == pytest.approx(5e4, rel=0.02)
    parts = []
    for cap in nodes.openings:
        direction = nodes.opening_link_direction[nodes.opening_link_opening == cap.id]
        crossed = 6 * WEIGHTS[direction] * np.abs(VELOCITIES[direction] @ np.array(cap.normal))
        parts.append(crossed.sum() / cap.area_mm2)
    assert parts[0] == pytest.approx(1, abs=0.05)
    assert np.median(parts) == pytest.approx(1, abs=0.1)
    assert max(parts) < 1.05
