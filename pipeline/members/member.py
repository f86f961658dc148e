# SPDX-License-Identifier: Apache-2.0
"""One member of a case's bands: the case again on a coarse lattice, with what is uncertain of it drawn at random.

Its wall is moved, and inflow, viscosity and outlets are changed; then voxelize, decompose, solve and postprocess follow
within this process. Member 0 has nothing changed. One that fails says why in its file, so that the others go on.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Section, parse
from pipeline.case.settings.flow import PostprocessSettings, SolveSettings
from pipeline.case.settings.geometry import DecomposeSettings
from pipeline.case.settings.uncertainty import UncertaintySettings
from pipeline.files.json_file import read_json
from pipeline.files.mesh import Mesh, read_mesh, read_openings
from pipeline.geometry.lattice.grid import read_patches
from pipeline.members.in_memory import nodes_across, nodes_of, results_of
from pipeline.members.start import start_from
from pipeline.stages.postprocess import Results
from pipeline.uncertainty.banded_figures import figures_of
from pipeline.uncertainty.coarse_spacing import LEAST_ACROSS, ratio_of
from pipeline.uncertainty.design import design
from pipeline.uncertainty.member_file import Member
from pipeline.uncertainty.sources import Variable, variables_of, with_variation
from pipeline.uncertainty.wall_field import moved, random_field, rows_on_wall
from pipeline.uncertainty.wall_precision import WallPrecision
from solver.boundary.waveform import read_waveforms
from solver.domain.nodes import Opening
from solver.run.flow_file import Flow, read_flow
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

ON_WALL = ("TAWSS (Pa)", "WSS magnitude (Pa)", "OSI")
"""Arrays of the wall of which maps are made, as far as there are any."""


SETTLED = 5.0
"""Times the case's tolerance at which a member has settled: what it lacks then is much less than what its figures
change by (docs/uncertainty.md)."""


class MemberInput(Section):
    """What the command line takes: sections of the case, and which member this is."""

    member: int = Field(ge=0)
    uncertainty: UncertaintySettings
    solve: SolveSettings
    decompose: DecomposeSettings = DecomposeSettings()
    postprocess: PostprocessSettings = PostprocessSettings()


@dataclass(frozen=True)
class Case:
    """What the case left that members start from.

    Attributes
    ----------
    surface, openings : of its vessel.
    spacing_mm, across : of its lattice, and nodes across its narrowest place.
    sacs : vertices of the wall of `surface` that each sac has, by its name.
    wall : how well its place is known.
    patches : names of those of the wall.
    flow : of the case, with which members begin; none: they begin at rest.
    """

    surface: Mesh
    openings: tuple[Opening, ...]
    spacing_mm: float
    across: float
    sacs: Mapping[str, NDArray[np.int64]]
    wall: WallPrecision
    patches: tuple[str, ...] = ()
    flow: Flow | None = None

    @staticmethod
    def read(inputs: Mapping[str, Path], settings: UncertaintySettings) -> "Case":
        """From the files of its stages, by role."""
        surface, numbers = Mesh.read(inputs["surface"]), read_json(inputs["summary"])["numbers"]
        record = read_json(inputs["segmentation"]) if "segmentation" in inputs else None
        openings = read_openings(inputs["openings"])
        wall, arrays = read_mesh(inputs["wall"])
        names = [sac["name"] for sac in read_json(inputs["indices"])["sacs"]]
        rows = rows_on_wall(surface, wall)
        return Case(
            surface,
            openings,
            float(numbers["spacing_mm"]),
            nodes_across(numbers),
            {name: rows[arrays["sac"] == k + 1] for k, name in enumerate(names)},
            WallPrecision.of(settings, record, openings),
            read_patches(inputs["openings"]),
            read_flow(inputs["flow"]),
        )

    @property
    def least_radius_mm(self) -> float:
        """Radius of its narrowest place."""
        return self.across * self.spacing_mm / 2


def computed(case: Case, given: MemberInput, log: logging.Logger) -> Member:
    """What a member gives.

    Parameters
    ----------
    case : what it starts from.
    given : settings, and which member it is.
    log : where progress goes.
    """
    settings = given.uncertainty
    variables = variables_of(settings, case.wall, case.openings, given.solve)
    every = design(settings.count, len(variables), settings.seed)
    drawn = every[given.member - 1] if given.member else np.zeros(len(variables))
    ratio = ratio_of(case.across, settings.across, LEAST_ACROSS)
    in_common = {
        "variables": [asdict(variable) for variable in variables],
        "ratio": ratio,
        "nodes_across": case.across / ratio,
        "wall": asdict(case.wall),
    }
    log.info(
        "member %d: %s",
        given.member,
        ", ".join(f"{v.group} {v.name}".strip() + f" {z:+.2f}" for v, z in zip(variables, drawn, strict=True))
        or "nothing changed",
    )
    try:
        surface, openings = surface_of(case, settings, variables, drawn, given.member)
        varied = with_variation(given.solve, settings, case.openings, variables, drawn)
        varied = varied.model_copy(update={"steady_tolerance": SETTLED * varied.steady_tolerance})
        nodes = nodes_of(surface, openings, ratio * case.spacing_mm, given.decompose, case.patches)
        begin = start_from(case.flow, case.spacing_mm, nodes, _times(case, given.solve, varied)) if case.flow else None
        results = results_of(nodes, surface, varied, given.postprocess, log, begin=begin)
    except StageError as error:
        log.warning("warning: member %d failed, and the bands do without it: %s", given.member, error)
        return Member(given.member, in_common, drawn, {}, {}, str(error))
    return Member(given.member, in_common, drawn, *kept_of(case.sacs, surface, results))


def _times(case: Case, own: SolveSettings, varied: SolveSettings) -> float:
    """Mean inflow of a member over that of the case."""
    return read_waveforms(case.openings, varied).mean_ml_s / read_waveforms(case.openings, own).mean_ml_s


def surface_of(
    case: Case,
    settings: UncertaintySettings,
    variables: tuple[Variable, ...],
    drawn: NDArray[np.float64],
    member: int,
) -> tuple[Mesh, tuple[Opening, ...]]:
    """The surface of a member, its wall moved by what all of it has in common and by a field along it.

    Parameters
    ----------
    case, settings : of what varies.
    variables, drawn : of the members, and the member's row of standard normal numbers, (variables,).
    member : its number; 0 has nothing changed.

    Raises
    ------
    StageError
        If that closes the narrowest place.
    """
    if not member:
        return case.surface, case.openings
    whole = dict(zip(variables, drawn.tolist(), strict=True)).get(Variable("wall"), 0.0)
    shift_mm = np.full(len(case.surface.points_mm), whole * case.wall.whole_mm)
    if case.wall.rough_mm:
        rng = np.random.default_rng([settings.seed, member])
        shift_mm += case.wall.rough_mm * random_field(case.surface.points_mm, case.wall.length_mm, rng)
    if -whole * case.wall.whole_mm >= case.least_radius_mm:
        raise StageError(
            f"its whole wall lies {-whole * case.wall.whole_mm:.3g} mm further in, and the narrowest place has a radius"
            f" of {case.least_radius_mm:.3g} mm; give a smaller uncertainty.wall_sd_mm"
        )
    return moved(case.surface, case.openings, shift_mm)


def kept_of(
    sacs: Mapping[str, NDArray[np.int64]], surface: Mesh, results: Results
) -> tuple[dict[str, float], dict[str, NDArray[np.float32]]]:
    """Figures by key, and arrays at the vertices of the wall.

    Parameters
    ----------
    sacs : numbers of the wall's vertices in each sac, by its name.
    surface : of the vessel.
    results : of the member.
    """
    arrays = {name: results.arrays[name].astype(np.float32) for name in ON_WALL if name in results.arrays}
    shear, areas = next(arrays[name] for name in ON_WALL if name in arrays), results.wall.areas_mm2
    means = {name: float(np.average(shear[rows], weights=areas[rows])) for name, rows in sacs.items()}
    figures = figures_of(results.indices, surface.volume_mm3(), means)
    return {figure.key: figure.value for figure in figures}, arrays


def _compute(job: Job) -> None:
    given = parse(MemberInput, job.settings, "--settings")
    member = computed(Case.read(job.inputs, given.uncertainty), given, job.log)
    job.facts["failed"] = member.failed
    member.write(job.outputs["member"])


if __name__ == "__main__":
    run_stage(
        "member",
        __doc__,
        inputs={
            "surface": "closed surface of the case, from surface (surface.vtp)",
            "openings": "its openings, from surface (openings.json)",
            "segmentation": "how the lumen was found, from segment (segmentation.json)",
            "summary": "choices and outcome of the case's flow, from solve (solve.json)",
            "flow": "that flow, from solve (flow.vtkhdf)",
            "wall": "the wall with its sacs, from postprocess (wall.vtp)",
            "indices": "figures of the case, from postprocess (indices.json)",
        },
        outputs={"member": "figures of the member and stress on its wall (HDF5)"},
        compute=_compute,
        optional=("segmentation",),
    )
