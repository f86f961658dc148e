# SPDX-License-Identifier: Apache-2.0
"""Objects that a stage wrote for others, as JSON."""

import json
from pathlib import Path
from typing import Any

from solver.runtime.errors import StageError


def read_json(path: Path) -> dict[str, Any]:
    """Read an object that another stage wrote.

    Raises
    ------
    StageError
        If the file holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StageError(f"{path}: no JSON ({error}); run the stage that makes it again") from None
    if not isinstance(values, dict):
        raise StageError(f"{path}: an object is wanted; run the stage that makes it again")
    return values
