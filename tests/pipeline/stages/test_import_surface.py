# SPDX-License-Identifier: Apache-2.0
"""Entry with a surface: it comes back as large and where it was, whatever the file; what is doubtful is refused."""

import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vtkmodules.vtkCommonCore import vtkStringArray
from vtkmodules.vtkIOGeometry import vtkSTLWriter
from vtkmodules.vtkIOPLY import vtkPLYWriter
from vtkmodules.vtkIOXML import vtkXMLPolyDataWriter

from pipeline.files.mesh import Mesh
from pipeline.files.surface_file import SurfaceFile, read_surface_file
from pipeline.geometry.closed_surface import Surface
from pipeline.geometry.given_surface import MM, GivenSurface
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.isosurface import smooth_field, zero_surface
from pipeline.stages.import_surface import import_surface
from solver.runtime.errors import StageError
from tests.support.advice import advised
from tests.support.shapes import capped_cylinder, joined, revolve, sphere, stenosis, torus
from tests.support.tubes import SAC_MM, SAC_RADIUS_MM, arc, fork, line, tube
from tests.support.variants import some

LOG = logging.getLogger("test")
NAME = "SMITH^JOHN"
"""Stands in names of files, and must stand nowhere else."""
TURN = np.array([-1.0, -1.0, 1.0])
"""Between LPS and RAS."""


def brought_in(mesh: Mesh | SurfaceFile, unit: str = "mm", **keys) -> Surface:
    source = SurfaceFile(mesh.points_mm, mesh.triangles, None) if isinstance(mesh, Mesh) else mesh
    return import_surface(source, GivenSurface(unit=unit, **keys), LOG)


def bare(mesh: Mesh, keep=None) -> Mesh:
    """Some of the triangles, without tags."""
    triangles = mesh.triangles if keep is None else mesh.triangles[keep]
    return Mesh(mesh.points_mm, triangles, np.zeros(len(triangles), np.int8))


def area_mm2(mesh: Mesh) -> float:
    return float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).sum())


def write(mesh: Mesh, path: Path, kind: str, unit: str, frame: str, said: bool) -> Path:
    """Write as a program of that unit and those axes would, with the axes in the head of the file or not."""
    points = (mesh.points_mm * TURN if frame == "RAS" else mesh.points_mm) / MM[unit]
    polydata = Mesh(points, mesh.triangles, mesh.opening).to_vtk()
    polydata.GetCellData().RemoveArray("opening")
    head = f"made by a program; SPACE={frame}" if said else "made by a program"
    path = path.with_suffix("." + kind.split()[0])
    if kind == "obj":
        corners = ["v {:.9g} {:.9g} {:.9g}".format(*point) for point in points]
        faces = ["f {} {} {}".format(*triangle) for triangle in mesh.triangles + 1]
        path.write_text("\n".join([f"# {head}", *corners, *faces]) + "\n")
        return path
    if kind == "vtp":
        writer = vtkXMLPolyDataWriter()
        if said:
            array = vtkStringArray()
            array.SetName("SPACE")
            array.InsertNextValue(frame)
            polydata.GetFieldData().AddArray(array)
    elif kind == "ply":
        writer = vtkPLYWriter()
        writer.AddComment(head)
    else:
        writer = vtkSTLWriter()
        writer.SetHeader(head)
        writer.SetFileTypeToASCII() if kind == "stl text" else writer.SetFileTypeToBinary()
    writer.SetFileName(str(path))
    writer.SetInputData(polydata)
    writer.Write()
    return path


KINDS = ("stl", "stl text", "vtp", "obj", "ply")
VESSEL, OPENINGS = stenosis((1, -2, 3), 3.0, 30.0, 1.5, (12.0, -34.0, 250.0), segments=32)


