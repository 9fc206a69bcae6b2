"""The identity of an engine: frozen, and moved by what matters only."""

import pytest
from engine_entries import engine_identity, engine_of, vllm_folder, vllm_options

from refusal_eval.core.errors import UserError
from refusal_eval.engines.vllm_arguments import SERVING_ARGS, identity_args, only_serving
from refusal_eval.engines.vllm_engine import LLAMA_4_TUNED_ABOVE
from refusal_eval.weights.engine_file import engine_id, weight_source

HUB = {"kind": "hub", "repo": "org/name", "revision": "a" * 40}
WHEEL = {"kind": "wheel", "package": "p", "version": "1", "file": "x.gguf", "sha256": "b" * 64}
FOLDER = {"kind": "folder", "path": "models/x"}
ENTRY = {"kind": "vllm", "weights": HUB, "max_model_len": 4096}


def identity(weights=HUB, **changes):
    return engine_identity({**ENTRY, **changes}, weight_source(weights).identity("c" * 64))


def test_frozen_identities():
    """If one of these changes, every stored response of such an engine is lost: don't update them, mend the code."""
    assert identity() == {"weights": {"repo": "org/name", "commit": "a" * 40}, "dtype": "bfloat16"}
    assert engine_id(identity()) == "97d713135fe4e2dc"
    assert identity(WHEEL) == {"weights": {"gguf_sha256": "b" * 64, "conversion": 1}, "dtype": "bfloat16"}
    assert engine_id(identity(WHEEL)) == "468628d4071d6b42"
    assert identity(FOLDER) == {"weights": {"folder_sha256": "c" * 64}, "dtype": "bfloat16"}
    assert engine_id(identity(FOLDER)) == "06023f8dfb25a44e"
    args = {"kv_cache_dtype": "fp8", "rope-x": 2.0, "max-num-seqs": 4}
    everything = identity(dtype="float16", quantization="fp8", trust_remote_code=True, args=args)
    assert everything == {
        "weights": {"repo": "org/name", "commit": "a" * 40},
        "dtype": "float16",
        "quantization": "fp8",
        "trust_remote_code": True,
        "args": {"kv-cache-dtype": "fp8", "rope-x": 2},
    }
    assert engine_id(everything) == "81ba993b1d64b43f"


def test_what_concerns_serving_only_does_not_count():
    serving = {"args": {"gpu-memory-utilization": 0.5, "enforce_eager": True, "no-enable-prefix-caching": True}}
    serving["args"] |= {"--max-num-seqs": 8, "compilation-config.mode": 3, "load-format": "safetensors"}
    changes = [{"tensor_parallel": 8}, {"memory_share": 0.1}, {"max_model_len": 64}, {"python": "/x"}]
    for change in [*changes, {"added_later": None}, serving]:
        assert identity(**change) == identity()


def test_what_can_change_a_response_counts():
    changes = [{"dtype": "float32"}, {"quantization": "fp8"}, {"trust_remote_code": True}]
    changes += [
        {"args": {name: "x"}} for name in ("hf-overrides", "kv-cache-dtype", "speculative-config", "unheard-of")
    ]
    changes += [{"args": {"load-format": "dummy"}}, {"args": {"disable-sliding-window": True}}]
    ids = [engine_id(identity(**change)) for change in [{}, *changes]]
    assert len(set(ids)) == len(ids)


LONG_ROPE = {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}
SCALED = {"original_max_position_embeddings": 4096, "rope_scaling": {"type": "su"}}


@pytest.mark.parametrize(
    ("config", "longest", "added"),
    [
        (SCALED, 4096, "long_rope"),
        ({"rope_parameters": LONG_ROPE | {"original_max_position_embeddings": 4096}}, 4096, "long_rope"),
        ({"text_config": SCALED}, 4096, "long_rope"),
        ({"architectures": ["Llama4ForConditionalGeneration"]}, 32768, "attn_temperature_tuning"),
    ],
)
def test_max_model_len_identifies_an_engine_where_vllm_computes_otherwise_above_it(config, longest, added):
    assert engine_of(ENTRY | {"max_model_len": longest}).identity_by_length(config) == {}
    assert engine_of(ENTRY | {"max_model_len": longest + 1}).identity_by_length(config) == {added: True}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"architectures": ["LlamaForCausalLM"], "rope_scaling": None, "max_position_embeddings": 4096},
        {"rope_scaling": {"rope_type": "llama3", "original_max_position_embeddings": 8192}},
        {"rope_parameters": {"rope_type": "yarn", "original_max_position_embeddings": 4096}},
    ],
)
def test_max_model_len_identifies_no_other_engine(config):
    assert engine_of(ENTRY | {"max_model_len": 10**6}).identity_by_length(config) == {}


def test_one_argument_has_one_spelling():
    assert identity_args({"KV": 1}) == {"KV": 1}
    for one in ({"no-x-y": True}, {"x_y": False}, {"--no_x_y": True}):
        assert identity_args(one) == {"x-y": False}
    assert identity_args({"hf-overrides.rope_scaling": 1}) == {"hf-overrides.rope_scaling": 1}
    with pytest.raises(UserError, match="give `x-y` twice"):
        identity_args({"x-y": 1, "x_y": 1})
    with pytest.raises(UserError, match="give `max-num-seqs` twice"):
        identity_args({"max-num-seqs": 1, "--max_num_seqs": 1})


def test_weights_ids_do_not_depend_on_order():
    ids = [
        weight_source(one).copy_id for one in (HUB, dict(reversed(HUB.items())), WHEEL, {**HUB, "revision": "d" * 40})
    ]
    assert ids[0] == ids[1] == "c46f94ccc2a494cb" and len(set(ids)) == 3


def test_the_lengths_are_those_of_vllm():
    """Against vLLM's own source: where it compares `max_model_len`, and with what."""
    layer = vllm_folder() / "model_executor/layers/rotary_embedding/phi3_long_rope_scaled_rope.py"
    assert "use_long_rope = max_model_len > original_max_position_embeddings" in layer.read_text()
    model = (vllm_folder() / "model_executor/models/llama4.py").read_text()
    assert f"max_model_len > {LLAMA_4_TUNED_ABOVE}" in model


def test_the_names_are_those_of_vllm():
    """Against vLLM's own source where the engine environment is there; names of other versions are few and known."""
    names = vllm_options()
    elsewhere = {"device-memory-utilization", "api-server-count"}  # an alias, and an option of `vllm serve`
    older = {"kv-cache-memory", "swap-space", "cuda-graph-sizes", "disable-log-requests", "num-scheduler-steps"}
    older |= {"max-num-partial-prefills", "max-long-partial-prefills"}
    assert len(names) > 200
    assert SERVING_ARGS - names == elsewhere | older
    # A shorter name is refused as short for one of these.
    assert not [name for name in names - SERVING_ARGS if any(known.startswith(name) for known in SERVING_ARGS)]
    assert not any(only_serving(name, None) for name in ("model", "dtype", "quantization", "revision", "load-format"))
