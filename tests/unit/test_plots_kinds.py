"""Kinds of refusal and categories: legible for few and many, and true."""

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from figure_checks import LONG, estimate, plot, problems, score, shown, study

from refusal_eval.core.errors import UserError
from refusal_eval.judges import reasoned_judge
from refusal_eval.plots import refusal_kinds_figure
from refusal_eval.plots.categories_figure import category_forest
from refusal_eval.plots.refusal_kinds_figure import NOT_TOLD, stacked_kinds
from refusal_eval.report.paper.display import Labels

NAMES = ("self_harm", "Fraud and other deception of elderly people", "a", "privacy (public figures)", "hate", "w" * 30)


def counted(models: int, splits: int, kinds: int = 13) -> dict[tuple[str, str], Counter[str]]:
    rng = random.Random(models + splits)
    known = [*refusal_kinds_figure.KINDS, NOT_TOLD][:kinds]
    return {
        (f"model_{i:02d}", f"split_{j:02d}"): Counter({kind: rng.randint(0, 40) for kind in known})
        for i in range(models)
        for j in range(splits)
    }


@pytest.mark.parametrize(
    ("models", "splits", "labels"),
    [(1, 1, None), (2, 3, LONG), (8, 3, None), (20, 1, LONG), (20, 12, LONG), (8, 12, LONG)],
)
def test_kinds_are_legible(models: int, splits: int, labels: Labels | None) -> None:
    scores, _ = study(models, splits)
    asked = plot("refusal_kinds", models, splits, labels, reading="broad")
    drawn = stacked_kinds(scores, counted(models, splits), [], asked)
    assert problems(drawn.figure) == [] and drawn.figure.get_figheight() * 2.54 <= 22


def test_shares_add_up_and_the_key_names_what_occurs() -> None:
    counts = {("a", "s"): Counter({"lecture": 3, "own kind": 1}), ("b", "s"): Counter({"direct": 0})}
    asked = plot("refusal_kinds", models=["a", "b"], splits=["s"], reading="broad", by="split")
    drawn = stacked_kinds([score("a", "s", 0.5), score("b", "s", 0.0)], counts, [], asked)
    assert drawn.frame[["model", "kind", "n_answers", "share"]].to_numpy().tolist() == [
        ["a", "lecture", 3, 0.75],
        ["a", "own kind", 1, 0.25],
        ["b", "lecture", 0, None],
        ["b", "own kind", 0, None],
    ]
    text = shown(drawn.figure)
    assert "1 lecture" in text and "2 own kind" in text and "direct" not in text and "no refusal" in text


def test_a_study_that_fits_no_page_by_split_is_drawn_over_all() -> None:
    scores, _ = study(20, 12)
    drawn = stacked_kinds(scores, counted(20, 12), [], plot("refusal_kinds", 20, 12, reading="broad"))
    assert set(drawn.frame["split"]) == {None} and "Over all answers of 12 splits" in " ".join(drawn.caption.sentences)
    with pytest.raises(UserError, match="cm high, and a page has 22 cm"):
        stacked_kinds(scores, counted(20, 12), [], plot("refusal_kinds", 20, 12, reading="broad", by="split"))


def test_kinds_are_those_of_the_reasoned_judge() -> None:
    assert refusal_kinds_figure.KINDS == reasoned_judge.KINDS


def test_neighbouring_kinds_differ_on_grey_paper() -> None:
    def grey(colour: str) -> float:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return (0.299 * red + 0.587 * green + 0.114 * blue) / 255

    greys = [grey(colour) for colour in refusal_kinds_figure._COLOURS]
    assert len(greys) == len(refusal_kinds_figure.KINDS)
    assert min(abs(a - b) for a, b in itertools.pairwise(greys)) > 0.15


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
    [
        (1, 1, 2, None),
        (2, 3, 6, None),
        (3, 2, 6, LONG),
        (8, 3, 8, None),
        (8, 3, 12, LONG),
        (9, 3, 6, LONG),
        (20, 1, 12, None),
        (20, 1, 12, LONG),
        (20, 3, 12, None),
        (20, 2, 6, LONG),
    ],
)
def test_categories_are_legible(models: int, splits: int, categories: int, labels: Labels | None) -> None:
    scores, _ = study(models, splits)
    asked = plot("categories", models, splits, labels)
    drawn = category_forest(scores, rates(models, splits, categories), [], asked)
    assert problems(drawn.figure) == [] and drawn.figure.get_figheight() * 2.54 <= 22
    assert drawn.figure.get_figwidth() * 2.54 == pytest.approx(8.5 if models <= 3 else 17.5)


def test_the_largest_categories_are_shown_and_the_others_counted() -> None:
    scores = [score("model_00", "split_00", 0.5)]
    rows = rates(1, 1, 6)
    drawn = category_forest(scores, rows, [], plot("categories", 1, 1, most=2))
    text = shown(drawn.figure)
    assert "self harm (40)" in text and "elderly people (39)" in text.replace("\n", " ") and "hate" not in text
    assert "Not shown of split_00: 4 categories with fewer prompts." in drawn.caption.sentences
    # All of them are in the data, in the headline reading only.
    assert len(drawn.frame) == 6 and set(drawn.frame["reading"]) == {"broad"}


def test_categories_have_the_labels_asked_for() -> None:
    scores = [score("model_00", "split_00", 0.5)]
    asked = plot("categories", 1, 1, categories={"self_harm": "Self-harm"})
    assert "Self-harm (40)" in shown(category_forest(scores, rates(1, 1, 2), [], asked).figure)


def test_a_study_without_categories_says_so() -> None:
    scores = [score("model_00", "split_00", 0.5)]
    with pytest.raises(UserError, match="no prompt of its splits has a category"):
        category_forest(scores, [estimate("refusal_rate", 0.5)], [], plot("categories", 1, 1))


def test_many_models_are_the_rows_of_a_panel_for_each_category() -> None:
    scores, _ = study(20, 1)
    drawn = category_forest(scores, rates(20, 1, 12), [], plot("categories", 20, 1))
    text = shown(drawn.figure).split("\n")
    # Names of models stand once for each row of panels, those of categories once.
    assert 1 <= text.count("model_07") <= 3 and text.count("All") == 1
    assert sum(line.startswith("hate (") for line in text) == 1
    panels = len(drawn.figure.axes) - 1
    told = [sentence for sentence in drawn.caption.sentences if sentence.startswith("Not shown")]
    assert panels >= 8 and (told or panels == 13)


def test_rates_of_few_clusters_and_marked_splits_are_marked_and_the_marks_explained() -> None:
    scores = [score("model_00", "split_00", 0.5, flags=["truncated"]), score("model_00", "split_01", 0.5)]
    rows = rates(1, 1, 2)
    for row in rows:
        row["flags"] = ["unjudged", "few_clusters"] if row["category"] == "self_harm" else []
    drawn = category_forest(scores, rows, [], plot("categories", 1, 2))
    text = shown(drawn.figure)
    assert "split_00‡" in text and "self harm (40†*)" in text and "(39)" in text
    explained = [sentence[0] for sentence in drawn.caption.sentences if sentence[0] in "†‡*§"]
    assert explained == ["‡", "†", "*"] and "split_01" not in " ".join(drawn.caption.sentences)
