"""Codecs: frames of JPEG, JPEG-LS and JPEG 2000 decoded in a process of their own.

The decoders are libraries in C and C++. A damaged codestream can crash them, keep them busy for minutes or let them ask
for all memory, and what they print may quote the file. In a process of its own, silent and limited in time and memory,
that ends as a frame that cannot be decoded. The process starts with the first frame and serves all others; it ends with
the one that started it, or when it fails.

Run as a program, this module is that process: for each request, a line of JSON and the bytes of the frame on standard
input, it answers with the number of decoded bytes (-1 if it failed) on a line and the bytes.
"""

import atexit
import json
import os
import resource
import subprocess
import sys
import threading
from importlib import import_module
from typing import Any

from solver.stage import ROOT, StageError

MEMORY_BYTES = 2**31
"""Address space of the process; the libraries themselves take a tenth of it."""
SECONDS, SECONDS_A_MEGAPIXEL, MEGAPIXELS = 10.0, 2.0, 64
"""Longest that a frame may take, ten times what a sound one does; not longer for one that claims to be still larger."""
READY = b"ready\n"


class CodecError(Exception):
    """The frame cannot be decoded."""


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
    CodecError
        If the codestream is damaged, or takes too long or too much memory.
    StageError
        If the process does not start.
    """
    request = {"codec": codec, "length": len(frame), "syntax": syntax, "columns": columns, "rows": rows, "bits": bits}
    with _lock:
        process = _running()
        megapixels = min(columns * rows / 1e6, MEGAPIXELS)
        limit = threading.Timer(SECONDS + SECONDS_A_MEGAPIXEL * megapixels, process.kill)
        limit.start()
        try:
            return _ask(process, request, frame)
        except CodecError:
            raise
        except BaseException as error:  # the next answer would be that to this request
            process.kill()
            process.wait()
            if isinstance(error, (OSError, ValueError)):  # it crashed, or the limit was reached
                raise CodecError from None
            raise
        finally:
            limit.cancel()


_lock = threading.Lock()
_processes: list[subprocess.Popen[bytes]] = []


def _running() -> subprocess.Popen[bytes]:
    """The process, started anew if there is none."""
    if _processes and _processes[0].poll() is None:
        return _processes[0]
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline.dicom.codecs"],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # each thread would take address space
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    _processes[:] = [process]
    if process.stdout is None or process.stdout.readline() != READY:
        raise StageError("the decoders of compressed images do not start; install the packages of requirements.lock")
    return process


@atexit.register
def _end() -> None:
    """Let the process end with this one, and take its pipes along."""
    for process in _processes:
        process.kill()
        process.communicate()


def _ask(process: subprocess.Popen[bytes], request: dict[str, Any], frame: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request).encode() + b"\n" + frame)
    process.stdin.flush()
    length = int(process.stdout.readline())  # nothing, where the process has ended
    if length < 0:
        raise CodecError
    pixels = process.stdout.read(length)
    if len(pixels) < length:
        raise OSError
    return pixels


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


def _serve() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for library in LIBRARIES:
        import_module(library)
    answers.write(READY)
    answers.flush()
    while line := requests.readline():
        request = json.loads(line)
        frame = requests.read(request["length"])
        try:
            pixels = CODECS[request["codec"]](frame, request)
        except Exception:  # the libraries raise almost anything
            answers.write(b"-1\n")
        else:
            answers.write(b"%d\n" % len(pixels) + pixels)
        answers.flush()


if __name__ == "__main__":
    _serve()
