# SPDX-License-Identifier: Apache-2.0
# From the flow to what a reader sees of a case.


rule postprocess:
    input:
        nodes=rules.decompose.output.nodes,
        flow=rules.solve.output.flow,
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
        monitor=rules.solve.output.monitor,
        summary=rules.solve.output.summary,
        centreline=cases.where("centreline", rules.centreline.output.centreline),
        plausibility=cases.where("plausibility", rules.plausibility.output.plausibility),
        segmentation=cases.where("segment", rules.segment.output.segmentation),
        coupling=cases.where("couple", rules.couple.output.summary),
    output:
        wall="results/{case}/{level}wall.vtp",
        wall_over_time="results/{case}/{level}wall_over_time.vtkhdf",
        statistics="results/{case}/{level}flow_statistics.vtkhdf",
        indices="results/{case}/{level}indices.json",
        indices_table="results/{case}/{level}indices.csv",
        openings_table="results/{case}/{level}openings.csv",
        along="results/{case}/{level}centreline_flow.vtp",
        along_table="results/{case}/{level}centreline_flow.csv",
        provenance="results/{case}/{level}postprocess.provenance.json",
    log:
        "results/{case}/{level}logs/postprocess.log",
    threads: cases.half_the_cores
    params:
        call=call("pipeline.stages.postprocess"),
        settings=cases.settings("postprocess"),
        code=code("pipeline.stages.postprocess"),
    shell:
        "NUMBA_NUM_THREADS={threads} {params.call} --settings {params.settings:q} --log {log:q}"


rule trace:
    input:
        nodes=own(rules.decompose.output.nodes),
        flow=own(rules.solve.output.flow),
        surface=rules.surface.output.surface,
        monitor=own(rules.solve.output.monitor),
        summary=own(rules.solve.output.summary),
    output:
        streamlines="results/{case}/streamlines.vtp",
        pathlines="results/{case}/pathlines.vtp",
        residence="results/{case}/residence.vtp",
        numbers="results/{case}/particles.json",
        animation="results/{case}/particles.gif",
        provenance="results/{case}/trace.provenance.json",
    log:
        "results/{case}/logs/trace.log",
    threads: cases.half_the_cores
    params:
        call=call("pipeline.stages.trace"),
        settings=cases.settings("trace"),
        code=code("pipeline.stages.trace"),
    shell:
        "NUMBA_NUM_THREADS={threads} {params.call} --settings {params.settings:q} --log {log:q}"


rule transport:
    input:
        nodes=own(rules.decompose.output.nodes),
        flow=own(rules.solve.output.flow),
        surface=rules.surface.output.surface,
        monitor=own(rules.solve.output.monitor),
        summary=own(rules.solve.output.summary),
        indices=own(rules.postprocess.output.indices),
    output:
        fields="results/{case}/transport.vtkhdf",
        curves="results/{case}/transport.csv",
        numbers="results/{case}/transport.json",
        strip="results/{case}/angiogram.png",
        angiogram="results/{case}/angiogram.webp",
        provenance="results/{case}/transport.provenance.json",
    log:
        "results/{case}/logs/transport.log",
    threads: cases.cores
    resources:
        gpu=cases.gpus,
    params:
        call=call("pipeline.stages.transport", checkpoint_minutes=cases.config.checkpoint_minutes),
        # No output, as that of solve.
        checkpoint="results/{case}/transport-checkpoint",
        settings=cases.settings("transport"),
        code=code("pipeline.stages.transport"),
    shell:
        "NUMBA_NUM_THREADS={threads} exec {params.call} --checkpoint {params.checkpoint:q}"
        " --settings {params.settings:q} --log {log:q}"


