# SPDX-License-Identifier: Apache-2.0
"""Run: one case of a study and what the stages left of it, read when asked for."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from pipeline.case.case_file import Case
from pipeline.case.shapes import Shape
from pipeline.files.json_file import read_json
from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.accumulator import SLAB_CENTRE, Slab, slab_inside
from pipeline.haemodynamics.indices import read_monitor
from solver.domain.nodes import Nodes, Opening, load
from solver.run.flow_file import Flow, read_flow
from solver.runtime.errors import StageError

S = TypeVar("S", bound=Shape)


@dataclass(frozen=True)
class Run:
    """A run.

    Attributes
    ----------
    name : within its study.
    case : its settings.
    folder : where the stages left their files.
    """

    name: str
    case: Case
    folder: Path

    @cached_property
    def nodes(self) -> Nodes:
        """The node arrays."""
        return load(self.folder / "nodes.h5")

    @cached_property
    def flow(self) -> Flow:
        """The flow file."""
        return read_flow(self.folder / "flow.vtkhdf")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """``solve.json``."""
        return read_json(self.folder / "solve.json")

    @cached_property
    def monitor(self) -> dict[str, NDArray[np.float64]]:
        """Columns of ``monitor.csv`` by name, (rows,) each."""
        return read_monitor(self.folder / "monitor.csv")

    @cached_property
    def speed(self) -> dict[str, Any]:
        """``speed.json``."""
        return read_json(self.folder / "speed.json")

    @cached_property
    def sweeps(self) -> dict[str, Any]:
        """``sweep.json``."""
        return read_json(self.folder / "sweep.json")

    @cached_property
    def surface(self) -> Mesh:
        """The closed surface."""
        return Mesh.read(self.folder / "surface.vtp")

    @property
    def spacing_m(self) -> float:
        """Of the lattice."""
        return 1e-3 * self.nodes.spacing_mm

    @property
    def time_step_s(self) -> float:
        """One step."""
        return float(self.summary["numbers"]["time_step_s"])

    @property
    def speed_m_s(self) -> float:
        """One lattice unit of velocity."""
        return self.spacing_m / self.time_step_s

    @property
    def tau(self) -> float:
        """Relaxation time in steps."""
        return float(self.summary["numbers"]["tau"])

    @cached_property
    def velocity_m_s(self) -> NDArray[np.float64]:
        """Velocity at the end of the run, (N, 3)."""
        return self.flow.velocity_m_s(-1).astype(np.float64)

    @cached_property
    def pressure_pa(self) -> NDArray[np.float64]:
        """Pressure at the end of the run, (N,)."""
        return self.flow.pressure_pa(-1).astype(np.float64)

    @cached_property
    def viscous_stress_pa(self) -> NDArray[np.float64]:
        """Viscous stress at the end of the run, (N, 6): xx, yy, zz, xy, yz, zx."""
        return self.flow.viscous_stress_pa(-1).astype(np.float64)

    def leaving_ml_s(self, name: str) -> float:
        """Flow through an opening at the end of the run, as the links count it."""
        return float(self.summary["openings"][name]["flow_ml_s"])

    def through_ml_s(self, centre_mm: NDArray[np.floating], normal: NDArray[np.floating], radius_mm: float) -> float:
        """Flow through a round section of the field of velocity at the end of the run.

        Parameters
        ----------
        centre_mm, normal : of the section, (x, y, z), LPS; flow along the normal, a unit vector, counts as positive.
        radius_mm : of the section.
        """
        slab = section(self.nodes, centre_mm, normal, radius_mm)
        return float(slab.areas_mm2 @ (self.velocity_m_s[slab.rows] @ normal))

    def layer(self, values: NDArray[np.floating], across: int = 1) -> NDArray[np.float64]:
        """:func:`layer` of values at the nodes, (N,)."""
        return layer(self.nodes, values, across)


def shape_of(run: Run, kind: type[S]) -> S:
    """The geometry of a run, which is to be of a kind.

    Raises
    ------
    StageError
        If it is another one.
    """
    shape = run.case.input.geometry
    if not isinstance(shape, kind):
        (word,) = get_args(kind.model_fields["shape"].annotation)
        raise StageError(f"run {run.name}: its geometry is no {word}; set input.geometry.shape to {word}")
    return shape


def layer(nodes: Nodes, values: NDArray[np.floating], across: int = 1) -> NDArray[np.float64]:
    """Values at the nodes, (N,), in the lowest layer of nodes across an axis, NaN where no fluid is.

    It is (Z, X) across y, which is 1, and (Z, Y) across x, 0.

    Parameters
    ----------
    nodes : the node arrays.
    values : (N,).
    across : the axis, 0: x, 1: y.
    """
    first, second = (nodes.position[:, axis] for axis in range(3) if axis != across)
    lowest = nodes.position[:, across] == nodes.position[:, across].min()
    image = np.full((int(np.ptp(second)) + 1, int(np.ptp(first)) + 1), np.nan)
    image[second[lowest] - second.min(), first[lowest] - first.min()] = values[lowest]
    return image


def section(nodes: Nodes, centre_mm: NDArray[np.floating], normal: NDArray[np.floating], radius_mm: float) -> Slab:
    """Nodes in the smooth window around a round section, and what area of it each stands for.

    Parameters
    ----------
    nodes : the node arrays.
    centre_mm, normal : of the section, (x, y, z), LPS, the normal a unit vector.
    radius_mm : of the section.
    """
    cap = np.asarray(centre_mm) + SLAB_CENTRE * nodes.spacing_mm * np.asarray(normal)
    opening = Opening(1, "section", "outlet", tuple(cap), tuple(normal), np.pi * radius_mm**2, radius_mm)
    return slab_inside(nodes, opening)
