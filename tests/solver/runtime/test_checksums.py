# SPDX-License-Identifier: Apache-2.0
"""Checksums of large files: each is read once, until it changes."""

import errno
import hashlib
import os
import shutil
import time

import pytest

from solver.runtime import checksums
from solver.runtime.checksum_trailer import require_checksum_trailer, write_checksum_trailer
from solver.runtime.checksums import checksum


def test_a_large_file_is_read_once_for_all_its_checksums_until_it_changes(tmp_path, monkeypatch):
    """As it was written, too: neither the trailer's check nor that of the whole file reads what has just been read."""
    file, read = tmp_path / "flow", []
    digest = checksums._digest
    monkeypatch.setattr(checksums, "LARGE", 4)
    monkeypatch.setattr(checksums, "_digest", lambda *given: read.append(given) or digest(*given))
    for text, times in ((b"abcd", 1), (b"abce", 2), (b"abc", 4)):
        time.sleep(0.02)  # files are stamped by a clock of some milliseconds
        file.write_bytes(text)
        assert {checksum(file), checksum(file)} == {hashlib.sha256(text).hexdigest()}
        assert len(read) == times
    write_checksum_trailer(file)
    written = file.read_bytes()
    assert written == b"abc\nsha256 " + hashlib.sha256(b"abc").hexdigest().encode()
    require_checksum_trailer(file)
    assert checksum(file) == hashlib.sha256(written).hexdigest()
    assert len(read) == 5
    time.sleep(0.02)
    file.write_bytes(b"abd" + written[3:])
    for _ in range(2):
        with pytest.raises(ValueError, match="damaged"):
            require_checksum_trailer(file)
    assert len(read) == 6


def another_process(monkeypatch):
    """Forget what this one has kept."""
    monkeypatch.setattr(checksums, "_KEPT", {})


def test_another_process_takes_the_checksums_of_a_large_file_for_a_day_unless_it_changes(tmp_path, monkeypatch):
    file, read, now = tmp_path / "flow", [], time.time()
    digest = checksums._digest
    monkeypatch.setattr(checksums, "LARGE", 4)
    monkeypatch.setattr(checksums, "_digest", lambda *given: read.append(given) or digest(*given))
    file.write_bytes(b"abcd")
    write_checksum_trailer(file)
    if checksums.ATTRIBUTE not in os.listxattr(file):
        pytest.skip("this file system keeps no attributes of users")
    whole = hashlib.sha256(file.read_bytes()).hexdigest()
    for hours, times in ((0, 1), (23, 1), (25, 2), (26, 2)):  # the clock of the other process
        another_process(monkeypatch)
        monkeypatch.setattr(checksums.time, "time", lambda hours=hours: now + 3600 * hours)
        require_checksum_trailer(file)
        assert (checksum(file), len(read)) == (whole, times)
    os.setxattr(file, checksums.ATTRIBUTE, b"of another program")
    another_process(monkeypatch)
    assert (checksum(file), len(read)) == (whole, 3)
    copy = tmp_path / "copy"
    shutil.copy2(file, copy)  # with its attributes and times
    another_process(monkeypatch)
    assert (checksum(copy), len(read)) == (whole, 4)
    time.sleep(0.02)  # files are stamped by a clock of some milliseconds
    file.write_bytes(b"abce" + file.read_bytes()[4:])
    for _ in range(2):
        another_process(monkeypatch)
        with pytest.raises(ValueError, match="damaged"):
            require_checksum_trailer(file)
    assert len(read) == 5


def test_small_files_and_file_systems_without_attributes_are_read_by_each_process(tmp_path, monkeypatch):
    file = tmp_path / "flow"
    file.write_bytes(b"abcd")
    checksum(file)
    assert checksums.ATTRIBUTE not in os.listxattr(file)

    def refuse(*given):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(checksums, "LARGE", 4)
    for name in ("getxattr", "setxattr"):
        monkeypatch.setattr(os, name, refuse)
    another_process(monkeypatch)
    assert checksum(file) == checksum(file) == hashlib.sha256(b"abcd").hexdigest()
