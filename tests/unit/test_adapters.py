"""LoRA adapters: what identifies them, what is refused before any engine starts, and whether they fit the weights."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapter_folders import random_adapter
from hub_calls import fetched
from hub_server import HubServer
from safetensors.numpy import load_file, save_file

from refusal_eval.config.kinds import ADAPTER_SOURCES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.features.lora.adapter import Adapter, check_fits, checked_rank, describe_adapter, warn_of_another_base
from refusal_eval.features.lora.lora_change import adapter_name
from refusal_eval.weights.weights_manifest import manifest_folder

LOG = logging.getLogger("test")
SCRIPTS = Path(__file__).parents[2] / "scripts"
SMALL = {"layers": 2, "width": 16, "q_proj": 16, "v_proj": 8}
SOURCE = {"kind": "hub", "repo": "org/adapter", "revision": "a" * 40}


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return random_adapter(tmp_path / "adapter", rank=4, shape=SMALL)


def described(folder: Path, cache: Path) -> Adapter:
    return describe_adapter("tuned", {"kind": "folder", "path": str(folder)}, None, str(cache), LOG)


def tensors_of(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}


def with_config(folder: Path, **changes: Any) -> Path:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**read_json(path), **changes}))
    return folder


# ---------------------------------------------------------------- identity


def test_frozen_identities_and_names() -> None:
    """If one of these changes, every stored response of an adapter is lost: don't update them, mend the code."""
    hub = ADAPTER_SOURCES.entry(SOURCE).identity(None)
    assert hub == {"repo": "org/adapter", "commit": "a" * 40}
    assert adapter_name(hub) == "lora-2033316fc2ab0b47"
    folder = ADAPTER_SOURCES.entry({"kind": "folder", "path": "somewhere"}).identity("c" * 64)
    assert folder == {"folder_sha256": "c" * 64}
    assert adapter_name(folder) == "lora-92c76c25026e5abf"


def test_a_folder_is_identified_by_the_content_of_its_two_files_only(adapter: Path, tmp_path: Path) -> None:
    first = described(adapter, tmp_path / "cache")
    assert first.rank == 4 and first.name == adapter_name(first.identity)
    (adapter / "README.md").write_text("new")
    (adapter / "optimizer.pt").write_text("new")
    adapter.rename(tmp_path / "elsewhere")
    again = described(tmp_path / "elsewhere", tmp_path / "cache")
    assert again.identity == first.identity
    os.utime(tmp_path / "elsewhere" / "adapter_model.safetensors")
    assert described(tmp_path / "elsewhere", tmp_path / "cache").identity == first.identity
    scaled = described(with_config(tmp_path / "elsewhere", lora_alpha=32), tmp_path / "cache").identity
    random_adapter(tmp_path / "elsewhere", seed=5, rank=4, shape=SMALL)
    others = [scaled, described(tmp_path / "elsewhere", tmp_path / "cache").identity]
    assert first.identity not in others and others[0] != others[1]


# ---------------------------------------------------------------- what vLLM cannot serve


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"peft_type": "IA3"}, "peft_type IA3 is not LORA"),
        ({"use_dora": True}, "uses DoRA"),
        ({"bias": "all"}, "uses biases"),
        ({"modules_to_save": ["lm_head"]}, "uses whole modules"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights 'pissa', which changes the base model"),
        ({"r": 0}, "ranks must be whole numbers from 1 to 512"),
        ({"r": 1024}, "ranks must be whole numbers from 1 to 512"),
        ({"rank_pattern": {"q_proj": "many"}}, "ranks must be whole numbers"),
        ({"rank_pattern": "x"}, r"adapter_config\.json: `rank_pattern` must be a mapping"),
        ({"rank_pattern": [8]}, r"adapter_config\.json: `rank_pattern` must be a mapping"),
        ({"r": 2}, "has rank 4, but adapter_config.json says at most 2"),
    ],
)
def test_what_cannot_be_served_is_refused_without_an_engine(
    adapter: Path, change: dict[str, Any], reported: str
) -> None:
    with pytest.raises(UserError, match=reported):
        checked_rank(with_config(adapter, **change))


