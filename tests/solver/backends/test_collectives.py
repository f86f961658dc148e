# SPDX-License-Identifier: Apache-2.0
"""Sums over all parts of a divided lattice: how many a step has, and for how many of them it does nothing else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from solver.backends.lattice import Lattice
from solver.backends.lattice_driver import LatticeDriver
from solver.backends.subdomains import SubdomainsDriver
from solver.domain.nodes import Nodes
from solver.kernels.sums import Limbs
from solver.run import setup
from solver.run.exchange import Given, Surroundings
from solver.run.plan import make_plan
from solver.run.settings import OutletSettings, SolveSettings
from tests.solver.run.test_checkpoint import pulsatile, short_pipe
from tests.solver.run.test_simulation import settings
from tests.support import coupled_tree

Case = tuple[Nodes, SolveSettings, Surroundings | None]


class Counting(SubdomainsDriver):
    """Counts sums while it runs, and those that are waited for though no nodes were to collide since they began."""

    def __init__(self, whole: Lattice, subdomain: NDArray[np.integer], make: Callable[..., LatticeDriver]) -> None:
        self.steps = self.sums = self.idle = self.collisions = 0
        super().__init__(whole, subdomain, make)

    def advance(self, boundary_values: NDArray[np.float64]) -> None:
        self.steps += len(boundary_values)
        super().advance(boundary_values)

    def _first_of_last(self, driver: LatticeDriver) -> int:
        """Asked for when the nodes that are not at a border are to collide."""
        first = super()._first_of_last(driver)
        self.collisions += first > driver.lattice.border
        return first

    def _begin_sum(self, limbs: list[Limbs]) -> Callable[[], Limbs]:
        self.sums += 1
        wait, collisions = super()._begin_sum(limbs), self.collisions

        def waited() -> Limbs:
            self.idle += self.collisions == collisions
            return wait()

        return waited


def steady(folder: Path) -> Case:
    return short_pipe(), settings(), None


def windkessel(folder: Path) -> Case:
    return short_pipe(), pulsatile(folder), None


def waveform(folder: Path) -> Case:
    nodes, wanted, _ = windkessel(folder)
    return nodes, replace(wanted, outlets={"*": OutletSettings(0.2)}), None


def tree(folder: Path) -> Case:
    """Its inlet's flow follows from the pressure there, and pressures at its outlets from their flows. With the loops
    of the other cases.
    """
    around = coupled_tree.around_vessel()
    return coupled_tree.vessel(), replace(coupled_tree.wanted(around, folder), velocity_set="D3Q19"), around


@pytest.mark.parametrize(("case", "sums"), [(steady, 1), (waveform, 1), (windkessel, 1), (tree, 2)])
def test_a_step_waits_for_one_sum(case, sums, tmp_path, monkeypatch):
    """That of the mass of walls, with which what outlets follow goes, but for the first step, before which it is added
    up alone; that at inlets which follow their pressure is under way while nodes collide.
    """
    nodes, wanted, around = case(tmp_path)
    along = nodes.position[:, np.ptp(nodes.position, axis=0).argmax()]
    plan = make_plan(nodes, wanted, surroundings=around)
    monkeypatch.setattr(setup, "SubdomainsDriver", Counting)
    driver = setup.drive(replace(nodes, part=(along > np.median(along)).astype(np.uint16)), wanted, plan)
    assert isinstance(driver, Counting)
    given = Given(plan.boundary_schedule)
    exchange = around.couple(plan.boundary_schedule, plan.schedule.cycle) if around else given
    for first, last in ((0, 16), (16, 20)):
        exchange.advance(driver, first, last)
    assert driver.steps == 20
    assert driver.idle == driver.steps
    assert driver.sums == sums * driver.steps + (sums == 1)
