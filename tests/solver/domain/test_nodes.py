# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.domain import node_search, node_types
from solver.domain.nodes import ARRAYS, FLUID, INLET, OUTLET, STEPS, Neighbours, Nodes, check, load, save
from solver.kernels.d3q19 import VELOCITIES, Q
from solver.runtime.errors import StageError
from tests.support.geometries import periodic_box
from tests.support.shapes import capped_cylinder

OPENINGS = capped_cylinder((0, 0, 1), 1.0, 4.0)[1]


def naive_neighbours(position, shape, periodic):
    """Row of the neighbour in every direction by dictionary, (N, 27)."""
    row = {tuple(place): n for n, place in enumerate(position.tolist())}
    size = shape[::-1]
    rows = np.full((len(position), len(STEPS)), -1, np.int32)
    for n, place in enumerate(position.tolist()):
        for i in range(len(STEPS)):
            end = [place[k] + int(STEPS[i, k]) for k in range(3)]
            rows[n, i] = row.get(tuple(e % s if p else e for e, s, p in zip(end, size, periodic, strict=True)), -1)
    return rows


def random_nodes(seed, shape, filled, periodic) -> Nodes:
    """A random set of nodes with links of random kinds: no geometry has to make sense of it."""
    rng = np.random.default_rng(seed)
    fluid = rng.random(shape) < filled
    fluid.reshape(-1)[rng.integers(fluid.size)] = True
    position = np.argwhere(fluid)[:, ::-1].astype(np.int32)
    axes = tuple(rng.permutation(3).tolist())
    node, direction = np.nonzero(naive_neighbours(position, shape, periodic)[:, 1:Q] < 0)
    direction = direction.astype(np.uint8) + np.uint8(1)
    end = position[node] + VELOCITIES[direction]
    end = np.where(periodic, end % np.array(shape[::-1]), end)
    inside = ((end >= 0) & (end < shape[::-1])).all(axis=1)
    wall = (rng.random(len(node)) < 0.8) & inside
    walls, row = np.unique(end[wall][:, axes[::-1]], axis=0, return_inverse=True)
    walls = walls[:, np.argsort(axes[::-1])]
    q = rng.uniform(1e-4, 1, len(node)).astype(np.float32)
    link_opening = rng.integers(1, 3, (~wall).sum()).astype(np.int8)
    opening = np.zeros(len(position), np.int8)
    opening[node[~wall]] = link_opening
    tag = np.array((FLUID, INLET, OUTLET), np.int8)[opening]
    order = np.lexsort((*position[:, axes].T, tag))
    position, tag, opening, node = position[order], tag[order], opening[order], np.argsort(order)[node]
    return Nodes(
        spacing_mm=float(rng.uniform(0.01, 1)),
        origin_mm=tuple(rng.normal(0, 100, 3).tolist()),
        shape=shape,
        openings=OPENINGS,
        position=position,
        tag=tag,
        opening=opening,
        distance_mm=rng.uniform(0, 1, len(position)).astype(np.float32),
        part=np.arange(len(position), dtype=np.int16) % 3,
        wall_position=np.ascontiguousarray(walls, np.int32).reshape(-1, 3),
        wall_distance_mm=rng.uniform(-1, 1, len(walls)).astype(np.float32),
        wall_link_node=node[wall].astype(np.int32),
        wall_link_direction=direction[wall],
        wall_link_wall=row.ravel().astype(np.int32),
        wall_link_q=q[wall],
        wall_link_patch=rng.integers(0, 3, wall.sum()).astype(np.int8),
        opening_link_node=node[~wall].astype(np.int32),
        opening_link_direction=direction[~wall],
        opening_link_opening=link_opening,
        opening_link_q=q[~wall],
        opening_link_profile=rng.random((~wall).sum(), np.float32),
        periodic=periodic,
        patches=("lid", "floor"),
        axes=axes,
        **random_corner_links(rng, position, shape, periodic),
    )


