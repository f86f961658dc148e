# SPDX-License-Identifier: Apache-2.0
"""Patterns and paths of the rules."""

import re
from collections.abc import Iterable


def any_of(names: Iterable[str]) -> str:
    """A pattern that these names match and nothing else, with what the runs of a study have in common once: Snakemake
    compiles it for each file of each rule, which was a fourth of its start.
    """
    runs: dict[str, list[str]] = {}
    for name in names:
        study, dot, run = name.partition(".")
        runs.setdefault(study + dot, []).append(re.escape(run))
    return "|".join(f"{re.escape(study)}(?:{'|'.join(of)})" for study, of in runs.items()) or "(?!)"


def own(path: str) -> str:
    """A file of the case's own lattice, of the name that it has on any."""
    return path.replace("{level}", "")
