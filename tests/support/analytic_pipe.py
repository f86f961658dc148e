# SPDX-License-Identifier: Apache-2.0
"""A pipe with Hagen-Poiseuille flow in it, as the stages before postprocess would hand it over, from formulas alone."""

from dataclasses import dataclass

import numpy as np

from pipeline.files.mesh import Mesh
from solver.domain.nodes import FLUID, INLET, OUTLET, Nodes, Opening
from solver.kernels.d3q19 import VELOCITIES, Q
from solver.run.flow_file import FlowStatistics, steady_statistics

AXIS = np.array([2.0, 3.0, 6.0]) / 7


@dataclass(frozen=True)
class Pipe:
    """A pipe along `axis` around the origin, inlet at its lower end.

    The default is a small artery: radius in mm, mean speed in m/s, Reynolds number 122.
    """

    radius_mm: float = 2.0
    length_mm: float = 12.0
    axis: tuple[float, float, float] = tuple(AXIS)
    mean_speed_m_s: float = 0.1
    density_kg_m3: float = 1060.0
    viscosity_pa_s: float = 3.5e-3

    @property
    def flow_ml_s(self) -> float:
        return self.mean_speed_m_s * 1e3 * np.pi * self.radius_mm**2 * 1e-3

    @property
    def shear_stress_pa(self) -> float:
        """4 mu U / R."""
        return 4 * self.viscosity_pa_s * self.mean_speed_m_s / (self.radius_mm * 1e-3)

    @property
    def gradient_pa_mm(self) -> float:
        """Pressure lost along the axis, 8 mu U / R^2."""
        return 8 * self.viscosity_pa_s * self.mean_speed_m_s / (self.radius_mm * 1e-3) ** 2 * 1e-3

    def frame(self):
        """Two unit vectors across the axis, and the axis."""
        axis = np.array(self.axis) / np.linalg.norm(self.axis)
        first = np.cross(axis, np.eye(3)[np.argmin(abs(axis))])
        first /= np.linalg.norm(first)
        return first, np.cross(axis, first), axis

    def openings(self) -> tuple[Opening, ...]:
        axis = self.frame()[2]
        area = np.pi * self.radius_mm**2
        return tuple(
            Opening(k, name, name, tuple(sign * axis * self.length_mm / 2), tuple(sign * axis), area, self.radius_mm)
            for k, name, sign in ((1, "inlet", -1), (2, "outlet", 1))
        )

    def nodes(self, spacing_mm: float) -> Nodes:
        """Lattice with its origin off the axis, and exact distances to wall and caps."""
        half = np.hypot(self.radius_mm, self.length_mm / 2) + 3 * spacing_mm
        count = int(2 * half / spacing_mm)
        origin = np.full(3, -half) + spacing_mm * np.array([0.13, 0.37, 0.41])
        z, y, x = np.indices((count,) * 3, dtype=np.int32).reshape(3, -1)
        lattice = np.column_stack((x, y, z))
        inside = self._inside(lattice * spacing_mm + origin)
        position = lattice[inside]
        row = np.full(count**3, -1, np.int32)
        row[inside] = np.arange(len(position))
        wall_row = np.full(count**3, -1, np.int32)
        links = []
        for i in range(1, Q):
            end = position + VELOCITIES[i]
            key = (end[:, 2] * count + end[:, 1]) * count + end[:, 0]
            node = np.flatnonzero(row[key] < 0)
            start = position[node] * spacing_mm + origin
            q_wall, q_cap, cap = self._hits(start, VELOCITIES[i] * spacing_mm)
            through_wall = q_wall <= q_cap
            wall_row[key[node][through_wall]] = 0
            links.append((node, np.full(len(node), i), key[node], np.minimum(q_wall, q_cap), through_wall, cap))
        wall = np.flatnonzero(wall_row == 0)
        wall_row[wall] = np.arange(len(wall))
        node, direction, key, q, through_wall, cap = (np.concatenate(part) for part in zip(*links, strict=True))
        opening = np.zeros(len(position), np.int8)
        opening[node[~through_wall]] = cap[~through_wall]
        order = np.argsort(opening, kind="stable")  # fluid, inlet, outlet
        middle = (position[node] + 0.5 * VELOCITIES[direction]) * spacing_mm + origin
        profile = np.maximum(1 - ((middle @ np.column_stack(self.frame()[:2])) ** 2).sum(1) / self.radius_mm**2, 0)
        node = np.argsort(order)[node]
        return Nodes(
            spacing_mm=spacing_mm,
            origin_mm=tuple(origin),
            shape=(count,) * 3,
            openings=self.openings(),
            position=position[order],
            tag=np.array([FLUID, INLET, OUTLET], np.int8)[opening[order]],
            opening=opening[order],
            distance_mm=np.full(len(position), np.inf, np.float32),
            part=np.zeros(len(position), np.int16),
            wall_position=lattice[wall],
            wall_distance_mm=np.full(len(wall), np.inf, np.float32),
            wall_link_node=node[through_wall].astype(np.int32),
            wall_link_direction=direction[through_wall].astype(np.uint8),
            wall_link_wall=wall_row[key[through_wall]],
            wall_link_q=q[through_wall].astype(np.float32),
            wall_link_patch=np.zeros(through_wall.sum(), np.int8),
            opening_link_node=node[~through_wall].astype(np.int32),
            opening_link_direction=direction[~through_wall].astype(np.uint8),
            opening_link_opening=cap[~through_wall].astype(np.int8),
            opening_link_q=q[~through_wall].astype(np.float32),
            opening_link_profile=profile[~through_wall].astype(np.float32),
        )

    def _inside(self, points):
        first, second, axis = self.frame()
        return (np.hypot(points @ first, points @ second) < self.radius_mm) & (abs(points @ axis) < self.length_mm / 2)

    def _hits(self, start, step):
        """Fraction of the link at which it meets the wall, a cap, and which cap."""
        across = np.column_stack(self.frame()[:2])
        p, d = start @ across, step @ across
        a, b, c = d @ d, p @ d, (p * p).sum(1) - self.radius_mm**2
        q_wall = (np.sqrt(b * b - a * c) - b) / a if a > 1e-12 else np.full(len(start), np.inf)
        along, move = start @ self.frame()[2], step @ self.frame()[2]
        target = np.sign(move) * self.length_mm / 2
        q_cap = (target - along) / move if abs(move) > 1e-12 else np.full(len(start), np.inf)
        return np.clip(q_wall, 1e-6, None), np.clip(q_cap, 1e-6, None), np.full(len(start), 1 if move < 0 else 2)

    def surface(self, edge_mm: float) -> Mesh:
        """Triangles with vertices on the pipe, caps as fans."""
        first, second, axis = self.frame()
        around = int(2 * np.pi * self.radius_mm / edge_mm)
        rings = int(self.length_mm / edge_mm) + 1
        angle = np.arange(around) * 2 * np.pi / around
        circle = self.radius_mm * (np.cos(angle)[:, None] * first + np.sin(angle)[:, None] * second)
        height = np.linspace(-self.length_mm / 2, self.length_mm / 2, rings)
        points = (circle[None] + height[:, None, None] * axis).reshape(-1, 3)
        k, j = (index.ravel() for index in np.meshgrid(np.arange(around), np.arange(rings - 1)))
        a, b = j * around + k, j * around + (k + 1) % around
        c, d = a + around, b + around
        wall = np.concatenate((np.column_stack((a, b, d)), np.column_stack((a, d, c))))
        k = np.arange(around)
        low = np.column_stack((np.full(around, len(points)), (k + 1) % around, k))
        top = (rings - 1) * around
        high = np.column_stack((np.full(around, len(points) + 1), top + k, top + (k + 1) % around))
        centres = np.array([height[0] * axis, height[-1] * axis])
        opening = np.repeat([0, 1, 2], [len(wall), around, around]).astype(np.int8)
        return Mesh(np.concatenate((points, centres)), np.concatenate((wall, low, high)), opening)

    def velocity(self, points_mm):
        """2 U (1 - r^2/R^2) along the axis, (N, 3), m/s."""
        first, second, axis = self.frame()
        r2 = (points_mm @ first) ** 2 + (points_mm @ second) ** 2
        return 2 * self.mean_speed_m_s * (1 - r2 / self.radius_mm**2)[:, None] * axis

    def pressure(self, points_mm):
        """Zero at the outlet, (N,), Pa."""
        return self.gradient_pa_mm * (self.length_mm / 2 - points_mm @ self.frame()[2])

    def stress(self, points_mm):
        """mu (grad u + grad u^T), (N, 6), xx yy zz xy yz xz, Pa."""
        first, second, axis = self.frame()
        across = np.outer(points_mm @ first, first) + np.outer(points_mm @ second, second)
        slope = -self.shear_stress_pa / self.radius_mm * across
        tensor = slope[:, :, None] * axis + (slope[:, :, None] * axis).transpose(0, 2, 1)
        return np.stack([tensor[:, i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2))], axis=1)

    def statistics(self, points_mm) -> FlowStatistics:
        velocity, stress = self.velocity(points_mm), self.stress(points_mm)
        return steady_statistics(velocity, stress, self.viscosity_pa_s, self.density_kg_m3)
