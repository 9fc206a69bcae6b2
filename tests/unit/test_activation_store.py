"""The store of activations: files of states, keys, and that the first record of a state stays."""

import errno
import re
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from engine_entries import engine_of

from refusal_eval.activations import activation_store
from refusal_eval.activations.activation_store import ActivationStore
from refusal_eval.activations.asked import activation_key, answer_means, asked_states, prompt_tokens
from refusal_eval.activations.capture_program import save
from refusal_eval.activations.model_facts import captured_facts, checked_layers, model_facts
from refusal_eval.activations.tensor_files import read_states, widened, write_states
from refusal_eval.ask.requests import Ask, Request, RequestSettings, read_requests, write_requests
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile, write_json
from refusal_eval.weights.engine_file import describe_engine

IDENTITY = {"weights": {"folder_sha256": "0" * 64}, "dtype": "float32"}


def states(value, rows=1, layers=2):
    return np.full((rows, layers, 4), value, np.float32)


def put(store, name, bits, keys, layers):
    write_states(store / "activations" / "e" / f"{name}.safetensors", bits, "F32", {"keys": keys, "layers": layers})


def test_a_file_gives_back_what_was_written_and_safetensors_reads_it(tmp_path):
    from safetensors.numpy import load_file

    written = np.random.default_rng(0).standard_normal((3, 2, 5)).astype(np.float32)
    write_states(tmp_path / "a", written, "F32", {"keys": ["x"]})
    read = read_states(tmp_path / "a")
    assert (widened(read.bits, read.kind) == written).all() and read.metadata == {"keys": ["x"]}
    assert (load_file(tmp_path / "a")["states"] == written).all()


def test_bfloat16_is_widened_exactly(tmp_path):
    values = np.array([1.0, -2.5, 3.140625, 0.0], np.float32).reshape(1, 1, 4)
    write_states(tmp_path / "a", (values.view(np.uint32) >> 16).astype(np.uint16), "BF16", {})
    read = read_states(tmp_path / "a")
    assert (widened(read.bits, read.kind) == values).all()


def test_a_damaged_file_is_reported(tmp_path):
    write_states(tmp_path / "a", states(1.0), "F32", {})
    whole = (tmp_path / "a").read_bytes()
    for damaged in (whole[:-1], whole[:9], b"", b"\xff" * 40, whole + b"x"):
        (tmp_path / "a").write_bytes(damaged)
        with pytest.raises(BadFile, match="is not a whole file of activations"):
            read_states(tmp_path / "a")


def test_a_key_says_what_was_computed():
    key = activation_key(IDENTITY, [1, 2, 3], None)
    assert key == activation_key(dict(reversed(IDENTITY.items())), (1, 2, 3), None)
    others = {
        activation_key(IDENTITY, [1, 2, 4], None),
        activation_key(IDENTITY, [1, 2, 3], 1),
        activation_key(IDENTITY | {"dtype": "bfloat16"}, [1, 2, 3], None),
    }
    assert len(others | {key}) == 4


def test_the_first_record_of_a_state_wins_and_layers_are_added(tmp_path):
    put(tmp_path, "20260101", states(1.0, 2), ["a", "b"], [0, 1])
    put(tmp_path, "20260102", states(2.0, 1, 3), ["a"], [0, 1, 2])
    store = ActivationStore(tmp_path, "e")
    assert store.missing(["a", "b", "c", "a"], [0, 1]) == ["c"]
    assert store.missing(["a", "b"], [0, 2]) == ["b"]
    found, kind = store.states(["a"], [0, 1, 2])
    assert kind == "F32" and found[0, :, 0].tolist() == [1.0, 1.0, 2.0]


def test_a_damaged_file_counts_as_not_stored(tmp_path, caplog):
    put(tmp_path, "20260101", states(1.0), ["a"], [0, 1])
    put(tmp_path, "20260102", states(1.0, 3), ["b"], [0, 1])
    path = tmp_path / "activations" / "e" / "20260101.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    assert ActivationStore(tmp_path, "e").missing(["a", "b"], [0]) == ["a", "b"]
    assert caplog.text.count("its prompts are computed again") == 2


