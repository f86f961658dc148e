# SPDX-License-Identifier: Apache-2.0
"""What pictures show, and that they show it where and how large it is."""

import matplotlib as mpl
import numpy as np
import pytest
from vtkmodules.vtkFiltersSources import vtkSphereSource

from pipeline.files.mesh import Mesh
from pipeline.haemodynamics import streamlines
from pipeline.haemodynamics.streamlines import Grid
from pipeline.haemodynamics.wall_shear_stress import Wall
from pipeline.reporting import colours, figures, render, scene
from pipeline.reporting.figures import nice_length
from pipeline.reporting.quantities import KINDS
from pipeline.reporting.view3d import decimated
from tests.support.analytic_pipe import Pipe


@pytest.fixture(scope="module")
def pipe():
    return Pipe(axis=(2, 3, 6), length_mm=14.0)


@pytest.fixture(scope="module")
def grid(pipe):
    nodes = pipe.nodes(0.25)
    return Grid.of(nodes, pipe.velocity(nodes.points_mm()))


@pytest.fixture
def can_draw():
    if render.window_class() is None:
        pytest.skip(f"nothing to draw with: {render.REMEDY}")


@pytest.mark.parametrize(
    ("vector", "letters"),
    [((1, 0, 0), "L"), ((0, -1, 0), "A"), ((0.1, 0, -1), "F"), ((0.7, 0.7, 0.1), "LP"), ((-0.5, 0, 0.86), "HR")],
)
def test_letters_name_directions_of_lps(vector, letters):
    assert scene.direction_letters(np.array(vector)) == letters


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 0, 1), (0.2, 1, 0.1), (2, 3, 6)])
def test_front_view_is_right_handed_shows_all_and_has_head_or_front_up(axis):
    points = Wall.of(Pipe(axis=axis, length_mm=14.0).surface(0.5)).mesh.points_mm
    points = points + 0.3 * np.array([0, 0, 1]) * (points @ np.array([1.0, 0, 0]))[:, None] ** 2  # bent: one plane
    view = scene.front_view(points)
    frame = np.array([view.right, view.up, view.toward])
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(frame) == pytest.approx(1)
    assert view.up[2] > 0 or view.up[1] < 0
    for each in [view, *scene.around(points, view, (25, 90, 180, 270))]:
        assert (np.abs(each.project(points)) < [each.width_mm / 2, each.height_mm / 2]).all()


def test_walking_around_turns_to_the_viewers_right():
    points = Pipe(axis=(0, 0, 1)).surface(0.5).points_mm
    view = scene.View(*np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]), np.zeros(3), 1, 1)  # from the front
    (side,) = scene.around(points, view, [90])
    np.testing.assert_allclose(side.toward, [1, 0, 0], atol=1e-12)  # from the patient's left
    assert side.letters()["right"] == "P"


def test_velocity_is_interpolated_exactly_where_it_is_linear_and_zero_outside(pipe):
    nodes = pipe.nodes(0.25)
    grid = Grid.of(nodes, nodes.points_mm() @ np.diag([1.0, 2.0, 3.0]))
    inner = 0.3 * Wall.of(pipe.surface(0.5)).mesh.points_mm
    velocity, inside = grid.sample(inner)
    assert inside.all()
    np.testing.assert_allclose(velocity, inner @ np.diag([1.0, 2.0, 3.0]), atol=1e-5)  # float32 on the grid
    velocity, inside = grid.sample(np.array([[100.0, 0, 0]]))
    assert not inside.any()
    assert (velocity == 0).all()


def test_a_large_lattice_is_thinned_to_the_same_velocity(pipe, monkeypatch):
    nodes = pipe.nodes(0.25)
    monkeypatch.setattr(streamlines, "MAX_GRID_POINTS", 20_000)
    grid = Grid.of(nodes, nodes.points_mm())
    assert grid.fluid.size <= 20_000
    assert grid.spacing_mm == 0.5
    points = 0.3 * Wall.of(pipe.surface(0.5)).mesh.points_mm
    np.testing.assert_allclose(grid.sample(points)[0], points, atol=1e-5)


def test_streamlines_of_a_pipe_are_straight_and_reach_the_outlet(pipe, grid):
    lines = streamlines.streamlines_from_inlets(grid, pipe.openings(), 40)
    across, axis = np.column_stack(pipe.frame()[:2]), pipe.frame()[2]
    assert len(lines) >= 35
    for line in lines:
        place = line[:, :3] @ across
        radius = np.hypot(*place[0])
        if radius < 0.85 * pipe.radius_mm:  # nearer to the wall the grid's zeros outside slow the line down
            np.testing.assert_allclose(place, place[:1].repeat(len(place), 0), atol=1e-3)
            assert line[-1, :3] @ axis > pipe.length_mm / 2 - 2 * grid.spacing_mm
            expected = 2 * pipe.mean_speed_m_s * (1 - (radius / pipe.radius_mm) ** 2)
            inner = np.abs(line[:, :3] @ axis) < pipe.length_mm / 2 - 2 * grid.spacing_mm
            np.testing.assert_allclose(line[inner, 3], expected, atol=0.02 * 2 * pipe.mean_speed_m_s)


