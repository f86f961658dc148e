# SPDX-License-Identifier: Apache-2.0
"""The command that checks a network tells its figures and the effect of its edits, and refuses without a traceback."""

import subprocess
import sys

from pipeline.network.network_file import read_network
from solver.runtime.sources import ROOT
from tests.support.networks import SHIPPED


def show(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pipeline.network.show", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_figures_and_edits_of_a_network(tmp_path):
    edits = "edits:\n- {stiffen: aorta, factor: 4}\n- {remove: left_leg}\n"
    (tmp_path / "stiff.yaml").write_text((SHIPPED / "adan56.yaml").read_text() + edits)
    done = show(tmp_path / "stiff.yaml", "--out", tmp_path / "out.yaml")
    assert done.returncode == 0, done.stderr
    assert "segments                 66, between 67 nodes" in done.stdout
    assert "stiff.yaml: aorta: stiffness of 15 segments times 4" in done.stderr
    written = read_network(tmp_path / "out.yaml")
    assert written.edits == ()
    assert written.segments["thoracic_aorta_I"].youngs_modulus_kpa == 900


def test_a_mistake_is_refused_in_one_line(tmp_path):
    done = show("adan65")
    assert done.returncode == 1
    assert "adan65.yaml: no such file; correct the name" in done.stderr
    assert len(done.stderr.splitlines()) == 1
