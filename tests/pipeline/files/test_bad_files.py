# SPDX-License-Identifier: Apache-2.0
"""Files that are damaged, or made to do harm, are refused with one line: no crash, no hang, no memory without end, and
nothing outside of them is read.

Random damage stands in file_mutations.py, and runs in a process of its own, so that a crash or a hang is seen as such.
"""

import gzip
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from pydicom.uid import DeflatedExplicitVRLittleEndian

from pipeline.dicom.segmentation_object import read_segmentation
from pipeline.files.mask_file import read_mask_file
from pipeline.files.sandbox import Sandbox, SandboxError
from pipeline.files.surface_file import read_surface_file
from pipeline.files.volume_file import read_volume_file
from solver.domain import nodes as node_files
from solver.runtime.checksum_trailer import write_checksum_trailer
from solver.runtime.checksums import TRAILER
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.pipeline.files.test_volume_file import nifti
from tests.pipeline.stages.test_import_mask import ball, write_segmentation
from tests.support.file_mutations import DAMAGES, GIVEN, NODES, SECONDS, WITH_TRAILER

PROGRAM = ROOT / "tests" / "support" / "file_mutations.py"
MEMORY_MB = 1000
"""Of a process that reads damaged files; it has 400 MB before it reads any."""


def outcomes(kinds: Iterable[str], count: int, first: int = 0) -> list[dict[str, Any]]:
    """What became of so many damaged files of each kind: each refused, or read and sound."""
    command = [sys.executable, str(PROGRAM), ",".join(kinds), str(count), str(first)]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=800, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, f"died after {lines[-1:]}: {run.stderr[-2000:]}"
    assert lines.pop()["peak_memory_mb"] < MEMORY_MB
    assert Counter(line["kind"] for line in lines) == dict.fromkeys(kinds, count)
    assert [line for line in lines if line["outcome"] not in ("refused", "read")] == []
    assert max(line["seconds"] for line in lines) < SECONDS
    assert {line["damage"] for line in lines} == {damage.__name__ for damage in DAMAGES}
    return lines


@pytest.fixture(scope="module")
def some_damaged() -> list[dict[str, Any]]:
    """What became of sixteen files of each kind, all in one process."""
    return outcomes((*WITH_TRAILER, *GIVEN), 16)


def test_damaged_files_of_the_workflow_are_refused(some_damaged):
    """Some damage changes nothing: zeros over zeros, a digit by itself."""
    lines = [line for line in some_damaged if line["kind"] in WITH_TRAILER]
    assert all((line["outcome"] == "refused") == line["changed"] for line in lines)


def test_damaged_files_from_elsewhere_are_refused_or_sound(some_damaged):
    for kind in GIVEN:
        assert {line["outcome"] for line in some_damaged if line["kind"] == kind} == {"refused", "read"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*WITH_TRAILER, *GIVEN])
def test_four_hundred_damaged_files_of_a_kind_are_refused_or_sound(kind):
    for line in outcomes([kind], 400, first=1000):
        assert kind in GIVEN or (line["outcome"] == "refused") == line["changed"]


# ---- seals -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def nodes_file(tmp_path) -> Path:
    node_files.save(NODES, tmp_path / "nodes.h5")
    return tmp_path / "nodes.h5"


def without_trailer(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-TRAILER])


def changed(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])


