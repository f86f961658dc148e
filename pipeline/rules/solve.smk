# SPDX-License-Identifier: Apache-2.0
# From the nodes to the flow.


rule plausibility:
    input:
        cases.waveforms("plausibility"),
        openings=rules.surface.output.openings,
        segmentation=cases.where("segment", rules.segment.output.segmentation),
        centreline=cases.where("centreline", rules.centreline.output.summary),
    output:
        plausibility="results/{case}/plausibility.json",
        provenance="results/{case}/plausibility.provenance.json",
    log:
        "results/{case}/logs/plausibility.log",
    localrule: True
    params:
        call=call("pipeline.stages.plausibility"),
        settings=cases.settings("plausibility"),
        code=code("pipeline.stages.plausibility"),
    shell:
        "{params.call} --settings {params.settings:q} --log {log:q}"


rule solve:
    input:
        cases.waveforms("solve"),
        rules.surface.output.openings,
        cases.where("centreline", rules.centreline.output.summary),
        nodes=rules.decompose.output.nodes,
        coupling=cases.where("couple", rules.couple.output.coupling),
    output:
        flow="results/{case}/{level}flow.vtkhdf",
        monitor="results/{case}/{level}monitor.csv",
        summary="results/{case}/{level}solve.json",
        provenance="results/{case}/{level}solve.provenance.json",
    log:
        "results/{case}/{level}logs/solve.log",
    retries: cases.retries
    threads: cases.cores
    resources:
        gpu=cases.gpus,
        mpi=cases.mpi,
        tasks=cases.ranks,
        tasks_per_gpu=cases.tasks_per_gpu,
        nodes=cases.machines,
        runtime=cases.asked("minutes"),
        mem=cases.asked("memory"),
        mem_mb_per_cpu=cases.asked("memory of a core"),
    params:
        gate=call.gate(rules.surface.output.openings, rules.centreline.output.summary, cases),
        call=call("solver", checkpoint_minutes=cases.config.checkpoint_minutes),
        # No output: what a killed run leaves there is what the next one goes on from.
        checkpoint="results/{case}/{level}checkpoint",
        srun=cases.srun,
        settings=cases.settings("solve"),
        code=code("solver.__main__"),
    shell:
        "{params.gate}NUMBA_NUM_THREADS={threads} exec {params.call}{params.srun}"
        " --checkpoint {params.checkpoint:q} --settings {params.settings:q} --log {log:q}"
