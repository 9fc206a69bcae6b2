"""A store that was damaged or changed by hand: a record is read whole or executed again, and nothing else is lost."""

import datetime
import errno
import logging
import os
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from store_files import KEYS, fill, response, text_of, write_file

from refusal_eval.ask import store, store_index
from refusal_eval.ask.store import StoreError, StoreReader, StoreWriter
from refusal_eval.ask.store_index import index_path, load_index
from refusal_eval.core.files import canonical_json, sha256_of
from refusal_eval.core.packing import pack_floats


def stored(folder, keys=KEYS):
    """Return the keys that are found, after checking that the others are called missing."""
    reader = StoreReader(folder, "engine")
    found, missing = reader.lookup(keys), reader.missing(keys)
    assert sorted([*found, *missing]) == sorted(keys), "a key must be either found or missing"
    return list(found)


def change(path, old, new, index=True):
    """Replace the first occurrence of some bytes in a store file."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))
    if not index:
        index_path(path).unlink()


# --- Keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digit", [0, 31, 32, 40, 63])
@pytest.mark.parametrize("index", [True, False])
def test_a_record_whose_key_lost_a_digit_is_missing_and_all_others_are_found(tmp_path, digit, index):
    path, key = fill(tmp_path, KEYS[:5]), KEYS[2]
    wrong = key[:digit] + ("0" if key[digit] != "0" else "1") + key[digit + 1 :]
    change(path, key.encode(), wrong.encode(), index)
    assert sorted(stored(tmp_path, KEYS[:5])) == sorted(set(KEYS[:5]) - {key})
    fill(tmp_path, [key], text="again")
    assert text_of(tmp_path, key).startswith("again")


def rewrite(path, *numbers):
    """Write a file of these of its lines; line 0 is the serving record."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number] for number in numbers))


def append(path, key):
    last = path.read_bytes().splitlines(keepends=True)[-1]
    path.write_bytes(path.read_bytes() + last.replace(KEYS[4].encode(), key.encode()))


