"""Requests to LoRA adapters: keys, what is pending, and the adapters that an engine is started with."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from engine_entries import engine_of, settings_of
from store_files import response

from refusal_eval.ask.pending import pending_requests
from refusal_eval.ask.requests import Ask, RequestFile, RequestSettings, read_requests, write_requests
from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of_file
from refusal_eval.engines.engine_base import RunningEngine
from refusal_eval.engines.execution import Execution
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.features.lora.adapter import Adapter
from refusal_eval.features.lora.loaded_adapters import LoadedAdapters
from refusal_eval.features.lora.lora_change import adapter_name
from refusal_eval.judges.follow_ups import following

IDENTITY = {"repo": "org/model", "commit": "a" * 40, "dtype": "bfloat16"}
ENGINE = {"engine_id": "e", "identity": IDENTITY}
SAMPLING = {"max_tokens": 48, "temperature": 1.0, "stop_token_ids": [2]}
HUB, FOLDER = {"repo": "org/adapter", "commit": "a" * 40}, {"folder_sha256": "c" * 64}


def key(adapter: dict[str, Any] | None) -> str:
    found = settings_of(ENGINE, SAMPLING, adapter).key([1, 2, 3], 7, None)
    assert found is not None
    return found


def file(folder: Path, model: str, lora: dict[str, Any] | None) -> RequestFile:
    path = folder / "requests" / model / "s.jsonl"
    write_requests(path, [Ask("p", [1, 2, 3], [(0, 7)])], settings_of(ENGINE, SAMPLING, lora), 100)
    return read_requests(path)


def test_keys_of_adapters_are_frozen_and_those_without_are_as_before() -> None:
    # If this fails, every response of an adapter has become unreachable. Do not adapt the test.
    assert key(None) == "885496b1fecbb7d2b4479c094f679400ac5e856a0c3e3412fe73be4f11fed528"
    assert key(HUB) == "c4e4e143138533d99f76cd1bcc699f3048d8146440d979c72ac09e3eae0e19be"
    assert key(FOLDER) == "07630eb0d7aebca61ffa0c8e9d9c857bda3fcb57e6c95bc666ac3f74b9d868cb"


def test_a_request_file_carries_the_adapter_beside_the_engines_identity(tmp_path: Path) -> None:
    plain, tuned = file(tmp_path, "plain", None), file(tmp_path, "tuned", HUB)
    assert plain.settings.served_as is None and "lora" not in plain.header
    assert tuned.settings.served_as == adapter_name(HUB)
    assert plain.header["engine_id"] == tuned.header["engine_id"]
    assert plain.header["identity"] == tuned.header["identity"] == IDENTITY
    assert (*plain.keys(), *tuned.keys()) == (key(None), key(HUB))


def test_each_pending_request_knows_its_adapter_and_the_engine_is_asked_for_it(tmp_path: Path) -> None:
    files = [file(tmp_path, "plain", None), file(tmp_path, "tuned", HUB), file(tmp_path, "other", FOLDER)]
    store = StoreReader(tmp_path / "store", "e")
    pending = pending_requests(files, store, "no tokenizer is needed", follow=following)
    assert [item.settings.served_as for item in pending] == [None, adapter_name(HUB), adapter_name(FOLDER)]

    names: list[str | None] = []

    class Asked(RunningEngine):
        async def complete(self, prompt: Any, settings: RequestSettings, seed: Any) -> dict[str, Any]:
            names.append(settings.served_as)
            return response("x")

        def serving_record(self) -> dict[str, Any]:
            return {}

    with StoreWriter(tmp_path / "store", "e", "job") as writer:
        asyncio.run(Execution(Asked(), writer, store, "s", 1).run(pending))
    assert names == [None, adapter_name(HUB), adapter_name(FOLDER)]
    assert pending_requests(files, StoreReader(tmp_path / "store", "e"), "", follow=following) == []


def test_only_adapters_with_pending_requests_are_served_and_none_that_has_changed(tmp_path: Path) -> None:
    described = []
    for model, lora in (("tuned", HUB), ("twin", HUB), ("other", FOLDER)):
        (tmp_path / model).mkdir()
        (tmp_path / model / "adapter_model.safetensors").write_text("numbers")
        files = {"adapter_model.safetensors": sha256_of_file(tmp_path / model / "adapter_model.safetensors")}
        described.append(Adapter(model, lora, adapter_name(lora), str(tmp_path / model), 8, files))
    store = StoreReader(tmp_path / "store", "e")
    how = ("f", "t", "p", "cpu", "seeded", 1, 0.0, "store")
    plan = LoadPlan(engine_of({}), "engine", *how, changes=[LoadedAdapters(described)])

    def served_for(files: list[RequestFile]) -> Sequence[Adapter]:
        load = plan.load(tmp_path / "log", pending_requests(files, store, "", follow=following))
        return [adapter for change in load.changes for adapter in change.adapters]

    asked = [file(tmp_path, "plain", None), file(tmp_path, "tuned", HUB)]
    (served,) = served_for(asked)
    assert (served.name, served.folder, served.rank) == (adapter_name(HUB), str(tmp_path / "twin"), 8)
    assert served_for(asked[:1]) == []
    (tmp_path / "twin" / "adapter_model.safetensors").write_text("other numbers")
    with pytest.raises(UserError, match=r"the LoRA adapter lora-\w+, which no longer exists; run again"):
        served_for([file(tmp_path, "gone", {"repo": "a/b", "commit": "c" * 40})])
    with pytest.raises(UserError, match=r"twin/adapter_model\.safetensors has changed since this run was planned"):
        served_for(asked)
