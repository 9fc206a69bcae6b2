"""The store as it is read: what was kept is found, torn lines are ignored, the earliest record of a key counts."""

import re

import pytest
from store_files import KEYS, fill, response, text_of, write_file

from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.ask.store_index import index_path, key_numbers

# --- Reading -------------------------------------------------------------------------------------------------------


def test_what_was_appended_is_found_and_what_was_not_is_missing(tmp_path):
    fill(tmp_path, KEYS[:30])
    reader = StoreReader(tmp_path, "engine")
    assert reader.missing([*KEYS, *KEYS[::-1]]) == KEYS[30:]
    found = reader.lookup(KEYS)
    assert sorted(found) == sorted(KEYS[:30])
    assert all(record["response"]["text"] == f"answer {key}" for key, record in found.items())
    assert all(re.fullmatch(r"[\d-]{10}T[\d:]{8}\.\d{6}\+00:00", record["time"]) for record in found.values())
    assert reader.serving() == {"s1": {"vllm": "x"}}


def test_only_what_served_the_responses_asked_about_is_told(tmp_path):
    fill(tmp_path, KEYS[:30])
    with StoreWriter(tmp_path, "engine", "another") as writer:
        writer.describe("s2", {"vllm": "y"})
        writer.append(KEYS[40], response("b"), "s2")
    reader = StoreReader(tmp_path, "engine")
    assert set(reader.serving()) == {"s1", "s2"}
    assert reader.serving(key_numbers(sorted([KEYS[40], KEYS[49]]))) == {"s2": {"vllm": "y"}}
    assert reader.serving(key_numbers([KEYS[49]])) == reader.serving(key_numbers([])) == {}


@pytest.mark.parametrize(
    ("folder", "engine", "keys"), [("none", "engine", KEYS), ("store", "engine", []), ("store", "other", KEYS)]
)
def test_without_a_store_without_keys_and_for_another_engine_nothing_is_found(tmp_path, folder, engine, keys):
    fill(tmp_path / "store", KEYS)
    reader = StoreReader(tmp_path / folder, engine)
    assert reader.missing(keys) == keys and reader.lookup(keys) == {}


def test_the_store_is_readable_while_it_is_written_and_without_an_index(tmp_path):
    writer = StoreWriter(tmp_path, "engine", "job")
    writer.append(KEYS[0], response("a"), "s1")
    assert StoreReader(tmp_path, "engine").missing(KEYS[:2]) == [KEYS[1]]
    writer.append(KEYS[1], response("b"), "s1")
    writer.close()
    index_path(writer.path).unlink()
    assert StoreReader(tmp_path, "engine").missing(KEYS[:3]) == [KEYS[2]]


@pytest.mark.parametrize("with_index", [True, False])
def test_a_last_record_cut_at_every_byte_is_ignored_and_the_others_stay(tmp_path, with_index):
    path = fill(tmp_path, KEYS[:3])
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    if not with_index:
        index_path(path).unlink()
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        reader = StoreReader(tmp_path, "engine")
        assert reader.missing(KEYS[:3]) == [KEYS[2]]
        assert len(reader.lookup(KEYS[:3])) == 2


def test_keys_with_equal_beginnings_are_told_apart(tmp_path):
    twin = KEYS[0][:32] + KEYS[1][32:]
    fill(tmp_path, [KEYS[0]])
    assert StoreReader(tmp_path, "engine").lookup([twin]) == {}
    fill(tmp_path, [twin], text="twin")
    found = StoreReader(tmp_path, "engine").lookup([KEYS[0], twin])
    assert found[KEYS[0]]["response"]["text"].startswith("answer")
    assert found[twin]["response"]["text"].startswith("twin")


# --- Which record of a key counts ----------------------------------------------------------------------------------


def test_a_job_that_started_earlier_and_runs_on_does_not_change_what_was_read(tmp_path):
    with StoreWriter(tmp_path, "engine", "job") as early:
        late = fill(tmp_path, [KEYS[0]], text="first")
        assert early.path.name < late.name
        assert text_of(tmp_path, KEYS[0]).startswith("first")
        early.append(KEYS[0], response("second"), "s1")
        assert text_of(tmp_path, KEYS[0]).startswith("first")
    assert text_of(tmp_path, KEYS[0]).startswith("first")


def test_the_earliest_time_counts_also_among_seconds_and_microseconds(tmp_path):
    seconds, micro = "2026-01-01T00:00:05+00:00", "2026-01-01T00:00:05.000001+00:00"
    earlier = "2026-01-01T00:00:04.999999+00:00"
    write_file(tmp_path, "a", (KEYS[0], micro, "micro"), (KEYS[1], seconds, "seconds"))
    write_file(tmp_path, "b", (KEYS[0], seconds, "seconds"), (KEYS[1], earlier, "micro"))
    assert [text_of(tmp_path, key) for key in KEYS[:2]] == ["seconds", "micro"]


def test_of_equal_times_the_first_file_and_in_it_the_first_record_counts(tmp_path):
    time = "2026-01-01T00:00:00.000000+00:00"
    write_file(tmp_path, "b", (KEYS[0], time, "third"))
    write_file(tmp_path, "a", (KEYS[1], time, "other"), (KEYS[0], time, "first"), (KEYS[0], time, "second"))
    assert text_of(tmp_path, KEYS[0]) == "first"
