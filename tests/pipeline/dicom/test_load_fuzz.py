# SPDX-License-Identifier: Apache-2.0
"""Damaged files never crash loading, hang it, take more than 2 GB, tell who the patient is, or make a wrong volume.

What is damaged, and what is judged, stands in mutations.py. The damage runs in a process of its own, so that a crash
or a hang is seen as such.
"""

import json
import logging
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from pydicom import uid
from pydicom.encaps import generate_frames

from pipeline.case.settings.images import LoadSettings
from pipeline.dicom import codecs
from pipeline.files.sandbox import SandboxError
from pipeline.files.volume import Volume
from pipeline.stages.load import load
from solver.runtime.sources import ROOT
from tests.support.dicom_writer import LOSSLESS, encode, save
from tests.support.linear_field import dataset, enhanced, slices, value
from tests.support.mutations import CASES, KINDS, SECONDS, STACK, explained, wrong_planes

MUTATIONS = ROOT / "tests" / "support" / "mutations.py"
MEMORY_MB = 2000
LOG = logging.getLogger("test")


def outcomes(first: int, step: int) -> Counter[tuple[str, str]]:
    """Kinds and outcomes of the cases FIRST, FIRST + STEP, ..., all of them as they may be."""
    command = [sys.executable, str(MUTATIONS), str(first), str(step), str(len(CASES))]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3000)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, f"died in {lines[-1]}: {run.stderr[-2000:]}"
    assert sum(lines.pop().values()) < MEMORY_MB
    judged = [line for line in lines if "outcome" in line]
    assert len(judged) == len(CASES[first::step])
    assert [line for line in judged if line["outcome"] not in KINDS[line["kind"]].may_be(line["number"])] == []
    assert max(line["seconds"] for line in judged) < SECONDS
    return Counter((line["kind"], line["outcome"]) for line in judged)


def test_a_sample_of_damaged_files_is_refused_or_loads_right():
    seen = outcomes(first=3, step=20)
    assert {kind for kind, _ in seen} == set(KINDS)
    both = Counter(outcome for _, outcome in seen.elements())
    assert min(both["right"], both["refused"]) > 25  # neither is everything refused nor everything taken


@pytest.mark.slow
def test_every_damaged_file_is_refused_or_loads_right():
    assert len(CASES) >= 2000
    outcomes(first=0, step=1)


@pytest.mark.parametrize("syntax", LOSSLESS)
def test_the_undamaged_files_load_right_in_each_transfer_syntax(syntax, tmp_path):
    for k, each in enumerate(STACK):
        save(dataset(each, k), tmp_path / f"{k}", LOSSLESS[syntax])
    volume, _ = load(tmp_path, LoadSettings(), LOG)
    np.testing.assert_array_equal(volume.voxels, [each.stored.astype(int) + int(each.intercept) for each in STACK])


def test_wrong_volumes_are_detected():
    """The judge itself: it must tell every error of geometry, and the place of a single wrong slice."""
    series = slices(along_mm=np.arange(6) * 0.8, matrix=(36, 32))
    first = series[0]
    axes = np.column_stack([first.rows, first.columns, np.cross(first.rows, first.columns)])
    voxels = np.array([np.rint(value(each.points_mm)) for each in series], np.int16)
    right = Volume(voxels, (0.4, 0.4, 0.8), tuple(first.position_mm), axes)
    assert wrong_planes(right) == []
    for wrong in (
        right.with_voxels(voxels[::-1]),
        right.with_voxels(voxels[:, ::-1]),
        right.with_voxels(voxels[:, :, ::-1]),
        replace(right, spacing_mm=(0.4, 0.4, 0.85)),
        replace(right, origin_mm=tuple(first.position_mm + 0.8 * axes[:, 2])),
        replace(right, direction=axes[:, [1, 0, 2]]),
    ):
        assert not explained(wrong_planes(wrong))
    voxels = voxels.copy()
    voxels[3] += 50
    assert wrong_planes(right.with_voxels(voxels)) == pytest.approx([3])
    assert explained([3.0])
    assert not explained([2.0, 3.0])


def test_a_decoder_that_crashes_or_hangs_is_a_frame_that_cannot_be_decoded(monkeypatch):
    """Half of what is done here aborts the libraries or keeps them busy; a sound frame must be decoded after each."""
    monkeypatch.setattr(codecs, "SECONDS", 2.0)
    made = encode(dataset(STACK[0], 1), uid.JPEGLosslessSV1)
    (frame,) = generate_frames(made.PixelData, number_of_frames=1)
    columns, rows = STACK[0].matrix
    request = (str(uid.JPEGLosslessSV1), columns, rows, 16)
    sound = codecs.decode("jpeg", frame, *request)
    np.testing.assert_array_equal(np.frombuffer(sound, "<u2").reshape(rows, columns), STACK[0].stored)
    ended = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        damaged = bytearray(frame)
        for place in rng.integers(0, 64, 3):
            damaged[place] = rng.integers(256)
        before = codecs.PROCESS.process
        try:
            codecs.decode("jpeg", bytes(damaged), *request)
        except SandboxError:
            ended += before.poll() is not None
        assert codecs.decode("jpeg", frame, *request) == sound
    assert ended  # else this test shows nothing
    with pytest.raises(SandboxError):
        codecs.decode("jpeg", frame, str(uid.JPEGLosslessSV1), 10**9, 10**9, 16)


def test_frames_of_one_file_in_any_order_load_right(tmp_path):
    save(enhanced([STACK[k] for k in (3, 0, 5, 1, 4, 2)]), tmp_path / "enhanced")
    volume, _ = load(tmp_path, LoadSettings(), LOG)
    np.testing.assert_array_equal(volume.voxels, [each.stored.astype(int) + int(each.intercept) for each in STACK])
