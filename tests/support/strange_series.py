# SPDX-License-Identifier: Apache-2.0
"""Images and masks as archives, viewers and programs hand them on, drawn at random, with where their ends lie."""

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import SimpleITK as sitk
from pydicom import uid
from scipy import ndimage

from pipeline.files.volume import Volume
from pipeline.stages.phantom import SeriesHeader, write_series
from tests.support.dicom_files import edit
from tests.support.dicom_writer import enhanced
from tests.support.strange_given import Drawn, _hard
from tests.support.strange_images import Scene, Strange, _usual, scene
from tests.support.tubes import rotation

Random = np.random.Generator


def ends_of(made: Scene, image: Volume) -> list[list[float]]:
    """Middles of the places where the border cuts the vessel, LPS mm."""
    shell = np.ones(made.lumen.shape, bool)
    shell[1:-1, 1:-1, 1:-1] = False
    labels, count = ndimage.label((made.lumen >= 0.5) & shell, np.ones((3, 3, 3)))
    large = [n for n in range(1, count + 1) if np.count_nonzero(labels == n) >= 4]
    return [image.to_mm(np.argwhere(labels == n).mean(axis=0)[::-1]).tolist() for n in large]


def _case(made: Scene, drawn: Strange, entry: dict[str, Any], **words: Any) -> Drawn:
    """The case of an image that is written, and the truth; a threshold is given by chance."""
    segment: dict[str, Any] = {"seeds_mm": [np.round(drawn.image.to_mm(drawn.seed), 2).tolist()]}
    if made.rng.random() < 0.4:
        segment["lower"] = round(drawn.half_way, 1)
    case = {"input": entry, "segment": segment, "solve": {"inlets": {"*": {"flow_ml_s": round(drawn.flow_ml_s, 3)}}}}
    truth = {"true_ml": drawn.volume_ml, "true_openings": drawn.openings, "ends_mm": ends_of(made, drawn.image)}
    return case, truth | {"words": drawn.words | words}


def _whole(drawn: Strange, least: int = -1024) -> Volume:
    return drawn.image.with_voxels(np.clip(np.rint(drawn.image.voxels), least, 3071).astype(np.int16))


def _written(drawn: Strange, folder: Path, number: int = 2, **slices: float) -> Path:
    """A classic series of an image."""
    thick = slices.get("thick", drawn.image.spacing_mm[2])
    write_series(_whole(drawn), folder, SeriesHeader("strange", number, "series", "AXIAL", thick))
    return folder


def _as_mr(dataset: pydicom.Dataset, step: float) -> np.ndarray:
    """Make a slice one of MR, without rescaling; its numbers."""
    values = np.frombuffer(dataset.PixelData, "<u2").astype(float) - 1024
    dataset.SOPClassUID = dataset.file_meta.MediaStorageSOPClassUID = uid.MRImageStorage
    dataset.Modality = "MR"
    for keyword in ("RescaleIntercept", "RescaleSlope", "RescaleType", "KVP"):
        del dataset[keyword]
    dataset.SpacingBetweenSlices = step
    return values


# ---- DICOM -----------------------------------------------------------------------------------------------------------


def enhanced_ct(rng: Random, folder: Path) -> Drawn:
    """Enhanced multi-frame CT: frames in any order, in half of them each with its own rescaling."""
    made = scene(rng)
    drawn = _usual(made)
    voxels, order = _whole(drawn).voxels.astype(np.int32), rng.permutation(made.size[2])
    each = [(1.0, float(-1024 - rng.integers(0, 500))) for _ in order] if rng.random() < 0.5 else (1.0, -1024.0)
    offsets = np.array([b for _, b in each] if isinstance(each, list) else [each[1]] * len(order))
    cells = (voxels[order] - offsets[:, None, None]).astype(np.uint16)
    dataset = enhanced(cells, drawn.image, "CT", rescale=each, order=order.tolist())
    dataset.ContentDate, dataset.PatientID = "20260101", "drawn"
    _save(dataset, folder / "image" / "IM0")
    return _case(made, drawn, {"dicom": str(folder / "image")}, each=isinstance(each, list))


