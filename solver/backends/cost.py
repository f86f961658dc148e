# SPDX-License-Identifier: Apache-2.0
"""What a backend costs: bytes of numbers and of an update, and the time of a step."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, floor, log10, sqrt

from solver.domain.addresses import row_stride
from solver.domain.nodes import Nodes

REAL_BYTES = {"fp32": 4, "fp64": 8, "fp16": 4}


STORED_BYTES = {"fp32": 4, "fp64": 8, "fp16": 2}
"""Bytes of a number that is computed with, and of a population, in each precision."""


@dataclass(frozen=True)
class Size:
    """Of a lattice, as far as memory follows from it.

    Attributes
    ----------
    fluid_nodes, wall_links, opening_links : how many.
    """

    fluid_nodes: float
    wall_links: float
    opening_links: float
    q: int = 19

    @classmethod
    def of_nodes(cls, nodes: Nodes, q: int = 19) -> "Size":
        """Of given node arrays, with so many populations a node."""
        links = nodes.links
        walls, openings = links["wall"], links["opening"]
        if q == 27:
            through = links["corner through"]
            walls, openings = walls + links["corner"] - through, openings + through
        return cls(nodes.total, walls, openings, q)

    @classmethod
    def of_surface(cls, volume: float, wall_area: float, cap_area: float) -> "Size":
        """Expected inside a closed surface, volume in dx^3 and areas in dx^2.

        Parameters
        ----------
        volume : inside the surface, dx^3.
        wall_area, cap_area : of its wall and of all caps, dx^2.
        """
        return cls(volume, LINKS_PER_AREA * wall_area, LINKS_PER_AREA * cap_area)

    def coarser(self, factor: float) -> "Size":
        """Of the same vessel at a spacing that is `factor` times as large."""
        return replace(
            self,
            fluid_nodes=self.fluid_nodes / factor**3,
            wall_links=self.wall_links / factor**2,
            opening_links=self.opening_links / factor**2,
        )

    def device_bytes(self, precision: str, fields: int = 2, varying: bool = False) -> int:
        """Most memory that a driver takes where it runs, which is while it reads the fields for a snapshot.

        A node: q populations, the velocity kept for the residual, and ten numbers for each set of `fields`, usually
        those of the moment and their mean; `STATISTICS` numbers where there is a mean; where the viscosity is
        `varying`, it and a number more. Addresses: q - 1 for each run of them, of which there are as many as a part of
        the wall links. A wall link: three addresses, four coefficients, its part of the nodes' list. A link through an
        opening: address, opening, normal, velocity, weight and flux at most, its part of the lists of nodes. For walls
        that meet a parabola, a node's velocity; of a wall link, four nodes and weights, shares, and what the wall's
        velocity adds, twice. With 27 populations, two nodes along each axis and ends of differences there, how often
        these count, fluxes and momentum.

        Parameters
        ----------
        precision : of the settings, ``fp16``, ``fp32`` or ``fp64``.
        fields : sets of fields.
        varying : whether the viscosity varies.
        """
        real, stride = REAL_BYTES[precision], row_stride(ceil(self.fluid_nodes))
        index = 4 if self.q * stride < 2**32 else 8
        kept = 3 + 10 * fields + (STATISTICS if fields > 1 else 0)
        node = stride * self.q * STORED_BYTES[precision] + self.fluid_nodes * kept * real
        node += (self.q - 1) * index * RUNS_PER_LINK * self.wall_links
        if varying:
            node += (stride + self.fluid_nodes * fields) * real
        if precision != "fp16":
            node += self.fluid_nodes * 3 * real + self.wall_links * (4 * 4 + 9 * real)
            if self.q == 27:
                node += self.fluid_nodes * (12 * 4 + 3 + 6 * real)
        return ceil(node + self.wall_links * (3 * index + 4 * real + 1) + self.opening_links * (index + 8 * real + 10))

    def fitting_mm(self, spacing_mm: float, need_bytes: Callable[["Size"], float], limit_bytes: float) -> float:
        """The finest spacing, to three digits, at which this vessel needs no more memory than there is.

        Parameters
        ----------
        spacing_mm : that of this size.
        need_bytes : memory that a run of a size needs.
        limit_bytes : memory that there is.
        """
        low, high = 1.0, 2.0
        while need_bytes(self.coarser(high)) > limit_bytes and high < 1e6:
            low, high = high, 2 * high
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if need_bytes(self.coarser(middle)) > limit_bytes else (low, middle)
        digit = 10.0 ** (floor(log10(high * spacing_mm)) - 2)
        return ceil(high * spacing_mm / digit) * digit


@dataclass(frozen=True)
class Device:
    """What runs the flow.

    Attributes
    ----------
    name : as the log calls it.
    free_bytes : memory that is free on it.
    updates_s : updates of fluid nodes of 19 populations a second, about.
    step_s : time that a step takes however few the nodes.
    compile_s : compilation before the first steps.
    copies : of the fields that lie in its memory while a snapshot is written.
    corners : time of a node with 27 populations over that with 19; that of the bytes moved if not given, of which the
        force of :mod:`solver.kernels.isotropy` takes 44 a step: 60 to add it to a pair of steps, 217 to find it for 16.
    """

    name: str
    free_bytes: float
    updates_s: float
    step_s: float
    compile_s: float
    copies: int = 0
    corners: float = (27 * 8 + 44) / (19 * 8)

    def of_ranks(self, ranks: int, devices: int, connected: bool = False) -> "Device":
        """What so many ranks run on that have so many such devices.

        Parameters
        ----------
        ranks : that run a lattice together.
        devices : that they have on all machines.
        connected : whether these write into each other's memory.
        """
        if ranks == 1:
            return self
        own_device_s = PEER_STEP_S if connected else RANK_STEP_S
        return replace(
            self,
            name=f"{ranks} ranks on {devices} x {self.name}",
            updates_s=devices * self.updates_s,
            step_s=own_device_s if ranks == devices else TURN_S * ranks / devices,
        )

    def seconds(self, steps: int, fluid_nodes: float, q: int = 19) -> float:
        """Expected time of so many steps with so many populations a node.

        Parameters
        ----------
        steps : of the run.
        fluid_nodes : N.
        q : populations of a node.
        """
        return self.compile_s + steps * (self.step_s + fluid_nodes / self.speed(q))

    def speed(self, q: int) -> float:
        """Updates of fluid nodes of so many populations a second, about."""
        return self.updates_s / (self.corners if q == 27 else 1.0)

    def bytes(self, size: Size, precision: str, means: int = 1, varying: bool = False) -> int:
        """Most memory that a run takes on it which keeps so many means of the fields.

        Parameters
        ----------
        size : of the lattice.
        precision : of the settings.
        means : of the fields.
        varying : whether the viscosity varies.
        """
        return size.device_bytes(precision, 1 + means + self.copies, varying)


def update_bytes(precision: str, q: int = 19) -> int:
    """Bytes that an update of a node moves at least: q populations in and out."""
    return 2 * q * STORED_BYTES[precision]


OVER_SHARE = 1.3
"""Memory of a rank that reads its part alone, over that of one process divided by the ranks, at most: 1.14 of parts of
0.25 to 2 million nodes on D3Q19, and some to spare. Parts of 0.03 to 0.06 million had 1.4 to 2.3, which is 10 MB more
than their share and little beside libraries (docs/records/performance.md, Memory of ranks)."""
PEER_STEP_S, RANK_STEP_S, TURN_S = 3.5e-5, 2.3e-4, 4.5e-4
"""Time of a step of ranks beside that of their nodes, about, on an H100 each: where these write into the memory of each
other, 0.02 to 0.05 ms; where launches, messages through the memory of the host and sums took 0.14 ms of 2 ranks and
0.35 ms of 4; and of each rank that shares a device, where it is an upper bound: 0.34 and 0.36 ms of 2 and 4
(docs/records/performance.md, Several devices)."""

LINKS_PER_AREA = 1.5 + 3 * sqrt(2)
"""Links that cross a surface per dx^2 of it: sum over c_i . n > 0 of c_i . n, averaged over all directions n."""

RUNS_PER_LINK = 0.3
"""Runs of addresses (`Runs` of solver/kernels/streaming.py) over wall links, about: 0.27 to 0.31 in pipes and trees."""

STATISTICS = 4
"""Numbers of a node that a run keeps beside the mean over time (`Statistics` of solver/backends/fields.py)."""