def random_corner_links(rng, position, shape, periodic):
    """Links along corners that end on no fluid node, and a tenth of the others, from both ends, as if cut."""
    ends = naive_neighbours(position, shape, periodic)
    listed = ends < 0
    for forward in range(Q, len(STEPS), 2):
        cut = np.flatnonzero((ends[:, forward] >= 0) & (rng.random(len(position)) < 0.1))
        listed[cut, forward] = listed[ends[cut, forward], forward + 1] = True
    direction, node = np.nonzero(listed.T[Q:])
    direction = (direction + Q).astype(np.uint8)
    end = position[node] + STEPS[direction]
    inside = (((end >= 0) & (end < shape[::-1])) | periodic).all(axis=1)
    opening = np.where(inside & (rng.random(len(node)) < 0.7), 0, rng.integers(1, 3, len(node))).astype(np.int8)
    return {
        "corner_link_node": node.astype(np.int32),
        "corner_link_direction": direction,
        "corner_link_q": rng.uniform(1e-4, 1, len(node)).astype(np.float32),
        "corner_link_patch": rng.integers(0, 3, len(node)).astype(np.int8) * (opening == 0),
        "corner_link_opening": opening,
        "corner_link_profile": rng.random(len(node), np.float32) * (opening > 0),
    }


sets = st.builds(
    random_nodes,
    st.integers(0, 2**32 - 1),
    st.tuples(*[st.integers(1, 7)] * 3),
    st.sampled_from((0.0, 0.1, 0.5, 0.9, 1.0)),
    st.tuples(*[st.booleans()] * 3),
)


@given(nodes=sets)
@settings(max_examples=40, deadline=None)
def test_file_gives_back_the_same_nodes(tmp_path_factory, nodes):
    path = tmp_path_factory.mktemp("nodes") / "nodes.h5"
    save(nodes, path)
    again = load(path)
    for name, kind in ARRAYS.items():
        np.testing.assert_array_equal(getattr(again, name), getattr(nodes, name))
        assert getattr(again, name).dtype == kind
    for name in ("spacing_mm", "origin_mm", "shape", "openings", "periodic", "patches", "axes"):
        assert getattr(again, name) == getattr(nodes, name)


@given(nodes=sets)
@settings(max_examples=40, deadline=None)
def test_neighbours_are_those_of_a_dictionary(nodes):
    naive, neighbours = naive_neighbours(nodes.position, nodes.shape, nodes.periodic), Neighbours(nodes)
    for i in range(len(STEPS)):
        np.testing.assert_array_equal(neighbours.along(i), naive[:, i])


@given(nodes=sets)
@settings(max_examples=40, deadline=None)
def test_every_one_of_26_neighbours_is_fluid_or_behind_one_link_of_merged_nodes(nodes):
    merged = nodes.with_corners()
    assert merged.q == 27
    naive, neighbours = naive_neighbours(nodes.position, nodes.shape, nodes.periodic), Neighbours(merged)
    listed = np.zeros(naive.shape, int)
    for kind in ("wall", "opening"):
        np.add.at(listed, (getattr(merged, f"{kind}_link_node"), getattr(merged, f"{kind}_link_direction")), 1)
    for i in range(1, len(STEPS)):
        ends = neighbours.along(i)
        np.testing.assert_array_equal(listed[:, i], ends < 0)
        np.testing.assert_array_equal(ends, np.where(listed[:, i], -1, naive[:, i]))
        joined = np.flatnonzero(ends >= 0)
        back = neighbours.along(i + 1 if i % 2 else i - 1)
        np.testing.assert_array_equal(back[ends[joined]], joined)


