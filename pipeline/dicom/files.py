# SPDX-License-Identifier: Apache-2.0
"""Files: what a source holds (folders, DICOMDIRs, ZIP files, single files), and which of its files are images.

Messages call a file by its number, because its name may hold a patient's.
"""

import os
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

from pydicom.errors import InvalidDicomError
from pydicom.filereader import read_file_meta_info
from pydicom.uid import MediaStorageDirectoryStorage

from pipeline.dicom.dataset import read_dataset
from pipeline.dicom.header import MODALITIES, NoSlice, SliceHeader, read_headers
from pipeline.files.volume_file import SUFFIXES
from solver.runtime.errors import StageError

PREAMBLE = 132
"""Bytes of a DICOM file up to and with the letters DICM."""
HEAD_BYTES = 2**16
"""Where the UIDs of a file stand."""
UID_TEXT = re.compile(rb"[0-9]+(?:\.[0-9]+){2,}")
CLASS_TAGS = (b"\x02\x00\x02\x00", b"\x08\x00\x16\x00", b"\x00\x08\x00\x16")
"""MediaStorageSOPClassUID, and SOPClassUID in both byte orders."""
NOT_DICOM = "not DICOM"
"""Why a file without the letters DICM is passed over."""
MAX_UNPACKED_BYTES = 64 * 2**30
MAX_RATIO = 200
"""A ZIP file of images that is more than this many times smaller than they are is made to fill a disk ..."""
RATIO_FROM_BYTES = 2**30
"""... if it would unpack to more than this."""


@dataclass(frozen=True)
class SourceFile:
    """A file of a source.

    Attributes
    ----------
    path : where it can be read.
    label : how messages call it.
    name : its name with its folder in the source, to be compared with others and never written.
    """

    path: Path
    label: str
    name: PurePath

    @property
    def pattern(self) -> str:
        """Its name with numbers, decimal or hexadecimal, left open: files of one export have the same."""
        return re.sub("[0-9a-f]+", "#", str(self.name).lower())


@dataclass
class Collection:
    """Files of a source, those beside a DICOMDIR that it does not name, and numbers of those passed over, by reason."""

    files: list[SourceFile] = field(default_factory=list)
    unnamed: list[SourceFile] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Doubtful:
    """A file that holds no slice as it is, but could be a damaged one, and why."""

    file: SourceFile
    reason: NoSlice


@dataclass(frozen=True)
class Head:
    """The UIDs in the first bytes of a file, in their order, and whether the tag of a SOP class stands there, too."""

    uids: list[str]
    tagged: bool


@dataclass(frozen=True)
class Scan:
    """What was found in the files of a source.

    Attributes
    ----------
    headers : of all slices.
    skipped : numbers of the other files, by reason.
    doubtful : those among them that could be damaged slices.
    unnamed : headers of slices in files beside a DICOMDIR that does not name them.
    names : the file of each path.
    """

    headers: list[SliceHeader]
    skipped: Counter[str]
    doubtful: list[Doubtful]
    unnamed: list[SliceHeader]
    names: dict[Path, SourceFile]

    @cached_property
    def heads(self) -> dict[SourceFile, Head]:
        """Of the doubtful files."""
        return {each.file: _head(each.file.path) for each in self.doubtful}


def holds_dicom(path: Path) -> bool:
    """Whether a source is a folder, a ZIP file, a DICOMDIR or a DICOM file."""
    return path.is_dir() or _is_dicom(path) or _is_zip(path)


@contextmanager
def collect(sources: list[Path]) -> Iterator[Collection]:
    """All files of some sources, each file once; those of ZIP files for as long as the context lasts.

    Parameters
    ----------
    sources : folders, at any depth and with anything in them; DICOMDIRs, which stand for the files that they name; ZIP
        files; DICOM files.

    Raises
    ------
    StageError
        If a source cannot be read whole, or it is no safe ZIP file.
    """
    found = Collection()
    known: set[Path] = set()
    with TemporaryDirectory(prefix="hemolattice-") as unpacked:
        for number, source in enumerate(sources, start=1):
            where = f"source {number}" if len(sources) > 1 else ""
            if source.is_dir():
                new = _numbered(_below(source), where or "the folder")
            elif _is_directory(source):
                new = _numbered(_named_by(source, where or "the DICOMDIR"), where or "those that the DICOMDIR names")
                found.unnamed += _numbered(_below(source.parent), f"those beside {where or 'the DICOMDIR'}")
            elif _is_zip(source):
                new = _unpacked(source, Path(unpacked) / str(number), where or "the ZIP file", found.skipped)
            else:
                new = [SourceFile(source, f"file {number} of the list" if where else "the file", source)]
            for file in new:
                if (real := file.path.resolve()) in known:
                    found.skipped["file given twice"] += 1
                else:
                    known.add(real)
                    found.files.append(file)
        found.unnamed = [file for file in found.unnamed if file.path.resolve() not in known]
        yield found


