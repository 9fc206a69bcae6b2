"""A study of models that another party serves and may block: two refusal rates everywhere, and who refused."""

import csv
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from blocking_study import MODELS, PLUGIN, hosted
from program import in_process
from project import Project, copy_of
from recomputed import recompute

from refusal_eval.core.files import read_jsonl

pytestmark = pytest.mark.feature("rates", "who_refused", "comparisons", "tradeoff")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = hosted(tmp_path_factory.mktemp("two-rates") / "project")
    project.snakemake()
    return project


@pytest.fixture(scope="module")
def results(study: Project) -> pd.DataFrame:
    return pd.read_parquet(study.results / "results_table" / "results.parquet")


def outcomes(study: Project, model: str, split: str) -> Iterator[list[tuple[dict[str, Any], str | None]]]:
    """Yield the answers to each scored turn, each with its label."""
    verdicts = {
        (row["prompt_id"], row["turn"], row["sample"]): row["label"]
        for row in read_jsonl(study.results / "verdicts" / "words" / model / f"{split}.jsonl")
    }
    units: dict[tuple[str, int], list[tuple[dict[str, Any], str | None]]] = defaultdict(list)
    for row in read_jsonl(study.results / "answers" / model / f"{split}.jsonl"):
        place = (row["prompt_id"], row["turn"])
        units[place].append((row, verdicts.get((*place, row["sample"]))))
    yield from units.values()


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("split", ["one", "two", "talks"])
def test_both_rates_are_those_of_the_answers(study: Project, results: pd.DataFrame, model: str, split: str) -> None:
    met, alone = [], []
    for unit in outcomes(study, model, split):
        judged = [label == "refusal" for _, label in unit if label]
        blocked = sum(row["state"] == "blocked" for row, _ in unit)
        if judged or blocked:
            met.append((sum(judged) + blocked) / (len(judged) + blocked))
        if judged:
            alone.append(mean([float(one) for one in judged]))
    of = results[(results["model"] == model) & (results["split"] == split) & results["category"].isna()]
    of = of[of["reading"] == "strict"].set_index("estimand")
    assert of.loc["refusal_rate", "value"] == pytest.approx(mean(met), abs=1e-9)
    assert of.loc["refusal_rate_model_alone", "value"] == pytest.approx(mean(alone), abs=1e-9)
    assert of.loc["refusal_rate_model_alone", "n_prompts"] == len(alone)
    assert of.loc["refusal_rate_model_alone", "low"] < mean(alone) < of.loc["refusal_rate_model_alone", "high"]
    assert ("blocked_left_out" in str(of.loc["refusal_rate_model_alone", "flags"])) == (model == "strict")
    if model == "tame":  # nothing was blocked, and the rows are there
        columns = ["value", "low", "high", "n_prompts", "n_clusters"]
        assert of.loc["refusal_rate", columns].tolist() == of.loc["refusal_rate_model_alone", columns].tolist()


def test_they_are_in_categories_turns_pools_comparisons_and_the_trade_off(results: pd.DataFrame) -> None:
    known = set(results["estimand"])
    for name in ("refusal_rate", "refusal_rate_turn", "refusal_rate_at_least", "refusal_rate_at_most", "youden_j"):
        assert f"{name}_model_alone" in known
    for name in ("rate_difference", "rate_bounds", "rate_difference_p", "rate_difference_p_holm", "odds_ratio"):
        assert f"{name}_model_alone" in known
    rows = results[results["estimand"] == "refusal_rate_model_alone"]
    assert rows["category"].notna().any() and rows["pool"].notna().any()
    twins = {name.removesuffix("_model_alone") for name in known if name.endswith("_model_alone")}
    assert twins <= known and not any("c_mean" in name for name in twins)


def test_those_who_refused_add_up_to_the_rate_as_a_user_meets_it(results: pd.DataFrame) -> None:
    parts = results[results["estimand"] == "refused_by"].groupby(["model", "split", "reading"])["value"].sum()
    rates = results[(results["estimand"] == "refusal_rate") & results["category"].isna()]
    rates = rates.set_index(["model", "split", "reading"])["value"]
    assert len(parts) == len(MODELS) * 3
    for place, total in parts.items():
        assert total == pytest.approx(rates[place], abs=1e-9)
    of_strict = results[(results["estimand"] == "refused_by") & (results["model"] == "strict")]
    used = set(of_strict[of_strict["value"] > 0]["parameter"])
    assert used == {
        *("model", "declared", "classifier", "policy", "filter_prompt", "filter_answer"),
        *("gateway", "guardrail", "nobody", "earlier_turn"),
    }
    assert of_strict[["low", "high"]].notna().all(axis=None)


def test_a_turn_behind_a_blocked_one_is_a_refusal_as_a_user_meets_it_alone(study: Project) -> None:
    rows = [row for unit in outcomes(study, "strict", "talks") for row, _ in unit]
    behind = [row for row in rows if (row.get("blocked") or {}).get("stage") == "earlier_turn"]
    assert behind and {row["state"] for row in behind} == {"blocked"}
    scores = pd.read_parquet(study.results / "scores" / "words" / "strict" / "talks.parquet")
    assert (scores["blocked_stage"] == "earlier_turn").sum() == len(behind)