def test_caps_close_the_wall_again(pipe):
    surface = pipe.surface(0.3)
    wall = Wall.of(surface).mesh
    caps = scene.caps(wall, pipe.openings())
    for opening in pipe.openings():
        area = caps[opening.id].area_vectors_mm2().sum(axis=0)
        np.testing.assert_allclose(area, opening.area_mm2 * np.array(opening.normal), rtol=0.01, atol=0.02)
    closed = scene.closed(wall, caps)
    assert closed.volume_mm3() == pytest.approx(surface.volume_mm3(), rel=1e-12)
    edges = np.sort(closed.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()


def test_slice_along_a_pipe_shows_its_parabola_and_its_rectangle(pipe, grid):
    wall = Wall.of(pipe.surface(0.2)).mesh
    first, second, axis = pipe.frame()
    view = scene.View(axis, first, -second, np.zeros(3), 16.0, 6.0)
    section = scene.lengthwise_slice(grid, scene.closed(wall, scene.caps(wall, pipe.openings())), view, np.zeros(3))
    middle = section.speed_m_s[:, len(section.right_mm) // 2]
    expected = 2 * pipe.mean_speed_m_s * (1 - (section.up_mm / pipe.radius_mm) ** 2)
    core = np.abs(section.up_mm) < 0.8 * pipe.radius_mm
    np.testing.assert_allclose(middle[core], expected[core], atol=0.01 * 2 * pipe.mean_speed_m_s)
    (outline,) = section.outline_mm
    np.testing.assert_allclose(np.ptp(outline, axis=0), [pipe.length_mm, 2 * pipe.radius_mm], rtol=2e-3)
    length = np.linalg.norm(np.diff(outline, axis=0), axis=1).sum()
    assert length == pytest.approx(2 * (pipe.length_mm + 2 * pipe.radius_mm), rel=5e-3)


def test_fewer_triangles_keep_the_shape(pipe):
    surface = pipe.surface(0.1)
    small = decimated(surface, 3000)
    assert len(small.triangles) <= 3000 < len(surface.triangles)
    assert small.volume_mm3() == pytest.approx(surface.volume_mm3(), rel=0.01)


def test_scale_bars_are_round_lengths():
    assert [nice_length(x) for x in (0.37, 1.0, 4.99, 5.0, 73.0)] == [0.2, 1.0, 2.0, 5.0, 50.0]


def test_a_picture_has_the_size_of_what_it_shows(pipe, can_draw):
    """The silhouette of a pipe across the view is a rectangle: 2 R times L."""
    first, second, axis = pipe.frame()
    view = scene.View(axis, first, -second, np.zeros(3), 20.0, 10.0)
    red = render.surface_actor(pipe.surface(0.2), (1.0, 0.0, 0.0), flat=True)
    (image,) = render.draw([red], [view], 400)
    assert image.shape == (200, 400, 3)
    share = 1 - image[..., 1].mean() / 255
    assert share == pytest.approx(2 * pipe.radius_mm * pipe.length_mm / 200, rel=5e-3)  # half a pixel at each edge
    assert (image[100, 200] == [255, 0, 0]).all()
    assert (image[5, 5] == 255).all()


def test_up_in_the_picture_is_up_in_the_view(can_draw):
    points = np.array([[0, 0, 4.0], [1, 0, 4.0], [0, 0, 5.0]])
    corner = Mesh(points, np.array([[0, 1, 2]]), np.zeros(1, np.int8))
    view = scene.View(*np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]), np.zeros(3), 12.0, 12.0)
    (image,) = render.draw([render.surface_actor(corner, (0, 0, 0), flat=True)], [view], 120)
    rows, columns = np.nonzero(image[..., 0] < 128)
    assert rows.max() < 25  # 4 mm above the middle and more
    assert columns.min() >= 59  # right of the middle


def test_values_are_coloured_through_the_map(can_draw):
    square = np.array([[-5.0, 0, -5], [5, 0, -5], [5, 0, 5], [-5, 0, 5]])
    mesh = Mesh(square, np.array([[0, 1, 2], [0, 2, 3]]), np.zeros(2, np.int8))
    view = scene.View(*np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]), np.zeros(3), 8.0, 8.0)
    actor = render.coloured_actor(mesh, np.array([0.0, 1, 1, 0]), (0.0, 1.0), "gray")
    actor.GetProperty().LightingOff()
    (image,) = render.draw([actor], [view], 80)
    expected = colours.colour_map("gray")((np.arange(80) + 0.5) / 80 * 0.8 + 0.1)[:, 0]
    np.testing.assert_allclose(image[40, :, 0] / 255, expected, atol=0.01)


