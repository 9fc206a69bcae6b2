"""Heatmap and histograms: nothing overlaps, nothing is cut off or too small, and what they say is true."""

from typing import Any

import pytest
from figure_checks import LONG, draw, estimate, problems, score, shown, sizes, study, words
from matplotlib.text import Text

from refusal_eval.plots.figure_data import Drawn
from refusal_eval.plots.histograms_figure import vote_counts
from refusal_eval.report.paper.display import EN_DASH, Labels

READINGS: dict[str, Any] = {"strict": {"accuracy": 0.874, "kappa": 0.521}, "broad": {"accuracy": 0.9, "kappa": None}}
CARD = {"judge": "rules", "gold": "g", "n": 101, "n_judged": 101, **READINGS}
RARE = CARD | {"n": 110, "strict": {"accuracy": 0.874, "kappa": None}}


def both(*args: Any, **more: Any) -> list[Drawn]:
    """A heatmap and histograms."""
    return [draw(kind, *args, **more) for kind in ("heatmap", "histograms")]


@pytest.mark.parametrize(
    ("models", "splits", "labels"),
    sizes((2, 3, LONG), (20, 12, None), full=[(1, 1, None), (2, 3, None), (3, 4, LONG), (8, 20, LONG)]),
)
def test_text_is_legible(models: int, splits: int, labels: Labels | None) -> None:
    scores, votes = study(models, splits)
    for drawn in both(models, splits, labels, scores=scores, votes=votes):
        assert problems(drawn.figure) == []
        assert drawn.figure.get_figwidth() * 2.54 == pytest.approx(8.5 if splits <= 3 else 17.5)
        # With labels of ordinary length even 20 models fit a page.
        assert drawn.figure.get_figheight() * 2.54 < (25 if labels is None else 40)


def test_many_models_with_long_names_take_the_width_of_a_page_unless_another_is_asked_for() -> None:
    scores, votes = study(20, 3)
    for width, wanted in ((None, 17.5), ("column", 8.5)):
        for drawn in both(20, 3, LONG, scores=scores, votes=votes, width=width):
            assert drawn.figure.get_figwidth() * 2.54 == pytest.approx(wanted) and problems(drawn.figure) == []


def test_heatmap_shows_rates_intervals_marks_and_expectations() -> None:
    scores = [
        score("a", "safe", 0.25),
        score("a", "unsafe", 0.5, flags=["unjudged", "few_clusters"], expectation="refuse"),
        score("b", "safe", None),
    ]
    drawn = draw("heatmap", ["a", "b"], ["safe", "unsafe"], Labels(judges={"rules": "Phrase list"}), scores=scores)
    text = shown(drawn.figure)
    assert f"25\n[20{EN_DASH}40]" in text and f"50\n[40{EN_DASH}60]†*" in text and "should refuse \u2191" in text
    # Cell (b, unsafe) does not exist, (b, safe) has no rate.
    assert text.split("\n").count(EN_DASH) == 2 and f"{EN_DASH} no answer that counts." in drawn.caption.sentences
    assert "Phrase list" in words(drawn) and "no verdict" in words(drawn) and "fewer than 30" in words(drawn)
    assert "cut off" not in words(drawn) and "Phrase list" not in text
    assert drawn.frame.to_dict("records")[1] == {
        "judge": "rules", "model": "a", "split": "unsafe", "reading": "broad", "rate": 0.5, "low": 0.4, "high": 0.6,
        "flags": ["unjudged", "few_clusters"],
    }  # fmt: skip


def test_a_mark_that_nearly_all_cells_carry_stands_in_the_caption_and_in_no_cell() -> None:
    names = [f"m{i}" for i in range(6)]
    for marked, everywhere in ((4, False), (5, True)):
        scores = [score(name, "safe", 0.5, flags=["truncated"] * (i < marked)) for i, name in enumerate(names)]
        scores[0]["flags"] = [*scores[0]["flags"], "unjudged"]
        drawn = draw("heatmap", names, ["safe"], scores=scores)
        text, caption = shown(drawn.figure), " ".join(drawn.caption.brief.sentences)
        assert ("‡" not in text) == everywhere and "†" in text
        assert ("Nearly everywhere, and so unmarked: ‡ answers cut off." in caption) == everywhere
        assert "‡ answers cut off" in caption and "† many answers without a verdict" in caption


