"""From DICOM to report: one rule a stage, no computation here.

    snakemake --cores all                           every case of config/config.yaml
    snakemake --cores all --config cases=demo       one case (or several: cases=demo,other)
    snakemake --cores all results/demo/pick.html    a page to pick seeds on, before there are any

A changed setting reruns its stage and those after it; so does an edit of a module that the stage uses.
"""

import json
import re
import shlex
import sys

from pipeline.case import read_cohort
from solver.stage import StageError, sources


configfile: "config/config.yaml"


try:
    CASES = read_cohort(config)
except StageError as error:
    sys.exit(str(error))

PYTHON = shlex.quote(sys.executable)
OUT = "results/{case}/"


def settings(stage):
    """The stage's section of the case as JSON: a parameter, so that a change reruns the stage."""
    return lambda wildcards: CASES[wildcards.case].settings(stage)


def entering(*entries):
    """The names of the cases that enter so, as a pattern: two rules that make the same file are kept apart by it."""
    names = [re.escape(name) for name, case in CASES.items() if case.input.entry in entries]
    return "|".join(names) or "(?!)"  # which matches nothing


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
    """What the report shows of the way to the lumen: less of it where the case enters later."""
    made = {
        "series": rules.load.output.series,
        "segmentation": rules.segment.output.segmentation,
        "picture": rules.segment.output.picture,
        "centreline": rules.centreline.output.centreline,
        "branches": rules.centreline.output.summary,
    }
    of_the_vessel = {"mask": ["series"], "surface": ["series", "segmentation", "picture"]}
    missing = of_the_vessel | {"geometry": [*of_the_vessel["surface"], "centreline", "branches"]}
    left_out = missing.get(CASES[wildcards.case].input.entry, [])
    return {role: path.format(case=wildcards.case) for role, path in made.items() if role not in left_out}


def narrowest(wildcards):
    """Where the narrowest place of a vessel is told; a canonical geometry's lattice needs none."""
    entry, summary = CASES[wildcards.case].input.entry, rules.centreline.output.summary
    return [] if entry == "geometry" else [summary.format(case=wildcards.case)]


def page(wildcards):
    """The report's section with what the page says of the case."""
    case = CASES[wildcards.case]
    return json.dumps(json.loads(case.settings("report")) | {"case": wildcards.case, "description": case.description})


wildcard_constraints:
    case=r"[A-Za-z0-9][A-Za-z0-9_.-]*",


rule all:
    default_target: True
    input:
        expand(OUT + "report.html", case=CASES),
        "results/cohort.html",


rule phantom:
    input:
        vessel=lambda wildcards: CASES[wildcards.case].input.phantom,
        code=sources("pipeline.phantom"),
    output:
        dicom=directory(OUT + "dicom"),
        truth=OUT + "truth.json",
        mask=OUT + "truth.nrrd",
        provenance=OUT + "phantom.provenance.json",
    log:
        OUT + "logs/phantom.log",
    shell:
        "{PYTHON} -m pipeline.phantom --vessel {input.vessel:q}"
        " --dicom {output.dicom} --truth {output.truth} --truth-mask {output.mask}"
        " --provenance {output.provenance} --log {log}"


