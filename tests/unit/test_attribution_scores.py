"""What attributions are of besides the start of a refusal: the model's own reply, and a direction of activations."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizer_folders import byte_tokenizer

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.store import NotInStore, StoreWriter
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile
from refusal_eval.core.packing import pack_floats
from refusal_eval.features.attributions.attribution_values import gradient_row
from refusal_eval.features.attributions.direction_vector import layer_vector
from refusal_eval.features.attributions.gradient_items import gradient_item
from refusal_eval.features.attributions.own_replies import log_probability, own_replies

pytestmark = pytest.mark.feature("attributions")
KEYS = {name: f"{number:064x}" for number, name in enumerate(("one", "two", "ended", "lost"))}


def store_of(folder: Path, replies: dict[str, list[int]]) -> None:
    with StoreWriter(folder, "engine", "requests") as writer:
        writer.describe("by-hand", {"vllm": "none"})
        for name, ids in replies.items():
            response = {"text": "x", "token_ids": ids, "logprobs": pack_floats([-0.1] * len(ids))}
            about = {"finish_reason": "stop", "stop_reason": None, "prompt_tokens": 3}
            writer.append(KEYS[name], response | about, "by-hand")


def answers_of(folder: Path, *names: str, **unanswered: Any) -> Path:
    rows = [
        {
            "prompt_id": name,
            "sample": sample,
            "turn": 0,
            "key": KEYS[name] if sample == 0 else "f" * 64,
            "serving": "by",
        }
        for name in names
        for sample in (0, 1)
    ]
    rows += [
        {"prompt_id": name, "sample": 0, "turn": 0, "key": key, "serving": None} for name, key in unanswered.items()
    ]
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_first_tokens_of_the_first_sample_are_the_reply(tmp_path: Path) -> None:
    store_of(tmp_path / "store", {"one": [5, 6, 7, 8], "two": [9], "ended": []})
    answers = answers_of(tmp_path, "one", "two", "ended", failed="e" * 64, long=None)
    assert own_replies(answers, tmp_path / "store", "engine", 3) == {"one": [5, 6, 7], "two": [9]}


def test_a_reply_that_is_no_longer_in_the_store_is_not_passed_over(tmp_path: Path) -> None:
    store_of(tmp_path / "store", {"one": [5]})
    with pytest.raises(NotInStore, match="1 of 2 replies are"):
        own_replies(answers_of(tmp_path, "one", "lost"), tmp_path / "store", "engine", 3)


def test_a_replys_log_probability_is_the_sum_of_its_tokens_alone() -> None:
    response = {"prompt_logprobs": pack_floats([-8.0, -4.0, -0.5, -0.25])}
    assert log_probability(response, [1, 2]) == -0.75
    assert log_probability(response, [1, 2, 3, 4]) == -12.75
    with pytest.raises(ValueError, match="4 log-probabilities of a prompt that ends with 5"):
        log_probability(response, [1] * 5)


def test_what_is_asked_of_a_reply_has_it_behind_the_prompt(tmp_path: Path) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes"))
    prompt: dict[str, Any] = {"id": "p", "messages": [{"role": "user", "content": "Am I?"}]}
    decided_by = {"method": "gradient", "steps": 1}
    plain = gradient_item(prompt, "word", renderer, decided_by, 99)
    item = gradient_item(prompt, "word", renderer, decided_by, 99, [7, 8])
    assert (item["token_ids"], item["reply"]) == ([*plain["token_ids"], 7, 8], 2)
    assert (item["own"], item["words"]) == (plain["own"], plain["words"]) and item["key"] != plain["key"]
    assert gradient_item(prompt, "word", renderer, decided_by, 99, None)["key"] is None
    assert gradient_item(prompt, "word", renderer, decided_by, len(plain["token_ids"]) + 1, [7, 8])["key"] is None


def test_without_gradients_the_prompt_is_asked_without_each_word(tmp_path: Path) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes"))
    prompt: dict[str, Any] = {
        "id": "p", "messages": [{"role": "user", "content": "Can I kill time?"}], "source": {"kept": {"focus": "kill"}}
    }  # fmt: skip
    decided_by = {"method": "leave_one_out", "steps": 0, "direction": {"layer": 1, "sha256": "a"}}
    item = gradient_item(prompt, "word", renderer, decided_by, 99)
    asked = ["I kill time?", "Can kill time?", "Can I time?", "Can I kill?"]
    assert item["without"] == [renderer.token_ids([{"role": "user", "content": text}]) for text in asked]
    other = gradient_item(prompt, "word", renderer, decided_by | {"direction": {"layer": 1, "sha256": "b"}}, 99)
    assert item["key"] != other["key"]
    line = {"score": 2.0, "baseline": None, "values": [0.0, -1.0, 3.0, 0.5]}
    row = gradient_row(prompt, item, line, "word", "focus")
    assert [(one["word"], one["value"], one["rank"], one["exact"]) for one in row["units"]] == [
        ("Can", 0.0, 3.0, False), ("I", -1.0, 4.0, False), ("kill", 3.0, 1.0, True), ("time", 0.5, 2.0, False)
    ]  # fmt: skip
    assert (row["baseline"], row["gap"]) == (None, None)


def direction_file(path: Path, vectors: list[list[float]], layers: list[int]) -> Path:
    """Write a direction as `fit_direction.py` does."""
    from safetensors.numpy import save_file

    said = {"direction": "refusal", "layers": layers, "width": len(vectors[0]), "model_layers": 8}
    save_file({"direction": np.array(vectors, dtype=np.float32)}, str(path), {"refusal_eval": json.dumps(said)})
    return path


def test_a_direction_has_the_length_1_in_its_layer(tmp_path: Path) -> None:
    path = direction_file(tmp_path / "d.safetensors", [[3.0, 4.0], [0.0, 0.0], [1.0, -1.0]], [2, 3, 5])
    vector = layer_vector(path, 2)
    assert vector.values.tolist() == pytest.approx([0.6, 0.8])
    assert vector.asked == {"layer": 2, "model_layers": 8, "vector": vector.values.tolist()}
    assert layer_vector(path, 5).values.tolist() == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)])
    assert layer_vector(path, 5).identity["sha256"] != vector.identity["sha256"]
    with pytest.raises(UserError, match="direction `refusal` has no vector of layer 4; it has those of 2, 3, 5"):
        layer_vector(path, 4)
    with pytest.raises(UserError, match="has a vector of length 0 in layer 3"):
        layer_vector(path, 3)


def test_what_is_no_direction_is_said(tmp_path: Path) -> None:
    path = direction_file(tmp_path / "d.safetensors", [[3.0, math.nan]], [0])
    with pytest.raises(BadFile, match="its vectors are not whole"):
        layer_vector(path, 0)
    path.write_bytes(b"no safetensors")
    with pytest.raises(BadFile, match="is not a direction"):
        layer_vector(path, 0)