HARMS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "without a seal": (without_trailer, "no checksum at its end: cut off, or made by an earlier version"),
    "another byte": (changed, "its checksum does not hold: it is damaged"),
    "empty": (lambda path: path.write_bytes(b""), "no checksum at its end"),
    "a pickle": (lambda path: path.write_bytes(b"\x80\x04\x95cos\nsystem\n(S'touch canary'\ntR."), "no checksum"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_node_arrays_that_are_not_as_they_were_written_are_refused(harm, nodes_file):
    make, said = HARMS[harm]
    make(nodes_file)
    with pytest.raises(StageError, match=f"cannot be read as node arrays .*{said}.*; run decompose again"):
        node_files.load(nodes_file)


def test_a_file_that_gets_a_new_trailer_is_read(nodes_file):
    without_trailer(nodes_file)
    write_checksum_trailer(nodes_file)
    assert node_files.load(nodes_file).count == NODES.count


# ---- volumes ---------------------------------------------------------------------------------------------------------

NRRD = [
    "NRRD0004",
    "type: uchar",
    "dimension: 3",
    "space: LPS",
    "space directions: (1,0,0) (0,1,0) (0,0,1)",
    "space origin: (0,0,0)",
]
MHA = [
    "ObjectType = Image",
    "NDims = 3",
    "ElementSpacing = 1 1 1",
    "TransformMatrix = 1 0 0 0 1 0 0 0 1",
    "Offset = 0 0 0",
    "BinaryData = True",
    "ElementType = MET_UCHAR",
]


def nrrd(path: Path, sizes: str, *fields: str, data: bytes = b"") -> Path:
    path.write_bytes("\n".join([*NRRD, f"sizes: {sizes}", *fields, "", ""]).encode() + data)
    return path


def mha(path: Path, size: str, file: str, data: bytes = b"") -> Path:
    path.write_bytes("\n".join([*MHA, f"DimSize = {size}", f"ElementDataFile = {file}", ""]).encode() + data)
    return path


OUTSIDE = ["/etc/passwd", "../secret.raw", "link.raw", "LIST", "slice%03d.raw 1 8 1", "a/../../secret.raw"]


@pytest.mark.parametrize("named", OUTSIDE)
@pytest.mark.parametrize("kind", ["nrrd", "mhd"])
@pytest.mark.parametrize("read", [read_volume_file, lambda path: read_mask_file(path, None)], ids=["volume", "mask"])
def test_voxels_of_another_folder_are_not_read(tmp_path, named, kind, read):
    folder = tmp_path / "given"
    folder.mkdir()
    (tmp_path / "secret.raw").write_bytes(bytes(range(1, 9)) * 64)
    (folder / "link.raw").symlink_to(tmp_path / "secret.raw")
    path = folder / f"a.{kind}"
    if kind == "nrrd":
        nrrd(path, "8 8 8", "encoding: raw", f"data file: {named}")
    else:
        mha(path, "8 8 8", named)
    with pytest.raises(StageError, match=r"its header names several files|is not beside it"):
        read(path)


def test_voxels_in_a_file_beside_are_read(tmp_path):
    (tmp_path / "a.raw").write_bytes(bytes(range(256)) * 2)
    for path in (
        nrrd(tmp_path / "a.nhdr", "8 8 8", "encoding: raw", "data file: a.raw"),
        mha(tmp_path / "a.mhd", "8 8 8", "a.raw"),
    ):
        volume, _ = read_volume_file(path)
        assert volume.voxels.sum() == 2 * sum(range(256))


def nifti_of(path: Path, size: int) -> bytes:
    """A header that claims so many voxels along each axis, and what follows it."""
    data = bytearray(nifti(path).read_bytes())
    data[42:48] = np.array([size] * 3, "<i2").tobytes()
    return bytes(data)


def huge(kind: str, folder: Path) -> Path:
    """A header that claims terabytes."""
    if kind == "nrrd":
        return nrrd(folder / "a.nrrd", "90000 90000 90000", "encoding: raw", data=bytes(500))
    if kind == "nrrd gzip":
        return nrrd(folder / "a.nrrd", "90000 90000 90000", "encoding: gzip", data=gzip.compress(bytes(500)))
    if kind == "mha":
        return mha(folder / "a.mha", "90000 90000 90000", "LOCAL", bytes(500))
    content = nifti_of(folder / "plain.nii", 30000)
    path = folder / ("a.nii.gz" if kind == "nifti gzip" else "a.nii")
    path.write_bytes(gzip.compress(content) if kind == "nifti gzip" else content)
    return path


@pytest.mark.parametrize("kind", ["nrrd", "nrrd gzip", "mha", "nifti", "nifti gzip"])
def test_a_header_that_claims_more_than_its_file_can_hold_is_refused_before_anything_is_read(kind, tmp_path):
    with pytest.raises(StageError, match=r"its header claims .* GB, which its \d+ bytes cannot hold"):
        read_volume_file(huge(kind, tmp_path))


@pytest.mark.parametrize("kind", ["nrrd", "nifti"])
def test_a_gzip_bomb_is_refused_before_it_is_unpacked(kind, tmp_path, monkeypatch):
    """A thousand to one, which masks may reach, too: what counts is the memory of the machine."""
    monkeypatch.setattr("pipeline.files.volume_file.available_bytes", lambda: 50e6)
    if kind == "nrrd":
        path = nrrd(tmp_path / "a.nrrd", "400 400 400", "encoding: gzip", data=gzip.compress(bytes(64_000_000)))
    else:
        path = tmp_path / "a.nii.gz"
        path.write_bytes(gzip.compress(nifti_of(tmp_path / "plain.nii", 400) + bytes(256_000_000)))
    for read in (read_volume_file, lambda path: read_mask_file(path, None)):
        with pytest.raises(StageError, match=r"its voxels take 0\.\d+ GB, and 0\.05 GB of memory are free; cut out"):
            read(path)


# ---- DICOM segmentations (series of images: test_load_fuzz.py, test_sources.py) --------------------------------------


def impossible_size(path: Path) -> None:
    made = pydicom.dcmread(path)
    made.Rows, made.Columns, made.NumberOfFrames = 65535, 65535, 2**31 - 1
    made.save_as(path)


def unknown_encoding(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.9\0", 1))


def deflated_bomb(path: Path) -> None:
    made = pydicom.dcmread(path)
    made.PixelData = bytes(2**22)
    made.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    made.save_as(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (impossible_size, r"claims 2.14748e\+09 frames of 65535 x 65535 voxels, which its \d+ bytes cannot hold"),
        (unknown_encoding, "are stored as images with compression; decompress it"),
        (deflated_bomb, "the DICOM file is damaged"),
    ],
)
def test_a_dicom_segmentation_of_impossible_frames_is_refused(tmp_path, monkeypatch, change, said):
    monkeypatch.setattr("pipeline.dicom.dataset.MAX_INFLATED_BYTES", 2**20)
    mask = ball()
    path = write_segmentation(tmp_path, mask, {"a": mask.voxels})
    change(path)
    with pytest.raises(StageError, match=said):
        read_segmentation(path, None)


# ---- surfaces --------------------------------------------------------------------------------------------------------

LAUGHS = "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 12))
ARRAY = '<DataArray type="{}" Name="{}" NumberOfComponents="{}" format="ascii">{}</DataArray>'


def vtp(points: str, count: int = 3, declared: str = "") -> str:
    head = f'<?xml version="1.0"?>{declared}<VTKFile type="PolyData" version="0.1"><PolyData>'
    places = ARRAY.format("Float32", "Points", 3, points)
    corners = ARRAY.format("Int32", "connectivity", 1, "0 1 2") + ARRAY.format("Int32", "offsets", 1, "3")
    piece = (
        f'<Piece NumberOfPoints="{count}" NumberOfPolys="1"><Points>{places}</Points><Polys>{corners}</Polys></Piece>'
    )
    return f"{head}{piece}</PolyData></VTKFile>"


PLY = (
    "ply\nformat {}\nelement vertex {}\nproperty float x\nproperty float y\nproperty float z\n"
    "element face {}\n{}end_header\n"
)
LIST = "property list uchar int vertex_indices\n"
PLACES = "0 0 0 1 0 0 0 1 0"
CLAIMED: dict[str, str | bytes] = {
    "laughs.vtp": vtp("&a11;", declared=f'<!DOCTYPE a [<!ENTITY a0 "0 0 0 ">{LAUGHS}]>'),
    "another.vtp": vtp("&a;", declared='<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>'),
    "points.vtp": vtp(PLACES, 10**15),
    "corners.vtp": vtp(PLACES).replace("0 1 2<", "0 1 99999999<"),
    "text.ply": PLY.format("ascii 1.0", 10**15, 1, LIST) + "0 0 0\n",
    "binary.ply": PLY.format("binary_little_endian 1.0", 10**15, 10**15, LIST),
    "long.ply": PLY.format("ascii 1.0", "9" * 5000, 1, LIST),
    "odd.ply": PLY.format("ascii 1.0", "\u00b2", 1, LIST),
    "list.ply": PLY.format("binary_little_endian 1.0", 1, 1, LIST.replace("uchar", "int")).encode() + b"\xff" * 40,
    "corners.obj": "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 999999999\n",
}


def test_the_plain_file_of_what_follows_is_read(tmp_path):
    (tmp_path / "a.vtp").write_text(vtp(PLACES))
    assert len(read_surface_file(tmp_path / "a.vtp").triangles) == 1


@pytest.mark.parametrize("name", CLAIMED)
def test_a_surface_that_claims_what_it_does_not_hold_is_refused(name, tmp_path, capfd):
    content = CLAIMED[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode("latin-1"))
    with pytest.raises(StageError, match=r"damaged|no triangle can be read"):
        read_surface_file(tmp_path / name)
    assert capfd.readouterr() == ("", "")


# ---- work in a process of its own ------------------------------------------------------------------------------------

WORK = """
import os
import time
from pipeline.files.sandbox import serve
from solver.runtime.errors import StageError

def work(request, data):
    os.write(1, b"printed")
    if request["do"] == "crash":
        os.abort()
    if request["do"] == "hang":
        time.sleep(1000)
    if request["do"] == "hoard":
        return bytes(10**10)
    if request["do"] == "refuse":
        raise StageError("empty; fill it")
    return data[::-1]

serve(work, 2**30)
"""


def test_work_that_fails_ends_in_an_exception_and_the_next_is_done(tmp_path, monkeypatch, capfd):
    (tmp_path / "made_to_fail.py").write_text(WORK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    work = Sandbox("made_to_fail")
    for fault in ("crash", "hang", "hoard"):
        with pytest.raises(SandboxError):
            work.ask({"do": fault}, b"abc", 1.0 if fault == "hang" else 60.0)  # which has been started
        assert work.ask({"do": "turn"}, b"abc", 60.0) == b"cba"
    with pytest.raises(StageError, match=r"^empty; fill it$"):
        work.ask({"do": "refuse"}, b"", 60.0)
    assert capfd.readouterr() == ("", "")
