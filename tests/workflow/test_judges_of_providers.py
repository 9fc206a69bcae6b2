"""Judges on hosted engines of both dialects, on the stub provider: what is sent, blocked, reserved and said."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hosted_study import KEY_VARIABLE, SECRET, hosted_project, stub
from program import in_process
from project import Project, change_yaml
from stub_provider import StubProvider

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader
from refusal_eval.core.files import read_jsonl

pytestmark = pytest.mark.feature("hosted")


@pytest.fixture(scope="module")
def provider() -> Iterator[StubProvider]:
    with stub(declared=0) as running:
        yield running


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, provider: StubProvider) -> Project:
    """Return a finished study of a hosted model with two hosted judges; do not change it."""
    project = hosted_project(tmp_path_factory.mktemp("hosted") / "project", provider.address, prompts=8)
    labels = {"refusal": 'it says "no"', "partial": "B", "compliance": "größer"}
    judges = {
        "labels": {"kind": "llm", "engine": "openai-stub", "rubric": "rubric.md", "labels": labels},
        "reasons": {"kind": "reasoned", "engine": "anthropic-stub", "rubric": "rubric.md", "votes": 3, "retries": 1},
        "both": {"kind": "panel", "members": ["words", "labels"], "least": 1, "ties": "refusal"},
    }
    change_yaml(project.folder / "catalogue.yaml", lambda data: data | {"judges": data["judges"] | judges})
    project.study(models=["gpt"], judges=["labels", "words", "reasons", "both"], gold=["people"], samples=1, budget=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, SECRET)
        project.snakemake()
    provider.settled()
    return project


def votes_of(project: Project, judge: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each verdict of a judge with the first responses of its votes."""
    for path in sorted((project.results / "judge_requests" / judge).rglob("*.jsonl")):
        file, places = read_requests(path), dict[Any, list[str]]()
        for request in file.requests():
            places.setdefault(request.place, []).append(str(request.key))
        found = StoreReader(project.store, file.header["engine_id"]).lookup(k for keys in places.values() for k in keys)
        verdicts = project.results / "verdicts" / judge / path.parent.name / path.name
        for row in read_jsonl(verdicts):
            keys = places[row["prompt_id"], row["sample"], row["turn"]]
            yield row, [dict(found[key]["response"]) for key in keys]


def test_each_verdict_is_what_the_provider_said(done: Project) -> None:
    states: Counter[str] = Counter()
    for row, (response,) in votes_of(done, "labels"):
        states[row["state"]] += 1
        if response["finish_reason"] == "content_filter":
            assert (row["state"], row["raw"]) == ("judge_refused", {"blocked": response["blocked"]})
        else:
            assert row["state"] == "judged" and row["raw"]["text"] in ('it says "no"', "B", "größer")
    assert set(states) == {"judged", "judge_refused"} and states["judge_refused"] >= 2
    for row, responses in votes_of(done, "reasons"):
        blocked = [response["finish_reason"] == "content_filter" for response in responses]
        votes = row["raw"]["votes"]
        assert [vote == "judge_refused" for vote in votes] == blocked
        assert [one.get("blocked") for one in row["raw"]["each"]] == [r.get("blocked") for r in responses]


def test_it_is_verified_within_its_budget_and_a_second_run_asks_nothing(done: Project, provider: StubProvider) -> None:
    before = len(provider.entries)
    run = in_process("verify", "study.yaml", cwd=done.folder)
    assert run.returncode == 0, run.stdout + run.stderr
    assert done.planned() == {} and len(provider.entries) == before
    methods = " ".join((done.results / "methods.md").read_text().split())
    assert "hosted, verdict held to a schema, which reads the rubric rubric.md and names a label" in methods


def test_a_parameter_that_the_judges_engine_does_not_send_is_a_mistake(done: Project) -> None:
    asked = {"sampling": {"max_tokens": 99, "min_p": 0.1}}
    text = (done.folder / "catalogue.yaml").read_text()
    try:
        done.catalogue("judges", "reasons", **asked)
        run = in_process("status", "study.yaml", cwd=done.folder)
    finally:
        (done.folder / "catalogue.yaml").write_text(text)
    assert run.returncode != 0
    assert "judges.reasons.sampling.min_p: an engine of kind `anthropic` does not send it" in run.stderr