def change_index(path, damage):
    index_path(path).write_bytes(damage(index_path(path).read_bytes()))


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda path, other: rewrite(path, 0, 2, 1, 3, 4, 5), range(5)),  # two lines are swapped
        (lambda path, other: rewrite(path, 0, 2, 3, 4, 5, 5), [1, 2, 3, 4]),  # a record was taken by hand
        (lambda path, other: append(path, KEYS[5]), range(6)),
        # A store that was copied back from a backup in part: with the old index its responses would be executed again.
        (lambda path, other: path.write_bytes(other.read_bytes()), range(5, 10)),
        (lambda path, other: shutil.copy(index_path(other), index_path(path)), range(5)),
        (lambda path, other: shutil.copy(index_path(fill(other.parents[1], KEYS[7:9])), index_path(path)), range(5)),
        (lambda path, other: change_index(path, lambda index: b""), range(5)),
        (lambda path, other: change_index(path, lambda index: b"\0" * 500), range(5)),
        (lambda path, other: change_index(path, lambda index: index[: len(index) // 2]), range(5)),
        *(
            (
                lambda path, other, at=at: change_index(path, lambda i: i[:at] + bytes([i[at] ^ 1]) + i[at + 1 :]),
                range(5),
            )
            for at in (200, 400, 600)
        ),
    ],
)
def test_all_that_a_file_holds_is_found_whatever_its_index_says(tmp_path, change, left):
    path, other = fill(tmp_path, KEYS[:5]), fill(tmp_path / "other", KEYS[5:10])
    assert path.stat().st_size == other.stat().st_size and index_path(path).exists()
    change(path, other)
    assert sorted(stored(tmp_path, KEYS[:10])) == sorted(KEYS[number] for number in left)


def test_a_file_that_was_replaced_under_an_old_index_loses_nothing_that_it_holds(tmp_path):
    """Its size and its last record are the same, and so is all that an index can be checked against."""
    path = fill(tmp_path, KEYS[:5])
    reader = StoreReader(tmp_path, "engine")
    change(path, KEYS[1].encode(), KEYS[7].encode())
    change(path, KEYS[1].encode(), KEYS[7].encode())  # in its text
    assert sorted(reader.lookup(KEYS[:5])) == sorted(set(KEYS[:5]) - {KEYS[1]})
    assert reader.missing(KEYS[:8]) == [KEYS[1], KEYS[5], KEYS[6]]
    assert sorted(stored(tmp_path, KEYS[:8])) == sorted([KEYS[0], *KEYS[2:5], KEYS[7]])


def test_the_log_names_the_file_and_the_line_of_a_damaged_key_once(tmp_path, caplog):
    path = fill(tmp_path, KEYS[:5])
    change(path, KEYS[2][32:].encode(), KEYS[3][32:].encode())
    reader = StoreReader(tmp_path, "engine")
    for _ in range(3):
        reader.lookup(KEYS)
        reader.missing(KEYS)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1 and f"{path}, line 4" in warnings[0]  # line 1 is the serving record


# --- Values --------------------------------------------------------------------------------------------------------


def damages():
    whole = response("an answer")
    for name in ("text", "token_ids", "logprobs", "finish_reason", "stop_reason"):
        yield f"without {name}", {"response": {key: value for key, value in whole.items() if key != name}}
    for name, value in [
        *[("text", None), ("token_ids", "1"), ("token_ids", [1.5]), ("token_ids", [-1]), ("token_ids", [2**40])],
        *[("logprobs", "=="), ("logprobs", "äöü"), ("logprobs", pack_floats([-1.0])), ("logprobs", 5)],
        *[("logprobs", pack_floats([float("nan")] * 2)), ("finish_reason", 1), ("stop_reason", [])],
        *[("named_logprobs", "abc"), ("logits", pack_floats([float("inf")]))],
        ("prompt_logprobs", pack_floats([float("-inf")])),
    ]:
        yield f"{name} {value}"[:30], {"response": whole | {name: value}}
    for name, value in [("response", []), ("serving", None), ("time", 5), ("time", "yesterday"), ("key", 5)]:
        yield f"{name} {value}", {name: value}
    yield "no zone", {"time": "2026-01-01T00:00:00"}
    yield "the end of time", {"time": "9999-12-31T23:59:59.999999+00:00"}


@pytest.mark.parametrize("changed", [pytest.param(changed, id=name) for name, changed in damages()])
def test_a_record_with_a_value_that_cannot_be_read_is_missing(tmp_path, changed, caplog):
    record = {"response": response("an answer"), "serving": "s", "time": "2026-01-01T00:00:00+00:00"}
    good, bad = {"key": KEYS[0], **record}, {"key": KEYS[1], **record, **changed}
    (tmp_path / "engine").mkdir()
    path = tmp_path / "engine" / "by-hand.jsonl"
    path.write_text("".join(canonical_json(row) + "\n" for row in (good, bad, {**good, "key": KEYS[2]})))
    assert sorted(stored(tmp_path, KEYS[:3])) == sorted([KEYS[0], KEYS[2]])
    if bad["key"] == KEYS[1]:
        assert f"{path}, line 2" in caplog.text and "executed again" in caplog.text


@pytest.mark.parametrize("old", [b'"text"', b'":{"', b"answer ", b'","serving"', b"}\n"])
@pytest.mark.parametrize("new", [b"\xff", b"\0", b"\n", b"[" * 3000, b"9" * 5000])
def test_damaged_bytes_cost_the_records_they_are_in(tmp_path, old, new):
    path = fill(tmp_path, KEYS[:9])
    data = path.read_bytes()
    line = data.index(KEYS[4].encode())
    path.write_bytes(data[:line] + data[line:].replace(old, new, 1))
    assert set(KEYS[:9]) - {KEYS[4], KEYS[5]} <= set(stored(tmp_path))  # the end of a line is that of the next, too


def test_a_whole_record_elsewhere_counts_where_another_of_its_key_is_damaged(tmp_path):
    change(fill(tmp_path, KEYS[:1], text="first"), b'"text":"first', b'"text: first')
    fill(tmp_path, KEYS[:1], text="second")
    assert text_of(tmp_path, KEYS[0]).startswith("second")


def test_a_damaged_serving_record_is_told(tmp_path, caplog):
    path = fill(tmp_path, KEYS[:1])
    change(path, b'"serving_record"', b'"serving_re')
    assert StoreReader(tmp_path, "engine").serving() == {sha256_of(path.name)[:16]: {"damaged": True}}
    assert f"{path}, line 1" in caplog.text
    assert stored(tmp_path, KEYS[:1]) == KEYS[:1]


# --- Files that cannot be read ---------------------------------------------------------------------------------------


@pytest.fixture
def unreadable(monkeypatch):
    """Return a function after which a file cannot be opened, as for want of rights, which root always has."""

    def forbid(path, number=errno.EACCES):
        def refuse(file, *args, **more):
            if Path(file) == path:
                raise OSError(number, os.strerror(number), str(file))
            return open(file, *args, **more)

        monkeypatch.setattr(store, "open", refuse, raising=False)
        monkeypatch.setattr(store_index, "open", refuse, raising=False)

    return forbid


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_a_file_that_cannot_be_read_is_named_and_not_taken_for_missing(tmp_path, unreadable, number):
    path, _ = fill(tmp_path, KEYS[:5]), fill(tmp_path, KEYS[5:9], job="other")
    before = StoreReader(tmp_path, "engine")
    unreadable(path, number)
    said = re.escape(f"{path}, a file of the store, cannot be read: {os.strerror(number)}")
    for read in (lambda: before.lookup(KEYS[:9]), lambda: before.missing(KEYS[:9]), lambda: stored(tmp_path)):
        with pytest.raises(StoreError, match=said):
            read()
    assert index_path(path).is_file()


# --- Indexes -------------------------------------------------------------------------------------------------------


def forged(path, shape, dtype=None):
    """Replace an index by one whose header promises an array."""
    with zipfile.ZipFile(index_path(path), "w") as archive, archive.open("entries.npy", "w") as stream:
        described = np.lib.format.dtype_to_descr(load_index(path).entries.dtype if dtype is None else np.dtype(dtype))
        header = {"descr": described, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)


@pytest.mark.parametrize(("shape", "dtype"), [((10**15,), None), ((10**9,), "V4000"), ((3, 10**12), None)])
def test_an_index_that_promises_more_than_it_holds_takes_no_memory(tmp_path, monkeypatch, shape, dtype):
    path = fill(tmp_path, KEYS[:5])
    forged(path, shape, dtype)
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("the array was made"))
    assert sorted(stored(tmp_path, KEYS[:6])) == sorted(KEYS[:5])


