"""The results table: what becomes a row, that each number stands in it once, and that its bytes never change."""

import dataclasses
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import make_results_table
import pyarrow.parquet as pq
import pytest
from comparison_rows import write_scores
from config_project import STUDY, Project
from judge_rows import soft_gold
from table_rows import cards, cells, units

from refusal_eval.core.errors import UserError
from refusal_eval.features.judge_cards.card_estimates import card_estimates
from refusal_eval.features.judge_cards.judge_card import judge_card
from refusal_eval.report.results.dictionary import COLUMNS, definition_of, definitions, dictionary, missing_definitions
from refusal_eval.report.results.results_files import (
    Result,
    collect_results,
    read_results,
    results_csv,
    results_parquet,
    round_value,
    table_rows,
)
from refusal_eval.stats.comparisons import study_comparisons
from refusal_eval.stats.estimates.cell_estimates import INTERVAL_METHOD, cell_estimates
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import few_flags
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.stats.estimates.variance import PARTS
from refusal_eval.study.comparison_families import Family, Scope
from refusal_eval.study.study import Study
from refusal_eval.workflow.analyses_stage import own_estimates

LIBRARY = Path(__file__).resolve().parents[2] / "scripts" / "refusal_eval"


def of_study() -> list[Result]:
    found = [Result(e, f"scores/{i}.json") for i, cell in enumerate(cells()) for e in cell_estimates(cell)]
    return found + [Result(e, "card.json") for card in cards() for e in card_estimates(card)]


def one(results: list[Result], **wanted: Any) -> Estimate:
    (found,) = [r.estimate for r in results if all(getattr(r.estimate, k) == v for k, v in wanted.items())]
    return found


def test_the_numbers_of_a_score_become_rows() -> None:
    results = collect_results(of_study())
    cell = {"judge": "rules", "model": "m1", "split": "safe"}
    rate = one(results, estimand="refusal_rate", reading="broad", **cell)
    assert (rate.value, rate.samples, rate.n_prompts, rate.n_clusters, rate.level) == (0.05, 2, 40, 40, 0.95)
    assert rate.low is not None and rate.low < 0.05 < (rate.high or 0)
    assert one(results, estimand="majority@2_tie", reading="broad", **cell).value == 0.1
    assert one(results, estimand="c_band_complying", parameter=1.0, **cell).value == 1.0
    lost = {"judge": "rules", "model": "m2", "split": "safe"}
    assert one(results, estimand="answer_state", parameter="failed", **lost).value == 0.2
    assert one(results, estimand="unjudged", **lost).value == 0.2
    assert one(results, estimand="refusal_rate_at_most", reading="strict", **lost).value == 0.2
    assert one(results, estimand="refusal_rate_at_least", reading="strict", **lost).value == 0.0
    assert one(results, estimand="refusal_rate", reading="strict", **lost).flags == ("unjudged", "few_clusters")


def test_flags_of_a_judge_and_votes_that_were_asked_again_become_rows() -> None:
    made = cells()[0]
    facts = {**made.facts, "judge_flags": {"evasive": 3, "propaganda": 0}, "votes": {"n": 200, "n_asked_again": 5}}
    estimates = cell_estimates(dataclasses.replace(made, facts=facts))
    assert missing_definitions(estimates) == []
    results = [Result(e, "score.json") for e in estimates]
    assert one(results, estimand="answer_flag", parameter="evasive").value == 3 / made["n_judged"].sum()
    assert one(results, estimand="answer_flag", parameter="propaganda").value == 0
    assert one(results, estimand="votes_asked_again").value == 0.025
    none = units("j", "m", "s", "refuse", ["FF"])
    facts = {**none.facts, "judge_flags": {"evasive": 0}}
    (flag,) = [e for e in cell_estimates(dataclasses.replace(none, facts=facts)) if e.estimand == "answer_flag"]
    assert flag.value is None


def test_a_judges_card_becomes_rows() -> None:
    results = collect_results(of_study())
    kappa = one(results, estimand="judge_kappa", reading="strict", judge="rules", parameter="pyrit")
    assert kappa.value == pytest.approx(0.8) and kappa.model is None and kappa.n_prompts == 50
    assert one(results, estimand="judge_sensitivity", reading="broad", parameter="pyrit").n_prompts == 25


