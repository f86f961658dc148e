# SPDX-License-Identifier: Apache-2.0
"""Case: the validated settings of one patient case, and of the cohort.

A case file has one section a stage; every key has a default but the input and the inflow. A case runs once, or once in
each scenario: a run is called by the name of the case, or ``<case>@<scenario>``.
The JSON schema for editors and the commented demo case follow from the models.
"""

import difflib
import json
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from pipeline.case import beside
from pipeline.case.cohort_table import TableRow, read_table
from pipeline.case.coupled import mistake_in, with_blood, with_waveforms
from pipeline.case.lattice_needs import lattice_needs, spacing_needs
from pipeline.case.merging import dotted, merged, place_of
from pipeline.case.range_checks import of_blood, refusals
from pipeline.case.settings.base import (
    CONFIG,
    Name,
    Positive,
    Section,
    Source,
    dotted_keys,
    existing,
    parse,
    shipped,
)
from pipeline.case.settings.cluster import ClusterSettings
from pipeline.case.settings.images import GrownRegion, Seeds
from pipeline.case.settings.transport import TransportInput, TransportSettings
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.case.stages import WITH_SETTINGS, Keys
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT

RunSet = Literal["ci", "quick", "full"]
"""Sets of runs of the studies, from minutes on a few cores to hours on a GPU."""

OF_A_NETWORK = ("description", "input", "tree", "report")
"""Keys of a case that is a network alone."""


