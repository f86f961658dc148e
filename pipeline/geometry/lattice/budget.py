# SPDX-License-Identifier: Apache-2.0
"""What a lattice costs, and the finest one that fits: in this machine's memory, and in that of the solver's device."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.files.mesh import Mesh
from pipeline.geometry.lattice.crossings import MAX_NODES
from pipeline.geometry.lattice.grid import BYTES_PER_FLUID_NODE, Grid, choose_frame, extent_of, memory_bytes
from pipeline.geometry.lattice.spacing import Extent
from solver.backends.cost import REAL_BYTES, Size
from solver.runtime.errors import StageError
from solver.runtime.memory import gigabytes

NEARLY, ROUND_OFF = 1.001, 1e-9
"""How far a spacing may be from the finest that fits before it is rounded up, as a factor; and what rounding leaves."""


@dataclass(frozen=True)
class Cost:
    """Of a lattice.

    Attributes
    ----------
    spacing_mm : of it.
    shape : nodes along (z, y, x).
    size : fluid nodes and links.
    """

    spacing_mm: float
    shape: tuple[int, int, int]
    size: Size

    @property
    def here_bytes(self) -> float:
        """Memory of voxelize and decompose."""
        return memory_bytes(self.shape, self.size.fluid_nodes)

    @property
    def words(self) -> str:
        """For the log and for messages."""
        depth, height, width = self.shape
        solver = " or ".join(f"{gigabytes(self.size.device_bytes(each))} ({each})" for each in REAL_BYTES)
        return (
            f"about {self.size.fluid_nodes:.4g} fluid nodes in a lattice of {width} x {height} x {depth}; memory"
            f" {gigabytes(self.here_bytes)} here, for the solver {solver}"
        )

    @property
    def record(self) -> dict[str, Any]:
        """For the provenance."""
        return {
            "expected_fluid_nodes": round(self.size.fluid_nodes),
            "expected_solver_gb": {each: self.size.device_bytes(each) / 1e9 for each in REAL_BYTES},
        }


@dataclass(frozen=True)
class Budget:
    """A vessel that is to be filled with nodes, and the memory that there is for it.

    Attributes
    ----------
    mesh, grid : the closed surface, and where the nodes of a canonical geometry lie.
    extent : of what is filled.
    precision : of the solver.
    memory_gb : of the solver's device; none where it is not known.
    here_bytes : of this machine.
    """

    mesh: Mesh
    grid: Grid | None
    extent: Extent
    precision: str
    memory_gb: float | None
    here_bytes: float

    @classmethod
    def of(
        cls, mesh: Mesh, grid: Grid | None = None, precision: str = "fp32", memory_gb: float | None = None
    ) -> "Budget":
        """On this machine.

        Parameters
        ----------
        mesh : closed surface.
        grid : of a canonical geometry; none of another.
        precision : of the solver, ``fp32``, ``fp64`` or ``fp16``.
        memory_gb : of the solver's device; none where it is not known.
        """
        here = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        return cls(mesh, grid, extent_of(mesh, grid), precision, memory_gb, here)

    def cost(self, spacing_mm: float) -> Cost:
        """Of a lattice, before it is made."""
        volume, wall, caps = self.extent.volume_mm3, self.extent.wall_mm2, self.extent.caps_mm2
        size = Size.of_surface(volume / spacing_mm**3, wall / spacing_mm**2, caps / spacing_mm**2)
        return Cost(spacing_mm, choose_frame(self.mesh, spacing_mm, self.grid).shape, size)

    def excess(self, spacing_mm: float) -> str:
        """What a lattice needs more than there is, in words; empty where it fits."""
        cost, message = self.cost(spacing_mm), list[str]()
        if max(cost.shape) > MAX_NODES:
            message.append(f"{max(cost.shape)} nodes along an axis, at most {MAX_NODES} are possible")
        if cost.here_bytes > self.here_bytes:
            message.append(f"{gigabytes(cost.here_bytes)} of this machine, which has {gigabytes(self.here_bytes)}")
        need = cost.size.device_bytes(self.precision)
        if self.memory_gb and need > 1e9 * self.memory_gb:
            message.append(
                f"{gigabytes(need)} for the solver in {self.precision}, where voxelize.memory_gb is {self.memory_gb:g}"
            )
        return " and ".join(message)

    def finest_mm(self, spacing_mm: float) -> float:
        """The finest spacing that fits and is no finer than the given one: to three digits, or on a grid such that
        whole spacings fill its reference length and its periods.
        """
        if self.grid:
            return self._finest_on_grid(self.grid, spacing_mm)
        low, high = spacing_mm, spacing_mm
        while self.excess(high):
            low, high = high, 2 * high
        while high / low > NEARLY:
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if self.excess(middle) else (low, middle)
        digit = 10.0 ** (np.floor(np.log10(high)) - 2)
        steps = int(np.ceil(high / digit - ROUND_OFF))
        while self.excess(fitting := float(f"{steps * digit:.3g}")):
            steps += 1
        return fitting

    def _finest_on_grid(self, grid: Grid, spacing_mm: float) -> float:
        least_mm = (BYTES_PER_FLUID_NODE * self.extent.volume_mm3 / self.here_bytes) ** (1 / 3)
        for count in range(int(grid.reference_mm / max(spacing_mm, least_mm) + ROUND_OFF), 0, -1):
            try:
                if not self.excess(grid.reference_mm / count):
                    return grid.reference_mm / count
            except StageError:  # a period is no whole number of these spacings
                continue
        return grid.reference_mm

    def require(self, spacing_mm: float, message: Callable[[float], str]) -> None:
        """Refuse a lattice that does not fit.

        Parameters
        ----------
        spacing_mm : of the lattice.
        message : what to set, and what would be lost, at a spacing that fits.

        Raises
        ------
        StageError
            With the finest spacing that fits, and what it costs.
        """
        if excess := self.excess(spacing_mm):
            fitting = self.finest_mm(spacing_mm)
            raise StageError(
                f"a spacing of {spacing_mm:.3g} mm gives {self.cost(spacing_mm).words}: {excess}. The finest that fits"
                f" is {fitting:.6g} mm, with {self.cost(fitting).words}. {message(fitting)}"
            )
