# SPDX-License-Identifier: Apache-2.0
"""Stages: which there are, in the order in which a case runs them."""

STAGES = (
    "phantom",
    "load",
    "filter",
    "segment",
    "import_mask",
    "surface",
    "import_surface",
    "canonical",
    "centreline",
    "couple",
    "voxelize",
    "decompose",
    "plausibility",
    "solve",
    "tree",
    "tree_report",
    "postprocess",
    "trace",
    "transport",
    "convergence",
    "uncertainty",
    "reduced",
    "paraview",
    "report",
    "crate",
)
"""All stages of a case, each called as its rule and its record are; none runs all of them."""

BEFORE_REPORT = STAGES[: STAGES.index("paraview")]
"""Those whose records the report shows."""

WITH_SETTINGS = tuple(stage for stage in STAGES if stage not in ("phantom", "paraview"))
"""Those that take settings of a case."""

_LATTICE = ("centreline", "voxelize", "decompose")
_IMAGE = ("load", "filter", "segment", "surface", *_LATTICE)
ENTERED = {
    "dicom": _IMAGE,
    "volume": _IMAGE,
    "phantom": _IMAGE,
    "mask": ("import_mask", "surface", *_LATTICE),
    "surface": ("import_surface", *_LATTICE),
    "geometry": ("canonical", *_LATTICE[1:]),
    "network": (),
}
"""Stages up to the lattice in their order, by the key of the input with which a case enters; networks have none."""
OF_NETWORK = ("tree", "tree_report")
"""Stages of a case that is a network alone, but for the crate."""

SHARED = tuple(dict.fromkeys(stage for stages in ENTERED.values() for stage in stages))
"""All of these."""
