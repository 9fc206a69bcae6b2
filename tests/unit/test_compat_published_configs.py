"""The four configs that the published library ships, in shape, imported against our own catalogue.

Written down anew from notes on that library (which has no licence; nothing of it is copied): which models, splits and
numbers its configs name, and what is wrong with them.
"""

import pytest
import yaml

from refusal_eval.__main__ import main
from refusal_eval.config.load_study import load_study
from refusal_eval.engines.devices.nvidia_smi import Seen
from refusal_eval.tools.published import import_command

# Seven splits, 1,943 prompts; one config has the everyday prompts too, and none has the safe prompts of XSTest.
SPLITS = [
    *("ccp_sensitive_sampled", "deccp_censored", "jailbreakbench", "sorrybench", "xstest_unsafe"),
    *("harmbench_sampled", "adversarial_unsafe_prompts"),
]
# Name: repository, mark that its `thinking-string` gives, further splits (which config has them is a guess); then the
# engine of our catalogue and its cards.
CONFIGS = {
    "qwen3-4b-instruct-2507": ("Qwen/Qwen3-4B-Instruct-2507", None, [], "qwen3-4b-instruct", 1),
    "qwen3-next-80b-a3b-thinking": (
        *("Qwen/Qwen3-Next-80B-A3B-Thinking", "<think>", ["general_prompts"], "qwen3-next-80b-thinking", 4),
    ),
    "qwen3-next-80b-a3b-thinking-uncensored": (
        *("MultiverseComputingCAI/Qwen3-Next-80B-A3B-Thinking-Uncensored", "<think>", []),
        *("qwen3-next-80b-uncensored", 4),
    ),
    "gemma-3-4b-it": ("google/gemma-3-4b-it", None, [], "gemma-3-4b-it", 1),
}


def published(name):
    """Return a config in the shape of the published one of that name."""
    repo, mark, more, _, _ = CONFIGS[name]
    model = {"name_or_path": repo, "max_model_len": 16384, "max_new_tokens": 8192, "num_return_sequences": 5}
    model |= {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "batch_size": 256}
    judge = {"name_or_path": "openai/gpt-oss-20b", "max_model_len": 24576, "max_new_tokens": 8192}
    judge |= {"num_return_sequences": 1, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "batch_size": 256}
    return {
        "dataset_splits": [*SPLITS, *more],
        "model": model | ({"thinking-string": mark} if mark else {}),
        "judge_model": judge,
        "gpu_memory_utilization": 0.9,
        "tensor_parallel_size": "auto",
        "continue_from_checkpoint": True,
        "output_dir": f"results/{name}",
    }


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_config_becomes_a_study_of_our_catalogue(name, repository, tmp_path, monkeypatch, capsys):
    """Imported by the command, on a machine without a GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_command, "read_gpus", lambda strangers: Seen(installed=False))
    (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(published(name)), encoding="utf-8")
    assert main(["import", f"{name}.yaml", "--name", "mine"]) == 0
    raw, told = yaml.safe_load((tmp_path / "mine.yaml").read_text(encoding="utf-8")), capsys.readouterr().out
    config = load_study(raw, "mine.yaml", str(repository), open_pins=True)
    repo, mark, more, engine, cards = CONFIGS[name]
    model, served = config["model_entries"]["mine"], config["engine_entries"]["mine"]
    assert config["splits"] == [*SPLITS, *more] and config["samples"] == 5
    assert config["judges"] == ["gpt-oss-20b"] and config["judge_entries"]["gpt-oss-20b"]["kind"] == "reasoned"
    assert served["weights"]["repo"] == repo and served["tensor_parallel"] == cards, engine
    assert (served["weights"]["revision"] is None) == name.endswith("uncensored"), "a repository that nobody saw"
    assert served["max_model_len"] == 16384 and model["sampling"]["max_tokens"] == 8192
    assert [model["sampling"][key] for key in ("temperature", "top_p", "top_k")] == [0.6, 0.95, 20]
    assert "the published code ignores them" in told and "draws at temperature 1" in told
    if mark:
        assert (model["reasoning"]["start"], model["reasoning"]["end"]) == ("<think>", "</think>")
        assert "<think> opens the reasoning, so it is no end mark" in told
    else:
        assert model["reasoning"] is None and "thinking-string" not in told
    assert "ccp_sensitive_sampled" in config["allow"] and "CC-BY-NC-4.0" in told
    assert "read why `ccp_sensitive_sampled` is off by default" in told