@given(nodes=sets)
@settings(max_examples=40, deadline=None)
def test_merged_links_stand_behind_the_others_and_end_on_their_wall_nodes(nodes):
    merged = nodes.with_corners()
    for name in ARRAYS:
        if not name.startswith("corner_link"):
            values = getattr(nodes, name)
            np.testing.assert_array_equal(getattr(merged, name)[: len(values)], values)
            assert getattr(merged, name).dtype == values.dtype
        else:
            assert len(getattr(merged, name)) == 0
    end = nodes.position[merged.wall_link_node] + STEPS[merged.wall_link_direction]
    end = np.where(nodes.periodic, end % np.array(nodes.shape[::-1]), end)
    np.testing.assert_array_equal(merged.wall_position[merged.wall_link_wall], end)
    assert len(np.unique(merged.wall_position, axis=0)) == len(merged.wall_position)
    more = slice(len(nodes.wall_position), None)
    assert np.isin(np.arange(len(merged.wall_position))[more], merged.wall_link_wall).all()
    assert np.isinf(merged.wall_distance_mm[more]).all()
    for kind, wall in (("wall", True), ("opening", False)):
        mine = (nodes.corner_link_opening == 0) == wall
        more = slice(len(getattr(nodes, f"{kind}_link_node")), None)
        for name in ("node", "direction", "q", *(("patch",) if wall else ("opening", "profile"))):
            np.testing.assert_array_equal(
                getattr(merged, f"{kind}_link_{name}")[more], getattr(nodes, f"corner_link_{name}")[mine]
            )
    assert merged.with_corners() is merged


def without_corner_links(nodes):
    return replace(nodes, **{name: getattr(nodes, name)[:0] for name in ARRAYS if name.startswith("corner_link")})


def test_corner_links_may_be_unknown_but_are_not_merged_then(nodes):
    bare = without_corner_links(nodes)
    check(bare)
    with pytest.raises(StageError, match="without links along corners; run decompose again"):
        bare.with_corners()


def test_a_box_that_repeats_has_no_corner_links_to_know():
    merged = periodic_box((3, 4, 2)).with_corners()
    assert merged.q == 27
    assert len(merged.wall_link_node) == len(merged.opening_link_node) == 0


def test_merged_nodes_are_not_written(nodes, tmp_path):
    with pytest.raises(ValueError, match="stay in the solver"):
        save(nodes.with_corners(), tmp_path / "nodes.h5")


@given(nodes=sets)
@settings(max_examples=40, deadline=None)
def test_chunks_of_threads_do_not_matter(nodes):
    """Chunks of 5 nodes, where the whole set otherwise is one."""
    whole, chunked = Neighbours(nodes), Neighbours(nodes)
    for i in range(len(STEPS)):
        expected = whole.along(i)
        find = node_search.find_rows.py_func
        ends = np.empty((nodes.count, 1), np.int32)
        moves = STEPS[[i]] * node_types._strides(nodes)
        wraps = STEPS[[i]] * np.array(nodes.periodic)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node_search, "CHUNK", 5)
            find(chunked._keys, chunked._rows, nodes.position, moves, wraps, np.array(nodes.shape[::-1]), ends)
        np.testing.assert_array_equal(ends[:, 0], expected)


@pytest.fixture(scope="module")
def nodes():
    return random_nodes(7, (6, 5, 4), 0.5, (False, False, True))


def test_points_lie_where_the_lattice_puts_them(nodes):
    np.testing.assert_allclose(nodes.points_mm()[3], nodes.position[3] * nodes.spacing_mm + nodes.origin_mm)


def changed(values, row, value):
    values = values.copy()
    values[row] = value
    return values