class Case(Keys):
    """One patient case: one section a stage."""

    @model_validator(mode="before")
    @classmethod
    def _sections_are_those_of_its_kind(cls, values: Any) -> Any:
        given = values.get("input") if isinstance(values, dict) else None
        if not isinstance(given, dict):
            return values
        if not given.get("network"):
            if "solve" not in values and not values.get("coupling"):
                raise ValueError("solve: missing; give it, it has no default")
            if "tree" in values:
                raise ValueError("tree: is of a network alone (input.network); leave it out")
        elif others := [key for key in cls.model_fields if key in values and key not in OF_A_NETWORK]:
            raise ValueError(
                f"{', '.join(others)}: of a vessel in three dimensions, and this case is a network alone"
                " (input.network); leave them out, tree says how a network is computed"
            )
        return values

    @model_validator(mode="after")
    def _openings_are_known(self) -> Self:
        if self.input.network:
            return self
        geometry = self.input.geometry
        roles = geometry.roles if geometry else {opening.name: opening.role for opening in self.surface.openings}
        if self.coupling:
            if mistake := mistake_in(self.solve, self.coupling, roles):
                raise ValueError(mistake)
        elif not self.solve.inlets and (roles or not geometry):
            raise ValueError("solve.inlets: missing; give the flow through the inlet, as flow_ml_s or waveform")
        if unknown := self.solve.patches.keys() - set(geometry.patches if geometry else ()):
            known = ", ".join(geometry.patches) if geometry else "only canonical geometries have patches"
            raise ValueError(f"solve.patches.{min(unknown)}: no patch of this name in the wall ({known}); correct it")
        for section, role in (("inlets", "inlet"), ("outlets", "outlet")):
            for name in getattr(self.solve, section):
                if name != "*" and roles.get(name) != role:
                    known = ", ".join(sorted(n for n, r in roles.items() if r == role)) or "none"
                    place = "the geometry" if geometry else "surface.openings"
                    raise ValueError(f"solve.{section}.{name}: no {role} of this name in {place} ({known}); correct it")
        return self

    @model_validator(mode="after")
    def _runs_beside_are_possible(self) -> Self:
        asked = bool(self.uncertainty.count), bool(self.reduced.flows)
        if mistake := beside.cannot_run(self.input, self.coupling is not None, *asked):
            raise ValueError(mistake)
        return self

    @model_validator(mode="after")
    def _blood_is_blood(self) -> Self:
        if self.input.geometry or self.input.network:
            return self
        if lines := refusals(of_blood(**self._blood()), self.vessel, self.accept):
            raise ValueError("; ".join(lines))
        return self

    def settings(self, stage: str, level: int = 0) -> str:
        """The stage's section as JSON with all defaults, as its command line takes it.

        A stage that imports takes what the input says of the file, with what it needs of another section; the crate
        takes the whole case, and the page to pick on what the user gave. `level` counts the coarser lattices of the
        section convergence; 0 is the case's own.
        """
        if stage == "crate":
            return self.model_dump_json(include={*self.sections})
        if stage == "pick":
            grower = self.segment.model_dump(mode="json", exclude={"seeds_file", "background_file"})
            both = {"filter": self.filter.model_dump(mode="json"), "segment": grower}
            return json.dumps(both | {"case": self.model_dump(mode="json", exclude_unset=True)}, sort_keys=True)
        if stage == "import_mask":
            of_file = {"segment": self.input.mask_segment, "fill": self.input.mask_fill}
            return json.dumps({**of_file, "fill_holes": self.segment.fill_holes})
        if stage in ("import_surface", "surface"):
            of_surface = self.surface.model_dump(mode="json") | lattice_needs(self.voxelize, self.solve, self.surface)
            stated = self.input.of_surface if stage == "import_surface" else {}
            return json.dumps(of_surface | stated, sort_keys=True)
        if stage == "canonical":
            spacing = self.voxelize.model_dump(mode="json", include={"spacing_mm", "nodes_across"})
            geometry = self.input.geometry.model_dump(mode="json") if self.input.geometry else None
            return json.dumps(spacing | {"geometry": geometry}, sort_keys=True)
        if stage == "couple":
            return json.dumps(with_blood(self.coupling, self.solve) if self.coupling else {}, sort_keys=True)
        if stage in beside.SECTIONS:
            return self.model_dump_json(include={*beside.SECTIONS[stage]})
        if stage == "plausibility":
            of_flow = self.solve.model_dump(mode="json", include={"inlets", "outlets", "murray_exponent"})
            stated = self.model_dump(mode="json", include={"vessel", "accept"})
            more = {"entry": self.input.entry, "coupled": bool(self.coupling)}
            return json.dumps(of_flow | stated | more | self._blood(), sort_keys=True)
        of_others = {"tree_report": self.report, "centreline": self.surface, "transport": self._transport()}
        section: Any = of_others[stage] if stage in of_others else getattr(self, stage)
        if stage == "decompose" and section.parts is None:
            section = section.model_copy(update={"parts": self.solve.ranks})
        if stage == "voxelize":
            coarser = {"coarser": self.convergence.ratio**level} if level else {}
            return json.dumps(
                section.model_dump(mode="json")
                | spacing_needs(self.voxelize, self.solve, bool(self.input.geometry))
                | coarser,
                sort_keys=True,
            )
        if stage == "convergence":
            needs = {"safety", "fit_nodes"}
            both = section.model_dump(mode="json") | self.postprocess.model_dump(mode="json")
            return json.dumps({key: both[key] for key in needs}, sort_keys=True)
        if stage == "filter" and section.region_grown:
            section = section.model_copy(update={"region_grown": self._grown(section.region_grown)})
        return json.dumps(section.model_dump(mode="json"), sort_keys=True)

    @property
    def sections(self) -> tuple[str, ...]:
        """Keys of the case that are of its kind, a vessel in three dimensions or a network alone."""
        return OF_A_NETWORK if self.input.network else tuple(key for key in type(self).model_fields if key != "tree")

    def in_folder(self, folder: str) -> Self:
        """The case as its stages take it, whose results lie in a folder: openings that are coupled to a network have
        the flow and the pressure that this has without the vessel.
        """
        if not self.coupling:
            return self
        return self.model_copy(update={"solve": with_waveforms(self.solve, self.coupling, folder)})

    def point_files(self, stage: str) -> list[str]:
        """Markups files that the stage reads: inputs of it, like the images."""
        region = self.filter.region_grown if stage == "filter" else None
        section = self.segment if stage == "segment" else region and self._grown(region)
        files = [getattr(section, key, None) for key in ("seeds_file", "background_file")]
        return [file for file in files if file]

    def waveform_files(self, stage: str) -> list[str]:
        """Waveforms that the stage reads."""
        needs = spacing_needs(self.voxelize, self.solve, bool(self.input.geometry))
        flow = stage == "voxelize" and ("solve" in needs or needs.get("flow", {}).get("inlets"))
        if not flow and stage not in ("plausibility", "solve"):
            return []
        inlets = [inlet.waveform for inlet in self.solve.inlets.values()]
        outlets = [outlet.waveform for outlet in self.solve.outlets.values()]
        return [waveform for waveform in inlets + outlets if waveform]

    def _blood(self) -> dict[str, Any]:
        """What is judged of the blood."""
        solve = self.solve
        newtonian = solve.blood.model == "newtonian"
        return {"viscosity_pa_s": solve.thinnest_pa_s(), "density_kg_m3": solve.density_kg_m3, "newtonian": newtonian}

    def _transport(self) -> TransportInput:
        """What the flow carries, and how the solver runs it."""
        precision = "fp64" if self.solve.precision == "fp64" else "fp32"
        stated = (self.transport or TransportSettings()).model_dump()
        return TransportInput(**stated, backend=self.solve.backend, precision=precision)

    def _grown(self, region: GrownRegion) -> GrownRegion:
        """The region with the seeds and the threshold of the section segment where it has none of its own."""
        wanted = ([] if region.seeded else list(Seeds.model_fields)) + (["lower"] if region.lower is None else [])
        return region.model_copy(update={key: getattr(self.segment, key) for key in wanted})