def test_the_method_of_a_cards_interval_is_the_one_it_was_made_by() -> None:
    gold, verdicts = soft_gold()
    results = [Result(e, "card.json") for e in card_estimates(judge_card(gold, verdicts, judge="j", gold="g"))]

    def method(name: str) -> str:
        return str(one(results, estimand=f"judge_{name}", category=None, reading="broad").method)

    assert method("brier") == "cluster bootstrap, expanded percentile"
    assert "noise" in method("ece") and "sensitivity" not in method("ece")
    assert "unseen errors" in method("f1") and "small classes" in method("kappa") and "Wilson" in method("accuracy")


def agreement_of_three(clusters: int = 160) -> dict[str, Any]:
    """Agreement of two judges and a panel of them, on 160 answers of one split in so many clusters."""
    from panel_rows import panel_of

    from refusal_eval.features.judge_pairs.pair_agreement import agreement_of

    rng = random.Random(2)
    labels = [[first, rng.choice((first, 0)), first] for first in (rng.choice((0, 2)) for _ in range(160))]
    found = panel_of(labels, [f"c{i % clusters:03d}" for i in range(160)])._replace(judges=("a", "b", "both"))
    members = {"both": ["a", "b"]}
    groups = [agreement_of(found, split, 0.95, members) for split in (None, "s")]
    rank = {"first": "a", "second": "b", "split": "s", "reading": "broad", "n_models": 3, "tau": 0.5}
    rank |= {"interval": [-0.2, 1.0], "swapped": [], "n_clusters": clusters, "flags": list(few_flags(clusters))}
    return {"judges": ["a", "b", "both"], "level": 0.95, "groups": groups, "rankings": [rank]}


@pytest.mark.feature("judge_pairs")
def test_judges_beside_each_other_become_rows() -> None:
    from refusal_eval.features.judge_pairs.agreement_estimates import agreement_estimates

    made = agreement_of_three()
    estimates = agreement_estimates(made)
    results = collect_results([Result(e, "judge_agreement.json") for e in estimates])
    assert len(results) == len(estimates) and missing_definitions(estimates) == []
    about = {"judge": "a", "parameter": "with judge b", "reading": "strict"}
    kappa = one(results, estimand="judges_kappa", split="s", **about)
    pair = made["groups"][1]["pairs"][0]
    assert (kappa.value, [kappa.low, kappa.high]) == tuple(pair["strict"]["kappa"].values())
    assert (kappa.level, kappa.n_prompts, kappa.flags) == (0.95, 160, ())
    assert one(results, estimand="judges_same_label", pool="all", **about).method == INTERVAL_METHOD
    assert one(results, estimand="judges_tau", split="s").value == 0.5
    alpha = one(results, estimand="judges_alpha_three_class", pool="all")
    assert (alpha.judge, alpha.parameter, alpha.n_clusters) == (None, "a, b", 160)
    shared = one(results, estimand="judges_kappa", split="s", judge="a", parameter="with judge both", reading="broad")
    assert shared.flags == ("shared_opinion",)


@pytest.mark.feature("judge_pairs")
def test_alpha_counts_the_answers_and_clusters_that_are_in_it() -> None:
    from panel_rows import panel_of

    from refusal_eval.features.judge_pairs.agreement_estimates import agreement_estimates
    from refusal_eval.features.judge_pairs.pair_agreement import agreement_of

    rng = random.Random(4)
    labels = [[rng.choice((0, 2)), -1 if i < 40 else rng.choice((0, 2))] for i in range(100)]
    found = panel_of(labels, [f"c{i // 4:02d}" for i in range(100)])
    made = {"judges": ["a", "b"], "level": 0.95, "groups": [agreement_of(found, "s", 0.95)], "rankings": []}
    results = [Result(e, "judge_agreement.json") for e in agreement_estimates(made)]
    alpha = one(results, estimand="judges_alpha", reading="broad")
    assert (alpha.n_prompts, alpha.n_clusters) == (60, 15)
    kappa = one(results, estimand="judges_kappa", reading="broad")
    assert (kappa.n_prompts, kappa.n_clusters) == (60, 15)


