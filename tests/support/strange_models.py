# SPDX-License-Identifier: Apache-2.0
"""Surfaces of all sizes and shapes, and flows over time as other programs write them, drawn at random."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.files.mesh import Mesh
from tests.pipeline.stages.test_import_surface import write
from tests.support.strange_given import Drawn, _wall
from tests.support.swept import arc, forked, level_surface, moved, swept
from tests.support.tubes import rotation

Random = np.random.Generator


def _written(
    rng: Random,
    mesh: Mesh,
    folder: Path,
    ends: Any,
    radius: float,
    form: tuple[str, str] = ("stl", "mm"),
    bare: bool = False,
) -> Drawn:
    """A surface in any pose, its case with a mean speed of 0.15 m/s, and the truth.

    Parameters
    ----------
    ends : middles of its openings.
    form : kind of file and unit.
    bare : without its caps.
    """
    turn, shift = rotation(int(rng.integers(1 << 30))), rng.uniform(-60, 60, 3)
    kind, unit = form
    volume = mesh.volume_mm3()
    path = write(moved(_wall(mesh) if bare else mesh, turn, shift), folder / "given", kind, unit, "LPS", said=False)
    flow = {"inlets": {"*": {"flow_ml_s": round(0.15 * np.pi * radius**2, 3)}}}
    case = {"input": {"surface": str(path), "surface_unit": unit}, "solve": flow}
    places = np.asarray(ends, float) @ turn.T + shift
    truth = {"true_ml": volume / 1000, "true_openings": len(places), "ends_mm": places.tolist()}
    return case, truth | {"words": {"radius_mm": radius, "kind": kind, "unit": unit}}


def _tube(rng: Random, radius: float, long: float, taper: float = 0.9, around: int = 32) -> tuple[Mesh, np.ndarray]:
    """A bent tube with caps, so many radii long, and its line."""
    bend = rng.uniform(0.3, 1.5)
    rings = max(6, int(long * around / (2 * np.pi)))
    points = arc(long * radius / bend, bend, rings)
    return swept(points, radius * np.linspace(1, taper, rings), around)[0], points


def extended(rng: Random, folder: Path) -> Drawn:
    """An aorta of 24 to 34 mm that already has straight tubes of 4 to 8 radii at its ends, open, in m."""
    radius, around = rng.uniform(12, 17), 40
    bend, tails = rng.uniform(0.6, 1.6), rng.uniform(4, 8, 2)
    line = arc(6 * radius / bend, bend, 40)
    first, last = (line[0] - line[1]) / np.linalg.norm(line[0] - line[1]), line[-1] - line[-2]
    last /= np.linalg.norm(last)
    steps = np.linspace(0, 1, 30)[1:, None] * radius
    line = np.concatenate([line[0] + first * tails[0] * steps[::-1], line, line[-1] + last * tails[1] * steps])
    mesh, _ = swept(line, radius, around)
    return _written(rng, mesh, folder, line[[0, -1]], radius, ("stl text", "m"), bare=True)


def unequal(rng: Random, folder: Path) -> Drawn:
    """A tube that narrows to 0.3 to 0.5 of its radius, and whose ends are cut 15 to 40 degrees aslant, open, in cm."""
    radius, around, long = rng.uniform(2, 8), 32, 14.0
    mesh, line = _tube(rng, radius, long, rng.uniform(0.3, 0.5), around)
    points = mesh.points_mm.copy()
    for end in (0, -1):
        way = line[1] - line[0] if end == 0 else line[-1] - line[-2]
        way /= np.linalg.norm(way)
        side = np.cross(way, [0, 0, 1])
        slope = np.tan(np.radians(rng.uniform(15, 40)))
        reach = np.linalg.norm(line - line[end], axis=1)
        share = np.clip(1 - reach / (3 * radius), 0, 1)
        for k, weight in enumerate(share):  # rings slide along the vessel
            rows = slice(k * around, (k + 1) * around)
            points[rows] += weight * slope * ((points[rows] - line[k]) @ side)[:, None] * way
    whole = Mesh(points, mesh.triangles, mesh.opening)
    return _written(rng, whole, folder, line[[0, -1]], radius, ("obj", "cm"), bare=True)


def loop(rng: Random, folder: Path) -> Drawn:
    """A vessel that divides into two arms, which join again, closed by flat caps."""
    radius = rng.uniform(1, 4)
    arm, reach = radius * rng.uniform(0.7, 0.9), radius * rng.uniform(4, 6)
    turn = np.linspace(0, 2 * np.pi, 200)
    ring = np.stack([reach * np.cos(turn), reach * np.sin(turn), 0 * turn], axis=1)
    ends = np.array([[-reach - 6 * radius, 0, 0], [reach + 6 * radius, 0, 0]])

    def distance(points: np.ndarray) -> np.ndarray:
        around = np.hypot(np.hypot(points[:, 0], points[:, 1]) - reach, points[:, 2]) - arm
        straight = np.hypot(points[:, 1], points[:, 2]) - radius
        outside = np.maximum(straight, reach - np.abs(points[:, 0]))
        beyond = np.abs(points[:, 0]) - abs(ends[0, 0])
        return np.maximum(np.minimum(around, outside), beyond)

    low = np.array([ends[0, 0], ring[:, 1].min() - arm, -radius])
    mesh = level_surface(distance, low, -low, radius / 6)
    return _written(rng, mesh, folder, ends, radius, ("ply", "mm"))


def confluence(rng: Random, folder: Path) -> Drawn:
    """Two veins that join: two inlets by name, one outlet, which is the widest."""
    radius = rng.uniform(2, 8)
    sizes = radius * rng.uniform(0.6, 0.95, 2)
    spread = rng.uniform(0.4, 0.9)
    ends = (
        9 * radius * np.array([[-np.cos(spread), np.sin(spread), 0], [-np.cos(spread), -np.sin(spread), 0], [1, 0, 0]])
    )
    tubes = [
        (f"end-{k}", "outlet", end, size) for k, (end, size) in enumerate(zip(ends, (*sizes, radius), strict=True))
    ]
    mesh, _ = forked(tubes, radius / 6)
    case, truth = _written(rng, mesh, folder, ends, radius, ("vtp", "mm"))
    near = [[round(x, 2) for x in place] for place in truth["ends_mm"]]
    case["surface"] = {
        "openings": [
            {"name": "left", "role": "inlet", "near_mm": near[0]},
            {"name": "right", "role": "inlet", "near_mm": near[1]},
            {"name": "out", "role": "outlet", "near_mm": near[2]},
        ]
    }
    flows = np.round(0.1 * np.pi * sizes**2, 3).tolist()
    case["solve"] = {"inlets": {"left": {"flow_ml_s": flows[0]}, "right": {"flow_ml_s": flows[1]}}}
    return case, truth


def coronary(rng: Random, folder: Path) -> Drawn:
    """A coronary artery of 1 to 1.6 mm, 30 to 50 radii long, in m."""
    radius = rng.uniform(0.5, 0.8)
    mesh, line = _tube(rng, radius, rng.uniform(30, 50), rng.uniform(0.7, 0.9), 24)
    return _written(rng, mesh, folder, line[[0, -1]], radius, ("ply", "m"))


def short(rng: Random, folder: Path) -> Drawn:
    """A piece of an aorta, 2 to 3.5 radii long, open."""
    radius = rng.uniform(10, 16)
    mesh, line = _tube(rng, radius, rng.uniform(2, 3.5), 0.95, 40)
    return _written(rng, mesh, folder, line[[0, -1]], radius, ("vtp", "cm"), bare=True)


def star(rng: Random, folder: Path) -> Drawn:
    """Five to seven vessels of unequal width from one place, closed by flat caps."""
    radius, count = rng.uniform(2, 6), int(rng.integers(5, 8))
    ways = rng.normal(size=(400, 3))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    chosen = [ways[0]]
    for way in ways:
        if len(chosen) < count and max(way @ other for other in chosen) < 0.35:
            chosen.append(way)
    sizes = radius * np.append(1.0, rng.uniform(0.45, 0.8, len(chosen) - 1))
    ends = np.array([way * 8 * radius for way in chosen])
    tubes = [(f"end-{k}", "outlet", end, size) for k, (end, size) in enumerate(zip(ends, sizes, strict=True))]
    mesh, _ = forked(tubes, radius / 7)
    return _written(rng, mesh, folder, ends, radius)


# ---- flows over time -------------------------------------------------------------------------------------------------


def _pulse(rng: Random, reversal: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Times and flow of a cycle, by its mean; below 0 for a while where it turns back by a part of its peak."""
    period, count = rng.uniform(0.6, 1.2), int(rng.integers(24, 60))
    t = np.linspace(0, 1, count + 1)
    systole, turned = (
        sum(np.exp(-(((t - at + k) / wide) ** 2)) for k in (-1, 0, 1)) for at, wide in ((0.2, 0.09), (0.42, 0.06))
    )
    flow = 0.25 + 3.0 * systole - 3.0 * reversal * turned
    return t * period, flow / flow[:-1].mean()


