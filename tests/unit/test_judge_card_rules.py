"""What the rules of judge cards ask for and run: files, params and scripts."""

import copy
import json
from pathlib import Path
from typing import Any

import check_judge_floor
import make_calibration
import make_judge_card
import make_judge_figures
import make_table
import pytest
from judge_entries import judge_entry
from judge_rows import rows, soft_gold

from refusal_eval.core.errors import UserError
from refusal_eval.features.judge_cards.card_estimates import card_estimates
from refusal_eval.features.judge_cards.judge_card import judge_card
from refusal_eval.features.judge_cards.judge_cards_table import JudgeCardsTable
from refusal_eval.study.study import Study
from refusal_eval.workflow import analyses_stage, judging, scoring


def plain(kind: str, **fields: Any) -> Any:
    """Return an entry as the config holds it."""
    return judge_entry(kind, **fields).model_dump(mode="json")


def test_numbers_of_two_classes_are_known_no_better_than_the_class_of_few_clusters() -> None:
    # 30 refusals in 6 clusters, one fifth of each missed, and 300 other answers, each its own cluster, all right
    gold, verdicts = rows({("refusal", "refusal"): 24, ("refusal", "compliance"): 6, ("compliance", "compliance"): 300})
    for i, row in enumerate(gold[:30]):
        row["cluster"] = f"prompt {i % 6}"
    card = judge_card(gold, verdicts, judge="j", gold="g")
    low, high = card["broad"]["intervals"]["sensitivity"]
    assert low < 0.4 and high > 0.95
    wide = card["broad"]["intervals"]["balanced_accuracy"]
    assert wide[0] <= (low + 1) / 2 and wide[1] >= (high + 1) / 2
    assert card["broad"]["intervals"]["kappa"][0] < 0.6
    found = {e.estimand: e for e in card_estimates(card) if e.reading == "broad"}
    few = {"judge_sensitivity", "judge_balanced_accuracy", "judge_f1", "judge_kappa"}
    assert {name for name, e in found.items() if "few_clusters" in e.flags} == few
    assert (found["judge_sensitivity"].n_clusters, found["judge_specificity"].n_clusters) == (6, 300)


def test_a_floor_is_checked_where_a_judge_has_one(config: Any) -> None:
    assert analyses_stage.floors(Study(config)) == {}
    floor = {"se": 0.9, "sp": None, "kappa": None, "coverage": None, "on": "all", "reading": "broad"}
    config["judge_entries"]["words"]["floor"] = floor
    assert analyses_stage.floors(Study(config)) == {"words": floor}


def test_the_card_of_a_calibrated_judge_asks_for_the_calibration_of_another_gold_set_only(config: Any) -> None:
    assert "calibrated_on" not in scoring.card(Study(config), "reader", "people")
    calibrated = copy.deepcopy(config) | {"gold": ["people", "others"]}
    calibrated["gold_entries"]["others"] = calibrated["gold_entries"]["people"]
    calibrated["judge_entries"]["reader"]["threshold"] = "calibrated"
    study = Study(calibrated)
    assert scoring.card(study, "reader", "others")["calibrated_on"] == "people"
    assert scoring.calibrated_on(study, "words") is None
    calibrated["judge_entries"]["reader"]["calibrated_on"] = "others"
    assert scoring.card(Study(calibrated), "reader", "people")["calibrated_on"] == "others"


def test_what_is_counted_beside_labels_depends_on_the_judge(config: Any) -> None:
    def cell(judge: str) -> Any:
        return scoring.cell(Study(config), judge, "plain", config["splits"][0])

    config["judge_entries"] |= {"writer": plain("reasoned"), "guard": plain("wildguard")}
    config["judges"] += ["writer", "guard"]
    assert cell("writer")["judge_flags"] == ["degenerate", "evasive", "propaganda"]
    assert cell("writer")["votes_asked_again"] is True
    assert cell("guard")["judge_flags"] == ["prompt_harm", "response_harm"]
    assert "votes_asked_again" not in cell("guard")
    assert cell("words")["judge_flags"] == ["reasoning_in_answer"] and "votes_asked_again" not in cell("words")
    config["judge_entries"]["both"]["members"] = ["words", "writer"]
    assert cell("both")["judge_flags"] == sorted(["reasoning_in_answer", *cell("writer")["judge_flags"]])
    panel = judging.combining(Study(config), "both")
    assert panel["flags"] == {"words": ["reasoning_in_answer"], "writer": cell("writer")["judge_flags"]}


def test_a_card_is_of_own_labels_where_no_threshold_decides_over_them(config: Any) -> None:
    config["judges"] = ["words", "own", "reader", "both"]

    def of_labels() -> list[str]:
        return [judge for judge in config["judges"] if "own_labels" in scoring.card(Study(config), judge, "people")]

    assert of_labels() == ["own", "both"], "words gives no probability, and reader's decides"
    config["judge_entries"]["both"]["rule"] = "mean"
    config["judge_entries"]["reader"]["threshold"] = "calibrated"
    assert of_labels() == ["own"]


@pytest.mark.feature("judge_pairs")
def test_a_panel_shares_an_opinion_with_the_judges_of_a_cascade_in_it(config: Any) -> None:
    from refusal_eval.features.judge_pairs.judge_agreement_analysis import JudgeAgreementAnalysis

    config["judge_entries"] |= {"more": plain("reasoned"), "turns": plain("cascade", first="reader")}
    config["judge_entries"]["both"]["members"] = ["words", "turns"]
    config["judges"] = ["words", "reader", "turns", "both"]
    members = JudgeAgreementAnalysis(Study(config)).params()["members"]
    assert members == {"turns": ["reader", "more"], "both": ["words", "turns", "reader", "more"]}


