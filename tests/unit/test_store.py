"""The store: nothing lost, nothing changed, torn lines ignored, first record wins."""

import pytest

from refusal_eval.files import sha256_of
from refusal_eval.store import StoreReader, StoreWriter, load_index

KEYS = [sha256_of(i) for i in range(50)]


def fill(folder, keys, job="job", text="answer"):
    with StoreWriter(folder, "engine", job) as writer:
        writer.describe("s1", {"vllm": "x"})
        for key in keys:
            writer.append(key, {"text": f"{text} {key}"}, "s1")
        return writer.path


def test_what_was_appended_is_found_and_what_was_not_is_missing(tmp_path):
    fill(tmp_path, KEYS[:30])
    reader = StoreReader(tmp_path, "engine")
    assert reader.missing(KEYS) == KEYS[30:]
    found = reader.lookup(KEYS)
    assert sorted(found) == sorted(KEYS[:30])
    assert all(record["response"]["text"] == f"answer {key}" for key, record in found.items())
    assert reader.serving() == {"s1": {"vllm": "x"}}


def test_other_engines_see_nothing(tmp_path):
    fill(tmp_path, KEYS)
    assert StoreReader(tmp_path, "other").missing(KEYS) == KEYS


def test_the_store_is_readable_while_it_is_written_and_without_an_index(tmp_path):
    writer = StoreWriter(tmp_path, "engine", "job")
    writer.append(KEYS[0], {"text": "a"}, "s1")
    assert StoreReader(tmp_path, "engine").missing(KEYS[:2]) == [KEYS[1]]
    writer.append(KEYS[1], {"text": "b"}, "s1")
    writer.close()
    for index in (tmp_path / "engine").glob("*.npz"):
        index.unlink()
    assert StoreReader(tmp_path, "engine").missing(KEYS[:3]) == [KEYS[2]]


@pytest.mark.parametrize("with_index", [True, False])
def test_a_last_record_cut_at_every_byte_is_ignored_and_the_others_stay(tmp_path, with_index):
    path = fill(tmp_path, KEYS[:3])
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    if not with_index:
        path.with_suffix(".index.npz").unlink()
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        reader = StoreReader(tmp_path, "engine")
        assert reader.missing(KEYS[:3]) == [KEYS[2]]
        assert len(reader.lookup(KEYS[:3])) == 2


def test_the_first_record_of_a_key_counts_in_file_and_offset_order(tmp_path):
    first = fill(tmp_path, [KEYS[0], KEYS[0]], job="a", text="first")
    second = fill(tmp_path, [KEYS[0]], job="a", text="second")
    assert first.name < second.name
    assert StoreReader(tmp_path, "engine").lookup(KEYS[:1])[KEYS[0]]["response"]["text"].startswith("first")


def test_keys_with_equal_beginnings_are_told_apart(tmp_path):
    twin = KEYS[0][:32] + KEYS[1][32:]
    fill(tmp_path, [KEYS[0]])
    assert StoreReader(tmp_path, "engine").missing([twin]) == [twin]
    fill(tmp_path, [twin], text="twin")
    found = StoreReader(tmp_path, "engine").lookup([KEYS[0], twin])
    assert found[KEYS[0]]["response"]["text"].startswith("answer")
    assert found[twin]["response"]["text"].startswith("twin")


def test_a_job_without_responses_leaves_no_file(tmp_path):
    with StoreWriter(tmp_path, "engine", "job") as writer:
        writer.describe("s1", {})
    assert list((tmp_path / "engine").iterdir()) == []


def test_an_index_that_covers_a_part_is_completed_from_the_file(tmp_path):
    path = fill(tmp_path, KEYS[:2])
    extra = path.read_bytes().splitlines(keepends=True)[-1].replace(KEYS[1].encode(), KEYS[2].encode())
    path.write_bytes(path.read_bytes() + extra)
    assert len(load_index(path)) == 3
    assert StoreReader(tmp_path, "engine").missing(KEYS[:3]) == []
