# SPDX-License-Identifier: Apache-2.0
"""Which branches set the spacing of the lattice, which are too thin for it, and how these are closed.

The spacing follows the branches that carry the flow: the thinnest, together of at most a stated share of the inflow by
Murray's law, do not count. What then has too few nodes across carries no flow that could be trusted, and is closed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry.branches.shares import FlowTree, Limb, Loss, flow_words
from pipeline.geometry.branches.side_branches import FLARE, from_balls
from pipeline.geometry.branches.vessel_tree import Branch
from pipeline.geometry.lattice.budget import ROUND_OFF, Budget
from pipeline.geometry.lattice.frame import Frame
from pipeline.geometry.lattice.spacing import PeakSpeed, Spacing, resolving_spacing
from solver.run.forecast import MIN_NODES_ACROSS

TIPS = 1.03
"""An end that is closed has its tip again: a spacing that is so much coarser leaves 9 % of the nodes for these."""
MOST = 0.999
"""Where more of the inflow is lost, nothing is left that could be computed."""


def too_thin(tree: FlowTree, spacing_mm: float) -> Loss:
    """What is lost where the branches with fewer than `MIN_NODES_ACROSS` nodes across are closed."""
    return tree.without(MIN_NODES_ACROSS * spacing_mm / 2)


def choose_auto(
    tree: FlowTree,
    budget: Budget,
    share: float,
    most_nodes: float,
    peak: PeakSpeed | None = None,
    closable: bool = False,
) -> Spacing:
    """The spacing that the branches which carry the flow ask for, or the finest that fits where that costs little.

    Parameters
    ----------
    tree : branches and their parts of the flow.
    budget : what a lattice costs, and what there is.
    share : part of the inflow that may be left out.
    most_nodes : fluid nodes that are wanted at most, see :func:`resolving_spacing`.
    peak : speed of the flow, where it is known.
    closable : whether branches that end in openings can be closed; otherwise they keep `MIN_NODES_ACROSS` nodes.
    """
    limb = tree.carrying(share)
    chosen = resolving_spacing(2 * limb.radius_mm, _of(tree, limb), peak, budget.extent.volume_mm3, most_nodes)
    stem_mm = too_thin(tree, chosen.spacing_mm).narrowest_stem_mm
    if not closable and np.isfinite(stem_mm):
        chosen = Spacing(
            (1 - ROUND_OFF) * 2 * stem_mm / MIN_NODES_ACROSS,
            f"{MIN_NODES_ACROSS:g} nodes across the narrowest branch to an opening",
        )
    if not budget.excess(chosen.spacing_mm):
        return chosen
    fitting = budget.finest_mm(chosen.spacing_mm)
    loss = too_thin(tree, fitting)
    if (
        loss.share > share
        or (loss.stems and not closable)
        or (peak and fitting > peak.coarsest(2 * limb.radius_mm).spacing_mm)
    ):
        return chosen
    across = 2 * limb.radius_mm / fitting
    return Spacing(
        fitting,
        f"the finest that fits; {chosen.spacing_mm:.4g} mm ({chosen.reason}) needs"
        f" {budget.excess(chosen.spacing_mm)}; {across:.1f} nodes are left across {_of(tree, limb)}",
    )


def _of(tree: FlowTree, limb: Limb) -> str:
    left_out = tree.without(limb.radius_mm)
    thinner = f", thinner ones carry {100 * left_out.share:.2g} % of the inflow" if left_out.share else ""
    return f"the narrowest branch that carries flow, {limb.words}{thinner}"


def closed_here(loss: Loss, share: float) -> tuple[Limb, ...]:
    """Limbs that the lattice closes: beside others that stay, and together of no more than a share of the inflow."""
    few = sum(part for _, part in loss.bypasses) <= share
    return tuple(limb for limb, _ in loss.bypasses) if few else ()


def advice(tree: FlowTree, fitting_mm: float, inflow_ml_s: float | None, counted: bool = False) -> str:
    """What to set so that a spacing is taken, and what would be lost.

    Parameters
    ----------
    tree : branches and their parts of the flow.
    fitting_mm : the finest spacing that fits.
    inflow_ml_s : into the vessel, where it is known.
    counted : whether the settings count nodes across, which a spacing replaces.
    """
    loss = too_thin(tree, fitting_mm)
    if loss.openings:
        fitting_mm = float(f"{TIPS * fitting_mm:.3g}")
        loss = too_thin(tree, fitting_mm)
    lost = f"lost would be {loss.summary(inflow_ml_s)}"
    if loss.share > MOST:
        return (
            f"But no way would be left from {tree.root} to an outlet, {lost}. Give the run more memory, or repair the"
            " vessel there: a lower segment.lower or a finer filter.spacing_mm where the image shows it wider; cut it"
            " off before that place with filter.region_mm where it does not belong to the vessel"
        )
    voxelize, surface = f"spacing_mm: {fitting_mm:.6g}{', nodes_across: null' if counted else ''}", ""
    if loss.bypasses:
        voxelize += f", left_out_share: {ceil(1000 * sum(part for _, part in loss.bypasses)) / 1000:g}"
    if loss.openings:
        places = ", ".join("[{:.1f}, {:.1f}, {:.1f}]".format(*opening.centre_mm) for opening in loss.openings)
        surface = f" and surface: {{closed_mm: [{places}]}}"
    across = 2 * min(limb.radius_mm for limb in tree.limbs) / fitting_mm
    message = f"{lost}, together {flow_words(loss.share, inflow_ml_s)}"
    if not loss.share:
        message = f"every branch has {across:.1f} nodes across or more"
    return f"Set voxelize: {{{voxelize}}}{surface}; {message}"


@dataclass(frozen=True)
class Closed:
    """Branches that the lattice closes: their nodes are taken out of the fluid.

    Attributes
    ----------
    lost, kept : points and radii of their middle lines, and of those of all others, (n, 4), mm.
    """

    lost: NDArray[np.float64]
    kept: NDArray[np.float64]

    @classmethod
    def of(cls, branches: Sequence[Branch], ids: set[int]) -> "Closed":
        """Of branches as the stage centreline writes them, those with some ids."""
        lines = {each.id: np.column_stack([each.points_mm, each.radius_mm]) for each in branches}
        lost = [lines[each.id][each.own] for each in branches if each.id in ids]
        kept = [line for number, line in lines.items() if number not in ids]
        return cls(np.concatenate(lost), np.concatenate(kept))

    def nodes(self, frame: Frame, enclosed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Places in the flattened lattice of the enclosed nodes, [z, y, x], that are nearer to a line that is lost.

        A node belongs to the ball that it lies in deepest; balls of what is lost are `FLARE` times as large.
        """
        centres, radii = self.lost[:, :3], FLARE * self.lost[:, 3]
        low, high = (centres - radii[:, None]).min(axis=0), (centres + radii[:, None]).max(axis=0)
        first = np.clip((low - frame.origin_mm) / frame.spacing_mm, 0, None).astype(int)
        last = np.minimum((high - frame.origin_mm) / frame.spacing_mm + 2, frame.shape[::-1]).astype(int)
        box = enclosed[tuple(slice(a, b) for a, b in zip(first[::-1], last[::-1], strict=True))]
        index = first + np.argwhere(box)[:, ::-1]
        places = frame.origin_mm + frame.spacing_mm * index
        lost = from_balls(places, centres, radii)
        index, places, lost = index[lost < 0], places[lost < 0], lost[lost < 0]
        reach = self.kept[:, 3:]
        near = ((self.kept[:, :3] > low - reach) & (self.kept[:, :3] < high + reach)).all(axis=1)
        kept = from_balls(places, self.kept[near, :3], self.kept[near, 3])
        return frame.node(index[lost < kept].astype(np.int32))
