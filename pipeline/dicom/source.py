# SPDX-License-Identifier: Apache-2.0
"""Source: the images that a case was computed from, found again, for objects that refer to them.

Results hold no UID and nothing of the patient. What goes back to an archive has to, so it is read from the images at
the moment of the export and goes nowhere else.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydicom
from pydicom.dataset import Dataset

from pipeline.case.settings.images import LoadSettings
from pipeline.dicom.continued import chosen_series
from pipeline.dicom.dataset import quiet, read_dataset
from pipeline.dicom.files import collect, files_of, scan
from pipeline.dicom.header import UIDS
from pipeline.dicom.series import Series, choose_part, group
from solver.runtime.errors import StageError

REFERENCE = ["SOPClassUID", *UIDS]
"""What a reference to an image consists of."""
OF_PATIENT_AND_STUDY = (
    *("PatientID", "PatientName", "PatientBirthDate", "PatientSex"),
    *("AccessionNumber", "StudyID", "StudyDate", "StudyTime", "ReferringPhysicianName"),
)
"""What every object of a study has to hold, empty where it is not known (type 2)."""


@dataclass(frozen=True)
class Source:
    """Images of a case.

    Attributes
    ----------
    first : header of one, without pixels: patient and study.
    images : of each, what refers to it: `REFERENCE`.
    """

    first: Dataset
    images: list[Dataset]


def find_source(sources: list[Path], loaded: Mapping[str, Any]) -> Source:
    """The images that a case was computed from.

    Parameters
    ----------
    sources : as of `pipeline.dicom.files.collect`.
    loaded : ``series.json`` of the case, which knows them by a hash.

    Raises
    ------
    StageError
        If they are not there, or not all, or cannot be referred to. No message tells who the patient is.
    """
    with quiet(), collect(sources) as found:
        series = _series(group(scan(found).headers), loaded)
        used, there = loaded["files"]["used"], sorted(files_of(series.headers))
        if len(there) != used:
            raise StageError(
                f"--dicom: {series.name} has {len(there)} files, and the case was computed from {used}; give the folder"
                " that the case file names, or run the case again"
            )
        for uid in UIDS:
            if lacking := sum(uid in header.missing for header in series.headers):
                raise StageError(
                    f"--dicom: {series.name}: {lacking} of {len(series.headers)} images without {uid}, so that nothing"
                    " can refer to them; export the series again"
                )
        images = [read_dataset(path, REFERENCE, stop_before_pixels=True) for path in there]
        first = pydicom.dcmread(there[0], stop_before_pixels=True)
        if len({str(image.get("StudyInstanceUID")) for image in images}) > 1:
            raise StageError(f"--dicom: {series.name} holds images of several studies; export it again")
        if any("SOPClassUID" not in image for image in images):
            raise StageError(f"--dicom: {series.name}: images without SOPClassUID; export it again")
        return Source(_with_all(first), images)


def _series(every: list[Series], loaded: Mapping[str, Any]) -> Series:
    """The part of a series that was loaded, or of several that were loaded as one."""
    names = loaded.get("series_joined") or [loaded["series"]]  # files of an earlier version do not say
    found = [series.hash for series in every]
    if not set(names) <= set(found):
        raise StageError(
            f"--dicom: the case was computed from series {', '.join(names)}, and there is only {', '.join(found)}; give"
            " the folder that the case file names"
        )
    chosen = chosen_series(every, names)
    return choose_part(chosen, LoadSettings(phase=loaded["part"]))


def _with_all(header: Dataset) -> Dataset:
    """A header with what every object of the study has to hold; what cannot be read counts as absent."""
    for keyword in OF_PATIENT_AND_STUDY:
        found = None
        with suppress(Exception):  # pydicom raises almost anything for a value that breaks its rules
            found = header.get(keyword)
        setattr(header, keyword, "" if found is None else found)
    return header
