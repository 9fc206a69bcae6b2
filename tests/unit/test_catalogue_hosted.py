"""The hosted models that ship: examples of every way to ask, which cost nobody anything by mistake."""

from typing import Any

import pytest

from refusal_eval.config.load_study import load_study
from refusal_eval.config.problems import ConfigError
from refusal_eval.features.hosted.hosted_entry import Hosted

MODELS = [
    *("gpt-5.4-mini", "gpt-4.1", "azure-gpt-4.1", "claude-opus-5.5", "openrouter-llama-3.3-70b", "gemini-3.8-flash"),
    "own-vllm",
]


def body(shipped: Any, model: str) -> dict[str, Any]:
    """Return what a request of a model says."""
    entry = shipped.valid["models"][model]
    messages = [{"role": "user", "content": "Hello?"}]
    said: dict[str, Any] = shipped.valid["engines"][entry.engine].body(messages, entry.sampling.model_dump(), 7)
    return {name: value for name, value in said.items() if name != "messages"}


def test_they_are_all_there_off_and_say_what_nobody_verified(shipped: Any) -> None:
    engines = shipped.valid["engines"]
    hosted = {name: engines[one.engine] for name, one in shipped.valid["models"].items()}
    hosted = {name: engine for name, engine in hosted.items() if isinstance(engine, Hosted)}
    assert sorted(hosted) == sorted(MODELS)
    for name, engine in hosted.items():
        assert not engine.enabled and engine.reason and engine.terms and engine.verified == "never", name
        assert engine.is_here == (engine.key_variable is None), name
        assert engine.is_here or engine.price is not None or "its price" in engine.unverified, name
        assert engine.unverified, name


def test_each_is_asked_as_its_documentation_says(shipped: Any) -> None:
    found = {model: body(shipped, model) for model in MODELS}
    seven = {"seed": 7}
    assert found == {
        "gpt-5.4-mini": {
            "model": "gpt-5.4-mini-2026-03-17",
            "max_completion_tokens": 16384,
            "reasoning_effort": "low",
            **seven,
        },
        "gpt-4.1": {
            "model": "gpt-4.1-2025-04-14",
            "max_completion_tokens": 8192,
            "temperature": 1.0,
            "logprobs": True,
            **seven,
        },
        "azure-gpt-4.1": {
            "model": "my-deployment",
            "max_tokens": 8192,
            "temperature": 1.0,
            "logprobs": True,
            **seven,
        },
        "claude-opus-5.5": {"model": "claude-opus-5-5", "max_tokens": 16384},
        "openrouter-llama-3.3-70b": {
            "model": "meta-llama/llama-3.3-70b-instruct",
            "max_tokens": 8192,
            "temperature": 1.0,
            "provider": {"only": ["deepinfra"], "allow_fallbacks": False, "require_parameters": True},
            **seven,
        },
        "gemini-3.8-flash": {"model": "gemini-3.8-flash", "max_tokens": 16384, "temperature": 1.0},
        "own-vllm": {
            "model": "Qwen/Qwen3-4B-Instruct-2507",
            "max_tokens": 8192,
            "temperature": 0.7,
            "top_p": 0.8,
            "top_k": 20,
            "min_p": 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "min_tokens": 0,
            "stop": [],
            "logprobs": True,
            **seven,
        },
    }


@pytest.mark.parametrize("model", MODELS)
def test_a_study_takes_one_only_if_it_is_allowed(repository: Any, monkeypatch: Any, model: str) -> None:
    monkeypatch.chdir(repository)
    study = {"study": "s", "models": [model], "splits": ["sensitive"], "samples": 2, "judges": ["keyword"]}
    with pytest.raises(ConfigError, match="is off by default") as refused:
        load_study(study, "config/config.yaml")
    said = str(refused.value)
    assert said.startswith("1 mistake") and f"`{model}` is off by default: it " in said and "weights" not in said
    assert load_study(study | {"allow": [model]}, "config/config.yaml")["models"] == [model]


def test_the_model_behind_a_deployment_is_known(shipped: Any) -> None:
    azure = shipped.valid["engines"]["azure-gpt-4.1"]
    assert not azure.is_other("gpt-4.1-2025-04-14") and azure.is_other("gpt-4o-2024-08-06")
