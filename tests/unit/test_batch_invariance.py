"""Strict studies on a GPU: models that vLLM cannot serve so are refused before a GPU is asked for."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import identify_engine
import pytest
from config_project import WHOLE_STUDY, Project

from refusal_eval.core.errors import UserError
from refusal_eval.study.study import Study
from refusal_eval.weights.engine_file import INVARIANT_METHODS, NOT_INVARIANT, refuse_strict
from refusal_eval.workflow.weights_stage import identified_entry


def model_folder(folder: Path, **config: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    "architecture",
    ["Qwen3NextForCausalLM", "MambaForCausalLM", "JambaForCausalLM", "Qwen3_5MoeForConditionalGeneration"],
)
def test_a_model_with_a_recurrent_state_is_refused_with_what_to_do(tmp_path: Path, architecture: str) -> None:
    folder = model_folder(tmp_path / "m", architectures=[architecture])
    with pytest.raises(UserError, match=f"engine big: .*{architecture}.*`determinism: seeded`"):
        refuse_strict("big", folder)


def test_mxfp4_weights_are_refused(tmp_path: Path) -> None:
    config = {"architectures": ["GptOssForCausalLM"], "quantization_config": {"quant_method": "mxfp4"}}
    with pytest.raises(UserError, match=r"MXFP4.*`determinism: seeded`"):
        refuse_strict("gpt", model_folder(tmp_path / "m", **config))


def compressed(kind: str, bits: int, activations: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    numbers = {"type": kind, "num_bits": bits}
    group = {"weights": numbers, "input_activations": activations and numbers | activations, **more}
    return {"quant_method": "compressed-tensors", "config_groups": {"0": group}}


BY_TOKEN = {"dynamic": True, "strategy": "token"}


@pytest.mark.parametrize(
    ("asked", "quantized", "said"),
    [
        ("gptq", None, "gptq"),
        (None, {"quant_method": "gptq"}, "gptq"),
        ("gptq_marlin", {"quant_method": "gptq"}, "gptq_marlin"),
        ("bitsandbytes", None, "bitsandbytes"),
        ("int8_per_channel_weight_only", None, "int8_per_channel_weight_only"),
        ("compressed-tensors", compressed("int", 4, None), "compressed-tensors"),
        (None, compressed("int", 8, BY_TOKEN), "compressed-tensors"),
        (None, compressed("float", 4, {"dynamic": "local", "strategy": "tensor_group"}), "compressed-tensors"),
        (None, compressed("float", 8, {"dynamic": False, "strategy": "tensor"}), "compressed-tensors"),
        (None, compressed("float", 8, {"dynamic": True, "strategy": "tensor"}), "compressed-tensors"),
        (None, compressed("float", 8, BY_TOKEN, format="mxfp8-quantized"), "compressed-tensors"),
        (None, {"quant_method": "compressed-tensors", "config_groups": {"W8A8": ["Linear"]}}, "compressed-tensors"),
        (None, {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "modelopt"),
    ],
)
def test_weights_without_invariant_kernels_are_refused(
    tmp_path: Path, asked: str | None, quantized: dict[str, Any] | None, said: str
) -> None:
    """vLLM starts and says nothing: the answers would differ between two runs that are called identical."""
    with pytest.raises(UserError, match=f"engine e: .* for weights quantized by `{said}`.*`determinism: seeded`"):
        refuse_strict("e", model_folder(tmp_path / "m", quantization_config=quantized), asked)


@pytest.mark.parametrize(
    ("asked", "quantized"),
    [
        ("fp8", None),
        (None, {"quant_method": "awq"}),
        ("humming", {"quant_method": "gptq"}),
        ("fp8_per_channel", None),
        ("compressed-tensors", compressed("float", 8, BY_TOKEN)),
        (None, compressed("float", 8, {"dynamic": True, "strategy": "group"})),
    ],
)
def test_weights_with_invariant_kernels_are_not_refused(
    tmp_path: Path, asked: str | None, quantized: dict[str, Any] | None
) -> None:
    refuse_strict("e", model_folder(tmp_path / "m", quantization_config=quantized), asked)


def test_how_weights_are_quantized_is_read_as_vllm_reads_it(tmp_path: Path) -> None:
    """Of compressed-tensors under another name, of a part of the model, or of ModelOpt in a file of its own."""
    quantized = compressed("int", 4, None)
    for told in ({"compression_config": quantized}, {"text_config": {"quantization_config": quantized}}):
        with pytest.raises(UserError, match="compressed-tensors"):
            refuse_strict("e", model_folder(tmp_path / "m", **told))
    folder = model_folder(tmp_path / "m", architectures=["LlamaForCausalLM"])
    (folder / "hf_quant_config.json").write_text('{"producer": {"name": "modelopt"}}')
    with pytest.raises(UserError, match="modelopt"):
        refuse_strict("e", folder)


def test_the_methods_are_those_that_the_installed_vllm_has(repository: Path) -> None:
    for vllm in repository.glob(".venv/engine/lib/python3*/site-packages/vllm"):
        known = (vllm / "model_executor/layers/quantization/__init__.py").read_text()
        assert [name for name in INVARIANT_METHODS if f'    "{name}",\n' not in known] == []


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["Qwen3ForCausalLM"]},
        {"architectures": ["Gemma3ForConditionalGeneration"], "quantization_config": None},
        {"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "fp8"}},
        {},
    ],
)
def test_other_models_are_not(tmp_path: Path, config: dict[str, Any]) -> None:
    refuse_strict("e", model_folder(tmp_path / "m", **config))
    refuse_strict("e", tmp_path)  # no config.json: nothing is known


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize(
    ("determinism", "device", "refused"),
    [("strict", "cuda", True), ("strict", "auto", True), ("strict", "cpu", False), ("seeded", "cuda", False)],
)
def test_the_rule_that_identifies_an_engine_refuses_it_only_for_strict_studies_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, determinism: str, device: str, refused: bool, quantized: bool
) -> None:
    monkeypatch.chdir(tmp_path)  # without an engine environment `auto` is a GPU
    config = Project(tmp_path).load({**WHOLE_STUDY, "determinism": determinism})
    config["engine_entries"]["folder-engine"]["device"] = device
    architecture = "LlamaForCausalLM" if quantized else "MambaForCausalLM"
    model_folder(Path(config["engine_entries"]["folder-engine"]["weights"]["path"]), architectures=[architecture])
    wildcards = SimpleNamespace(engine="folder-engine")
    job = SimpleNamespace(
        params=SimpleNamespace(engine=identified_entry(Study(config), "folder-engine")),
        wildcards=wildcards,
        config=config,
        input=[],
        output=[str(tmp_path / "engine.json")],
        log=[str(tmp_path / "log")],
        scriptdir=str(tmp_path / "scripts"),
    )
    config["engine_entries"]["folder-engine"] |= {"quantization": "gptq"} if quantized else {}
    monkeypatch.setattr(identify_engine, "start_log", lambda _: SimpleNamespace(info=lambda *_: None))
    if refused:
        with pytest.raises(UserError, match="folder-engine"):
            identify_engine.main(job)
    else:
        identify_engine.main(job)
    assert Path(job.output[0]).is_file() is not refused


def test_what_identifies_the_engines_of_other_studies_is_as_it_was(config: dict[str, Any]) -> None:
    params = identified_entry(Study(config), "folder-engine")
    assert set(params) == {"weights", "dtype", "files", "max_model_len"}


FLAGS = {"IsHybrid", "IsAttentionFree"}


def test_the_names_are_those_that_the_installed_vllm_has(repository: Path) -> None:
    for vllm in repository.glob(".venv/engine/lib/python3*/site-packages/vllm"):
        sources = [*vllm.glob("model_executor/models/*.py"), *vllm.glob("models/*/*/model.py")]
        bases: dict[str, set[str]] = {}
        for source in sources:
            for name, parents in re.findall(r"^class (\w+)\(([^)]*)\)", source.read_text(), re.MULTILINE):
                bases.setdefault(name, set()).update(re.findall(r"[\w.]+", parents))

        def state(name: str, bases: dict[str, set[str]] = bases) -> bool:
            return bool(FLAGS & bases.get(name, set())) or any(state(base) for base in bases.get(name, ()))

        registry = (vllm / "model_executor/models/registry.py").read_text()
        served = re.findall(r'"(\w+For(?:CausalLM|ConditionalGeneration))":\s*\(\s*"[\w.]+",\s*"(\w+)"', registry)
        assert len(served) > 200
        differ = [name for name, made in served if name.startswith(NOT_INVARIANT) != state(made)]
        assert differ == []
