# SPDX-License-Identifier: Apache-2.0
"""Stage 1, load: one series of a DICOM source, or a volume file, becomes a volume whose geometry is certain.

Whatever is doubtful is refused with the reason. Nothing of a patient's identity leaves this module: names of files and
folders, texts of the header and UIDs appear in no output and in no message; a series is known by a short hash.

    python -m pipeline.stages.load --list PATH [PATH ...]

prints the series below the paths (folders, DICOMDIRs, ZIP files, DICOM files), one row a series, or a row for each of
its parts: number, hash, modality, description, part, files, matrix, spacing, extent, contrast agent, whether it can be
loaded and why not. Of the description only words of radiology and plain numbers are shown, all else becomes "…".
"""

import json
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.case.settings.base import parse
from pipeline.case.settings.images import LoadSettings
from pipeline.dicom.continued import chosen_series
from pipeline.dicom.dataset import quiet
from pipeline.dicom.files import Collection, Scan, collect, counted, files_of, holds_dicom, scan, whole
from pipeline.dicom.header import UIDS
from pipeline.dicom.left_out import left_out, record, require_complete_series
from pipeline.dicom.listing import show
from pipeline.dicom.pixels import compact, decode, fill, require_same
from pipeline.dicom.regrid import regrid
from pipeline.dicom.series import Series, choose_part, grid, group, require_supported, small_is_bright
from pipeline.dicom.transfer_syntax import is_lossy, require_decoder, syntax_name
from pipeline.dicom.uids import short_hash
from pipeline.files.volume import Volume
from pipeline.files.volume_file import read_volume_file
from pipeline.segmentation.dark_blood import inverted
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

MOST_LABELS = 32
"""A file of no more values, all whole, holds labels: noise alone gives an image more."""


@dataclass(frozen=True)
class SeriesFacts:
    """What was loaded and what was checked; holds nothing of the patient's identity.

    Attributes
    ----------
    source : "dicom" or "volume".
    modality, series, series_number : modality, short hash of the SeriesInstanceUID, SeriesNumber; None for a file.
    series_joined : hashes of the series that were taken as one, in their order; empty where it is one.
    part : name of the part of the series, None where it has only one.
    matrix, spacing_mm, origin_mm, direction : geometry, (x, y, z), LPS; `direction` as rows of the matrix whose columns
        are the unit vectors of x, y, z.
    dtype : type of the voxels.
    files : how many were seen, used, and skipped for which reason; and those that could be slices of the series but
        were left out, as the case said that they may be.
    series_seen : the image series of the source, with the parts of each.
    transfer_syntaxes : how the pixels were stored.
    intensity_unit : "HU" for CT, unless its RescaleType says otherwise; None where there is no unit.
    contrast_agent_recorded : whether the header names one; it may have been given all the same; None for a volume file.
    lossy : whether the images were ever compressed with loss; None for a volume file.
    frames_of_reference : number of FrameOfReferenceUIDs in the series, 1 in a proper one; None for a volume file.
    missing_uids : how many slices lack which UID; None for a volume file.
    checks : what was checked, the value found and the limit.
    policies : what was chosen for slices that form no regular grid, and what was found and done; empty for a file.
    inverted : whether bright was made dark.
    padding_voxels : voxels that are padding, or lie beside it after resampling; set to the smallest measured intensity.
    outside_voxels : voxels outside of the measured slices after resampling; set to the same.
    intensity : smallest, largest and mean intensity, after rescaling.
    """

    source: str
    modality: str | None
    series: str | None
    series_number: int | None
    series_joined: list[str]
    part: str | None
    matrix: tuple[int, int, int]
    spacing_mm: tuple[float, float, float]
    origin_mm: tuple[float, float, float]
    direction: list[list[float]]
    dtype: str
    files: dict[str, Any]
    series_seen: list[dict[str, Any]]
    transfer_syntaxes: list[str]
    intensity_unit: str | None
    contrast_agent_recorded: bool | None
    lossy: bool | None
    frames_of_reference: int | None
    missing_uids: dict[str, int] | None
    checks: list[dict[str, Any]]
    policies: dict[str, dict[str, Any]]
    inverted: bool
    padding_voxels: int
    outside_voxels: int
    intensity: dict[str, float]


