# SPDX-License-Identifier: Apache-2.0
"""Where ends are cut, that their names survive another segmentation, and that a refusal says and shows why."""

import json
import logging
import subprocess
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from pipeline.case.settings.geometry import OpeningSettings, SurfaceSettings
from pipeline.files.volume import Volume
from pipeline.geometry.branches import ends
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.surface.clip import ClipError, check_closed, cut_end
from pipeline.geometry.surface.isosurface import smooth_field, zero_surface
from pipeline.haemodynamics.shape_checks import of_shape
from pipeline.stages.surface import extract_surface
from solver.runtime.errors import StageError
from tests.support.command_lines import run_here
from tests.support.tubes import FORK, fork, grid_around, line, near_curve, tube, voxel_places
from tests.support.variants import some

LOG = logging.getLogger("test")


def extract(lumen: Volume, **keys):
    return extract_surface(lumen, SurfaceSettings(**keys), LOG)


def flat_tip(radius_mm: float = 4.0, flat_mm: float = 10.0) -> Volume:
    """A tube along x that is flattened over some length at its end, and as wide there: half its axis in z."""
    points = np.linspace(0, 60, 60)[:, None] * np.array([1.0, 0, 0])
    volume = grid_around(points, radius_mm + 6)
    x, y, z = np.moveaxis(voxel_places(volume), -1, 0)
    half = np.interp(x, [0, flat_mm, flat_mm + 4], [0.55, 0.55, 1.0])
    wide = 1 / np.sqrt(half)  # the area stays
    lumen = (np.hypot(y / (wide * radius_mm), z / (wide * half * radius_mm)) < 1) & (x > 0) & (x < 60)
    return volume.with_voxels(lumen.astype(np.uint8))


def test_an_end_is_cut_where_its_section_is_round_enough():
    lumen = flat_tip()
    at = {}
    for roundness in (0.4, 0.9):
        surface = extract(lumen, cut_roundness=roundness)
        assert len(surface.openings) == 2
        at[roundness] = min(opening.centre_mm[0] for opening in surface.openings)
    assert at[0.4] < 5  # at the tip, where the ratio of the axes is 0.55
    assert 10 < at[0.9] < 18  # behind the flat part


def test_an_end_is_cut_far_enough_from_the_tip():
    points = line(60, seed=6)
    tips = {}
    for radii in (0.5, 3.0):
        openings = extract(tube(points, 4.0, seed=3), cut_radii=radii).openings
        tips[radii] = min(np.linalg.norm(np.array(opening.centre_mm) - points[0]) for opening in openings)
    # The round tip lies a radius before the first point; of the first three full sections, a fifth of a radius apart,
    # one is chosen.
    assert 1.7 * 4.0 < tips[3.0] < 2.6 * 4.0
    assert tips[0.5] < 4.0


def frayed(seed: int = 1) -> Volume:
    """A tube that ends hollow and with windows in its wall, as where the image fades."""
    points = np.linspace(0, 70, 60)[:, None] * np.array([1.0, 0, 0])
    volume = grid_around(points, 14, seed=seed)
    lumen = near_curve(volume, points, 8.0)
    x, y, z = np.moveaxis(voxel_places(volume), -1, 0)
    lumen &= (x > -4) & ~((x < 12) & (np.hypot(y, z) < 4.5))
    for angle in (0.3, 2.4, 4.5):
        around = np.abs(np.angle(np.exp(1j * (np.arctan2(z, y) - angle))))
        lumen &= ~((around < 0.45) & (x > 1) & (x < 7))
    return volume.with_voxels(lumen.astype(np.uint8))


@pytest.mark.parametrize("seed", some([1, 2], 1))
def test_an_end_whose_lumen_frays_is_cut_behind_that(seed):
    surface = extract(frayed(seed))
    check_closed(surface.mesh)
    assert len(surface.openings) == 2
    assert [opening.radius_mm for opening in surface.openings] == pytest.approx([8.0, 8.0], rel=0.04)
    first = min(surface.openings, key=lambda opening: opening.centre_mm[0])
    assert 10 < first.centre_mm[0] < 25
    assert abs(first.normal[0]) > 0.99