@given(
    st.sampled_from(KINDS), st.sampled_from(sorted(MM)), st.sampled_from(["LPS", "RAS"]), st.booleans(), st.booleans()
)
@settings(max_examples=15, deadline=None)
def test_a_surface_comes_back_from_any_file_in_any_unit_and_axes(tmp_path_factory, kind, unit, frame, said, capped):
    """Files keep 7 digits of places 250 mm away: 3e-5 mm, of a radius of 3 mm 1e-5."""
    mesh = VESSEL if capped else bare(VESSEL, VESSEL.opening == 0)
    path = write(mesh, tmp_path_factory.mktemp("surface") / "vessel", kind, unit, frame, said)
    file = read_surface_file(path)
    assert file.frame == (frame if said else None)
    result = brought_in(file, unit, frame=None if said else frame)
    assert result.quality["openings_by"] == ("flat caps" if capped else "rims")
    assert result.mesh.volume_mm3() == pytest.approx(VESSEL.volume_mm3(), rel=1e-4)
    assert area_mm2(result.mesh) == pytest.approx(area_mm2(VESSEL), rel=1e-4)
    assert len(result.openings) == 2
    for opening in result.openings:
        true = min(OPENINGS, key=lambda each: np.linalg.norm(np.subtract(each.centre_mm, opening.centre_mm)))
        np.testing.assert_allclose(opening.centre_mm, true.centre_mm, atol=1e-3)
        np.testing.assert_allclose(opening.normal, true.normal, atol=1e-3)
        assert opening.radius_mm == pytest.approx(true.radius_mm, rel=1e-4)


def test_axes_that_the_file_and_the_case_name_must_agree(tmp_path):
    path = write(VESSEL, tmp_path / "v", "stl", "mm", "RAS", said=True)
    with pytest.raises(StageError, match=r"surface_frame = LPS: the file says of itself SPACE=RAS"):
        brought_in(read_surface_file(path), frame="LPS")


@pytest.mark.parametrize(
    ("written", "given", "likely"),
    [("m", "mm", "unit: m .in m 37"), ("mm", "m", "unit: mm .in mm 37"), ("um", "cm", "unit: um .in um")],
)
def test_a_size_that_no_vessel_has_is_refused_with_the_likely_unit(written, given, likely):
    mesh = Mesh(VESSEL.points_mm / MM[written], VESSEL.triangles, VESSEL.opening)
    with pytest.raises(StageError, match=f"surface_unit = {given}.*{likely}"):
        brought_in(mesh, given)


def test_a_radius_that_no_vessel_has_is_refused():
    with pytest.raises(StageError, match=r"surface_unit = cm: the mean radius would be .* mm.*in mm"):
        brought_in(capped_cylinder((0, 0, 1), 10.0, 60.0)[0], "cm")


def test_the_real_aorta_opens_at_the_same_three_places_open_or_closed(real_cases):
    """The cuts lie up to 6 mm within the rims, where the vessels are hardly wider or narrower."""
    folder = real_cases / "aorta-iliac-mra"
    found = {}
    for name in ("aorta-surface-open-ends.stl", "aorta-surface.stl"):
        result = brought_in(read_surface_file(folder / name), frame="RAS")
        check_closed(result.mesh)
        found[result.quality["openings_by"]] = result
    rims, cuts = found["rims"], found["cuts"]
    assert [round(o.radius_mm, 1) for o in sorted(rims.openings, key=lambda o: -o.radius_mm)] == [7.7, 4.4, 4.4]
    for opening in rims.openings:
        other = min(cuts.openings, key=lambda o: np.linalg.norm(np.subtract(o.centre_mm, opening.centre_mm)))
        assert other.name == opening.name
        assert other.radius_mm == pytest.approx(opening.radius_mm, rel=0.03)
        assert np.dot(other.normal, opening.normal) > 0.9  # the given rims of both iliac arteries lie in one direction
        assert np.linalg.norm(np.subtract(other.centre_mm, opening.centre_mm)) < 7
    assert cuts.mesh.volume_mm3() == pytest.approx(rims.mesh.volume_mm3(), rel=0.03)
    low, high = rims.mesh.points_mm.min(axis=0), rims.mesh.points_mm.max(axis=0)
    assert -240 < low[0] < high[0] < -205  # LPS: the sign of x and y is turned
    assert -180 < low[1] < high[1] < -100


def rounded(volume) -> Mesh:
    """A closed surface with round ends, as most programs export a segmentation."""
    return zero_surface(smooth_field(volume, None))