def _with_pulse(rng: Random, folder: Path, text: Callable[[np.ndarray, np.ndarray], str], turn: float) -> Drawn:
    """A tube with a flow in a file; the flow that the file tells, in mL/s."""
    radius = rng.uniform(2, 5)
    mesh, line = _tube(rng, radius, rng.uniform(8, 12))
    case, truth = _written(rng, mesh, folder, line[[0, -1]], radius)
    times, shape = _pulse(rng, turn)
    mean = 0.1 * np.pi * radius**2
    (folder / "flow.csv").write_text(text(times, mean * shape), encoding="utf-8")
    case["solve"] = {"inlets": {"*": {"waveform": str(folder / "flow.csv")}}}
    return case, truth | {"mean_ml_s": float(mean), "period_s": float(times[-1])}


def _table(times: np.ndarray, flow: np.ndarray, head: str, sign: str = ",", comma: bool = False) -> str:
    rows = [f"{t:.6g}{sign}{q:.6g}" for t, q in zip(times, flow, strict=True)]
    return "\n".join([head, *(row.replace(".", ",") if comma else row for row in rows)]) + "\n"


def flow_litres(rng: Random, folder: Path) -> Drawn:
    """L/min over s with semicolons and decimal commas, as a spreadsheet in much of Europe writes it."""
    return _with_pulse(rng, folder, lambda t, q: _table(t, q * 0.06, "Time [s];Flow [L/min]", ";", True), 0.0)


