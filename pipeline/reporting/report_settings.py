# SPDX-License-Identifier: Apache-2.0
"""What the command lines of the pages of a case take."""

from pydantic import Field

from pipeline.case.settings.base import RunName
from pipeline.case.settings.flow import ReportSettings


class ReportInput(ReportSettings):
    """The report's section of the case, and what the page says of the case."""

    case: RunName = Field(description="name of the case")
    description: str = Field("", description="what this case is; no name of a patient")