def test_an_index_that_is_older_than_what_was_appended_and_cut_is_brought_up_to_date(tmp_path):
    path = fill(tmp_path, KEYS[:5])
    reader, lines = StoreReader(tmp_path, "engine"), path.read_bytes().splitlines(keepends=True)
    for keys, data in [
        (KEYS[:4], b"".join(lines[:5])),
        ([KEYS[4]], lines[5]),
        (KEYS[:5], b"".join(lines) + b'{"key":"'),
        (KEYS[:2], b"".join(lines[:3]) + lines[3][:50]),
    ]:
        path.write_bytes(data)
        reader.refresh()
        assert reader.missing(KEYS[:5]) == [key for key in KEYS[:5] if key not in keys]
        assert sorted(reader.lookup(KEYS[:5])) == sorted(keys)
        assert sorted(stored(tmp_path, KEYS[:5])) == sorted(keys)


def test_a_file_that_is_cut_while_it_is_read_gives_what_is_left(tmp_path):
    path = fill(tmp_path, KEYS[:5])
    reader = StoreReader(tmp_path, "engine")
    os.truncate(path, path.stat().st_size - 20)
    assert sorted(reader.lookup(KEYS[:5])) == sorted(KEYS[:4])
    assert reader.missing(KEYS[:5]) == [KEYS[4]]


# --- Clocks --------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """Return a function that sets this host's clock forward (or back) by some seconds."""
    real = datetime.datetime

    def set_forward(seconds):
        class Clock(real):
            @classmethod
            def now(cls, zone=None):
                return real.now(zone) + datetime.timedelta(seconds=seconds)

        monkeypatch.setattr(datetime, "datetime", Clock)

    return set_forward


@pytest.mark.parametrize(("first", "second"), [(0, -60), (3600, 0), (0, -86400 * 400), (0, 60)])
def test_an_answer_that_was_read_stays_whatever_the_clock_of_who_writes_later(tmp_path, clock, first, second):
    clock(second)
    with StoreWriter(tmp_path, "engine", "another-host") as other:  # it was started before the first answer was there
        clock(first)
        fill(tmp_path, KEYS[:2], text="judged")
        assert text_of(tmp_path, KEYS[0]).startswith("judged")
        clock(second)
        other.append(KEYS[0], response("a later answer"), "s1")
        assert text_of(tmp_path, KEYS[0]).startswith("judged")
    assert text_of(tmp_path, KEYS[0]).startswith("judged")


def test_a_reader_sees_what_came_while_it_read(tmp_path, clock, monkeypatch):
    """A writer that has not yet seen what was read may stamp earlier: who reads looks once more."""
    clock(0)
    fill(tmp_path, KEYS[:1], text="early")
    reader = StoreReader(tmp_path, "engine")
    found = reader._first_records

    def slow(keys):
        records = found(keys)
        monkeypatch.setattr(reader, "_first_records", found)
        clock(-60)
        fill(tmp_path, KEYS[:1], text="meanwhile")
        return records

    monkeypatch.setattr(reader, "_first_records", slow)
    assert reader.lookup(KEYS[:1])[KEYS[0]]["response"]["text"] == text_of(tmp_path, KEYS[0])
    assert reader.refresh(), "it has not been said yet that there was something new"


def test_reading_again_leaves_the_store_as_it_is(tmp_path):
    fill(tmp_path, KEYS[:5])
    text_of(tmp_path, KEYS[4])

    def state():
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "engine").iterdir()}

    before = state()
    for key in KEYS[:5]:
        text_of(tmp_path, key)
    StoreReader(tmp_path, "engine").missing(KEYS)
    assert state() == before


