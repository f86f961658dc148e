# SPDX-License-Identifier: Apache-2.0
"""What the rules of the workflow share: their input functions and parameters.

A rule's named inputs and outputs are the options of its stage's command line, ``volume`` being ``--volume``. Inputs
without a name are files that the stage finds by its settings, or that it only waits for.
"""

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from pipeline.case.case_file import Cohort, read_cohort, read_config
from pipeline.case.settings.base import CONFIG, Source
from pipeline.case.stages import ENTERED, LEVELS, stages_of
from pipeline.workflow.patterns import any_of, own
from pipeline.workflow.programs import Files, Wildcards, code
from pipeline.workflow.recovery import RESULTS, require_folders
from pipeline.workflow.runs_beside import Beside, InputFunction
from pipeline.workflow.sharing import owners
from pipeline.workflow.waveforms import waveforms_of_network
from solver.runtime.errors import StageError

RUN = "{study}.{run}"
"""Name of a run of a study, as a case."""

SIDE_BY_SIDE = 4
"""How many cases share one machine's cores where nothing says so; each has an image and a lattice in memory."""


class Cases(Beside):
    """All that the rules ask of the cases and of the runs of studies.

    Methods that end in no value for a case return what Snakemake calls for each job: a function of the wildcards.

    Parameters
    ----------
    config : Snakemake's configuration.
    cores : of the machine or of a job.
    is_main : whether this Snakemake chooses what runs; not that of a job on a cluster, nor one that runs a rule alone.
    read_studies : reads the studies of a configuration, by name, with or without their options: of `validation/`, of
        which the product imports nothing.
    source : where the configuration came from, for messages.

    Attributes
    ----------
    config : what it says.
    cohort, of_studies : the cases of the user, and those of the runs of studies, by name.
    studies : by name.

    Raises
    ------
    StageError
        One line a mistake, over all files.
    """

    def __init__(
        self,
        config: dict[str, Any],
        cores: int,
        is_main: bool,
        read_studies: Callable[..., Mapping[str, Any]],
        source: Source = CONFIG,
    ) -> None:
        self.cohort = read_cohort(config, source=source)
        require_folders(RESULTS / run for run in self.cohort)
        self.studies = read_studies(config, options=False)
        self._read_studies = read_studies
        self.config: Cohort = read_config(config)
        self.of_studies = {
            RUN.format(study=name, run=run): case
            for name, study in self.studies.items()
            for run, case in study.cases(name).items()
        }
        if twice := sorted(self.cohort.keys() & self.of_studies.keys()):
            raise StageError(
                f"cases: {twice[0]!r}: a run of a study has this name, too; rename the file in config/cases/"
            )
        self._stated = self.cohort | self.of_studies
        self._all = {name: case.in_folder(f"{RESULTS}/{name}") for name, case in self._stated.items()}
        with_network = {name: case for name, case in self._all.items() if case.input.network or case.coupling}
        self._waveforms = {name: waveforms_of_network(name, case) for name, case in with_network.items()}
        self._owners = owners(self._all)
        self._options_of, self._cores, self._is_main = config, cores, is_main
        # A parameter of every job that is ready is asked for each time that Snakemake chooses the next one.
        self.section = cache(self._section)
        self._check_options = cache(self._read_options)

    @property
    def names(self) -> Iterable[str]:
        """Of all cases, with the runs of studies."""
        return self._all

    @property
    def networks(self) -> list[str]:
        """Cases that are a network alone."""
        return [name for name, case in self._all.items() if case.input.network]

    @property
    def coupled(self) -> list[str]:
        """Cases of a vessel that sits in a network."""
        return [name for name, case in self._all.items() if case.coupling]

    @property
    def with_vessel(self) -> list[str]:
        """All others, with the runs of studies."""
        return [name for name, case in self._all.items() if not case.input.network]

    @property
    def vessels(self) -> list[str]:
        """Cases of the user that are no network alone."""
        return [name for name, case in self.cohort.items() if not case.input.network]

    def by_kind(self, of_vessel: Any, of_network: Any) -> Callable[[str], str]:
        """The file of a run, of a vessel or of a network alone."""

        def found(run: str) -> str:
            return str(of_network if self._all[run].input.network else of_vessel).format(case=run)

        return found

    def owner(self, stage: str, run: str) -> str:
        """The run that computes a stage for this one: itself, or an earlier scenario of its case."""
        return self._owners.get((stage, run), run)

    def _section(self, run: str, stage: str, level: int = 0) -> str:
        return self._all[run].settings(stage, level)

    def settings(self, stage: str) -> InputFunction:
        """The stage's section of the case as JSON: a parameter, so that a change reruns the stage."""
        return lambda wildcards: self.section(wildcards.case, stage)

    def settings_of_level(self, stage: str) -> InputFunction:
        """The same of a stage that makes a coarser lattice for a coarser level."""
        return lambda wildcards: self.section(wildcards.case, stage, LEVELS.index(wildcards.level))

    def given(self, key: str) -> InputFunction:
        """The file that a key of the case's input names."""
        return lambda wildcards: getattr(self._all[wildcards.case].input, key)

    def images(self, phantom: str) -> InputFunction:
        """The images that the case starts from: the user's, or those of the phantom."""

        def found(wildcards: Wildcards) -> Any:
            given = self._all[wildcards.case].input
            return given.dicom or given.volume or phantom.format(case=wildcards.case)

        return found

    def points(self, stage: str) -> InputFunction:
        """Markups files that the stage reads beside the images."""
        return lambda wildcards: self._all[wildcards.case].point_files(stage)

    def waveforms(self, stage: str) -> InputFunction:
        """Files of inflow that the stage reads; what a network has at openings is a folder of one of its stages."""
        if stage in ("tree", "couple"):
            return lambda wildcards: self._waveforms[wildcards.case]

        def found(wildcards: Wildcards) -> list[str]:
            case = self._all[wildcards.case]
            files = case.waveform_files(stage)
            return sorted({str(Path(file).parent) for file in files}) if case.coupling else files

        return found

    def around(self, wildcards: Wildcards) -> str:
        """The network that a vessel sits in."""
        coupling = self._all[wildcards.case].coupling
        assert coupling is not None
        return coupling.network

    def where(self, stage: str, path: str) -> InputFunction:
        """A file, for cases that a stage is a part of; none for others, as a canonical geometry has no branches."""
        return lambda wildcards: [own(path).format(case=wildcards.case)] if stage in self.stages(wildcards.case) else []

    def on_every_lattice(self, path: str) -> InputFunction:
        """The file on all lattices that the section convergence asks for, the case's own first."""
        return lambda wildcards: [path.format(case=wildcards.case, level=level) for level in self._levels(wildcards)]

    def _levels(self, wildcards: Wildcards) -> tuple[str, ...]:
        return LEVELS[: self._all[wildcards.case].convergence.spacings]

    def running(self, stage: str) -> list[str]:
        """Cases of the cohort that have a stage."""
        return [name for name in self.cohort if stage in self.stages(name)]

    def computing(self, stage: str) -> str:
        """The runs that compute a stage up to the lattice, or members and other flows, as a pattern: those that link to
        it have a rule of their own, and two stages that make the same files are kept apart by it.
        """
        return any_of(run for (of, run), owner in self._owners.items() if of == stage and owner == run)

    def linking(self, stage: str) -> str:
        """The runs that have a stage in common with an earlier scenario, as a pattern."""
        return any_of(run for (of, run), owner in self._owners.items() if of == stage and owner != run)

    def of_owner(self, stage: str, *paths: str) -> InputFunction:
        """Files of the run that computes the stage."""
        return lambda wildcards: [
            path.format(**{"level": ""} | dict(wildcards.items()) | {"case": self._owners[stage, wildcards.case]})
            for path in paths
        ]

    def stage_before(self, stage: str, rules: Any) -> InputFunction:
        """What the stage before left of the same run, so that no link is left out."""

        def found(wildcards: Wildcards) -> list[str]:
            stages = ENTERED[self._all[wildcards.case].input.entry]
            before = stages[: stages.index(stage)][-1:]
            level = wildcards.get("level", "")
            return [getattr(rules, name).output.provenance.format(case=wildcards.case, level=level) for name in before]

        return found

    def cores(self, wildcards: Wildcards) -> int:
        """As many as the configuration says of a case, or a study of a run of it; else all, which cases share."""
        study = self._study_of(wildcards)
        alone = study or self.config.cluster  # a cluster's job has its cores for itself
        shared = self._cores if alone else max(1, self._cores // min(SIDE_BY_SIDE, len(self.cohort)))
        return (study or self.config).threads or shared

    def half_the_cores(self, wildcards: Wildcards) -> int:
        """For postprocess and trace, which run side by side on one machine."""
        return self.cores(wildcards) if self.config.cluster else max(1, self.cores(wildcards) // 2)

    def gpus(self, wildcards: Wildcards) -> int | None:
        """How many GPUs solve asks a cluster for: one, one for each rank, or none."""
        backend = self._all[wildcards.case].solve.backend
        cluster = self.config.cluster
        if not cluster:
            return None
        wanted = backend == "cuda" or (backend == "auto" and cluster.gpu)
        return (self.ranks(wildcards) or 1) if wanted else 0

    def ranks(self, wildcards: Wildcards) -> int | None:
        """How many tasks solve asks a cluster for, where it runs on several ranks."""
        ranks = self._all[wildcards.case].solve.ranks
        return ranks if self.config.cluster and ranks > 1 else None

    def tasks_per_gpu(self, wildcards: Wildcards) -> int | None:
        """One, where ranks have GPUs: else the executor plugin takes all tasks for those of one."""
        return 1 if self.ranks(wildcards) and self.gpus(wildcards) else None

    def mpi(self, wildcards: Wildcards) -> str | None:
        """What starts ranks in a job: so the executor plugin leaves all tasks of the job to solve."""
        return "srun" if self.ranks(wildcards) else None

    def machines(self, wildcards: Wildcards) -> int | None:
        """How many machines solve asks a cluster for, where the configuration says how many ranks one has."""
        ranks, cluster = self.ranks(wildcards), self.config.cluster
        return cluster.machines(ranks) if cluster and ranks else None

    def srun(self, wildcards: Wildcards, input: Any) -> str:  # noqa: A002, by which other options rerun nothing
        """Option of solve's command line, by which srun starts its ranks."""
        cluster = self.config.cluster
        return f" --srun={shlex.quote(cluster.srun)}" if cluster and self.ranks(wildcards) else ""

    def asked(self, quantity: str) -> Callable[..., int | None]:
        """What solve asks a cluster for, by the forecast of the run once there are nodes; nothing on one machine."""

        def ask(wildcards: Wildcards, input: Any, threads: int, attempt: int) -> int | None:  # noqa: A002
            cluster = self.config.cluster
            if not cluster or not self._is_main:
                return None
            from solver.run.walltime import expected  # only now: it takes a second

            bytes_s = 1e9 * cluster.gpu_memory_gb_s if self.gpus(wildcards) else None
            ranks = self.ranks(wildcards) or 1
            found = expected(str(input.nodes), self.section(wildcards.case, "solve"), ranks * threads, bytes_s)
            seconds = cluster.seconds(found.seconds, found.steps, ranks)
            memory = cluster.memory_mb(found.bytes * self._share(wildcards, ranks), attempt)
            return {
                "minutes": cluster.minutes(seconds, attempt),
                "memory": ranks * memory,
                "memory of a core": ceil(memory / threads) if ranks > 1 else None,  # wherever SLURM places ranks
            }[quantity]

        return ask

    def _share(self, wildcards: Wildcards, ranks: int) -> float:
        """Part of the memory of one process that a rank needs; all where the nodes are not divided for so many."""
        from solver.backends.cost import OVER_SHARE  # only now: it takes a second

        case = self._all[wildcards.case]
        divided = not case.input.geometry and case.decompose.parts in (None, ranks)
        return OVER_SHARE / ranks if divided and ranks > 1 else 1.0

    @property
    def retries(self) -> int | None:
        """How often a cluster is asked again for more; not within its job, too."""
        return self.config.cluster.retries if self.config.cluster and self._is_main else None

    def evidence(self, of_lumen: Files, of_lines: Files, **of_more: Files) -> InputFunction:
        """What the report shows where there is such a thing: less of the way to the lumen where the case enters later.

        Parameters
        ----------
        of_lumen : files of the way from images to the lumen, by role; a mask has no series.
        of_lines : files along the lines of branches, which a canonical geometry does not have.
        of_more : files of stages that a case has only where it asks for them, by stage.
        """
        missing = {"mask": {"series"}, "surface": {*of_lumen}, "geometry": {*of_lumen, *of_lines}}

        def found(wildcards: Wildcards) -> dict[str, str]:
            case = self._all[wildcards.case]
            stages = self.stages(wildcards.case)
            made = {**of_lumen, **of_lines}
            for stage, files in of_more.items():
                made |= files if stage in stages else {}
            left_out = missing.get(case.input.entry, set())
            return {
                role: own(str(path)).format(case=wildcards.case) for role, path in made.items() if role not in left_out
            }

        return found

    def name(self, wildcards: Wildcards) -> str:
        """How the run is called, as settings."""
        return json.dumps({"case": wildcards.case})

    def page(self, wildcards: Wildcards) -> str:
        """The report's section with what the page says of the case."""
        names = {"case": wildcards.case, "description": self._all[wildcards.case].description}
        return json.dumps(json.loads(self.section(wildcards.case, "report")) | names)

    def whole(self, wildcards: Wildcards) -> str:
        """All sections of the case with the name of its run."""
        stated = self._stated[wildcards.case].settings("crate")
        return json.dumps({"run": wildcards.case, "case": json.loads(stated)})

    def stages(self, run: str) -> list[str]:
        """Stages of a run that leave a record in its folder, in their order, but for the crate of these."""
        return stages_of(self._all[run], self._owners.get(("load", run)) == run)

    def records(self, rules: Any) -> InputFunction:
        """What the stages of a run say of how they made their files, in their order."""

        def found(wildcards: Wildcards) -> list[str]:
            paths = [getattr(rules, stage).output.provenance for stage in self.stages(wildcards.case)]
            levels = self._levels(wildcards)
            every = [path.format(case=wildcards.case, level=level) for path in paths for level in levels]
            if "uncertainty" in self.stages(wildcards.case):
                every += self.members(rules.member.output.provenance)(wildcards)
            if "reduced" in self.stages(wildcards.case):
                every += self.other_flows(rules.other_flow.output.provenance)(wildcards)
            return list(dict.fromkeys(every))

        return found

    @property
    def runs_of(self) -> str:
        """Which set of runs of the studies is made."""
        return self.config.validation

    def studies_in_set(self) -> list[str]:
        """Studies that have runs in this set."""
        return [name for name, study in self.studies.items() if self.runs_of in study.sets]

    def _study_of(self, wildcards: Wildcards) -> Any:
        """The study that the case is a run of; none if it is a user's."""
        return self.studies.get(wildcards.case.split(".")[0]) if wildcards.case in self.of_studies else None

    def timed(self, wildcards: Wildcards) -> str:
        """The solver's section of the case, and how its sweeps are timed where the study says so."""
        study = self._study_of(wildcards)
        timing = study.options.get("timing", {}) if study else {}
        return json.dumps(json.loads(self.section(wildcards.case, "solve")) | {"timing": timing})

    def runs_of_study(self, path: str) -> InputFunction:
        """The file of each run of a study's set, in its order."""
        return lambda wildcards: [
            own(path).format(case=RUN.format(study=wildcards.study, run=run))
            for run in self.studies[wildcards.study].sets[self.config.validation]
        ]

    def files_of_study(self, wildcards: Wildcards) -> list[str]:
        """What the study's measure reads of each run beside its nodes and its flow."""
        self._check_options()
        files = self.studies[wildcards.study].files()
        return [path for file in files for path in self.runs_of_study(f"results/{{case}}/{file}")(wildcards)]

    def _read_options(self) -> None:
        """End with the mistakes in a study's options, once one is made: the measures take a second to import."""
        try:
            self._read_studies(self._options_of)
        except StageError as error:
            sys.exit(str(error))

    def study(self, wildcards: Wildcards) -> str:
        """The study with its name and the set of runs, as JSON."""
        return self.studies[wildcards.study].input(wildcards.study, self.config.validation)

    def measure(self, wildcards: Wildcards) -> str:
        """Checksum of the modules that measure something on the runs of a study."""
        return code(f"validation.studies.{self.studies[wildcards.study].measure}")
