# SPDX-License-Identifier: Apache-2.0
"""Regression check of the studies: an error if a goal was reached before and is not now.

A stage of its own, after the page is written, so that the page shows what the error means.
"""

from pipeline.files.json_file import read_json
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job


def _compute(job: Job) -> None:
    goals = read_json(job.inputs["goals"])
    job.log.info("%d of %d goals reached", goals["reached"], goals["goals"])
    if goals["lost"]:
        raise StageError(
            f"reached before (docs/studies), and not now: {'; '.join(goals['lost'])}; repair what changed, or, if less"
            " is to be asked, take the study's record out of docs/studies"
        )


if __name__ == "__main__":
    run_stage(
        "regression_check",
        __doc__,
        inputs={"goals": "what was lost, from validation (JSON)"},
        outputs={},
        compute=_compute,
    )
