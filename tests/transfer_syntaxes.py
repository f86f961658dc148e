"""The linear field's slices in each transfer syntax, and as one enhanced multi-frame file."""

import tempfile
from pathlib import Path

import gdcm
import numpy as np
import pydicom
from linear_field import Slice, dataset, decimals
from pydicom import uid
from pydicom.dataset import Dataset, FileDataset
from pydicom.sequence import Sequence

BY_GDCM = {
    uid.JPEGLossless: gdcm.TransferSyntax.JPEGLosslessProcess14,
    uid.JPEGLosslessSV1: gdcm.TransferSyntax.JPEGLosslessProcess14_1,
}

LOSSLESS = (
    uid.ImplicitVRLittleEndian, uid.ExplicitVRLittleEndian, uid.DeflatedExplicitVRLittleEndian,
    uid.ExplicitVRBigEndian, uid.RLELossless, uid.JPEGLossless, uid.JPEGLosslessSV1, uid.JPEGLSLossless,
    uid.JPEG2000Lossless,
)  # fmt: skip


def encode(made: FileDataset, syntax: uid.UID) -> FileDataset:
    """A dataset that is explicit little endian, in another transfer syntax."""
    if syntax in BY_GDCM:
        return _by_gdcm(made, syntax)
    if syntax in (uid.RLELossless, uid.JPEGLSLossless, uid.JPEG2000Lossless):
        made.compress(syntax, generate_instance_uid=False)
    elif syntax == uid.ExplicitVRBigEndian:
        made.PixelData = np.frombuffer(made.PixelData, "<u2").byteswap().tobytes()
        made.set_original_encoding(is_implicit_vr=False, is_little_endian=False)
    made.file_meta.TransferSyntaxUID = syntax
    return made


def _by_gdcm(made: FileDataset, syntax: uid.UID) -> FileDataset:
    with tempfile.TemporaryDirectory() as folder:
        plain, compressed = str(Path(folder, "plain")), str(Path(folder, "compressed"))
        made.save_as(plain, enforce_file_format=True)
        reader, change, writer = gdcm.ImageReader(), gdcm.ImageChangeTransferSyntax(), gdcm.ImageWriter()
        reader.SetFileName(plain)
        assert reader.Read()
        change.SetTransferSyntax(gdcm.TransferSyntax(BY_GDCM[syntax]))
        change.SetInput(reader.GetImage())
        assert change.Change()
        writer.SetFileName(compressed)
        writer.SetFile(reader.GetFile())
        writer.SetImage(change.GetOutput())
        assert writer.Write()
        again = pydicom.dcmread(compressed)
    made.PixelData, made.file_meta.TransferSyntaxUID = again.PixelData, syntax
    made["PixelData"].VR = "OB"
    made["PixelData"].is_undefined_length = True
    return made


def enhanced(stack: list[Slice]) -> FileDataset:
    """The slices as the frames of an Enhanced CT image, in the order of the list."""
    made = dataset(stack[0], 1)
    for keyword in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "RescaleSlope"):
        delattr(made, keyword)
    del made.RescaleIntercept, made.RescaleType, made.SliceThickness
    made.SOPClassUID = made.file_meta.MediaStorageSOPClassUID = uid.EnhancedCTImageStorage
    made.ImageType = ["ORIGINAL", "PRIMARY", "VOLUME", "NONE"]
    made.NumberOfFrames = len(stack)
    made.PixelData = b"".join(each.stored.astype("<u2").tobytes() for each in stack)
    first = stack[0]
    made.SharedFunctionalGroupsSequence = [
        _group(
            PixelMeasuresSequence={"PixelSpacing": decimals(reversed(first.pixel_mm)), "SliceThickness": "0.8"},
            PlaneOrientationSequence={"ImageOrientationPatient": decimals([*first.rows, *first.columns])},
            CTImageFrameTypeSequence={"FrameType": ["ORIGINAL", "PRIMARY", "VOLUME", "NONE"]},
            PixelValueTransformationSequence={
                "RescaleSlope": f"{first.slope:g}", "RescaleIntercept": f"{first.intercept:g}", "RescaleType": "HU",
            },
        )
    ]  # fmt: skip
    made.PerFrameFunctionalGroupsSequence = [
        _group(
            PlanePositionSequence={"ImagePositionPatient": decimals(each.position_mm)},
            FrameContentSequence={"StackID": "1", "InStackPositionNumber": k, "DimensionIndexValues": [1, k]},
        )
        for k, each in enumerate(stack, start=1)
    ]
    return made


def _group(**macros: dict[str, object]) -> Dataset:
    group = Dataset()
    for name, content in macros.items():
        item = Dataset()
        for keyword, value in content.items():
            setattr(item, keyword, value)
        setattr(group, name, Sequence([item]))
    return group
