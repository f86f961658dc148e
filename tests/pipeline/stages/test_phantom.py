# SPDX-License-Identifier: Apache-2.0
"""The phantom's truth is true, and its series is a proper and an awkward one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from pydicom.uid import CTImageStorage
from scipy.ndimage import binary_erosion

from pipeline.case.settings.base import parse
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.case.vessel import Branch, BranchShape, Ellipsoid, VesselShape, coverage, vessel_distance
from pipeline.files.volume import Volume
from pipeline.stages.phantom import Phantom, PhantomSettings, SeriesHeader, localizer, synthesize, write_series
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT

FOLDER = ROOT / "data" / "phantoms"


def settings(name: str) -> PhantomSettings:
    return parse(PhantomSettings, read_yaml(FOLDER / f"{name}.yaml"), name)


@pytest.fixture(scope="module")
def demo() -> Phantom:
    return synthesize(settings("aneurysm"))


@pytest.fixture(scope="module")
def tiny() -> Phantom:
    return synthesize(settings("tiny"))


def straight(direction: tuple[float, float, float], radius: float, length: float) -> BranchShape:
    half = np.array(direction) / np.linalg.norm(direction) * length / 2
    return BranchShape(
        name="pipe", points_mm=(tuple(-half), tuple(half)), radii_mm=(radius, radius), start="inlet", end="outlet"
    )


def volume_mm3(shape: VesselShape, size: tuple[int, int, int], spacing: tuple[float, float, float]) -> float:
    branches = [Branch(branch) for branch in shape.branches]
    covered = coverage(vessel_distance(shape, branches), size, spacing)
    return float(covered.sum(dtype=float) * np.prod(spacing))


@pytest.mark.parametrize("direction", [(0, 0, 1), (1, 1, 0), (1, 2, 3), (-3, 1, 2)])
@pytest.mark.parametrize("radius", [1.3, 2.0])
def test_volume_of_a_straight_pipe_is_pi_r2_l(direction, radius):
    volume = volume_mm3(VesselShape(branches=(straight(direction, radius, 12.0),)), (36, 36, 32), (0.4, 0.4, 0.5))
    # h^2 / (12 r^2) = 0.06 % at r = 1.3 mm, h = 0.11 mm, and the flat ends' rims
    assert volume == pytest.approx(np.pi * radius**2 * 12.0, rel=0.002)


def test_volume_of_a_bent_pipe_follows_from_pappus():
    angle = np.linspace(0, np.pi / 2, 9)
    points = [(9 * np.cos(a) - 5, 9 * np.sin(a) - 5, 0.3) for a in angle]
    branch = BranchShape(name="arc", points_mm=points, radii_mm=[1.6] * 9, start="a", end="b")
    volume = volume_mm3(VesselShape(branches=(branch,)), (40, 40, 16), (0.4, 0.4, 0.5))
    # the spline through points of a circle is not quite a circle where its natural ends have no curvature
    assert volume == pytest.approx(np.pi * 1.6**2 * 9 * np.pi / 2, rel=0.003)


def test_volume_of_a_cone_is_that_of_a_frustum():
    branch = BranchShape(name="cone", points_mm=((0, 0, -5), (0, 0, 5)), radii_mm=(1.0, 2.0), start="a", end="b")
    volume = volume_mm3(VesselShape(branches=(branch,)), (20, 20, 28), (0.4, 0.4, 0.5))
    # as for the straight pipe; h^2 / (12 r^2) = 0.1 % at the thin end
    assert volume == pytest.approx(np.pi * 10 / 3 * (1 + 2 + 4), rel=0.002)


def test_volume_of_a_sphere_and_of_a_shell():
    sphere = Ellipsoid(centre_mm=(0.1, -0.2, 0.3), radii_mm=(3, 3, 3))
    shell = Ellipsoid(centre_mm=(0.1, -0.2, 0.3), radii_mm=(3, 3, 3), shell_mm=1)
    full, hollow = (
        float(coverage(each.distance_mm, (20, 20, 20), (0.4, 0.4, 0.4)).sum() * 0.4**3) for each in (sphere, shell)
    )
    assert full == pytest.approx(4 / 3 * np.pi * 27, rel=0.002)
    assert hollow == pytest.approx(4 / 3 * np.pi * (27 - 8), rel=0.002)


def test_coverage_does_not_depend_on_the_blocks_it_is_computed_in():
    shape = settings("tiny").vessel
    distance = vessel_distance(shape, [Branch(branch) for branch in shape.branches])
    whole = coverage(distance, (48, 48, 44), (0.4, 0.4, 0.45))
    part = coverage(distance, (42, 38, 40), (0.4, 0.4, 0.45))  # the same voxels, cut into other blocks
    np.testing.assert_allclose(part, whole[2:-2, 5:-5, 3:-3], atol=1e-6)


def test_truth_of_the_pipe_is_what_its_file_says():
    given = settings("pipe")
    truth = synthesize(given).truth
    length = np.linalg.norm(np.diff(np.array(given.vessel.branches[0].points_mm), axis=0))
    assert truth["volume_mm3"] == pytest.approx(np.pi * 4 * length, rel=0.002)
    inlet, outlet = (np.array(opening["centre_mm"]) for opening in truth["openings"])
    assert np.linalg.norm(outlet - inlet) == pytest.approx(24, abs=1e-3)
    np.testing.assert_allclose((inlet + outlet) / 2, given.image.centre_mm, atol=1e-5)


def test_openings_lie_on_the_wall_with_normals_outwards(demo):
    volume = demo.mask
    assert [opening["name"] for opening in demo.truth["openings"]] == ["inlet", "large_outlet", "small_outlet"]
    for opening in demo.truth["openings"]:
        centre, normal = np.array(opening["centre_mm"]), np.array(opening["normal"])
        assert np.linalg.norm(normal) == pytest.approx(1, abs=1e-6)
        for step_mm, inside in ((-0.8, 1), (0.8, 0)):  # more than one voxel off the cut
            x, y, z = volume.to_index(centre + step_mm * normal).round().astype(int)
            assert volume.voxels[z, y, x] == inside


def test_walls_lie_a_radius_from_the_centrelines(tiny):
    """Half a radius short of the wall all is lumen, half a radius beyond it nothing, on the branches' last thirds."""
    for branch in tiny.truth["centrelines"][1:]:
        points, radii = np.array(branch["points_mm"]), np.array(branch["radius_mm"])
        assert np.linalg.norm(np.diff(points, axis=0), axis=1).max() < 0.4
        part = slice(2 * len(points) // 3, -4)
        along = np.gradient(points, axis=0)
        side = np.cross(along, [0.3, 1.0, 0.2])
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        for factor, inside in ((0.5, True), (-0.5, True), (1.5, False), (-1.5, False)):
            places = points + factor * radii[:, None] * side
            x, y, z = tiny.mask.to_index(places[part]).round().astype(int).T
            assert (tiny.mask.voxels[z, y, x] == inside).all()


def test_mask_has_the_volume_of_the_truth(demo):
    voxel_mm3 = np.prod(demo.mask.spacing_mm)
    assert demo.mask.voxels.sum() * voxel_mm3 == pytest.approx(demo.truth["volume_mm3"], rel=0.01)
    assert set(np.unique(demo.mask.voxels)) == {0, 1}


def test_intensities_are_those_of_the_file(demo):
    image = settings("aneurysm").image
    core = binary_erosion(demo.mask.voxels, iterations=3)
    values = demo.image.voxels[core]
    # the blur reaches three voxels in: a mean 1 % low at most; noise: sd of a few thousand samples within 5 %
    assert values.mean() == pytest.approx(image.lumen_hu, rel=0.02)
    assert values.std() == pytest.approx(image.noise_hu, rel=0.15)
    corner = demo.image.voxels[:10, -30:, -30:]
    assert corner.mean() == pytest.approx(image.tissue_hu, abs=1)
    assert corner.std() == pytest.approx(image.noise_hu, rel=0.05)
    assert demo.image.voxels.max() > 0.9 * image.bone_hu


def test_demo_is_what_the_readme_promises(demo):
    given = settings("aneurysm")
    assert demo.truth["volume_mm3"] < 700
    assert not np.allclose(demo.image.direction, np.eye(3), atol=0.05)
    sac = given.vessel.sacs[0]
    for branch in given.vessel.branches[1:]:
        gap = sac.distance_mm(Branch(branch).points_mm).min() - max(branch.radii_mm)
        assert gap > 5  # mm: the sac stays clear of both branches


@pytest.mark.parametrize("name", ["aneurysm", "pipe", "tiny"])
def test_seed_lies_in_the_lumen(name, demo, tiny):
    phantom = {"aneurysm": demo, "tiny": tiny}.get(name) or synthesize(settings(name))
    x, y, z = phantom.mask.to_index(phantom.truth["seeds_mm"][0]).round().astype(int)
    assert phantom.mask.voxels[z - 1 : z + 2, y - 1 : y + 2, x - 1 : x + 2].all()


def write_both(phantom: Phantom, folder: Path) -> None:
    write_series(phantom.image, folder, SeriesHeader("study", 2, "angiography", "AXIAL", 0.5))
    write_series(localizer(phantom.image), folder, SeriesHeader("study", 1, "localizer", "LOCALIZER", 0.5))


def test_same_file_gives_the_same_bytes(tiny, tmp_path):
    again = synthesize(settings("tiny"))
    write_both(tiny, tmp_path / "a")
    write_both(again, tmp_path / "b")
    first, second = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "a", tmp_path / "b")
    )
    assert first == second
    assert json.dumps(again.truth) == json.dumps(tiny.truth)


