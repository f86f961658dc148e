# SPDX-License-Identifier: Apache-2.0
# What validates the rest: how fast the solver is, and published works computed again.


rule baseline_benchmark:
    input:
        cases.waveforms("solve"),
        nodes=rules.decompose.output.nodes,
    output:
        speed="results/{case}/{level}speed.json",
        provenance="results/{case}/{level}baseline_benchmark.provenance.json",
    log:
        "results/{case}/{level}logs/baseline_benchmark.log",
    threads: cores
    params:
        call=call("validation.baseline_benchmark"),
        settings=cases.settings("solve"),
        code=code("validation.baseline_benchmark"),
    shell:
        "NUMBA_NUM_THREADS={threads} {params.call} --settings {params.settings:q} --log {log:q}"


rule sweep:
    input:
        cases.waveforms("solve"),
        nodes=rules.decompose.output.nodes,
    output:
        # A study may be called sweeps: results/studies/sweeps.json is its record.
        sweeps="results/{case}/{level}sweep.json",
        provenance="results/{case}/{level}sweep.provenance.json",
    log:
        "results/{case}/{level}logs/sweep.log",
    threads: cores
    params:
        call=call("validation.thread_sweep"),
        settings=cases.timed,
        code=code("validation.thread_sweep"),
    shell:
        "NUMBA_NUM_THREADS={threads} {params.call} --settings {params.settings:q} --log {log:q}"


rule study:
    input:
        cases.files_of_study,
        project_files("data/reference/*.csv"),
        nodes=cases.runs_of_study(rules.decompose.output.nodes),
        flow=cases.runs_of_study(rules.solve.output.flow),
        monitor=cases.runs_of_study(rules.solve.output.monitor),
        summary=cases.runs_of_study(rules.solve.output.summary),
    output:
        record="results/studies/{study}.json",
        figures=directory("results/studies/{study}"),
        provenance="results/studies/{study}.provenance.json",
    log:
        "results/studies/{study}.log",
    params:
        call=call("validation.study"),
        settings=cases.study,
        code=code("validation.study"),
        measure=cases.measure,
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule validation_page:
    input:
        records=expand("results/studies/{study}.json", study=cases.studies_in_set()),
        figures=expand("results/studies/{study}", study=cases.studies_in_set()),
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
        call=call("validation.summary"),
        code=code("validation.summary"),
    shell:
        "{params.call} --old-docs {output.docs:q} --old-pages {output.pages:q} --old-kept {output.kept:q} --log {log:q}"


rule validation:
    input:
        goals=rules.validation_page.output.goals,
    output:
        provenance="results/validation.provenance.json",
    log:
        "results/validation.log",
    params:
        call=call("validation.regression_check"),
        code=code("validation.regression_check"),
    shell:
        "{params.call} --log {log:q}"