def flow_ms(rng: Random, folder: Path) -> Drawn:
    """mL/min over ms, tabs between, with a reversal."""
    return _with_pulse(rng, folder, lambda t, q: _table(1e3 * t, 60 * q, "t (ms)\tQ (ml/min)", "\t"), 0.3)


def flow_open(rng: Random, folder: Path) -> Drawn:
    """The columns that are wanted, but the last row does not repeat the first, as scanners give their phases."""
    return _with_pulse(rng, folder, lambda t, q: _table(t[:-1], q[:-1], "time_s,flow_ml_s"), 0.2)


def flow_cubic(rng: Random, folder: Path) -> Drawn:
    """m3/s, a blank after each comma, more columns."""

    def text(times: np.ndarray, flow: np.ndarray) -> str:
        rows = [f"{k}, {t:.5f}, {1e-6 * q:.6e}" for k, (t, q) in enumerate(zip(times, flow, strict=True))]
        return "\n".join(["phase, time_s, flow_m3_s", *rows]) + "\n"

    return _with_pulse(rng, folder, text, 0.2)


KINDS: dict[str, Callable[[Random, Path], Drawn]] = {
    "model-extended": extended,
    "model-unequal": unequal,
    "model-loop": loop,
    "model-confluence": confluence,
    "model-coronary": coronary,
    "model-short": short,
    "model-star": star,
    "flow-litres": flow_litres,
    "flow-ms": flow_ms,
    "flow-open": flow_open,
    "flow-cubic": flow_cubic,
}
