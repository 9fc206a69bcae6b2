"""Request files: round trip, shared prefix, prompts that do not fit."""

import dataclasses
import tracemalloc
from array import array

import pytest
from engine_entries import settings_of

from refusal_eval.ask.keys import request_key
from refusal_eval.ask.requests import Ask, read_requests, write_requests
from refusal_eval.config.change import Change
from refusal_eval.config.kinds import CHANGES
from refusal_eval.core.files import BadFile, read_jsonl, write_jsonl

SAMPLING = {"max_tokens": 4, "temperature": 1.0}
IDENTITY = {"dtype": "bfloat16"}
ENGINE = {"identity": IDENTITY, "engine_id": "engine"}


def written(path, asks, limit=100):
    counts = write_requests(path, asks, settings_of(ENGINE, SAMPLING), limit)
    return counts, list(read_requests(path).requests())


def test_what_is_read_is_what_was_asked(tmp_path):
    asks = [Ask("p", [1, 2, 3], [(0, 10), (1, 11)]), Ask("q", [1, 2, 9, 9], [(0, 12)])]
    counts, rows = written(tmp_path / "r.jsonl", asks)
    assert counts == {"requests": 3, "too_long": 0}
    assert [(r.prompt_id, r.sample, r.seed, r.token_ids) for r in rows] == [
        ("p", 0, 10, [1, 2, 3]),
        ("p", 1, 11, [1, 2, 3]),
        ("q", 0, 12, [1, 2, 9, 9]),
    ]
    assert rows[2].key == request_key(IDENTITY, [1, 2, 9, 9], SAMPLING, 12)
    assert list(read_requests(tmp_path / "r.jsonl").keys()) == [r.key for r in rows]


def test_ten_thousand_requests_behind_a_long_rubric_stay_small(tmp_path):
    rubric = list(range(30_000, 31_500))
    asks = [Ask(f"{i:016x}", [*rubric, *range(40)], [(0, None)]) for i in range(1000)]
    written(tmp_path / "r.jsonl", asks, limit=9999)
    assert (tmp_path / "r.jsonl").stat().st_size < 500_000


def test_a_million_requests_are_written_without_a_list_of_each(tmp_path):
    asks = [Ask(f"{i:016x}", array("i", range(10_000 + i, 12_000 + i)), [(0, None)]) for i in range(500)]
    tracemalloc.start()
    write_requests(tmp_path / "r.jsonl", asks, settings_of(ENGINE, SAMPLING), 9999)
    requests = list(read_requests(tmp_path / "r.jsonl").requests())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert requests[-1].token_ids == list(range(10_499, 12_499))
    assert 4e6 < peak < 7e6  # of them 4 MB the requests; of 64 bits they are 8, lists of the ids as many for each copy


def test_a_prompt_that_does_not_fit_is_decided_when_rendering(tmp_path):
    asks = [Ask("fits", [1] * 6, [(0, 1)]), Ask("long", [1] * 7, [(0, 2)])]
    counts, rows = written(tmp_path / "r.jsonl", asks, limit=10)
    assert counts == {"requests": 1, "too_long": 1}
    assert [row.key is None for row in rows] == [False, True]


def test_an_empty_cell_and_a_single_prompt_are_fine(tmp_path):
    assert written(tmp_path / "r.jsonl", [])[1] == []
    for prompts, prefix in (([[1, 2]], []), ([[1, 2, 3], [1, 2, 4], [1, 2]], [1, 2])):
        written(tmp_path / "r.jsonl", [Ask("p", prompt, [(0, 1)]) for prompt in prompts])
        assert read_requests(tmp_path / "r.jsonl").header["prefix"] == prefix


def test_a_foreign_file_is_refused(tmp_path):
    write_jsonl(tmp_path / "r.jsonl", [{"key_version": 99}])
    with pytest.raises(BadFile, match="key version"):
        read_requests(tmp_path / "r.jsonl")


def test_what_changes_a_model_is_in_the_key_and_in_the_file(tmp_path, monkeypatch):
    class Noise(Change):
        name = "noise"

    monkeypatch.setitem(CHANGES._added, "noise", Noise)
    plain = settings_of(ENGINE, SAMPLING)
    steered = dataclasses.replace(plain, changes={"noise": {"scale": 2}})
    assert steered.key([1], 7, 100) != plain.key([1], 7, 100)
    write_requests(tmp_path / "r.jsonl", [Ask("p", [1], [(0, 7)])], steered, 100)
    file = read_requests(tmp_path / "r.jsonl")
    assert file.settings == steered and list(file.keys()) == [steered.key([1], 7, 100)]


def test_messages_come_back_as_they_are_and_are_never_too_long(tmp_path):
    messages = [{"role": "user", "content": "x" * 999}]
    counts, (row,) = written(tmp_path / "r.jsonl", [Ask("p", messages, [(0, 7)])], limit=10)
    assert counts == {"requests": 1, "too_long": 0}
    assert row.prompt == messages and row.key == request_key(IDENTITY, messages, SAMPLING, 7)
    later = row.follow_up([*messages, *messages], 1, 8, "key")
    assert (later.prompt, later.turn, later.seed) == ([*messages, *messages], 1, 8)


@pytest.mark.parametrize(
    ("row", "field"),
    [
        *[(0, name) for name in ("prefix", "engine_id", "identity", "sampling", "determinism")],
        *[(1, name) for name in ("prompt_id", "turn", "token_ids", "samples")],
        *[(1, ("samples", 0, name)) for name in ("key", "seed", "sample")],
    ],
)
@pytest.mark.parametrize("value", [..., None, "x", [[]], 2**70])
def test_a_damaged_request_file_is_named_with_its_row_or_taken_where_it_still_is_one(tmp_path, row, field, value):
    path = tmp_path / "r.jsonl"
    written(path, [Ask("p", [1, 2, 3], [(0, 10)])])
    rows = list(read_jsonl(path))
    inside, name = (rows[row]["samples"][0], field[2]) if isinstance(field, tuple) else (rows[row], field)
    fits = {"key": ("x", None), "seed": (None, 2**70), "sample": (2**70,), "turn": (2**70,), "prompt_id": ("x",)}
    fits |= {"engine_id": ("x",), "determinism": ("x",)}
    if value is ...:
        del inside[name]
    else:
        inside[name] = value
    write_jsonl(path, rows)
    if value in fits.get(name, ()):
        list(read_requests(path).requests())
        return
    with pytest.raises(BadFile, match=rf"r\.jsonl, row {row + 1}: .*delete the file and run again"):
        list(read_requests(path).requests())
