"""From DICOM to report: one rule a stage, no computation here.

    snakemake --cores all                           every case of config/config.yaml
    snakemake --cores all --config cases=demo       one case (or several: cases=demo,other)
    snakemake --cores all --keep-going              all that can be done, whichever cases fail
    snakemake --cores all results/demo/pick.html    a page to write the case file on, seeds and all
    snakemake --cores all validation                the studies of config/studies/, of published works
    snakemake --cores all --config validation=full studies=plates -- validation    one study, all of its runs
    snakemake --profile config/profiles/slurm      on a SLURM cluster, by what that folder says

A changed setting reruns its stage and those after it; so does an edit of a module that the stage uses.
"""

import json
import re
import shlex
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from pipeline.case.case_file import read_cohort, read_config
from pipeline.workflow.outcome import outcome
from pipeline.workflow.recovery import RESULTS, recover, require_folders
from pipeline.workflow.sharing import SHARED, STAGES, owners
from validation.studies.study_file import read_studies
from solver.runtime.sources import ROOT, sources
from solver.runtime.errors import StageError
from solver.runtime.checksums import checksum, combined


configfile: "config/config.yaml"


BEGAN = time.time()


try:
    # Open as long as this process lives; a Snakemake that works on a job of another leaves what that one keeps alone.
    AT_WORK = recover() if workflow.is_main_process else None
    COHORT = read_cohort(config)
    require_folders(RESULTS / run for run in COHORT)
    STUDIES = read_studies(config, options=False)
    CHOSEN = read_config(config)
except StageError as error:
    sys.exit(str(error))

RUN = "{study}.{run}"
RUNS = {RUN.format(study=name, run=run): case for name in STUDIES for run, case in STUDIES[name].cases(name).items()}
if twice := sorted(COHORT.keys() & RUNS.keys()):
    sys.exit(f"cases: {twice[0]!r}: a run of a study has this name, too; rename the file in config/cases/")
CASES = COHORT | RUNS
OWNERS = owners(CASES)
RUNS_OF = config.get("validation", "quick")
IN_SET = [name for name in STUDIES if RUNS_OF in STUDIES[name].sets]

PYTHON = shlex.quote(sys.executable)
OUT = "results/{case}/"
LEVELS = ("", "coarser-1/", "coarser-2/")
ANY_LEVEL = OUT + "{level}"  # folder of a lattice: of the case's own, or of a coarser one of the section convergence


@cache  # a parameter of every job that is ready is asked for each time that Snakemake chooses the next one
def section(case, stage, level=0):
    """The stage's section of the case as JSON."""
    return CASES[case].settings(stage, level)


@cache
def code(module):
    """Checksum of the modules that a stage is made of: a parameter, so that an edit reruns the stage. As inputs they
    would be looked up on disk for every job that is ready each time that Snakemake chooses the next one.
    """
    return combined(code_of_file(path) for path in sources(module))


@cache  # most modules have most of their files in common
def code_of_file(path):
    """Checksum of a file of the project."""
    return checksum(ROOT / path)


def settings(stage):
    """The stage's section of the case as JSON: a parameter, so that a change reruns the stage."""
    return lambda wildcards: section(wildcards.case, stage)


def study_of(wildcards):
    """The study that the case is a run of; none if it is a user's."""
    return STUDIES.get(wildcards.case.split(".")[0]) if wildcards.case in RUNS else None


def cores(wildcards):
    """All cores, or as many as the configuration says of a case, or a study of a run of it."""
    return (study_of(wildcards) or CHOSEN).threads or workflow.cores


def gpus(wildcards):
    """How many GPUs solve asks a cluster for, one or none."""
    backend = CASES[wildcards.case].solve.backend
    return int(backend == "cuda" or (backend == "auto" and CHOSEN.cluster.gpu)) if CHOSEN.cluster else None


def asked(quantity):
    """What solve asks a cluster for, by the forecast of the run once there are nodes; nothing on one machine."""

    def ask(wildcards, input, threads, attempt):
        cluster = CHOSEN.cluster
        if not cluster or not workflow.is_main_process:
            return None
        from solver.run.walltime import expected  # only now: it takes a second

        bytes_s = 1e9 * cluster.gpu_memory_gb_s if gpus(wildcards) else None
        found = expected(str(input.nodes), section(wildcards.case, "solve"), threads, bytes_s)
        return {"minutes": cluster.minutes(found.seconds, attempt), "memory": cluster.memory_mb(found.bytes, attempt)}[quantity]

    return ask


