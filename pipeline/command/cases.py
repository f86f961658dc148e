# SPDX-License-Identifier: Apache-2.0
"""Cases: which ones a command means, by names or by files."""

from pathlib import Path
from typing import Any

from pipeline.case.settings import base
from solver.runtime.errors import StageError

FOLDER, CONFIG = Path("config/cases"), Path(base.CONFIG)
"""Where case files lie, and what chooses among them, in the folder of the user."""
ENDINGS = (".yaml", ".yml")
NEW = "write one by `hemolattice new NAME --dicom FOLDER --flow ML_S`, or see `hemolattice demo`"


def name_of(word: str) -> str:
    """Name of a case, which was given by its name or by its file."""
    return Path(word).stem if word.endswith(ENDINGS) else word


def configuration(words: list[str]) -> dict[str, Any]:
    """Keys of the workflow's configuration that choose cases.

    Parameters
    ----------
    words : names or files of cases; none: all of `CONFIG`, or, where there is none, all of `FOLDER`.

    Raises
    ------
    StageError
        If there is no such file or no case at all, or files lie in different folders.
    """
    if not words:
        names = sorted(path.stem for path in FOLDER.glob("*.yaml"))
        if not names and not CONFIG.exists():
            raise StageError(f"no case in {FOLDER}/; {NEW}")
        return {} if CONFIG.exists() else {"cases": names}
    files = [Path(word) for word in words if word.endswith(ENDINGS)]
    for file in files:
        if not file.is_file():
            raise StageError(f"{file}: no such file; {_known(file.parent)}")
        if file.suffix != ENDINGS[0]:
            raise StageError(f"{file}: call it {file.with_suffix(ENDINGS[0]).name}, as all case files")
    folders = {file.parent for file in files} | ({FOLDER} if len(files) < len(words) else set())
    if len(folders) > 1:
        raise StageError(
            f"cases lie in {' and in '.join(sorted(map(str, folders)))}; run those of one folder at a time"
        )
    folder = folders.pop()
    chosen = {"cases": [name_of(word) for word in words]}
    return chosen if folder == FOLDER else chosen | {"case_folder": str(folder)}


def _known(folder: Path) -> str:
    names = sorted(path.name for path in folder.glob("*.yaml")) if folder.is_dir() else []
    return f"{folder}/ has {', '.join(names)}" if names else NEW
