# SPDX-License-Identifier: Apache-2.0
# All cases side by side.

WITH_BANDS = set(cases.running("uncertainty"))
OF_EACH_CASE = {
    "indices": cases.by_kind(own(rules.postprocess.output.indices), rules.tree.output.summary),
    "records": cases.by_kind(rules.report.output.provenance, rules.tree_report.output.provenance),
    "figures": cases.by_kind(rules.report.output.figures, rules.tree_report.output.figures),
    "bands": lambda run: rules.uncertainty.output.bands.format(case=run) if run in WITH_BANDS else "",
}
COHORT_FILES = {
    "page": "results/cohort.html",
    "table": "results/cohort.csv",
    "dictionary": "results/cohort.dictionary.csv",
}


rule cohort:
    input:
        **{role: [file for run in cases.cohort if (file := path(run))] for role, path in OF_EACH_CASE.items()},
    output:
        page=report(
            COHORT_FILES["page"],
            caption="../reporting/cohort.rst",
            category="All cases",
            labels={"figure": "the cases side by side"},
        ),
        table=report(
            COHORT_FILES["table"],
            caption="../reporting/cohort.rst",
            category="All cases",
            labels={"figure": "the same as a table"},
        ),
        dictionary=COHORT_FILES["dictionary"],
        provenance="results/cohort.provenance.json",
    log:
        "results/cohort.log",
    params:
        call=call("pipeline.stages.cohort"),
        code=code("pipeline.stages.cohort"),
    shell:
        "{params.call} --log {log:q}"