def timed(wildcards):
    """The solver's section of the case, and how its sweeps are timed where the study says so."""
    study = study_of(wildcards)
    timing = study.options.get("timing", {}) if study else {}
    return json.dumps(json.loads(section(wildcards.case, "solve")) | {"timing": timing})


def own(path):
    """A file of the case's own lattice, of the name that it has on any."""
    return path.replace("{level}", "")


def on_every_lattice(path):
    """The file on all lattices that the section convergence asks for, the case's own first."""
    return lambda wildcards: expand(
        path, case=wildcards.case, level=LEVELS[: CASES[wildcards.case].convergence.spacings]
    )


def computing(stage):
    """The runs that compute a stage up to the lattice, as a pattern: those that link to it have a rule of their own, and
    two stages that make the same files are kept apart by it.
    """
    return any_of(run for (of, run), owner in OWNERS.items() if of == stage and owner == run)


def linking(stage):
    """The runs that have a stage in common with an earlier scenario, as a pattern."""
    return any_of(run for (of, run), owner in OWNERS.items() if of == stage and owner != run)


def any_of(names):
    """A pattern that these names match and nothing else, with what the runs of a study have in common once: Snakemake
    compiles it for each file of each rule, which was a fourth of its start.
    """
    runs = {}
    for name in names:
        study, dot, run = name.partition(".")
        runs.setdefault(study + dot, []).append(re.escape(run))
    return "|".join(f"{re.escape(study)}(?:{'|'.join(of)})" for study, of in runs.items()) or "(?!)"


def source(wildcards):
    """The images that the case starts from: the user's, or those of the phantom."""
    given = CASES[wildcards.case].input
    return given.dicom or given.volume or rules.phantom.output.dicom.format(case=wildcards.case)


def points(stage):
    """Markups files that the stage reads beside the images."""
    return lambda wildcards: CASES[wildcards.case].point_files(stage)


def waveforms(stage):
    """Files of inflow that the stage reads."""
    return lambda wildcards: CASES[wildcards.case].waveform_files(stage)


def evidence(wildcards):
    """What the report shows where there is such a thing: less of the way to the lumen where the case enters later."""
    made = {
        "series": rules.load.output.series,
        "segmentation": rules.segment.output.segmentation,
        "picture": rules.segment.output.picture,
        "centreline": rules.centreline.output.centreline,
        "branches": rules.centreline.output.summary,
        "along": own(rules.postprocess.output.along_table),
        "particles": rules.trace.output.numbers,
        "animation": rules.trace.output.animation,
    }
    if CASES[wildcards.case].convergence.spacings > 1:
        made["grid"] = rules.convergence.output.grid
    of_the_vessel = {"mask": ["series"], "surface": ["series", "segmentation", "picture"]}
    missing = of_the_vessel | {"geometry": [*of_the_vessel["surface"], "centreline", "branches", "along"]}
    left_out = missing.get(CASES[wildcards.case].input.entry, [])
    return {role: path.format(case=wildcards.case) for role, path in made.items() if role not in left_out}


def narrowest(wildcards):
    """Where the narrowest place of a vessel is told; a canonical geometry's lattice needs none."""
    entry, summary = CASES[wildcards.case].input.entry, rules.centreline.output.summary
    return [] if entry == "geometry" else [summary.format(case=wildcards.case)]


def plausible(wildcards):
    """What is said of blood, openings and flow before the run; a canonical geometry may hold any fluid."""
    entry, told = CASES[wildcards.case].input.entry, rules.plausibility.output.plausibility
    return [] if entry == "geometry" else [told.format(case=wildcards.case)]


def gate(wildcards, input):
    """The command that refuses what no patient has before the solver steps. Since it changes no result, a parameter that
    follows from the input, which reruns nothing: a case that accepts more does not run again.
    """
    if not plausible(wildcards):
        return ""
    log = (ANY_LEVEL + "logs/solve.log").format(**wildcards)
    given = options(openings=input.openings, settings=section(wildcards.case, "plausibility"), log=log)
    return f"{PYTHON} -m pipeline.stages.plausibility --check {given} && "


def lines(wildcards):
    """The lines of a vessel's branches, along which the flow is told; a canonical geometry has none."""
    entry, centreline = CASES[wildcards.case].input.entry, rules.centreline.output.centreline
    return [] if entry == "geometry" else [centreline.format(case=wildcards.case)]


def options(**paths):
    """Options of a command line, each with its path or paths, of which there may be none, in quotes."""
    given = {role: [path] if isinstance(path, str) else path for role, path in paths.items()}
    return " ".join(f"--{role} {shlex.quote(path)}" for role, each in given.items() for path in each)


