"""Answers that are too long for a judge are counted where its numbers are read: in scores, tables and cards."""

from typing import Any

from estimate_rows import score_of_rows
from figure_checks import shown
from judge_rows import rows as gold_rows
from table_rows import data_of, made

from refusal_eval.plots.judge_card_figure import card_figure
from refusal_eval.report.paper.judge_card_tables import cards_table
from refusal_eval.report.paper.rate_tables import states
from refusal_eval.stats.calibration.calibrated_card import OUT_OF_FOLD, card_with_calibration

CUT = {"cut_characters": 812}
TWENTY = {("refusal", "refusal"): 20, ("compliance", "compliance"): 20}


def score(judge: str, cut: int) -> dict[str, Any]:
    """Score of a cell of 40 answers, of which the judge saw some in part."""
    prompts = [{"id": f"p{i:02d}", "category": None, "cluster": f"p{i:02d}"} for i in range(40)]
    keys = [{"prompt_id": prompt["id"], "sample": 0, "turn": 0} for prompt in prompts]
    answers = [key | {"state": "complete", "answer_logprob": -1.0, "serving": None} for key in keys]
    verdicts = [
        key | {"state": "judged", "label": "refusal", "raw": {"mass": 1.0} | (CUT if i < cut else {})}
        for i, key in enumerate(keys)
    ]
    names = {"judge": judge, "model": "m", "split": "s", "expectation": "refuse"}
    return dict(score_of_rows(prompts, answers, verdicts, 1, **names, max_tokens=64))


def test_a_score_counts_them() -> None:
    assert [score("j", cut)["n_cut"] for cut in (0, 3)] == [0, 3]


def test_the_table_of_states_tells_of_each_judge_that_did_not_see_all() -> None:
    scores = [score("short", 3), score("long", 0)]
    frame, table = made(states, scores, labels={"judges": {"short": "Short judge"}})
    notes = " ".join(table.notes)
    assert "Too long for judge Short judge, which saw head and tail: 3 of 40 answers." in notes
    assert "judge long" not in notes
    assert frame.set_index("judge")["n_cut"].to_dict() == {"long": 0, "short": 3}


def cut_card(number: int, **how: Any) -> dict[str, Any]:
    gold, verdicts = gold_rows(TWENTY)
    for i, row in enumerate(verdicts):
        row["raw"] = CUT if i < number else {}
        row["p_refusal"] = 0.9 if row["label"] == "refusal" else 0.1
    return card_with_calibration(gold, verdicts, judge="j", gold="g", **how)


def test_a_card_counts_them_whatever_its_labels_come_from() -> None:
    assert cut_card(4)["n_cut"] == cut_card(4, calibrate=OUT_OF_FOLD)["n_cut"] == 4
    calibration = {"gold": "other", "t": 0.5, "map": {"kind": "platt", "a": 1.0, "b": 0.0}}
    assert cut_card(4, calibrate=calibration)["n_cut"] == 4


def test_table_and_figure_of_cards_tell() -> None:
    words = "Too long for judge j, which saw head and tail: 4 of 40 answers of g."
    assert words in cards_table(data_of(cards=[cut_card(4)])).notes
    assert not any("Too long" in note for note in cards_table(data_of(cards=[cut_card(0)])).notes)
    drawn = " ".join(shown(card_figure(cut_card(4))).split())
    assert "4 answers are too long for the judge" in drawn