def whole(sources: list[Path]) -> list[Path]:
    """Sources with the files that the DICOMDIRs among them name: all that a checksum has to hold."""
    named = [file for source in sources if _is_directory(source) for file in _named_by(source, "the DICOMDIR")]
    return [*sources, *named]


def _volume_files(found: Collection) -> str:
    """That there are files of volumes, for the message where there is no slice."""
    kinds = sorted({each for each in SUFFIXES for file in found.files if file.path.name.lower().endswith(each)})
    if not kinds:
        return ""
    return f"; there are files of the kind {', '.join(kinds)}: give one of them itself, as input.volume or input.mask"


def scan(found: Collection, modalities: Sequence[str] = MODALITIES) -> Scan:
    """Headers of all slices in some files, and what the other files are.

    Raises
    ------
    StageError
        If a file may not be read, or there is no slice at all.
    """
    headers: list[SliceHeader] = []
    skipped, doubtful = Counter(found.skipped), []
    for file in found.files:
        slices = _slices(file, modalities)
        if isinstance(slices, list):
            headers += slices
            continue
        skipped[slices.why] += 1
        if slices.doubtful:
            doubtful.append(Doubtful(file, slices))
    if not headers:
        *others, last = modalities
        raise StageError(
            f"no {', '.join(others)} or {last} image among {skipped.total()} files (skipped: {counted(skipped)}); give"
            f" the folder of the series{_volume_files(found)}"
        )
    beside = [slices for file in found.unnamed if isinstance(slices := _slices(file, modalities), list)]
    unnamed = [header for slices in beside for header in slices]
    return Scan(headers, skipped, doubtful, unnamed, {file.path: file for file in found.files})


def _head(path: Path) -> Head:
    with path.open("rb") as stream:
        found = stream.read(HEAD_BYTES)
    return Head([uid.decode() for uid in UID_TEXT.findall(found)], tagged=any(tag in found for tag in CLASS_TAGS))


def files_of(headers: Iterable[SliceHeader]) -> set[Path]:
    """The files in which slices lie."""
    return {header.path for header in headers}


def counted(skipped: Counter[str]) -> str:
    """Numbers of files by reason, for messages."""
    return ", ".join(f"{count} {reason}" for reason, count in sorted((+skipped).items())) or "none"


def _slices(file: SourceFile, modalities: Sequence[str]) -> list[SliceHeader] | NoSlice:
    """Slices in a file, or why there are none."""
    try:
        return read_headers(file.path, file.label, modalities)
    except InvalidDicomError:
        return NoSlice(NOT_DICOM, doubtful=True)
    except Exception as error:  # pydicom raises almost anything for a damaged header, OSError without a number too
        if isinstance(error, OSError) and error.errno is not None:
            raise StageError(
                f"{file.label} cannot be read ({error.strerror}) and could belong to the series; repair its permissions"
                " or take it out"
            ) from None
        return NoSlice("damaged header", doubtful=True)


def _numbered(paths: list[Path], where: str) -> list[SourceFile]:
    return [SourceFile(path, _label(number, where), path) for number, path in enumerate(paths, start=1)]


def _label(number: int, where: str) -> str:
    return f"file {number} of {where} (by name)"


def _below(folder: Path) -> list[Path]:
    def refuse(error: OSError) -> None:
        raise error

    try:
        walk = os.walk(folder, onerror=refuse)
        return sorted(path for root, _, names in walk for name in names if (path := Path(root, name)).is_file())
    except OSError as error:  # its text would name the folder
        raise StageError(
            f"a folder below the source cannot be read ({error.strerror}); repair its permissions"
        ) from None


def _is_dicom(path: Path) -> bool:
    return _start(path)[PREAMBLE - 4 :] == b"DICM"


def _is_zip(path: Path) -> bool:
    return _start(path).startswith((b"PK\3\4", b"PK\5\6")) and zipfile.is_zipfile(path)


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(PREAMBLE)
    except OSError as error:
        raise StageError(f"the source cannot be read ({error.strerror}); repair its permissions") from None