def page(wildcards):
    """The report's section with what the page says of the case."""
    case = CASES[wildcards.case]
    return json.dumps(json.loads(section(wildcards.case, "report")) | {"case": wildcards.case, "description": case.description})


def whole_case(wildcards):
    """All sections of the case with the name of its run."""
    return json.dumps({"run": wildcards.case, "case": json.loads(section(wildcards.case, "crate"))})


def records(wildcards):
    """What the stages of a run say of how they made their files, in their order."""
    case, run = CASES[wildcards.case], wildcards.case
    first = ["phantom"] if case.input.phantom and OWNERS["load", run] == run else []  # its files lie with the owner
    last = ["convergence"] if case.convergence.spacings > 1 else []
    judged = [] if case.input.entry == "geometry" else ["plausibility"]
    stages = [*first, *STAGES[case.input.entry], *judged, "solve", "trace", "postprocess", *last, "paraview", "report"]
    paths = [getattr(rules, stage).output.provenance for stage in stages]
    levels = LEVELS[: case.convergence.spacings]
    return list(dict.fromkeys(path.format(case=run, level=level) for path in paths for level in levels))


wildcard_constraints:
    case=any_of(CASES),
    level=r"(?:coarser-[12]/)?",
    study=any_of(STUDIES),


rule all:
    default_target: True
    input:
        expand(OUT + "report.html", case=COHORT),
        expand(OUT + "open-in-paraview.py", case=COHORT),
        expand(OUT + "ro-crate-metadata.json", case=COHORT),
        expand(OUT + "grid_convergence.json", case=[name for name in COHORT if COHORT[name].convergence.spacings > 1]),
        "results/cohort.html",


rule phantom:
    input:
        vessel=lambda wildcards: CASES[wildcards.case].input.phantom,
    output:
        dicom=directory(OUT + "dicom"),
        truth=OUT + "truth.json",
        mask=OUT + "truth.nrrd",
        provenance=OUT + "phantom.provenance.json",
    log:
        OUT + "logs/phantom.log",
    params:
        code=code("pipeline.stages.phantom"),
    shell:
        "{PYTHON} -m pipeline.stages.phantom --vessel {input.vessel:q}"
        " --dicom {output.dicom:q} --truth {output.truth:q} --truth-mask {output.mask:q}"
        " --provenance {output.provenance:q} --log {log:q}"