def cut_from_one_end(nodes):
    """Without one of the two links along a corner between two fluid nodes that a wall cuts."""
    keys = naive_neighbours(nodes.position, nodes.shape, nodes.periodic)
    one = np.flatnonzero(keys[nodes.corner_link_node, nodes.corner_link_direction] >= 0)[0]
    return {name: np.delete(getattr(nodes, name), one) for name in ARRAYS if name.startswith("corner_link")}


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("types", lambda n: {"wall_link_q": n.wall_link_q.astype(float)}),
        ("dimensions", lambda n: {"position": n.position[:, :2]}),
        ("dimensions", lambda n: {"tag": n.tag[:, None]}),
        ("spacing", lambda n: {"spacing_mm": 0.0}),
        ("spacing", lambda n: {"spacing_mm": float("nan")}),
        ("origin", lambda n: {"origin_mm": (0.0, float("inf"), 0.0)}),
        ("lie in the lattice", lambda n: {"shape": (6, 5, 3)}),
        ("sorted", lambda n: {"position": n.position[::-1].copy()}),
        ("sorted", lambda n: {"position": changed(n.position, 1, n.position[0])}),
        ("numbered", lambda n: {"openings": OPENINGS[::-1]}),
        ("node arrays are equally long", lambda n: {"tag": n.tag[1:]}),
        ("wall link arrays are equally long", lambda n: {"wall_link_q": n.wall_link_q[1:]}),
        ("opening link arrays are equally long", lambda n: {"opening_link_q": n.opening_link_q[1:]}),
        ("opening link arrays are equally long", lambda n: {"opening_link_profile": n.opening_link_profile[1:]}),
        ("existing nodes", lambda n: {"wall_link_node": changed(n.wall_link_node, 0, n.count)}),
        ("existing nodes", lambda n: {"wall_link_wall": changed(n.wall_link_wall, 0, -1)}),
        ("directions", lambda n: {"wall_link_direction": changed(n.wall_link_direction, 0, 0)}),
        ("distances", lambda n: {"wall_link_q": changed(n.wall_link_q, 0, 0)}),
        ("distances", lambda n: {"opening_link_q": changed(n.opening_link_q, 0, np.nan)}),
        ("profiles are in", lambda n: {"opening_link_profile": changed(n.opening_link_profile, 0, 1.001)}),
        ("profiles are in", lambda n: {"opening_link_profile": changed(n.opening_link_profile, 0, np.nan)}),
        ("existing openings", lambda n: {"opening_link_opening": changed(n.opening_link_opening, 0, 3)}),
        ("existing openings", lambda n: {"opening": changed(n.opening, 0, 3)}),
        ("tags are", lambda n: {"tag": changed(n.tag, 0, 0)}),
        ("tags ascend", lambda n: {"tag": n.tag[::-1].copy()}),
        ("tags follow", lambda n: {"openings": (replace(OPENINGS[0], role="outlet"), OPENINGS[1])}),
        ("have a link through theirs", lambda n: {"opening": changed(n.opening, 0, 1)}),
        ("have a link through theirs", lambda n: {"opening_link_opening": 3 - n.opening_link_opening}),
        (
            "end of a link",
            lambda n: {
                "wall_position": np.concatenate((n.wall_position, [[9, 9, 5]]), dtype=np.int32),
                "shape": (6, 10, 10),
                "wall_distance_mm": np.append(n.wall_distance_mm, np.float32(0)),
            },
        ),
        ("distances of fluid", lambda n: {"distance_mm": changed(n.distance_mm, 0, -1e-3)}),
        ("distances of fluid", lambda n: {"distance_mm": changed(n.distance_mm, 0, np.nan)}),
        ("distances of wall", lambda n: {"wall_distance_mm": changed(n.wall_distance_mm, 0, np.nan)}),
        ("parts", lambda n: {"part": changed(n.part, 0, -1)}),
        ("parts", lambda n: {"part": np.where(n.part == 1, np.int16(3), n.part)}),
        ("patches", lambda n: {"patches": ("lid",)}),
        ("patches", lambda n: {"wall_link_patch": changed(n.wall_link_patch, 0, -1)}),
        ("axes", lambda n: {"axes": (0, 1, 1)}),
        ("sorted", lambda n: {"axes": (n.axes[1], n.axes[0], n.axes[2])}),
        ("wall node arrays are equally long", lambda n: {"wall_distance_mm": n.wall_distance_mm[1:]}),
        ("end on their wall nodes", lambda n: {"wall_link_wall": np.roll(n.wall_link_wall, 1)}),
        ("exactly one link", lambda n: {k: getattr(n, k)[:-1] for k in ARRAYS if k.startswith("opening_link")}),
        ("corner link arrays are equally long", lambda n: {"corner_link_q": n.corner_link_q[1:]}),
        ("existing nodes", lambda n: {"corner_link_node": changed(n.corner_link_node, 0, n.count)}),
        ("along corners are 19..26", lambda n: {"corner_link_direction": changed(n.corner_link_direction, 0, 18)}),
        ("along corners are 19..26", lambda n: {"corner_link_direction": changed(n.corner_link_direction, 0, 27)}),
        ("distances", lambda n: {"corner_link_q": changed(n.corner_link_q, 0, np.nan)}),
        ("profiles are in", lambda n: {"corner_link_profile": changed(n.corner_link_profile, 0, -0.1)}),
        ("existing openings", lambda n: {"corner_link_opening": changed(n.corner_link_opening, 0, 3)}),
        ("existing patches", lambda n: {"corner_link_patch": changed(n.corner_link_patch, 0, 3)}),
        ("end in the lattice", lambda n: {"corner_link_opening": np.zeros_like(n.corner_link_opening)}),
        ("corner neighbour", lambda n: {k: getattr(n, k)[:-1] for k in ARRAYS if k.startswith("corner_link")}),
        ("corner neighbour", lambda n: {k: getattr(n, k)[1:] for k in ARRAYS if k.startswith("corner_link")}),
        (
            "corner neighbour",
            lambda n: {k: np.append(getattr(n, k), getattr(n, k)[:1]) for k in ARRAYS if k.startswith("corner_link")},
        ),
        ("corner neighbour", cut_from_one_end),
        (
            "exactly one link",
            lambda n: {k: np.append(getattr(n, k), getattr(n, k)[-1:]) for k in ARRAYS if k.startswith("wall_link")},
        ),
    ],
)
def test_broken_rule_is_named(nodes, rule, change):
    check(nodes)
    with pytest.raises(StageError, match=rule):
        check(replace(nodes, **change(nodes)))