rule load:
    input:
        source=source,
        code=sources("pipeline.load"),
    output:
        volume=OUT + "volume.nrrd",
        series=OUT + "series.json",
        provenance=OUT + "load.provenance.json",
    log:
        OUT + "logs/load.log",
    params:
        settings=settings("load"),
    shell:
        "{PYTHON} -m pipeline.load --source {input.source:q}"
        " --volume {output.volume} --series {output.series}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule pick:
    input:
        volume=rules.load.output.volume,
        code=sources("pipeline.pick"),
    output:
        page=OUT + "pick.html",
        provenance=OUT + "pick.provenance.json",
    log:
        OUT + "logs/pick.log",
    params:
        settings=settings("filter"),
    shell:
        "{PYTHON} -m pipeline.pick --volume {input.volume} --page {output.page}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule filter:
    input:
        volume=rules.load.output.volume,
        points=points("filter"),
        code=sources("pipeline.filter"),
    output:
        filtered=OUT + "filtered.nrrd",
        provenance=OUT + "filter.provenance.json",
    log:
        OUT + "logs/filter.log",
    params:
        settings=settings("filter"),
    shell:
        "{PYTHON} -m pipeline.filter --volume {input.volume} --filtered {output.filtered}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule segment:
    input:
        filtered=rules.filter.output.filtered,
        volume=rules.load.output.volume,
        series=rules.load.output.series,
        points=points("segment"),
        code=sources("pipeline.segment"),
    output:
        lumen=OUT + "lumen.nrrd",
        occupancy=OUT + "occupancy.nrrd",
        segmentation=OUT + "segmentation.json",
        picture=OUT + "segmentation.png",
        page=OUT + "segmentation.html",
        provenance=OUT + "segment.provenance.json",
    wildcard_constraints:
        case=entering("dicom", "volume", "phantom"),
    log:
        OUT + "logs/segment.log",
    params:
        settings=settings("segment"),
    shell:
        "{PYTHON} -m pipeline.segment --filtered {input.filtered} --volume {input.volume} --series {input.series}"
        " --lumen {output.lumen} --occupancy {output.occupancy}"
        " --segmentation {output.segmentation} --picture {output.picture} --page {output.page}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule import_mask:
    input:
        mask=lambda wildcards: CASES[wildcards.case].input.mask,
        code=sources("pipeline.import_mask"),
    output:
        lumen=OUT + "lumen.nrrd",
        occupancy=OUT + "occupancy.nrrd",
        segmentation=OUT + "segmentation.json",
        picture=OUT + "segmentation.png",
        page=OUT + "segmentation.html",
        provenance=OUT + "import_mask.provenance.json",
    wildcard_constraints:
        case=entering("mask"),
    log:
        OUT + "logs/import_mask.log",
    params:
        settings=settings("import_mask"),
    shell:
        "{PYTHON} -m pipeline.import_mask --mask {input.mask:q} --lumen {output.lumen} --occupancy {output.occupancy}"
        " --segmentation {output.segmentation} --picture {output.picture} --page {output.page}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule surface:
    input:
        occupancy=rules.segment.output.occupancy,
        code=sources("pipeline.surface"),
    output:
        surface=OUT + "surface.vtp",
        openings=OUT + "openings.json",
        provenance=OUT + "surface.provenance.json",
    wildcard_constraints:
        case=entering("dicom", "volume", "phantom", "mask"),
    log:
        OUT + "logs/surface.log",
    params:
        settings=settings("surface"),
    shell:
        "{PYTHON} -m pipeline.surface --occupancy {input.occupancy}"
        " --surface {output.surface} --openings {output.openings}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule import_surface:
    input:
        given=lambda wildcards: CASES[wildcards.case].input.surface,
        code=sources("pipeline.import_surface"),
    output:
        surface=OUT + "surface.vtp",
        openings=OUT + "openings.json",
        provenance=OUT + "import_surface.provenance.json",
    wildcard_constraints:
        case=entering("surface"),
    log:
        OUT + "logs/import_surface.log",
    params:
        settings=settings("import_surface"),
    shell:
        "{PYTHON} -m pipeline.import_surface --given {input.given:q}"
        " --surface {output.surface} --openings {output.openings}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule canonical:
    input:
        code=sources("pipeline.canonical"),
    output:
        surface=OUT + "surface.vtp",
        openings=OUT + "openings.json",
        provenance=OUT + "canonical.provenance.json",
    wildcard_constraints:
        case=entering("geometry"),
    log:
        OUT + "logs/canonical.log",
    params:
        settings=settings("canonical"),
    shell:
        "{PYTHON} -m pipeline.canonical"
        " --surface {output.surface} --openings {output.openings}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule centreline:
    input:
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
        code=sources("pipeline.centreline"),
    output:
        centreline=OUT + "centreline.vtp",
        branches=OUT + "branches.csv",
        summary=OUT + "centreline.json",
        provenance=OUT + "centreline.provenance.json",
    log:
        OUT + "logs/centreline.log",
    params:
        settings=settings("surface"),
    threads: workflow.cores
    shell:
        "NUMBA_NUM_THREADS={threads} {PYTHON} -m pipeline.centreline"
        " --surface {input.surface} --openings {input.openings}"
        " --centreline {output.centreline} --branches {output.branches} --summary {output.summary}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule voxelize:
    input:
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
        centreline=narrowest,
        waveforms=waveforms("voxelize"),
        code=sources("pipeline.voxelize"),
    output:
        lattice=OUT + "lattice.vti",
        provenance=OUT + "voxelize.provenance.json",
    log:
        OUT + "logs/voxelize.log",
    params:
        settings=settings("voxelize"),
        centreline=lambda wildcards: " ".join(f"--centreline {path}" for path in narrowest(wildcards)),
    threads: workflow.cores
    shell:
        "NUMBA_NUM_THREADS={threads} {PYTHON} -m pipeline.voxelize"
        " --surface {input.surface} --openings {input.openings} {params.centreline}"
        " --lattice {output.lattice}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule decompose:
    input:
        lattice=rules.voxelize.output.lattice,
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
        code=sources("pipeline.decompose"),
    output:
        nodes=OUT + "nodes.h5",
        provenance=OUT + "decompose.provenance.json",
    log:
        OUT + "logs/decompose.log",
    params:
        settings=settings("decompose"),
    threads: workflow.cores
    shell:
        "NUMBA_NUM_THREADS={threads} {PYTHON} -m pipeline.decompose"
        " --lattice {input.lattice} --surface {input.surface} --openings {input.openings} --nodes {output.nodes}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule solve:
    input:
        nodes=rules.decompose.output.nodes,
        waveforms=waveforms("solve"),
        code=sources("solver.__main__"),
    output:
        flow=OUT + "flow.vtkhdf",
        monitor=OUT + "monitor.csv",
        summary=OUT + "solve.json",
        provenance=OUT + "solve.provenance.json",
    log:
        OUT + "logs/solve.log",
    params:
        settings=settings("solve"),
    threads: workflow.cores
    shell:
        "NUMBA_NUM_THREADS={threads} {PYTHON} -m solver --nodes {input.nodes}"
        " --flow {output.flow} --monitor {output.monitor} --summary {output.summary}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule postprocess:
    input:
        nodes=rules.decompose.output.nodes,
        flow=rules.solve.output.flow,
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
        monitor=rules.solve.output.monitor,
        summary=rules.solve.output.summary,
        code=sources("pipeline.postprocess"),
    output:
        wall=OUT + "wall.vtp",
        indices=OUT + "indices.json",
        provenance=OUT + "postprocess.provenance.json",
    log:
        OUT + "logs/postprocess.log",
    params:
        settings=settings("postprocess"),
    shell:
        "{PYTHON} -m pipeline.postprocess --nodes {input.nodes} --flow {input.flow} --surface {input.surface}"
        " --openings {input.openings} --monitor {input.monitor} --summary {input.summary}"
        " --wall {output.wall} --indices {output.indices}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule report:
    input:
        unpack(evidence),
        openings=rules.surface.output.openings,
        nodes=rules.decompose.output.nodes,
        flow=rules.solve.output.flow,
        monitor=rules.solve.output.monitor,
        summary=rules.solve.output.summary,
        wall=rules.postprocess.output.wall,
        indices=rules.postprocess.output.indices,
        code=sources("pipeline.report"),
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
        evidence=lambda wildcards: " ".join(f"--{role} {path}" for role, path in evidence(wildcards).items()),
    shell:
        "{PYTHON} -m pipeline.report {params.evidence} --openings {input.openings} --nodes {input.nodes} --flow {input.flow}"
        " --monitor {input.monitor} --summary {input.summary} --wall {input.wall} --indices {input.indices}"
        " --report {output.report} --figures {output.figures}"
        " --settings {params.settings:q} --provenance {output.provenance} --log {log}"


rule cohort:
    input:
        indices=expand(rules.postprocess.output.indices, case=CASES),
        records=expand(rules.report.output.provenance, case=CASES),
        figures=expand(rules.report.output.figures, case=CASES),
        code=sources("pipeline.cohort"),
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
    shell:
        "{PYTHON} -m pipeline.cohort --indices {input.indices} --records {input.records} --figures {input.figures}"
        " --page {output.page} --table {output.table} --provenance {output.provenance} --log {log}"
