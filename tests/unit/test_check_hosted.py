"""What `refusal-eval check --model` asks a hosted model, and what it says of the replies."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hosted_study import KEY_VARIABLE, MODELS, PRICE, SECRET, hosted_project
from program import in_process
from project import change_yaml, make_project
from stub_provider import StubProvider

from refusal_eval.config.kinds import ENGINES
from refusal_eval.features.hosted.price import Price
from refusal_eval.tools.check import check_command


class Checked(NamedTuple):
    code: int
    out: str
    err: str

    def line(self, name: str) -> str:
        """Return the line of a check, with what to do below it; spaces are single."""
        found = re.search(rf"^\S+ +{name}  .*(\n +-> .*)?", self.out, re.MULTILINE)
        assert found is not None, self.out
        return " ".join(found[0].split())


Check = Callable[..., Checked]


@pytest.fixture
def stub() -> Iterator[StubProvider]:
    with StubProvider(key=SECRET, varies=True) as provider:
        yield provider


@pytest.fixture
def check(stub: StubProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Return the check of a model of the study of hosted models; fields of engines and of sampling are given."""
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setattr(check_command.tempfile, "tempdir", str(temporary))
    for name in ("end_with_parent", "allow_many_connections"):
        monkeypatch.setattr(check_command, name, lambda: None)

    def checked(model: str, sampling: dict[str, Any] | None = None, **engine: Any) -> Checked:
        project = hosted_project(tmp_path / "project", stub.address, prompts=2)
        project.study(models=list(MODELS), judges=["words"], gold=[], samples=1)
        if sampling is not None:
            project.catalogue("models", model, sampling={"max_tokens": 40, **sampling})
        if engine:
            project.catalogue("engines", f"{MODELS[model]}-stub", **engine)
        run = in_process("check", "study.yaml", "--model", model, cwd=project.folder)
        assert SECRET not in run.stdout + run.stderr
        assert not list(temporary.iterdir())
        return Checked(run.returncode, run.stdout, run.stderr)

    return checked


def cost_of(stub: StubProvider) -> str:
    price = Price.model_validate(PRICE)
    return f"{price.cost(stub.billed):.6f} USD spent"


def test_a_good_server_passes_and_the_report_says_what_its_answers_cost(stub: StubProvider, check: Check) -> None:
    stub.options.provider = "Stub AI"
    found = check("gpt", {"temperature": 0.7, "stop": ["END"]}, logprobs=True)
    assert found.code == 0, found.out + found.err
    assert len(stub.entries) == 4  # this kind has no refusal test
    plain, drawn, again, system = stub.entries
    assert plain["parameters"].keys() == {"max_tokens", "logprobs"}
    assert drawn["parameters"].keys() == {"max_tokens", "temperature", "stop", "seed", "logprobs"}
    assert drawn["parameters"] == again["parameters"] and drawn["messages"] == again["messages"]
    assert [message["role"] for message in system["messages"]] == ["system", "user"]
    assert "max_tokens, temperature, stop, seed: the server takes them" in found.line("sampling parameters")
    assert "ok seeds obeyed" in found.line("seeds")
    assert "the answer shows it" in found.line("system message")
    assert "none is documented" in found.line("refusal test")
    assert "model openai-large, fingerprint fp_stub, provider Stub AI" in found.line("served")
    assert found.line("log probabilities").startswith("ok") and "tokens of 4 answers" in found.out
    assert f"{stub.billed['input']} tokens read" in found.line("usage")
    assert f"{stub.billed['output']} written; 4 of 4" in found.line("usage")
    assert cost_of(stub) in found.line("cost")
    assert found.out.startswith("```text\nrefusal-eval ") and "passed: 8 ok\n```" in found.out
    assert "engine        openai, openai-large, as of 2026-11-01" in found.out
    assert "server        this machine" in found.out and "127.0.0.1" not in found.out


def test_the_documented_refusal_is_blocked_and_a_dialect_without_seeds_says_so(
    stub: StubProvider, check: Check
) -> None:
    found = check("claude")
    assert found.code == 0, found.out + found.err
    assert len(stub.entries) == 4
    assert "sends no seed" in found.line("seeds")
    assert "ok refusal test blocked by the provider's classifier" in found.line("refusal test")
    assert "not asked for" in found.line("log probabilities")
    assert cost_of(stub) in found.line("cost")
    # An assistant that reads our files would be refused as well.
    whole = ENGINES.get("anthropic").refusal_test
    here = Path(__file__).parents[2]
    assert not [path for path in here.glob("scripts/**/*.py") if whole in path.read_text(encoding="utf-8")]


def test_a_refusal_test_that_is_answered_fails(stub: StubProvider, check: Check) -> None:
    stub.options.script = ["complete"] * 4
    found = check("claude")
    assert found.code == 1 and "complete, and not blocked by a classifier" in found.line("refusal test")
    assert "FAILED: " in found.out