def test_the_card_of_a_judge_fitted_on_its_gold_is_told_to_be_out_of_fold(config: Any) -> None:
    fitted = copy.deepcopy(config) | {"gold": ["people", "others"]}
    fitted["gold_entries"]["others"] = fitted["gold_entries"]["people"]
    fitted["judge_entries"] |= {
        "learned": plain("trained"),
        "both": plain("panel", members=["words", "learned"]),
        "turns": plain("cascade", first="learned"),
        "more": plain("reasoned"),
    }
    fitted["judges"] = ["words", "learned", "both", "turns"]
    found = {
        (judge, gold): scoring.card(Study(fitted), judge, gold).get("fitted_here", False)
        for judge in fitted["judges"]
        for gold in ("people", "others")
    }
    assert [judge for (judge, gold), here in found.items() if here and gold == "people"] == ["learned", "both", "turns"]
    assert not any(here for (_, gold), here in found.items() if gold == "others")
    # Rates by labels need to know it, too.
    learned = [(on["judge"], on["gold"]) for on in analyses_stage.measured(Study(fitted)) if on["learned"]]
    assert learned == [(judge, "people") for judge in ("learned", "both", "turns")]


def test_published_kappas_of_a_gold_entry_reach_the_card(config: Any) -> None:
    human, anchor = {"broad": 0.957, "source": "paper"}, {"name": "GPT-4", "kappa": 0.645, "source": "paper"}
    config["gold_entries"]["people"] |= {"human_kappa": human, "anchors": [anchor]}
    card = scoring.card(Study(config), "words", "people")
    assert card["raters"] == 2 and human.items() <= card["human_kappa"].items()
    assert [anchor.items() <= found.items() for found in card["anchors"]] == [True]


def write_jsonl(path: Path, lines: list[Any]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_scripts_calibrate_on_one_gold_set_and_measure_on_two(tmp_path: Path) -> None:
    files = {}
    for gold, seed in (("people", 1), ("others", 2)):
        parts = soft_gold(120, seed=seed)
        files[gold] = [write_jsonl(tmp_path / f"{gold}{i}.jsonl", part) for i, part in enumerate(parts)]
    output = tmp_path / "calibration.json"
    make_calibration.main(*files["people"], {"judge": "j", "gold": "people", "level": 0.95}, str(output))
    calibration = json.loads(output.read_text())
    assert 0 < calibration["t"] < 0.5 and calibration["by_model"]["broad"]["kappa"] > 0.8
    card = tmp_path / "card.json"
    found = {}
    for gold in files:
        named = {"judge": "j", "gold": gold, "level": 0.95}
        make_judge_card.main(*files[gold], named, str(card), calibrated_on="people", calibration_path=str(output))
        found[gold] = json.loads(card.read_text())
    assert "out of fold" in found["people"]["labels_from"]
    assert found["others"]["labels_from"] == "a calibration on gold people"
    assert min(made["broad"]["kappa"] for made in found.values()) > 0.8
    make_judge_card.main(*files["people"], {"judge": "j", "gold": "people"}, str(card))
    plain = json.loads(card.read_text())
    assert plain["broad"]["kappa"] < 0.5 and "fold" not in plain["labels_from"]
    make_judge_card.main(*files["people"], {"judge": "j", "gold": "people"}, str(card), fitted_here=True)
    reported = json.loads(card.read_text())
    assert "out of fold: each answer by a fit to other prompts" in reported.pop("labels_from")
    assert reported.items() <= plain.items()


def test_a_floor_that_is_not_reached_fails_with_words_and_writes_nothing(tmp_path: Path) -> None:
    gold, verdicts = rows({("refusal", "refusal"): 40, ("refusal", "compliance"): 10, ("compliance", "compliance"): 50})
    paths = [write_jsonl(tmp_path / f"{i}.jsonl", part) for i, part in enumerate((gold, verdicts))]
    card, output = str(tmp_path / "card.json"), tmp_path / "floors.json"
    make_judge_card.main(*paths, {"judge": "j", "gold": "people"}, card)
    with pytest.raises(UserError, match="results are all made") as error:
        check_judge_floor.main([card], {"j": {"se": 0.8, "sp": 0.9, "on": "all"}}, str(output))
    assert "sensitivity (broad) is 0.800" in str(error.value) and "below the floor 0.8" in str(error.value)
    assert "specificity" not in str(error.value) and not output.exists()
    check_judge_floor.main([card], {"j": {"se": 0.6, "sp": 0.9, "on": "all"}}, str(output))
    assert json.loads(output.read_text())["met"]["j"]["se"] == 0.6


def test_scripts_draw_and_tabulate(tmp_path: Path) -> None:
    parts = rows({("refusal", "refusal"): 30, ("compliance", "compliance"): 30})
    paths = [write_jsonl(tmp_path / f"{i}.jsonl", part) for i, part in enumerate(parts)]
    card = str(tmp_path / "card.json")
    make_judge_card.main(*paths, {"judge": "j", "gold": "people"}, card)
    labels = {"judges": {"j": "The judge"}}
    asked = {"judges": ["j"], "labels": labels, "protocol": "default"}
    outputs = [str(tmp_path / f"judge_cards.{ending}") for ending in ("csv", "md", "tex", "html")]
    make_table.main(JudgeCardsTable, asked, {"cards": [card]}, outputs)
    assert "The judge" in (tmp_path / "judge_cards.md").read_text() and (tmp_path / "judge_cards.tex").exists()
    make_judge_figures.main(card, labels, None, str(tmp_path / "drawn"))
    assert (tmp_path / "drawn.svg").exists()
    assert "<b>The judge on people.</b>" in (tmp_path / "drawn.html").read_text()