def _is_directory(path: Path) -> bool:
    """Whether it is a DICOMDIR."""
    try:
        return read_file_meta_info(path).get("MediaStorageSOPClassUID") == MediaStorageDirectoryStorage
    except Exception:  # no DICOM, or a damaged header: whoever reads it as an image says so
        return False


def _named_by(path: Path, where: str) -> list[Path]:
    """The files that a DICOMDIR names (DICOM PS3.3, F.3), sorted."""
    try:
        records = read_dataset(path, ["DirectoryRecordSequence"]).get("DirectoryRecordSequence") or []
        ids = [record.get("ReferencedFileID") for record in records if record.get("RecordInUseFlag") != 0]
    except Exception:
        raise StageError(f"{where} cannot be read: it is damaged; give the folder that it lies in instead") from None
    names = {(one,) if isinstance(one, str) else tuple(map(str, one)) for one in ids if one}
    if any(_leads_out(part) for parts in names for part in parts):
        raise StageError(f"{where} names files outside of its own folder; give the folder of the images instead")
    found = {parts: _beside(path.parent, parts) for parts in names}
    missing = sum(file is None for file in found.values())
    if missing:
        raise StageError(
            f"{where}: {missing} of the {len(names)} files that it names are missing beside it; copy the whole medium,"
            " or give the folder of the images"
        )
    if not names:
        raise StageError(f"{where} names no file; give the folder of the images instead")
    return sorted(file for file in found.values() if file)


def _leads_out(part: str) -> bool:
    return part in ("", ".", "..") or "/" in part or "\\" in part or "\0" in part


def _beside(folder: Path, parts: tuple[str, ...]) -> Path | None:
    """A file below a folder whatever the case of its name, which copies of a CD may have changed."""
    here = folder
    for part in parts:
        if (here / part).exists():
            here /= part
            continue
        other = [entry for entry in _entries(here) if entry.name.split(";")[0].casefold() == part.casefold()]
        if len(other) != 1:
            return None
        here = other[0]
    return here if here.is_file() else None


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _unpacked(path: Path, folder: Path, where: str, skipped: Counter[str]) -> list[SourceFile]:
    """DICOM files of a ZIP file and those of like names, unpacked under names of our own; others are counted."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = sorted((m for m in archive.infolist() if not m.is_dir()), key=lambda member: member.filename)
            if any(member.flag_bits & 1 for member in members):
                raise StageError(f"{where} is encrypted; unpack it and give the folder")
            files = [
                (SourceFile(folder / str(k), _label(k, where), PurePath(member.filename)), member)
                for k, member in enumerate(members, start=1)
            ]
            patterns = {file.pattern for file, member in files if _member_is_dicom(archive, member)}
            wanted = [(file, member) for file, member in files if file.pattern in patterns]
            skipped[NOT_DICOM] += len(members) - len(wanted)
            folder.mkdir()
            _require_room([member for _, member in wanted], path, folder, where)
            for file, member in wanted:
                _unpack(archive, member, file.path)
            return [file for file, _ in wanted]
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, RuntimeError) as error:
        what = "packed in a way that is not known" if isinstance(error, NotImplementedError) else "damaged"
        raise StageError(f"{where} is {what}; copy it again, or unpack it and give the folder") from None
    except OSError as error:
        raise StageError(f"{where} cannot be unpacked ({error.strerror}); unpack it and give the folder") from None
    except Exception as error:  # zlib.error, lzma.LZMAError
        if isinstance(error, StageError):
            raise
        raise StageError(f"{where} is damaged; copy it again, or unpack it and give the folder") from None


def _member_is_dicom(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    with archive.open(member) as stream:
        return stream.read(PREAMBLE)[-4:] == b"DICM"


def _require_room(members: list[Any], path: Path, folder: Path, where: str) -> None:
    """Refuse what is made to fill the disk, or would."""
    total = sum(member.file_size for member in members)
    ratio = total / max(path.stat().st_size, 1)
    if total > MAX_UNPACKED_BYTES or (total > RATIO_FROM_BYTES and ratio > MAX_RATIO):
        raise StageError(
            f"{where} would unpack to {total / 2**30:.3g} GiB, {ratio:.0f} times its size; no series of images does,"
            " unpack it yourself if you trust it, and give the folder"
        )
    free = shutil.disk_usage(folder).free
    if total > 0.9 * free:
        raise StageError(
            f"{where} would unpack to {total / 2**30:.3g} GiB, but the folder for temporary files has"
            f" {free / 2**30:.3g} GiB left; set TMPDIR to a larger one, or unpack it and give the folder"
        )


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    with archive.open(member) as stream, target.open("wb") as file:
        shutil.copyfileobj(stream, file)
