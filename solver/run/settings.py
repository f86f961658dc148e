# SPDX-License-Identifier: Apache-2.0
"""Settings of the solve stage, as they arrive in JSON with all defaults (``SolveSettings`` of
pipeline/case/settings/flow.py).
"""

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from solver.boundary.opening_settings import InletSettings, OutletSettings, WindkesselSettings
from solver.runtime.errors import StageError

T = TypeVar("T")


@dataclass(frozen=True)
class BloodSettings:
    """How viscosity depends on the shear rate. The meaning of each key stands in pipeline/case/settings/flow.py, as it
    does for the classes below.
    """

    model: str = "newtonian"
    set: str | None = None
    parameters: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PatchSettings:
    """How a patch of the wall moves, or that fluid slips along it."""

    velocity_m_s: tuple[float, float, float] | None
    slip: bool


@dataclass(frozen=True)
class SolveSettings:
    """Blood, boundary conditions of the openings by their name or ``*``, force, patches of the wall by name,
    numerics.
    """

    density_kg_m3: float
    viscosity_pa_s: float
    inlets: dict[str, InletSettings]
    outlets: dict[str, OutletSettings]
    backend: str
    precision: str
    collision: str
    walls: str
    lattice_speed: float
    peak_speed_m_s: float | None
    ramp_s: float | None
    steady_tolerance: float
    cycles: int
    max_steps: int | None
    snapshots: int
    force_n_m3: tuple[float, float, float] = (0.0, 0.0, 0.0)
    patches: dict[str, PatchSettings] = field(default_factory=dict)
    blood: BloodSettings = field(default_factory=BloodSettings)
    murray_exponent: float = 3.0
    lambda_trt: float | None = None
    equilibrium: str = "incompressible"
    smagorinsky: float | None = None
    min_cycles: int = 3
    periodic_tolerance: float = 0.01
    phases: list[float] | None = None
    phase_averages: bool = False
    monitor_s: float | None = None
    unsettled: str = "refuse"
    start: str = "auto"
    unsteady_tolerance: float = 0.01
    unsteady_throughs: float = 50.0
    velocity_set: str = "auto"
    ranks: int = 1


def parse(values: dict[str, Any]) -> SolveSettings:
    """Settings from JSON, every key given and none other.

    Raises
    ------
    StageError
        Naming the keys that are missing or unknown.
    """
    values = _checked(SolveSettings, values, "")
    inlets = {name: _build(InletSettings, entry, f"inlets.{name}.") for name, entry in values["inlets"].items()}
    outlets = {name: _outlet(entry, f"outlets.{name}.") for name, entry in values["outlets"].items()}
    patches = {name: _build(PatchSettings, entry, f"patches.{name}.") for name, entry in values["patches"].items()}
    blood = _build(BloodSettings, values["blood"], "blood.")
    return SolveSettings(**values | {"inlets": inlets, "outlets": outlets, "patches": patches, "blood": blood})


def _outlet(values: dict[str, Any], path: str) -> OutletSettings:
    outlet = _checked(OutletSettings, values, path)
    if outlet["windkessel"] is not None:
        outlet = outlet | {"windkessel": _build(WindkesselSettings, outlet["windkessel"], f"{path}windkessel.")}
    return OutletSettings(**outlet)


def _build(kind: type[T], values: dict[str, Any], path: str) -> T:
    return kind(**_checked(kind, values, path))


def _checked(kind: type, values: dict[str, Any], path: str) -> dict[str, Any]:
    known = {each.name for each in fields(kind)}
    if unknown := sorted(values.keys() - known):
        raise StageError(
            f"--settings: unknown {', '.join(path + key for key in unknown)}; known: {', '.join(sorted(known))}"
        )
    if missing := sorted(known - values.keys()):
        raise StageError(f"--settings: missing {', '.join(path + key for key in missing)}; all keys must be given")
    return values
