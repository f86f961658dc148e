# SPDX-License-Identifier: Apache-2.0
"""Version, and the packages that the project asks for, of an installed project or of a checkout."""

import tomllib
from importlib import metadata
from typing import Any

from solver.runtime.sources import ROOT

PROJECT = ROOT / "pyproject.toml"
"""What a checkout says of itself; an installed project has it as metadata."""


def version() -> str:
    """Version of the project."""
    return str(_stated()["version"]) if PROJECT.exists() else metadata.version("hemolattice")


def required() -> list[str]:
    """Packages that a run needs, with their limits."""
    if PROJECT.exists():
        return list(_stated()["dependencies"])
    return [each for each in metadata.requires("hemolattice") or () if "extra ==" not in each]


def _stated() -> dict[str, Any]:
    return dict(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"])