@pytest.mark.parametrize("model", MODELS)
def test_a_wrong_key_ends_the_check_with_one_request(stub: StubProvider, check: Check, model: str) -> None:
    stub.options.key = "sk-another"
    found = check(model)
    assert found.code == 1 and len(stub.entries) == 1
    assert f"the server does not take the key in `{KEY_VARIABLE}`" in found.line("plain request")
    assert KEY_VARIABLE in found.err and "system message" not in found.out
    assert "127.0.0.1" not in found.out and "127.0.0.1" in found.err  # the report is for others as well


@pytest.mark.parametrize(
    ("model", "options", "sampling", "line"),
    [
        ("gpt", {"unsupported": ["max_tokens"]}, {}, "parameters: {max_tokens: max_completion_tokens}"),
        ("gpt", {"only_default": ["temperature"]}, {"temperature": 0.7}, "parameters: {temperature: null}"),
        ("claude", {"unsupported": ["temperature"]}, {"temperature": 0.7}, "parameters: {temperature: null}"),
    ],
)
def test_a_parameter_that_is_not_taken_ends_the_check_with_the_line_that_mends_it(
    stub: StubProvider, check: Check, model: str, options: Any, sampling: Any, line: str
) -> None:
    for name, value in options.items():
        setattr(stub.options, name, value)
    found = check(model, sampling)
    assert found.code == 1 and line in found.out and line in found.err
    assert len(stub.entries) == (2 if sampling else 1)
    assert found.line("cost").startswith("ok") and cost_of(stub) in found.line("cost")


def test_a_missing_key_is_said_before_anything_is_sent(
    stub: StubProvider, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE)
    found = check("gpt")
    assert found.code == 1 and f"{KEY_VARIABLE} is not set" in found.line("server") and not stub.entries


def test_what_a_server_does_otherwise_is_to_be_looked_at(stub: StubProvider, check: Check) -> None:
    stub.options.obeys_seeds = stub.options.obeys_system = False
    found = check("gpt", price=None, parameters={"max_tokens": "max_completion_tokens"})
    assert found.code == 0
    assert found.line("seeds").startswith("WARN") and "two different answers" in found.line("seeds")
    assert found.line("system message").startswith("WARN")
    assert "the entry has no `price`" in found.line("cost")
    assert "max_completion_tokens" in found.line("sampling parameters")
    assert "to look at" in found.out


def test_an_entry_that_sends_no_seed_is_not_tested_for_it(stub: StubProvider, check: Check) -> None:
    found = check("gpt", parameters={"seed": None})
    assert found.code == 0 and len(stub.entries) == 3 and "sends no seed" in found.line("seeds")


def test_a_greedy_model_is_not_asked_twice_for_its_seed(stub: StubProvider, check: Check) -> None:
    found = check("gpt", {"temperature": 0})
    assert found.code == 0 and len(stub.entries) == 3 and "meant to be equal: temperature 0" in found.line("seeds")


def test_tokens_beyond_what_we_reserve_fail_and_a_reply_without_usage_stays_reserved(
    stub: StubProvider, check: Check
) -> None:
    stub.options.bytes_per_token = 0.1
    found = check("gpt")
    assert found.code == 1 and "a `budget` would not hold" in found.line("usage")
    stub.options.bytes_per_token = 4.0
    body = {"model": "openai-large", "choices": [{"message": {"content": "A pebble."}, "finish_reason": "stop"}]}
    stub.options.always = {"body": body}
    found = check("gpt")
    assert found.code == 0 and "the replies name none" in found.line("usage")
    assert "0.000000 USD spent" in found.line("cost") and "reserved for replies" in found.line("cost")


def test_who_waits_for_a_busy_server_knows_it(
    stub: StubProvider, check: Check, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("refusal_eval.features.hosted.client.LONGEST_WAIT", 0.01)
    stub.options.script = ["complete", "529"]
    found = check("gpt")
    assert found.code == 0 and len(stub.entries) == 5
    assert re.search("waiting for .* HTTP 529", caplog.text)


def test_a_harmless_question_that_is_blocked_is_to_be_looked_at(stub: StubProvider, check: Check) -> None:
    stub.options.always = "400 invalid_prompt"
    found = check("gpt")
    assert found.code == 0 and found.line("plain request").startswith("WARN") and "blocked by policy" in found.out


@pytest.mark.usefixtures("check")
def test_an_engine_elsewhere_that_brings_no_trial_cannot_be_checked(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    own = {
        "engines": {"far": {"kind": "chat", "address": "https://api.example.org/v1", "served": "big"}},
        "models": {"far": {"engine": "far", "sampling": {"max_tokens": 9}}},
    }
    change_yaml(project.folder / "catalogue.yaml", lambda data: data | {key: data[key] | own[key] for key in own})
    plugin = str(Path(__file__).parents[1] / "plugins" / "chat_engine.py")
    project.study(models=["far"], judges=["words"], gold=[], plugins=[plugin])
    run = in_process("check", "study.yaml", "--model", "far", cwd=project.folder)
    assert run.returncode == 1 and "`far` cannot be checked: its engine `far` computes elsewhere" in run.stderr
