# SPDX-License-Identifier: Apache-2.0
"""Particles of the view to turn: on their paths, where the time says, from the file that trace wrote."""

import numpy as np
import pytest

from pipeline.files.lines import read_lines, write_lines
from pipeline.reporting.particle_layer import FRAMES, moving, read_paths
from solver.runtime.errors import StageError

SPEED_M_S = 0.2


def write(path, lengths_mm):
    """Straight paths along x at one speed, each at its own y, released at 0."""
    along = [np.linspace(0, length, 20) for length in lengths_mm]
    points = np.concatenate([np.column_stack((x, np.full(20, k), np.zeros(20))) for k, x in enumerate(along)])
    times = np.concatenate(along) * 1e-3 / SPEED_M_S
    at_points = {"time (s)": times, "speed (m s-1)": np.full(len(times), SPEED_M_S)}
    count = len(lengths_mm)
    on_lines = {"released (s)": np.zeros(count), "left through": np.full(count, 2, np.int8)}
    write_lines(path, points, 20 * np.arange(count + 1), at_points, on_lines)
    return points


def test_lines_are_read_as_they_were_written(tmp_path):
    points = write(tmp_path / "paths.vtp", [10.0, 20.0])
    found, offsets, at_points, on_lines = read_lines(tmp_path / "paths.vtp")
    np.testing.assert_array_equal(found, points)
    np.testing.assert_array_equal(offsets, [0, 20, 40])
    assert set(at_points) == {"time (s)", "speed (m s-1)"}
    np.testing.assert_array_equal(on_lines["left through"], [2, 2])


def test_a_file_of_no_lines_is_refused(tmp_path):
    (tmp_path / "paths.vtp").write_text("no VTP")
    with pytest.raises(StageError, match="run trace again"):
        read_lines(tmp_path / "paths.vtp")


def test_particles_move_with_the_flow_and_come_again_after_a_period(tmp_path):
    """In a period of 0.1 s they go 20 mm: on a way of 30 mm there are one or two of each path, 20 mm apart."""
    write(tmp_path / "paths.vtp", [30.0])
    found = moving(read_paths(tmp_path / "paths.vtp"), 0.1)
    assert found.round_s == 0.1
    assert len(found.frames) == FRAMES
    for number, frame in enumerate(found.frames):
        first = SPEED_M_S * 1e3 * 0.1 * number / FRAMES
        expected = [x for x in (first, first + 20) if x < 30]
        np.testing.assert_allclose(frame[:, 0], expected, atol=1e-9)
        np.testing.assert_array_equal(frame[:, 3], SPEED_M_S)


def test_without_paths_nothing_moves(tmp_path):
    write(tmp_path / "paths.vtp", [10.0])
    paths = read_paths(tmp_path / "paths.vtp")
    nobody = type(paths)(*(each[:0] for each in vars(paths).values()))
    assert moving(nobody, None) is None
