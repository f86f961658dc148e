# SPDX-License-Identifier: Apache-2.0
"""HemoLattice for other programs: the stages of a case as functions on what lies in memory, and the command.

| from images, a mask or a surface | to the flow | what they give |
|---|---|---|
| `load`, `filter_image`, `segment` | `voxelize`, `decompose` | `Volume`, `Segmentation`, `ImportedMask` |
| `read_mask`, `as_mask` | `solve` | `Mesh`, `Surface`, `Tree` |
| `surface`, `read_surface`, `centreline` | `postprocess` | `Lattice`, `Nodes`, `Flow`, `Results`, `StageError` |

Settings are keywords, those of the section of a case file that the function names (docs/settings.md). A mistake, and
whatever a case would be refused for, is a `StageError` with one message. Progress goes to the logger ``hemolattice``.
Not asked is the gate before the solver, which refuses what no patient has: that is the command's.

A name loads what it needs when it is first used. From then on this process, and no other, has modules called
``pipeline`` and ``solver``; a program with modules of its own by these names is told so.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hemolattice.flow import Flow, decompose, postprocess, solve, voxelize
    from hemolattice.vessel import (
        as_mask,
        centreline,
        filter_image,
        load,
        read_mask,
        read_surface,
        segment,
        surface,
    )
    from pipeline.files.mesh import Mesh
    from pipeline.files.volume import Volume
    from pipeline.geometry.branches.vessel_tree import Tree
    from pipeline.geometry.closed_surface import Surface
    from pipeline.geometry.lattice.tagged_lattice import Lattice
    from pipeline.stages.import_mask import ImportedMask
    from pipeline.stages.postprocess import Results
    from pipeline.stages.segment import Segmentation
    from solver.domain.node_types import Nodes
    from solver.runtime.errors import StageError

HOMES = {
    "hemolattice.flow": ("Flow", "decompose", "postprocess", "solve", "voxelize"),
    "hemolattice.vessel": (
        "as_mask",
        "centreline",
        "filter_image",
        "load",
        "read_mask",
        "read_surface",
        "segment",
        "surface",
    ),
    "pipeline.files.mesh": ("Mesh",),
    "pipeline.files.volume": ("Volume",),
    "pipeline.geometry.branches.vessel_tree": ("Tree",),
    "pipeline.geometry.closed_surface": ("Surface",),
    "pipeline.geometry.lattice.tagged_lattice": ("Lattice",),
    "pipeline.stages.import_mask": ("ImportedMask",),
    "pipeline.stages.postprocess": ("Results",),
    "pipeline.stages.segment": ("Segmentation",),
    "solver.domain.node_types": ("Nodes",),
    "solver.runtime.errors": ("StageError",),
}
"""Modules that the names of this one come from, when they are first used."""
_HOME = {name: home for home, names in HOMES.items() for name in names}
_FOLDER = Path(__file__).parent
PROJECT = _FOLDER / "project" if (_FOLDER / "project").exists() else _FOLDER.parent
"""Where the workflow, its programs, configuration and data lie: inside the package, or around it in a checkout."""
ROOMS = ("pipeline", "solver")
"""Packages there that the names of this one come from."""


class _Finder:
    """Finds the rooms for this process, after all others, so that it hides no module of theirs."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """As Python asks for it."""
        return PathFinder.find_spec(name, [str(PROJECT)]) if name in ROOMS else None


def __getattr__(name: str) -> Any:
    """A name of :data:`HOMES`, from its module."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
    for room in ROOMS:
        _require_own(room)
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    """Names of this module, those not loaded yet among them."""
    return sorted({*globals(), *_HOME})


def _require_own(room: str) -> None:
    """Check that another program's module does not stand in the place of the project's."""
    known = sys.modules.get(room) or find_spec(room)
    places = getattr(known, "__path__", None) or getattr(known, "submodule_search_locations", None) or ()
    if [Path(place).resolve() for place in places] != [PROJECT.resolve() / room]:
        raise ImportError(
            f"another module is called {room!r}, as the project's own in {PROJECT} is: rename it, or call the command"
            " hemolattice, which runs in a process of its own"
        )


def main() -> None:
    """Run the command with the words of the command line."""
    sys.path.insert(0, str(PROJECT))
    from pipeline.command.__main__ import main as command

    sys.exit(command())
