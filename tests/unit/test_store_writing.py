"""Writing into the store: whole records or none, whatever the disk and others do."""

import errno
import os
import resource
import shutil
from contextlib import contextmanager

import pytest
from store_files import KEYS, response

from refusal_eval.ask.store import StoreError, StoreReader, StoreWriter
from refusal_eval.ask.store_index import IndexBuilder, index_path, load_index
from refusal_eval.core.errors import UserError


def test_a_job_without_responses_leaves_no_file(tmp_path):
    with StoreWriter(tmp_path, "engine", "job") as writer:
        writer.describe("s1", {})
    assert list((tmp_path / "engine").iterdir()) == []


class FullDisk:
    """A file on a disk that takes some bytes more."""

    def __init__(self, file, room, error=errno.ENOSPC):
        self._file, self._room, self._error = file, room, error

    def write(self, data):
        if not self._room:
            raise OSError(self._error, os.strerror(self._error))
        written = self._file.write(data[: self._room])
        self._room -= written
        return written

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.mark.parametrize("room", [0, 1, 40, 200])
def test_a_full_disk_is_reported_and_leaves_whole_records_only(tmp_path, room):
    with StoreWriter(tmp_path, "engine", "job") as writer:
        writer.append(KEYS[0], response("a"), "s1")
        writer._handle = FullDisk(writer._handle, room)
        with pytest.raises(
            StoreError, match=r"the disk with the store is full: .*free space and run again"
        ) as reported:
            writer.append(KEYS[1], response("b" * 200), "s1")
        assert isinstance(reported.value, UserError) and isinstance(reported.value, OSError)
        assert writer.path.read_bytes().endswith(b"}\n")
        writer._handle._room = 1000
        with pytest.raises(OSError, match=f"{writer.path.name} takes no more responses.*disk with the store is full"):
            writer.append(KEYS[2], response("c"), "s1")
    assert len(load_index(writer.path).entries) == writer.path.read_bytes().count(b"\n") == 1
    assert StoreReader(tmp_path, "engine").missing(KEYS[:3]) == KEYS[1:3]


@contextmanager
def largest_file(size):
    """Let the system itself refuse to write files beyond a size."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_write_that_the_system_cuts_short_is_cut_back(tmp_path):
    with StoreWriter(tmp_path, "engine", "job") as writer:
        writer.append(KEYS[0], response("a"), "s1")
        whole = writer.path.stat().st_size
        with largest_file(whole + 50), pytest.raises(StoreError, match=r"cannot be written.*File too large"):
            writer.append(KEYS[1], response("b" * 200), "s1")
        assert writer.path.stat().st_size == whole
    assert StoreReader(tmp_path, "engine").missing(KEYS[:2]) == [KEYS[1]]


def test_nothing_follows_a_record_in_which_a_job_was_stopped(tmp_path):
    class Stopped(FullDisk):
        def write(self, data):
            self._file.write(data[:100])
            raise SystemExit("stopped by SIGTERM")

    with StoreWriter(tmp_path, "engine", "job") as writer:
        writer.append(KEYS[0], response("a"), "s1")
        writer._handle = Stopped(writer._handle, 0)
        with pytest.raises(SystemExit):
            writer.append(KEYS[1], response("b"), "s1")
        with pytest.raises(OSError, match="stopped in the middle of a record"):
            writer.append(KEYS[2], response("c"), "s1")
    assert list(StoreReader(tmp_path, "engine").lookup(KEYS[:3])) == [KEYS[0]]


def replaced(folder, path):
    """As `refusal-eval store --prune` does: what follows would go into a file that nobody finds."""
    pruned = path.with_suffix(".new")
    pruned.write_bytes(path.read_bytes())
    pruned.replace(path)


@pytest.mark.parametrize("change", [lambda folder, path: shutil.rmtree(folder), replaced])
def test_a_file_that_is_removed_or_replaced_while_it_is_written_takes_no_more(tmp_path, change):
    with StoreWriter(tmp_path, "engine", "job") as writer:
        writer.append(KEYS[0], response("a"), "s1")
        change(tmp_path / "engine", writer.path)
        there = writer.path.exists()
        with pytest.raises(StoreError, match=r"moved or removed while it was written: .*; 1 responses .* run again"):
            writer.append(KEYS[1], response("b"), "s1")
    assert (tmp_path / "engine").exists() is there
    assert StoreReader(tmp_path, "engine").missing(KEYS[:2]) == KEYS[there:2]


def test_a_store_that_is_moved_is_noticed_at_the_end(tmp_path):
    writer = StoreWriter(tmp_path, "engine", "job")
    writer.append(KEYS[0], response("a"), "s1")
    (tmp_path / "engine").rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="moved or removed while it was written"):
        writer.close()


def test_a_disk_that_says_only_at_the_end_that_it_is_full_is_heard(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = StoreWriter(tmp_path, "engine", "job")
    writer.append(KEYS[0], response("a"), "s1")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"the disk with the store is full: .*what it kept counts"):
        writer.close()
    assert not index_path(writer.path).exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_or_quota_is_seen_before_there_is_a_response(tmp_path, monkeypatch, number):
    """Empty files can be made there."""

    def full(_):
        raise OSError(number, os.strerror(number))

    with StoreWriter(tmp_path, "engine", "job") as writer:
        writer.refuse_full()
        assert os.listdir(tmp_path / "engine") == [writer.path.name]
        with largest_file(1000), pytest.raises(StoreError, match=r"cannot be written.*File too large"):
            writer.refuse_full()
        monkeypatch.setattr(os, "fsync", full)
        what = f"the disk with the store is full: {writer.path}: {os.strerror(number)}; .*free space and run again"
        with pytest.raises(StoreError, match=what):
            writer.refuse_full()
    assert list((tmp_path / "engine").iterdir()) == []


def test_a_file_system_that_cannot_flush_on_demand_takes_responses(tmp_path, monkeypatch):
    def cannot(_):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", cannot)
    with StoreWriter(tmp_path, "engine", "job") as writer:
        writer.refuse_full()
        writer.append(KEYS[0], response("a"), "s1")
    assert StoreReader(tmp_path, "engine").missing(KEYS[:2]) == [KEYS[1]]


@pytest.mark.parametrize("counted", [False, True])
def test_a_record_behind_which_a_signal_came_is_read(tmp_path, monkeypatch, counted):
    """SIGTERM is an exception at whatever instruction: a whole record counts, though the index does not know of it."""
    add = IndexBuilder.add

    def stopped(self, key_start, offset):
        if counted:
            add(self, key_start, offset)
        raise SystemExit("stopped by SIGTERM")

    writer = StoreWriter(tmp_path, "engine", "job")
    with monkeypatch.context() as patched, pytest.raises(SystemExit), writer:
        writer.append(KEYS[0], response("a"), "s1")
        patched.setattr(IndexBuilder, "add", stopped)
        writer.append(KEYS[1], response("b"), "s1")
    assert sorted(StoreReader(tmp_path, "engine").lookup(KEYS[:3])) == sorted(KEYS[:2])