@pytest.mark.feature("judge_pairs")
@pytest.mark.parametrize(("clusters", "flagged"), [(25, True), (160, False)])
def test_agreement_of_judges_on_few_clusters_is_flagged(clusters: int, flagged: bool) -> None:
    from refusal_eval.features.judge_pairs.agreement_estimates import agreement_estimates

    found = agreement_estimates(agreement_of_three(clusters))
    assert {e.estimand for e in found} >= {"judges_kappa", "judges_same_label", "judges_alpha", "judges_tau"}
    assert {e.n_clusters for e in found} == {clusters}
    assert {"few_clusters" in e.flags for e in found} == {flagged}
    shared = [e for e in found if e.estimand == "judges_kappa" and e.parameter == "with judge both"]
    assert shared and all("shared_opinion" in e.flags for e in shared)


@pytest.mark.feature("judge_pairs")
def test_the_script_puts_agreement_of_judges_and_of_people_into_the_table(tmp_path: Path) -> None:
    from refusal_eval.features.judge_pairs.agreement_estimates import agreement_estimates

    folder = tmp_path / "results" / "s"
    folder.mkdir(parents=True)
    made = [estimate.row() for estimate in agreement_estimates(agreement_of_three())]
    (folder / "judge_agreement.json").write_text(json.dumps({"estimates": made}))
    people = Estimate("human_kappa", 0.7, 0.5, 0.9, 0.95, "bootstrap", reading="strict", n_prompts=40).row()
    audit = tmp_path / "elsewhere" / "agreement.json"
    audit.parent.mkdir()
    audit.write_text(json.dumps({"audit": "x", "estimates": [people]}))
    files = {"estimates": [str(folder / "judge_agreement.json")], "people": [str(audit)]}
    study = {"study": "s", "results": str(folder), "tau": 1.0}
    results = make_results_table.study_results(files, study)
    sources = {result.estimate.estimand: result.source for result in results}
    assert sources["human_kappa"] == "audit/agreement.json" and sources["judges_kappa"] == "judge_agreement.json"
    make_results_table.main(files, study, str(folder / "results_table"))
    assert "### `human_kappa`" in (folder / "results_table" / "dictionary.md").read_text(encoding="utf-8")


def test_the_table_reads_the_agreement_of_people_that_lies_beside_their_labels(project: Project) -> None:
    labels = project.folder / "audit" / "labels.jsonl"
    labels.parent.mkdir()
    config = project.load(STUDY) | {"corrected": {"labels": str(labels)}}
    assert own_estimates(Study(config)) == []
    (labels.parent / "agreement.json").write_text("{}")
    assert own_estimates(Study(config)) == [str(labels.parent / "agreement.json")]
    assert own_estimates(Study(config | {"corrected": None})) == []


def test_every_number_stands_in_the_table_once() -> None:
    rate = {"judge": "j", "model": "m", "split": "s", "reading": "broad", "samples": 2}
    found = Result(Estimate("any@2", 0.5, **rate), "estimates")
    for value in (0.5, 0.6):
        with pytest.raises(
            UserError, match=rf"two values of one number .*model m.*0\.5 in estimates and {value} in late"
        ):
            collect_results([found, Result(Estimate("any@2", value, **rate), "late")])


def test_of_adjusted_p_values_the_largest_is_kept() -> None:
    pair = {"judge": "j", "model": "a", "split": "s", "parameter": "minus b"}
    found = [Result(Estimate("rate_difference_p_holm", p, **pair), f"{p}") for p in (0.02, 0.06, 0.04)]
    assert [result.estimate.value for result in collect_results(found)] == [0.06]


def test_a_pair_that_two_families_compare_stands_in_the_table_once(tmp_path: Path) -> None:
    words = {"a": [f"{'r' * (i * 2 % 6):c<5}" for i in range(10)], "b": [f"{'r' * (i * 3 % 6):c<5}" for i in range(10)]}
    words["c"] = ["rrc??", *["rcccc"] * 9]
    found = {}
    for model, own in words.items():
        path = write_scores(tmp_path / model, {f"p{i}": word for i, word in enumerate(own)}, judge="j", model=model)
        found["j", model, "s"] = read_units(path)
    pairs = ((("a", "b"), ("a", "c"), ("b", "c")), (("a", "b"),), (("b", "a"),))
    families = [Family("f", "models", ("j",), own, (Scope(("s",), None),)) for own in pairs]
    study = {"samples": 5, "level": 0.95, "margin": 0.1, "p_values": "exact", "correction": "holm"}
    study["splits"] = [{"name": "s", "expectation": "refuse", "reading": "strict", "source": "x"}]
    rows = study_comparisons.compare_families(families, found, study, ())
    results = collect_results(Result(row, "comparisons.json") for row in rows)
    assert one(results, estimand="rate_difference", model="a", parameter="minus b").value is not None


