# SPDX-License-Identifier: Apache-2.0
"""Pieces that cuts take off: the account of volume says what each is, with its volume and place, and counts it."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from pipeline.files.volume import Volume
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.branches.tips import piece_beyond
from pipeline.geometry.surface.clip import cut_end
from pipeline.geometry.surface.volumes import loss_in_words, share_lost, tell_volumes
from tests.support.shapes import capped_cylinder


@pytest.mark.parametrize(("to_border", "at_border"), [(-1.0, True), (0.4, True), (3.0, False)])
def test_a_piece_is_known_by_how_far_it_reaches_and_by_the_border(to_border, at_border):
    """A pipe that ends 8 mm beyond the cut, and the image so far beyond its end, mm."""
    pipe, _ = capped_cylinder((0, 0, 1), 2.0, 20.0)
    cut = Cut(np.array([0.0, 0.0, 2.0]), np.array([0.0, 0.0, 1.0]))
    pipe = replace(pipe, opening=0 * pipe.opening)
    rest = cut_end(pipe, cut.centre_mm, cut.normal, 1)
    last = 10.0 + to_border - 0.5

    image = Volume(np.zeros((40, 30, 30)), (1.0, 1.0, 1.0), (-15.0, -15.0, last - 39), np.eye(3))
    assert piece_beyond(pipe, rest, cut, image) == {"reach_mm": pytest.approx(8.0), "at_border": at_border}
    assert piece_beyond(pipe, rest, cut, None) == {"reach_mm": pytest.approx(8.0)}


def test_what_is_said_of_each_piece_that_is_lost(caplog):
    end = {"radius_mm": 5.0, "asked_mm3": 0.0, "at_border": False}
    ends = [
        end | {"place_mm": [1.0, 0.0, 0.0], "volume_mm3": 400.0, "reach_mm": 18.0},
        end | {"place_mm": [2.0, 0.0, 0.0], "volume_mm3": 300.0, "reach_mm": 4.0},
        end | {"place_mm": [3.0, 0.0, 0.0], "volume_mm3": 200.0, "reach_mm": 9.0, "at_border": True},
        end | {"place_mm": [4.0, 0.0, 0.0], "volume_mm3": 0.5, "reach_mm": 1.0},
    ]
    quality = {"mask_volume_mm3": 10000.0, "volume_mm3": 9099.5, "cut_ends": ends, "side_branches": []}
    assert share_lost(quality) == pytest.approx(0.09005)
    narrows, tip, border = (
        "0.4 mL at (1.0, 0.0, 0.0) mm (over 18 mm, where it narrows or is not round)",
        "0.3 mL at (2.0, 0.0, 0.0) mm (an uneven tip of 4 mm)",
        "0.2 mL at (3.0, 0.0, 0.0) mm (over 9 mm, where the border of the image cuts it)",
    )
    said = loss_in_words(quality, share_lost(quality))
    assert f": {narrows}; {tip}; {border}. " in said
    assert "an image that holds all of the vessel" in said
    assert "an image that holds" not in loss_in_words(quality | {"cut_ends": ends[:2]}, 0.07)
    small = quality | {"mask_volume_mm3": 100000.0, "extensions_mm3": 0.0}  # below the limit each is told, too
    with caplog.at_level(logging.INFO):
        tell_volumes(small, logging.getLogger("lost"))
    assert "0.9 %" not in caplog.text
    for words in (narrows, tip, border):
        assert f"cut off: {words}" in caplog.text