@pytest.mark.parametrize("points", [line(30, seed=5), arc(14, 2.6, seed=8)], ids=["line", "arc"])
def test_round_ends_are_found_and_cut_in_the_given_triangles(points):
    mesh = rounded(tube(points, 4.0))
    result = brought_in(mesh)
    assert result.quality["openings_by"] == "cuts"
    assert [o.role for o in result.openings] == ["inlet", "outlet"] or [o.role for o in result.openings] == [
        "outlet",
        "inlet",
    ]
    for opening in result.openings:
        assert opening.radius_mm == pytest.approx(4.0, rel=0.03)  # steps of voxels in the given mask
    tips = np.array([opening.centre_mm for opening in result.openings])
    away = np.linalg.norm(mesh.points_mm[:, None] - tips, axis=2).min(axis=1) > 6
    kept = {tuple(point) for point in result.mesh.points_mm.tolist()}
    assert away.sum() > 500
    assert all(tuple(point) in kept for point in mesh.points_mm[away].tolist())


def test_a_sac_stays_closed_and_an_end_on_request_too():
    mesh = rounded(fork(sac=True))
    result = brought_in(mesh)
    assert len(result.openings) == 3
    for opening in result.openings:
        assert np.linalg.norm(np.subtract(opening.centre_mm, SAC_MM)) > SAC_RADIUS_MM
    away = result.openings[2]
    fewer = brought_in(mesh, closed_mm=[away.centre_mm])
    assert len(fewer.openings) == 2
    assert any("closed_mm" in each["why"] for each in fewer.quality["closed_ends"])


def test_caps_and_rims_stay_closed_on_request():
    three = rounded(fork())
    cut = brought_in(three)  # three flat caps
    for mesh in (bare(cut.mesh), bare(cut.mesh, cut.mesh.opening == 0)):
        result = brought_in(mesh, closed_mm=[cut.openings[1].centre_mm])
        radii = sorted(opening.radius_mm for opening in result.openings)
        assert radii == pytest.approx(sorted(cut.openings[k].radius_mm for k in (0, 2)), rel=1e-3)
        assert result.mesh.volume_mm3() == pytest.approx(cut.mesh.volume_mm3(), rel=1e-6)
        with pytest.raises(StageError, match="1 open ends, at least 2"):
            brought_in(mesh, closed_mm=[cut.openings[1].centre_mm, cut.openings[0].centre_mm])


def test_a_coarse_surface_is_cut_where_it_ought_to_be():
    """A closed tube of long triangles with domed ends: edges are split, the shape stays."""
    height = np.concatenate(
        [[-14.0], -10 - 4 * np.cos(np.linspace(0.3, 1.5, 4)), [10.0], 10 + 4 * np.sin(np.linspace(0.3, 1.3, 4)), [14.0]]
    )
    radius = 4 * np.concatenate([[0], np.sin(np.linspace(0.3, 1.5, 4)), [1], np.cos(np.linspace(0.3, 1.3, 4)), [0]])
    mesh = revolve(radius, height, [0] * (len(height) - 1), (1, 2, 3), (0.0, 0, 0), 32)
    result = brought_in(mesh)
    check_closed(result.mesh)
    assert [o.radius_mm for o in result.openings] == pytest.approx([4.0, 4.0], rel=0.02)
    axis = np.array([1, 2, 3]) / np.sqrt(14)
    for opening in result.openings:
        assert abs(np.dot(opening.normal, axis)) > 0.999
    length = abs(np.dot(np.subtract(result.openings[0].centre_mm, result.openings[1].centre_mm), axis))
    section = 16 * np.sin(2 * np.pi / 32) * 16  # of 32 corners
    assert result.mesh.volume_mm3() == pytest.approx(section * length, rel=0.02)


