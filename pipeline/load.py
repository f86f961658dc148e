"""Stage 1, load: one series of a DICOM folder, or a volume file, becomes a volume whose geometry is certain.

Whatever is doubtful is refused with the reason. Nothing of a patient's identity leaves this module: names of files and
folders, texts of the header and UIDs appear in no output and in no message; a series is known by a short hash.
"""

import json
import logging
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.case import LoadSettings, parse
from pipeline.dicom.files import scan
from pipeline.dicom.pixels import compact, decode, fill, quiet, require_decoder, without_duplicates
from pipeline.dicom.regrid import regrid
from pipeline.dicom.series import Series, choose, grid, group, require_supported
from pipeline.volume import Volume
from pipeline.volume_file import read_volume_file
from solver.stage import Job, StageError, run_stage


@dataclass(frozen=True)
class SeriesFacts:
    """What was loaded and what was checked; holds nothing of the patient's identity.

    Attributes
    ----------
    source : "dicom" or "volume".
    modality, series, series_number : modality, short hash of the SeriesInstanceUID, SeriesNumber; None for a file.
    matrix, spacing_mm, origin_mm, direction : geometry, (x, y, z), LPS; `direction` as rows of the matrix whose columns
        are the unit vectors of x, y, z.
    dtype : type of the voxels.
    files : how many were seen, used, and skipped for which reason.
    series_seen : the image series of the folder.
    contrast_agent_recorded : whether the header names one; it may have been given all the same; None for a volume file.
    lossy : whether the images were ever compressed with loss; None for a volume file.
    frames_of_reference : number of FrameOfReferenceUIDs in the series, 1 in a proper one; None for a volume file.
    checks : what was checked, the value found and the limit.
    policies : what was chosen for slices that form no regular grid, and what was found and done; empty for a file.
    padding_voxels : voxels that are padding, or lie beside it after resampling; set to the smallest measured intensity.
    outside_voxels : voxels outside of the measured slices after resampling; set to the same.
    intensity : smallest, largest and mean intensity, after rescaling.
    """

    source: str
    modality: str | None
    series: str | None
    series_number: int | None
    matrix: tuple[int, int, int]
    spacing_mm: tuple[float, float, float]
    origin_mm: tuple[float, float, float]
    direction: list[list[float]]
    dtype: str
    files: dict[str, Any]
    series_seen: list[dict[str, Any]]
    contrast_agent_recorded: bool | None
    lossy: bool | None
    frames_of_reference: int | None
    checks: list[dict[str, Any]]
    policies: dict[str, dict[str, Any]]
    padding_voxels: int
    outside_voxels: int
    intensity: dict[str, float]


def load(source: Path, settings: LoadSettings, log: logging.Logger) -> tuple[Volume, SeriesFacts]:
    """Load one series below a folder, or a volume file.

    Parameters
    ----------
    source : folder with DICOM files at any depth, whatever else it holds, or an NRRD, NIfTI or MHA file.
    settings : which series; without it, the one with the most voxels.
    log : for progress and what was skipped.

    Returns
    -------
    The volume, int16 where all rescaled intensities are integers that fit, else float32; and the facts.

    Raises
    ------
    StageError
        If there is no such series, or its geometry or its intensities are doubtful.

    Notes
    -----
    Intensity = stored value * RescaleSlope + RescaleIntercept, slice by slice (DICOM PS3.3, C.11.1).
    Pixels that hold PixelPaddingValue were never measured. They get the smallest measured intensity of the volume: the
    background, which lies in no threshold window of a lumen and, unlike the padding value itself (often -2000 HU or
    below), makes no false edge and shifts no filter.
    """
    if source.is_dir():
        with quiet():
            return _load_folder(source, settings, log)
    return _load_file(source)


def _load_folder(folder: Path, settings: LoadSettings, log: logging.Logger) -> tuple[Volume, SeriesFacts]:
    headers, skipped = scan(folder)
    seen = len(headers) + sum(skipped.values())
    if not headers:
        raise StageError(
            f"no CT, MR or XA image among {seen} files (skipped: {_counts(skipped)}); give the folder of the series"
        )
    log.info("%d files, skipped: %s", seen, _counts(skipped))
    every = group(headers)
    for each in every:
        log.info("%s", each.summary)
    chosen = choose(every, settings.series)
    skipped["other series"] += len(headers) - len(chosen.headers)
    require_supported(chosen)
    require_decoder(chosen)
    series = without_duplicates(chosen)
    skipped["duplicate of a slice"] += len(chosen.headers) - len(series.headers)
    frames_of_reference = len({header.frame_of_reference for header in series.headers})
    if frames_of_reference > 1:
        log.info("%s: %d frames of reference; positions are taken as they are", series.name, frames_of_reference)
    place = grid(series, settings)
    slices = Series([series.headers[k] for k in place.order])
    volume, outside = regrid(decode(slices, log), place, log)
    unmeasured = fill(volume.voxels)
    volume = volume.with_voxels(compact(volume.voxels))
    return volume, _facts(
        volume,
        source="dicom",
        modality=series.headers[0].modality,
        series=series.hash,
        series_number=series.headers[0].series_number,
        files={"seen": seen, "used": len(series.headers), "skipped": dict(sorted((+skipped).items()))},
        series_seen=[_summary(each) for each in every],
        contrast_agent_recorded=any(header.contrast_agent for header in series.headers),
        lossy=any(header.lossy for header in series.headers),
        frames_of_reference=frames_of_reference,
        checks=[asdict(check) for check in place.checks],
        policies=place.policies,
        padding_voxels=unmeasured - outside,
        outside_voxels=outside,
    )


def _load_file(path: Path) -> tuple[Volume, SeriesFacts]:
    """Load an NRRD, NIfTI or MHA file."""
    volume, checks = read_volume_file(path)
    volume = volume.with_voxels(compact(volume.voxels))
    files = {"seen": 1, "used": 1, "skipped": {}}
    return volume, _facts(volume, source="volume", files=files, checks=[asdict(check) for check in checks])


def _facts(volume: Volume, **given: Any) -> SeriesFacts:
    """Facts of any volume, with what is given beside them."""
    voxels = volume.voxels
    depth, height, width = voxels.shape
    nothing = ("modality", "series", "series_number", "contrast_agent_recorded", "lossy", "frames_of_reference")
    of_a_file: dict[str, Any] = dict.fromkeys(nothing)
    of_a_file |= {"series_seen": [], "policies": {}, "padding_voxels": 0, "outside_voxels": 0}
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


def _summary(series: Series) -> dict[str, Any]:
    first = series.headers[0]
    return {
        "series": series.hash,
        "number": first.series_number,
        "modality": first.modality,
        "files": len(series.headers),
        "localizer": first.localizer,
    }


def _counts(skipped: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted((+skipped).items())) or "none"


def _compute(job: Job) -> None:
    settings = parse(LoadSettings, job.settings, "--settings")
    volume, facts = load(job.inputs["source"], settings, job.log)
    job.settings = {"series": facts.series if settings.series else None}  # provenance gets no UID: it can be traced
    volume.write(job.outputs["volume"])
    job.outputs["series"].write_text(json.dumps(asdict(facts), indent=2) + "\n")


if __name__ == "__main__":
    run_stage(
        "load",
        __doc__,
        inputs={"source": "folder with DICOM files at any depth, or a volume file (NRRD, NIfTI, MHA)"},
        outputs={"volume": "the volume, NRRD", "series": "what was loaded and checked, JSON"},
        compute=_compute,
    )