rule load:
    input:
        source=source,
    output:
        volume=OUT + "volume.nrrd",
        series=OUT + "series.json",
        provenance=OUT + "load.provenance.json",
    wildcard_constraints:
        case=computing("load"),
    log:
        OUT + "logs/load.log",
    params:
        settings=settings("load"),
        code=code("pipeline.stages.load"),
    shell:
        "{PYTHON} -m pipeline.stages.load --source {input.source:q}"
        " --volume {output.volume:q} --series {output.series:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule pick:
    input:
        volume=rules.load.output.volume,
        series=rules.load.output.series,
    output:
        page=OUT + "pick.html",
        provenance=OUT + "pick.provenance.json",
    log:
        OUT + "logs/pick.log",
    params:
        settings=settings("pick"),
        code=code("pipeline.stages.pick"),
    shell:
        "{PYTHON} -m pipeline.stages.pick --volume {input.volume:q} --series {input.series:q} --page {output.page:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule filter:
    input:
        volume=rules.load.output.volume,
        points=points("filter"),
    output:
        filtered=OUT + "filtered.nrrd",
        provenance=OUT + "filter.provenance.json",
    wildcard_constraints:
        case=computing("filter"),
    log:
        OUT + "logs/filter.log",
    params:
        settings=settings("filter"),
        code=code("pipeline.stages.filter"),
    shell:
        "{PYTHON} -m pipeline.stages.filter --volume {input.volume:q} --filtered {output.filtered:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule segment:
    input:
        filtered=rules.filter.output.filtered,
        volume=rules.load.output.volume,
        series=rules.load.output.series,
        points=points("segment"),
    output:
        lumen=OUT + "lumen.nrrd",
        occupancy=OUT + "occupancy.nrrd",
        segmentation=OUT + "segmentation.json",
        picture=OUT + "segmentation.png",
        page=OUT + "segmentation.html",
        provenance=OUT + "segment.provenance.json",
    wildcard_constraints:
        case=computing("segment"),
    log:
        OUT + "logs/segment.log",
    params:
        settings=settings("segment"),
        code=code("pipeline.stages.segment"),
    shell:
        "{PYTHON} -m pipeline.stages.segment --filtered {input.filtered:q} --volume {input.volume:q} --series {input.series:q}"
        " --lumen {output.lumen:q} --occupancy {output.occupancy:q}"
        " --segmentation {output.segmentation:q} --picture {output.picture:q} --page {output.page:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule import_mask:
    input:
        mask=lambda wildcards: CASES[wildcards.case].input.mask,
    output:
        lumen=OUT + "lumen.nrrd",
        occupancy=OUT + "occupancy.nrrd",
        segmentation=OUT + "segmentation.json",
        picture=OUT + "segmentation.png",
        page=OUT + "segmentation.html",
        provenance=OUT + "import_mask.provenance.json",
    wildcard_constraints:
        case=computing("import_mask"),
    log:
        OUT + "logs/import_mask.log",
    params:
        settings=settings("import_mask"),
        code=code("pipeline.stages.import_mask"),
    shell:
        "{PYTHON} -m pipeline.stages.import_mask --mask {input.mask:q} --lumen {output.lumen:q} --occupancy {output.occupancy:q}"
        " --segmentation {output.segmentation:q} --picture {output.picture:q} --page {output.page:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule surface:
    input:
        occupancy=rules.segment.output.occupancy,
    output:
        surface=OUT + "surface.vtp",
        openings=OUT + "openings.json",
        provenance=OUT + "surface.provenance.json",
    wildcard_constraints:
        case=computing("surface"),
    log:
        OUT + "logs/surface.log",
    params:
        settings=settings("surface"),
        code=code("pipeline.stages.surface"),
    shell:
        "{PYTHON} -m pipeline.stages.surface --occupancy {input.occupancy:q}"
        " --surface {output.surface:q} --openings {output.openings:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule import_surface:
    input:
        given=lambda wildcards: CASES[wildcards.case].input.surface,
    output:
        surface=OUT + "surface.vtp",
        openings=OUT + "openings.json",
        provenance=OUT + "import_surface.provenance.json",
    wildcard_constraints:
        case=computing("import_surface"),
    log:
        OUT + "logs/import_surface.log",
    params:
        settings=settings("import_surface"),
        code=code("pipeline.stages.import_surface"),
    shell:
        "{PYTHON} -m pipeline.stages.import_surface --given {input.given:q}"
        " --surface {output.surface:q} --openings {output.openings:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule canonical:
    input:
    output:
        surface=OUT + "surface.vtp",
        openings=OUT + "openings.json",
        provenance=OUT + "canonical.provenance.json",
    wildcard_constraints:
        case=computing("canonical"),
    log:
        OUT + "logs/canonical.log",
    params:
        settings=settings("canonical"),
        code=code("pipeline.stages.canonical"),
    shell:
        "{PYTHON} -m pipeline.stages.canonical"
        " --surface {output.surface:q} --openings {output.openings:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule centreline:
    input:
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
    output:
        centreline=OUT + "centreline.vtp",
        branches=OUT + "branches.csv",
        summary=OUT + "centreline.json",
        provenance=OUT + "centreline.provenance.json",
    wildcard_constraints:
        case=computing("centreline"),
    log:
        OUT + "logs/centreline.log",
    params:
        settings=settings("centreline"),
        code=code("pipeline.stages.centreline"),
    threads: cores
    shell:
        "NUMBA_NUM_THREADS={threads} {PYTHON} -m pipeline.stages.centreline"
        " --surface {input.surface:q} --openings {input.openings:q}"
        " --centreline {output.centreline:q} --branches {output.branches:q} --summary {output.summary:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule voxelize:
    input:
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
        centreline=narrowest,
        lines=lines,
        waveforms=waveforms("voxelize"),
    output:
        lattice=ANY_LEVEL + "lattice.vti",
        provenance=ANY_LEVEL + "voxelize.provenance.json",
    wildcard_constraints:
        case=computing("voxelize"),
    log:
        ANY_LEVEL + "logs/voxelize.log",
    params:
        settings=lambda wildcards: section(wildcards.case, "voxelize", LEVELS.index(wildcards.level)),
        centreline=lambda wildcards: options(centreline=narrowest(wildcards), lines=lines(wildcards)),
        code=code("pipeline.stages.voxelize"),
    threads: cores
    shell:
        "NUMBA_NUM_THREADS={threads} {PYTHON} -m pipeline.stages.voxelize"
        " --surface {input.surface:q} --openings {input.openings:q} {params.centreline}"
        " --lattice {output.lattice:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule decompose:
    input:
        lattice=rules.voxelize.output.lattice,
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
    output:
        nodes=ANY_LEVEL + "nodes.h5",
        provenance=ANY_LEVEL + "decompose.provenance.json",
    wildcard_constraints:
        case=computing("decompose"),
    log:
        ANY_LEVEL + "logs/decompose.log",
    params:
        settings=settings("decompose"),
        code=code("pipeline.stages.decompose"),
    threads: cores
    shell:
        "NUMBA_NUM_THREADS={threads} {PYTHON} -m pipeline.stages.decompose"
        " --lattice {input.lattice:q} --surface {input.surface:q} --openings {input.openings:q} --nodes {output.nodes:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


