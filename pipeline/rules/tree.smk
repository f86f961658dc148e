# SPDX-License-Identifier: Apache-2.0
# A case that is a one-dimensional network alone: computed, and told on a page.


rule tree:
    input:
        cases.waveforms("tree"),
        network=cases.given("network"),
    output:
        waveforms="results/{case}/tree.h5",
        table="results/{case}/tree.csv",
        sites="results/{case}/waveforms.csv",
        summary="results/{case}/tree.json",
        series="results/{case}/tree.vtkhdf",
        provenance="results/{case}/tree.provenance.json",
    log:
        "results/{case}/logs/tree.log",
    wildcard_constraints:
        case=any_of(cases.networks),
    params:
        call=call("pipeline.stages.tree", checkpoint_minutes=cases.config.checkpoint_minutes),
        # No output: what a killed run leaves there is what the next one goes on from.
        checkpoint="results/{case}/checkpoint",
        settings=cases.settings("tree"),
        code=code("pipeline.stages.tree"),
    shell:
        "NUMBA_NUM_THREADS=1 exec {params.call}"
        " --checkpoint {params.checkpoint:q} --settings {params.settings:q} --log {log:q}"


rule tree_report:
    input:
        summary=rules.tree.output.summary,
        waveforms=rules.tree.output.waveforms,
    output:
        report="results/{case}/report.html",
        figures=report(
            directory("results/{case}/figures"),
            patterns=["{name}.png"],
            caption="../reporting/captions.rst",
            category="{case}",
            labels={"figure": "{name}"},
        ),
        provenance="results/{case}/tree_report.provenance.json",
    log:
        "results/{case}/logs/tree_report.log",
    wildcard_constraints:
        case=any_of(cases.networks),
    params:
        call=call("pipeline.stages.tree_report"),
        settings=cases.page,
        code=code("pipeline.stages.tree_report"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"
