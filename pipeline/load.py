"""Stage 1, load: one series of a DICOM folder, or a volume file, becomes a volume whose geometry is certain.

Whatever is doubtful is refused with the reason. Nothing of a patient's identity leaves this module: names of files and
folders, texts of the header and UIDs appear in no output and in no message; a series is known by a short hash.
"""

import json
import logging
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import SimpleITK as sitk
from numpy.typing import NDArray
from pydicom.errors import InvalidDicomError
from pydicom.pixels import get_decoder
from pydicom.uid import UID

from pipeline.case import LoadSettings, parse
from pipeline.dicom.series import ENHANCED, MODALITIES, Series, SliceHeader, choose, grid, group, require_supported
from pipeline.dicom.stack import MIN_SLICES, ORTHONORMAL_TOLERANCE, Check, orthonormal_error
from pipeline.volume import Volume
from solver.stage import Job, Progress, StageError, run_stage

OTHER_MODALITIES = ("CR", "DX", "MG", "NM", "OT", "PT", "RF", "RTDOSE", "SC", "SEG", "US")
"""Named in messages; anything else that a header holds could be free text."""

SUFFIXES = (".nrrd", ".nhdr", ".nii", ".nii.gz", ".mha", ".mhd")

HEADER_TAGS = [
    "SOPClassUID", "SOPInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID", "SeriesNumber", "Modality",
    "ImageType", "Rows", "Columns", "NumberOfFrames", "SamplesPerPixel", "PhotometricInterpretation",
    "ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "RescaleSlope", "RescaleIntercept",
    "PixelRepresentation", "PixelPaddingValue", "PixelPaddingRangeLimit", "ContrastBolusAgent", "LossyImageCompression",
]  # fmt: skip
"""All that is read of a header: who the patient is, is not."""

