# SPDX-License-Identifier: Apache-2.0
# From the lumen to the nodes of the lattice, and links to what scenarios of a case have in common.


rule surface:
    input:
        occupancy=rules.segment.output.occupancy,
        segmentation=rules.segment.output.segmentation,
        filtered=cases.where("filter", rules.filter.output.filtered),
    output:
        surface="results/{case}/surface.vtp",
        openings="results/{case}/openings.json",
        provenance="results/{case}/surface.provenance.json",
    log:
        "results/{case}/logs/surface.log",
    wildcard_constraints:
        case=cases.computing("surface"),
    params:
        call=call("pipeline.stages.surface"),
        settings=cases.settings("surface"),
        code=code("pipeline.stages.surface"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule import_surface:
    input:
        given=cases.given("surface"),
    output:
        surface="results/{case}/surface.vtp",
        openings="results/{case}/openings.json",
        provenance="results/{case}/import_surface.provenance.json",
    log:
        "results/{case}/logs/import_surface.log",
    wildcard_constraints:
        case=cases.computing("import_surface"),
    params:
        call=call("pipeline.stages.import_surface"),
        settings=cases.settings("import_surface"),
        code=code("pipeline.stages.import_surface"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule canonical:
    output:
        surface="results/{case}/surface.vtp",
        openings="results/{case}/openings.json",
        provenance="results/{case}/canonical.provenance.json",
    log:
        "results/{case}/logs/canonical.log",
    wildcard_constraints:
        case=cases.computing("canonical"),
    params:
        call=call("pipeline.stages.canonical"),
        settings=cases.settings("canonical"),
        code=code("pipeline.stages.canonical"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule centreline:
    input:
        segmentation=cases.where("segment", rules.segment.output.segmentation),
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
    output:
        centreline="results/{case}/centreline.vtp",
        branches="results/{case}/branches.csv",
        summary="results/{case}/centreline.json",
        provenance="results/{case}/centreline.provenance.json",
    log:
        "results/{case}/logs/centreline.log",
    wildcard_constraints:
        case=cases.computing("centreline"),
    threads: cases.cores
    params:
        call=call("pipeline.stages.centreline"),
        settings=cases.settings("centreline"),
        code=code("pipeline.stages.centreline"),
    shell:
        "NUMBA_NUM_THREADS={threads} {params.call} --settings {params.settings:q} --log {log:q}"


rule couple:
    input:
        cases.waveforms("couple"),
        network=cases.around,
        openings=rules.surface.output.openings,
        centreline=cases.where("centreline", rules.centreline.output.summary),
    output:
        coupling="results/{case}/coupling.h5",
        caps=directory("results/{case}/caps"),
        summary="results/{case}/coupling.json",
        provenance="results/{case}/couple.provenance.json",
    log:
        "results/{case}/logs/couple.log",
    wildcard_constraints:
        case=any_of(cases.coupled),
    params:
        call=call("pipeline.stages.couple"),
        settings=cases.settings("couple"),
        code=code("pipeline.stages.couple"),
    shell:
        "NUMBA_NUM_THREADS=1 {params.call} --settings {params.settings:q} --log {log:q}"


rule voxelize:
    input:
        cases.waveforms("voxelize"),
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
        centreline=cases.where("centreline", rules.centreline.output.summary),
        lines=cases.where("centreline", rules.centreline.output.centreline),
    output:
        lattice="results/{case}/{level}lattice.vti",
        provenance="results/{case}/{level}voxelize.provenance.json",
    log:
        "results/{case}/{level}logs/voxelize.log",
    wildcard_constraints:
        case=cases.computing("voxelize"),
    threads: cases.cores
    params:
        call=call("pipeline.stages.voxelize"),
        settings=cases.settings_of_level("voxelize"),
        code=code("pipeline.stages.voxelize"),
    shell:
        "NUMBA_NUM_THREADS={threads} {params.call} --settings {params.settings:q} --log {log:q}"


rule decompose:
    input:
        lattice=rules.voxelize.output.lattice,
        surface=rules.surface.output.surface,
        openings=rules.surface.output.openings,
    output:
        nodes="results/{case}/{level}nodes.h5",
        provenance="results/{case}/{level}decompose.provenance.json",
    log:
        "results/{case}/{level}logs/decompose.log",
    wildcard_constraints:
        case=cases.computing("decompose"),
    threads: cases.cores
    params:
        call=call("pipeline.stages.decompose"),
        settings=cases.settings("decompose"),
        code=code("pipeline.stages.decompose"),
    shell:
        "NUMBA_NUM_THREADS={threads} {params.call} --settings {params.settings:q} --log {log:q}"


for STAGE in SHARED:
    MADE = getattr(rules, STAGE)

    rule:
        name:
            f"link_{STAGE}"
        input:
            cases.stage_before(STAGE, rules),
            given=cases.of_owner(STAGE, *MADE.output),
        output:
            [str(path) for path in MADE.output],
        log:
            str(MADE.log[0]),
        wildcard_constraints:
            case=cases.linking(STAGE),
        localrule: True
        params:
            call=call("pipeline.stages.link"),
            log=cases.of_owner(STAGE, *MADE.log),
        shell:
            "{params.call} --made {output:q} --given-log {params.log:q} --log {log:q}"
