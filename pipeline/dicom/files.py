"""Files: what lies below a source, and which of it are images."""

import os
from collections import Counter
from pathlib import Path

from pydicom.errors import InvalidDicomError

from pipeline.dicom.header import SliceHeader, read_header
from solver.stage import StageError


def scan(folder: Path) -> tuple[list[SliceHeader], Counter[str]]:
    """Headers of all images below a folder that could be slices; how many other files there are, by reason."""
    headers: list[SliceHeader] = []
    skipped: Counter[str] = Counter()
    for number, path in enumerate(_files(folder), start=1):
        try:
            found = read_header(path, number)
        except InvalidDicomError:
            found = "not DICOM"
        except Exception as error:  # pydicom raises almost anything for a damaged header, OSError without a number too
            if isinstance(error, OSError) and error.errno is not None:
                raise StageError(
                    f"file {number} of the folder, by name, cannot be read ({error.strerror}) and could belong to the"
                    " series; mend its permissions or take it out"
                ) from None
            found = "damaged header"
        if isinstance(found, SliceHeader):
            headers.append(found)
        else:
            skipped[found] += 1
    return headers, skipped


def _files(folder: Path) -> list[Path]:
    def refuse(error: OSError) -> None:
        raise error

    try:
        walk = os.walk(folder, onerror=refuse)
        return sorted(path for root, _, names in walk for name in names if (path := Path(root, name)).is_file())
    except OSError as error:  # its text would name the folder
        raise StageError(f"a folder below the source cannot be read ({error.strerror}); mend its permissions") from None
