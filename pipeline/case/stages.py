# SPDX-License-Identifier: Apache-2.0
"""Stages: which there are, in the order in which a case runs them, which cases run each, and their sections of a case
file. What else is to be known of them follows from these.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import Field

from pipeline.case.physiology import Quantity, Vessel
from pipeline.case.settings.base import Section
from pipeline.case.settings.coupling import CouplingSettings
from pipeline.case.settings.entry import ENTRIES, InputSettings
from pipeline.case.settings.flow import (
    ConvergenceSettings,
    PostprocessSettings,
    ReportSettings,
    SolveSettings,
    TraceSettings,
)
from pipeline.case.settings.geometry import DecomposeSettings, SurfaceSettings, VoxelizeSettings
from pipeline.case.settings.images import FilterSettings, LoadSettings, SegmentSettings
from pipeline.case.settings.reduced import ReducedSettings
from pipeline.case.settings.transport import TransportSettings
from pipeline.case.settings.tree import TreeSettings
from pipeline.case.settings.uncertainty import UncertaintySettings


class Keys(Section):
    """Keys of a case file: what is said of the whole case, and the sections of stages."""

    description: str = Field("", max_length=5000, description="what this case is; write no name of a patient")
    input: InputSettings
    vessel: Vessel | None = Field(
        None, description="what the inlet is of, whose physiological ranges then hold; none: those of any vessel"
    )
    accept: tuple[Quantity, ...] = Field(
        (), description="quantities that may have values which no patient has; without it they are refused"
    )
    load: LoadSettings = LoadSettings()
    filter: FilterSettings = FilterSettings()
    segment: SegmentSettings = SegmentSettings()
    surface: SurfaceSettings = SurfaceSettings()
    voxelize: VoxelizeSettings = VoxelizeSettings()
    decompose: DecomposeSettings = DecomposeSettings()
    solve: SolveSettings = Field(SolveSettings(), description="required, but of a network alone")
    postprocess: PostprocessSettings = PostprocessSettings()
    trace: TraceSettings = TraceSettings()
    transport: TransportSettings | None = Field(
        None, description="what the flow carries: age of blood, contrast, drug; none: nothing"
    )
    convergence: ConvergenceSettings = ConvergenceSettings()
    uncertainty: UncertaintySettings = UncertaintySettings()
    reduced: ReducedSettings = ReducedSettings()
    tree: TreeSettings = TreeSettings()
    coupling: CouplingSettings | None = Field(
        None, description="network of arteries that the vessel sits in; none: its openings have what solve says"
    )
    report: ReportSettings = ReportSettings()


@dataclass(frozen=True)
class Stage:
    """When a case runs a stage, and what it takes.

    Attributes
    ----------
    entries : keys of the input with which a case enters that runs it.
    asked : which of these cases ask for it; none: all do.
    takes_settings : whether it takes settings of the case.
    on_every_lattice : whether it runs on the coarser lattices of the section convergence, too.
    """

    entries: tuple[str, ...]
    asked: Callable[[Keys], object] | None = None
    takes_settings: bool = True
    on_every_lattice: bool = False


IMAGES = ("dicom", "volume", "phantom")
WITH_BRANCHES = (*IMAGES, "mask", "surface")
VESSELS = (*WITH_BRANCHES, "geometry")
NETWORKS = ("network",)

CHAIN = {
    "phantom": Stage(("phantom",), takes_settings=False),
    "load": Stage(IMAGES),
    "filter": Stage(IMAGES),
    "segment": Stage(IMAGES),
    "import_mask": Stage(("mask",)),
    "surface": Stage((*IMAGES, "mask")),
    "import_surface": Stage(("surface",)),
    "canonical": Stage(("geometry",)),
    "centreline": Stage(WITH_BRANCHES),
    "couple": Stage(VESSELS, lambda case: case.coupling),
    "voxelize": Stage(VESSELS, on_every_lattice=True),
    "decompose": Stage(VESSELS, on_every_lattice=True),
    "plausibility": Stage(WITH_BRANCHES),
    "solve": Stage(VESSELS, on_every_lattice=True),
    "tree": Stage(NETWORKS),
    "tree_report": Stage(NETWORKS),
    "postprocess": Stage(VESSELS, on_every_lattice=True),
    "trace": Stage(VESSELS),
    "transport": Stage(VESSELS, lambda case: case.transport),
    "convergence": Stage(VESSELS, lambda case: case.convergence.spacings > 1),
    "uncertainty": Stage(VESSELS, lambda case: case.uncertainty.count),
    "reduced": Stage(VESSELS, lambda case: case.reduced.flows),
    "paraview": Stage(VESSELS, takes_settings=False),
    "report": Stage(VESSELS),
    "crate": Stage(ENTRIES),
}
"""All stages of a case in their order, each called as its rule and its record are; none runs all of them. A stage
with a key of its own takes that section.
"""

STAGES = tuple(CHAIN)
"""Their names."""

BEFORE_REPORT = STAGES[: STAGES.index("paraview")]
"""Those whose records the report shows."""

WITH_SETTINGS = tuple(name for name, stage in CHAIN.items() if stage.takes_settings)
"""Those that take settings of a case."""

OF_NETWORK = tuple(name for name, stage in CHAIN.items() if stage.entries == NETWORKS)
"""Stages of a case that is a network alone, but for the crate."""

LEVELS = ("", "coarser-1/", "coarser-2/")
"""Folders of the lattices of a case: its own, and the coarser ones of the section convergence."""

ON_EVERY_LATTICE = tuple(name for name, stage in CHAIN.items() if stage.on_every_lattice)
"""Stages that run on each of them."""

_TO_LATTICE = STAGES[STAGES.index("load") : STAGES.index("decompose") + 1]
ENTERED = {
    entry: tuple(name for name in _TO_LATTICE if entry in CHAIN[name].entries and not CHAIN[name].asked)
    for entry in ENTRIES
}
"""Stages up to the lattice in their order, by the key of the input with which a case enters; networks have none. What a
case asks for besides is not among them.
"""

SHARED = tuple(dict.fromkeys(stage for stages in ENTERED.values() for stage in stages))
"""All of these."""


def stages_of(case: Keys, makes_images: bool) -> list[str]:
    """Stages that a run of a case has, in their order, but for the crate of these.

    Parameters
    ----------
    case : what runs.
    makes_images : whether images of a phantom are made for this run, not for an earlier scenario of the case.
    """
    without = {"crate"} if makes_images else {"crate", "phantom"}
    return [
        name
        for name, stage in CHAIN.items()
        if name not in without and case.input.entry in stage.entries and (not stage.asked or stage.asked(case))
    ]
