# SPDX-License-Identifier: Apache-2.0
"""What a run needs before its first step: backend, device, lattice, driver and forecast."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil

import numpy as np

from solver.backends.communicator import world
from solver.backends.cost import OVER_SHARE, Device
from solver.backends.distributed import DistributedDriver, OwnPart
from solver.backends.driver import Driver
from solver.backends.lattice import Lattice, build_lattice
from solver.backends.lattice_driver import LatticeDriver
from solver.backends.subdomains import SubdomainsDriver
from solver.boundary.walls import require_sliding
from solver.domain.nodes import Nodes
from solver.kernels.d3q19 import Q
from solver.run.convergence import steps_of_mean
from solver.run.cycle_variation import cycles_if_it_varies, how_likely
from solver.run.duration import wide_places
from solver.run.forecast import Forecast, forecast
from solver.run.models import WITH_LAMBDA
from solver.run.plan import Plan
from solver.run.settings import SolveSettings
from solver.run.settling_time import CALM
from solver.runtime.errors import StageError
from solver.runtime.memory import gigabytes
from solver.runtime.progress import in_time_units

FLUCTUATES = 1.3
"""Of the steps after which the mean of a flow that fluctuates is expected, those after which most have it."""


def choose_backend(name: str) -> str:
    """``cpu`` or ``cuda``; ``auto`` takes CUDA where a device answers.

    Raises
    ------
    StageError
        If the name is unknown.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise StageError(f"solve.backend {name!r}: unknown; known are auto, cpu, cuda")
    if name != "auto":
        return name
    from solver.backends.cuda.device import device_answers

    return "cuda" if device_answers() else "cpu"


def no_device() -> str | None:
    """Why there is no CUDA device; none if there is one."""
    from solver.backends.cuda.device import fault

    return fault()