PIXEL_TAGS = [
    *HEADER_TAGS, "BitsAllocated", "BitsStored", "HighBit", "PlanarConfiguration", "PixelData", "ExtendedOffsetTable",
    "ExtendedOffsetTableLengths",
]  # fmt: skip


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
    padding_voxels : voxels that were never measured, set to the smallest measured intensity.
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
    padding_voxels: int
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
        with _quiet():
            return _load_folder(source, settings, log)
    return _load_file(source)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence pydicom: its warnings and log lines quote header values."""
    logger = logging.getLogger("pydicom")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _load_folder(folder: Path, settings: LoadSettings, log: logging.Logger) -> tuple[Volume, SeriesFacts]:
    headers, skipped = _scan(folder)
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
    _require_decoder(chosen)
    series = _without_duplicates(chosen)
    skipped["duplicate of a slice"] += len(chosen.headers) - len(series.headers)
    frames_of_reference = len({header.frame_of_reference for header in series.headers})
    if frames_of_reference > 1:
        log.info("%s: %d frames of reference; positions are taken as they are", series.name, frames_of_reference)
    place = grid(series)
    voxels, padding = _voxels(Series([series.headers[k] for k in place.order]), log)
    volume = Volume(voxels, place.spacing_mm, place.origin_mm, place.direction)
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
        padding_voxels=padding,
    )


def _scan(folder: Path) -> tuple[list[SliceHeader], Counter[str]]:
    """Headers of all images below a folder that could be slices; how many other files there are, by reason."""
    headers: list[SliceHeader] = []
    skipped: Counter[str] = Counter()
    for number, path in enumerate(_files(folder), start=1):
        try:
            found = _header(path, number)
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


def _header(path: Path, number: int) -> SliceHeader | str:
    """The header of a file, or why it is no slice."""
    dataset = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=HEADER_TAGS)
    get = dataset.get
    if not (get("Rows") and get("Columns")):
        return "no image"
    if get("Modality") not in MODALITIES:
        return f"modality {get('Modality') if get('Modality') in OTHER_MODALITIES else 'other'}"
    if not (get("SeriesInstanceUID") and get("SOPInstanceUID")):
        return "no UID of series or image"
    return SliceHeader(
        path=path,
        number=number,
        series=str(get("SeriesInstanceUID")),
        instance=str(get("SOPInstanceUID")),
        frame_of_reference=str(get("FrameOfReferenceUID", "")),
        series_number=_whole(get("SeriesNumber")),
        modality=str(get("Modality")),
        localizer="LOCALIZER" in (get("ImageType") or ()),
        enhanced=ENHANCED.get(str(get("SOPClassUID")), ""),
        rows=int(get("Rows")),
        columns=int(get("Columns")),
        frames=int(get("NumberOfFrames") or 1),
        samples=int(get("SamplesPerPixel") or 1),
        photometric=str(get("PhotometricInterpretation") or ""),
        position_mm=_numbers(get("ImagePositionPatient"), 3),
        orientation=_numbers(get("ImageOrientationPatient"), 6),
        pixel_spacing_mm=_numbers(get("PixelSpacing"), 2),
        slope=_number(get("RescaleSlope")),
        intercept=_number(get("RescaleIntercept")),
        padding=_padding(
            _whole(get("PixelPaddingValue")), _whole(get("PixelPaddingRangeLimit")), get("PixelRepresentation") == 1
        ),
        contrast_agent=str(get("ContrastBolusAgent") or "").strip().upper() not in ("", "NO", "NONE"),
        lossy=get("LossyImageCompression") == "01",
        transfer_syntax=str(dataset.file_meta.get("TransferSyntaxUID", "")),
    )


def _numbers(values: Any, count: int) -> tuple[float, ...] | None:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        return None
    return numbers if len(numbers) == count and np.isfinite(numbers).all() else None


def _number(value: Any) -> float | None:
    numbers = _numbers((value,), 1)
    return numbers[0] if numbers else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _padding(value: int | None, limit: int | None, signed: bool) -> tuple[int, int] | None:
    """Range of stored values that are padding; written as unsigned where pixels are signed, it wraps."""
    if value is None:
        return None
    ends = [end - 65536 if signed and end >= 32768 else end for end in (value, value if limit is None else limit)]
    return min(ends), max(ends)


def _require_decoder(series: Series) -> None:
    for syntax in sorted({header.transfer_syntax for header in series.headers}):
        if not _decodable(UID(syntax)):
            name = f"{UID(syntax).name} ({syntax})" if UID(syntax).is_transfer_syntax else "unknown"
            raise StageError(
                f"{series.name}: transfer syntax {name}: no decoder for it is installed; decompress the series (for"
                " instance gdcmconv --raw) and load it again"
            )


def _decodable(syntax: UID) -> bool:
    try:
        return get_decoder(syntax).is_available
    except NotImplementedError:
        return False


def _without_duplicates(series: Series) -> Series:
    """Drop further copies of an image. Two different images with one SOPInstanceUID are refused."""
    kept: dict[str, SliceHeader] = {}
    for header in series.headers:
        first = kept.setdefault(header.instance, header)
        if first is header:
            continue
        if first.place != header.place or not np.array_equal(_decode(first, series), _decode(header, series)):
            raise StageError(
                f"{series.name}: files {first.number} and {header.number} of the folder, by name, claim to be the same"
                " image but differ; take the wrong one out"
            )
    return Series(list(kept.values()))


def _voxels(series: Series, log: logging.Logger) -> tuple[NDArray[Any], int]:
    """Rescaled intensities (Z, Y, X) of sorted slices, and the number of padded voxels among them."""
    headers = series.headers
    voxels = np.empty((len(headers), headers[0].rows, headers[0].columns), np.float32)
    progress = Progress(log, len(headers), "slices")
    pads: list[float] = []
    for k, header in enumerate(headers):
        stored = _decode(header, series)
        slope, intercept = header.slope or 1.0, header.intercept or 0.0
        voxels[k] = stored.astype(np.float64) * slope + intercept
        if header.padding:
            low, high = header.padding
            voxels[k][(stored >= low) & (stored <= high)] = np.nan
            pads += [low * slope + intercept, high * slope + intercept]
        progress.update(k + 1)
    padded = np.isnan(voxels)
    count = int(padded.sum())
    if count:
        _fill(voxels, padded, pads, series)
    return _compact(voxels), count


def _fill(voxels: NDArray[np.float32], padded: NDArray[np.bool_], pads: list[float], series: Series) -> None:
    """Give padded voxels the smallest measured intensity."""
    if padded.all():
        raise StageError(f"{series.name}: every pixel is padding; the series holds no image, take another one")
    low, high = float(np.nanmin(voxels)), float(np.nanmax(voxels))
    if low < min(pads) and max(pads) < high:
        raise StageError(
            f"{series.name}: the padding value {min(pads):g} lies inside the range of measured intensities {low:g} to"
            f" {high:g}, so that padding and image cannot be told apart; export the series without padding"
        )
    voxels[padded] = low


def _decode(header: SliceHeader, series: Series) -> NDArray[Any]:
    """Stored values of a slice, (Y, X)."""
    try:
        stored = pydicom.dcmread(header.path, specific_tags=PIXEL_TAGS).pixel_array
    except Exception:  # pydicom and its decoders raise almost anything; their texts quote the header
        stored = np.empty(0)
    if stored.shape != (header.rows, header.columns):
        raise StageError(
            f"{series.name}: the pixels of file {header.number} of the folder, by name, are missing, truncated or"
            " cannot be decoded; copy or export the series again"
        )
    return stored


def _compact(voxels: NDArray[Any]) -> NDArray[Any]:
    """As int16 where all values are integers that fit, else as float32."""
    limits = np.iinfo(np.int16)
    fits = voxels.min() >= limits.min and voxels.max() <= limits.max
    whole = fits and all(np.array_equal(plane, np.rint(plane)) for plane in voxels)
    return voxels.astype(np.int16 if whole else np.float32)


def _load_file(path: Path) -> tuple[Volume, SeriesFacts]:
    """Load an NRRD, NIfTI or MHA file."""
    if not path.name.lower().endswith(SUFFIXES):
        raise StageError(f"the source is no folder and no file of the kinds {', '.join(SUFFIXES)}; give one of these")
    volume = _read_silently(path)
    checks = _file_checks(volume)
    for check in checks:
        if not (check.value >= check.limit if check.name == "smallest extent" else check.value <= check.limit):
            raise StageError(
                f"volume file: {check.name}: {check.value:g} {check.unit} (limit {check.limit:g}); correct the file"
            )
    volume = volume.with_voxels(_compact(volume.voxels))
    files = {"seen": 1, "used": 1, "skipped": {}}
    return volume, _facts(volume, source="volume", files=files, checks=[asdict(check) for check in checks])


def _read_silently(path: Path) -> Volume:
    """Read a volume file; a refusal does not name the file, whose name may hold a patient's."""
    shown = sitk.ProcessObject.GetGlobalWarningDisplay()
    sitk.ProcessObject.SetGlobalWarningDisplay(False)
    try:
        return Volume.read(path)
    except StageError as error:
        raise StageError(str(error).replace(str(path), "volume file")) from None
    finally:
        sitk.ProcessObject.SetGlobalWarningDisplay(shown)


def _file_checks(volume: Volume) -> list[Check]:
    infinite = sum(int((~np.isfinite(plane)).sum()) for plane in volume.voxels)
    return [
        Check("smallest extent", min(volume.voxels.shape), MIN_SLICES, "voxels"),
        Check("intensities that are not finite", infinite, 0, "voxels"),
        Check("orthonormal direction: error", orthonormal_error(volume.direction), ORTHONORMAL_TOLERANCE, "1"),
        Check("spacings that are not positive", sum(not value > 0 for value in volume.spacing_mm), 0, "axes"),
    ]


def _facts(volume: Volume, **given: Any) -> SeriesFacts:
    """Facts of any volume, with what is given beside them."""
    voxels = volume.voxels
    depth, height, width = voxels.shape
    nothing = ("modality", "series", "series_number", "contrast_agent_recorded", "lossy", "frames_of_reference")
    of_a_file: dict[str, Any] = dict.fromkeys(nothing)
    of_a_file |= {"series_seen": [], "padding_voxels": 0}
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