def test_splits_are_grouped_by_what_is_expected() -> None:
    expected = {"a": "comply", "b": "refuse", "c": "varies", "d": "comply"}
    scores = [score("m", split, 0.5, expectation=what) for split, what in expected.items()]
    text = shown(draw("heatmap", ["m"], list(expected), scores=scores).figure).split("\n")
    assert [line for line in text if line in expected] == ["b", "c", "a", "d"]
    bands = [line for line in text if line.startswith(("should", "may"))]
    assert bands == ["should refuse \u2191", "may vary", "should comply \u2193"]


def test_nothing_in_a_heatmap_is_bold() -> None:
    fig = draw("heatmap", 2, 3, scores=study(2, 3)[0]).figure
    assert {text.get_fontweight() for text in fig.findobj(Text)} == {"normal"}


def test_numbers_of_neighbouring_histograms_do_not_touch_where_names_of_models_are_long() -> None:
    scores, votes = study(2, 12)
    assert problems(draw("histograms", 2, 12, LONG, scores=scores, votes=votes).figure) == []


def test_the_reading_asked_for_is_shown() -> None:
    cell = score("a", "safe", 0.5) | {"strict": {"rate": 0.125, "low": 0.1, "high": 0.2}}
    drawn = draw("heatmap", ["a"], ["safe"], scores=[cell], reading="strict")
    assert "13\n" in shown(drawn.figure) and "strict where a model" in words(drawn)
    assert drawn.frame["reading"].tolist() == ["strict"]
    assert "no answer that counts" not in words(drawn)


def test_captions_say_how_well_the_judge_agrees_with_people() -> None:
    scores, votes = study(1, 2)
    for cards, note in (
        ([CARD], "people: kappa 0.52 strict (g, 101 answers)."),
        ([RARE], "people: accuracy 87.4 % strict, 90.0 % broad (g, 101 of 110 answers)."),
        ([CARD | {"judge": "x"}], "people: not measured."),
    ):
        for drawn in both(1, 2, scores=scores, votes=votes, cards=cards):
            assert note in words(drawn)


def test_ends_of_the_scale() -> None:
    scores = [score("a", "safe", 0.004), score("b", "safe", 0.999)]
    text = shown(draw("heatmap", ["a", "b"], ["safe"], scores=scores).figure).split("\n")
    assert "<1" in text and ">99" in text


def test_models_stand_as_listed_or_by_name_or_by_rate() -> None:
    scores = [score(name, "safe", rate) for name, rate in (("a", 0.2), ("b", None), ("c", 0.9))]
    labels = Labels(models={"a": "Zeta", "b": "alpha", "c": "Beta"})
    for order, wanted in (
        ("listed", ["alpha", "Zeta", "Beta"]),
        ("name", ["alpha", "Beta", "Zeta"]),
        ("rate", ["Beta", "Zeta", "alpha"]),
    ):
        text = shown(draw("heatmap", ["b", "a", "c"], ["safe"], labels, scores=scores, order=order).figure).split("\n")
        assert [line for line in text if line in wanted] == wanted


def test_histograms_show_n_and_marks() -> None:
    scores = [score("a", "safe", 0.5, flags=["truncated"]), score("b", "safe", 0.5)]
    drawn = draw("histograms", ["a", "b"], ["safe"], scores=scores, votes={("a", "safe"): [1.0, -1.0, 0.1]})
    text = shown(drawn.figure).split("\n")
    assert f"n=0{EN_DASH}3" in text and "‡" in text and EN_DASH in text
    assert drawn.frame.query("model == 'a'")["n"].tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]


def test_the_caption_of_histograms_tells_the_temperature_of_the_weights() -> None:
    scoring = {"tau": 0.25, "band": 0.1}
    drawn = draw("histograms", ["a"], ["safe"], scores=[score("a", "safe", 0.5)], scoring=scoring)
    assert "weighted by their probability (\u03c4 = 0.25)" in words(drawn)


def test_histograms_of_dialogues_count_turns() -> None:
    plain, talk = score("a", "safe", 0.5), score("a", "talks", 0.5, n=2, n_turns=4, scored="all")
    votes = {("a", "talks"): [1.0, -1.0, 0.1]}
    mixed = draw("histograms", ["a"], ["safe", "talks"], scores=[plain, talk], votes=votes)
    alone = draw("histograms", ["a"], ["safe"], scores=[plain], votes=votes)
    talks = draw("histograms", ["a"], ["talks"], scores=[talk], votes=votes)
    assert "Prompts or turns (%)" in shown(mixed.figure) and "n: prompts or turns with a c." in words(mixed)
    assert "Turns (%)" in shown(talks.figure) and "n: turns with a c." in words(talks)
    assert "Prompts (%)" in shown(alone.figure) and "n: prompts with a c." in words(alone)


