# SPDX-License-Identifier: Apache-2.0
"""Writer: DICOM datasets with pixels in each lossless transfer syntax, and enhanced multi-frame images.

JPEG is written by a coder of its own, so that the decoder is not held to what its own library writes.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydicom import uid
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.valuerep import format_number_as_ds

from pipeline.files.volume import Volume

LOSSLESS = {
    "implicit": uid.ImplicitVRLittleEndian,
    "explicit": uid.ExplicitVRLittleEndian,
    "deflated": uid.DeflatedExplicitVRLittleEndian,
    "big endian": uid.ExplicitVRBigEndian,
    "RLE": uid.RLELossless,
    "JPEG lossless": uid.JPEGLossless,
    "JPEG lossless, first-order": uid.JPEGLosslessSV1,
    "JPEG-LS": uid.JPEGLSLossless,
    "JPEG 2000": uid.JPEG2000Lossless,
}


def store(
    dataset: Dataset, cells: np.ndarray, bits_stored: int, signed: bool = False, high_bit: int | None = None
) -> None:
    """Give a dataset pixels, (Y, X) or (frames, Y, X) unsigned cells in which the values lie."""
    dataset.Rows, dataset.Columns = cells.shape[-2:]
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
    dataset.BitsAllocated, dataset.BitsStored = 8 * cells.itemsize, bits_stored
    dataset.HighBit = bits_stored - 1 if high_bit is None else high_bit
    dataset.PixelRepresentation = int(signed)
    if cells.ndim == 3:
        dataset.NumberOfFrames = len(cells)
    data = cells.astype(cells.dtype.newbyteorder("<")).tobytes()
    dataset.PixelData = data + b"\0" * (len(data) % 2)
    dataset["PixelData"].VR = "OW"


def encode(dataset: Dataset, syntax: str) -> Dataset:
    """A dataset with uncompressed little endian pixels in any lossless transfer syntax, ready to be written."""
    syntax = uid.UID(syntax)
    if not hasattr(dataset, "file_meta"):
        dataset.file_meta = FileMetaDataset()
    dataset.file_meta.MediaStorageSOPClassUID = dataset.SOPClassUID
    dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
    dataset.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
    if syntax in (uid.JPEGLossless, uid.JPEGLosslessSV1):
        dataset.PixelData = encapsulate(_jpeg_frames(dataset, syntax))
        dataset["PixelData"].VR = "OB"
    elif syntax == uid.RLELossless:  # of whole cells, whatever counts of them
        bits = dataset.BitsStored, dataset.HighBit
        dataset.BitsStored, dataset.HighBit = dataset.BitsAllocated, dataset.BitsAllocated - 1
        dataset.compress(syntax, generate_instance_uid=False)
        dataset.BitsStored, dataset.HighBit = bits
    elif syntax.is_compressed and syntax != uid.DeflatedExplicitVRLittleEndian:
        dataset.compress(syntax, generate_instance_uid=False)
    elif syntax == uid.ExplicitVRBigEndian and dataset.BitsAllocated > 8:
        size = dataset.BitsAllocated // 8
        dataset.PixelData = np.frombuffer(dataset.PixelData, f"<u{size}").astype(f">u{size}").tobytes()
    elif syntax == uid.ExplicitVRBigEndian:
        dataset["PixelData"].VR = "OB"
    dataset.file_meta.TransferSyntaxUID = syntax
    plain = Dataset()  # one that was never read, as others stick to the byte order that they were read in
    plain.update(dataset)
    plain.file_meta = dataset.file_meta
    return plain


def save(dataset: Dataset, path: Path, syntax: str = uid.ExplicitVRLittleEndian) -> None:
    """Write a dataset with uncompressed little endian pixels in any lossless transfer syntax."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encode(dataset, syntax).save_as(path, enforce_file_format=True)


def jpeg_lossless(plane: np.ndarray, bits: int, predictor: int = 1) -> bytes:
    """Lossless JPEG (ISO/IEC 10918-1, annex H) of unsigned values; category k is k in 5 bits."""
    x = plane.astype(int)
    left, above = np.roll(x, 1, axis=1), np.roll(x, 1, axis=0)
    corner = np.roll(left, 1, axis=0)
    guess = {1: left, 4: left + above - corner, 6: above + (left - corner >> 1), 7: left + above >> 1}[predictor]
    guess[0], guess[:, 0] = left[0], above[:, 0]
    guess[0, 0] = 1 << (bits - 1)
    coded = []
    for difference in ((x - guess + 32767) % 65536 - 32767).ravel().tolist():  # -32767 to 32768
        size = abs(difference).bit_length()
        digits = difference if difference > 0 else difference + (1 << size) - 1
        coded.append(f"{size:05b}" + (f"{digits:0{size}b}" if 0 < size < 16 else ""))
    stream = "".join(coded)
    stream += "1" * (-len(stream) % 8)
    scan = bytes(int(stream[k : k + 8], 2) for k in range(0, len(stream), 8)).replace(b"\xff", b"\xff\x00")
    size = plane.shape[0].to_bytes(2, "big") + plane.shape[1].to_bytes(2, "big")
    segments = [
        (0xC3, bytes([bits]) + size + bytes([1, 1, 0x11, 0])),
        (0xC4, bytes([0, 0, 0, 0, 0, 17, *[0] * 11, *range(17)])),
        (0xDA, bytes([1, 1, 0, predictor, 0, 0])),
    ]
    head = b"".join(b"\xff" + bytes([kind]) + (len(data) + 2).to_bytes(2, "big") + data for kind, data in segments)
    return b"\xff\xd8" + head + scan + b"\xff\xd9"