def of_owner(stage, *paths):
    """Files of the run that computes the stage."""
    return lambda wildcards: [
        path.format(case=OWNERS[stage, wildcards.case], level=wildcards.get("level", "")) for path in paths
    ]


def stage_before(stage):
    """What the stage before left of the same run, so that no link is left out."""

    def path(wildcards):
        stages = STAGES[CASES[wildcards.case].input.entry]
        before = stages[: stages.index(stage)][-1:]
        level = wildcards.get("level", "")
        return [getattr(rules, name).output.provenance.format(case=wildcards.case, level=level) for name in before]

    return path


for STAGE in SHARED:
    OUTPUTS = [str(path) for path in getattr(rules, STAGE).output]
    LOG = (ANY_LEVEL if "{level}" in OUTPUTS[0] else OUT) + f"logs/{STAGE}.log"

    rule:
        name:
            f"link_{STAGE}"
        localrule: True
        input:
            given=of_owner(STAGE, *OUTPUTS),
            before=stage_before(STAGE),
        output:
            OUTPUTS,
        wildcard_constraints:
            case=linking(STAGE),
        log:
            LOG,
        params:
            log=of_owner(STAGE, LOG),
        shell:
            "{PYTHON} -m pipeline.stages.link --given {input.given:q} --made {output:q} --given-log {params.log:q} --log {log:q}"