def test_bins_of_c() -> None:
    # Bins of 0.2 around -1, -0.8, ... 1; the middle one is the mixed band with both its ends.
    values = [-1, -0.95, -0.8, -0.6, -0.2, -0.1, 0, 0.1, 0.11, 0.2, 0.6, 1]
    assert vote_counts(values) == [2, 1, 1, 0, 1, 3, 2, 0, 1, 0, 1]
    # A band of 0.28: bins of (1 - 0.28) / 4.5 = 0.16, from 0.28, 0.44, 0.6, 0.76, 0.92.
    assert vote_counts([0.28, 0.3, 0.5, 0.75, 0.8, 1], band=0.28) == [0] * 5 + [1, 1, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="between"):
        vote_counts([1.1])


def test_scores_of_other_judges_are_left_out() -> None:
    scores, _ = study(2, 2)
    others = [cell | {"judge": "llm"} for cell in scores]
    assert len(draw("heatmap", 2, 2, scores=scores + others).frame) == 4
    with pytest.raises(ValueError, match="exactly one judge"):
        draw("heatmap", 2, 2, scores=others)


def test_another_protocol_is_reported_by_the_figure_and_its_caption() -> None:
    scores, votes = study(1, 1)
    scores = [cell | {"protocol": "compat"} for cell in scores]
    for drawn in both(1, 1, scores=scores, votes=votes):
        assert "Protocol compat" in shown(drawn.figure) and "Protocol compat" in words(drawn)
        assert problems(drawn.figure) == []


def test_labels_are_never_formulas() -> None:
    labels = Labels(models={"a": r"$\frac{1}{$ costs $5"}, splits={"safe": r"\input{/etc/passwd}"})
    fig = draw("heatmap", ["a"], ["safe"], labels, scores=[score("a", "safe", 0.5)]).figure
    assert problems(fig) == [] and r"$\frac{1}{$" in shown(fig)


@pytest.mark.feature("battles")
def test_the_caption_of_battles_names_the_splits_that_the_language_model_judged_too() -> None:
    def wins(split: str, *voters: str) -> list[dict[str, Any]]:
        return [
            estimate(f"battle_wins{voter}", 0.5, split=split, parameter="refusal", flags=["few_clusters"])
            for voter in voters
        ]

    def of_battles(*splits: str) -> Drawn:
        rows = [*wins("arena", "", "_paired", "_llm"), *wins("people_only", "")]
        cells = [score("m", split, 0.5) for split in splits]
        return draw("battles", ["m"], [*splits], scores=cells, battles=rows)

    ties = "that the language model judged too, its ties included."
    assert f"In brackets: battles {ties}" in words(of_battles("arena"))
    assert "In brackets: battles. Intervals" in words(of_battles("people_only"))
    mixed = of_battles("arena", "people_only")
    assert f"In brackets: battles; of arena those {ties}" in words(mixed)
    assert mixed.frame["flags"].map(" ".join).tolist() == ["few_clusters"] * 3


@pytest.mark.feature("battles")
def test_what_battles_do_not_show_is_named_and_the_marks_of_both_voters_are() -> None:
    def wins(voter: str, name: str, flags: list[str]) -> dict[str, Any]:
        return estimate(f"battle_wins{voter}", 0.5, split="arena", parameter=name, flags=flags)

    rows = [wins("", "refusal", []), wins("_paired", "refusal", []), wins("_llm", "refusal", ["few_clusters"])]
    rows.append(wins("", "partial: policy", ["unjudged"]))
    labels, cells = (
        Labels(splits={"arena": "Arena", "empty": "Empty"}),
        [score("m", s, 0.5) for s in ("arena", "empty")],
    )
    drawn = draw("battles", ["m"], ["arena", "empty"], labels, scores=cells, battles=rows)
    assert "refusal (40*)" in shown(drawn.figure) and "* fewer than 30" in words(drawn) and "†" not in words(drawn)
    assert "In none of these battles, and so not shown: partial: policy on Arena." in drawn.caption.sentences
    assert "Without a battle of two labelled answers: Empty." in drawn.caption.sentences
    whole = draw("battles", ["m"], ["arena"], labels, scores=cells[:1], battles=rows[:3])
    assert "not shown" not in words(whole) and "Without" not in words(whole)
