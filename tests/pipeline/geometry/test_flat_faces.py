# SPDX-License-Identifier: Apache-2.0
"""Ends that a plane cuts off within the image: found where the vessel behind them is short, told from round ends."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.case.vessel import Ellipsoid
from pipeline.files.volume import Volume
from pipeline.geometry.branches.border import border_sections
from pipeline.geometry.branches.ends import of_shaved_side
from pipeline.geometry.branches.flat_faces import FlatFace, flat_face
from pipeline.geometry.surface.isosurface import smooth_field, zero_surface
from pipeline.stages.surface import extract_surface
from solver.runtime.errors import StageError
from tests.support.drawn_sacs import CONTRAST_HU, Drawn, drawn
from tests.support.tubes import line, tube, voxel_places

LOG = logging.getLogger("test")


def lumen_of(vessel: Drawn) -> tuple[Volume, dict]:
    """Part of each voxel that a vessel fills, four voxels on its radius, and the truth."""
    exact = vessel.exact(4.0)
    return exact.image.with_voxels((exact.image.voxels.astype(np.float32) - 40) / CONTRAST_HU), exact.truth


def test_a_flat_end_close_to_a_sac_is_an_opening():
    vessel = drawn(109, "middle")
    lumen, truth = lumen_of(vessel)
    openings = extract_surface(lumen, SurfaceSettings(), LOG).openings
    for end in truth["openings"]:
        away = [np.array(opening.centre_mm) - end["centre_mm"] for opening in openings]
        nearest = min(away, key=lambda each: float(np.linalg.norm(each)))
        # a cut lies half a radius behind the tip, or up to one where the first section is not full
        assert np.linalg.norm(nearest) < 1.2 * vessel.radius_mm
    assert len(openings) == 2


def test_a_vessel_that_ends_in_a_sac_has_one_opening():
    vessel = drawn(414, "low")
    (parent,) = vessel.vessel.branches
    sac = Ellipsoid(centre_mm=parent.points_mm[-1], radii_mm=(1.7 * vessel.radius_mm,) * 3)
    shape = vessel.vessel.model_copy(update={"branches": (parent.model_copy(update={"end": None}),), "sacs": (sac,)})
    lumen, _ = lumen_of(Drawn(shape, vessel.image, vessel.radius_mm))
    with pytest.raises(StageError, match=r"1 open ends found.*it bulges.*filter\.spacing_mm: [\d.]+ resamples finer"):
        extract_surface(lumen, SurfaceSettings(), LOG)


def test_only_an_end_that_a_plane_cuts_has_a_face():
    """Of voxels that are in or out as a whole the plane is known to half of one; smoothing moves it by as much."""
    for seed in range(4):
        points = line(40, seed=seed)
        lumen, along = tube(points, 5.0, seed=seed), points[-1] / 40
        for cut_mm in (np.inf, 36.0):
            kept = lumen.voxels * (voxel_places(lumen) @ along < cut_mm)
            mesh = zero_surface(smooth_field(lumen.with_voxels(kept.astype(np.uint8)), None, LOG))
            balls = np.arange(5.0, 32.0)[:, None] * along
            face = flat_face(mesh, balls[-1], balls, np.full(len(balls), 5.0))
            if cut_mm == np.inf:
                assert face is None
                continue
            assert face is not None
            assert face.middle_mm @ along == pytest.approx(cut_mm, abs=1.0)
            assert face.normal @ along > np.cos(np.radians(12))  # a voxel in ten is 6 degrees
            assert face.radius_mm == pytest.approx(5.0, abs=0.5)
            assert np.linalg.norm(face.middle_mm - (face.middle_mm @ along) * along) < 0.5


def test_the_side_that_the_border_shaves_off_is_no_face():
    lumen = tube(line(40), 5.0)
    cut = np.ascontiguousarray(lumen.voxels[:, :, 9:])
    sections = border_sections(Volume(cut, lumen.spacing_mm, lumen.origin_mm, lumen.direction), 2.0)
    sides = [side for each in sections for side in each]
    assert sides
    for side in sides:
        face = FlatFace(side.cut.centre_mm, side.cut.normal, side.radius_mm, 0.5)
        assert of_shaved_side(face, sides)
        assert not of_shaved_side(replace(face, middle_mm=face.middle_mm - side.radius_mm * face.normal), sides)
        assert not of_shaved_side(face, [])