rule plausibility:
    localrule: True
    input:
        openings=rules.surface.output.openings,
        waveforms=waveforms("plausibility"),
    output:
        plausibility=OUT + "plausibility.json",
        provenance=OUT + "plausibility.provenance.json",
    log:
        OUT + "logs/plausibility.log",
    params:
        settings=settings("plausibility"),
        code=code("pipeline.stages.plausibility"),
    shell:
        "{PYTHON} -m pipeline.stages.plausibility --openings {input.openings:q} --plausibility {output.plausibility:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule solve:
    input:
        nodes=rules.decompose.output.nodes,
        waveforms=waveforms("solve"),
        openings=rules.surface.output.openings,
    output:
        flow=ANY_LEVEL + "flow.vtkhdf",
        monitor=ANY_LEVEL + "monitor.csv",
        summary=ANY_LEVEL + "solve.json",
        provenance=ANY_LEVEL + "solve.provenance.json",
    log:
        ANY_LEVEL + "logs/solve.log",
    params:
        settings=settings("solve"),
        gate=gate,
        checkpoint=ANY_LEVEL + "checkpoint",  # no output: what a killed run leaves there is what the next one goes on from
        code=code("solver.__main__"),
    threads: cores
    resources:
        gpu=gpus,
        runtime=asked("minutes"),
        mem=asked("memory"),
    retries: CHOSEN.cluster.retries if CHOSEN.cluster and workflow.is_main_process else None  # not within its job, too
    shell:
        "{params.gate}NUMBA_NUM_THREADS={threads} exec {PYTHON} -m solver --nodes {input.nodes:q}"
        " --flow {output.flow:q} --monitor {output.monitor:q} --summary {output.summary:q}"
        " --checkpoint {params.checkpoint:q} --checkpoint-minutes {CHOSEN.checkpoint_minutes}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule trace:
    input:
        nodes=own(rules.decompose.output.nodes),
        flow=own(rules.solve.output.flow),
        surface=rules.surface.output.surface,
        monitor=own(rules.solve.output.monitor),
        summary=own(rules.solve.output.summary),
    output:
        streamlines=OUT + "streamlines.vtp",
        pathlines=OUT + "pathlines.vtp",
        residence=OUT + "residence.vtp",
        numbers=OUT + "particles.json",
        animation=OUT + "particles.gif",
        provenance=OUT + "trace.provenance.json",
    log:
        OUT + "logs/trace.log",
    params:
        settings=settings("trace"),
        code=code("pipeline.stages.trace"),
    threads: cores
    shell:
        "NUMBA_NUM_THREADS={threads} {PYTHON} -m pipeline.stages.trace --nodes {input.nodes:q} --flow {input.flow:q}"
        " --surface {input.surface:q} --monitor {input.monitor:q} --summary {input.summary:q}"
        " --streamlines {output.streamlines:q} --pathlines {output.pathlines:q} --residence {output.residence:q}"
        " --numbers {output.numbers:q} --animation {output.animation:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule postprocess:
    input:
        nodes=rules.decompose.output.nodes,
        flow=rules.solve.output.flow,
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
        monitor=rules.solve.output.monitor,
        summary=rules.solve.output.summary,
        centreline=lines,
        plausibility=plausible,
    output:
        wall=ANY_LEVEL + "wall.vtp",
        wall_over_time=ANY_LEVEL + "wall_over_time.vtkhdf",
        statistics=ANY_LEVEL + "flow_statistics.vtkhdf",
        indices=ANY_LEVEL + "indices.json",
        indices_table=ANY_LEVEL + "indices.csv",
        openings_table=ANY_LEVEL + "openings.csv",
        along=ANY_LEVEL + "centreline_flow.vtp",
        along_table=ANY_LEVEL + "centreline_flow.csv",
        provenance=ANY_LEVEL + "postprocess.provenance.json",
    log:
        ANY_LEVEL + "logs/postprocess.log",
    params:
        settings=settings("postprocess"),
        more=lambda wildcards: options(centreline=lines(wildcards), plausibility=plausible(wildcards)),
        code=code("pipeline.stages.postprocess"),
    threads: cores
    shell:
        "NUMBA_NUM_THREADS={threads} {PYTHON} -m pipeline.stages.postprocess --nodes {input.nodes:q} --flow {input.flow:q} --surface {input.surface:q}"
        " --openings {input.openings:q} --monitor {input.monitor:q} --summary {input.summary:q} {params.more}"
        " --wall {output.wall:q} --wall-over-time {output.wall_over_time:q} --statistics {output.statistics:q}"
        " --indices {output.indices:q} --indices-table {output.indices_table:q}"
        " --openings-table {output.openings_table:q} --along {output.along:q} --along-table {output.along_table:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule paraview:
    localrule: True
    input:
        wall=own(rules.postprocess.output.wall),
        flow=own(rules.solve.output.flow),
        statistics=own(rules.postprocess.output.statistics),
        streamlines=rules.trace.output.streamlines,
        pathlines=rules.trace.output.pathlines,
        along=lambda wildcards: [own(rules.postprocess.output.along).format(case=wildcards.case)] if lines(wildcards) else [],
    output:
        script=OUT + "open-in-paraview.py",
        provenance=OUT + "paraview.provenance.json",
    log:
        OUT + "logs/paraview.log",
    params:
        settings=lambda wildcards: json.dumps({"case": wildcards.case}),
        along=lambda wildcards, input: options(along=input.along),
        code=code("pipeline.stages.paraview"),
    shell:
        "{PYTHON} -m pipeline.stages.paraview --wall {input.wall:q} --flow {input.flow:q} --statistics {input.statistics:q}"
        " --streamlines {input.streamlines:q} --pathlines {input.pathlines:q} {params.along} --script {output.script:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule convergence:
    input:
        indices=on_every_lattice(rules.postprocess.output.indices),
        summary=on_every_lattice(rules.solve.output.summary),
        wall=on_every_lattice(rules.postprocess.output.wall),
        openings=rules.surface.output.openings,
    output:
        grid=OUT + "grid_convergence.json",
        table=OUT + "grid_convergence.csv",
        provenance=OUT + "convergence.provenance.json",
    log:
        OUT + "logs/convergence.log",
    params:
        settings=settings("convergence"),
        code=code("pipeline.stages.convergence"),
    shell:
        "{PYTHON} -m pipeline.stages.convergence --indices {input.indices:q} --summary {input.summary:q} --wall {input.wall:q}"
        " --openings {input.openings:q} --grid {output.grid:q} --table {output.table:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule report:
    input:
        unpack(evidence),
        openings=rules.surface.output.openings,
        nodes=own(rules.decompose.output.nodes),
        flow=own(rules.solve.output.flow),
        monitor=own(rules.solve.output.monitor),
        summary=own(rules.solve.output.summary),
        wall=own(rules.postprocess.output.wall),
        indices=own(rules.postprocess.output.indices),
    output:
        report=OUT + "report.html",
        figures=report(
            directory(OUT + "figures"),
            patterns=["{name}.png"],
            caption="pipeline/reporting/captions.rst",
            category="{case}",
            labels={"figure": "{name}"},
        ),
        provenance=OUT + "report.provenance.json",
    log:
        OUT + "logs/report.log",
    params:
        settings=page,
        evidence=lambda wildcards: options(**evidence(wildcards)),
        code=code("pipeline.stages.report"),
    shell:
        "{PYTHON} -m pipeline.stages.report {params.evidence} --openings {input.openings:q} --nodes {input.nodes:q} --flow {input.flow:q}"
        " --monitor {input.monitor:q} --summary {input.summary:q} --wall {input.wall:q} --indices {input.indices:q}"
        " --report {output.report:q} --figures {output.figures:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule crate:
    input:
        records=records,
        snakefile="Snakefile",
    output:
        metadata=OUT + "ro-crate-metadata.json",
        case=OUT + "case.yaml",
        workflow=OUT + "workflow.smk",
        provenance=OUT + "crate.provenance.json",
    log:
        OUT + "logs/crate.log",
    params:
        settings=whole_case,
        code=code("pipeline.stages.crate"),
    shell:
        "{PYTHON} -m pipeline.stages.crate --records {input.records:q} --snakefile {input.snakefile:q}"
        " --metadata {output.metadata:q} --case {output.case:q} --workflow {output.workflow:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule cohort:
    input:
        indices=expand(own(rules.postprocess.output.indices), case=COHORT),
        records=expand(rules.report.output.provenance, case=COHORT),
        figures=expand(rules.report.output.figures, case=COHORT),
    output:
        page=report(
            "results/cohort.html",
            caption="pipeline/reporting/cohort.rst",
            category="All cases",
            labels={"figure": "the cases side by side"},
        ),
        table=report(
            "results/cohort.csv",
            caption="pipeline/reporting/cohort.rst",
            category="All cases",
            labels={"figure": "the same as a table"},
        ),
        provenance="results/cohort.provenance.json",
    log:
        "results/cohort.log",
    params:
        code=code("pipeline.stages.cohort"),
    shell:
        "{PYTHON} -m pipeline.stages.cohort --indices {input.indices:q} --records {input.records:q} --figures {input.figures:q}"
        " --page {output.page:q} --table {output.table:q} --provenance {output.provenance:q} --log {log:q}"