def fading(seed: int) -> tuple[Volume, float]:
    """A bent tube whose lumen narrows over 4 to 8 radii to its end, flattened there and with mouths of branches on it,
    and where along x it is whole, mm; all drawn at random.
    """
    rng = np.random.default_rng(seed)
    radius = rng.uniform(5, 10)
    length, fade, least = rng.uniform(12, 16) * radius, rng.uniform(4, 8) * radius, rng.uniform(0.12, 0.25) * radius
    way = np.linspace(0, length, 80)
    axis = way[:, None] * [1.0, 0, 0]
    axis[:, 1] = rng.uniform(0, 0.25) * length * np.sin(np.pi * way / length)
    radii = radius - (radius - least) * np.clip(1 - way / fade, 0, 1)
    volume = grid_around(axis, radius + 6, seed=seed)
    x, _, z = np.moveaxis(voxel_places(volume), -1, 0)
    flat, till = rng.uniform(0.25, 0.6), rng.uniform(0.6, 1.0) * fade
    half = np.interp(x, [0.8 * till, till], [flat, 1.0]) * np.interp(x, axis[:, 0], radii)
    lumen = near_curve(volume, axis, radii) & (np.abs(z) < half)
    for _ in range(rng.integers(0, 3)):
        k, turn = np.searchsorted(way, rng.uniform(0.3, 1.2) * fade), rng.uniform(0, 2 * np.pi)
        mouth = (radii[k] + rng.uniform(0.3, 0.8) * radius) * np.array([0, np.cos(turn), np.sin(turn)])
        lumen |= near_curve(volume, np.array([axis[k], axis[k] + mouth]), 0.3 * radius)
    return volume.with_voxels(lumen.astype(np.uint8)), fade


@pytest.mark.parametrize("seed", [19, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (4, 100, 101))])
def test_a_vessel_that_fades_to_its_end_is_open_there(seed):
    """As a real aorta does, of which only a small branch was open. With sections placed by the radius of the tip alone
    seeds 4 and 19 had one open end.
    """
    lumen, whole_mm = fading(seed)
    surface = extract(lumen)
    check_closed(surface.mesh)
    assert len(surface.openings) >= 2
    assert min(opening.centre_mm[0] for opening in surface.openings) < 1.2 * whole_mm


NAMES = tuple(
    OpeningSettings(
        name=name, role="inlet" if name == "parent" else "outlet", near_mm=tuple(points[0 if name == "parent" else -1])
    )
    for name, (points, _) in FORK.items()
)


def test_names_survive_another_segmentation():
    """The mask eroded or dilated by a voxel, and shortened: ends move by some mm, names stay with their vessels."""
    whole = fork(seed=1)
    shorter = whole.voxels.copy()
    shorter[voxel_places(whole)[..., 0] > 17] = 0
    for voxels in (whole.voxels, shorter):
        surface = extract(whole.with_voxels(voxels), openings=NAMES)
        for opening in surface.openings:
            points, radius = FORK[opening.name]
            assert opening.radius_mm == pytest.approx(radius, rel=0.08)
            assert np.linalg.norm(np.array(opening.centre_mm) - points[0 if opening.name == "parent" else -1]) < 10


def test_a_name_far_from_every_opening_is_refused_with_all_of_them():
    far = OpeningSettings(name="iliac", role="outlet", near_mm=(90.0, 90.0, 90.0))
    with pytest.raises(
        StageError, match=r"iliac: the nearest opening is \d+.\d mm from near_mm .*within_mm = 20"
    ) as caught:
        extract(fork(seed=1), openings=(far,))
    assert str(caught.value).count("radius") == 3
    assert "RAS" not in str(caught.value)


def test_a_name_in_the_other_axes_is_recognised():
    lumen = fork(seed=1)
    moved = Volume(lumen.voxels, lumen.spacing_mm, tuple(lumen.origin_mm + np.array([80, -60, 0])), lumen.direction)
    x, y, z = FORK["large"][0][-1] + [80, -60, 0]
    turned = OpeningSettings(name="large", role="outlet", near_mm=(-x, -y, z))
    with pytest.raises(StageError, match=r"would be \d.\d mm away: near_mm is in RAS, LPS is wanted"):
        extract(moved, openings=(turned,))


def ring(tails: bool = True) -> Volume:
    """A closed loop, with two tails that leave it on opposite sides."""
    t = np.linspace(0, 2 * np.pi, 90)
    circle = np.stack([18 * np.cos(t), 18 * np.sin(t), 0 * t], axis=1)
    volume = grid_around(np.concatenate([circle, [[45, 0, 0], [-45, 0, 0]]]), 9, seed=2)
    lumen = near_curve(volume, circle, 3.5)
    for side in (-1, 1) if tails else ():
        lumen |= near_curve(volume, side * np.linspace(18, 42, 20)[:, None] * np.array([1.0, 0, 0]), 3.5)
    return volume.with_voxels(lumen.astype(np.uint8))


def test_a_loop_is_kept_and_opened_at_its_tails_only():
    surface = extract(ring())
    check_closed(surface.mesh)
    assert [opening.radius_mm for opening in surface.openings] == pytest.approx([3.5, 3.5], rel=0.05)


