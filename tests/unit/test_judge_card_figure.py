"""Figures of judges: nothing overlaps, nothing is cut off or too small, of a card."""

import random
from typing import Any

import pytest
from figure_checks import problems, shown
from judge_rows import LABELS, rows, soft_gold, verdict

from refusal_eval.features.judge_cards.calibrated_card import card_with_calibration
from refusal_eval.features.judge_cards.judge_card_figure import card_figure
from refusal_eval.plots.style import BLUE
from refusal_eval.report.paper.display import Labels

LONG = Labels(
    judges={name: f"Provider/Judge-{name}-20B-Instruct, label probability" for name in "abcdefgh"} | {"j": "x" * 70},
    golds={"g": "XSTest, answers of five models with labels of two people"},
)


def made(models: int, soft: bool = False, **names: Any) -> dict[str, Any]:
    rng = random.Random(models)
    if soft:
        gold, verdicts = soft_gold(models=models)
    else:
        gold, verdicts = rows({(h, m): rng.randint(3, 30) for h in LABELS for m in LABELS})
    for i, row in enumerate(gold):
        row["answering_model"] = f"a model with quite a long name, number {i % models}" if models else None
        row["expectation"] = ("comply", "refuse")[i // 2 % 2]
    verdicts[5] = verdict(verdicts[5]["prompt_id"], None)
    return card_with_calibration(gold, verdicts, judge="j", gold="g", **names)


ANCHORS = [{"name": "GPT-4 zero-shot", "kappa": 0.645, "source": "paper"}, {"name": "prefixes", "kappa": -0.2}]


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(("models", "labels"), [(0, None), (3, None), (12, LONG)])
def test_card_is_legible(models: int, labels: Labels | None, soft: bool) -> None:
    if soft and models == 0:
        models = 2
    fig = card_figure(made(models, soft, raters=2, human_kappa={"broad": 0.957}, anchors=ANCHORS), labels)
    assert problems(fig) == []
    assert fig.get_figwidth() * 2.54 == pytest.approx(8.5) and fig.get_figheight() * 2.54 < 22.5


@pytest.mark.parametrize("table", [{}, {("refusal", "refusal"): 3}, {("refusal", None): 30, ("compliance", None): 30}])
def test_card_of_next_to_nothing_is_drawn(table: Any) -> None:
    gold, verdicts = rows(table)
    assert problems(card_figure(card_with_calibration(gold, verdicts, judge="j", gold="g"))) == []


def test_card_says_what_matters() -> None:
    text = " ".join(shown(card_figure(made(3, soft=True, raters=2, human_kappa={"broad": 0.957}))).split())
    assert "Worst of 3 answering models" in text and "each labelled by 2 annotators" in text
    assert "kappa among people, 0.96" in text and "ECE" in text and "Brier" in text and "unjudged" in text
    assert "239 of 240 answers judged" in text


def test_card_tells_published_f1_beside_its_own() -> None:
    human = {"statistic": "Fleiss' kappa", "broad": 0.72, "strict": None, "source": "paper"}
    anchors = [{"name": "GPT", "kappa": None, "f1": 0.924, "source": "s"}, ANCHORS[0]]
    card = made(3, human_kappa=human, anchors=anchors)
    fig = card_figure(card)
    text = " ".join(shown(fig).split())
    assert problems(fig) == [] and "Blue line: Fleiss' kappa among people, 0.72" in text
    own = f"{100 * card['broad']['f1']:.1f}"
    assert f"Published F1 of others on this gold set (broad): GPT 92.4 %; this judge's is {own} %." in text
    assert "Dashed: published kappa of others on this gold set (broad): GPT-4 zero-shot" in text


def test_the_line_of_the_kappa_among_people_lies_on_the_scale() -> None:
    table = {("refusal", "refusal"): 190, ("compliance", "compliance"): 190, ("refusal", "compliance"): 4}
    gold, verdicts = rows(table)
    human = {"statistic": "Fleiss' kappa", "broad": 0.62, "strict": None}
    card = card_with_calibration(gold, verdicts, judge="j", gold="g", raters=2, human_kappa=human)
    (ax,) = (ax for ax in card_figure(card).axes if ax.get_xlabel() == "Kappa")
    (line,) = (line for line in ax.lines if list(line.get_xdata()) == [0.62, 0.62])
    low, high = ax.get_xlim()
    assert low <= 0.62 <= high and line.get_color() == BLUE


def test_card_holds_published_numbers_against_its_own_of_the_same_reading() -> None:
    anchors = [
        {"name": "GPT", "f1": 0.924, "reading": "broad"},
        {"name": "Old", "f1": 0.71, "reading": "strict"},
        {"name": "Plain", "kappa": 0.6, "reading": "three_class"},
    ]
    card = made(3, anchors=anchors)
    fig = card_figure(card)
    text, own = " ".join(shown(fig).split()), {r: f"{100 * card[r]['f1']:.1f}" for r in ("broad", "strict")}
    assert problems(fig) == [] and own["broad"] != own["strict"]
    for reading, reported in (("broad", "GPT 92.4 %"), ("strict", "Old 71.0 %")):
        assert f"on this gold set ({reading}): {reported}; this judge's is {own[reading]} %." in text
    assert "Dashed: published kappa of others on this gold set (three class): Plain 0.60." in text


def test_all_cards_have_the_same_scales_but_for_a_kappa_below_zero() -> None:
    def limits(card: dict[str, Any]) -> dict[str, Any]:
        return {ax.get_xlabel(): ax.get_xlim() for ax in card_figure(card).axes if ax.get_xlabel()}

    good = rows({("refusal", "refusal"): 60, ("compliance", "compliance"): 60})
    fair = rows({("refusal", "refusal"): 60, ("compliance", "refusal"): 25, ("compliance", "compliance"): 35})
    wrong = rows({("refusal", "compliance"): 60, ("compliance", "refusal"): 60})
    one, two, below = (limits(card_with_calibration(*made, judge="j", gold="g")) for made in (good, fair, wrong))
    assert one == two == {"Share (%, broad)": (0, 1), "Kappa": (0, 1)}
    assert below == {"Share (%, broad)": (0, 1), "Kappa": (-1, 1)}


def test_card_shows_both_kappas_in_its_head_and_no_class_without_answers() -> None:
    card = card_with_calibration(
        *rows({("refusal", "refusal"): 50, ("compliance", "compliance"): 50}), judge="j", gold="g"
    )
    text = " ".join(shown(card_figure(card)).split())
    strict, broad = (f"{card[reading]['kappa']:.2f}" for reading in ("strict", "broad"))
    assert f"kappa {strict} [" in text and f"] strict, {broad} [" in text and "] broad." in text
    assert "People: refusal" in text and "People: partial" not in text


def test_card_names_the_judges_own_threshold_and_has_shares_in_percent() -> None:
    card = made(3, soft=True)
    text = " ".join(shown(card_figure(card, threshold=0.25)).split())
    assert "Labels: the judge's own threshold (p of at least 0.25)." in text
    share = card["broad"]["balanced_accuracy"]
    assert f"All: balanced accuracy {100 * share:.1f} [" in text and "Share (%, broad)" in text


def test_card_on_labels_of_a_model_names_it_and_no_people() -> None:
    fig = card_figure(made(3, soft=True, labelled_by_model="GPT-4"))
    text = " ".join(shown(fig).split())
    assert problems(fig) == [] and "people" not in text.lower() and "annotator" not in text
    assert "labelled by GPT-4; no rater labelled them" in text and "Model: refusal" in text


def test_card_on_answers_written_to_their_labels_speaks_of_no_people() -> None:
    fig = card_figure(made(3, soft=True, written_to_label=True, seen=True))
    text = " ".join(shown(fig).split())
    assert problems(fig) == [] and "people" not in text.lower() and "annotator" not in text
    assert "written to their labels by their author; no rater labelled them" in text
    assert "The judge was chosen or fitted on them" in text and "Intended: refusal" in text