@pytest.mark.parametrize("name", sorted({kind.colours for kind in KINDS.values()}))
def test_colours_are_even_to_the_eye_and_neither_black_nor_white(name):
    light = colours.lightness(colours.colour_map(name)(np.linspace(0, 1, colours.STEPS))[:, :3])
    steps = np.diff(light)
    assert (steps > 0).all()
    assert steps.max() < 2 * steps.mean()
    np.testing.assert_allclose(light[[0, -1]], colours.LIGHTNESS, atol=2)  # viridis ends at 91
    np.testing.assert_array_equal(
        colours.colour_map("coolwarm").colors[[0, -1]], mpl.colormaps["coolwarm"](np.array([0, 255]))
    )
    np.testing.assert_allclose(colours.lightness(np.array([[0.0] * 3, [1.0] * 3, [0.5] * 3])), [0, 100, 53.4], atol=0.1)


@pytest.mark.parametrize("name", sorted({kind.colours for kind in KINDS.values()}))
def test_values_can_be_read_off_a_ball_under_light(name, can_draw):
    """On a ball whose values grow from left to right, by the nearest colour of the bar: those of the light before,
    ambient 0.4 and diffuse 0.6, are up to half of the range off on a twentieth of it.
    """
    sphere = vtkSphereSource()
    sphere.SetRadius(1.0)
    sphere.SetThetaResolution(80)
    sphere.SetPhiResolution(80)
    sphere.Update()
    mesh = Mesh.from_vtk(sphere.GetOutput())
    view = scene.View(*np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]), np.zeros(3), 2.2, 2.2)
    actor = render.coloured_actor(mesh, mesh.points_mm[:, 0], (-1.0, 1.0), name)
    (image,) = render.draw([actor], [view], 200)
    right, up = np.meshgrid(*[((np.arange(200) + 0.5) / 200 - 0.5) * 2.2] * 2)
    seen = np.hypot(right, up) < 0.97
    bar = 255 * colours.colour_map(name)(np.linspace(0, 1, colours.STEPS))[:, :3]
    read = np.linalg.norm(image[seen][:, None].astype(float) - bar, axis=2).argmin(axis=1) / (colours.STEPS - 1)
    error = np.abs(read - (right[seen] + 1) / 2)
    assert np.median(error) < 0.05
    assert np.percentile(error, 95) < 0.12


def test_logarithmic_colours_are_those_of_the_logarithm(can_draw):
    square = np.array([[-5.0, 0, -5], [5, 0, -5], [5, 0, 5], [-5, 0, 5]])
    mesh = Mesh(square, np.array([[0, 1, 2], [0, 2, 3]]), np.zeros(2, np.int8))
    view = scene.View(*np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]), np.zeros(3), 8.0, 8.0)
    values = np.array([-1.0, -1, 100, 100])
    pictures = [
        render.draw([render.coloured_actor(mesh, given, limits, "viridis", log)], [view], 40)[0]
        for given, limits, log in (
            (values, (0.1, 100.0), True),  # below the range: the first colour
            (np.array([-1.0, -1, 2, 2]), (-1.0, 2.0), False),
        )
    ]
    assert np.abs(np.subtract(*pictures, dtype=int)).max() <= 1  # float32: a rounded step of a channel


def test_ticks_of_logarithmic_bars_are_round_and_within():
    assert figures.log_ticks((0.042, 3.2)) == [0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
    assert figures.log_ticks((1.0, 10.0)) == [1.0, 2.0, 5.0, 10.0]


def test_pictures_are_the_same_twice(pipe, can_draw):
    wall = Wall.of(pipe.surface(0.3)).mesh
    view = scene.front_view(wall.points_mm)
    pictures = [render.draw(render.see_through_actors(wall), [view], 200)[0] for _ in range(2)]
    np.testing.assert_array_equal(*pictures)


def test_one_window_draws_what_a_window_each_would(pipe, can_draw):
    """What a picture no longer shows has gone, what it shows again is back."""
    wall = Wall.of(pipe.surface(0.3)).mesh
    views = scene.around(wall.points_mm, scene.front_view(wall.points_mm), (0, 90))
    glass, red = render.see_through_actors(wall), render.surface_actor(pipe.surface(0.3), (1.0, 0.0, 0.0))
    frames = [(glass, views[0]), ([*glass, red], views[1]), ([red], views[0]), ([], views[1]), (glass, views[0])]
    with render.Canvas(views[0], 200) as canvas:
        pictures = [canvas.picture(actors, view) for actors, view in frames]
    for picture, (actors, view) in zip(pictures, frames, strict=True):
        np.testing.assert_array_equal(picture, render.draw(actors, [view], 200)[0])
    assert (pictures[3] == 255).all()


def test_without_a_library_to_draw_with_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(render, "WINDOWS", ("vtkNoSuchWindow",))
    render.window_class.cache_clear()
    try:
        assert render.window_class() is None
        with pytest.raises(RuntimeError, match="libosmesa6"):
            render.draw([], [scene.View(*np.eye(3), np.zeros(3), 1.0, 1.0)], 100)
    finally:
        render.window_class.cache_clear()
