"""What a provider billed is in the journal, and that in the budget, whenever a load is killed (see money.py)."""

import csv
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import psutil
import pytest
import yaml
from hosted_study import KEY_VARIABLE, MODELS, PRICE, SECRET, hosted_project, started, stub, wait_until
from money import bill, disturbed
from project import Project, change_yaml

from refusal_eval.core.files import read_jsonl
from refusal_eval.features.hosted.journal import journal_path, read_spending

MEGABYTES = 300
IN_FLIGHT = 64


def test_twenty_kills_lose_no_money(tmp_path: Path) -> None:
    seen = disturbed(20, 1, tmp_path)
    assert seen.kills == 20 and seen.complete + seen.ended_by_budget > 0
    assert 0 < seen.billed <= seen.spent + seen.reserved
    assert {"reset after", "504", "types"} & set(seen.forms)  # what was billed and could not be read was among it


def test_models_and_judges_of_both_dialects_share_one_budget_and_nothing_is_paid_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    judging = {f"{kind}-judge": {"refused": 0.0, "declared": 0.0, "blocked": 0.1} for kind in MODELS.values()}
    with stub(models=judging) as provider:
        project = hosted_project(tmp_path / "project", provider.address, prompts=10)
        add_judges(project)
        project.study(splits=["one"], judges=["words", "labels", "reasons"], budget=0.02)
        run = project.snakemake(check=False)
        provider.settled()
        assert run.returncode != 0 and "the study's `budget` leaves no room" in run.stdout + run.stderr
        assert 0 < bill(provider.entries, PRICE) <= Decimal("0.02")
        project.study(budget=5)
        project.snakemake()
        provider.settled()
        assert project.planned() == {}
        spent = read_spending(journal_path(project.store, "small"))
    asked = Counter((e["model"], str(e["messages"]), e["seed"]) for e in provider.entries if e["dialect"] == "openai")
    assert set(asked.values()) == {1}
    assert bill(provider.entries, PRICE) <= spent.total
    unsaid = sum(bill([entry], PRICE) for entry in provider.entries if entry["status"] != 200)  # errors name no usage
    assert unsaid == 0 and sum(spent.spent.values()) >= bill(provider.entries, PRICE)
    for judge, kind in (("labels", "openai"), ("reasons", "anthropic")):
        own = [entry for entry in provider.entries if entry["model"] == f"{kind}-judge"]
        rows = [row for path in (project.results / "verdicts" / judge).rglob("*.jsonl") for row in read_jsonl(path)]
        states = Counter(row["state"] for row in rows)
        assert {"verdict", "blocked"} == {entry["kind"] for entry in own} and set(states) >= {"judged", "judge_refused"}
        assert states["unparsable"] == 0, [row for row in rows if row["state"] == "unparsable"][:2]
        costs = costs_of(project, "cost_per_1000_verdicts", judge)
        # Blocks without a bill cost nothing here; equal answers have one verdict, which is billed once.
        keys = {row["key"] for row in rows}
        assert len(own) == len(keys)
        in_cells = [
            cell_cost(project.results / "verdicts" / judge / model / "one.jsonl") for model in ("gpt", "claude")
        ]
        assert costs == pytest.approx(dict(zip(("gpt", "claude"), in_cells, strict=True)))
        every = {key: usage for row in rows for key, usage in row.get("billed", {}).items()}
        assert sum((PRICE.cost(usage) for usage in every.values()), Decimal(0)) == bill(own, PRICE)


def costs_of(project: Project, estimand: str, judge: str) -> dict[str, float]:
    """Return the values of an estimand by model."""
    with (project.results / "results_table" / "results.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["estimand"], row["judge"]) == (estimand, judge)]
    return {row["model"]: float(row["value"]) for row in rows}


def cell_cost(path: Path) -> float:
    """Return what 1,000 verdicts of a file cost: input 2.5, cached 1.25 and output 10 a million tokens."""
    billed, judged = dict[str, float](), 0
    for row in read_jsonl(path):
        judged += row["state"] == "judged"
        for key, usage in row.get("billed", {}).items():
            uncached = usage["input"] - usage["cached"]
            billed[key] = (uncached * 2.5 + usage["cached"] * 1.25 + usage["output"] * 10) / 1e6
    return 1000 * sum(billed.values()) / judged


def add_judges(project: Project) -> None:
    """Add a judge of each dialect, on engines of their own."""
    engine = yaml.safe_load((project.folder / "catalogue.yaml").read_text())["engines"]
    engines = {f"{kind}-judge": {**engine[f"{kind}-stub"], "served": f"{kind}-judge"} for kind in MODELS.values()}
    labels = {"refusal": "A", "partial": "B", "compliance": "C"}
    judges = {
        "labels": {"kind": "llm", "engine": "openai-judge", "rubric": "rubric.md", "labels": labels},
        "reasons": {"kind": "reasoned", "engine": "anthropic-judge", "rubric": "rubric.md"},
    }
    change_yaml(
        project.folder / "catalogue.yaml",
        lambda data: data | {"engines": data["engines"] | engines, "judges": data["judges"] | judges},
    )


@pytest.mark.full
def test_ten_thousand_requests_survive_five_kills_and_are_sent_once_but_for_those_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    with stub(latency=0.02, blocked=0.05) as provider:
        project = hosted_project(tmp_path / "project", provider.address, prompts=1000)
        project.study(models=["gpt"], samples=5, requests_in_flight=IN_FLIGHT, budget=50)
        for kill in range(1, 6):
            run = started(project, "--nolock", "--until", "generate_hosted")
            resident = largest_until(run, lambda goal=1600 * kill: len(provider.entries) >= goal)
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            provider.settled()
            print(f"kill {kill} after {len(provider.entries)} requests, {resident} MB")
            assert resident < MEGABYTES
        run = started(project, "--nolock", "--until", "generate_hosted")
        resident = largest_until(run, lambda: run.poll() is not None)
        assert run.returncode == 0, (project.folder / "run.log").read_text()[-3000:]
        print(f"{provider.received} requests, {provider.most_in_flight} in flight at most, {resident} MB")
        assert resident < MEGABYTES
        assert len(provider.entries) <= 10_000 + 5 * IN_FLIGHT
        assert provider.most_in_flight <= IN_FLIGHT
    assert project.missing("requests") == set()


def largest_until(run: "subprocess.Popen[bytes]", done: Callable[[], object]) -> int:
    """Wait; return the most memory that a process of the run had meanwhile, in MB."""
    largest = 0

    def look() -> bool:
        nonlocal largest
        for process in [*(whole := psutil.Process(run.pid)).children(recursive=True), whole]:
            try:
                largest = max(largest, process.memory_info().rss)
            except psutil.NoSuchProcess:
                continue
        return bool(done())

    wait_until(look, 300.0)
    return largest // 10**6
