"""What a run of the workflow left, without what differs from run to run: to compare runs that must agree."""

import json
from pathlib import Path

from solver.stage import checksum

TIMES = {
    "seconds",
    "mlups",
    "memory_mb",
    "forecast",
    "finished",
    "peak_memory_mb",
    "made",
    "outputs_sha256",
    "inputs_sha256",
}
"""Keys of JSON whose values differ from run to run."""


def without_times(value: object) -> object:
    """A record without what differs from run to run."""
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if key not in TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def results(folder: Path) -> dict[str, object]:
    """What a case left, by file: checksums, and records without times; of logs and the report that they are there."""
    found: dict[str, object] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if path.suffix == ".json":
            found[name] = without_times(json.loads(path.read_text()))
        else:
            found[name] = "made" if path.suffix == ".log" or path.name == "report.html" else checksum(path)
    return found
