# SPDX-License-Identifier: Apache-2.0
"""Stage 0, phantom: a parametric vessel becomes a synthetic CT angiography, as a DICOM series, with the truth about it.

For the demo and the tests. The series is as awkward as a real one: oblique, noisy, blurred, with bone close to the
vessel, slices in sub-folders under names without order, a localizer among them, instance numbers against the position.
Same YAML, same bytes.
"""

import hashlib
import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import UID, CTImageStorage, ExplicitVRLittleEndian
from pydicom.valuerep import format_number_as_ds
from scipy.ndimage import gaussian_filter
from scipy.spatial.transform import Rotation

from pipeline.case.settings.base import Finite, Name, NonNegative, Point, Positive, Section, parse
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.case.vessel import Branch, Distance, Ellipsoid, VesselShape, coverage, vessel_distance
from pipeline.files.volume import Volume
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

INTERCEPT_HU = -1024
"""Stored value 0, as scanners write it."""
LARGEST_HU = 3071
"""Twelve bits above the intercept."""
CENTRELINE_STEP_MM = 0.25

Extent = Annotated[int, Field(ge=8, le=1024)]


class ImageSettings(Section):
    """The scanner."""

    size: tuple[Extent, Extent, Extent] = Field(description="voxels along x, y, z")
    spacing_mm: tuple[Positive, Positive, Positive] = Field(description="of the voxels along x, y, z")
    slice_thickness_mm: Positive = Field(description="as the header says it; need not be the spacing along z")
    centre_mm: Point = Field((0.0, 0.0, 0.0), description="centre of the image in the patient, LPS")
    rotation_deg: Point = Field((0.0, 0.0, 0.0), description="of the image about the patient's x, then y, then z axis")
    lumen_hu: Finite = 350.0
    tissue_hu: Finite = 40.0
    bone_hu: Finite = 900.0
    blur_mm: tuple[NonNegative, NonNegative, NonNegative] = Field(
        (0.0, 0.0, 0.0), description="standard deviation of the point spread along x, y, z"
    )
    noise_hu: NonNegative = Field(0.0, description="standard deviation of the noise")
    noise_seed: int = 0


class PhantomSettings(Section):
    """A phantom: ``data/phantoms/*.yaml``. All places but the image's centre are in the phantom's own frame."""

    name: Name
    description: str = ""
    vessel: VesselShape
    bones: tuple[Ellipsoid, ...] = ()
    image: ImageSettings


@dataclass(frozen=True)
class Phantom:
    """A synthetic scan and the truth about it.

    Attributes
    ----------
    image : int16 HU.
    mask : uint8, 1 where at least half of the voxel is lumen.
    truth : what ``truth.json`` holds, see :func:`synthesize`.
    """

    image: Volume
    mask: Volume
    truth: dict[str, Any]


@dataclass(frozen=True)
class SeriesHeader:
    """What the header of a series says beside its geometry.

    Attributes
    ----------
    study : any text that tells one study from another; UIDs follow from it and from the voxels.
    number, description, image_type : SeriesNumber, SeriesDescription, third value of ImageType.
    slice_thickness_mm : SliceThickness.
    """

    study: str
    number: int
    description: str
    image_type: str
    slice_thickness_mm: float


def synthesize(settings: PhantomSettings) -> Phantom:
    """Image a parametric vessel.

    Intensity = tissue + (lumen - tissue) * lumen's part of the voxel + (bone - tissue) * bone's part, blurred by the
    point spread, plus normal noise.

    Parameters
    ----------
    settings : the phantom.

    Returns
    -------
    Image, mask and truth. The truth, in LPS mm: ``volume_mm3`` of the lumen within the image; ``openings`` (name,
    centre_mm, outward normal, radius_mm); ``centrelines`` (name, points_mm, radius_mm); ``sacs`` (centre_mm, radii_mm
    along the phantom's axes); ``seeds_mm``, a point in the lumen a third along the first branch.

    Raises
    ------
    StageError
        If bone touches the lumen, or an opening lies outside the image.
    """
    image, shape = settings.image, settings.vessel
    branches = [Branch(branch) for branch in shape.branches]
    lumen_distance = vessel_distance(shape, branches)
    frame = _frame(image)
    _require_openings_inside(branches, image)
    lumen = coverage(lumen_distance, image.size, image.spacing_mm)
    bone = np.zeros_like(lumen)
    for shell in settings.bones:
        bone = np.maximum(bone, coverage(shell.distance_mm, image.size, image.spacing_mm))
    _require_clear_of_bone(bone, lumen_distance, image)
    hu = image.tissue_hu + (image.lumen_hu - image.tissue_hu) * lumen + (image.bone_hu - image.tissue_hu) * bone
    hu = gaussian_filter(hu, [blur / step for blur, step in zip(image.blur_mm, image.spacing_mm, strict=True)][::-1])
    hu += image.noise_hu * np.random.default_rng(image.noise_seed).standard_normal(hu.shape, np.float32)
    voxels = np.clip(np.rint(hu), INTERCEPT_HU, LARGEST_HU).astype(np.int16)
    mask = (lumen >= 0.5).astype(np.uint8)
    volume_mm3 = float(lumen.sum(dtype=np.float64) * np.prod(image.spacing_mm))
    truth = _truth(settings, branches, frame, volume_mm3)
    return Phantom(frame.with_voxels(voxels), frame.with_voxels(mask), truth)


