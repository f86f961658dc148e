# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import asdict

import numpy as np
import pytest

from pipeline.files.mesh import Mesh, read_openings, write_openings
from solver.runtime.errors import StageError
from tests.support.shapes import capped_cylinder, opening_of, sphere, torus


def polygon(segments):
    """Area of a regular polygon over that of the circle through its corners."""
    return np.sin(2 * np.pi / segments) / (2 * np.pi / segments)


def test_file_gives_back_the_same_mesh(tmp_path):
    mesh, _ = capped_cylinder((1, 2, 3), 2.0, 9.0, (10, -20, 30), segments=24)
    mesh.write(tmp_path / "surface.vtp")
    again = Mesh.read(tmp_path / "surface.vtp")
    for name in ("points_mm", "triangles", "opening"):
        np.testing.assert_array_equal(getattr(again, name), getattr(mesh, name))
        assert getattr(again, name).dtype == getattr(mesh, name).dtype


@pytest.mark.parametrize("text", ["", "not XML", "<VTKFile type='PolyData'/>"])
def test_file_without_a_surface_is_refused(tmp_path, text):
    (tmp_path / "surface.vtp").write_text(text)
    with pytest.raises(StageError, match="no surface in this file"):
        Mesh.read(tmp_path / "surface.vtp")


@pytest.mark.parametrize("axis", [(0, 0, 1), (1, 2, 3), (-3, 1, 0.2)])
def test_cylinder_has_its_area_and_volume(axis):
    mesh, openings = capped_cylinder(axis, 2.0, 9.0, (100.0, -50.0, 20.0), segments=50)
    areas = np.linalg.norm(mesh.area_vectors_mm2(), axis=1)
    np.testing.assert_allclose(mesh.volume_mm3(), np.pi * 4 * 9 * polygon(50), rtol=1e-12)
    np.testing.assert_allclose([areas[mesh.opening == k].sum() for k in (1, 2)], np.pi * 4 * polygon(50), rtol=1e-12)
    np.testing.assert_allclose(areas[mesh.opening == 0].sum(), 9 * 50 * 4 * np.sin(np.pi / 50), rtol=1e-12)
    along = np.array(axis) / np.linalg.norm(axis)
    np.testing.assert_allclose([opening.normal for opening in openings], [-along, along], atol=1e-12)
    centres = np.array([opening.centre_mm for opening in openings])
    np.testing.assert_allclose(centres, np.array((100, -50, 20)) + np.outer((-4.5, 4.5), along), atol=1e-12)
    # A closed surface has no area vector.
    np.testing.assert_allclose(mesh.area_vectors_mm2().sum(axis=0), 0, atol=1e-10)


def test_sphere_and_torus_approach_their_volumes_at_second_order():
    exact = {sphere: 4 / 3 * np.pi * 8, torus: 2 * np.pi**2 * 5 * 4}
    sizes = {sphere: (2.0,), torus: (5.0, 2.0)}
    for shape, volume in exact.items():
        errors = [1 - shape(*sizes[shape], segments=n).volume_mm3() / volume for n in (32, 64, 128)]
        np.testing.assert_allclose(np.log2(errors[:2]) - np.log2(errors[1:]), 2, atol=0.01)


def test_openings_file_gives_back_the_same_openings(tmp_path):
    _, openings = capped_cylinder((1, 2, 3), 2.0, 9.0)
    write_openings(openings, tmp_path / "openings.json", quality={"triangles": 12})
    assert read_openings(tmp_path / "openings.json") == openings
    assert json.loads((tmp_path / "openings.json").read_text())["quality"] == {"triangles": 12}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"role": "outflow"}, "role 'outflow'"),
        ({"id": 2}, "id 2"),
        ({"radius_mm": -1.0}, "positive"),
        ({"normal": (1.0, 1.0, 1.0)}, "unit vector"),
        ({"centre_mm": (1.0, 1.0)}, "not enough values"),
        ({"area_mm2": None}, "float"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_openings_file_with_a_wrong_value_is_refused(tmp_path, change, reason):
    mesh, _ = capped_cylinder((0, 0, 1), 2.0, 9.0)
    entry = asdict(opening_of(mesh, 1, "inlet", "inlet")) | change
    (tmp_path / "openings.json").write_text(json.dumps({"openings": [entry]}))
    with pytest.raises(StageError, match=reason):
        read_openings(tmp_path / "openings.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"openings": 3}', "\x00"])
def test_file_without_openings_is_refused(tmp_path, text):
    (tmp_path / "openings.json").write_text(text)
    with pytest.raises(StageError, match="run surface again"):
        read_openings(tmp_path / "openings.json")
