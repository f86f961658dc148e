"""x"""
from collections.abc import Mapping
from pydantic import Field
from pipeline.evidence import Evidence
from pipeline.settings.base import Section
from pipeline.studies.run import Run
FILES = ("speed.json",)
class Options(Section):
    reference: str
    recorded: str | None = None
    walls: float = 0.05
def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    evidence.reach("x", 0, at_most=1)