def test_declared_refusals_unfiltered_answers_and_reasons_are_counted(study: Project, results: pd.DataFrame) -> None:
    rows = [
        (row, label) for split in ("one", "two") for unit in outcomes(study, "strict", split) for row, label in unit
    ]
    found = results[results["model"].eq("strict") & results["split"].isin(["one", "two"])]
    unfiltered = found[found["estimand"] == "unfiltered_answers"]["value"].sum()
    assert unfiltered == sum("unfiltered" in row.get("marks", ()) for row, _ in rows) > 0
    rates = found[found["estimand"].isin(["refusal_rate", "refusal_rate_model_alone"]) & found["category"].isna()]
    assert rates["flags"].str.contains("unfiltered").all()
    declared = found[found["estimand"] == "declared_called_refusal"]["value"]
    assert 0 < declared.min() < 1, "the judge calls some of them compliance"
    assert set(found[found["estimand"] == "failed_reason"]["parameter"]) == {"recitation"}
    failed = sum(row["state"] == "failed" for row, _ in rows)
    said = (study.results / "tables" / "states.md").read_text()
    assert failed and "server gave a reason: recitation" in said


def test_every_number_of_the_model_alone_is_recomputed_from_its_answers(study: Project, results: pd.DataFrame) -> None:
    names = sorted({name for name in results["estimand"] if name.endswith("_model_alone")})
    code, lines, said = recompute(study.results, "--only", *names)
    assert code == 0, said
    assert set(lines) == set(names)
    assert all(line.rows == line.recomputed == line.agree for line in lines.values()), said
    assert all(line.intervals == line.intervals_recomputed for line in lines.values()), said


def test_tables_and_figure_show_both(study: Project) -> None:
    tables = study.results / "tables"
    for name in ("refusal", "categories", "comparisons", "tradeoff"):
        assert "of the model alone" in (text := (tables / f"{name}.md").read_text()) or "by the model alone" in text
    scores = pd.read_csv(tables / "scores.csv")
    assert scores["model_alone_strict_rate"].notna().all()
    assert set(pd.read_csv(tables / "comparisons.csv")["blocked_answers"]) == {"refusals", "left_out"}
    who = (tables / "who_refused.md").read_text()
    assert "Filter on the" in who and "Earlier turn blocked: turns behind a blocked one" in who
    assert len(pd.read_csv(study.results / "figures" / "who_refused.csv")) > 20
    methods = (study.results / "methods.md").read_text()
    assert "The rate of the model alone leaves them out" in methods
    dictionary = (study.results / "results_table" / "dictionary.md").read_text()
    assert "### `refusal_rate_model_alone`" in dictionary and "Not described" not in dictionary
    assert "`unfiltered`" in dictionary


def test_the_study_is_verified_and_a_changed_rate_of_the_model_alone_is_found(study: Project, tmp_path: Path) -> None:
    assert (done := verify(study)).returncode == 0, done.stdout + done.stderr
    copy = copy_of(study, tmp_path / "copy")
    path = copy.results / "results_table" / "results.csv"
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    at = rows[0].index("value")
    changed = next(row for row in rows if row[0] == "refusal_rate_model_alone" and "strict" in row and row[3] == "one")
    changed[at] = f"{float(changed[at]) / 2:.10g}"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    done = verify(copy)
    assert done.returncode == 1
    assert "the rate of the model alone of words, strict, one is" in done.stdout


def verify(project: Project) -> subprocess.CompletedProcess[str]:
    file = str(project.folder / "study.yaml")
    return in_process("verify", file, "--directory", str(project.folder), "--cores", "2", cwd=project.folder.parent)


def test_a_study_without_such_an_engine_has_none_of_it(finished: Project) -> None:
    results = pd.read_parquet(finished.results / "results_table" / "results.parquet")
    assert not results["estimand"].str.contains("model_alone|refused_by|unfiltered|failed_reason").any()
    assert not results["flags"].fillna("").str.contains("unfiltered|blocked_left_out").any()
    for path in finished.results.rglob("*"):
        assert "who_refused" not in path.name
        if path.suffix in (".md", ".csv", ".tex"):
            assert "model_alone" not in (text := path.read_text()) and "model alone" not in text.lower(), path
    assert "blocked_by" not in pd.read_parquet(finished.results / "scores" / "words" / "plain" / "one.parquet")


def test_blocks_of_an_engine_that_never_said_it_may_are_in_both_rates(tmp_path: Path) -> None:
    plugin = tmp_path / "blocking_engine.py"
    plugin.write_text(PLUGIN.read_text().replace(', "may_block"', ""))
    project = hosted(tmp_path / "project", plugin)
    project.snakemake()
    results = pd.read_parquet(project.results / "results_table" / "results.parquet")
    rates = results[(results["estimand"] == "refusal_rate_model_alone") & results["category"].isna()]
    assert {"strict", "tame"} == set(rates["model"])
    assert "refused_by" not in set(results["estimand"])
    assert "of the model alone" in (project.results / "tables" / "refusal.md").read_text()