def enhanced_mr(rng: Random, folder: Path) -> Drawn:
    """Enhanced multi-frame MR: a slope and an intercept for each frame."""
    made = scene(rng, ct=False)
    drawn = _usual(made)
    slopes, offsets = rng.uniform(0.2, 1.5, made.size[2]), rng.uniform(-20, 0, made.size[2])
    cells = np.rint((drawn.image.voxels - offsets[:, None, None]) / slopes[:, None, None]).clip(0, 65535)
    each = [(round(float(a), 6), round(float(b), 6)) for a, b in zip(slopes, offsets, strict=True)]
    _save(enhanced(cells.astype(np.uint16), drawn.image, "MR", rescale=each), folder / "image.dcm")
    return _case(made, drawn, {"dicom": str(folder / "image.dcm")})


def _save(dataset: pydicom.Dataset, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = pydicom.dataset.FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = dataset.SOPClassUID, dataset.SOPInstanceUID
    meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
    dataset.file_meta = meta
    dataset.save_as(path, enforce_file_format=True)


def _classic_mr(rng: Random, folder: Path, change: Callable[[pydicom.Dataset, np.ndarray], None]) -> Drawn:
    """A classic series of MR, whose slices are changed, by their numbers."""
    made = scene(rng, ct=False)
    drawn = _usual(made)
    _written(drawn, folder / "dicom")
    edit(folder / "dicom", lambda dataset, _: change(dataset, _as_mr(dataset, drawn.image.spacing_mm[2])))
    return _case(made, drawn, {"dicom": str(folder / "dicom")})


def slope_each(rng: Random, folder: Path) -> Drawn:
    """Classic MR whose slices have a slope and an intercept each."""

    def change(dataset: pydicom.Dataset, values: np.ndarray) -> None:
        slope, offset = round(float(rng.uniform(0.3, 1.0)), 5), round(float(rng.uniform(-30, 0)), 4)
        dataset.RescaleSlope, dataset.RescaleIntercept = str(slope), str(offset)
        cells = np.rint((values - offset) / slope).clip(0, 65535)
        dataset.PixelData = cells.astype("<u2").tobytes()

    return _classic_mr(rng, folder, change)


def monochrome1(rng: Random, folder: Path) -> Drawn:
    """MR of MONOCHROME1, whose numbers are turned round, so that viewers show blood bright."""

    def change(dataset: pydicom.Dataset, values: np.ndarray) -> None:
        dataset.PixelData = (4095 - np.clip(values, 0, 4095)).astype("<u2").tobytes()
        dataset.BitsStored, dataset.HighBit = 12, 11
        dataset.PhotometricInterpretation = "MONOCHROME1"

    return _classic_mr(rng, folder, change)


def coronal(rng: Random, folder: Path) -> Drawn:
    """MR in thick oblique coronal slices with gaps between: a slice is 50 to 80 % of its step."""
    radius = rng.uniform(2, 5)
    step = radius / rng.uniform(5, 7)
    made = scene(rng, ct=False, radius=(radius, radius), spacing=(step, step, rng.uniform(1.5, 2.5) * step), tilt=70)
    drawn = _usual(made)
    pose = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]) @ drawn.image.direction
    image = Volume(drawn.image.voxels, drawn.image.spacing_mm, drawn.image.origin_mm, pose)
    drawn = replace(drawn, image=image)
    thick = round(rng.uniform(0.5, 0.8) * drawn.image.spacing_mm[2], 3)
    _written(drawn, folder / "dicom", thick=thick)

    def change(dataset: pydicom.Dataset, k: int) -> None:
        dataset.PixelData = _as_mr(dataset, drawn.image.spacing_mm[2]).clip(0).astype("<u2").tobytes()

    edit(folder / "dicom", change)
    return _case(made, drawn, {"dicom": str(folder / "dicom")}, thick_mm=thick)


BARE = ("StudyDate", "StudyTime", "SeriesDescription", "PatientName", "PatientID", "PatientBirthDate", "SeriesNumber")