def test_a_store_of_many_files_keeps_none_of_them_open(tmp_path):
    for number in range(60):
        put(tmp_path, f"2026{number:04d}", states(float(number)), [f"k{number}"], [0, 1])
    before = len(list(Path("/proc/self/fd").iterdir()))
    store = ActivationStore(tmp_path, "e")
    found, _ = store.states([f"k{number}" for number in range(60)], [0, 1])
    assert found[:, 0, 0].tolist() == list(range(60))
    # One may be left of the last file that was read.
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_a_file_that_vanished_or_may_not_be_read_is_reported_in_a_sentence(tmp_path, monkeypatch, caplog):
    put(tmp_path, "20260101", states(1.0), ["a"], [0, 1])
    store = ActivationStore(tmp_path, "e")
    (path,) = store.folder.iterdir()
    path.unlink()
    with pytest.raises(UserError, match=r"20260101\.safetensors cannot be read: No such file or directory; run again"):
        store.states(["a"], [0])

    def refused(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    put(tmp_path, "20260101", states(1.0), ["a"], [0, 1])
    monkeypatch.setattr(activation_store, "read_head", refused)
    assert ActivationStore(tmp_path, "e").missing(["a"], [0]) == ["a"]
    assert "cannot be read: Permission denied; its prompts are computed again" in caplog.text


def test_a_file_of_a_job_that_began_earlier_and_wrote_later_counts_after_what_was_read(tmp_path, monkeypatch):
    saved = types.ModuleType("safetensors.torch")
    saved.save_file = lambda tensors, path, metadata: Path(path).write_bytes(b"")
    monkeypatch.setitem(sys.modules, "safetensors.torch", saved)
    for writer in ("z-wrote-first", "a-wrote-later"):
        save(tmp_path, f"{writer}-000000.safetensors", None, {})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert ["wrote-first" in name for name in names] == [True, False]
    assert all(re.match(r"\d{8}T\d{6}\.\d{6}-", name) for name in names)


def test_each_prompt_is_wanted_once_and_one_that_is_too_long_not_at_all():
    requests = [Request("p", k, 0, f"key{k}", k, [5, 6], shared_ids=[1]) for k in range(3)]
    requests.append(Request("long", 0, 0, None, 0, [7]))
    (asked,) = prompt_tokens(IDENTITY, requests)
    assert (asked.prompt_id, asked.token_ids, asked.first) == ("p", [1, 5, 6], None)


def test_a_token_counted_from_the_end_has_the_state_of_a_prompt_that_ends_there():
    requests = [Request("p", 0, 0, "key", 0, [5, 6, 7], shared_ids=[1]), Request("q", 0, 0, "k", 0, [8, 9])]
    first, second = prompt_tokens(IDENTITY, requests, -2)
    assert (first.token_ids, first.first, second.token_ids) == ([1, 5, 6], None, [8])
    assert first.key == activation_key(IDENTITY, [1, 5, 6], None)
    with pytest.raises(UserError, match="prompt q has 2 tokens, so there is no `prompt_token-3`"):
        prompt_tokens(IDENTITY, requests, -3)


def test_states_of_a_steered_model_have_other_keys_than_those_of_the_plain_one(tmp_path):
    plain = RequestSettings("e", IDENTITY, {"max_tokens": 8})
    steered = replace(plain, changes={"intervention": {"sha256": "1" * 64, "version": 1}})
    keys = {}
    for settings in (plain, steered):
        write_requests(tmp_path / "r", [Ask("p", [1, 2, 3], [(0, 1)])], settings, 100)
        for positions in ("last_prompt_token", "prompt_token-2"):
            (asked,) = asked_states(read_requests(tmp_path / "r"), positions, None, tmp_path)
            keys[asked.key] = asked.token_ids
    assert list(keys.values()) == [[1, 2, 3], [1, 2]] * 2
    assert next(iter(keys)) == activation_key(IDENTITY, [1, 2, 3], None)


def test_the_mean_of_an_answer_leaves_out_reasoning_and_the_token_that_ended_it():
    requests = [Request("p", k, 0, f"key{k}", k, [5, 6], shared_ids=[1]) for k in range(2)]
    answers = [
        {"prompt_id": "p", "sample": 1, "key": "key1", "reasoning_tokens": 2, "answer_tokens": 1},
        {"prompt_id": "p", "sample": 0, "key": "key0", "reasoning_tokens": 0, "answer_tokens": 3},
    ]
    first, second = answer_means(IDENTITY, requests, answers, {"key0": [7, 8, 9, 2], "key1": [7, 8, 9, 2]})
    assert (first.sample, first.token_ids, first.first) == (0, [1, 5, 6, 7, 8, 9], 3)
    assert (second.sample, second.token_ids, second.first) == (1, [1, 5, 6, 7, 8, 9], 5)
    assert first.key != second.key


def test_a_layer_beyond_the_model_is_refused():
    assert checked_layers(None, 3, "m") == [0, 1, 2] and checked_layers([2, 0], 3, "m") == [0, 2]
    with pytest.raises(UserError, match="model m has 3 layers, 0 to 2: there is no layer 3"):
        checked_layers([0, 3], 3, "m")


@pytest.mark.parametrize("part", ["text_config", "llm_config", "language_config"])
def test_the_facts_of_a_model_are_those_of_its_text_model(tmp_path, part):
    text = {"num_hidden_layers": 2, "hidden_size": 8}
    config = {"architectures": ["SeesForConditionalGeneration"], part: text, "vision_config": {}}
    write_json(tmp_path / "config.json", config)
    assert model_facts(tmp_path) == {"model_layers": 2, "width": 8, "architecture": config["architectures"][0]}
    write_json(tmp_path / "config.json", {"architectures": ["X"], "hidden_size": 8})
    with pytest.raises(UserError, match="does not say the model layers"):
        model_facts(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "hf_quant_config.json"])
def test_quantized_weights_are_not_captured_wherever_they_are_said_to_be(tmp_path, name):
    """transformers reads those that only ModelOpt's file tells of as plain weights: states of cosine 0.03."""
    config = {"architectures": ["X"], "hidden_size": 8, "num_hidden_layers": 2}
    write_json(tmp_path / "config.json", config)
    write_json(tmp_path / name, config | {"quantization_config": {"quant_method": "fp8"}})
    with pytest.raises(UserError, match="the weights are quantized"):
        model_facts(tmp_path)


def test_models_are_not_captured_where_vllm_takes_longropes_long_factors_for_short_texts_too(tmp_path):
    facts = {"num_hidden_layers": 2, "hidden_size": 8, "architectures": ["Phi3ForCausalLM"]}
    rope = {"original_max_position_embeddings": 4096, "rope_scaling": {"type": "longrope"}}
    write_json(tmp_path / "config.json", facts | rope)
    (tmp_path / "model.safetensors").write_text("weights")
    weights = {"kind": "folder", "path": str(tmp_path)}

    def engine(max_model_len):
        return describe_engine("phi", engine_of({"max_model_len": max_model_len}), weights, None, str(tmp_path / "c"))

    assert captured_facts(engine(4096))["model_layers"] == 2
    with pytest.raises(UserError, match=r"engine phi: .* Lower `max_model_len` to `original_max_position"):
        captured_facts(engine(4097))