RESERVED = ("cohort", "studies", "validation", "validation_page")
"""First parts of what lies in results/ beside the folders of cases."""

MAX_SETTINGS = 100_000
"""Characters of a stage's settings: an argument of a command line takes 128 KiB on Linux."""


class Cohort(Section):
    """``config/config.yaml``: which cases and studies run, in which scenarios, and defaults for all cases."""

    cases: tuple[Name, ...] | None = Field(
        None,
        description="names of rows of the cohort table, or of files in config/cases/; none: all rows",
        min_length=1,
    )
    case_folder: str = Field("config/cases", description="where the case files lie")
    cohort: str | None = Field(None, description="table of cases (CSV)")
    scenarios: dict[Name, dict[str, Any]] = Field(
        default_factory=dict, description="sections merged over each case's own, by name; none: each case runs once"
    )
    defaults: dict[str, Any] = Field(default_factory=dict, description="sections merged under each case's own")
    threads: Annotated[int, Field(ge=1)] | None = Field(
        None, description="cores that a stage of a case takes; none: all, shared by up to four cases side by side"
    )
    studies: tuple[Name, ...] | None = Field(None, description="names of files in config/studies/; none: all of them")
    validation: RunSet = Field("quick", description="which runs of the studies: ci, quick or full")
    checkpoint_minutes: Positive = Field(10.0, description="between two states that solve keeps on the way")
    container: str = Field(
        "hemolattice.sif",
        pattern=r"^[^\s{}]+$",
        description="image that `--sdm apptainer` runs the stages in: a file, or an address such as docker://...",
    )
    cluster: ClusterSettings | None = Field(None, description="what solve asks a cluster for; none: nothing")

    @field_validator("cases", "studies", mode="before")
    @classmethod
    def _from_command_line(cls, value: Any) -> Any:
        """``--config cases=a,b`` arrives as one string."""
        return [name.strip() for name in value.split(",")] if isinstance(value, str) else value

    @field_validator("scenarios", mode="before")
    @classmethod
    def _as_the_case_is(cls, value: Any) -> Any:
        """A scenario without any key changes nothing."""
        return {name: over or {} for name, over in value.items()} if isinstance(value, dict) else value

    @field_validator("cohort")
    @classmethod
    def _table_exists(cls, path: str | None) -> str | None:
        return existing(path) if path else None

    @model_validator(mode="after")
    def _any_case(self) -> Self:
        if not self.cases and not self.cohort:
            raise ValueError("neither cases nor cohort is given; name files of config/cases/, or give a table of cases")
        return self