@pytest.mark.parametrize("noted", ["", "never\n", "\0\xff", "9999-12-31T23:59:59.999999+00:00", "2026-01-01"])
def test_a_damaged_note_of_what_was_read_stops_nobody(tmp_path, noted):
    fill(tmp_path, KEYS[:1])
    text_of(tmp_path, KEYS[0])
    (note,) = (path for path in (tmp_path / "engine").iterdir() if path.suffix == ".txt")
    note.write_text(noted)
    fill(tmp_path, KEYS[1:2])
    assert sorted(stored(tmp_path, KEYS[:3])) == sorted(KEYS[:2])


ABSURD = ["2999-12-31T23:59:59.999999+00:00", "2999-12-31T23:59:59+00:00", "2500-01-01T00:00:00.000000+00:00"]


def times(folder, keys):
    return [record["time"] for record in StoreReader(folder, "engine").lookup(keys).values()]


@pytest.mark.parametrize("odd_files", [False, True])
@pytest.mark.parametrize("time", ABSURD)
@pytest.mark.parametrize("where", ["note", "record"])
def test_an_absurd_time_is_not_followed_by_later_answers(tmp_path, where, time, odd_files):
    fill(tmp_path, KEYS[:1])
    text_of(tmp_path, KEYS[0])
    if where == "note":
        (tmp_path / "engine" / store.NEWEST_READ).write_text(time + "\n")
    path = write_file(tmp_path, "a-by-hand", (KEYS[1], time, "odd"))
    if odd_files:
        os.utime(path, (32_503_679_999,) * 2)  # the last second of 2999
    assert text_of(tmp_path, KEYS[1]) == "odd", "it counts as before"
    fill(tmp_path, KEYS[2:5])
    assert sorted(stored(tmp_path, KEYS[:6])) == sorted(KEYS[:5])
    fill(tmp_path, KEYS[5:8])
    assert sorted(stored(tmp_path, KEYS[:8])) == sorted(KEYS[:8])
    if not odd_files:
        day_after = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)).isoformat()
        assert max(times(tmp_path, KEYS[2:8])) < day_after


def test_an_answer_that_was_read_stays_where_the_clock_of_the_host_and_its_files_is_behind(tmp_path, clock):
    fill(tmp_path, KEYS[:2], text="judged")
    assert text_of(tmp_path, KEYS[0]).startswith("judged")
    clock(-86400 * 400)
    for text in ("later", "still later"):
        fill(tmp_path, KEYS[:3], text=text)
        text_of(tmp_path, KEYS[2])
        os.utime(tmp_path / "engine" / store.NEWEST_READ, (datetime.datetime.now().timestamp(),) * 2)
        assert text_of(tmp_path, KEYS[0]).startswith("judged")
        assert text_of(tmp_path, KEYS[2]).startswith("later")


def test_who_may_only_read_the_store_reads_it(tmp_path, monkeypatch):
    fill(tmp_path, KEYS[:2])

    def refuse(*_, **__):
        raise PermissionError("read-only")

    monkeypatch.setattr("refusal_eval.ask.store.write_text", refuse)
    assert text_of(tmp_path, KEYS[0]).startswith("answer")


ADAPTERS = ['{"name": "a", "path": "FOLDER"}', '{"name": "b", "path": "FOLDER"}']


@pytest.mark.parametrize(
    ("record", "counts"),
    [
        ({"device": "cpu", "arguments": ["--enable-lora", "--max-loras=2", "--lora-modules", *ADAPTERS]}, False),
        ({"device": "cpu", "arguments": ["--enable-lora", "--lora-modules", *ADAPTERS, "--max-loras", "1"]}, False),
        ({"device": "cpu", "arguments": ["--enable-lora", "--lora-modules", *ADAPTERS]}, False),
        ({"device": "cpu", "arguments": ["--enable-lora", "--max-loras=3", "--lora-modules", *ADAPTERS]}, True),
        ({"device": "cuda", "arguments": ["--enable-lora", "--max-loras=2", "--lora-modules", *ADAPTERS]}, True),
        ({"device": "cpu", "arguments": ["--max-loras=2"]}, True),
        ({"device": "cpu", "arguments": None}, True),
        ({}, True),
    ],
)
def test_answers_of_a_load_whose_plain_model_had_an_adapters_weights_count_as_not_stored(
    tmp_path, caplog, record, counts
):
    with StoreWriter(tmp_path, "engine", "job") as writer:
        writer.describe("s1", record)
        writer.append(KEYS[0], response("a"), "s1")
    reader = StoreReader(tmp_path, "engine")
    assert bool(reader.missing(KEYS[:1])) == (not counts)
    reader.refresh()
    assert caplog.text.count(f"{writer.path}: a load of vLLM on a CPU wrote it with 2 LoRA adapters") == (not counts)