def find_device(backend: str, precision: str, ranks: int = 1) -> Device:
    """What a backend runs on.

    Parameters
    ----------
    backend, precision : of the settings.
    ranks : that run it together. On the CPU memory is what each has room for if it needs :data:`OVER_SHARE` of its
        share, as the one with least; on devices each needs memory for its part.

    Raises
    ------
    StageError
        If the backend is unknown, or no CUDA device answers where one is asked for.
    """
    if choose_backend(backend) == "cpu":
        from solver.backends.cpu.cpu_driver import cpu_device

        device = cpu_device()
        if ranks == 1:
            return device
        least = -world().largest(np.array([-device.free_bytes // world().neighbours], np.int64))[0]
        room, speed = ranks * least / OVER_SHARE, ranks * device.updates_s
        return replace(device, name=f"{ranks} ranks", free_bytes=float(room), updates_s=speed)
    if ranks > 1:
        from solver.backends.cuda.rank_devices import devices_of_ranks

        return devices_of_ranks(world(), precision)
    from solver.backends.cuda.device import cuda_device

    return cuda_device(precision)


def make_driver(backend: str, lattice: Lattice) -> LatticeDriver:
    """Driver of a backend for a lattice, which fails as :func:`find_device` does."""
    return _maker(backend)(lattice)


def _maker(backend: str) -> Callable[[Lattice], LatticeDriver]:
    make: Callable[[Lattice], LatticeDriver]
    if choose_backend(backend) == "cpu":
        from solver.backends.cpu.cpu_driver import CpuDriver as make
    else:
        from solver.backends.cuda.cuda_driver import CudaDriver as make
    return make


def drive(nodes: Nodes, settings: SolveSettings, plan: Plan) -> Driver:
    """Lay a geometry out under a plan, and what runs it: one driver, or one for all of its parts, of which each rank
    lays out its own.

    Parameters
    ----------
    nodes : the geometry; of a rank its part.
    settings : backend, precision, walls, ranks.
    plan : all else.

    Raises
    ------
    StageError
        As :func:`solver.backends.lattice.build_lattice` and :func:`find_device` do, or if a patch that moves would push
        fluid through itself.
    """
    require_sliding(nodes, plan.moving)
    make = _maker(settings.backend)
    if settings.ranks == 1:
        lattice = lay_out(nodes, settings, plan, settings.walls)
        return SubdomainsDriver(lattice, nodes.part, make) if nodes.part.any() else make(lattice)
    last = choose_backend(settings.backend) != "cpu"
    # in one call, so that the lattice of what is around a part is let go before its driver is made
    own = OwnPart.of_lattice(lay_out(nodes, settings, plan, settings.walls), nodes.part, world(), nodes.whole, last)
    return _part_driver(settings.backend)(own, make, world())


def _part_driver(backend: str) -> Callable[..., DistributedDriver]:
    """What makes the driver of a rank's part: on devices that reach each other's memory messages stay there."""
    if choose_backend(backend) == "cpu":
        return DistributedDriver
    from solver.backends.cuda.peer_driver import PeerDriver
    from solver.backends.cuda.peer_memory import why_not_connected

    why = why_not_connected(world())
    return partial(DistributedDriver, way=f"through the host, since {why}") if why else PeerDriver


def lay_out(nodes: Nodes, settings: SolveSettings, plan: Plan, walls: str) -> Lattice:
    """The lattice of a plan, with the named walls.

    Parameters
    ----------
    nodes : the geometry.
    settings : precision and equilibrium.
    plan : all else.
    walls : name of the wall scheme, one of :data:`solver.boundary.walls.WALLS`.
    """
    lattice = build_lattice(
        nodes if plan.q == Q else nodes.with_corners(),
        plan.models.collision,
        plan.rates,
        walls,
        settings.precision,
        plan.boundary_schedule.profiles,
        plan.force,
        plan.moving,
        plan.slip,
        plan.boundary_schedule.columns,
        plan.boundary_schedule.outlet_feedback,
        plan.boundary_schedule.inlet_feedback,
        equilibrium=settings.equilibrium,
        rheology=plan.rheology,
        isotropic=is_isotropic(settings, plan),
        parabolic=is_parabolic(settings, plan),
    )
    # halves do not keep so small a velocity
    wide = wide_places(nodes) if plan.period_s and settings.precision != "fp16" else lattice.wide
    return replace(lattice, wide=wide) if nodes.ranks.join(np.array([wide.any()])).any() else lattice


def is_isotropic(settings: SolveSettings, plan: Plan) -> bool:
    """Whether the force of :mod:`solver.kernels.isotropy` acts.

    It is that of D3Q27. Halves do not keep so small a momentum. In the corners of moving walls, where the speed changes
    as a whole from node to node, it would be a negative viscosity.
    """
    return plan.q != Q and settings.precision != "fp16" and not plan.moving


def is_parabolic(settings: SolveSettings, plan: Plan) -> bool:
    """Whether walls meet a parabola, see :mod:`solver.boundary.parabolic_walls`.

    Halves do not keep so small a velocity, and walls that move have one of their own. The models that hold where others
    diverge relax their odd moments at once, without a Lambda. Half-way walls are there to be compared with.
    """
    may = settings.precision != "fp16" and settings.walls != "half-way" and not plan.moving
    return may and plan.models.collision in WITH_LAMBDA


def foresee(nodes: Nodes, settings: SolveSettings, plan: Plan, device: Device) -> Forecast:
    """What the run of a plan is expected to take on a device, which fails as :func:`forecast` does.

    Parameters
    ----------
    nodes : the geometry.
    settings : of the stage.
    plan : what is run.
    device : what runs it.
    """
    means = 1 + (len(plan.schedule.snapshots) if plan.schedule.averaged else 0)
    varying = plan.rheology is not None or any(models.eddies or models.layers for models in plan.safer)
    return forecast(nodes, settings.precision, plan.expected_steps, device, means, varying, plan.q)


def forecast_summary(expected: Forecast, plan: Plan, device: Device, settings: SolveSettings) -> str:
    """The forecast as the log has it.

    Parameters
    ----------
    expected : the forecast.
    plan : what is run.
    device : what runs it.
    settings : of the stage.
    """
    basis, varies = "until friction has settled the flow", ""
    if cycle := plan.schedule.cycle:
        basis = f"{expected.steps // cycle} of at most {plan.schedule.cycles} cycles if the flow repeats"
        varies = _if_it_varies(plan, device, settings)
    elif plan.boundary_schedule.waveforms.inflow:
        basis = "until what the ramp leaves has died away"
    if not cycle:
        basis += f"; about {_steps_of_mean(plan):.0f} for the mean of a flow that fluctuates"
    return (
        f"about {expected.steps} steps ({likely_in_words(plan, expected.steps)}; {basis}) in"
        f" {in_time_units(expected.seconds)}, at {device.speed(plan.q) / 1e6:.3g} MLUPS and compilation of"
        f" {device.compile_s:g} s; memory {gigabytes(expected.bytes)} of {gigabytes(device.free_bytes)} free on"
        f" {device.name}{varies}"
    )


def _if_it_varies(plan: Plan, device: Device, settings: SolveSettings) -> str:
    """What the forecast adds of a pulse whose flow never repeats."""
    assert plan.schedule.cycle is not None
    if (cycles := cycles_if_it_varies(plan, settings)) is None:
        return (
            f"; a flow that varies from cycle to cycle is refused, since solve.cycles {settings.cycles} are too few to"
            " tell"
        )
    least, most = cycles
    nodes = plan.numbers["fluid_nodes"]
    took = [in_time_units(device.seconds(each * plan.schedule.cycle, nodes, plan.q)) for each in cycles]
    how = how_likely(plan.numbers) if "womersley" in plan.numbers else "which only the run tells"
    some = f"{least} cycles, {took[0]}" if least == most else f"{least} to {most} cycles, {took[0]} to {took[1]}"
    return f"; {some}, if it varies from cycle to cycle, {how}"


def likely_steps(plan: Plan, steps: int, unsteady: bool = False) -> tuple[int, int]:
    """Steps between which a run is likely to end.

    Parameters
    ----------
    plan : of the run.
    steps : that are forecast until it is steady; of one that begins with a flow that fluctuates, until it has its mean.
    unsteady : whether it begins with one.
    """
    schedule = plan.schedule
    if schedule.cycle:
        return schedule.least_cycles * schedule.cycle, schedule.last
    least, most = (part * steps for part in plan.spread)
    of_mean = FLUCTUATES * _steps_of_mean(plan)
    if unsteady:
        least, most = plan.spread[0] * plan.from_coarse_steps, of_mean
    elif plan.spread != CALM:
        most = max(most, of_mean)
    return min(int(least), schedule.last), min(ceil(most), schedule.last)


def _steps_of_mean(plan: Plan) -> float:
    return steps_of_mean(plan.ramp_s / plan.units.dt_s, plan.through_steps)


def likely_in_words(plan: Plan, steps: int, unsteady: bool = False) -> str:
    """These steps for the log, and why they may be so many more than are forecast; parameters of `likely_steps`.

    Parameters
    ----------
    plan : of the run.
    steps : that are likely.
    unsteady : whether the flow is known to fluctuate.
    """
    least, most = likely_steps(plan, steps, unsteady)
    if unsteady or plan.schedule.cycle or plan.spread == CALM:
        return f"{least} to {most}"
    settled = ceil(plan.spread[1] * steps)
    if settled < most:
        return f"{least} to {settled}, or up to {most} if the flow hardly settles or fluctuates"
    return f"{least} at least, {most} if the flow hardly settles or fluctuates"