def test_another_seed_gives_other_images_with_other_uids(tiny, tmp_path):
    values = read_yaml(FOLDER / "tiny.yaml")
    values["image"]["noise_seed"] += 1
    other = synthesize(parse(PhantomSettings, values, "tiny"))
    write_both(tiny, tmp_path / "a")
    write_both(other, tmp_path / "b")
    first, second = ({d.SOPInstanceUID for d in read_all(tmp_path / name)} for name in "ab")
    assert len(first) == len(second) == 47
    assert not first & second


def read_all(folder: Path) -> list[pydicom.Dataset]:
    return [pydicom.dcmread(path) for path in sorted(folder.rglob("*")) if path.is_file()]


def test_series_is_proper_ct_in_an_awkward_folder(tiny, tmp_path):
    write_both(tiny, tmp_path)
    datasets = read_all(tmp_path)
    assert {d.SOPClassUID for d in datasets} == {CTImageStorage}
    assert len({d.SeriesInstanceUID for d in datasets}) == 2
    assert len({d.StudyInstanceUID for d in datasets}) == len({d.FrameOfReferenceUID for d in datasets}) == 1
    series = [d for d in datasets if d.ImageType[2] == "AXIAL"]
    assert len(series) == 44
    normal = tiny.image.direction[:, 2]
    position = [float(np.array(d.ImagePositionPatient) @ normal) for d in series]
    number = [d.InstanceNumber for d in series]
    order_of_names = np.corrcoef(np.arange(44), position)[0, 1]
    assert abs(order_of_names) < 0.6  # sorted by name they lie in no order: 4 sd of chance
    assert np.corrcoef(number, position)[0, 1] == pytest.approx(-1, abs=1e-6)
    assert all(d.RescaleIntercept == -1024 and d.PixelRepresentation == 0 for d in series)
    assert {str(d.PatientName) for d in series} == {"SYNTHETIC^PHANTOM"}


