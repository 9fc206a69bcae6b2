"""Kinds of refusal and categories: legible for few and many, and true."""

import random
from collections import Counter
from typing import Any

import pytest
from figure_checks import LONG, draw, estimate, problems, score, shown, sizes, study, words

from refusal_eval.core.errors import UserError
from refusal_eval.judges import reasoned_judge
from refusal_eval.plots import refusal_kinds_figure
from refusal_eval.report.paper.display import Labels

NAMES = ("self_harm", "Fraud and other deception of elderly people", "a", "privacy (public figures)", "hate", "w" * 30)


def counted(models: int, splits: int) -> dict[tuple[str, str], Counter[tuple[str, str | None]]]:
    rng = random.Random(models + splits)
    known = [*refusal_kinds_figure.KINDS, None]
    return {
        (f"model_{i:02d}", f"split_{j:02d}"): Counter({("refusal", kind): rng.randint(0, 40) for kind in known})
        for i in range(models)
        for j in range(splits)
    }


@pytest.mark.parametrize(
    ("models", "splits", "labels"),
    sizes((2, 3, LONG), (20, 12, LONG), full=[(1, 1, None), (8, 3, None), (20, 1, LONG), (8, 12, LONG)]),
)
def test_kinds_are_legible(models: int, splits: int, labels: Labels | None) -> None:
    scores, _ = study(models, splits)
    drawn = draw("refusal_kinds", models, splits, labels, scores=scores, verdicts=counted(models, splits))
    assert problems(drawn.figure) == [] and drawn.figure.get_figheight() * 2.54 <= 22


def test_shares_add_up_and_the_key_names_what_occurs() -> None:
    refused = Counter({("refusal", "lecture"): 2, ("partial", "lecture"): 1, ("refusal", "own kind"): 1})
    verdicts = {("a", "s"): refused, ("b", "s"): Counter({("compliance", None): 5})}
    scores = [score("a", "s", 0.5), score("b", "s", 0.0)]
    drawn = draw("refusal_kinds", ["a", "b"], ["s"], scores=scores, verdicts=verdicts, by="split")
    assert drawn.frame[["model", "kind", "n_answers", "share"]].to_numpy().tolist() == [
        ["a", "lecture", 3, 0.75],
        ["a", "own kind", 1, 0.25],
        ["b", "lecture", 0, None],
        ["b", "own kind", 0, None],
    ]
    text = shown(drawn.figure)
    assert "lecture" in text and "own kind" in text and "direct" not in text and "none labelled a refusal" in text


def test_compliances_among_answers_are_no_refusals_without_a_kind() -> None:
    labelled = Counter({("refusal", "lecture"): 1, ("refusal", None): 1, ("compliance", None): 2})
    drawn = draw(
        "refusal_kinds", ["a"], ["s"], scores=[score("a", "s", 0.5)], verdicts={("a", "s"): labelled}, among="answers"
    )
    rows = drawn.frame[["kind", "share"]].to_numpy().tolist()
    assert rows == [["lecture", 0.25], ["compliance", 0.5], ["not given", 0.25]]
    assert {"lecture", "compliance", "not given"} <= set(shown(drawn.figure).split("\n"))


@pytest.mark.parametrize("among", ["refusals", "answers"])
def test_where_nothing_was_judged_no_verdict_is_said_to_be_no_refusal(among: str) -> None:
    scores, unread = [score("a", "s", None), score("b", "s", 0.0)], Counter({(None, None): 5})
    complied = {"refusals": Counter({("compliance", None): 5}), "answers": unread}[among]
    drawn = draw("refusal_kinds", ["a", "b"], ["s"], scores=scores, verdicts={("b", "s"): complied}, among=among)
    text = shown(drawn.figure)
    assert text.count("no verdict") == {"refusals": 1, "answers": 2}[among]
    assert text.count("none labelled a refusal") == {"refusals": 1, "answers": 0}[among]
    assert ("The judge calls no answer a refusal." in drawn.caption.sentences) == (among == "refusals")
    assert ("No answer has a verdict." in drawn.caption.sentences) == (among == "answers")
    assert "blocked" not in words(drawn)
    scores[1]["states"]["blocked"] = 6
    drawn = draw("refusal_kinds", ["a", "b"], ["s"], scores=scores, verdicts={("b", "s"): complied}, among=among)
    assert "Answers that a provider blocked, which count as refusals in rates, are not shown." in words(drawn)


def test_a_study_that_fits_no_page_by_split_is_drawn_over_all() -> None:
    scores, _ = study(20, 12)
    drawn = draw("refusal_kinds", 20, 12, scores=scores, verdicts=counted(20, 12))
    assert set(drawn.frame["split"]) == {None} and "Over all answers of 12 splits" in " ".join(drawn.caption.sentences)
    with pytest.raises(UserError, match="cm high, and a page has 22 cm"):
        draw("refusal_kinds", 20, 12, scores=scores, verdicts=counted(20, 12), by="split")