def test_no_fluid_node_is_refused(nodes):
    empty = {name: getattr(nodes, name)[:0] for name in ARRAYS}
    with pytest.raises(StageError, match="at least one fluid node"):
        check(replace(nodes, **empty))


@pytest.fixture
def file(nodes, tmp_path):
    save(nodes, tmp_path / "nodes.h5")
    return tmp_path / "nodes.h5"


def test_truncated_file_is_refused_wherever_it_ends(file):
    whole = file.read_bytes()
    for size in np.linspace(0, len(whole) - 1, 40).astype(int):
        file.write_bytes(whole[:size])
        with pytest.raises(StageError, match="run decompose again"):
            load(file)


def test_file_with_a_wrong_byte_is_read_right_or_refused(file, nodes):
    """Whatever byte is wrong, nothing but StageError is raised, and what is read obeys the rules."""
    whole = bytearray(file.read_bytes())
    refused = 0
    for place in np.random.default_rng(1).integers(0, len(whole), 150):
        damaged = whole.copy()
        damaged[place] ^= 0xFF
        file.write_bytes(damaged)
        try:
            check(load(file))
        except StageError:
            refused += 1
    assert refused > 10  # most bytes of so small a file are free space of HDF5


@pytest.mark.parametrize(
    "spoil",
    [
        lambda f: f.__delitem__("tag"),
        lambda f: f.attrs.__delitem__("origin_mm"),
        lambda f: f.attrs.__setitem__("format", "hemolattice-nodes-0"),
        lambda f: f.attrs.__setitem__("shape", (1, 2)),
        lambda f: f.attrs.__setitem__("spacing_mm", "fine"),
        lambda f: f.attrs.__setitem__("openings", "["),
        lambda f: f.attrs.__setitem__("openings", '[{"id": 1}]'),
        lambda f: (f.__delitem__("tag"), f.__setitem__("tag", "fluid")),
    ],
)
def test_spoiled_file_is_refused(file, spoil):
    with h5py.File(file, "r+") as opened:
        spoil(opened)
    with pytest.raises(StageError, match="run decompose again"):
        load(file)


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(StageError, match=r"nodes\.h5"):
        load(tmp_path / "nodes.h5")


def test_opposite_directions_stand_side_by_side():
    assert all((VELOCITIES[i] == -VELOCITIES[i + 1]).all() for i in range(1, Q, 2))
