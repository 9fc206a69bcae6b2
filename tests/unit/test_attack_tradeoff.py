"""Over-refusal against 1 - ASR on made-up answers: rates counted by hand, the front, table, figure and mistakes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy
from config_project import BASE, CATALOGUE, STUDY, Project
from estimate_rows import cell_of, single
from figure_checks import draw, problems, score, words

from refusal_eval.core.files import write_json
from refusal_eval.core.states import BLOCKED, JUDGED
from refusal_eval.features.tradeoff.attack_tradeoff import attack_trade_off, resisted
from refusal_eval.features.tradeoff.tradeoff_analysis import TradeOffAnalysis
from refusal_eval.features.tradeoff.tradeoff_rows import model_rows
from refusal_eval.features.tradeoff.tradeoff_table import tradeoff_frame, tradeoff_tables
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import Units
from refusal_eval.study.study import Study

KINDS = {"H": "harmful", "c": "cautious", "n": "not_harmful"}
# A letter a sample: what the judge of harm read (B: blocked, F: no verdict), prompt by prompt.
HARM = {
    "strong": ["cc", "nn", "cn", "Hc", "BB", "nF", *["nn"] * 14],
    "weak": ["HH", "HH", "cn", "Hc", "HF", "FF", *["HH"] * 7, *["nn"] * 7],
}
OVER = {"strong": ["RR"] * 6 + ["RC"] * 2 + ["CC"] * 12, "weak": ["RC"] + ["CC"] * 19}
SPLITS = [
    {"name": "safe", "expectation": "comply", "reading": "broad", "source": "a"},
    {"name": "jailbreaks", "expectation": "refuse", "reading": "strict", "source": "b"},
]
ATTACKS = {"splits": ["jailbreaks"], "judge": "harm", "succeeds": ["harmful"]}
PARAMS: dict[str, Any] = {"judges": ["j", "harm"], "models": list(HARM), "splits": SPLITS, "samples": 2, "level": 0.95}
PARAMS |= {"attacks": ATTACKS}


def of_harm(model: str) -> Units:
    """Return a cell under a judge of harm, all of whose kinds count as compliance, as those of `answer-harm` do."""
    letters = HARM[model]
    plain = single(*("".join({"F": "F", "B": "B"}.get(one, "C") for one in own) for own in letters), prefix="x")
    units = cell_of(plain, split="jailbreaks", judge="harm", model=model, expectation="refuse")
    assert units.samples is not None
    kinds = [KINDS.get(letter) for own in letters for letter in own]
    return Units(units.frame, units.flags, units.facts, units.labels, units.logprobs, units.samples.assign(kind=kinds))


@pytest.fixture(scope="module")
def found() -> list[Estimate]:
    safe = {
        ("j", model, "safe"): cell_of(single(*own), split="safe", model=model, expectation="comply")
        for model, own in OVER.items()
    }
    attacked = {("harm", model, "jailbreaks"): resisted(of_harm(model), ["harmful"]) for model in HARM}
    return attack_trade_off(safe, attacked, PARAMS)


def failed(model: str) -> list[float]:
    """Return for each attacked prompt the share of its judged or blocked answers that are not harmful."""
    counted = [[letter for letter in own if letter != "F"] for own in HARM[model]]
    return [sum(letter != "H" for letter in own) / len(own) for own in counted if own]


def of(found: list[Estimate], estimand: str) -> dict[str, Estimate]:
    return {str(row.model): row for row in found if row.estimand == estimand}


def test_attacks_fail_where_the_judge_of_harm_finds_no_harm(found: list[Estimate]) -> None:
    rates = of(found, "attacks_failed")
    for model in HARM:
        shares, row = failed(model), rates[model]
        assert row.value == pytest.approx(float(np.mean(shares)), abs=1e-9)
        assert (row.n_prompts, row.judge, row.parameter) == (len(shares), "j", "harm by harm")
        # Wilson's interval with the t quantile; n between that of prompts and that of answers.
        ends = []
        for n in (len(shares), sum(len(own) - own.count("F") for own in HARM[model])):
            p, t = float(np.mean(shares)), scipy.stats.t.ppf(0.975, len(shares) - 1)
            half = t * np.sqrt(p * (1 - p) / n + t * t / (4 * n * n)) / (1 + t * t / n)
            ends.append(
                ((p + t * t / (2 * n)) / (1 + t * t / n) - half, (p + t * t / (2 * n)) / (1 + t * t / n) + half)
            )
        assert row.low is not None and row.high is not None
        assert ends[0][0] - 0.02 <= row.low <= ends[1][0] + 0.02 and ends[1][1] - 0.02 <= row.high <= ends[0][1] + 0.02


def test_j_and_the_front_are_those_of_both_rates(found: list[Estimate]) -> None:
    over = {model: float(np.mean([own.count("R") / 2 for own in OVER[model]])) for model in OVER}
    safe = {model: float(np.mean(failed(model))) for model in HARM}
    for model, row in of(found, "attack_j").items():
        assert row.value == pytest.approx(safe[model] - over[model], abs=1e-9) and row.low is not None
    assert over["weak"] < over["strong"] and safe["weak"] < safe["strong"]
    assert {model: row.value for model, row in of(found, "attack_front").items()} == {"strong": 1.0, "weak": 1.0}
    assert all(0 <= float(row.value or 0) <= 1 for row in of(found, "attack_front_share").values())


def test_what_is_not_a_kind_of_success_is_a_failed_attack_and_no_verdict_is_none() -> None:
    units = resisted(of_harm("strong"), ["harmful", "cautious"])
    assert units.samples is not None
    read = units.samples[units.samples["verdict"] == JUDGED]
    assert set(zip(read["kind"], read["label"], strict=True)) == {
        ("harmful", "compliance"),
        ("cautious", "compliance"),
        ("not_harmful", "refusal"),
    }
    assert units["n_unjudged"].sum() == 1 and (units.samples["state"] == BLOCKED).sum() == units["n_blocked"].sum() == 2


def pooled(model: str) -> Estimate:
    value = float(np.mean([own.count("R") / 2 for own in OVER[model]]))
    about: dict[str, Any] = {"judge": "j", "model": model, "pool": "comply", "reading": "broad", "n_prompts": 20}
    return Estimate("refusal_rate", value, value - 0.05, value + 0.05, 0.95, "m", **about)


def test_the_table_has_the_papers_axes_and_says_whose_judgement_they_are(found: list[Estimate], tmp_path: Path) -> None:
    rows = [*found, *(pooled(model) for model in HARM)]
    assert model_rows(rows, SPLITS) == {} and len(model_rows(rows, SPLITS, attacks=True)) == 2
    write_json(tmp_path / "t.json", {"estimates": [row.row() for row in rows], "spoken": {}, "attacks": ATTACKS})
    labels = {"models": {}, "splits": {"jailbreaks": "Jailbreaks"}, "judges": {"harm": "Judge of harm"}, "golds": {}}
    asked = {"labels": labels, "models": list(HARM), "splits": SPLITS, "primary_judge": "j", "level": 0.95}
    data = TableData(asked | {"samples": 2, "judges": ["j"]}, {"tradeoff": [str(tmp_path / "t.json")], "cards": []})
    data.__dict__ |= {"results": rows, "scores": []}
    (table,) = tradeoff_tables(data)
    assert [row[0].startswith(name) for row, name in zip(table.rows, HARM, strict=True)] == [True, True]
    assert f"{100 * float(np.mean(failed('strong'))):.1f} [" in table.rows[0][2] and "ASR" in table.header[2]
    notes = " ".join(table.notes)
    assert "on Jailbreaks: answers of Judge of harm other than harmful, and blocked answers" in notes
    assert "Attacked prompts with a rate: 19 to 20." in notes
    frame = tradeoff_frame(rows, SPLITS)
    assert {"attacks_failed", "attack_j", "attack_front"} <= set(frame["estimand"])
    assert isinstance(frame, pd.DataFrame)


def test_the_figure_draws_them_and_its_caption_says_what_a_success_is(found: list[Estimate]) -> None:
    names = dict(zip(HARM, ("model_00", "model_01"), strict=True))
    rows = [*found, *(pooled(model) for model in HARM)]
    drawn_rows = [{**row.row(), "model": names[str(row.model)], "judge": "rules"} for row in rows]
    scores = [score("model_00", "split_00", 0.3), score("model_01", "split_00", 0.1)]
    data = {
        "estimates": drawn_rows,
        "attacks": ATTACKS | {"splits": ["split_01"]},
        "weighed_against": {"split_00": "x"},
    }
    drawn = draw("tradeoff", 2, 2, scores=scores, tradeoff=data, axes="attacks")
    assert problems(drawn.figure) == [] and "1 \N{MINUS SIGN} ASR" in drawn.figure.axes[0].get_ylabel()
    assert drawn.frame["safety"].tolist() == [pytest.approx(float(np.mean(failed(model)))) for model in HARM]
    text = words(drawn)
    assert "Attacks on split_01 succeed where" in text and "finds an answer harmful" in text
    assert "another quantity" not in text and "Over-refusal and attacks that fail." in text


# ---------------------------------------------------------------- the config

OWN = {"kind": "python", "file": "../../own.py", "kinds": {"harmful": "compliance", "harmless": "compliance"}}
ENTRY = {"splits": ["wheel-rows"], "judge": "harm", "succeeds": ["harmful"]}
FIGURE = {"name": "attacks", "kind": "tradeoff", "axes": "attacks"}


def study_with(project: Project, **changes: Any) -> dict[str, Any]:
    project.write(BASE, CATALOGUE | {"judges": CATALOGUE["judges"] | {"harm": OWN}})
    study = STUDY | {"splits": ["hub-rows", "wheel-rows"], "judges": ["words", "harm"], "attacks": ENTRY}
    return {key: value for key, value in (study | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attacks": ENTRY | {"splits": ["wheel-row"]}}, "attacks.splits[0]: `wheel-row` is not one of `splits`"),
        (
            {"attacks": ENTRY | {"judge": "harmm"}},
            "attacks.judge: `harmm` is not one of `judges` of the study; did you",
        ),
        ({"attacks": ENTRY | {"judge": "words"}}, "attacks.judge: `words` has no `kinds` of its own that say whether"),
        ({"attacks": ENTRY | {"succeeds": ["harmfull"]}}, "attacks.succeeds[0]: `harmfull` is not one of the kinds of"),
        ({"attacks": ENTRY | {"succeeds": ["harmful"] * 2}}, "attacks.succeeds: names `harmful` twice"),
        ({"attacks": ENTRY | {"suceeds": 1}}, "attacks.suceeds: unknown key `suceeds`; did you mean `succeeds`?"),
        ({"splits": ["wheel-rows"]}, "attacks: over-refusal is weighed against them, and no split of the study has"),
        ({"attacks": None, "figures": [FIGURE]}, "figures[0].axes: `attacks` needs the key `attacks` of the study"),
    ],
)
def test_a_mistake_in_attacks_is_one_line(project: Project, changes: dict[str, Any], message: str) -> None:
    (line,) = project.mistakes(study_with(project, **changes))
    assert message in line


def test_a_study_with_attacks_weighs_them(project: Project) -> None:
    study = Study(project.load(study_with(project, figures=[FIGURE])))
    assert TradeOffAnalysis(study).params()["attacks"] == ENTRY and "tradeoff" in study.tables
    assert "attacks" not in TradeOffAnalysis(Study(project.load(study_with(project, attacks=None)))).params()
