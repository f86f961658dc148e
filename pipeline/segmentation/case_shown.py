# SPDX-License-Identifier: Apache-2.0
"""What of a case file may stand on a page: whatever the user wrote, but for what may lead to a patient."""

from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from pipeline.dicom.uids import short_hash

PLACEHOLDER = "put the path of your images here"
"""Stands for a path that is not shown; no file has this name, so that a case with it is refused."""

FILES = ("dicom", "volume", "mask", "surface", "phantom", "seeds_file", "background_file", "waveform")
"""Keys whose values are paths."""

FREE_TEXT = ("description", "report")
"""Sections that a user may have written anything into."""


def shown(case: dict[str, Any]) -> dict[str, Any]:
    """The sections of a case without free text, with a placeholder for each path that is not relative.

    A path that starts at the root of a disk names the user, and often the archive or the patient; one that is relative
    to the project is a name that the user gave to the case. A SeriesInstanceUID, which can be traced, becomes the short
    hash by which the same series is chosen.

    Parameters
    ----------
    case : keys that were given, and their values, as JSON holds them.
    """
    kept = {key: _shown(key, value) for key, value in case.items() if key not in FREE_TEXT}
    series = kept.get("load", {}).get("series")
    if series and "." in series:
        kept["load"]["series"] = short_hash(series)
    return kept


def _shown(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shown(name, each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown(key, each) for each in value]
    if key not in FILES or not isinstance(value, str):
        return value
    absolute = value.startswith("~") or PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute()
    return PLACEHOLDER if absolute else value