def _jpeg_frames(dataset: Dataset, syntax: str) -> list[bytes]:
    cells = np.frombuffer(dataset.PixelData, f"<u{dataset.BitsAllocated // 8}")
    size = dataset.Rows * dataset.Columns
    frames = cells[: len(cells) // size * size].reshape(-1, dataset.Rows, dataset.Columns)
    predictor = 1 if syntax == uid.JPEGLosslessSV1 else 7
    return [jpeg_lossless(frame, dataset.BitsAllocated, predictor) for frame in frames]


MULTI_FRAME = {
    "CT": (uid.EnhancedCTImageStorage, "CT", "CTImageFrameTypeSequence"),
    "MR": (uid.EnhancedMRImageStorage, "MR", "MRImageFrameTypeSequence"),
    "XA": (uid.XRay3DAngiographicImageStorage, "XA", "XRay3DFrameTypeSequence"),
    "legacy CT": (uid.LegacyConvertedEnhancedCTImageStorage, "CT", "CTImageFrameTypeSequence"),
}


def item(**values: Any) -> Dataset:
    dataset = Dataset()
    for keyword, value in values.items():
        setattr(dataset, keyword, value)
    return dataset


def enhanced(
    cells: np.ndarray,
    grid: Volume,
    kind: str = "CT",
    of_frame: Callable[[int], dict[str, Dataset]] = lambda k: {},
    rescale: list[tuple[float, float]] | tuple[float, float] | None = (1, -1024),
    order: Sequence[int] | None = None,
) -> Dataset:
    """An enhanced multi-frame image of frames on a grid.

    Parameters
    ----------
    cells : (N, Y, X) unsigned, frames in the order of their places unless `order` tells the place of each.
    grid : where slice k lies; its voxels do not count.
    kind, of_frame, rescale : see `multi_frame`.
    """
    places = range(len(cells)) if order is None else order
    return multi_frame(
        cells,
        [grid.to_mm([0, 0, place]) for place in places],
        grid.direction[:, :2].T.ravel(),
        [grid.spacing_mm[1], grid.spacing_mm[0]],
        kind,
        of_frame,
        rescale,
    )


def multi_frame(
    cells: np.ndarray,
    positions_mm: Sequence[np.ndarray],
    orientation: Sequence[float],
    pixel_spacing_mm: Sequence[float],
    kind: str = "CT",
    of_frame: Callable[[int], dict[str, Dataset]] = lambda k: {},
    rescale: list[tuple[float, float]] | tuple[float, float] | None = (1, -1024),
    **tags: Any,
) -> Dataset:
    """An enhanced multi-frame image.

    Parameters
    ----------
    cells : (N, Y, X) unsigned.
    positions_mm : of each frame.
    orientation, pixel_spacing_mm : of all, as DICOM writes them.
    kind : a key of `MULTI_FRAME`.
    of_frame : further functional groups of a frame.
    rescale : slope and intercept, one of all or a list of one of each frame; None: none at all.
    tags : further tags of the image.
    """
    storage, modality, frame_type = MULTI_FRAME[kind]
    image_type = ["ORIGINAL", "PRIMARY", "VOLUME", "NONE"]
    uids = ("SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID")
    said = {keyword: uid.generate_uid() for keyword in uids} | {"SeriesNumber": 7, "LossyImageCompression": "00"}
    dataset = item(**said | {"SOPClassUID": storage, "Modality": modality, "ImageType": image_type} | tags)
    store(dataset, cells, 8 * cells.itemsize)
    shared = item(
        PixelMeasuresSequence=[item(PixelSpacing=decimals(pixel_spacing_mm), SliceThickness="9")],
        PlaneOrientationSequence=[item(ImageOrientationPatient=decimals(orientation))],
    )
    setattr(shared, frame_type, [item(FrameType=image_type, VolumetricProperties="VOLUME")])
    each = isinstance(rescale, list)
    if rescale and not each:
        shared.PixelValueTransformationSequence = [_rescale(*rescale)]
    frames = []
    for frame, position_mm in enumerate(positions_mm):
        group = item(PlanePositionSequence=[item(ImagePositionPatient=decimals(position_mm))])
        if each:
            group.PixelValueTransformationSequence = [_rescale(*rescale[frame])]
        for sequence, values in of_frame(frame).items():
            setattr(group, sequence, [values])
        frames.append(group)
    dataset.SharedFunctionalGroupsSequence, dataset.PerFrameFunctionalGroupsSequence = [shared], frames
    return dataset


def _rescale(slope: float, intercept: float) -> Dataset:
    return item(RescaleSlope=str(slope), RescaleIntercept=str(intercept), RescaleType="HU")


def decimals(values: Iterable[float]) -> list[str]:
    return [format_number_as_ds(float(value)) for value in values]