rule convergence:
    input:
        indices=cases.on_every_lattice(rules.postprocess.output.indices),
        summary=cases.on_every_lattice(rules.solve.output.summary),
        wall=cases.on_every_lattice(rules.postprocess.output.wall),
        openings=rules.surface.output.openings,
    output:
        grid="results/{case}/grid_convergence.json",
        table="results/{case}/grid_convergence.csv",
        provenance="results/{case}/convergence.provenance.json",
    log:
        "results/{case}/logs/convergence.log",
    params:
        call=call("pipeline.stages.convergence"),
        settings=cases.settings("convergence"),
        code=code("pipeline.stages.convergence"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule member:
    input:
        cases.waveforms("solve"),
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
        segmentation=cases.where("segment", rules.segment.output.segmentation),
        summary=own(rules.solve.output.summary),
        flow=own(rules.solve.output.flow),
        wall=own(rules.postprocess.output.wall),
        indices=own(rules.postprocess.output.indices),
    output:
        member="results/{case}/members/member-{number}.h5",
        provenance="results/{case}/members/member-{number}.provenance.json",
    log:
        "results/{case}/members/member-{number}.log",
    wildcard_constraints:
        case=cases.computing("member"),
        number=r"\d+",
    resources:
        gpu=cases.gpus,
    params:
        call=call("pipeline.members.member"),
        settings=cases.settings_of_member,
        code=code("pipeline.members.member"),
    shell:
        "NUMBA_NUM_THREADS={threads} {params.call} --settings {params.settings:q} --log {log:q}"


rule uncertainty:
    input:
        members=cases.members(rules.member.output.member),
        surface=rules.surface.output.surface,
        indices=own(rules.postprocess.output.indices),
        wall=own(rules.postprocess.output.wall),
    output:
        bands="results/{case}/uncertainty.json",
        table="results/{case}/uncertainty.csv",
        wall_map="results/{case}/wall_uncertainty.vtp",
        provenance="results/{case}/uncertainty.provenance.json",
    log:
        "results/{case}/logs/uncertainty.log",
    params:
        call=call("pipeline.stages.uncertainty"),
        settings=cases.settings("uncertainty"),
        code=code("pipeline.stages.uncertainty"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule other_flow:
    input:
        cases.waveforms("solve"),
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
        centreline=cases.where("centreline", rules.centreline.output.centreline),
        summary=own(rules.solve.output.summary),
        flow=own(rules.solve.output.flow),
        indices=own(rules.postprocess.output.indices),
    output:
        run="results/{case}/flows/flow-{number}.json",
        provenance="results/{case}/flows/flow-{number}.provenance.json",
    log:
        "results/{case}/flows/flow-{number}.log",
    wildcard_constraints:
        case=cases.computing("other_flow"),
        number=r"\d+",
    resources:
        gpu=cases.gpus,
    params:
        call=call("pipeline.members.other_flow"),
        settings=cases.settings_of_other_flow,
        code=code("pipeline.members.other_flow"),
    shell:
        "NUMBA_NUM_THREADS={threads} {params.call} --settings {params.settings:q} --log {log:q}"


rule reduced:
    input:
        runs=cases.other_flows(rules.other_flow.output.run),
        indices=own(rules.postprocess.output.indices),
        along=cases.where("centreline", rules.postprocess.output.along_table),
        summary=own(rules.solve.output.summary),
    output:
        model="results/{case}/reduced.json",
        network="results/{case}/reduced.yaml",
        table="results/{case}/reduced.csv",
        provenance="results/{case}/reduced.provenance.json",
    log:
        "results/{case}/logs/reduced.log",
    params:
        call=call("pipeline.stages.reduced"),
        settings=cases.settings("reduced"),
        code=code("pipeline.stages.reduced"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


for KIND in SECTIONS:
    MADE = getattr(rules, KIND)

    rule:
        name:
            f"link_{KIND}"
        input:
            given=cases.of_owner(KIND, *MADE.output),
        output:
            [str(path) for path in MADE.output],
        log:
            str(MADE.log[0]),
        wildcard_constraints:
            case=cases.linking(KIND),
            number=r"\d+",
        localrule: True
        params:
            call=call("pipeline.stages.link"),
            log=cases.of_owner(KIND, *MADE.log),
        shell:
            "{params.call} --made {output:q} --given-log {params.log:q} --log {log:q}"


rule paraview:
    input:
        wall=own(rules.postprocess.output.wall),
        flow=own(rules.solve.output.flow),
        statistics=own(rules.postprocess.output.statistics),
        streamlines=rules.trace.output.streamlines,
        pathlines=rules.trace.output.pathlines,
        along=cases.where("centreline", rules.postprocess.output.along),
    output:
        script="results/{case}/open-in-paraview.py",
        provenance="results/{case}/paraview.provenance.json",
    log:
        "results/{case}/logs/paraview.log",
    localrule: True
    params:
        call=call("pipeline.stages.paraview"),
        settings=cases.name,
        code=code("pipeline.stages.paraview"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule report:
    input:
        unpack(
            cases.evidence(
                of_lumen={
                    "series": rules.load.output.series,
                    "segmentation": rules.segment.output.segmentation,
                    "picture": rules.segment.output.picture,
                },
                of_lines={
                    "centreline": rules.centreline.output.centreline,
                    "branches": rules.centreline.output.summary,
                    "along": rules.postprocess.output.along_table,
                },
                convergence={"grid": rules.convergence.output.grid},
                uncertainty={"bands": rules.uncertainty.output.bands, "wall_map": rules.uncertainty.output.wall_map},
                reduced={"reduced": rules.reduced.output.model},
                transport={
                    "carried": rules.transport.output.numbers,
                    "curves": rules.transport.output.curves,
                    "strip": rules.transport.output.strip,
                    "angiogram": rules.transport.output.angiogram,
                },
            )
        ),
        openings=rules.surface.output.openings,
        nodes=own(rules.decompose.output.nodes),
        flow=own(rules.solve.output.flow),
        monitor=own(rules.solve.output.monitor),
        summary=own(rules.solve.output.summary),
        wall=own(rules.postprocess.output.wall),
        indices=own(rules.postprocess.output.indices),
        particles=rules.trace.output.numbers,
        animation=rules.trace.output.animation,
        pathlines=rules.trace.output.pathlines,
    output:
        report="results/{case}/report.html",
        figures=report(
            directory("results/{case}/figures"),
            patterns=["{name}.png"],
            caption="../reporting/captions.rst",
            category="{case}",
            labels={"figure": "{name}"},
        ),
        provenance="results/{case}/report.provenance.json",
    log:
        "results/{case}/logs/report.log",
    wildcard_constraints:
        case=any_of(cases.with_vessel),
    params:
        call=call("pipeline.stages.report"),
        settings=cases.page,
        code=code("pipeline.stages.report"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule crate:
    input:
        records=cases.records(rules),
        snakefile=project_files("Snakefile"),
        rules=project_files("pipeline/rules/*.smk"),
    output:
        metadata="results/{case}/ro-crate-metadata.json",
        case="results/{case}/case.yaml",
        workflow="results/{case}/workflow.smk",
        workflow_rules=directory("results/{case}/pipeline/rules"),
        provenance="results/{case}/crate.provenance.json",
    log:
        "results/{case}/logs/crate.log",
    params:
        call=call("pipeline.stages.crate"),
        settings=cases.whole,
        code=code("pipeline.stages.crate"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"
