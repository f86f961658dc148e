# SPDX-License-Identifier: Apache-2.0
"""Notebooks run cell by cell in this process, without a kernel of Jupyter.

    python -m tests.support.notebook docs/tutorials/mask-to-wss.ipynb

runs one and writes what its cells print and draw into it.
"""

import base64
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run the cells in their order and put their outputs into them; the names that are left."""
    names: dict[str, Any] = {"__name__": "__main__"}
    pyplot.close("all")  # what others have left
    for number, cell in enumerate(code_cells(notebook), start=1):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"<cell {number}>", "exec"), names)
        cell["outputs"] = [*_text(printed.getvalue()), *map(_picture, pyplot.get_fignums())]
        cell["execution_count"] = number
        pyplot.close("all")
    return names


def _text(printed: str) -> list[dict[str, Any]]:
    lines = printed.splitlines(keepends=True)
    return [{"output_type": "stream", "name": "stdout", "text": lines}] if lines else []


def _picture(figure: int) -> dict[str, Any]:
    file = io.BytesIO()
    pyplot.figure(figure).savefig(file, format="png", dpi=80, bbox_inches="tight")
    data = {"image/png": base64.b64encode(file.getvalue()).decode()}
    return {"output_type": "display_data", "data": data, "metadata": {}}


if __name__ == "__main__":
    path = Path(sys.argv[1])
    found = json.loads(path.read_text(encoding="utf-8"))
    run(found)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
