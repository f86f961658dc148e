# SPDX-License-Identifier: Apache-2.0
"""Volume files that are cut, changed, or hold what is no real number are refused before a library reads them.

What has a checksum (.nii.gz, NRRD with gzip, compressed MetaImage) is refused when a byte of it changes. Raw voxels
have none: a changed byte changes its own voxel. A header has none either: another valid number in one of its fields is
another header, which nobody can tell from a sound one. Nothing else may come out of a damaged file.
"""

import gzip
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk

from pipeline.files.volume import Volume
from pipeline.files.volume_file import read_volume_file
from pipeline.stages.import_mask import MaskSettings, import_mask, read_mask
from solver.runtime.errors import StageError
from tests.pipeline.files.test_volume_file import nifti
from tests.support.dicom_files import noise, oblique
from tests.support.file_mutations import DAMAGES
from tests.support.given_mutations import FORMATS, outcome
from tests.support.variants import some

SOUND = oblique(noise() >> 4)
PACKED = ("nii.gz", "gzip.nrrd", "packed.mha", "packed.mhd")
KINDS = ("nii", "float.nii", "raw.nrrd", "hex.nrrd", "raw.nhdr", "raw.mha", "raw.mhd", *PACKED)
BESIDE = {"raw.nhdr": "a.raw.raw", "raw.mhd": "a.raw.raw", "packed.mhd": "a.packed.zraw"}


def written(kind: str, folder: Path) -> dict[str, bytes]:
    """Files by name, the header first."""
    path = folder / f"a.{kind}"
    volume = SOUND.with_voxels(SOUND.voxels.astype(np.float32)) if kind.startswith("float") else SOUND
    sitk.WriteImage(volume.to_sitk(), str(path), useCompression=kind in PACKED)
    if kind == "hex.nrrd":
        header = path.read_bytes().split(b"\n\n")[0].replace(b"encoding: raw", b"encoding: hex")
        path.write_bytes(header + b"\n\n" + SOUND.voxels.tobytes().hex().encode())
    names = [path.name, *([BESIDE[kind]] if kind in BESIDE else [])]
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, dict[str, bytes]]:
    return {kind: written(kind, tmp_path_factory.mktemp("sound")) for kind in KINDS}


def load(folder: Path, files: dict[str, bytes]) -> Volume:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return read_volume_file(folder / next(iter(files)))[0]


@pytest.mark.parametrize("kind", KINDS)
def test_sound_files_load_as_they_were_written(kind, files, tmp_path):
    volume = load(tmp_path, files[kind])
    np.testing.assert_array_equal(volume.voxels, SOUND.voxels)
    np.testing.assert_allclose(volume.to_mm([16, 10, 5]), SOUND.to_mm([16, 10, 5]), atol=1e-4)  # NIfTI keeps float32


@pytest.mark.parametrize("part", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_cut_are_refused(kind, part, files, tmp_path):
    for name, data in files[kind].items():
        with pytest.raises(StageError, match=r"volume file: \w+: .*; (copy the file|save it) again"):
            load(tmp_path, files[kind] | {name: data[: int(part * len(data))]})


@pytest.mark.parametrize("kind", PACKED)
def test_a_changed_byte_of_packed_voxels_is_refused_or_changes_none(kind, files, tmp_path):
    """Some bits of a packed stream mean nothing, such as those that fill up its last byte."""
    name, data = list(files[kind].items())[-1]
    start = 20 if name.endswith((".gz", ".zraw")) else len(data) * 2 // 3
    refused = 0
    for place in np.linspace(start, len(data) - 1, 30, dtype=int):
        changed = data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :]
        try:
            volume = load(tmp_path, files[kind] | {name: changed})
        except StageError:
            refused += 1
        else:
            np.testing.assert_array_equal(volume.voxels, SOUND.voxels)
    assert refused >= 25


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_the_voxels_is_refused(kind, files, tmp_path):
    name, data = list(files[kind].items())[-1]
    with pytest.raises(StageError, match=r"claims|packed voxels"):
        load(tmp_path, files[kind] | {name: data + b"42"})


def test_packed_parts_that_follow_each_other_are_one_file(files, tmp_path):
    """As gzip has it, and bgzip writes."""
    whole = gzip.decompress(files["nii.gz"]["a.nii.gz"])
    volume = load(tmp_path, {"a.nii.gz": gzip.compress(whole[:1000]) + gzip.compress(whole[1000:])})
    np.testing.assert_array_equal(volume.voxels, SOUND.voxels)


