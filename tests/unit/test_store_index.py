"""Indexes of store files, and readers that live long: only what is new is read."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest
from store_files import KEYS, fill, response

from refusal_eval.ask import store_index
from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.ask.store_index import index_path, key_numbers, load_index, matches


@pytest.fixture
def scans(monkeypatch):
    """Return the (file name, first byte) of every part of a store file that is read for want of an index."""
    seen, scanned = [], store_index._scan

    def noted(path, start):
        seen.append((path.name, start))
        return scanned(path, start)

    monkeypatch.setattr(store_index, "_scan", noted)
    return seen


# --- A reader that lives long --------------------------------------------------------------------------------------


def test_a_refresh_takes_in_what_others_appended_and_their_new_files(tmp_path):
    with StoreWriter(tmp_path, "engine", "job") as writer:
        writer.append(KEYS[0], response("a"), "s1")
        reader = StoreReader(tmp_path, "engine")
        writer.append(KEYS[1], response("b"), "s1")
        assert reader.missing(KEYS[:3]) == KEYS[1:3]
        assert reader.refresh()
        assert reader.missing(KEYS[:3]) == [KEYS[2]]
        fill(tmp_path, [KEYS[2]])
        assert reader.refresh()
        found = reader.lookup(KEYS[:3])
    assert [found[key]["response"]["text"][0] for key in KEYS[:3]] == ["a", "b", "a"]


def test_a_refresh_reads_only_what_is_new_in_files_that_grew(tmp_path, scans):
    fill(tmp_path, KEYS[:5])
    with StoreWriter(tmp_path, "engine", "job") as writer:
        for key in KEYS[5:10]:
            writer.append(key, response("a"), "s1")
        reader = StoreReader(tmp_path, "engine")
        before = writer.path.stat().st_size
        writer.append(KEYS[10], response("a"), "s1")
        scans.clear()
        assert reader.refresh()
        assert scans == [(writer.path.name, before)]
    assert reader.missing(KEYS[:12]) == [KEYS[11]]


def test_a_record_that_was_half_written_counts_once_it_is_whole(tmp_path):
    path = fill(tmp_path, KEYS[:3])
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    reader = StoreReader(tmp_path, "engine")
    assert reader.missing(KEYS[:3]) == [KEYS[2]]
    path.write_bytes(whole)
    reader.refresh()
    assert reader.missing(KEYS[:3]) == []


def test_a_refresh_notices_files_that_went_away_or_became_smaller(tmp_path):
    gone, smaller = fill(tmp_path, KEYS[:3]), fill(tmp_path, KEYS[3:6])
    reader = StoreReader(tmp_path, "engine")
    gone.unlink()
    assert reader.missing(KEYS[:6]) == KEYS[:3] and sorted(reader.lookup(KEYS[:6])) == sorted(KEYS[3:6])
    lines = smaller.read_bytes().splitlines(keepends=True)
    smaller.write_bytes(lines[0] + lines[3])
    reader.refresh()
    assert reader.missing(KEYS[:6]) == KEYS[:5]
    assert list(reader.lookup(KEYS[:6])) == [KEYS[5]]


# --- Indexes -------------------------------------------------------------------------------------------------------


def test_a_saved_index_saves_reading_the_file_and_a_refresh_without_news_says_so(tmp_path, scans):
    fill(tmp_path, KEYS)
    reader = StoreReader(tmp_path, "engine")
    assert reader.missing(KEYS) == [] and not reader.refresh()
    assert scans == []


def killed_writer(folder, keys):
    """Return a file whose writer was killed: it stands without an index, its last record torn."""
    path = fill(folder, keys)
    index_path(path).unlink()
    path.write_bytes(path.read_bytes() + b'{"key":"' + KEYS[49].encode())
    return path


def test_a_large_file_of_a_killed_writer_is_read_once_and_then_has_an_index(tmp_path, scans, monkeypatch):
    monkeypatch.setattr(store_index, "SAVED_FROM", 1000)
    path = killed_writer(tmp_path, KEYS[:40])
    end = path.read_bytes().rindex(b"\n") + 1
    for _ in range(3):
        assert StoreReader(tmp_path, "engine").missing(KEYS[:41]) == [KEYS[40]]
    assert scans == [(path.name, 0), (path.name, end), (path.name, end)]


def test_the_index_that_a_reader_saves_stays_true_of_a_file_that_grows(tmp_path, monkeypatch):
    monkeypatch.setattr(store_index, "SAVED_FROM", 1000)
    with StoreWriter(tmp_path, "engine", "job") as writer:
        for count, key in enumerate(KEYS):
            writer.append(key, response("a"), "s1")
            reader = StoreReader(tmp_path, "engine")
            assert reader.missing(KEYS) == KEYS[count + 1 :]
        assert not load_index(writer.path).closed
        assert index_path(writer.path).exists()
    assert load_index(writer.path).closed
    assert len(StoreReader(tmp_path, "engine").lookup(KEYS)) == len(KEYS)


def test_for_a_small_file_readers_save_no_index(tmp_path):
    path = killed_writer(tmp_path, KEYS[:40])
    StoreReader(tmp_path, "engine")
    assert not index_path(path).exists()


def test_where_an_index_cannot_be_saved_the_store_is_read_all_the_same(tmp_path, monkeypatch):
    def read_only(*_):
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(store_index, "SAVED_FROM", 1000)
    killed_writer(tmp_path, KEYS[:40])
    monkeypatch.setattr(store_index, "written_whole", read_only)
    assert StoreReader(tmp_path, "engine").missing(KEYS[:41]) == [KEYS[40]]


@pytest.mark.parametrize(("keys", "entries"), [(0, 5), (5, 0), (7, 300), (300, 7), (60, 60)])
def test_matches_are_those_of_a_plain_loop(keys, entries):
    random = np.random.default_rng(keys)
    # Few different numbers, so that all kinds of agreement occur: in both, in the first only, several times.
    wanted = sorted({f"{high:016x}{low:016x}" for high, low in random.integers(0, 12, (keys, 2))})
    index = np.zeros(entries, dtype=store_index.INDEX_ENTRY)
    index["high"], index["low"] = np.sort(random.integers(0, 12, entries)), random.integers(0, 12, entries)
    stored = [f"{high:016x}{low:016x}" for high, low, _ in index.tolist()]
    found = matches(key_numbers(wanted), index)
    expected = {(i, j) for i, key in enumerate(wanted) for j, other in enumerate(stored) if key == other}
    assert set(zip(*(part.tolist() for part in found), strict=True)) == expected
    assert len(found[0]) == len(expected)


def test_the_benchmark_runs_on_a_small_store(repository, tmp_path):
    command = [sys.executable, str(repository / "benchmarks" / "store_lookup.py"), "--folder", str(tmp_path)]
    command += ["--responses", "300", "--files", "7", "--keys", "50"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.count("reader + lookup, index") == 1
    assert list(tmp_path.iterdir()) == []