def spoiled(kind: str) -> Mesh:
    """The vessel with a fault that can be repaired."""
    points, triangles = VESSEL.points_mm, VESSEL.triangles
    rng = np.random.default_rng(0)
    if kind == "inside out":
        triangles = triangles[:, ::-1]
    elif kind == "turned at random":
        triangles = np.where(rng.random(len(triangles))[:, None] < 0.4, triangles[:, ::-1], triangles)
    elif kind == "soup":
        points, triangles = points[triangles].reshape(-1, 3), np.arange(3 * len(triangles)).reshape(-1, 3)
    elif kind == "soup with noise":
        points, triangles = points[triangles].reshape(-1, 3), np.arange(3 * len(triangles)).reshape(-1, 3)
        points = points + rng.uniform(-2e-5, 2e-5, points.shape)
    elif kind == "doubled":
        triangles = np.concatenate([triangles, triangles[::2, ::-1], triangles[::3]])
    elif kind == "degenerate":
        triangles = np.concatenate([triangles, triangles[:50, [0, 1, 1]]])
    elif kind == "specks":
        speck, _ = capped_cylinder((0, 0, 1), 0.2, 0.4, (0.0, 0, 0), 8)
        points, triangles = (
            np.concatenate([points, speck.points_mm]),
            np.concatenate([triangles, speck.triangles + len(points)]),
        )
    elif kind == "pinhole":
        wall = np.flatnonzero(VESSEL.opening == 0)
        triangles = np.delete(triangles, wall[len(wall) // 2], axis=0)
    return Mesh(points, triangles, np.zeros(len(triangles), np.int8))


@pytest.mark.parametrize(
    "kind", ["inside out", "turned at random", "soup", "soup with noise", "doubled", "degenerate", "specks", "pinhole"]
)
def test_what_can_be_repaired_without_doubt_is(kind):
    result = brought_in(spoiled(kind))
    check_closed(result.mesh)
    assert len(result.openings) == 2
    assert result.mesh.volume_mm3() == pytest.approx(VESSEL.volume_mm3(), rel=1e-4)
    assert len(result.mesh.triangles) == len(VESSEL.triangles)


def faces_of(mesh: Mesh) -> np.ndarray:
    """Face numbers as a modeller gives them: the wall in two faces, and one for each cap."""
    height = mesh.centroids_mm() @ np.array([1, -2, 3]) / np.sqrt(14)
    return np.where(mesh.opening > 0, mesh.opening + 10, np.where(height > np.median(height), 2, 1)).astype(np.int64)


def with_faces(mesh: Mesh, array: str, faces: np.ndarray) -> SurfaceFile:
    return SurfaceFile(mesh.points_mm, mesh.triangles, None, {array: faces})


@pytest.mark.parametrize("array", ["ModelFaceID", "CapID", "opening"])
def test_flat_faces_of_a_known_array_are_openings(array, caplog):
    with caplog.at_level(logging.INFO):
        result = brought_in(with_faces(VESSEL, array, faces_of(VESSEL)))
    assert result.quality["openings_by"] == f"faces of {array}"
    assert sorted(result.quality["faces"].values()) == [11, 12]
    inlet = next(opening for opening in result.openings if opening.name == "inlet")
    true = next(each for each in OPENINGS if each.id + 10 == result.quality["faces"]["inlet"])
    np.testing.assert_allclose(inlet.centre_mm, true.centre_mm, atol=1e-6)
    assert any(text.startswith("face 11 is opening") for text in caplog.messages)
    ignored = brought_in(with_faces(VESSEL, array, faces_of(VESSEL)), face_array="ignore")
    assert ignored.quality["openings_by"] == "flat caps"


def test_faces_of_a_faceted_surface_are_openings_where_sharp_edges_say_nothing():
    """Six sides: every facet of the wall is flat and has sharp edges, so that caps show by their numbers alone."""
    mesh, _ = capped_cylinder((1, 2, 3), 3.0, 30.0, segments=6, rings=10)
    faces = np.where(mesh.opening > 0, mesh.opening + 1, 1).astype(np.int64)
    result = brought_in(with_faces(mesh, "ModelFaceID", faces))
    assert result.quality["openings_by"] == "faces of ModelFaceID"
    assert len(result.openings) == 2


def test_faces_survive_repair():
    """Points and triangles are merged, dropped and turned on the way; every face stays with its triangles."""
    rng = np.random.default_rng(3)
    points = VESSEL.points_mm[VESSEL.triangles].reshape(-1, 3)
    triangles = np.arange(3 * len(VESSEL.triangles)).reshape(-1, 3)
    turned = np.where(rng.random(len(triangles))[:, None] < 0.3, triangles[:, ::-1], triangles)
    triangles = np.concatenate([turned[:7, [0, 0, 1]], turned, turned[::5]])
    faces = np.concatenate([np.full(7, 99), faces_of(VESSEL), faces_of(VESSEL)[::5]])
    result = brought_in(SurfaceFile(points, triangles, None, {"ModelFaceID": faces}))
    assert sorted(result.quality["faces"].values()) == [11, 12]
    assert result.mesh.volume_mm3() == pytest.approx(VESSEL.volume_mm3(), rel=1e-9)


def test_faces_are_read_from_a_file_and_quadrilaterals_keep_theirs(tmp_path):
    polydata = VESSEL.to_vtk()
    writer = vtkXMLPolyDataWriter()
    writer.SetFileName(str(tmp_path / "model.vtp"))
    writer.SetInputData(polydata)
    writer.Write()
    file = read_surface_file(tmp_path / "model.vtp")
    np.testing.assert_array_equal(file.faces["opening"], VESSEL.opening)
    (tmp_path / "box.obj").write_text(
        "".join(f"v {x} {y} {z}\n" for z in (0, 1) for y in (0, 1) for x in (0, 1))
        + "g wall\nf 1 2 6 5\nf 3 7 8 4\nf 1 5 7 3\nf 2 4 8 6\ng low\nf 1 3 4 2\ng high\nf 5 6 8 7\n"
    )
    assert read_surface_file(tmp_path / "box.obj").faces["GroupIds"].tolist() == [0] * 8 + [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("array", "change", "message"),
    [
        ("Region", lambda f: f, r"surface_face_array = Region: the file has no such array.*there are: ModelFaceID"),
        ("ModelFaceID", lambda f: np.where(f == 11, 1, f), r"1 of its faces are flat caps, at least 2.*2 not plane"),
    ],
)
def test_faces_that_contradict_the_settings_are_refused(array, change, message):
    with pytest.raises(StageError, match=message):
        brought_in(with_faces(VESSEL, "ModelFaceID", change(faces_of(VESSEL))), face_array=array)


def test_faces_and_open_rims_are_refused_together():
    wall = VESSEL.opening != 2
    given_ = SurfaceFile(VESSEL.points_mm, VESSEL.triangles[wall], None, {"ModelFaceID": faces_of(VESSEL)[wall]})
    with pytest.raises(StageError, match=r"ModelFaceID: the surface has open rims too, 1 of them"):
        brought_in(given_, face_array="ModelFaceID")


@pytest.mark.parametrize("smoother", some(["windowed-sinc", "taubin"], "windowed-sinc"))
def test_a_given_surface_is_smoothed_on_request(smoother):
    mesh, _ = capped_cylinder((1, 2, 3), 3.0, 30.0)
    rough = mesh.points_mm.copy()
    wall = np.setdiff1d(mesh.triangles[mesh.opening == 0], mesh.triangles[mesh.opening > 0])
    rough[wall] += np.random.default_rng(0).normal(0, 0.03, (len(wall), 3))
    result = brought_in(Mesh(rough, mesh.triangles, mesh.opening), smoother=smoother)
    axis = np.array([1, 2, 3]) / np.sqrt(14)

    def roughness(points: np.ndarray) -> float:
        points = points[np.abs(points @ axis) < 10]
        return float(np.std(np.linalg.norm(points - (points @ axis)[:, None] * axis, axis=1)))

    assert roughness(result.mesh.points_mm) < 0.6 * roughness(rough)
    with pytest.raises(StageError, match="smoother = field: it smooths voxels"):
        brought_in(mesh, smoother="field")


def test_a_fold_is_refused_with_its_place():
    """One vertex of the wall is pulled through the opposite wall: less than 1e-4 of the volume lies in it twice."""
    mesh, _ = capped_cylinder((1, 2, 3), 3.0, 30.0, segments=96)
    points = mesh.points_mm.copy()
    vertex = int(mesh.triangles[mesh.opening == 0][2000, 0])
    axis = np.array([1, 2, 3]) / np.sqrt(14)
    away = points[vertex] - (points[vertex] @ axis) * axis
    points[vertex] -= 2.03 * away
    with pytest.raises(
        StageError, match=r"pairs of its triangles pass through each other, at \d+ places?: \("
    ) as caught:
        brought_in(Mesh(points, mesh.triangles, mesh.opening))
    assert caught.value.picture().startswith(b"\x89PNG")


def crossing_tubes() -> Mesh:
    """One tube that runs through itself."""
    t = np.linspace(0, 2 * np.pi, 97)[:-1]
    centre = np.stack([20 * np.sin(t), 10 * np.sin(2 * t), 0 * t], axis=1)
    tangent = np.gradient(np.concatenate([centre[-1:], centre, centre[:1]]), axis=0)[1:-1]
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    side = np.cross(tangent, [0, 0, 1.0])
    angle = 2 * np.pi * np.arange(24) / 24
    rings = centre[:, None] + 3 * (
        np.cos(angle)[:, None] * side[:, None] + np.sin(angle)[:, None] * np.array([0, 0, 1.0])
    )
    row = np.arange(96 * 24).reshape(96, 24)
    a, b, c, d = row, np.roll(row, -1, 1), np.roll(row, -1, 0), np.roll(np.roll(row, -1, 0), -1, 1)
    triangles = np.concatenate([np.stack([a, c, b], -1).reshape(-1, 3), np.stack([b, c, d], -1).reshape(-1, 3)])
    return Mesh(rings.reshape(-1, 3), triangles, np.zeros(len(triangles), np.int8))


def moebius() -> Mesh:
    t, s = np.linspace(0, 2 * np.pi, 60, endpoint=False), np.linspace(-2, 2, 5)
    wide = np.array(
        [
            [[(9 + v * np.cos(u / 2)) * np.cos(u), (9 + v * np.cos(u / 2)) * np.sin(u), v * np.sin(u / 2)] for v in s]
            for u in t
        ]
    )
    triangles = []
    for i in range(60):
        for j in range(4):
            near = [i * 5 + j, i * 5 + j + 1]
            far = [(i + 1) * 5 + j, (i + 1) * 5 + j + 1] if i < 59 else [4 - j, 3 - j]
            triangles += [[near[0], far[0], near[1]], [near[1], far[0], far[1]]]
    return Mesh(wide.reshape(-1, 3), np.array(triangles), np.zeros(len(triangles), np.int8))


def faulty(kind: str) -> Mesh:
    """A surface with a fault that only its maker can repair."""
    points, triangles = VESSEL.points_mm, VESSEL.triangles
    wall = VESSEL.opening == 0
    if kind == "not finite":
        points = points.copy()
        points[5] = np.nan
    elif kind == "two pieces":
        return bare(joined(VESSEL, capped_cylinder((0, 0, 1), 2.0, 9.0)[0]))
    elif kind == "inner wall":
        a, b = triangles[np.flatnonzero(wall)[40]][:2]
        triangles = np.concatenate([triangles, [[a, b, len(points)]]])
        points = np.concatenate([points, points.mean(axis=0)[None]])
    elif kind == "one side":
        return moebius()
    elif kind == "overlap":
        return crossing_tubes()
    elif kind == "one rim":
        cup = sphere(4.0, (0, 0, 0), segments=32)
        return bare(cup, cup.points_mm[cup.triangles][..., 2].mean(axis=1) < 2)
    elif kind == "bent rim":
        mesh, _ = capped_cylinder((0, 0, 1), 3.0, 30.0, rings=20)
        height = mesh.points_mm[:, 2]
        bent = np.column_stack(
            [mesh.points_mm[:, :2], height + np.where(height > 14, 0.5 * mesh.points_mm[:, 0] ** 2, 0)]
        )
        return Mesh(bent, mesh.triangles[mesh.opening == 0], np.zeros(int((mesh.opening == 0).sum()), np.int8))
    elif kind == "ball":
        return sphere(5.0)
    elif kind == "ring":
        return torus(12.0, 3.0)
    elif kind == "flat":
        return Mesh(points * [1, 1, 0], triangles[:0], VESSEL.opening[:0])
    return Mesh(points, triangles, np.zeros(len(triangles), np.int8))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("not finite", "1 points are not finite"),
        ("two pieces", "2 pieces that share no edge, of .* mm2.*input.surface_union: true; otherwise join"),
        ("inner wall", "edges are shared by more than two triangles, for instance at"),
        ("one side", "one side only"),
        (
            "overlap",
            r"overlaps itself or is inside out in .*%.*, most around \(.*\) mm.*surface_union: true",
        ),
        ("one rim", "1 open ends, at least 2"),
        ("bent rim", "leaves its plane by 2.25 mm .limit 2.14 mm.; cut that end flat"),
        ("ball", "0 open ends found|1 open ends found"),
        ("ring", "0 open ends found"),
    ],
)
def test_faults_that_only_its_maker_can_repair_are_refused(kind, message):
    with pytest.raises(StageError, match=message) as caught:
        brought_in(faulty(kind))
    assert "\n" not in str(caught.value)
    assert "filter." not in str(caught.value)  # no remedy of a stage that does not run


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("word for a number", "STL file is damaged in line 41"),
        ("line missing", "STL file is damaged in line 31"),
        ("end missing", "STL file is damaged"),
        ("binary cut", "damaged|no triangle"),
        ("ply cut", "damaged|no triangle|corners"),
        ("empty", "damaged|no triangle"),
        ("points only", "no triangle"),
        ("other kind", "no file of the kinds"),
        ("renamed image", "damaged|no triangle"),
    ],
)
def test_broken_files_end_with_one_message_that_does_not_name_them(tmp_path, capfd, kind, message):
    path = tmp_path / f"{NAME}.stl"
    text = write(VESSEL, tmp_path / "text", "stl text", "mm", "LPS", said=False).read_text().splitlines()
    if kind == "word for a number":
        text[40] = "  vertex 0.1 abc 0.3"
        path.write_text("\n".join(text))
    elif kind == "line missing":
        path.write_text("\n".join(text[:30] + text[31:]))
    elif kind == "end missing":
        path.write_text("\n".join(text[:100]))
    elif kind == "binary cut":
        path.write_bytes(write(VESSEL, tmp_path / "b", "stl", "mm", "LPS", said=False).read_bytes()[:5000])
    elif kind == "ply cut":
        path = path.with_suffix(".ply")
        path.write_bytes(write(VESSEL, tmp_path / "b", "ply", "mm", "LPS", said=False).read_bytes()[:9000])
    elif kind == "points only":
        path = path.with_suffix(".obj")
        path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\n")
    elif kind == "other kind":
        path = path.with_suffix(".vtu")
        path.write_text("<VTKFile/>")
    else:
        path.write_bytes(b"" if kind == "empty" else b"\x89PNG\r\n\x1a\n" + bytes(300))
    with pytest.raises(StageError, match=message) as caught:
        read_surface_file(path)
    assert NAME not in str(caught.value)
    assert NAME not in "".join(capfd.readouterr())  # VTK writes its own errors past Python


