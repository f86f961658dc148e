# SPDX-License-Identifier: Apache-2.0
"""What a run of the workflow left, without what differs from run to run: to compare runs that must agree."""

import json
from pathlib import Path

from solver.runtime.checksums import checksum

TIMES = {
    "seconds",
    "mlups",
    "memory_mb",
    "forecast",
    "started",
    "finished",
    "peak_memory_mb",
    "peak_memory_of_helpers_mb",
    "made",
    "outputs_sha256",
    "inputs_sha256",
    "hemolattice_commit",
}
"""Keys of JSON whose values differ from run to run; a copy of the project has no commit, its source has a checksum."""

TELLING = ("report.html", "ro-crate-metadata.json")


def without_times(value: object) -> object:
    """A record without what differs from run to run."""
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if key not in TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def results(folder: Path) -> dict[str, object]:
    """What a case left, by file: checksums, and records without times; of what tells times or checksums of what does,
    which are logs, the report and the crate, that they are there.
    """
    found: dict[str, object] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if path.suffix == ".log" or path.name in TELLING:
            found[name] = "made"
        else:
            found[name] = without_times(json.loads(path.read_text())) if path.suffix == ".json" else checksum(path)
    return found