def load(source: Path | Sequence[Path], settings: LoadSettings, log: logging.Logger) -> tuple[Volume, SeriesFacts]:
    """Load one part of one DICOM series, or a volume file.

    Parameters
    ----------
    source : folder with DICOM files at any depth, whatever else it holds; DICOMDIR; ZIP file; a list of these and of
        DICOM files; or an NRRD, NIfTI or MHA file.
    settings : which series, without it the one with the largest part; which part, without it the only one; what becomes
        of slices that form no regular grid.
    log : for progress and what was skipped.

    Returns
    -------
    The volume, int16 where all rescaled intensities are integers that fit, else float32; and the facts.

    Raises
    ------
    StageError
        If there is no such series, several could be meant, or its geometry or its intensities are doubtful.

    Notes
    -----
    Intensity = stored value * RescaleSlope + RescaleIntercept, slice by slice (DICOM PS3.3, C.11.1).
    Pixels that hold PixelPaddingValue were never measured. They get the smallest measured intensity of the volume: the
    background, which lies in no threshold window of a lumen and, unlike the padding value itself (often -2000 HU or
    below), makes no false edge and shifts no filter.
    """
    sources = [source] if isinstance(source, Path) else list(source)
    if len(sources) == 1 and not holds_dicom(sources[0]):
        return _load_file(sources[0], settings)
    with quiet(), collect(sources) as found:
        return _load_dicom(found, settings, log)


def _load_dicom(found: Collection, settings: LoadSettings, log: logging.Logger) -> tuple[Volume, SeriesFacts]:
    scanned = scan(found)
    every = group(scanned.headers)
    log.info(
        "%d files, skipped: %s", len(files_of(scanned.headers)) + scanned.skipped.total(), counted(scanned.skipped)
    )
    for each in every:
        log.info("%s", each.summary)
    chosen = chosen_series(every, settings.series)
    series = choose_part(chosen, settings)
    if series.part:
        log.info("%s: %d slices of %d", series.name, len(series.headers), len(chosen.headers))
    lost = left_out(chosen, series, every, scanned)
    require_complete_series(series, lost, settings, log)
    require_supported(series, turned_round=settings.invert)
    require_decoder(series)
    require_same(series)
    frames_of_reference = len({header.frame_of_reference for header in series.headers})
    if frames_of_reference > 1:
        log.info("%s: %d frames of reference; positions are taken as they are", series.name, frames_of_reference)
    missing_uids = _missing_uids(series, log)
    place = grid(series, settings)
    slices = Series([series.headers[k] for k in place.order], part=series.part)
    volume, outside = regrid(decode(slices, log), place, log)
    if settings.invert:
        volume = _inverted(volume, series, log)
    joined = list(dict.fromkeys(short_hash(header.series) for header in chosen.headers))
    unmeasured = fill(volume.voxels)
    volume = volume.with_voxels(compact(volume.voxels))
    return volume, _facts(
        volume,
        source="dicom",
        modality=series.headers[0].modality,
        series=series.hash,
        series_number=series.headers[0].series_number,
        series_joined=joined if len(joined) > 1 else [],
        part=series.part or None,
        files=_files(series, chosen, scanned) | ({"could_belong": record(lost)} if lost else {}),
        series_seen=[_summary(each) for each in every],
        transfer_syntaxes=sorted({syntax_name(header.transfer_syntax) for header in series.headers}),
        intensity_unit=_intensity_unit(series),
        contrast_agent_recorded=any(header.contrast_agent for header in series.headers),
        lossy=any(is_lossy(header) for header in series.headers),
        frames_of_reference=frames_of_reference,
        missing_uids=missing_uids,
        checks=[asdict(check) for check in place.checks],
        policies=place.policies,
        inverted=settings.invert and not small_is_bright(series.headers[0]),
        padding_voxels=unmeasured - outside,
        outside_voxels=outside,
    )


def _inverted(volume: Volume, series: Series, log: logging.Logger) -> Volume:
    """A volume with its brightness inverted, but not one in HU, in which contrast-filled blood is bright."""
    if small_is_bright(series.headers[0]):
        log.info("%s: MONOCHROME1, its small values are bright: taken as viewers show them", series.name)
    if series.headers[0].modality == "CT":
        raise StageError(
            f"{series.name}: load.invert is for MR in which blood is dark; in CT, whose numbers are HU, it is bright"
            " or without contrast agent: set load.invert: false"
        )
    return inverted(volume)


def _require_image(volume: Volume) -> None:
    """Refuse a file that holds labels."""
    values = set[float]()
    for plane in volume.voxels:  # an image ends this early
        values.update(np.unique(plane).tolist())
        if len(values) > MOST_LABELS:
            return
    if all(value % 1 == 0 for value in values):
        raise StageError(
            f"input.volume: {len(values)} different values, {min(values):g} to {max(values):g}: labels, no intensities"
            " of an image; where one of them is the lumen, give the file as input.mask"
        )