@pytest.mark.parametrize("binary", [True, False])
def test_a_cut_ply_of_polygons_is_refused_before_it_is_read(tmp_path, binary):
    """VTK would crash: as many bytes follow the head as that many triangles need, but not as these polygons do."""
    kind = "binary_little_endian" if binary else "ascii"
    head = f"ply\nformat {kind} 1.0\nelement vertex 8\nproperty float x\nproperty float y\nproperty float z\n"
    head += "element face 6\nproperty list uchar int vertex_indices\nend_header\n"
    corners = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)], "<f4")
    faces = [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]]
    if binary:
        body = corners.tobytes() + b"".join(bytes([4]) + np.array(face, "<i4").tobytes() for face in faces)
    else:
        rows = [*corners.tolist(), *([4, *face] for face in faces)]
        body = "\n".join(" ".join(map(str, row)) for row in rows).encode()
    path = tmp_path / "box.ply"
    path.write_bytes(head.encode() + body)
    assert len(read_surface_file(path).triangles) == 12
    for cut in (3, 12, 20):
        path.write_bytes((head.encode() + body)[:-cut])
        with pytest.raises(StageError, match="damaged or breaks off"):
            read_surface_file(path)


CLOSED = capped_cylinder((1, -2, 3), 3.0, 30.0, segments=24)[0]


