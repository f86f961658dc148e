"""Settings of the solve stage, as they arrive in JSON with all defaults (``SolveSettings`` of pipeline/case.py)."""

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from solver.stage import StageError

T = TypeVar("T")


@dataclass(frozen=True)
class InletSettings:
    """Flow into the vessel. The meaning of each key stands in pipeline/case.py, as for the classes below."""

    flow_ml_s: float | None
    waveform: str | None
    profile: str


@dataclass(frozen=True)
class OutletSettings:
    """Pressure on the cap of an outlet."""

    pressure_mmhg: float


@dataclass(frozen=True)
class PatchSettings:
    """How a patch of the wall moves, or that fluid slips along it."""

    velocity_m_s: tuple[float, float, float] | None
    slip: bool


@dataclass(frozen=True)
class SolveSettings:
    """Blood, conditions at the openings by their name or ``*``, force, patches of the wall by name, numerics."""

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
    max_steps: int
    snapshots: int
    force_n_m3: tuple[float, float, float] = (0.0, 0.0, 0.0)
    patches: dict[str, PatchSettings] = field(default_factory=dict)


def parse(values: dict[str, Any]) -> SolveSettings:
    """Settings from JSON, every key given and none other.

    Raises
    ------
    StageError
        Naming the keys that are missing or unknown.
    """
    values = _checked(SolveSettings, values, "")
    inlets = {name: _build(InletSettings, entry, f"inlets.{name}.") for name, entry in values["inlets"].items()}
    outlets = {name: _build(OutletSettings, entry, f"outlets.{name}.") for name, entry in values["outlets"].items()}
    patches = {name: _build(PatchSettings, entry, f"patches.{name}.") for name, entry in values["patches"].items()}
    return SolveSettings(**values | {"inlets": inlets, "outlets": outlets, "patches": patches})


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