def test_what_only_looks_unusual_is_served(adapter: Path) -> None:
    usual = {"use_dora": False, "modules_to_save": None, "init_lora_weights": "gaussian", "alpha_pattern": {}}
    assert checked_rank(with_config(adapter, **usual, rank_pattern={"v_proj": 32})) == 32


def test_a_config_that_is_not_pefts_is_reported(adapter: Path) -> None:
    (adapter / "adapter_config.json").write_text('{"r": 8}')
    with pytest.raises(UserError, match="has no `lora_alpha`"):
        checked_rank(adapter)
    (adapter / "adapter_config.json").write_text("[]")
    with pytest.raises(UserError, match="is no mapping"):
        checked_rank(adapter)


@pytest.mark.parametrize(
    ("tensors", "reported"),
    [
        ({}, "holds no tensors"),
        ({"model.layers.0.q_proj.weight": (4, 4)}, "is no part of a LoRA module"),
        ({"base_model.model.x.lora_A.weight": (4, 16)}, "x lacks one of its two matrices"),
        ({"x.lora_A.weight": (4, 16), "x.lora_B.weight": (16, 3)}, "the matrices of x do not fit"),
    ],
)
def test_tensors_that_are_no_adapter_are_reported(adapter: Path, tensors: dict[str, Any], reported: str) -> None:
    save_file(tensors_of(**tensors), str(adapter / "adapter_model.safetensors"))
    with pytest.raises(UserError, match=reported):
        checked_rank(adapter)


def test_a_damaged_file_and_pickles_are_reported(adapter: Path, tmp_path: Path) -> None:
    (adapter / "adapter_model.safetensors").write_bytes(b"no safetensors")
    with pytest.raises(UserError, match="cannot be read as safetensors"):
        checked_rank(adapter)
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with pytest.raises(UserError, match=r"there is no adapter_model\.safetensors; adapter_model\.bin is not loaded"):
        described(adapter, tmp_path)


