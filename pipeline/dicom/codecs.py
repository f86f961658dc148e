# SPDX-License-Identifier: Apache-2.0
"""Codecs: frames of JPEG, JPEG-LS and JPEG 2000 decoded in a process of their own, which may crash.

Run as a program, this module is that process.
"""

from importlib import import_module
from typing import Any

from pipeline.files.sandbox import Sandbox, serve

MEMORY_BYTES = 2**31
"""Address space of the process; the libraries themselves take a tenth of it."""
SECONDS, SECONDS_A_MEGAPIXEL, MEGAPIXELS = 10.0, 2.0, 64
"""Longest that a frame may take, ten times what a sound one does; not longer for one that claims to be still larger."""
PROCESS = Sandbox("pipeline.dicom.codecs")


def decode(codec: str, frame: bytes, syntax: str, columns: int, rows: int, bits: int) -> bytes:
    """Decoded bytes of a frame: little-endian, 1 byte a pixel up to 8 bits, 2 up to 16, then 4.

    Parameters
    ----------
    codec : a key of `CODECS`.
    frame : the codestream.
    syntax : UID of the transfer syntax.
    columns, rows, bits : size and precision that the codestream states.

    Raises
    ------
    SandboxError
        If the codestream is damaged, or takes too long or too much memory.
    StageError
        If the process does not start.
    """
    request = {"codec": codec, "syntax": syntax, "columns": columns, "rows": rows, "bits": bits}
    megapixels = min(columns * rows / 1e6, MEGAPIXELS)
    return PROCESS.ask(request, frame, SECONDS + SECONDS_A_MEGAPIXEL * megapixels)


def _jpeg(frame: bytes, request: dict[str, Any]) -> bytes:
    gdcm = import_module("gdcm")
    fragment, fragments = gdcm.Fragment(), gdcm.SequenceOfFragments.New()
    element = gdcm.DataElement(gdcm.Tag(0x7FE0, 0x0010))
    fragment.SetByteStringValue(frame)
    fragments.AddFragment(fragment)
    element.SetValue(fragments.__ref__())
    image = gdcm.Image()
    image.SetNumberOfDimensions(2)
    image.SetDimensions((request["columns"], request["rows"], 1))
    image.SetDataElement(element)
    grey = gdcm.PhotometricInterpretation.GetPIType("MONOCHROME2")
    image.SetPhotometricInterpretation(gdcm.PhotometricInterpretation(grey))
    image.SetTransferSyntax(gdcm.TransferSyntax(gdcm.TransferSyntax.GetTSType(request["syntax"])))
    bits = request["bits"]
    image.SetPixelFormat(gdcm.PixelFormat(1, 8 if bits <= 8 else 16, bits, bits - 1, 0))
    pixels: str = image.GetBuffer()
    return pixels.encode("utf-8", "surrogateescape")  # its wrapper hands bytes over as text


def _jpeg_ls(frame: bytes, request: dict[str, Any]) -> bytes:
    pixels, _ = import_module("jpeg_ls").decode_pixel_data(frame)
    return bytes(pixels)


def _j2k(frame: bytes, request: dict[str, Any]) -> bytes:
    return bytes(import_module("openjpeg").decode_pixel_data(frame, version=2))


CODECS = {"jpeg": _jpeg, "jpeg-ls": _jpeg_ls, "j2k": _j2k}
LIBRARIES = ("gdcm", "jpeg_ls", "openjpeg")
"""Imported only where they may crash."""

if __name__ == "__main__":
    serve(lambda request, frame: CODECS[request["codec"]](frame, request), MEMORY_BYTES, LIBRARIES)
