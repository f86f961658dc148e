# SPDX-License-Identifier: Apache-2.0
"""Node arrays of shapes that have formulas: exact wall distances, no surface, nothing but NumPy."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from solver.backends.driver import Driver
from solver.backends.observation import Observation
from solver.domain.nodes import FLUID, INLET, OUTLET, STEPS, Nodes, Opening
from solver.run.vtkhdf import Voxels
from validation.textbook_links import distance_to_cylinder

Crossing = Callable[[NDArray, NDArray], tuple[NDArray, NDArray]]
"""From nodes (L, 3) and directions (L, 3): distance q to the surface and id of the opening (0: wall), both (L,)."""


def nodes_from(
    fluid: NDArray[np.bool_],
    crossing: Crossing,
    openings: tuple[Opening, ...] = (),
    periodic: tuple[bool, bool, bool] = (False, False, False),
    spacing_mm: float = 1.0,
    origin_mm: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Nodes:
    """Node arrays of a mask [z, y, x] whose links out of the fluid meet the surface as `crossing` says.

    The lattice gets a margin for wall nodes where it does not repeat; `origin_mm` is where the mask's first node lies.
    Caps are round.
    """
    margin = np.where(periodic, 0, 1)
    fluid = np.pad(fluid, [(m, m) for m in margin[::-1]])
    position = np.argwhere(fluid)[:, ::-1].astype(np.int32)
    node, direction, end = links_out(fluid, position, periodic, range(1, 19))
    q, opening = crossed(crossing, position[node] - margin, direction)
    # Links along corners come after the others, so that a crossing that draws random numbers gives those the same.
    corner_node, corner_direction, _ = links_out(fluid, position, periodic, range(19, 27))
    corner_q, corner_opening = crossed(crossing, position[corner_node] - margin, corner_direction)
    wall = opening == 0
    middle, corner_middle = (
        (position[rows] - margin + 0.5 * STEPS[along]) * spacing_mm + origin_mm
        for rows, along in ((node[~wall], direction[~wall]), (corner_node, corner_direction))
    )
    wall_position, wall_row = np.unique(end[wall][:, ::-1], axis=0, return_inverse=True)
    node_opening = np.zeros(len(position), np.int8)
    node_opening[node[~wall]] = opening[~wall]
    tags = np.array([FLUID] + [INLET if o.role == "inlet" else OUTLET for o in openings], np.int8)
    order = np.argsort(tags[node_opening], kind="stable")
    node, corner_node = np.argsort(order)[node], np.argsort(order)[corner_node]
    listed = np.lexsort((corner_node, corner_direction))
    position, node_opening = position[order], node_opening[order]
    return Nodes(
        spacing_mm=spacing_mm,
        origin_mm=tuple(np.asarray(origin_mm) - margin * spacing_mm),
        shape=fluid.shape,
        openings=openings,
        position=position,
        tag=tags[node_opening],
        opening=node_opening,
        distance_mm=np.full(len(position), np.inf, np.float32),
        part=np.zeros(len(position), np.int16),
        wall_position=np.ascontiguousarray(wall_position[:, ::-1], dtype=np.int32).reshape(-1, 3),
        wall_distance_mm=np.full(len(wall_position), np.inf, np.float32),
        wall_link_node=node[wall].astype(np.int32),
        wall_link_direction=direction[wall].astype(np.uint8),
        wall_link_wall=wall_row.ravel().astype(np.int32),
        wall_link_q=q[wall],
        wall_link_patch=np.zeros(int(wall.sum()), np.int8),
        opening_link_node=node[~wall].astype(np.int32),
        opening_link_direction=direction[~wall].astype(np.uint8),
        opening_link_opening=opening[~wall].astype(np.int8),
        opening_link_q=q[~wall],
        opening_link_profile=parabolas(openings, opening[~wall], middle),
        corner_link_node=corner_node[listed].astype(np.int32),
        corner_link_direction=corner_direction[listed].astype(np.uint8),
        corner_link_q=corner_q[listed],
        corner_link_patch=np.zeros(len(listed), np.int8),
        corner_link_opening=corner_opening[listed].astype(np.int8),
        corner_link_profile=parabolas(openings, corner_opening, corner_middle)[listed],
        periodic=periodic,
    )


def links_out(
    fluid: NDArray[np.bool_], position: NDArray[np.int32], periodic: tuple[bool, bool, bool], directions: range
) -> tuple[NDArray, NDArray, NDArray]:
    """Rows of the nodes, directions and ends of links that leave a mask [z, y, x] of fluid nodes."""
    size = np.array(fluid.shape[::-1])
    rows, ends = [], []
    for i in directions:
        end = position + STEPS[i]
        end = np.where(periodic, end % size, end)
        inside = ((end >= 0) & (end < size)).all(axis=1)
        x, y, z = np.where(inside[:, None], end, 0).T
        rows.append(np.flatnonzero(~(inside & fluid[z, y, x])))
        ends.append(end[rows[-1]])
    return np.concatenate(rows), np.repeat(list(directions), [len(out) for out in rows]), np.concatenate(ends)


def crossed(crossing: Crossing, position: NDArray, direction: NDArray) -> tuple[NDArray, NDArray]:
    """Distance q of links, in (0, 1], and id of the opening (0: wall)."""
    q, opening = crossing(position.astype(float), STEPS[direction].astype(float))
    return np.clip(q, 1e-6, 1).astype(np.float32), opening


def parabolas(openings: tuple[Opening, ...], opening: NDArray, places_mm: NDArray) -> NDArray[np.float32]:
    """Developed velocity at places before the round caps of their openings, (L,); 0 where that is none."""
    profile = np.zeros(len(places_mm))
    for cap in openings:
        off = places_mm - cap.centre_mm
        square = (off**2).sum(axis=1) - (off @ cap.normal) ** 2
        profile = np.where(opening == cap.id, np.clip(1 - square / cap.radius_mm**2, 0, 1), profile)
    return profile.astype(np.float32)


def half_way_walls(position: NDArray, velocity: NDArray) -> tuple[NDArray, NDArray]:
    return np.full(len(position), 0.5), np.zeros(len(position), int)


def closed_box(size: tuple[int, int, int]) -> Nodes:
    """A box of (x, y, z) nodes with walls half a spacing outside."""
    return nodes_from(np.ones(size[::-1], bool), half_way_walls)


def plates(height: int, periodic_size: int = 1) -> Nodes:
    """Channel of `height` nodes along z between plates half a spacing outside, periodic along x and y."""
    return nodes_from(np.ones((height, periodic_size, periodic_size), bool), half_way_walls, (), (True, True, False))


def periodic_box(size: tuple[int, int, int]) -> Nodes:
    """A box of (x, y, z) nodes without walls."""
    return nodes_from(np.ones(size[::-1], bool), half_way_walls, (), (True, True, True))


def rod(
    sides: tuple[int, int], centre: tuple[float, float], across: float
) -> tuple[NDArray[np.bool_], Callable[[NDArray, NDArray], NDArray]]:
    """A layer of (x, y) nodes around a rod along z, [z, y, x], and the distance q of links that meet the rod."""
    y, x = np.indices(sides[::-1])
    fluid = np.hypot(x - centre[0], y - centre[1]) > across / 2

    def to_wall(position: NDArray, velocity: NDArray) -> NDArray:
        d, c = position[:, :2] - np.array(centre), velocity[:, :2]
        a, b, e = (c**2).sum(axis=1), (d * c).sum(axis=1), (d**2).sum(axis=1) - across**2 / 4
        return (-b - np.sqrt(np.maximum(b * b - a * e, 0))) / a

    return fluid[None], to_wall


def periodic_pipe(direction: tuple[int, int, int], radius: float) -> Nodes:
    """Endless pipe through the diagonal of a periodic box whose sides are as the components of `direction`.

    Sides grow until the pipe keeps clear of its images. The axis passes through (0.3, 0.2, 0.4) off a node.
    """
    d = np.array(direction, float)
    unit = d / np.linalg.norm(d)
    along = d > 0
    k = 1
    while True:
        size = np.where(along, np.array(direction) * k, int(np.ceil(2 * radius)) + 4)
        shifts = images(along) * size
        apart = np.linalg.norm(shifts - np.outer(shifts @ unit, unit), axis=1)
        if apart[apart > 1e-9].min(initial=np.inf) > 2 * radius + 3 and k * np.linalg.norm(d) >= 4:
            break
        k += 1
    axis = np.where(along, 0, size / 2 - 0.5) + np.array([0.3, 0.2, 0.4])
    x, y, z = np.meshgrid(*(np.arange(n) for n in size), indexing="ij")
    points = np.stack((x, y, z), axis=-1).reshape(-1, 3).astype(float)
    offset = nearest_offset(points, axis, unit, shifts)
    fluid = (np.linalg.norm(offset, axis=1) < radius).reshape(size).transpose(2, 1, 0)

    def crossing(position: NDArray, velocity: NDArray) -> tuple[NDArray, NDArray]:
        start = nearest_offset(position, axis, unit, shifts)
        return distance_to_cylinder(start, velocity, unit, radius), np.zeros(len(position), int)

    return nodes_from(fluid, crossing, (), tuple(bool(a) for a in along))


def pipe_radius(nodes: Nodes, direction: tuple[int, int, int]) -> NDArray:
    """Distance of each node of :func:`periodic_pipe` from the axis."""
    d = np.array(direction, float)
    unit, along = d / np.linalg.norm(d), d > 0
    size = np.array(nodes.shape[::-1]) - np.where(along, 0, 2)
    shifts = images(along) * size
    axis = np.where(along, 0, size / 2 - 0.5) + np.array([0.3, 0.2, 0.4])
    return np.linalg.norm(nearest_offset(nodes.position - np.where(along, 0, 1.0), axis, unit, shifts), axis=1)


def images(along: NDArray[np.bool_]) -> NDArray:
    """Lattice vectors to the neighbouring repetitions, in box sides."""
    return np.array(list(product(*[(-2, -1, 0, 1, 2) if a else (0,) for a in along])))


def nearest_offset(points: NDArray, axis: NDArray, unit: NDArray, shifts: NDArray) -> NDArray:
    """Vector from the nearest image of the axis to each point, perpendicular to it, (L, 3)."""
    best = np.full(len(points), np.inf)
    nearest = np.zeros_like(points)
    for shift in shifts:
        offset = points - (axis + shift)
        offset = offset - np.outer(offset @ unit, unit)
        distance = np.linalg.norm(offset, axis=1)
        closer = distance < best
        best[closer], nearest[closer] = distance[closer], offset[closer]
    return nearest


def pipe(direction: tuple[int, int, int], radius: float, length: float, spacing_mm: float = 1.0) -> Nodes:
    """Straight pipe (lattice units) along `direction` with an inlet "in" at its start, an outlet "out" at its end."""
    unit = np.array(direction, float) / np.linalg.norm(direction)
    margin = radius * np.sqrt(1 - unit**2) + 2
    low, high = np.minimum(0, unit * length) - margin, np.maximum(0, unit * length) + margin
    size = np.ceil(high - low).astype(int) + 1
    start = -low + np.array([0.3, 0.2, 0.4]) - 0.5
    fluid = np.zeros(tuple(size[::-1]), bool)
    y, x = np.meshgrid(np.arange(size[1]), np.arange(size[0]), indexing="ij")
    for z in range(size[2]):
        offset = np.stack((x, y, np.full_like(x, z)), axis=-1) - start
        s = offset @ unit
        r2 = (offset**2).sum(axis=-1) - s**2
        fluid[z] = (r2 < radius**2) & (s > 0) & (s < length)

    def crossing(position: NDArray, velocity: NDArray) -> tuple[NDArray, NDArray]:
        offset = position - start
        s = offset @ unit
        q_wall = distance_to_cylinder(offset - np.outer(s, unit), velocity, unit, radius)
        rate = velocity @ unit
        with np.errstate(divide="ignore", invalid="ignore"):
            q_in = np.where(rate < -1e-12, -s / rate, np.inf)
            q_out = np.where(rate > 1e-12, (length - s) / rate, np.inf)
        q = np.stack((q_wall, q_in, q_out))
        return q.min(axis=0), q.argmin(axis=0)

    area = np.pi * (radius * spacing_mm) ** 2
    openings = tuple(
        Opening(i, name, role, tuple((start + s * unit) * spacing_mm), tuple(sign * unit), area, radius * spacing_mm)
        for i, name, role, s, sign in ((1, "in", "inlet", 0.0, -1.0), (2, "out", "outlet", length, 1.0))
    )
    return nodes_from(fluid, crossing, openings, spacing_mm=spacing_mm)


def observe(driver: Driver, keep: bool) -> Observation:
    """Look at the flow and wait for what is seen."""
    driver.observe(keep)
    return driver.observation()


def numbers(seen: Observation) -> np.ndarray:
    """All numbers of an observation, to compare bits."""
    return np.concatenate([np.ravel(value) for value in vars(seen).values()])


def random_cavern(size: tuple[int, int, int], seed: int, openings: bool = True) -> Nodes:
    """Random sparse geometry with random wall distances; an inlet at low x, outlets at high x and high y, or closed."""
    rng = np.random.default_rng(seed)
    fluid = rng.random(size[::-1]) < 0.75
    fluid[size[2] // 2, size[1] // 2, :] = True

    def crossing(position: NDArray, velocity: NDArray) -> tuple[NDArray, NDArray]:
        end = position + velocity
        opening = np.where(end[:, 0] < 0, 1, np.where(end[:, 0] >= size[0], 2, np.where(end[:, 1] >= size[1], 3, 0)))
        return rng.random(len(position)), opening * openings

    half = np.array(size) / 2 - 0.5
    caps = tuple(
        Opening(i, f"o{i}", role, tuple(centre), normal, 1.0, 30.0)
        for i, role, centre, normal in (
            (1, "inlet", half * (0, 1, 1), (-1.0, 0.0, 0.0)),
            (2, "outlet", half * (2, 1, 1), (1.0, 0.0, 0.0)),
            (3, "outlet", half * (1, 2, 1), (0.0, 1.0, 0.0)),
        )
    )
    return nodes_from(fluid, crossing, caps if openings else ())


def hollow(
    level: Callable[[NDArray], NDArray],
    openings: tuple[Opening, ...],
    low: NDArray,
    high: NDArray,
    spacing_mm: float = 1.0,
) -> Nodes:
    """The inside of a wall, `level` < 0, that the caps of `openings` cut off; all in spacings, caps included.

    The plane of a cap cuts off what lies behind it within two radii of its axis. Links meet the wall where `level`
    changes sign, by bisection.
    """
    centres, normals = (np.array([getattr(o, key) for o in openings]) for key in ("centre_mm", "normal"))
    reach = 2 * np.array([o.radius_mm for o in openings])

    def beyond(points: NDArray) -> NDArray:
        offset = points[:, None] - centres
        depth = np.einsum("lkx,kx->lk", offset, normals)
        return (depth >= 0) & (np.linalg.norm(offset - depth[..., None] * normals, axis=2) < reach)

    size = np.ceil(np.subtract(high, low)).astype(int) + 1
    z, y, x = np.indices(size[::-1]).reshape(3, -1)
    points = np.column_stack((x, y, z)) + low
    fluid = level(points) < 0
    fluid[fluid] = ~beyond(points[fluid]).any(axis=1)

    def crossing(position: NDArray, velocity: NDArray) -> tuple[NDArray, NDArray]:
        start = position + low
        inside, outside = np.zeros(len(start)), np.ones(len(start))
        for _ in range(30):
            middle = (inside + outside) / 2
            deeper = level(start + middle[:, None] * velocity) < 0
            inside, outside = np.where(deeper, middle, inside), np.where(deeper, outside, middle)
        ends = start + velocity
        q_wall = np.where(level(ends) < 0, np.inf, outside)
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = np.einsum("lkx,kx->lk", centres - start[:, None], normals) / (velocity @ normals.T)
        q_cap = np.where(beyond(ends), depth, np.inf)
        q = np.column_stack((q_wall, q_cap))
        return q.min(axis=1), q.argmin(axis=1)

    scaled = tuple(
        replace(
            o,
            centre_mm=tuple(np.multiply(o.centre_mm, spacing_mm)),
            area_mm2=o.area_mm2 * spacing_mm**2,
            radius_mm=o.radius_mm * spacing_mm,
        )
        for o in openings
    )
    return nodes_from(fluid.reshape(size[::-1]), crossing, scaled, (False,) * 3, spacing_mm, tuple(low * spacing_mm))


def round_opening(number: int, name: str, role: str, centre: NDArray, normal: NDArray, radius: float) -> Opening:
    return Opening(number, name, role, tuple(centre), tuple(normal), np.pi * radius**2, radius)


def stenosis(
    direction: tuple[int, int, int], radius: float, before: float, throat: float, behind: float, spacing_mm: float = 1.0
) -> Nodes:
    """Pipe along `direction` that narrows to a quarter of its area as a cosine over the length `throat`."""
    unit = np.array(direction, float) / np.linalg.norm(direction)
    length = before + throat + behind
    start = np.array([0.3, 0.2, 0.4])

    def level(points: NDArray) -> NDArray:
        offset = points - start
        s = offset @ unit
        phase = np.clip((s - before) / throat, 0, 1)
        return np.linalg.norm(offset - np.outer(s, unit), axis=1) - radius * (1 - (1 - np.cos(2 * np.pi * phase)) / 4)

    ends = start, start + length * unit
    margin = radius * np.sqrt(1 - unit**2) + 2
    caps = (
        round_opening(1, "in", "inlet", ends[0], -unit, radius),
        round_opening(2, "out", "outlet", ends[1], unit, radius),
    )
    return hollow(level, caps, np.floor(np.minimum(*ends) - margin), np.ceil(np.maximum(*ends) + margin), spacing_mm)


def bifurcation(
    radius: float,
    daughters: tuple[tuple[float, float], tuple[float, float]],
    length: float,
    turn: NDArray,
    spacing_mm: float = 1.0,
) -> Nodes:
    """Fork of a round parent along x into two daughters, each (radius, angle to +z in degrees), turned by a matrix.

    Branches are `length` of their radii long, from the point where their axes meet.
    """
    tubes = [("in", "inlet", np.array([-1.0, 0, 0]), radius)]
    for name, (r, angle) in zip(("left", "right"), daughters, strict=True):
        a = np.radians(angle)
        tubes.append((name, "outlet", np.array([np.cos(a), 0, np.sin(a)]), r))
    return meeting([(name, role, turn @ unit, r) for name, role, unit, r in tubes], length, spacing_mm)


def meeting(tubes: list[tuple[str, str, NDArray, float]], length: float, spacing_mm: float = 1.0) -> Nodes:
    """Round tubes that meet in a point, each with its name, role, direction away from there, and radius.

    They are `length` of their radii long.
    """
    middle = np.array([0.3, 0.2, 0.4])

    def level(points: NDArray) -> NDArray:
        offset = points - middle
        away = [np.linalg.norm(offset - np.outer(np.maximum(offset @ u, 0), u), axis=1) - r for _, _, u, r in tubes]
        return np.min(away, axis=0)

    caps = tuple(
        round_opening(k, name, role, middle + length * r * u, u, r) for k, (name, role, u, r) in enumerate(tubes, 1)
    )
    margins = np.array([r * np.sqrt(1 - u**2) + 2 for _, _, u, r in tubes])
    centres = np.array([cap.centre_mm for cap in caps])
    widest = max(r for *_, r in tubes)
    low = np.minimum((centres - margins).min(axis=0), middle - widest - 2)
    high = np.maximum((centres + margins).max(axis=0), middle + widest + 2)
    return hollow(level, caps, np.floor(low), np.ceil(high), spacing_mm)


def flowing_between_plates(nodes: Nodes) -> Nodes:
    """The same, with the profile between plates at openings along x, whose radius is half their height along z."""
    caps = np.array([(0, 1)] + [(o.centre_mm[2], o.radius_mm) for o in nodes.openings])

    def between_plates(node: NDArray, direction: NDArray, opening: NDArray) -> NDArray[np.float32]:
        height = (nodes.position[node] + 0.5 * STEPS[direction])[:, 2] * nodes.spacing_mm + nodes.origin_mm[2]
        off = (height - caps[opening, 0]) / caps[opening, 1]
        return np.where(opening > 0, np.clip(1 - off**2, 0, 1), 0).astype(np.float32)

    return replace(
        nodes,
        opening_link_profile=between_plates(
            nodes.opening_link_node, nodes.opening_link_direction, nodes.opening_link_opening
        ),
        corner_link_profile=between_plates(
            nodes.corner_link_node, nodes.corner_link_direction, nodes.corner_link_opening
        ),
    )


def step(rise: int, channel: int, before: int, behind: int, spacing_mm: float = 1.0) -> Nodes:
    """Channel of one periodic layer whose floor steps down by `rise` nodes to `channel` nodes of height.

    Flow is along x, z is up. The radius of its openings is half their height, their profile that between plates.
    """
    length, mouth = before + behind, channel - rise
    fluid = np.ones((channel, 1, length), bool)
    fluid[:rise, :, :before] = False

    def crossing(position: NDArray, velocity: NDArray) -> tuple[NDArray, NDArray]:
        x, _, z = (position + velocity).T
        opening = np.where((x < 0) & (z >= rise), 1, np.where(x >= length, 2, 0))
        return np.full(len(position), 0.5), np.where((z < 0) | (z >= channel), 0, opening)

    middle = {1: (-0.5, 0.0, rise + mouth / 2 - 0.5), 2: (length - 0.5, 0.0, channel / 2 - 0.5)}
    openings = tuple(
        Opening(
            number,
            name,
            role,
            tuple(np.multiply(middle[number], spacing_mm)),
            (sign, 0.0, 0.0),
            height * spacing_mm**2,
            height / 2 * spacing_mm,
        )
        for number, name, role, sign, height in ((1, "in", "inlet", -1.0, mouth), (2, "out", "outlet", 1.0, channel))
    )
    nodes = nodes_from(fluid, crossing, openings, (False, True, False), spacing_mm)
    return flowing_between_plates(nodes)


def voxels(nodes: Nodes) -> NDArray[np.int64]:
    """Voxels whose corners are all fluid, as rows of their corners, (C, corners)."""
    return np.concatenate([*Voxels(nodes).blocks()])