def unfinished():
    """Stage and message of each run of the cohort that is not finished, of its own or of one whose stage it links to."""
    order = [rule.name for rule in workflow.rules]
    left = {}
    for job in workflow.dag.needrun_jobs():
        run, stage = job.wildcards.get("case"), job.rule.name.removeprefix("link_")
        if run in COHORT and job.log and stage != "crate":  # without it the results are there all the same
            left.setdefault(run, []).append((order.index(stage), stage, Path(job.log[0])))
    told = {}
    for run in left:
        owners_of_run = dict.fromkeys(OWNERS.get((stage, run), run) for _, stage, _ in sorted(left[run]))
        logs = [
            (stage, log)
            for owner in owners_of_run
            for _, stage, log in sorted(left.get(owner, []))
            if owner == run or stage in ("phantom", *SHARED)
        ]
        why = outcome(logs, BEGAN)
        told[run] = [why.stage, why.message]
    return told


def cohort_of_what_there_is():
    """The page of all cases without those that are not finished; the rule makes it again when they are."""
    left = unfinished()
    done = [run for run in COHORT if run not in left]
    files = {
        "indices": own(rules.postprocess.output.indices), "records": rules.report.output.provenance,
        "figures": rules.report.output.figures,
    }
    given = [each for role, path in files.items() for each in (f"--{role}", *expand(path, case=done)) if done]
    subprocess.run(
        [
            sys.executable, "-m", "pipeline.stages.cohort", *given, "--page", rules.cohort.output.page, "--table", rules.cohort.output.table,
            "--settings", json.dumps({"unfinished": left}), "--provenance", "results/cohort.partial.provenance.json",
            "--log", "results/cohort.log",
        ],
        check=False,
    )
    Path(rules.cohort.output.provenance).unlink(missing_ok=True)


onstart:
    # Under Snakemake's limit of jobs a second, which a cluster may need, each job that was begun wakes the scheduler once
    # a second from then on: after some hundred jobs that keeps a core busy.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None


