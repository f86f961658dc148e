# SPDX-License-Identifier: Apache-2.0
"""Listing: the series of a source and their parts, and whether each can be loaded, from the headers alone."""

import argparse
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from pipeline.case.settings.images import LoadSettings
from pipeline.dicom.dataset import quiet
from pipeline.dicom.files import Scan, collect, counted, files_of, scan
from pipeline.dicom.left_out import LeftOut, left_out, require_complete_series
from pipeline.dicom.series import Series, grid, group, require_supported, take
from pipeline.dicom.transfer_syntax import require_decoder
from solver.runtime.errors import StageError

COLUMNS = (
    "number",
    "hash",
    "modality",
    "description",
    "part",
    "files",
    "matrix",
    "spacing mm",
    "extent mm",
    "contrast",
    "usable",
)


def show() -> int:
    """Command line of ``--list``: print the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.load", description=__doc__)
    parser.add_argument(
        "--list", nargs="+", type=Path, required=True, metavar="PATH", help="folders, DICOMDIRs, ZIP files, DICOM files"
    )
    paths = parser.parse_args().list
    try:
        for path in paths:
            if not path.exists():
                raise StageError(f"--list {path}: no such file or folder; correct the path")
        print(listing(paths))
    except StageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # its text would name a file
        print(f"error: a source cannot be read ({error.strerror})", file=sys.stderr)
        return 1
    return 0


def listing(sources: list[Path]) -> str:
    """The table of the series of some sources.

    Parameters
    ----------
    sources : as of `pipeline.dicom.files.collect`.

    Returns
    -------
    One row a series, or one row a part where it has several (numbered as in ``load.phase``); below it, why it cannot be
    loaded.

    Raises
    ------
    StageError
        If there is no series of images.
    """
    with quiet(), collect(sources) as found:
        scanned = scan(found)
        every = group(scanned.headers)
        every.sort(key=lambda series: (_number(series) is None, _number(series) or 0, series.hash))
        rows = [row for series in every for row in _rows(series, every, scanned)]
    count = len(files_of(scanned.headers)) + scanned.skipped.total()
    heading = f"{len(every)} series in {count} files (skipped: {counted(scanned.skipped)})"
    return "\n".join([heading, "", *_aligned(rows)])


def _number(series: Series) -> int | None:
    return series.headers[0].series_number


def _rows(series: Series, every: list[Series], scanned: Scan) -> Iterator[tuple[list[str], str]]:
    """Cells of each part's row, and why it cannot be loaded."""
    first, parts = series.headers[0], series.parts
    for k, part in enumerate(parts, start=1):
        chosen = take(series, part)
        matrix, spacing, extent, fault = _geometry(chosen, left_out(series, chosen, every, scanned))
        alone = len(series.candidates) == 1 and part is series.candidates[0]
        usable = "no" if fault else "yes" if len(parts) == 1 or alone else f"with load.phase: {k}"
        of_series = ["" if number is None else str(number) for number in [_number(series)]]
        of_series += [series.hash, first.modality, first.description]
        contrast = "yes" if any(header.contrast_agent for header in part.headers) else "not recorded"
        yield (
            [
                *(of_series if k == 1 else [""] * len(of_series)),
                f"{k}: {part.name}" if len(parts) > 1 else "",
                str(len(files_of(part.headers))),
                matrix,
                spacing,
                extent,
                contrast,
                usable,
            ],
            fault,
        )


def _geometry(part: Series, lost: list[LeftOut]) -> tuple[str, str, str, str]:
    """Matrix, spacing and extent, as far as they are known, and why the part cannot be loaded."""
    first = part.headers[0]
    size = (first.columns, first.rows, len(part.headers))
    pixel = first.pixel_spacing_mm
    spacing = f"{pixel[1]:.4g} x {pixel[0]:.4g}" if pixel else "?"
    try:
        require_complete_series(part, lost, LoadSettings(), logging.getLogger(__name__))
        require_supported(part)
        require_decoder(part)
        place = grid(part, LoadSettings())
    except StageError as refusal:
        return _by(size), spacing, "?", str(refusal).removeprefix(f"{part.name}: ")
    extent = [count * step for count, step in zip(size, place.spacing_mm, strict=True)]
    return _by(size), _by(place.spacing_mm), _by(extent), ""


def _by(values: tuple[float, ...] | list[float]) -> str:
    return " x ".join(f"{value:.4g}" for value in values)


def _aligned(rows: list[tuple[list[str], str]]) -> Iterator[str]:
    cells = [list(COLUMNS), *(row for row, _ in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(COLUMNS))]
    for row, fault in [(list(COLUMNS), ""), *rows]:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if fault:
            yield f"        {fault}"