def bare_archive(rng: Random, folder: Path) -> Drawn:
    """A ZIP of nested folders: another study of thick slices, notes, and the series stripped of all that identifies."""
    made = scene(rng)
    drawn = _usual(made)
    _written(drawn, folder / "all" / "export" / "A")

    def strip(dataset: pydicom.Dataset, k: int) -> None:
        for keyword in BARE:
            dataset.pop(keyword, None)

    edit(folder / "all", strip)
    other = _whole(drawn)
    thick = Volume(
        other.voxels[::3], (*other.spacing_mm[:2], 3 * other.spacing_mm[2]), other.origin_mm, other.direction
    )
    write_series(thick, folder / "all" / "export" / "B" / "C", SeriesHeader("older", 5, "thick", "AXIAL", 5.0))
    (folder / "all" / "export" / "README.TXT").write_text("exported")
    (folder / "all" / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    with zipfile.ZipFile(folder / "study.zip", "w") as archive:
        for path in sorted(p for p in (folder / "all").rglob("*") if p.is_file()):
            archive.write(path, path.relative_to(folder))
    return _case(made, drawn, {"dicom": str(folder / "study.zip")})


def two_halves(rng: Random, folder: Path) -> Drawn:
    """One scan that the scanner stored as two series, which overlap by two to six slices."""
    made = scene(rng, forked=False)
    drawn = _usual(made)
    _written(drawn, folder / "dicom")
    count, over = made.size[2], int(rng.integers(2, 7))
    middle = int(count * rng.uniform(0.4, 0.6))
    series = uid.generate_uid()

    def change(dataset: pydicom.Dataset, k: int) -> bool:
        if k >= middle - over:
            copy = pydicom.dcmread(dataset.filename)
            copy.SeriesInstanceUID, copy.SeriesNumber = series, 3
            copy.SOPInstanceUID = copy.file_meta.MediaStorageSOPInstanceUID = uid.generate_uid()
            copy.save_as(folder / "dicom" / f"second{k:04d}")
        return k < middle

    edit(folder / "dicom", change)
    return _case(made, drawn, {"dicom": str(folder / "dicom")}, overlap=over, at=middle / count)


def gaps(rng: Random, folder: Path) -> Drawn:
    """CT in slices of half to four fifths of their step, which is up to as wide as 0.6 radii."""
    radius = rng.uniform(3, 8)
    step = radius / rng.uniform(5, 8)
    made = scene(rng, radius=(radius, radius), spacing=(step, step, rng.uniform(0.3, 0.6) * radius), tilt=25)
    drawn = _usual(made)
    thick = round(rng.uniform(0.5, 0.8) * drawn.image.spacing_mm[2], 3)
    _written(drawn, folder / "dicom", thick=thick)
    edit(folder / "dicom", lambda each, k: setattr(each, "SpacingBetweenSlices", drawn.image.spacing_mm[2]))
    return _case(made, drawn, {"dicom": str(folder / "dicom")}, thick_mm=thick)


# ---- volumes and masks -----------------------------------------------------------------------------------------------


def nifti_scaled(rng: Random, folder: Path) -> Drawn:
    """NIfTI of 16 bits with slope and intercept, left-handed or not, whose place is said by its qform alone."""
    made = scene(rng, ct=bool(rng.random() < 0.5))
    drawn = _usual(made)
    slope, offset = float(rng.uniform(0.1, 3)), float(rng.uniform(-1200, 0))
    image = sitk.Cast(drawn.image.to_sitk(), sitk.sitkFloat64)
    stored = sitk.Cast(sitk.Round((image - offset) / slope), sitk.sitkInt16)
    if rng.random() < 0.5:
        stored = sitk.Flip(stored, [True, False, False])
    sitk.WriteImage(stored, str(folder / "image.nii"))
    raw = bytearray((folder / "image.nii").read_bytes())
    raw[112:120] = np.array([slope, offset], "<f4").tobytes()
    raw[254:256] = b"\0\0"
    (folder / "image.nii").write_bytes(bytes(raw))
    return _case(made, drawn, {"volume": str(folder / "image.nii")}, slope=slope, offset=offset)


SPACES = {"left-posterior-superior": (1, 1, 1), "right-anterior-superior": (-1, -1, 1), "LAS": (1, -1, 1)}


def nrrd_spaces(rng: Random, folder: Path) -> Drawn:
    """NRRD in LPS, RAS or LAS, oblique, in one file or with its head in another one."""
    made = scene(rng, ct=bool(rng.random() < 0.5))
    drawn = _usual(made)
    space = str(rng.choice(list(SPACES)))
    signs = np.array(SPACES[space], float)
    matrix = (drawn.image.direction * drawn.image.spacing_mm) * signs[:, None]
    rows = " ".join("(" + ",".join(f"{x:.12g}" for x in column) + ")" for column in matrix.T)
    origin = ",".join(f"{x:.12g}" for x in np.array(drawn.image.origin_mm) * signs)
    sizes = " ".join(map(str, drawn.image.voxels.shape[::-1]))
    lines = ["NRRD0004", "type: float", "dimension: 3", f"space: {space}", f"sizes: {sizes}"]
    lines += [f"space directions: {rows}", "kinds: domain domain domain", "endian: little", "encoding: raw"]
    lines += [f"space origin: ({origin})"]
    data, detached = drawn.image.voxels.astype("<f4").tobytes(), bool(rng.random() < 0.5)
    path = folder / ("image.nhdr" if detached else "image.nrrd")
    if detached:
        (folder / "image.raw").write_bytes(data)
        path.write_text("\n".join([*lines, "data file: image.raw"]) + "\n\n")
    else:
        path.write_bytes(("\n".join(lines) + "\n\n").encode() + data)
    return _case(made, drawn, {"volume": str(path)}, space=space, detached=detached)


def mask_atlas(rng: Random, folder: Path) -> Drawn:
    """Twenty organs, one of which is the vessel; another one lies on its wall, the rest apart. The user names it."""
    made = scene(rng)
    lumen = _hard(made)
    labels = np.zeros(lumen.shape, np.uint8)
    for label in range(1, 21):
        centre = [rng.integers(0, n) for n in labels.shape]
        grid = np.moveaxis(np.indices(labels.shape), 0, -1)
        labels[np.linalg.norm(grid - centre, axis=-1) < rng.uniform(3, 8)] = label
    beside = ndimage.binary_dilation(lumen, iterations=3) & (made.along() > 0.5)
    labels[beside] = 21
    labels[lumen] = 52
    pose = rotation(int(rng.integers(1 << 30)))
    image = Volume(labels, made.spacing_mm, tuple(rng.uniform(-90, 90, 3)), pose)
    image.write(folder / "organs.nii.gz")
    return _mask_case(made, image, {"mask": str(folder / "organs.nii.gz"), "mask_segment": 52})


def mask_layers(rng: Random, folder: Path) -> Drawn:
    """3D Slicer's segmentation of two layers, as where segments overlap: vessel and wall with its lumen."""
    made = scene(rng)
    lumen = _hard(made).astype(np.uint8)
    wall = ndimage.binary_dilation(lumen, iterations=2).astype(np.uint8)
    image = Volume(lumen, made.spacing_mm, tuple(rng.uniform(-90, 90, 3)), rotation(int(rng.integers(1 << 30))))
    matrix = image.direction * image.spacing_mm
    rows = " ".join("(" + ",".join(f"{x:.12g}" for x in column) + ")" for column in matrix.T)
    first = int(rng.integers(2))  # the layer of the lumen
    lines = ["NRRD0004", "type: unsigned char", "dimension: 4", "space: left-posterior-superior"]
    lines += [f"sizes: 2 {' '.join(map(str, lumen.shape[::-1]))}", f"space directions: none {rows}"]
    lines += ["kinds: list domain domain domain", "encoding: raw"]
    lines += [f"space origin: ({','.join(f'{x:.12g}' for x in image.origin_mm)})"]
    for number, (name, layer) in enumerate((("Lumen", first), ("Wall", 1 - first))):
        lines += [f"Segment{number}_ID:=Segment_{number + 1}", f"Segment{number}_LabelValue:=1"]
        lines += [f"Segment{number}_Layer:={layer}", f"Segment{number}_Name:={name}"]
    layers = np.stack([lumen, wall] if first == 0 else [wall, lumen], axis=-1)
    (folder / "vessel.seg.nrrd").write_bytes(("\n".join(lines) + "\n\n").encode() + layers.tobytes())
    return _mask_case(made, image, {"mask": str(folder / "vessel.seg.nrrd"), "mask_segment": "Lumen"})


def _mask_case(made: Scene, image: Volume, entry: dict[str, Any]) -> Drawn:
    truth = {"true_ml": float(made.lumen.sum() * np.prod(made.spacing_mm) / 1000), "true_openings": made.cuts()}
    truth |= {"ends_mm": ends_of(made, image), "words": {"radius_mm": made.radius_mm, "spacing_mm": made.spacing_mm}}
    flow = {"inlets": {"*": {"flow_ml_s": round(0.15 * np.pi * made.radius_mm**2, 3)}}}
    return {"input": entry, "solve": flow}, truth


KINDS: dict[str, Callable[[Random, Path], Drawn]] = {
    "enhanced-ct": enhanced_ct,
    "enhanced-mr": enhanced_mr,
    "slope-each": slope_each,
    "monochrome1": monochrome1,
    "coronal": coronal,
    "bare-archive": bare_archive,
    "two-halves": two_halves,
    "gaps": gaps,
    "nifti-scaled": nifti_scaled,
    "nrrd-spaces": nrrd_spaces,
    "mask-atlas": mask_atlas,
    "mask-layers": mask_layers,
}
