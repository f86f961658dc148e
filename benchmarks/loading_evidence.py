"""Worst error of loading for each fault of a series, as a table, and as JSON.

    python benchmarks/loading_evidence.py [--json benchmarks/results/DATE-loading.json]

The series hold a linear function of the place in the patient; the error is the largest deviation of a measured voxel
from it, in per cent of the range of intensities. The same series are tests (tests/test_geometry_evidence.py).
"""

import argparse
import json
import logging
import sys
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from linear_field import worst_error  # noqa: E402
from loading_faults import FAULTS, Fault  # noqa: E402

from pipeline.load import load  # noqa: E402
from pipeline.settings.images import LoadSettings  # noqa: E402
from solver.stage import StageError  # noqa: E402

LOG = logging.getLogger("evidence")


def outcome(fault: Fault, settings: LoadSettings | None) -> dict[str, Any] | None:
    """Error in per cent and what was resampled, or the reason of the refusal; None without settings."""
    if settings is None:
        return None
    with TemporaryDirectory() as folder:
        stack = fault.build(Path(folder))
        try:
            volume, facts = load(Path(folder), settings, LOG)
        except StageError as error:
            return {"refused": str(error).partition("): ")[2]}
    return {
        "worst_error_percent": 100 * worst_error(volume, stack, fault.offset),
        "matrix": facts.matrix,
        "outside_voxels": facts.outside_voxels,
        "policies": {key: found for key, found in facts.policies.items() if found["needed"]},
    }


def shown(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    if "refused" in result:
        return "refused"
    return f"{result['worst_error_percent']:.3f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    path = parser.parse_args().json
    rows = {
        name: {
            "default": outcome(fault, LoadSettings()),
            "treated": outcome(fault, fault.settings),
            "with": [*(f"{key}: resample" for key in fault.policies), *([f"phase: {fault.phase}"] * bool(fault.phase))],
        }
        for name, fault in FAULTS.items()
    }
    print("| fault | by default | treated | with |\n|---|---|---|---|")
    for name, row in rows.items():
        print(f"| {name} | {shown(row['default'])} | {shown(row['treated'])} | {', '.join(row['with'])} |")
    if path:
        path.write_text(
            json.dumps({"what": __doc__.splitlines()[0], "date": str(date.today()), "faults": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