def test_the_four_largest_kinds_have_a_panel_each_and_the_others_share_one() -> None:
    kinds = ("direct", "alternative", "lecture", "redirection", "vagueness", "softening")
    refused = Counter({("refusal", kind): 30 - i for i, kind in enumerate(kinds)})
    drawn = draw("refusal_kinds", ["a"], ["s"], scores=[score("a", "s", 0.5)], verdicts={("a", "s"): refused})
    titles = [ax.get_title(loc="left") for ax in drawn.figure.axes]
    assert titles == [*kinds[:4], "other"] and "Grey: all other kinds." in drawn.caption.brief.sentences
    lengths = [bar.get_width() for ax in drawn.figure.axes for bar in ax.patches if bar.get_height() < 8]
    assert lengths[-1] == pytest.approx(100 * (26 + 25) / 165)


def test_kinds_are_those_of_the_reasoned_judge() -> None:
    assert refusal_kinds_figure.KINDS == reasoned_judge.KINDS


def rates(models: int, splits: int, categories: int) -> list[dict[str, Any]]:
    rng = random.Random(3)
    return [
        estimate(
            "refusal_rate", 0.05 + 0.85 * rng.random(), model=f"model_{i:02d}", split=f"split_{j:02d}",
            category=f"{NAMES[k % 6]} {k // 6 or ''}".strip(), reading=reading, n_prompts=40 - k,
        )
        for i in range(models) for j in range(splits) for k in range(categories) for reading in ("strict", "broad")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("models", "splits", "categories", "labels"),
    sizes(
        (3, 2, 6, LONG),
        (8, 3, 12, LONG),
        (20, 1, 12, LONG),
        full=[
            (1, 1, 2, None),
            (2, 3, 6, None),
            (8, 3, 8, None),
            (9, 3, 6, LONG),
            (20, 1, 12, None),
            (20, 3, 12, None),
            (20, 2, 6, LONG),
        ],
    ),
)
def test_categories_are_legible(models: int, splits: int, categories: int, labels: Labels | None) -> None:
    scores, _ = study(models, splits)
    drawn = draw("categories", models, splits, labels, scores=scores, estimates=rates(models, splits, categories))
    assert problems(drawn.figure) == [] and drawn.figure.get_figheight() * 2.54 <= 22
    assert drawn.figure.get_figwidth() * 2.54 == pytest.approx(8.5 if models <= 3 else 17.5)


def test_the_largest_categories_are_shown_and_the_others_counted() -> None:
    scores = [score("model_00", "split_00", 0.5)]
    rows = rates(1, 1, 6)
    drawn = draw("categories", 1, 1, scores=scores, estimates=rows, most=2)
    text = shown(drawn.figure)
    assert "self harm (40)" in text and "elderly people (39)" in text.replace("\n", " ") and "hate" not in text
    assert "Not shown of split_00: 4 categories with fewer prompts." in drawn.caption.sentences
    # All of them are in the data, in the headline reading only, and the whole split before them.
    assert len(drawn.frame) == 7 and set(drawn.frame["reading"]) == {"broad"}
    assert drawn.frame.iloc[0].to_dict() == {
        "judge": "rules", "model": "model_00", "split": "split_00", "category": None, "reading": "broad", "value": 0.5,
        "low": 0.4, "high": 0.6, "n_prompts": 60, "n_clusters": 60, "flags": [],
    }  # fmt: skip


def test_categories_of_few_prompts_are_left_out_unless_they_are_asked_for() -> None:
    scores, rows = [score("model_00", "split_00", 0.5)], rates(1, 1, 6)
    for row in rows[-4:]:
        row["n_prompts"] = 4
    drawn = draw("categories", 1, 1, scores=scores, estimates=rows)
    assert "(4)" not in shown(drawn.figure) and len(drawn.frame) == 7, "all are in the data"
    assert "Not shown: 2 categories with fewer than 10 prompts." in drawn.caption.sentences
    assert "(4)" in shown(draw("categories", 1, 1, scores=scores, estimates=rows, fewest=4).figure)
    with pytest.raises(UserError, match="no category has 60 prompts; `fewest` of the figure asks for that many"):
        draw("categories", 1, 1, scores=scores, estimates=rows, fewest=60)