def test_localizer_shows_the_same_places(tiny):
    flat = localizer(tiny.image)
    z, y, x = 1, 20, 30
    place = flat.to_mm([x, y, z])
    at = tiny.image.to_index(place).round().astype(int)
    assert flat.voxels[z, y, x] == tiny.image.voxels[at[2], at[1], at[0]]
    assert np.linalg.det(flat.direction) == pytest.approx(1)


def test_left_handed_or_unfit_volumes_are_not_written(tmp_path):
    voxels = np.zeros((3, 4, 5), np.int16)
    header = SeriesHeader("study", 1, "x", "AXIAL", 1.0)
    with pytest.raises(ValueError, match="left-handed"):
        write_series(Volume(voxels, (1, 1, 1), (0, 0, 0), np.diag([1.0, 1.0, -1.0])), tmp_path, header)
    with pytest.raises(ValueError, match="do not fit"):
        write_series(Volume(voxels - 2000, (1, 1, 1), (0, 0, 0), np.eye(3)), tmp_path, header)


def changed(**changes: Any) -> dict[str, Any]:
    values = read_yaml(FOLDER / "tiny.yaml")
    for path, value in changes.items():
        *parents, key = path.split("__")
        place = values
        for parent in parents:
            place = place[int(parent)] if isinstance(place, list) else place[parent]
        place[key] = value
    return values


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image__nois_hu": 3}, "image.nois_hu: unknown key .*did you mean noise_hu"),
        ({"vessel__branches__0__radii_mm": [1.0]}, "3 points_mm but 1 radii_mm"),
        ({"vessel__branches__1__end": "inlet"}, "openings inlet named more than once"),
        ({"vessel__branches__0__points_mm": [[0, 0, 0]] * 3}, "two neighbours in points_mm are the same"),
        ({"vessel__branches__0__radii_mm": [1.0, -1.0, 1.0]}, "greater than 0"),
    ],
)
def test_mistakes_in_the_file_are_named(changes, expected):
    with pytest.raises(StageError, match=expected):
        parse(PhantomSettings, changed(**changes), "tiny.yaml")


def test_bone_that_touches_the_lumen_is_refused():
    bone = {"centre_mm": [3.9, 0, -4], "radii_mm": [1.5, 1.5, 1.5]}
    with pytest.raises(StageError, match=r"bones: 0\.\d+ mm from the lumen; at least 0.90 mm"):
        synthesize(parse(PhantomSettings, changed(bones=[bone]), "tiny"))


def test_opening_outside_the_image_is_refused():
    points = [[-0.5, 0.0, -12.0], [0.2, 0.3, -4.0], [0.0, 0.0, 0.0]]
    with pytest.raises(StageError, match=r"opening inlet: .* reaches out of the image"):
        synthesize(parse(PhantomSettings, changed(vessel__branches__0__points_mm=points), "tiny"))
