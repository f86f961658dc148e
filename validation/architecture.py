# SPDX-License-Identifier: Apache-2.0
"""Rooms of the project on their floors, and the picture of who imports whom, made from the imports.

    python -m validation.architecture      draws docs/figures/architecture.png

A room may use rooms of lower floors, and none above or beside it. `tests/test_architecture.py` holds that.
"""

from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from solver.runtime.sources import ROOMS, ROOT, imports

FLOORS = {
    "solver": (
        ("runtime", "kernels"),
        ("domain",),
        ("boundary",),
        ("backends",),
        ("run",),
        ("network", "transport"),
        ("coupling",),
        ("ranks",),
    ),
    "pipeline": (
        ("files",),
        ("case",),
        ("dicom", "network"),
        ("segmentation",),
        ("filtering",),
        ("geometry",),
        ("haemodynamics",),
        ("uncertainty", "reduced"),
        ("reporting",),
        ("stages", "workflow"),
        ("members", "command"),
    ),
}
"""Rooms of each folder from the ground up."""
PICTURE = ROOT / "docs" / "figures" / "architecture.png"
WIDTH, HEIGHT = 1.5, 0.5
"""Of a room's box, in the units of the picture's axes, where floors are 1 apart."""
AT = {"solver": 0.0, "pipeline": 4.6}
"""Where a folder's floors begin, from the left."""
BESIDE = {
    "runtime": -1,
    "kernels": 1,
    "transport": -1,
    "dicom": -1,
    "network": 1,
    "segmentation": -1,
    "filtering": -1,
    "geometry": 1,
    "haemodynamics": 1,
    "reporting": 1,
    "stages": -1,
    "workflow": 1,
    "members": -1,
    "command": 1,
}
"""Rooms that stand left or right of the middle."""
ROOM = tuple[str, str]


def modules_used(file: Path) -> set[tuple[str, ...]]:
    """Modules of the project that a file imports, each as the parts of its name."""
    named = (tuple(name.split(".")) for name in imports(file))
    return {name for name in named if name[0] in ROOMS and (ROOT / Path(*name).with_suffix(".py")).is_file()}


def modules(folder: str) -> list[Path]:
    """Python files below a folder of the project."""
    return sorted((ROOT / folder).rglob("*.py"))


def floor(room: ROOM) -> int:
    """Number of a room's floor, from the ground."""
    return next(n for n, rooms in enumerate(FLOORS[room[0]]) if room[1] in rooms)


def arrows() -> set[tuple[ROOM, ROOM]]:
    """Pairs of rooms of one folder, of which the first uses the second."""
    return {
        (user, (used[0], used[1]))
        for top in FLOORS
        for file in modules(top)
        if (user := _room(file)) is not None
        for used in modules_used(file)
        if used[0] == top and len(used) > 2 and used[:2] != user
    }


def _room(file: Path) -> ROOM | None:
    """The room of a module; none for what stands above all rooms."""
    parts = file.relative_to(ROOT).parts
    return (parts[0], parts[1]) if len(parts) > 2 else None


def without_detours(pairs: set[tuple[ROOM, ROOM]]) -> set[tuple[ROOM, ROOM]]:
    """The pairs that no chain of others stands for, so that the picture can be read."""
    users = {user for user, _ in pairs}
    below = {user: {used for each, used in pairs if each == user} for user in users}

    def reached(room: ROOM) -> Iterator[ROOM]:
        for used in below.get(room, ()):
            yield used
            yield from reached(used)

    return {
        (user, used)
        for user, used in pairs
        if not any(used in set(reached(other)) for other in below[user] if other != used)
    }


def _place(room: ROOM) -> tuple[float, float]:
    """Middle of a room's box."""
    return AT[room[0]] + BESIDE.get(room[1], 0) * 0.7 * WIDTH, float(floor(room))


def draw(path: Path = PICTURE) -> None:
    """Draw the rooms with an arrow from each to those that it uses, but for what follows from other arrows."""
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.add_subplot()
    for user, used in sorted(without_detours(arrows())):
        (x0, y0), (x1, y1) = _place(user), _place(used)
        axes.annotate(
            "",
            (x1, y1 + HEIGHT / 2),
            (x0, y0 - HEIGHT / 2),
            arrowprops={"arrowstyle": "-|>", "color": "0.45", "shrinkA": 0, "shrinkB": 0},
        )
    for top, floors in FLOORS.items():
        for name in (name for rooms in floors for name in rooms):
            x, y = _place((top, name))
            corner = (x - WIDTH / 2, y - HEIGHT / 2)
            colour = "#dbe9f6" if top == "solver" else "#e6f2dd"
            axes.add_patch(FancyBboxPatch(corner, WIDTH, HEIGHT, "round,pad=0.02", fc=colour, ec="0.3"))
            axes.text(x, y, name, ha="center", va="center", size=10)
        axes.text(AT[top], len(floors) - 0.35, f"{top}/", ha="center", weight="bold", size=11)
    axes.set(xlim=(-2, 6.6), ylim=(-0.5, max(map(len, FLOORS.values()))), aspect="auto")
    axes.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw()