def test_marks_of_categories_that_are_not_shown_are_not_explained() -> None:
    rows = rates(1, 1, 6)
    for row in rows[-2:]:
        row["flags"] = ["few_clusters"]
    for most, explained in ((5, False), (6, True)):
        drawn = draw("categories", 1, 1, scores=[score("model_00", "split_00", 0.5)], estimates=rows, most=most)
        assert ("(35*)" in shown(drawn.figure)) == explained
        assert any(sentence.startswith("* ") for sentence in drawn.caption.sentences) == explained
        assert drawn.frame["flags"].map(" ".join).tolist().count("few_clusters") == 1


def test_models_without_a_rate_in_a_category_are_named() -> None:
    rows, scores = rates(2, 2, 3), study(2, 2)[0]
    for row in rows:
        if row["model"] == "model_01" and (row["split"] == "split_01" or row["category"] == "self_harm"):
            row |= {"value": None, "low": None, "high": None}
    drawn = draw("categories", 2, 2, Labels(models={"model_01": "Ours"}), scores=scores, estimates=rows)
    assert [sentence for sentence in drawn.caption.sentences if sentence.startswith("Without")] == [
        "Without a number, and so not shown: Ours on split_01.",
        "Without a number in some categories: Ours on split_00.",
    ]
    assert "Without" not in words(draw("categories", 2, 2, scores=scores, estimates=rates(2, 2, 3)))


def test_the_caption_of_categories_of_dialogues_calls_the_numbers_in_brackets_turns() -> None:
    plain, talks = (score("model_00", "split_00", 0.5) | {"n_prompts": n} for n in (60, 20))
    drawn = [draw("categories", 1, 1, scores=[one], estimates=rates(1, 1, 2)) for one in (plain, talks)]
    first = [of.caption.sentences[0] for of in drawn]
    assert first[0] == "In brackets: prompts; thick lines: the whole split."
    assert first[1] == "In brackets: prompts (scored turns in dialogues); thick lines: the whole split."


def test_categories_have_the_labels_asked_for() -> None:
    scores = [score("model_00", "split_00", 0.5)]
    labels = {"categories": {"self_harm": "Self-harm"}}
    drawn = draw("categories", 1, 1, scores=scores, estimates=rates(1, 1, 2), labels=labels)
    assert "Self-harm (40)" in shown(drawn.figure)


def test_a_study_without_categories_says_so() -> None:
    scores = [score("model_00", "split_00", 0.5)]
    with pytest.raises(UserError, match="no prompt of its splits has a category"):
        draw("categories", 1, 1, scores=scores, estimates=[estimate("refusal_rate", 0.5)])


def test_many_models_are_the_rows_of_a_panel_for_each_category() -> None:
    scores, _ = study(20, 1)
    drawn = draw("categories", 20, 1, scores=scores, estimates=rates(20, 1, 12))
    text = shown(drawn.figure).split("\n")
    # Names of models stand once for each row of panels, those of categories once.
    assert 1 <= text.count("model_07") <= 3 and sum(line.startswith("split_00") for line in text) == 1
    assert sum(line.startswith("hate (") for line in text) == 1
    panels = len(drawn.figure.axes)
    reported = [sentence for sentence in drawn.caption.sentences if sentence.startswith("Not shown")]
    assert panels >= 8 and (reported or panels == 13)


def test_rates_of_few_clusters_and_marked_splits_are_marked_and_the_marks_explained() -> None:
    scores = [score("model_00", "split_00", 0.5, flags=["truncated"]), score("model_00", "split_01", 0.5)]
    rows = rates(1, 1, 2)
    for row in rows:
        row["flags"] = ["unjudged", "few_clusters"] if row["category"] == "self_harm" else []
    drawn = draw("categories", 1, 2, scores=scores, estimates=rows)
    text = shown(drawn.figure)
    assert "split_00‡" in text and "self harm (40†*)" in text and "(39)" in text
    explained = [sentence[0] for sentence in drawn.caption.sentences if sentence[0] in "†‡*§"]
    assert explained == ["‡", "†", "*"] and "split_01" not in " ".join(drawn.caption.sentences)


def test_the_caption_of_categories_says_whose_their_marks_are_where_there_are_several_models() -> None:
    whose = "A mark at a split or a category applies to at least one model there."
    scores = [score(model, "split_00", 0.5) for model in ("model_00", "model_01")]
    assert whose not in words(draw("categories", 2, 1, scores=scores, estimates=rates(2, 1, 2)))
    scores[1]["flags"] = ["truncated"]
    drawn = draw("categories", 2, 1, scores=scores, estimates=rates(2, 1, 2))
    assert "split_00‡" in shown(drawn.figure) and whose in words(drawn)
    alone = draw("categories", ["model_01"], 1, scores=scores, estimates=rates(2, 1, 2)[-4:])
    assert "split_00‡" in shown(alone.figure) and whose not in words(alone)
