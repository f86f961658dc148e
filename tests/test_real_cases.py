# SPDX-License-Identifier: Apache-2.0
"""Tests on real image data skip, and name the folder that is not there, where only some of the data is."""

import os
import re
import subprocess
import sys

import pytest

from solver.runtime.sources import ROOT
from tests.support.real_cases import RealCases


def test_what_is_there_is_given_and_what_is_not_skips_the_test_by_its_name(tmp_path):
    (tmp_path / "head/dicom").mkdir(parents=True)
    cases = RealCases(tmp_path)
    assert cases / "head/dicom" == tmp_path / "head/dicom"
    for name in ("chest", "head/nifti"):
        with pytest.raises(pytest.skip.Exception, match=rf"no {name} in .* \(set HEMO_CASES\)"):
            cases / name


@pytest.mark.slow
def test_each_test_on_real_data_skips_with_the_folder_that_it_lacks(tmp_path):
    """Also where the folder of odd files is there, and those within are not."""
    (tmp_path / "dicom-oddities").mkdir()
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.only_real_cases", "-p", "no:cacheprovider", "-rA"]
    command += ["--continue-on-collection-errors", "tests/pipeline", "tests/validation", "tests/workflow"]
    answer = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"HEMO_CASES": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout[-3000:]
    reasons = re.findall(r"^SKIPPED \[(\d+)\] \S+ (.*)$", answer.stdout, re.MULTILINE)
    assert sum(int(number) for number, _ in reasons) > 100
    named = re.compile(r"no \S+ in .* \(set HEMO_CASES\)$|no Chromium")
    assert [why for _, why in reasons if not named.search(why)] == []
