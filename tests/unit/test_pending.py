"""What is still to be executed: each key once, in a fixed order, parted into shards."""

from pathlib import Path
from typing import Any

import pytest
from engine_entries import settings_of
from store_files import response

from refusal_eval.ask.pending import anything_missing, cell_name, in_shard, pending_requests
from refusal_eval.ask.requests import Ask, RequestFile, read_requests, write_requests
from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.core.files import sha256_of
from refusal_eval.judges.follow_ups import following

ENGINE = {"engine_id": "e", "identity": {"dtype": "bfloat16"}}
SAMPLING = {"max_tokens": 4, "temperature": 1.0}


def file(folder: Path, name: str, prompts: list[int], **more: Any) -> RequestFile:
    path = folder / "requests" / "m" / f"{name}.jsonl"
    asks = [Ask(f"p{number}", [1, number], [(0, 7), (1, 8)]) for number in prompts]
    write_requests(path, asks, settings_of(ENGINE, SAMPLING), 100, **more)
    return read_requests(path)


def test_equal_requests_of_two_cells_are_executed_once_in_the_order_of_the_files(tmp_path: Path) -> None:
    files = [file(tmp_path, "a", [3, 1]), file(tmp_path, "b", [1, 2])]
    found = pending_requests(files, StoreReader(tmp_path / "store", "e"), "no tokenizer is needed", follow=following)
    places = [(item.cell, item.request.prompt_id, item.request.sample) for item in found]
    assert places == [(f"m/{s}", p, k) for s, p in (("a", "p3"), ("a", "p1"), ("b", "p2")) for k in (0, 1)]


def test_what_the_store_has_is_not_pending(tmp_path: Path) -> None:
    one = file(tmp_path, "a", [1, 2])
    keys = list(one.keys())
    with StoreWriter(tmp_path / "store", "e", "job") as writer:
        for key in keys[:3]:
            writer.append(key, response("x"), "s")
    store = StoreReader(tmp_path / "store", "e")
    assert [item.request.key for item in pending_requests([one], store, "", follow=following)] == keys[3:]
    where = (str(tmp_path / "store"), "", 0, 1)
    # Also beside dialogues, for which a tokenizer would have to be loaded first.
    talks = file(tmp_path, "b", [3], dialogue={"rendering": {}})
    assert anything_missing([str(talks.path), str(one.path)], *where, follow=lambda *_: pytest.fail("rendered"))
    with StoreWriter(tmp_path / "store", "e", "job") as writer:
        writer.append(keys[3], response("x"), "s")
    assert not anything_missing([str(one.path)], *where, follow=following)
    assert anything_missing([str(one.path), "not/there.jsonl"], *where, follow=following)


def test_shards_part_the_requests_without_overlap(tmp_path: Path) -> None:
    one = file(tmp_path, "a", list(range(60)))
    store = StoreReader(tmp_path / "store", "e")
    asked = [pending_requests([one], store, "", shard, 3, follow=following) for shard in range(3)]
    parts = [{item.request.key for item in items} for items in asked]
    assert set.union(*parts) == set(one.keys()) and sum(map(len, parts)) == 120
    assert all(len(part) > 20 for part in parts)
    assert all(sum(in_shard(sha256_of(n), shard, 3) for shard in range(3)) == 1 for n in range(50))


def test_cells_are_named_as_the_user_names_them() -> None:
    assert cell_name(Path("results/study/requests/model/split.jsonl")) == "model/split"
    assert cell_name(Path("results/study/judge_requests/judge/model/split.jsonl")) == "judge/model/split"