def require_listed(key: str, name: str, path: Path) -> None:
    """Check that what a key of the configuration names has its file.

    Parameters
    ----------
    key : of the configuration, for the message.
    name : that it gives.
    path : where that file would be; the message names what else lies in its folder.

    Raises
    ------
    StageError
        With what is there.
    """
    if not path.exists():
        folders = (path.parent, ROOT / path.parent)
        known = sorted({file.stem for folder in folders for file in folder.glob("*.yaml")})
        near = difflib.get_close_matches(name, known, n=1)
        raise StageError(
            f"{key}: {name!r}: no file {path}; " + (f"did you mean {near[0]}?" if near else f"known: {known}")
        )


def read_config(config: dict[str, Any], source: Source = CONFIG) -> Cohort:
    """The configuration of the workflow.

    Raises
    ------
    StageError
        One line a mistake.
    """
    return parse(Cohort, config, source)


def read_cohort(config: dict[str, Any], folder: Path | None = None, source: Source = CONFIG) -> dict[str, Case]:
    """All runs of the cohort by name, every one validated before anything runs.

    Parameters
    ----------
    config : of the workflow.
    folder : of the case files; none: the one that the configuration names.
    source : where the configuration came from, for messages.

    Raises
    ------
    StageError
        One line a mistake, over all files.
    """
    cohort = read_config(config, source)
    rows = read_table(Path(cohort.cohort), dotted_keys(Case)) if cohort.cohort else {}
    if rows and cohort.cases and not rows.keys() & {*cohort.cases}:
        logging.getLogger(__name__).warning(
            "cases: %s, none of them a row of %s; leave the key cases out to run all %d rows",
            ", ".join(cohort.cases),
            cohort.cohort,
            len(rows),
        )
    cases, mistakes = {}, list[str]()
    read = cache(read_yaml)  # a file is that of all rows and scenarios that start from it
    for name in cohort.cases or rows:
        for scenario in cohort.scenarios or ("",):
            try:
                cases[f"{name}@{scenario}" if scenario else name] = _read_run(
                    cohort, name, rows.get(name), scenario, folder or Path(cohort.case_folder), read, source
                )
            except StageError as error:
                mistakes += str(error).splitlines()
    if mistakes:
        raise StageError("\n".join(dict.fromkeys(mistakes)))  # what several runs share is reported once
    return cases


def _read_run(
    cohort: Cohort,
    name: str,
    row: TableRow | None,
    scenario: str,
    folder: Path,
    read: Callable[[Path], dict[str, Any]],
    source: Source,
) -> Case:
    """A case in a scenario: defaults, case file, row of the table and scenario, the later over the former."""
    if name.split(".")[0] in RESERVED:
        place = f"{row.place}, column case" if row else "cases"
        raise StageError(f"{place} = {name!r}: results/{name} is made of all cases or studies; call the case otherwise")
    path = shipped(folder / f"{row.file if row else name}.yaml")
    require_listed(f"{row.place}, column file" if row else "cases", path.stem, path)
    over = cohort.scenarios.get(scenario, {})
    own = read(path)
    defaults = _defaults_of(cohort, own)
    values = merged(merged(defaults, own), row.sections() if row else {})
    under = sorted({*dotted(defaults)} - {*dotted(own)})
    stated = place_of(str(path), row, scenario, list(dotted(over)), under, source)
    case = parse(Case, merged(values, over), stated)
    for stage in WITH_SETTINGS:
        if (size := len(case.settings(stage).encode())) > MAX_SETTINGS:
            raise StageError(
                f"{path}: {stage}: its settings have {size} bytes as JSON, {MAX_SETTINGS} at most can be handed over;"
                " shorten them, long lists of points can stand in a markups file"
            )
    return case


def _defaults_of(cohort: Cohort, values: dict[str, Any]) -> dict[str, Any]:
    """Defaults of all cases, as far as they are of this one's kind: a cohort may have vessels and networks."""
    given = values.get("input")
    network = isinstance(given, dict) and given.get("network")
    return {key: each for key, each in cohort.defaults.items() if (key in OF_A_NETWORK if network else key != "tree")}


def schema() -> str:
    """The JSON schema of a case file, as kept in ``config/case.schema.json``."""
    return json.dumps(Case.model_json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(schema(), end="")