def _load_file(path: Path, settings: LoadSettings) -> tuple[Volume, SeriesFacts]:
    """Load an NRRD, NIfTI or MHA file."""
    volume, checks = read_volume_file(path)
    _require_image(volume)
    if settings.invert:
        volume = inverted(volume)
    volume = volume.with_voxels(compact(volume.voxels))
    files = {"seen": 1, "used": 1, "skipped": {}}
    return volume, _facts(
        volume, source="volume", files=files, checks=[asdict(check) for check in checks], inverted=settings.invert
    )


def _facts(volume: Volume, **given: Any) -> SeriesFacts:
    """Facts of any volume, with what is given beside them."""
    voxels = volume.voxels
    depth, height, width = voxels.shape
    nothing = ("modality", "series", "series_number", "part", "intensity_unit", "contrast_agent_recorded", "lossy")
    of_a_file: dict[str, Any] = dict.fromkeys([*nothing, "frames_of_reference", "missing_uids"])
    of_a_file |= {
        "series_seen": [],
        "series_joined": [],
        "transfer_syntaxes": [],
        "policies": {},
        "padding_voxels": 0,
        "outside_voxels": 0,
    }
    of_the_voxels = {
        "matrix": (width, height, depth),
        "spacing_mm": volume.spacing_mm,
        "origin_mm": volume.origin_mm,
        "direction": volume.direction.tolist(),
        "dtype": voxels.dtype.name,
        "intensity": {
            "min": float(voxels.min()),
            "max": float(voxels.max()),
            "mean": float(voxels.mean(dtype=np.float64)),
        },
    }
    return SeriesFacts(**of_a_file | of_the_voxels | given)


def _missing_uids(series: Series, log: logging.Logger) -> dict[str, int]:
    """How many slices lack which UID, for the log, too."""
    missing = Counter(keyword for header in series.headers for keyword in header.missing)
    for keyword in UIDS:
        if missing[keyword]:
            what = f"{missing[keyword]} of {len(series.headers)} {series.headers[0].modality} images without {keyword}"
            log.warning("warning: %s: %s; they were taken together by what else they have in common", series.name, what)
    return dict(missing)


def _files(series: Series, chosen: Series, scanned: Scan) -> dict[str, Any]:
    """How many files were seen, used, and passed over for which reason; a file with any slice in use is used."""
    used, copies = files_of(series.headers), files_of([again for _, again in chosen.duplicates])
    of_series, every = files_of(chosen.headers), files_of(scanned.headers)
    reasons = scanned.skipped + Counter(
        {
            "duplicate of a slice": len(copies - of_series),
            "other part of the series": len(of_series - used),
            "other series": len(every - of_series - copies),
        }
    )
    return {
        "seen": len(every) + scanned.skipped.total(),
        "used": len(used),
        "skipped": dict(sorted((+reasons).items())),
    }


def _summary(series: Series) -> dict[str, Any]:
    first, parts = series.headers[0], series.parts
    return {
        "series": series.hash,
        "number": first.series_number,
        "modality": first.modality,
        "files": len(files_of(series.headers)),
        "contrast_agent_recorded": any(header.contrast_agent for header in series.headers),
        "localizer": all(part.kind == "localizer" for part in parts),
        "parts": [{"name": part.name or None, "kind": part.kind, "slices": len(part.headers)} for part in parts],
    }


def _intensity_unit(series: Series) -> str | None:
    units = {header.unit for header in series.headers}
    return None if series.headers[0].modality != "CT" else units.pop() if len(units) == 1 else "several"


def _compute(job: Job) -> None:
    settings = parse(LoadSettings, job.settings, "--settings")
    volume, facts = load(job.lists["source"], settings, job.log)
    job.lists["source"] = whole(job.lists["source"])
    typed = {"series": facts.series, "phase": facts.part}  # what a user types may be a UID, which can be traced
    job.settings = settings.model_dump() | {key: typed[key] for key in typed if getattr(settings, key) is not None}
    volume.write(job.outputs["volume"])
    job.outputs["series"].write_text(json.dumps(asdict(facts), indent=2) + "\n")


if __name__ == "__main__":
    if "--list" in sys.argv:
        sys.exit(show())
    run_stage(
        "load",
        __doc__,
        inputs={"source": "folder with DICOM files at any depth, DICOMDIR, ZIP file, DICOM files, or a volume file"},
        outputs={"volume": "the volume, NRRD", "series": "what was loaded and checked, JSON"},
        compute=_compute,
        several=("source",),
    )