def test_a_template_that_an_adapter_brings_along_is_mentioned(
    adapter: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (adapter / "chat_template.jinja").write_text("x")
    described(adapter, tmp_path)
    assert "brings chat_template.jinja along, which is not used; name it as the model's `template`" in caplog.text
    (adapter / "chat_template.jinja").rename(adapter / "chat_template.json")
    described(adapter, tmp_path)
    assert "brings chat_template.json along" in caplog.text
    assert "write the text of its `chat_template` into a .jinja file and name that as the `template`" in caplog.text


def test_a_tokenizer_that_an_adapter_brings_along_is_mentioned(
    adapter: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (adapter / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    (adapter / "added_tokens.json").write_text('{"<refuse>": 49153}')
    described(adapter, tmp_path)
    assert "tokenizer_config.json has a chat_template of its own, which is not used" in caplog.text
    assert "has added_tokens.json: tokens that its engine's tokenizer lacks are text" in caplog.text


def test_a_tokenizer_file_that_cannot_be_read_stops_no_adapter(
    adapter: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (adapter / "tokenizer_config.json").write_text("{")
    assert described(adapter, tmp_path).rank == 4
    assert "is not valid JSON" in caplog.text and "it is not used" in caplog.text


@pytest.mark.parametrize("kind", ["F64", "F32", "F16", "BF16"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1"])
def test_weights_that_are_no_numbers_are_named(adapter: Path, tmp_path: Path, kind: str, value: str) -> None:
    """As where training diverged; an engine would fail at every request of its load."""
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
    numbers = np.ones((2, 4), dtype={"F64": "<f8", "F16": "<f2"}.get(kind, "<f4"))
    numbers[1, 2] = float(value)
    raw = numbers.view("<u2")[:, 1::2].tobytes() if kind == "BF16" else numbers.tobytes()
    shapes = {name.format("A"): [2, 4], name.format("B"): [4, 2]}
    header = {
        tensor: {"dtype": kind, "shape": shape, "data_offsets": [n * len(raw), (n + 1) * len(raw)]}
        for n, (tensor, shape) in enumerate(shapes.items())
    }
    text = json.dumps(header).encode()
    (adapter / "adapter_model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + 2 * raw)
    if value == "1":
        described(adapter, tmp_path)
        return
    with pytest.raises(
        UserError, match=r"layers.0.self_attn.q_proj.lora_A.weight holds .*infinite or no numbers \(NaN\)"
    ):
        described(adapter, tmp_path)


@pytest.mark.parametrize("part", ["A", "B"])
def test_an_adapter_before_its_training_is_named_before_a_device_is_asked_for(
    adapter: Path, tmp_path: Path, part: str
) -> None:
    """One matrix of each module is 0 then, and the load would be stopped because the adapter changes nothing."""
    path = adapter / "adapter_model.safetensors"
    tensors = load_file(path)
    untrained = {name: -0.0 * value if f"_{part}." in name else value for name, value in tensors.items()}
    save_file(untrained, path)
    with pytest.raises(UserError, match="one of the two matrices of each module is 0, as before a training"):
        described(adapter, tmp_path)
    name = min(name for name in tensors if f"_{part}." in name)
    save_file(untrained | {name: tensors[name]}, path)
    described(adapter, tmp_path)


# ---------------------------------------------------------------- whether it fits


def base(folder: Path, shape: dict[str, int] = SMALL, prefix: str = "model.", dtype: Any = np.float32) -> Path:
    tensors = {}
    for layer in range(shape["layers"]):
        for name in ("q_proj", "v_proj"):
            module = f"{prefix}layers.{layer}.self_attn.{name}"
            tensors[f"{module}.weight"] = np.zeros((shape[name], shape["width"]), dtype=dtype)
    folder.mkdir()
    half = len(tensors) // 2
    for number, part in enumerate((list(tensors)[:half], list(tensors)[half:])):
        save_file({name: tensors[name] for name in part}, str(folder / f"model-{number}.safetensors"))
    return folder


@pytest.mark.parametrize("prefix", ["model.", "model.language_model.", "transformer."])
def test_an_adapter_of_these_weights_fits_whatever_stands_before_the_layers(
    adapter: Path, tmp_path: Path, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    check_fits(adapter, base(tmp_path / "base", prefix=prefix), LOG)
    if prefix == "model.":
        assert "all 4 modules were compared" in caplog.text and "WARNING" not in caplog.text
    else:  # whether an engine takes one name for the other only the engine knows
        names = f"names the module model.layers.0.self_attn.q_proj, and the weights {prefix}layers.0.self_attn.q_proj"
        assert names in caplog.text and "were compared" not in caplog.text


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"layers": 1}, r"which has no layers\.1\.self_attn\.q_proj: it was made for another model"),
        ({"width": 32}, r"has 16 x 32 weights, but the adapter is for 16 x 16"),
        ({"v_proj": 16}, r"v_proj has 16 x 16 weights, but the adapter is for 8 x 16"),
    ],
)
def test_an_adapter_of_another_depth_or_width_is_refused(
    adapter: Path, tmp_path: Path, change: dict[str, int], reported: str
) -> None:
    with pytest.raises(UserError, match=reported):
        check_fits(adapter, base(tmp_path / "base", {**SMALL, **change}), LOG)


def test_packed_weights_are_compared_by_name_and_by_the_width_in_their_config(adapter: Path, tmp_path: Path) -> None:
    packed = base(tmp_path / "packed", {**SMALL, "width": 8}, dtype=np.uint8)
    check_fits(adapter, packed, LOG)
    deep = {"talker_config": {"hidden_size": 4}, "thinker_config": {"text_config": {"hidden_size": 16}}}
    for config in (
        {"hidden_size": 16},
        {"text_config": {"hidden_size": 16}, "vision_config": {"hidden_size": 4}},
        deep,
        {},
    ):
        (packed / "config.json").write_text(json.dumps(config))
        check_fits(adapter, packed, LOG)
    for config in ({"hidden_size": 32}, {"text_config": {"hidden_size": 32}}):
        (packed / "config.json").write_text(json.dumps(config))
        with pytest.raises(UserError, match="it reads a model of width 16, and this one's is 32"):
            check_fits(adapter, packed, LOG)
    with pytest.raises(UserError, match=r"has no layers\.1"):
        check_fits(adapter, base(tmp_path / "short", {**SMALL, "layers": 1}, dtype=np.uint8), LOG)


@pytest.mark.parametrize(
    ("same", "said"),
    [((), "whether it fits is not known"), (("q_proj",), "only 2 of 4 modules could be compared with the weights")],
)
def test_modules_that_were_not_compared_are_a_warning(
    adapter: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, same: tuple[str, ...], said: str
) -> None:
    """Models such as Phi-3 store the projections of attention as one matrix, of another name."""
    (tmp_path / "base").mkdir()
    names = [f"model.layers.{layer}.self_attn.{name}.weight" for layer in range(2) for name in ("qkv_proj", *same)]
    save_file(tensors_of(**dict.fromkeys(names, (16, 16))), str(tmp_path / "base" / "model.safetensors"))
    check_fits(adapter, tmp_path / "base", LOG)
    assert said in caplog.text and "WARNING" in caplog.text


@pytest.mark.parametrize(
    ("base_model", "warned"), [("Org/Tiny", False), (None, False), ("org/other", True), ("/home/me/tiny", True)]
)
def test_an_adapter_of_another_repository_is_a_warning(
    adapter: Path, caplog: pytest.LogCaptureFixture, base_model: str | None, warned: bool
) -> None:
    warn_of_another_base(with_config(adapter, base_model_name_or_path=base_model), "org/tiny", LOG)
    assert ("was made for" in caplog.text) == warned
    assert not warned or f"{base_model}, as its adapter_config.json says, but its engine uses org/tiny" in caplog.text


# ---------------------------------------------------------------- from the hub


def fetch(source: dict[str, str], manifest: Path, cache: Path, **environment: str) -> str | None:
    """Fetch in a process of its own; return the message, if any."""
    (reported,), _ = fetched([("adapter", source, str(manifest), None)], cache, cache, **environment)
    return reported


def test_only_the_two_files_are_fetched_and_offline_they_come_from_the_cache(adapter: Path, tmp_path: Path) -> None:
    files = {name: (adapter / name).read_bytes() for name in ("adapter_config.json", "adapter_model.safetensors")}
    others = {"adapter_model.bin": b"pickle" * 500, "optimizer.pt": b"pickle", "tokenizer.json": b"{}"}
    manifest, cache = tmp_path / "adapters" / "id" / "adapter.json", tmp_path / "cache"
    with HubServer() as hub:
        source = {**SOURCE, "revision": hub.add("model", "org/adapter", {**files, **others})}
        assert fetch(source, manifest, cache, HF_ENDPOINT=hub.address) is None
        asked = {request.rsplit("/", 1)[1] for request in hub.requests if "/resolve/" in request}
        pickled = {**SOURCE, "repo": "org/pickled", "revision": hub.add("model", "org/pickled", others)}
        reported = fetch(pickled, tmp_path / "pickled.json", cache, HF_ENDPOINT=hub.address)
    assert (
        "model org/pickled at" in reported and "adapter_model.bin is not loaded, because pickles run code" in reported
    )
    assert not (tmp_path / "pickled.json").exists()
    assert asked == set(files)
    one = describe_adapter("tuned", source, str(manifest), str(cache), LOG)
    assert one.identity == {"repo": "org/adapter", "commit": source["revision"]}
    assert sorted(path.name for path in manifest_folder(manifest).iterdir()) == sorted(files)
    again = tmp_path / "again.json"
    assert fetch(source, again, cache, HF_HUB_OFFLINE="1") is None
    assert read_json(again)["files"] == read_json(manifest)["files"]
