# SPDX-License-Identifier: Apache-2.0
"""The list of series says what there is, what can be loaded, and why the rest cannot."""

from pathlib import Path

import pytest

from pipeline.dicom.listing import COLUMNS, listing
from pipeline.stages.phantom import localizer
from solver.runtime.errors import StageError
from tests.pipeline.dicom.test_parts import two
from tests.support.command_lines import run_here
from tests.support.dicom_files import SLICES, edit, noise, oblique, put, read, truncate, write
from tests.support.dicom_writer import item
from tests.support.real_cases import RealCases


def table(*sources: Path) -> tuple[str, list[dict[str, str]], dict[int, str]]:
    """Heading, rows by column, and reasons by the number of the row above."""
    heading, _, names, *lines = listing(list(sources)).splitlines()
    starts = [names.index(column) for column in COLUMNS]
    rows: list[dict[str, str]] = []
    reasons = {}
    for line in lines:
        if line[:8].isspace() and not line[8].isspace():
            reasons[len(rows) - 1] = line.strip()
        else:
            cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
            rows.append(dict(zip(COLUMNS, cells, strict=True)))
    return heading, rows, reasons


def test_a_series_is_listed_with_its_geometry_and_what_it_is(tmp_path):
    write(oblique(noise()), tmp_path, 12)
    edit(tmp_path, put(SeriesDescription="CTA Head 1.0 mm Kowalska", ContrastBolusAgent="agent of somebody"))
    (tmp_path / "junk").write_text("junk")
    heading, rows, reasons = table(tmp_path)
    assert heading == "1 series in 7 files (skipped: 1 not DICOM)"
    _, facts = read(tmp_path)
    assert rows == [
        {
            "number": "12",
            "hash": facts.series,
            "modality": "CT",
            "description": "cta head 1.0 mm …",
            "part": "",
            "files": "6",
            "matrix": "17 x 11 x 6",
            "spacing mm": "0.35 x 0.5 x 0.8",
            "extent mm": "5.95 x 5.5 x 4.8",
            "contrast": "yes",
            "usable": "yes",
        }
    ]
    assert not reasons


def test_what_cannot_be_loaded_is_listed_with_the_reason(tmp_path):
    write(oblique(noise()), tmp_path / "gap", 1)
    edit(tmp_path / "gap", lambda dataset, k: k != 3)
    write(localizer(oblique(noise((8, 40, 60)))), tmp_path / "scout", 2, "LOCALIZER")
    write(oblique(noise((4, 9, 9))), tmp_path / "table", 3)
    edit(tmp_path / "table", lambda d, k: setattr(d, "ModalityLUTSequence", [item(LUTExplanation="x")]))
    write(oblique(noise((7, 9, 9))), tmp_path / "good", 4)
    _, rows, reasons = table(tmp_path)
    assert [row["usable"] for row in rows] == ["no", "no", "no", "yes"]
    assert "1 slice is missing" in reasons[0]
    assert "localizer images only" in reasons[1]
    assert "lookup table" in reasons[2]


def test_parts_are_listed_by_the_numbers_and_names_that_load_takes(tmp_path):
    first, second = two(tmp_path, put(NominalPercentageOfCardiacPhase=30.0), put(NominalPercentageOfCardiacPhase=75.0))
    edit(tmp_path / "b", lambda dataset, k: k != 2)
    _, rows, reasons = table(tmp_path)
    assert [row["part"] for row in rows] == ["1: phase 30 %", "2: phase 75 %"]
    assert [row["usable"] for row in rows] == ["with load.phase: 1", "no"]
    assert "1 slice is missing" in reasons[1]
    number, _, name = rows[0]["part"].partition(": ")
    for phase in (int(number), name):
        assert (read(tmp_path, phase=phase)[0].voxels == first).all()
    assert second.shape == first.shape


def test_only_headers_are_read(tmp_path):
    write(oblique(noise()), tmp_path)
    edit(tmp_path, truncate)
    assert table(tmp_path)[1][0]["usable"] == "yes"
    with pytest.raises(StageError, match="truncated"):
        read(tmp_path)


def test_a_folder_without_images_is_refused(tmp_path):
    (tmp_path / "junk").write_text("junk")
    with pytest.raises(StageError, match=r"no CT, MR or XA image among 1 files \(skipped: 1 not DICOM\)"):
        listing([tmp_path])


def test_the_command_line_prints_the_table_or_one_clear_message(tmp_path):
    write(oblique(noise()), tmp_path / "series")
    result = run_here("pipeline.stages.load", "--list", tmp_path / "series")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"1 series in {SLICES} files (skipped: none)\n\nnumber  hash")
    (tmp_path / "empty").mkdir()
    result = run_here("pipeline.stages.load", "--list", tmp_path / "empty")
    assert (result.returncode, result.stdout) == (1, "")
    assert (
        result.stderr == "error: no CT, MR or XA image among 0 files (skipped: none); give the folder of the series\n"
    )


USABLE_IN = (
    "r09-compressed-series-with-truth",
    "r10-non-isotropic-pixels-4.0x6.4",
    "r12-enhanced-multiframe",
    "r13-dicomdir-tree",
    "r18-ct-multiframe-seg-24x38x3",
)


def test_real_series_are_listed_as_they_load(real_cases):
    _, rows, _ = table(real_cases / "head-arteries-mr/dicom")
    assert len(rows) == 1
    assert rows[0]["matrix"] == "512 x 512 x 120"
    assert rows[0]["spacing mm"] == "0.4102 x 0.4102 x 1.5"
    assert rows[0]["usable"] == "yes"


def test_odd_real_series_are_listed_with_what_is_usable(real_cases):
    odd = RealCases(real_cases / "dicom-oddities")
    for folder in USABLE_IN:
        assert (odd / folder).is_dir()
    _, rows, reasons = table(odd.root)
    usable = [row["matrix"] for row in rows if row["usable"] != "no"]
    assert sorted(usable) == sorted(
        [*["256 x 256 x 3"] * 4, "256 x 256 x 4", "16 x 16 x 5", "64 x 28 x 4", "24 x 38 x 3", "24 x 38 x 3"]
    )
    assert sum(row["usable"] != "no" for row in rows) + len(reasons) == len(rows)
