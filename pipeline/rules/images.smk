# SPDX-License-Identifier: Apache-2.0
# From images to the lumen.


rule phantom:
    input:
        vessel=cases.given("phantom"),
    output:
        dicom=directory("results/{case}/dicom"),
        truth="results/{case}/truth.json",
        truth_mask="results/{case}/truth.nrrd",
        provenance="results/{case}/phantom.provenance.json",
    log:
        "results/{case}/logs/phantom.log",
    params:
        call=call("pipeline.stages.phantom"),
        code=code("pipeline.stages.phantom"),
    shell:
        "{params.call} --log {log:q}"


rule load:
    input:
        source=cases.images(rules.phantom.output.dicom),
    output:
        volume="results/{case}/volume.nrrd",
        series="results/{case}/series.json",
        provenance="results/{case}/load.provenance.json",
    log:
        "results/{case}/logs/load.log",
    wildcard_constraints:
        case=cases.computing("load"),
    params:
        call=call("pipeline.stages.load"),
        settings=cases.settings("load"),
        code=code("pipeline.stages.load"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule pick:
    input:
        volume=rules.load.output.volume,
        series=rules.load.output.series,
    output:
        page="results/{case}/pick.html",
        provenance="results/{case}/pick.provenance.json",
    log:
        "results/{case}/logs/pick.log",
    params:
        call=call("pipeline.stages.pick"),
        settings=cases.settings("pick"),
        code=code("pipeline.stages.pick"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule filter:
    input:
        cases.points("filter"),
        volume=rules.load.output.volume,
    output:
        filtered="results/{case}/filtered.nrrd",
        provenance="results/{case}/filter.provenance.json",
    log:
        "results/{case}/logs/filter.log",
    wildcard_constraints:
        case=cases.computing("filter"),
    params:
        call=call("pipeline.stages.filter"),
        settings=cases.settings("filter"),
        code=code("pipeline.stages.filter"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule segment:
    input:
        cases.points("segment"),
        filtered=rules.filter.output.filtered,
        volume=rules.load.output.volume,
        series=rules.load.output.series,
    output:
        lumen="results/{case}/lumen.nrrd",
        occupancy="results/{case}/occupancy.nrrd",
        segmentation="results/{case}/segmentation.json",
        picture="results/{case}/segmentation.png",
        page="results/{case}/segmentation.html",
        provenance="results/{case}/segment.provenance.json",
    log:
        "results/{case}/logs/segment.log",
    wildcard_constraints:
        case=cases.computing("segment"),
    params:
        call=call("pipeline.stages.segment"),
        settings=cases.settings("segment"),
        code=code("pipeline.stages.segment"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule import_mask:
    input:
        mask=cases.given("mask"),
    output:
        lumen="results/{case}/lumen.nrrd",
        occupancy="results/{case}/occupancy.nrrd",
        segmentation="results/{case}/segmentation.json",
        picture="results/{case}/segmentation.png",
        page="results/{case}/segmentation.html",
        provenance="results/{case}/import_mask.provenance.json",
    log:
        "results/{case}/logs/import_mask.log",
    wildcard_constraints:
        case=cases.computing("import_mask"),
    params:
        call=call("pipeline.stages.import_mask"),
        settings=cases.settings("import_mask"),
        code=code("pipeline.stages.import_mask"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"