@settings(max_examples=20, deadline=None)
@given(part=st.floats(0.0, 0.97))
def test_an_obj_that_breaks_off_among_its_faces_is_refused(part, tmp_path_factory):
    """Nothing in it says how many there are, and a vessel that ends early has an end to open."""
    path = write(CLOSED, tmp_path_factory.mktemp("obj") / "vessel", "obj", "mm", "LPS", said=True)
    whole = path.read_bytes()
    assert len(read_surface_file(path).triangles) == len(CLOSED.triangles)
    first = whole.index(b"\nf ") + 2
    path.write_bytes(whole[: first + int(part * (len(whole) - first))].rpartition(b"\n")[0] + b"\n")
    with pytest.raises(StageError, match=r"points of the OBJ file belong to no face|no triangle can be read"):
        read_surface_file(path)


def test_an_obj_may_hold_a_point_that_no_face_has(tmp_path):
    path = write(CLOSED, tmp_path / "vessel", "obj", "mm", "LPS", said=True)
    path.write_bytes(path.read_bytes().replace(b"\nf ", b"\nv 0 0 0\nf ", 1))
    assert len(read_surface_file(path).triangles) == len(CLOSED.triangles)
    path.write_bytes(path.read_bytes().rstrip())  # as where its last line is cut
    with pytest.raises(StageError, match="1 of 939 points of the OBJ file belong to no face"):
        read_surface_file(path)


