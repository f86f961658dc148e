# SPDX-License-Identifier: Apache-2.0
"""From DICOM to report: one rule a stage, no computation here.

    snakemake --cores all                           every case of config/config.yaml
    snakemake --cores all --config cases=demo       one case (or several: cases=demo,other)
    snakemake --cores all --keep-going              all that can be done, whichever cases fail
    snakemake --cores all results/demo/pick.html    a page to write the case file on, seeds and all
    snakemake --cores all validation                the studies of config/studies/, of published works
    snakemake --cores all --config validation=full studies=plates -- validation    one study, all of its runs
    snakemake --profile config/profiles/slurm      on a SLURM cluster, by what that folder says

A changed setting reruns its stage and those after it; so does an edit of a module that the stage uses.
The rules lie in pipeline/rules/, by room; what they share is in pipeline/workflow/.
"""

import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from pipeline.case.beside import SECTIONS
from pipeline.case.settings.base import CONFIG, shipped
from pipeline.case.stages import SHARED
from pipeline.workflow.ahead import compile_ahead
from pipeline.workflow.asked import of_no_case, only_tells, stated_in, take_table
from pipeline.workflow.patterns import any_of, own
from pipeline.workflow.programs import Programs, code, image_of, project_files
from pipeline.workflow.recovery import recover
from pipeline.workflow.rules import Cases
from pipeline.workflow.unfinished import Unfinished
from solver.runtime.errors import StageError
from validation.studies.study_file import read_studies

min_version("9.0")


configfile: str(shipped(Path(CONFIG)))


take_table(config, workflow.config_settings.overwrite_config)

BEGAN = time.time()
BESIDE = []  # processes that end when this one does

try:
    cores = workflow.cores
except WorkflowError:
    if not only_tells(sys.argv):
        sys.exit("say how many cores to use: snakemake --cores all")
    cores = 1

try:
    # Open as long as this process lives; a Snakemake that works on a job of another leaves what that one keeps alone.
    AT_WORK = recover() if workflow.is_main_process else None
    stated = stated_in(workflow.config_settings.config, workflow.config_settings.configfiles)
    cases = Cases(config, cores, workflow.is_main_process, read_studies, stated)
    call = Programs(image_of(cases.config.container, workflow.deployment_settings))
except StageError as error:
    sys.exit(str(error))

if workflow.is_main_process and (unknown := of_no_case(sys.argv, cases.names, Path(cases.config.case_folder))):
    sys.exit(unknown)


container: cases.config.container


wildcard_constraints:
    case=any_of(cases.names),
    level=r"(?:coarser-[12]/)?",
    study=any_of(cases.studies),


rule all:
    input:
        expand("results/{case}/report.html", case=cases.cohort),
        expand("results/{case}/open-in-paraview.py", case=cases.vessels),
        expand("results/{case}/ro-crate-metadata.json", case=cases.cohort),
        expand("results/{case}/grid_convergence.json", case=cases.running("convergence")),
        expand("results/{case}/uncertainty.json", case=cases.running("uncertainty")),
        expand("results/{case}/reduced.json", case=cases.running("reduced")),
        "results/cohort.html",


include: "pipeline/rules/images.smk"
include: "pipeline/rules/geometry.smk"
include: "pipeline/rules/solve.smk"
include: "pipeline/rules/tree.smk"
include: "pipeline/rules/results.smk"
include: "pipeline/rules/cohort.smk"
include: "pipeline/rules/validation.smk"


onstart:
    # Under Snakemake's limit of jobs a second, which a cluster may need, each job that was begun wakes the scheduler once
    # a second from then on: after some hundred jobs that keeps a core busy.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None
        if not call.image:
            BESIDE.extend(compile_ahead(workflow.dag.needrun_jobs(), workflow.cores, cases))


onerror:
    if any(job.rule.name == "cohort" for job in workflow.dag.jobs):
        unfinished = Unfinished(workflow, cases, BEGAN)
        if unfinished.messages:
            unfinished.make_page(OF_EACH_CASE, COHORT_FILES, rules.cohort.output.provenance)