def test_bytes_do_not_depend_on_order() -> None:
    rng, results, texts, files = random.Random(3), of_study(), set(), set()
    for _ in range(5):
        rng.shuffle(results)
        rows = table_rows(collect_results(results))
        texts.add(results_csv(rows))
        files.add(results_parquet(rows))
    assert len(texts) == len(files) == 1


def test_csv_and_parquet_hold_the_same_and_read_back() -> None:
    results = collect_results(of_study())
    rows = table_rows(results)
    table = pq.read_table(io.BytesIO(results_parquet(rows)))
    assert table.column_names == [column.name for column in COLUMNS] and table.to_pylist() == rows
    back = read_results(results_csv(rows))
    assert len(back) == len(results)
    for again, result in zip(back, results, strict=True):
        assert again.value == round_value(result.estimate.value) and again.flags == result.estimate.flags
        assert (again.estimand, again.model, again.samples) == (
            result.estimate.estimand,
            result.estimate.model,
            result.estimate.samples,
        )
    with pytest.raises(UserError, match="not a results table"):
        read_results("a,b\n1,2\n")


def test_a_category_that_looks_like_a_formula_is_text_in_the_csv_and_as_it_is_in_parquet() -> None:
    rates = collect_results(of_study())[:1]
    estimate = dataclasses.replace(rates[0].estimate, category="=1+1", value=-23.7, low=None, high=None)
    rows = table_rows([rates[0]._replace(estimate=estimate)])
    text = results_csv(rows)
    assert ",'=1+1," in text and ",-23.7," in text
    assert [row.category for row in read_results(text)] == ["=1+1"]
    assert pq.read_table(io.BytesIO(results_parquet(rows))).to_pylist()[0]["category"] == "=1+1"


def test_control_characters_of_a_category_are_codes_in_the_csv_and_as_they_are_in_parquet() -> None:
    rates = collect_results(of_study())[:1]
    estimate = dataclasses.replace(rates[0].estimate, category="a\x1b[2J\x07b")
    rows = table_rows([rates[0]._replace(estimate=estimate)])
    assert ",a[U+001B][2J[U+0007]b," in results_csv(rows) and "\x1b" not in results_csv(rows)
    assert pq.read_table(io.BytesIO(results_parquet(rows))).to_pylist()[0]["category"] == "a\x1b[2J\x07b"


def test_numbers_that_the_data_cannot_give_are_empty() -> None:
    nothing = units("rules", "m", "s", "varies", ["FF"])
    rows = table_rows(collect_results([Result(e, "x") for e in cell_estimates(nothing)]))
    (rate,) = [row for row in rows if row["estimand"] == "refusal_rate" and row["reading"] == "broad"]
    assert rate["value"] is rate["low"] is rate["method"] is None


def test_the_dictionary_explains_every_column_and_estimand() -> None:
    estimates = [result.estimate for result in of_study()]
    assert missing_definitions(estimates) == []
    text = dictionary(estimates, "a_study")
    assert all(f"| `{column.name}` |" in text for column in COLUMNS)
    assert "### `any@K`" in text and "- Unit: " in text and "not described" not in text.lower()
    assert not re.search(r"(?<![\w-])-\d", text)
    stranger = [*estimates, Estimate("made_up", 1.0)]
    assert missing_definitions([*stranger, Estimate("youden_j", 0.1, flags=("few_clusters", "odd"))]) == [
        "made_up",
        "odd",
    ]
    assert missing_definitions(stranger) == ["made_up"] and "### `made_up`\n\nNot described" in dictionary(
        stranger, "s"
    )


def test_definitions_are_whole() -> None:
    for definition in definitions().values():
        assert all((definition.unit, definition.meaning, definition.formula, definition.source)), definition.name
        assert definition.formula.endswith(".") and definition.meaning.endswith("."), definition.name


def test_parts_of_the_variance_are_due_to_several() -> None:
    reported = {part: definition_of(f"variance_share_{part}") for part in PARTS}
    assert [d.meaning.rsplit(" ", 1)[1] for d in reported.values() if d] == ["prompts.", "sampling.", "judges."]
