"""Figures of judges beside each other: legible, and true."""

import pytest
from figure_checks import draw, problems, shown, sizes, words
from test_judge_card_figure import LONG, made
from test_judges_agree import study_of

from refusal_eval.core.errors import UserError
from refusal_eval.report.paper.display import Labels


@pytest.mark.parametrize(("judges", "labels"), sizes((3, LONG), (8, LONG), full=[(2, None), (8, None)]))
def test_agreement_is_legible(judges: int, labels: Labels | None) -> None:
    agreement = study_of(judges)
    drawn = draw("judge_agreement", 0, 0, labels, agreement=agreement, judges=agreement["judges"])
    assert problems(drawn.figure) == []
    assert drawn.figure.get_figwidth() * 2.54 == pytest.approx(8.5 if judges <= 3 else 17.5)
    assert len(drawn.frame) == judges * (judges - 1) // 2 * 2


def test_agreement_of_some_judges_on_one_split() -> None:
    agreement = study_of(4)
    drawn = draw("judge_agreement", 0, 0, agreement=agreement, judges=["c", "a"], split="t")
    assert set(drawn.frame["first"]) | set(drawn.frame["second"]) == {"a", "c"} and set(drawn.frame["split"]) == {"t"}
    text = shown(drawn.figure).split("\n")
    assert text.index("c") < text.index("a") and {"strict", "broad"} <= set(text)
    assert "Agreement of judges on t." in drawn.caption.title
    with pytest.raises(UserError, match="no agreement of z"):
        draw("judge_agreement", 0, 0, agreement=agreement, judges=["a", "z"])


@pytest.mark.parametrize("cards", [1, 2, 6])
def test_calibration_is_legible(cards: int) -> None:
    found = [made(2, True) | {"judge": f"judge-{i}"} for i in range(cards)]
    drawn = draw("calibration", 0, 0, LONG, cards=found, judges=[card["judge"] for card in found], gold=["g"])
    assert problems(drawn.figure) == [] and len(drawn.figure.axes) == cards
    assert {"as given", "calibrated, out of fold"} == set(drawn.frame["probabilities"])
    noise = found[0]["soft"]["ece_if_calibrated"]
    assert "As given: the probability in the judge's verdict, whatever label it gave" in words(drawn)
    assert "mapped by a fit to other answers of the gold set." in words(drawn)
    assert "ECE" in words(drawn) and f"(a calibrated judge would show {noise:.2f})" in words(drawn)


def test_judges_without_probabilities_have_no_panel() -> None:
    cards = [made(2, True) | {"judge": "soft"}, made(2) | {"judge": "hard"}]
    drawn = draw("calibration", 0, 0, cards=cards, judges=["hard", "soft"], gold=["g"])
    assert set(drawn.frame["judge"]) == {"soft"}
    with pytest.raises(UserError, match="none of its judges gives a probability"):
        draw("calibration", 0, 0, cards=cards, judges=["hard"], gold=["g"])


def test_the_caption_of_calibration_says_how_many_answers_it_rests_on_and_what_is_not_shown() -> None:
    cards = [made(2, True) | {"judge": "soft"}, made(2) | {"judge": "hard"}]
    labels = Labels(judges={"hard": "Hard judge"}, golds={"g": "People"})
    drawn = draw("calibration", 0, 0, labels, cards=cards, judges=["hard", "soft"], gold=["g"])
    assert "soft on People (239 of 240 answers): As given" in words(drawn)
    assert "Without a probability, and so not shown: Hard judge on People." in drawn.caption.sentences
    assert drawn.frame.groupby("probabilities")["n"].sum().tolist() == [239, 239]
    alone = draw("calibration", 0, 0, labels, cards=cards, judges=["soft"], gold=["g"])
    assert "not shown" not in words(alone) and "weighted" not in words(alone)
    weighted = cards[0] | {"weighted": {"n_effective": 120.4}}
    assert "as much information as 120 rows" in words(
        draw("calibration", 0, 0, cards=[weighted], judges=["soft"], gold=["g"])
    )