def test_a_cap_does_not_cut_a_loop():
    mesh = zero_surface(smooth_field(ring(), None))
    with pytest.raises(ClipError, match="does not sever the end"):
        cut_end(mesh, np.array([0.0, 18.0, 0.0]), np.array([1.0, 0.0, 0.0]), 1)


def picture_of(error: StageError, path: Path) -> np.ndarray:
    assert error.picture is not None
    path.write_bytes(error.picture())
    return imread(path)


def test_a_main_vessel_that_cannot_be_cut_is_a_failed_check(monkeypatch):
    """Blood would enter through a side branch, which is the widest opening that is left."""
    real = ends.place_cut

    def but_for_the_parent(field, centreline, branch, *limits):
        near = np.linalg.norm(centreline.points_mm[branch.rows[0]] - FORK["parent"][0][0]) < 8
        return None if near else real(field, centreline, branch, *limits)

    whole = extract(fork(seed=1))
    assert not [check for check in of_shape(whole.quality, whole.openings) if "closed end" in check["name"]]
    monkeypatch.setattr(ends, "place_cut", but_for_the_parent)
    surface = extract(fork(seed=1))
    (check,) = (each for each in of_shape(surface.quality, surface.openings) if "closed end" in each["name"])
    assert check["state"] == "reservation"
    assert check["value"] == pytest.approx(FORK["parent"][1] / FORK["large"][1], rel=0.1)
    assert "blood may enter through a side branch" in check["advice"]


def cuts_through(place: tuple[float, float, float]):
    """In place of where ends are cut: the first is cut there, across x, the others at the tails."""
    places = iter([(np.array(place), np.array([1.0, 0, 0])), (np.array([38.0, 0, 0]), np.array([1.0, 0, 0]))])

    def place_cut(*_: object) -> Cut:
        centre, normal = next(places)
        return Cut(centre, normal)

    return place_cut


@pytest.mark.parametrize(
    ("lumen", "cut", "message"),
    [
        pytest.param(
            lambda: ring(tails=False), None, r"0 open ends found.*min_branch_radii = 2.5", marks=pytest.mark.slow
        ),
        (lambda: tube(line(40, seed=2), [7.0] * 12 + [3.0] * 38), None, r"1 open ends found at .*it bulges"),
        (ring, (0.0, 18.0, 0.0), r"cannot be cut: its plane does not sever.*surface.cut_radii.*closed_mm: \[\["),
        (ring, (39.0, 0.0, 0.0), r"cannot be cut: .*opening 1.*The nearest other opening is 1.0 mm away"),
    ],
    ids=["no opening", "one opening", "loop", "overlap"],
)
def test_a_refusal_shows_what_was_found(lumen, cut, message, tmp_path, monkeypatch):
    if cut:
        monkeypatch.setattr("pipeline.geometry.branches.ends.place_cut", cuts_through(cut))
    with pytest.raises(StageError, match=f"(?s){message}") as caught:
        extract(lumen())
    picture = picture_of(caught.value, tmp_path / "picture.png")
    assert picture.shape[0] > 500
    assert picture[..., :3].std() > 0.02  # something is drawn on the white


def run(folder: Path, **settings) -> subprocess.CompletedProcess:
    options = ["--settings", json.dumps(settings)]
    for role, name in (
        ("occupancy", "lumen.nrrd"),
        ("surface", "surface.vtp"),
        ("openings", "openings.json"),
        ("provenance", "p.json"),
        ("log", "logs/surface.log"),
    ):
        options += [f"--{role}", str(folder / name)]
    return run_here("pipeline.stages.surface", *options)


def test_the_picture_lies_beside_the_log_until_the_stage_runs_again(tmp_path):
    tube(line(40), 4.0).write(tmp_path / "lumen.nrrd")
    far = {"openings": [{"name": "neck", "role": "inlet", "near_mm": [900, 0, 0]}]}
    answer = run(tmp_path, **far)
    picture = tmp_path / "logs" / "surface.png"
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].endswith(f"; see {picture}")
    assert imread(picture).ndim == 3
    assert not (tmp_path / "surface.vtp").exists()
    answer = run(tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert not picture.exists()


@pytest.mark.slow
def test_the_picture_outlives_a_failed_workflow(study, snakemake):
    case = study / "config/cases/nowhere.yaml"
    text = (study / "config/cases/tiny.yaml").read_text()
    case.write_text(text + "\nsurface: {openings: [{name: in, role: inlet, near_mm: [900, 0, 0]}]}\n")
    answer = snakemake(study, "nowhere")
    assert answer.returncode != 0
    assert "see results/nowhere/logs/surface.png" in answer.stdout + answer.stderr
    assert imread(study / "results/nowhere/logs/surface.png").ndim == 3