@pytest.mark.parametrize("kind", ["float.nii", "nii.gz", "raw.nrrd", "gzip.nrrd", "raw.mha"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_counted_and_refused(kind, value, tmp_path):
    voxels = SOUND.voxels.astype(np.float32)
    voxels[1:3, 4, 5] = value
    SOUND.with_voxels(voxels).write(tmp_path / f"a.{kind}")
    for read in (read_volume_file, lambda path: read_mask(path, None)):
        with pytest.raises(StageError, match=r"2 of 1122 values \(float32\) are NaN or infinite; replace them"):
            read(tmp_path / f"a.{kind}")


@pytest.mark.parametrize("suffix", ["nii", "nii.gz", "nrrd", "mha"])
@pytest.mark.parametrize(
    ("kind", "said"),
    [("complex", r"complex numbers|2 values a voxel"), ("colours", r"colours \(RGB\)|3 values a voxel")],
)
def test_voxels_that_are_no_real_numbers_are_refused(suffix, kind, said, tmp_path):
    if kind == "complex":
        image = sitk.GetImageFromArray(SOUND.voxels * np.complex64(1j))
    else:
        image = sitk.GetImageFromArray(np.repeat(SOUND.voxels[..., None].astype(np.uint8), 3, axis=-1), isVector=True)
    sitk.WriteImage(image, str(tmp_path / f"a.{suffix}"))
    if kind == "colours" and suffix == "nii":
        data = bytearray(nifti(tmp_path / "a.nii").read_bytes())
        data[70:74] = np.array([128, 24], "<i2").tobytes()
        (tmp_path / "a.nii").write_bytes(data)
    for read in (read_volume_file, lambda path: read_mask(path, None)):
        with pytest.raises(StageError, match=said):
            read(tmp_path / f"a.{suffix}")


@pytest.mark.parametrize("kind", ["raw.nrrd", "raw.mha"])
def test_voxels_as_text_are_refused(kind, files, tmp_path):
    """A blank in place of a digit would move all that follow."""
    name, data = next(iter(files[kind].items()))
    data = data.replace(b"encoding: raw", b"encoding: ascii").replace(b"BinaryData = True", b"BinaryData = False")
    with pytest.raises(StageError, match="save it again with encoding raw or gzip"):
        load(tmp_path, {name: data})


LENIENT = {
    "letter behind a number": ("raw.nrrd", b"space origin: (-31.", b"space origin: (-31x."),
    "letter behind a size": ("raw.nrrd", b"sizes: 17 11 6", b"sizes: 17 11 6x"),
    "origin as free text": ("raw.nrrd", b"space origin: ", b"space origin:="),
    "two numbers of lines to skip": ("raw.nrrd", b"endian", b"line skip: 0 0\nendian"),
    "name of a file that none can have": ("raw.mhd", b"ElementDataFile = ", b"ElementDataFile = " + b"x" * 300),
    "name in small letters": ("raw.mha", b"Offset", b"offset"),
    "a field said twice": ("raw.mha", b"ElementType", b"Offset = 1 2 3\nElementType"),
    "a fourth number": ("raw.mha", b"Offset = ", b"Offset = 3 "),
    "no order of bytes": ("raw.mha", b"BinaryDataByteOrderMSB", b"BinaryDataByteOrderMSC"),
    "no length of what is packed": ("packed.mha", b"CompressedDataSize", b"CompressedDataSise"),
}


@pytest.mark.parametrize("fault", LENIENT)
def test_headers_that_a_library_reads_as_others_are_refused(fault, files, tmp_path):
    kind, sound, damaged = LENIENT[fault]
    name, data = next(iter(files[kind].items()))
    assert data.count(sound) == 1
    with pytest.raises(
        StageError, match=r"its header cannot be read|it has no (space origin|Offset)|names several files"
    ):
        load(tmp_path, {name: data.replace(sound, damaged)})


@pytest.mark.parametrize(
    ("kind", "little", "big"),
    [("raw.nrrd", b"endian: little", b"endian: big"), ("raw.mha", b"OrderMSB = False", b"OrderMSB = True")],
)
def test_voxels_with_the_high_byte_first_are_read(kind, little, big, files, tmp_path):
    name, data = next(iter(files[kind].items()))
    header = data[: -SOUND.voxels.nbytes].replace(little, big)
    volume = load(tmp_path, {name: header + SOUND.voxels.astype(">i2").tobytes()})
    np.testing.assert_array_equal(volume.voxels, SOUND.voxels)


def test_a_mask_that_lost_its_half_is_refused(tmp_path):
    inside = np.linalg.norm(np.indices((20, 21, 22)).T - [9.0, 10, 11], axis=-1).T < 7
    path = tmp_path / "a.nii.gz"
    Volume(inside.astype(np.uint8), (0.5, 0.5, 0.5), (1.0, -2.0, 3.0), np.eye(3)).write(path)
    log = logging.getLogger("test")
    assert import_mask(read_mask(path, None), MaskSettings(), log).record["voxels"] == inside.sum()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(StageError, match=r"input.mask: NIfTI: its packed voxels end after \d+ bytes.*cut off"):
        read_mask(path, None)


def test_a_packed_file_beside_an_unpacked_one_of_its_name_is_refused(files, tmp_path):
    """The library takes the header of the one and the voxels of the other."""
    load(tmp_path, files["nii"])
    with pytest.raises(StageError, match=r"of the same name without \.gz lies beside it.*; move either"):
        load(tmp_path, files["nii.gz"])


# ---- random damage ---------------------------------------------------------------------------------------------------

PLACE = {"spacedirections", "spaceorigin", "space", "ElementSpacing", "Offset", "TransformMatrix", "sizes", "DimSize"}
VALUES = {"type", "endian", "sizes", "ElementType", "BinaryDataByteOrderMSB", "DimSize"}
NIFTI_PLACE, NIFTI_VALUES = [(40, 48), (76, 108), (123, 124), (252, 328)], [(40, 48), (70, 74), (112, 120)]
"""Where headers tell the place, and how to read the values; bytes of NIfTI-1 from and up to."""


def fields(header: bytes) -> dict[str, str]:
    lines = (line.replace(" = ", ": ").partition(": ") for line in header.decode("latin-1").split("\n"))
    return {name.replace(" ", ""): value for name, _, value in lines}


def reported_otherwise(kind: str, before: bytes, after: bytes) -> tuple[bool, bool]:
    """Whether the place, and how to read the values, are told by another valid header."""
    if kind.endswith("nii"):
        changed = [k for k in range(352) if before[k] != after[k]]
        return tuple(any(a <= k < b for k in changed for a, b in parts) for parts in (NIFTI_PLACE, NIFTI_VALUES))
    one, other = fields(before), fields(after)
    changed_names = {name for name in one if name in other and one[name] != other[name]}
    return bool(changed_names & PLACE), bool(changed_names & VALUES)


def judge(kind: str, sound: dict[str, bytes], folder: Path, damage: Callable, rng: np.random.Generator) -> str:
    """What becomes of a file in which something is damaged: refused, the same, its damaged values, another header."""
    right = load(folder, sound)
    name = list(sound)[int(rng.integers(len(sound)))]
    before = sound[name]
    after = bytes(damage(bytearray(before), rng))
    try:
        volume = load(folder, sound | {name: after})
    except StageError as error:
        return "refused" if len(str(error).splitlines()) == 1 else "several lines"
    same_place = (volume.spacing_mm, volume.origin_mm) == (right.spacing_mm, right.origin_mm)
    same_place &= np.array_equal(volume.direction, right.direction)
    same_values = volume.voxels.dtype == right.voxels.dtype and np.array_equal(volume.voxels, right.voxels)
    if same_place and same_values:
        return "the same"
    header = name == next(iter(sound)) and kind != "nii.gz"
    place, values = reported_otherwise(kind, before, after) if header else (False, False)
    if not (same_place or place):
        return "wrong place"
    if not same_values and kind not in PACKED and as_damaged(kind, before, after, right, volume):
        return "damaged values"
    return "another header" if same_values or values else "wrong values"


def as_damaged(kind: str, before: bytes, after: bytes, right: Volume, volume: Volume) -> bool:
    """Whether no voxel differs but those whose bytes do."""
    if volume.voxels.dtype != right.voxels.dtype or volume.voxels.shape != right.voxels.shape:
        return False
    if len(before) != len(after):
        return False
    each = right.voxels.itemsize * (2 if kind == "hex.nrrd" else 1)
    start = len(before) - each * right.voxels.size
    damaged = {(k - start) // each for k, (one, other) in enumerate(zip(before, after, strict=True)) if one != other}
    return set(np.flatnonzero(volume.voxels != right.voxels).tolist()) <= damaged


def outcomes(files: dict[str, dict[str, bytes]], count: int, folder: Path) -> Counter[tuple[str, str]]:
    seen: Counter[tuple[str, str]] = Counter()
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        damage = DAMAGES[number // len(KINDS) % len(DAMAGES)]
        (folder / kind).mkdir(exist_ok=True)
        seen[kind, judge(kind, files[kind], folder / kind, damage, np.random.default_rng(number))] += 1
    return seen


@pytest.mark.parametrize("count", some([220, 2200], 220))
def test_no_damage_makes_a_file_silently_wrong(count, files, tmp_path):
    seen = outcomes(files, count, tmp_path)
    assert {outcome for _, outcome in seen} == {"refused", "the same", "damaged values", "another header"}
    assert {kind for kind, outcome in seen if outcome == "refused"} == set(KINDS)


@pytest.mark.parametrize("count", some([25, 50], 25))
@pytest.mark.parametrize("name", FORMATS)
def test_no_damage_makes_a_mask_or_a_surface_silently_wrong(name, count, tmp_path):
    seen = Counter(outcome(name, number, tmp_path)[-1] for number in range(1000, 1000 + count))
    assert seen.keys() <= FORMATS[name].may_be
    assert min(seen["refused"], seen["the same"]) > 1  # neither is everything refused nor everything taken


def test_a_segmentation_whose_kind_cannot_be_read_is_refused(tmp_path):
    """Drawn among thousands: the value representation of its SOPClassUID is none."""
    assert outcome("DICOM segmentation", 50209, tmp_path) == ("flipped_head", "refused")
