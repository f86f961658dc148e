# SPDX-License-Identifier: Apache-2.0
"""How a vessel's branches would share the flow by Murray's law, and what of it is lost where thin ones are closed.

What leaves through an opening goes with its radius to the power of Murray's exponent. In a tree this alone tells the
flow through each branch. Where branches run side by side, flow takes each as its narrowest radius to the same power.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from solver.domain.nodes import Opening


@dataclass(frozen=True)
class Limb:
    """A branch through which flow can pass.

    Attributes
    ----------
    id : of the branch in the files of the stage centreline.
    start, stop : names of the openings or bifurcations at its ends.
    radius_mm : of its narrowest place, or of an opening at its end if that is less.
    place_mm : where that is, (x, y, z), LPS, mm.
    length_mm : of the branch.
    """

    id: int
    start: str
    stop: str
    radius_mm: float
    place_mm: tuple[float, float, float]
    length_mm: float

    @property
    def words(self) -> str:
        """For messages."""
        x, y, z = self.place_mm
        return (
            f"branch {self.id} ({self.start} to {self.stop}, radius {self.radius_mm:.3g} mm"
            f" at ({x:.2f}, {y:.2f}, {z:.2f}))"
        )


@dataclass(frozen=True)
class Loss:
    """What is lost where the limbs that are too thin are closed.

    Attributes
    ----------
    bypasses : such limbs between two places that stay joined, with their parts of the flow.
    stems : such limbs behind which all is cut off, with the parts of the flow.
    openings : that are cut off.
    share : part of the inflow that all of these carry.
    """

    bypasses: tuple[tuple[Limb, float], ...]
    stems: tuple[tuple[Limb, float], ...]
    openings: tuple[Opening, ...]
    share: float

    @property
    def narrowest_stem_mm(self) -> float:
        """Least radius of the limbs behind which something is cut off; infinite where there are none."""
        return min((limb.radius_mm for limb, _ in self.stems), default=float("inf"))

    def summary(self, inflow_ml_s: float | None) -> str:
        """Each limb with the flow that it would carry, for messages."""
        return "; ".join(f"{limb.words}, {flow_words(part, inflow_ml_s)}" for limb, part in self.stems + self.bypasses)

    def records(self, inflow_ml_s: float | None, spacing_mm: float) -> list[dict[str, Any]]:
        """The same for files."""
        return [
            {
                "branch": limb.id,
                "from": limb.start,
                "to": limb.stop,
                "radius_mm": limb.radius_mm,
                "place_mm": list(limb.place_mm),
                "nodes_across": 2 * limb.radius_mm / spacing_mm,
                "flow_share": part,
                "flow_ml_s": None if inflow_ml_s is None else part * inflow_ml_s,
            }
            for limb, part in self.stems + self.bypasses
        ]


def flow_words(part: float, inflow_ml_s: float | None) -> str:
    """Part of the inflow in percent, and in mL/s where the inflow is known."""
    flow = "" if inflow_ml_s is None else f" ({part * inflow_ml_s:.2g} mL/s)"
    return f"{100 * part:.3g} % of the inflow{flow} by Murray's law"


@dataclass(frozen=True)
class FlowTree:
    """The branches of a vessel, and what enters and leaves at its openings.

    Attributes
    ----------
    limbs : branches through which flow can pass.
    openings : of the vessel.
    out : part of the inflow that leaves through each opening, by name; less than 0 where it enters.
    exponent : Murray's.
    """

    limbs: tuple[Limb, ...]
    openings: tuple[Opening, ...]
    out: Mapping[str, float]
    exponent: float

    @classmethod
    def of(
        cls,
        rows: Iterable[Mapping[str, Any]],
        openings: tuple[Opening, ...],
        exponent: float,
        fractions: Mapping[str, float] | None = None,
    ) -> "FlowTree":
        """Of the table of the branches.

        Parameters
        ----------
        rows : of the stage centreline.
        openings : of the vessel.
        exponent : Murray's.
        fractions : part of the flow that leaves through each outlet, by name, where it is known; else by the radii.
        """
        width = {opening.name: opening.radius_mm for opening in openings}
        limbs = tuple(
            Limb(
                int(row["branch"]),
                row["from"],
                row["to"],
                min(float(row["min_radius_mm"]), *(width.get(row[end], np.inf) for end in ("from", "to"))),
                (float(row["min_x_mm"]), float(row["min_y_mm"]), float(row["min_z_mm"])),
                float(row["length_mm"]),
            )
            for row in rows
            if row["leads_to_opening"]
        )
        entering = _parts([o for o in openings if o.role == "inlet"], exponent)
        leaving = fractions or _parts([o for o in openings if o.role == "outlet"], exponent)
        return cls(limbs, openings, {**leaving, **{name: -part for name, part in entering.items()}}, exponent)

    @cached_property
    def root(self) -> str:
        """The largest inlet, or else the largest opening."""
        return max(self.openings, key=lambda opening: (opening.role == "inlet", opening.radius_mm)).name

    @cached_property
    def flow(self) -> dict[int, float]:
        """Part of the inflow that passes through each limb, by its id."""
        row = {name: k for k, name in enumerate({end: None for limb in self.limbs for end in (limb.start, limb.stop)})}
        joins = np.zeros((len(self.limbs), len(row)))
        for k, limb in enumerate(self.limbs):
            joins[k, row[limb.start]] += 1
            joins[k, row[limb.stop]] -= 1
        radius, length = (np.array([getattr(limb, key) for limb in self.limbs]) for key in ("radius_mm", "length_mm"))
        conductance = (radius / radius.max()) ** self.exponent * length.max() / np.maximum(length, 1e-6 * length.max())
        entering = np.array([-self.out.get(name, 0.0) for name in row])
        pressure = np.linalg.lstsq(joins.T @ (conductance[:, None] * joins), entering, rcond=None)[0]
        through = np.abs(conductance * (joins @ pressure))
        return {limb.id: float(part) for limb, part in zip(self.limbs, through, strict=True)}

    def without(self, least_radius_mm: float) -> Loss:
        """What is lost where limbs that are thinner than a radius are closed."""
        thin = [limb for limb in self.limbs if limb.radius_mm < least_radius_mm]
        reached = _reached(self.root, [limb for limb in self.limbs if limb.radius_mm >= least_radius_mm])
        bypasses = tuple((limb, self.flow[limb.id]) for limb in thin if {limb.start, limb.stop} <= reached)
        stems = tuple((limb, self.flow[limb.id]) for limb in thin if len({limb.start, limb.stop} & reached) == 1)
        openings = tuple(opening for opening in self.openings if opening.name not in reached)
        lost = sum(abs(self.out[opening.name]) for opening in openings) + sum(part for _, part in bypasses)
        return Loss(bypasses, stems, openings, min(lost, 1.0))

    def carrying(self, share: float) -> Limb:
        """The narrowest limb that stays when the thinnest, together of at most a share of the inflow, are left out."""
        chosen, *wider = sorted(self.limbs, key=lambda limb: limb.radius_mm)
        for limb in wider:
            if self.without(limb.radius_mm).share > share:
                break
            chosen = limb
        return chosen


def _parts(openings: Sequence[Opening], exponent: float) -> dict[str, float]:
    """Part of the flow of each opening by Murray's law."""
    power = {opening.name: opening.radius_mm**exponent for opening in openings}
    return {name: each / sum(power.values()) for name, each in power.items()}


def _reached(root: str, limbs: list[Limb]) -> set[str]:
    """Names of the joints that limbs join to one, with that one."""
    reached, waiting = {root}, [root]
    while waiting:
        here = waiting.pop()
        for limb in limbs:
            for near, far in ((limb.start, limb.stop), (limb.stop, limb.start)):
                if near == here and far not in reached:
                    reached.add(far)
                    waiting.append(far)
    return reached