def test_a_face_without_corners_is_damage(tmp_path):
    path = write(CLOSED, tmp_path / "vessel", "ply", "mm", "LPS", said=True)
    whole = path.read_bytes()
    path.write_bytes(whole[:-13] + bytes(13))  # the last face: its count and three corners
    with pytest.raises(StageError, match="the PLY file is damaged"):
        read_surface_file(path)


def test_polygons_are_split_into_triangles(tmp_path):
    (tmp_path / "box.obj").write_text(
        "".join(f"v {x} {y} {z}\n" for z in (0, 1) for y in (0, 1) for x in (0, 1))
        + "f 1 3 4 2\nf 5 6 8 7\nf 1 2 6 5\nf 3 7 8 4\nf 1 5 7 3\nf 2 4 8 6\n"
    )
    file = read_surface_file(tmp_path / "box.obj")
    assert len(file.triangles) == 12
    box = Mesh(file.points, file.triangles, np.zeros(12, np.int8))
    assert box.volume_mm3() == pytest.approx(1)


@pytest.mark.parametrize("number", [1, 2])
def test_one_open_end_and_flat_caps_at_the_others_are_all_openings(number):
    found = brought_in(bare(VESSEL, VESSEL.opening != number))
    assert (len(found.openings), found.quality["openings_by"]) == (len(OPENINGS), "a rim and flat caps")
    assert found.quality["volume_mm3"] == pytest.approx(VESSEL.volume_mm3(), rel=1e-4)


def test_a_hole_beside_flat_caps_is_refused_with_the_place_that_closes_it():
    """Where the rim of the hole is nearly flat; a wider one is an uneven end, and only told to be capped."""
    middle = VESSEL.centroids_mm()
    wall = np.flatnonzero(VESSEL.opening == 0)
    place = middle[wall[len(wall) // 3]]
    torn = bare(VESSEL, np.linalg.norm(middle - place, axis=1) > 0.7)
    with pytest.raises(StageError, match=r"one open rim.*set surface\.closed_mm") as refused:
        brought_in(torn)
    case = {"input": {"surface": "torn.stl", "surface_unit": "mm"}, "solve": {"inlets": {"*": {"flow_ml_s": 1.0}}}}
    way = next(each.settings for each in advised(str(refused.value), case) if each.settings)
    found = brought_in(torn, closed_mm=way["surface"]["closed_mm"])
    assert len(found.openings) == len(OPENINGS)
    assert found.quality["volume_mm3"] == pytest.approx(VESSEL.volume_mm3(), rel=0.01)
