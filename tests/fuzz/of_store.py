"""The store and what is computed from it."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from fuzz.mutations import as_json, as_jsonl
from fuzz.targets import file_of, is_text, target

from refusal_eval.ask.requests import Ask, RequestSettings, read_requests, write_requests
from refusal_eval.ask.store import StoreReader, StoreWriter, rejections
from refusal_eval.core.files import read_json, read_jsonl, sha256_of
from refusal_eval.core.packing import pack_floats, unpack_floats
from refusal_eval.study.dialogues import asked_turns
from refusal_eval.tools.bench.judge_speed import speed_of
from refusal_eval.tools.store.store_usage import store_indexes, store_usage

KEYS = [sha256_of(number) for number in range(6)]
RESPONSE: dict[str, Any] = {
    "text": "No.",
    "token_ids": [5, 9, 2],
    "logprobs": pack_floats([-0.5, -0.25, -0.125]),
    "finish_reason": "stop",
    "stop_reason": 2,
    "prompt_tokens": 7,
}
NAMED = RESPONSE | {"named_logprobs": pack_floats([-0.1, -3.0, -4.0])}


def _filled(folder: Path) -> Path:
    with StoreWriter(folder, "engine", "job") as writer:
        writer.describe("s", {"vllm": "0"})
        for key in KEYS:
            writer.append(key, RESPONSE, "s")
        return writer.path


def _file(folder: Path) -> list[bytes]:
    return [_filled(folder).read_bytes()]


def _rows(folder: Path) -> list[Any]:
    return [list(read_jsonl(_filled(folder)))]


def _read(folder: Path) -> None:
    reader = StoreReader(folder, "engine")
    missing, found = set(reader.missing(KEYS)), reader.lookup(KEYS)
    assert missing.isdisjoint(found) and missing | set(found) == set(KEYS), "missing and lookup disagree"
    for key, record in found.items():
        response = record["response"]
        assert record["key"] == key and isinstance(record["time"], str) and isinstance(record["serving"], str)
        assert is_text(response["text"]) and all(type(one) is int for one in response["token_ids"])
        assert len(unpack_floats(response["logprobs"])) == len(response["token_ids"])
    reader.serving()
    store_usage(store_indexes(folder), {"engine": KEYS})


@target("store: bytes of a file", _file)
def store_bytes(data: bytes, folder: Path) -> None:
    file_of(folder, "engine/a.jsonl", data)
    _read(folder)


@target("store: values of records", _rows, as_jsonl)
def store_values(data: bytes, folder: Path) -> None:
    file_of(folder, "engine/a.jsonl", data)
    _read(folder)


@target("store: a file that changed under its index", _file)
def store_with_old_index(data: bytes, folder: Path) -> None:
    path = _filled(folder)
    path.write_bytes(data)
    _read(folder)


def _index(folder: Path) -> list[bytes]:
    return [_filled(folder).with_suffix(".index.npz").read_bytes(), *_parts_of_npz(folder)]


def _parts_of_npz(folder: Path) -> list[bytes]:
    path = next(folder.rglob("*.index.npz"))
    with zipfile.ZipFile(path) as archive:
        names = {name: archive.read(name) for name in archive.namelist()}
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w", zipfile.ZIP_STORED) as archive:  # so that mutations meet the arrays
        for name, content in names.items():
            archive.writestr(name, content)
    return [stored.getvalue()]


@target("store: an index", _index)
def store_index(data: bytes, folder: Path) -> None:
    path = _filled(folder)
    path.with_suffix(".index.npz").write_bytes(data)
    _read(folder)


@target("JSON files", [{"a": [1, 2.5, None, "x"], "b": {"c": True}}], as_json)
def json_files(data: bytes, folder: Path) -> None:
    read_json(file_of(folder, "a.json", data))


@target("JSONL files", [[{"a": 1}, {"b": [2, {"c": 3}]}, {"d": "\u2028"}]], as_jsonl)
def jsonl_files(data: bytes, folder: Path) -> None:
    path = file_of(folder, "a.jsonl", data)
    try:
        rows: list[Any] | None = list(read_jsonl(path))
    except Exception as error:
        rows, refusal = None, error
    try:
        plain: list[Any] | None = [json.loads(line.decode()) for line in data.split(b"\n") if line.strip()]
    except (ValueError, RecursionError):
        plain = None
    assert repr(plain) == repr(rows), "many lines at once are read otherwise than one by one"
    if rows is None:
        raise refusal


def _request_files(folder: Path) -> list[Any]:
    """Return the rows of request files: of token ids, of a dialogue, and of votes that may be asked again."""
    settings = RequestSettings(
        "engine", {"dtype": "bfloat16"}, {"max_tokens": 4}, changes={"lora": {"sha256": "0" * 64}}
    )
    chat = [{"role": "user", "content": "Why?"}]
    script = {"id": "p", "dialogue": True, "messages": [*chat, {"role": "user", "content": "And?"}]}
    files: list[tuple[list[Ask], dict[str, Any]]] = [
        ([Ask("p", [1, 2, 3], [(0, 7), (1, 8)], cut=3), Ask("q", [1, 2, 9], [(0, None)])], {"notes": ["odd"]}),
        ([Ask("p", chat, [(0, 7)], script=script)], {"dialogue": {"seed": 1, "rendering": {}}}),
        ([Ask("p", [1], [(0, 7)])], {"retries": {"count": 2}}),
    ]
    for number, (asks, more) in enumerate(files):
        write_requests(folder / f"{number}.jsonl", asks, settings, 100, **more)
    return [list(read_jsonl(folder / f"{number}.jsonl")) for number in range(len(files))]


@target("request files", _request_files, as_jsonl)
def request_files(data: bytes, folder: Path) -> None:
    file = read_requests(file_of(folder, "r.jsonl", data))
    assert isinstance(file.settings.engine_id, str) and all(isinstance(note, str) for note in file.notes)
    for one in file.requests():
        assert isinstance(one.prompt_id, str) and isinstance(one.key, str | None)
        assert one.messages is not None or all(type(number) is int for number in one.token_ids)
    assert [one.key for one in file.requests() if one.key is not None] == list(file.keys())
    for script in file.scripts().values():
        asked_turns(script)


RECEIPT = {
    "requests": 3,
    "cells": 1,
    "gpus": 0,
    "executed": 2,
    "rejected": [{"key": KEYS[0], "status": 400, "message": "too long"}],
    "engine": {"seconds": {"work": 2.5, "start": 9.5}, "counters": {"prompt_tokens": 5, "generated_tokens": 7}},
    "seconds": 12.5,
}


@target("receipts", [RECEIPT, {**RECEIPT, "executed": 0, "rejected": []}], as_json)
def receipts(data: bytes, folder: Path) -> None:
    path = file_of(folder, "receipt.json", data)
    assert all(isinstance(text, str) for pair in rejections([path]).items() for text in pair)
    speed_of([path], 3)