onerror:
    if any(job.rule.name == "cohort" for job in workflow.dag.jobs) and unfinished():
        cohort_of_what_there_is()


rule race:
    input:
        nodes=rules.decompose.output.nodes,
        waveforms=waveforms("solve"),
    output:
        speed=ANY_LEVEL + "speed.json",
        provenance=ANY_LEVEL + "race.provenance.json",
    log:
        ANY_LEVEL + "logs/race.log",
    params:
        settings=settings("solve"),
        code=code("validation.baseline_benchmark"),
    threads: workflow.cores
    shell:
        "NUMBA_NUM_THREADS={threads} {PYTHON} -m validation.baseline_benchmark --nodes {input.nodes:q} --speed {output.speed:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule sweep:
    input:
        nodes=rules.decompose.output.nodes,
        waveforms=waveforms("solve"),
    output:
        sweeps=ANY_LEVEL + "sweep.json",  # a study may be called sweeps: results/studies/sweeps.json is its record
        provenance=ANY_LEVEL + "sweep.provenance.json",
    log:
        ANY_LEVEL + "logs/sweep.log",
    params:
        settings=timed,
        code=code("validation.thread_sweep"),
    threads: workflow.cores
    shell:
        "NUMBA_NUM_THREADS={threads} {PYTHON} -m validation.thread_sweep --nodes {input.nodes:q} --sweeps {output.sweeps:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


def runs_of_study(path):
    """The file of each run of a study's set, in its order."""
    return lambda wildcards: [
        own(path).format(case=RUN.format(study=wildcards.study, run=run)) for run in STUDIES[wildcards.study].sets[RUNS_OF]
    ]


@cache
def demand_options():
    """End with the mistakes in the options of studies, once a study is to be made: the measures, which know the options,
    take a second to import.
    """
    try:
        read_studies(config)
    except StageError as error:
        sys.exit(str(error))


def files_of_study(wildcards):
    """What the study's measure reads of each run beside its nodes and its flow."""
    demand_options()
    return [path for file in STUDIES[wildcards.study].files() for path in runs_of_study(OUT + file)(wildcards)]


def study_settings(wildcards):
    """The study with its name and the set of runs."""
    return STUDIES[wildcards.study].input(wildcards.study, RUNS_OF)


rule study:
    input:
        nodes=runs_of_study(rules.decompose.output.nodes),
        flow=runs_of_study(rules.solve.output.flow),
        monitor=runs_of_study(rules.solve.output.monitor),
        summary=runs_of_study(rules.solve.output.summary),
        also=files_of_study,
        references=sorted(str(path) for path in Path("data/reference").glob("*.csv")),
    output:
        record="results/studies/{study}.json",
        figures=directory("results/studies/{study}"),
        provenance="results/studies/{study}.provenance.json",
    log:
        "results/studies/{study}.log",
    params:
        settings=study_settings,
        code=code("validation.study"),
        measure=lambda wildcards: code(f"validation.studies.{STUDIES[wildcards.study].measure}"),
    shell:
        "{PYTHON} -m validation.study --nodes {input.nodes:q} --flow {input.flow:q}"
        " --monitor {input.monitor:q} --summary {input.summary:q} --record {output.record:q} --figures {output.figures:q}"
        " --settings {params.settings:q} --provenance {output.provenance:q} --log {log:q}"


rule validation_page:
    input:
        records=expand("results/studies/{study}.json", study=IN_SET),
        figures=expand("results/studies/{study}", study=IN_SET),
    output:
        page="results/validation.html",
        goals="results/validation.json",
        docs=update("docs/validation.md"),
        pages=update(directory("docs/validation")),
        kept=update(directory("docs/studies")),
        provenance="results/validation_page.provenance.json",
    log:
        "results/validation_page.log",
    params:
        code=code("validation.summary"),
    shell:
        "{PYTHON} -m validation.summary --records {input.records:q} --figures {input.figures:q}"
        " --old-docs {output.docs:q} --old-pages {output.pages:q} --old-kept {output.kept:q}"
        " --page {output.page:q} --goals {output.goals:q} --docs {output.docs:q} --pages {output.pages:q} --kept {output.kept:q}"
        " --provenance {output.provenance:q} --log {log:q}"


rule validation:
    input:
        goals=rules.validation_page.output.goals,
    output:
        provenance="results/validation.provenance.json",
    log:
        "results/validation.log",
    params:
        code=code("validation.regression_check"),
    shell:
        "{PYTHON} -m validation.regression_check --goals {input.goals:q} --provenance {output.provenance:q} --log {log:q}"