def _frame(image: ImageSettings) -> Volume:
    """The image's grid, without voxels of its own."""
    direction = Rotation.from_euler("xyz", image.rotation_deg, degrees=True).as_matrix()
    corner = -(np.array(image.size) - 1) / 2 * image.spacing_mm
    origin = direction @ corner + image.centre_mm
    nothing = np.broadcast_to(np.int16(0), image.size[::-1])
    return Volume(nothing, image.spacing_mm, (float(origin[0]), float(origin[1]), float(origin[2])), direction)


def _to_patient(image: ImageSettings, frame: Volume, points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points of the phantom's frame in LPS."""
    return np.asarray(points_mm, float) @ frame.direction.T + image.centre_mm


def _require_openings_inside(branches: list[Branch], image: ImageSettings) -> None:
    half = np.array(image.size) * image.spacing_mm / 2
    for end in (end for branch in branches for end in branch.ends):
        if (np.abs(end.centre_mm) + end.radius_mm > half).any():
            raise StageError(
                f"opening {end.name}: its flat end at {end.centre_mm.round(2).tolist()} mm, radius {end.radius_mm:g}"
                f" mm, reaches out of the image (+-{half.tolist()} mm); move it inwards, or give it no name"
            )


def _require_clear_of_bone(bone: NDArray[np.float32], lumen_distance: Distance, image: ImageSettings) -> None:
    index = np.argwhere(bone > 0)[:, ::-1]
    if not len(index):
        return
    centres = (index - (np.array(image.size) - 1) / 2) * image.spacing_mm
    nearest, limit = float(lumen_distance(centres).min()), 2 * max(image.spacing_mm)
    if nearest < limit:
        raise StageError(
            f"bones: {nearest:.2f} mm from the lumen; at least {limit:.2f} mm (two voxels) are needed so that they do"
            " not run together in the image; move the bone away"
        )


def _truth(settings: PhantomSettings, branches: list[Branch], frame: Volume, volume_mm3: float) -> dict[str, Any]:
    image = settings.image

    def place(points_mm: NDArray[np.float64]) -> list[Any]:
        return _to_patient(image, frame, points_mm).round(6).tolist()

    first = branches[0]
    return {
        "name": settings.name,
        "volume_mm3": round(volume_mm3, 4),
        "openings": [
            {
                "name": end.name,
                "centre_mm": place(end.centre_mm),
                "normal": (frame.direction @ end.normal).round(9).tolist(),
                "radius_mm": round(end.radius_mm, 6),
            }
            for branch in branches
            for end in branch.ends
        ],
        "centrelines": [
            {"name": branch.shape.name, "points_mm": place(points), "radius_mm": radii.round(6).tolist()}
            for branch in branches
            for points, radii in [branch.sampled(CENTRELINE_STEP_MM)]
        ],
        "sacs": [
            {"centre_mm": place(np.array(sac.centre_mm)), "radii_mm": list(sac.radii_mm)}
            for sac in settings.vessel.sacs
        ],
        "seeds_mm": [np.round(place(first.points_mm[len(first.points_mm) // 3]), 2).tolist()],
    }


def localizer(image: Volume, count: int = 3) -> Volume:
    """A few planes across the slices of an image, as scanners take them before the scan; (y, z, x) order of axes."""
    step = image.voxels.shape[1] // (count + 1)
    rows = np.arange(count, 0, -1) * step  # against y: rows x, columns z and normal -y are right-handed
    x, y, z = image.direction.T
    origin = image.to_mm([0, rows[0], 0])
    return Volume(
        np.ascontiguousarray(image.voxels[:, rows, :].transpose(1, 0, 2)),
        (image.spacing_mm[0], image.spacing_mm[2], step * image.spacing_mm[1]),
        (float(origin[0]), float(origin[1]), float(origin[2])),
        np.column_stack([x, z, -y]),
    )


def write_series(image: Volume, folder: Path, header: SeriesHeader) -> None:
    """Write a volume as CT Image Storage, one file a slice, under names and instance numbers that tell no order.

    UIDs are name-based (RFC 9562, version 5) on the study's name and the voxels: same input, same bytes.

    Parameters
    ----------
    image : integer HU from -1024 to 64511, right-handed.
    folder : gets sub-folders with the files.
    header : the rest of the header.

    Raises
    ------
    ValueError
        If a value does not fit, or the directions are left-handed, which DICOM cannot express.
    """
    stored = image.voxels.astype(np.int32) - INTERCEPT_HU
    if stored.min() < 0 or stored.max() > 65535:
        raise ValueError(f"intensities {image.voxels.min()} to {image.voxels.max()} HU do not fit 16 bits")
    if np.linalg.det(image.direction) < 0:
        raise ValueError("left-handed directions; reverse the slices")
    place = (image.spacing_mm, image.origin_mm, image.direction.tolist())
    digest = hashlib.sha256(image.voxels.tobytes() + repr((place, header)).encode()).hexdigest()
    for k, plane in enumerate(stored.astype(np.uint16)):
        dataset = _slice(image, header, digest, k, plane)
        name = hashlib.sha256(dataset.SOPInstanceUID.encode()).hexdigest()
        path = folder / name[0] / name[1:9]
        path.parent.mkdir(parents=True, exist_ok=True)
        dataset.save_as(path, enforce_file_format=True)


def _uid(*parts: object) -> UID:
    return UID(f"2.25.{uuid.uuid5(uuid.NAMESPACE_URL, 'hemolattice:' + '/'.join(map(str, parts))).int}")


def _slice(image: Volume, header: SeriesHeader, digest: str, k: int, plane: NDArray[np.uint16]) -> FileDataset:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = _uid(header.study, digest, k)
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.ImplementationClassUID = _uid("implementation")
    meta.ImplementationVersionName = "HEMOLATTICE"
    dataset = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    for values in (_identity(header, digest), _place(image, header, k), _pixels(plane)):
        for keyword, value in values.items():
            setattr(dataset, keyword, value)
    dataset.SOPClassUID = CTImageStorage
    dataset.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    dataset.InstanceNumber = len(image.voxels) - k
    return dataset


def _identity(header: SeriesHeader, digest: str) -> dict[str, Any]:
    """Patient (obviously none), study and series."""
    return {
        "SpecificCharacterSet": "ISO_IR 192",
        "ImageType": ["ORIGINAL", "PRIMARY", header.image_type],
        "StudyDate": "",
        "StudyTime": "",
        "AccessionNumber": "",
        "ReferringPhysicianName": "",
        "StudyID": "",
        "PatientName": "SYNTHETIC^PHANTOM",
        "PatientID": "SYNTHETIC",
        "PatientBirthDate": "",
        "PatientSex": "O",
        "PatientIdentityRemoved": "YES",
        "DeidentificationMethod": "synthetic, never was a patient",
        "Modality": "CT",
        "Manufacturer": "HemoLattice",
        "SeriesDescription": header.description,
        "BodyPartExamined": "HEAD",
        "PatientPosition": "HFS",
        "ContrastBolusAgent": "SYNTHETIC",
        "KVP": "",
        "StudyInstanceUID": _uid(header.study),
        "SeriesInstanceUID": _uid(header.study, digest),
        "FrameOfReferenceUID": _uid(header.study, "frame of reference"),
        "PositionReferenceIndicator": "",
        "SeriesNumber": header.number,
        "AcquisitionNumber": header.number,
    }


def _place(image: Volume, header: SeriesHeader, k: int) -> dict[str, Any]:
    return {
        "ImagePositionPatient": _decimals(image.to_mm([0, 0, k])),
        "ImageOrientationPatient": _decimals(image.direction[:, :2].T.ravel()),
        "PixelSpacing": _decimals([image.spacing_mm[1], image.spacing_mm[0]]),
        "SliceThickness": _decimals([header.slice_thickness_mm]),
    }


def _decimals(values: Any) -> list[str]:
    """Decimal strings of at most 16 characters."""
    return [format_number_as_ds(float(value)) for value in values]


def _pixels(plane: NDArray[np.uint16]) -> dict[str, Any]:
    return {
        "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2",
        "Rows": plane.shape[0],
        "Columns": plane.shape[1],
        "BitsAllocated": 16,
        "BitsStored": 16,
        "HighBit": 15,
        "PixelRepresentation": 0,
        "WindowCenter": "300",
        "WindowWidth": "800",
        "RescaleIntercept": str(INTERCEPT_HU),
        "RescaleSlope": "1",
        "RescaleType": "HU",
        "PixelData": plane.astype("<u2").tobytes(),
    }


def _compute(job: Job) -> None:
    path = job.inputs["vessel"]
    settings = parse(PhantomSettings, read_yaml(path), str(path))
    phantom = synthesize(settings)
    study, thickness = settings.model_dump_json(), settings.image.slice_thickness_mm
    folder = job.outputs["dicom"]
    write_series(phantom.image, folder, SeriesHeader(study, 2, "synthetic CT angiography", "AXIAL", thickness))
    write_series(localizer(phantom.image), folder, SeriesHeader(study, 1, "localizer", "LOCALIZER", thickness))
    job.outputs["truth"].write_text(json.dumps(phantom.truth, indent=1) + "\n")
    phantom.mask.write(job.outputs["truth-mask"])
    job.log.info("lumen %.1f mm3, %d openings", phantom.truth["volume_mm3"], len(phantom.truth["openings"]))


if __name__ == "__main__":
    run_stage(
        "phantom",
        __doc__,
        inputs={"vessel": "the phantom, YAML (data/phantoms/)"},
        outputs={
            "dicom": "folder for the DICOM files",
            "truth": "true volume, openings, centrelines, seeds, JSON",
            "truth-mask": "true lumen on the image's grid, NRRD",
        },
        compute=_compute,
    )
