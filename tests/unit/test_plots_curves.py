"""Tau sweep and turns: legible for few and many, and true."""

import itertools
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from estimate_rows import rows_of, single, units_in
from figure_checks import LONG, draw, estimate, problems, score, shown, sizes, study, words

from refusal_eval.config.figure_entry import Shown
from refusal_eval.config.kinds import FIGURES
from refusal_eval.core.errors import UserError
from refusal_eval.plots.figure_data import FigureData
from refusal_eval.plots.style import GREY, figure_style
from refusal_eval.plots.threshold_figure import detection, shares
from refusal_eval.report.paper.display import Labels
from refusal_eval.stats.estimates.units import Units

TAUS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, "inf")


def sweep(models: int, splits: int, estimand: str = "c_mean") -> list[dict[str, Any]]:
    return [
        estimate(
            estimand, 0.6 - 0.05 * i - 0.1 * j - 0.02 * k, model=f"model_{i:02d}", split=f"split_{j:02d}", parameter=tau
        )
        for i in range(models) for j in range(splits) for k, tau in enumerate(TAUS)
    ]  # fmt: skip


def turns(models: int, splits: int) -> list[dict[str, Any]]:
    return [
        estimate(
            "refusal_rate_turn", 0.9 - 0.02 * i - 0.1 * turn, model=f"model_{i:02d}", split=f"split_{j:02d}",
            reading=reading, parameter=turn,
        )
        for i in range(models) for j in range(splits) for turn in range(5) for reading in ("strict", "broad")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("models", "splits", "labels"),
    sizes((2, 3, None), (8, 12, None), full=[(1, 1, None), (2, 2, LONG), (8, 8, LONG), (20, 3, LONG)]),
)
def test_curves_are_legible(models: int, splits: int, labels: Labels | None) -> None:
    scores, _ = study(models, splits)
    for drawn in (
        draw("tau_sweep", models, splits, labels, scores=scores, estimates=sweep(models, splits)),
        draw("turns", models, splits, labels, scores=scores, estimates=turns(models, splits)),
    ):
        assert problems(drawn.figure) == [] and drawn.figure.get_figheight() * 2.54 <= 22
        panels = len(drawn.figure.axes)
        assert panels == (splits if models <= 8 else models)
        assert drawn.figure.get_figwidth() * 2.54 == pytest.approx(8.5 if panels <= 2 else 17.5)


def test_more_curves_than_can_be_told_apart_are_refused() -> None:
    scores, _ = study(9, 9)
    with pytest.raises(UserError, match="at most 8 curves"):
        draw("tau_sweep", 9, 9, scores=scores, estimates=sweep(9, 9))


def test_the_sweep_names_the_studys_own_tau_and_equal_weights() -> None:
    drawn = draw("tau_sweep", 1, 1, scores=[score("model_00", "split_00", 0.5)], estimates=sweep(1, 1))
    assert "\u221e" in shown(drawn.figure) and "\u03c4 = 1, that of the study" in words(drawn)
    assert drawn.frame["tau"].tolist() == list(TAUS)


def test_the_share_of_a_band_can_be_swept() -> None:
    rows = sweep(1, 1, "c_band_mixed")
    drawn = draw("tau_sweep", 1, 1, scores=[score("model_00", "split_00", 0.5)], estimates=rows, measure="mixed")
    assert "Prompts mixed (%)" in shown(drawn.figure) and len(drawn.frame) == len(TAUS)


def test_turns_are_counted_from_one_and_follow_the_reading() -> None:
    scores = [score("model_00", "split_00", 0.5)]
    drawn = draw("turns", 1, 1, scores=scores, estimates=turns(1, 1), reading="strict")
    assert drawn.frame["turn"].tolist() == [1, 2, 3, 4, 5] and set(drawn.frame["reading"]) == {"strict"}


def test_the_caption_says_where_turns_are_those_of_fewer_dialogues() -> None:
    scores, rows = [score("model_00", f"split_0{i}", 0.5) for i in (0, 1)], turns(1, 2)
    drawn = draw("turns", 1, 2, scores=scores, estimates=rows, reading="broad")
    assert "not of the same dialogues" not in words(drawn)
    for row in rows:
        row["n_prompts"] -= 10 * (row["parameter"] > 2 and row["split"] == "split_01")
    drawn = draw("turns", 1, 2, scores=scores, estimates=rows, reading="broad")
    assert drawn.caption.sentences[-1] == (
        "Rates of turns with different numbers of dialogues are not of the same dialogues: split_01 (turn 1: 40, "
        "turn 2: 40, turn 3: 40, turn 4: 30, turn 5: 30)."
    )


def test_a_model_with_the_name_of_a_split_leaves_that_splits_title_alone() -> None:
    scores = [score("safety", "safety", 0.5, expectation="refuse"), score("base", "safety", 0.5, expectation="refuse")]
    rows = [row | {"model": row["model"].replace("model_00", "safety"), "split": "safety"} for row in turns(1, 1)]
    labels = Labels(models={"safety": "Our tuned model"}, splits={"safety": "Safety dialogues"})
    drawn = draw("turns", ["safety", "base"], ["safety"], labels, scores=scores, estimates=rows)
    (ax,) = drawn.figure.axes
    assert ax.get_title(loc="left") == "Safety dialogues (refuse\u2191)"
    assert [text.get_text() for text in drawn.figure.legends[0].get_texts()] == ["Our tuned model", "base"]


def test_a_point_without_a_value_is_a_gap_in_its_curve_and_named() -> None:
    rows = [row for row in turns(2, 2) if row["reading"] == "broad"]
    for row in rows:
        cell = (row["model"], row["split"])
        if cell == ("model_01", "split_01") or (*cell, row["parameter"]) == ("model_00", "split_00", 2):
            row |= {"value": None, "low": None, "high": None}
    cells, labels = study(2, 2)[0], Labels(models={"model_00": "Ours"}, splits={"split_01": "Talks"})
    drawn = draw("turns", 2, 2, labels, scores=cells, estimates=rows, reading="broad")
    values = [line.get_ydata() for line in drawn.figure.axes[0].lines if len(line.get_ydata()) == 5]
    assert [pd.isna(line).tolist() for line in values] == [[False, False, True, False, False], [False] * 5]
    assert "Without a number, and so not shown: model_01 on Talks." in drawn.caption.sentences
    assert "Without a number at some points: Ours on split_00." in drawn.caption.sentences
    assert "Without a number" not in words(draw("turns", 2, 2, scores=cells, estimates=turns(2, 2), reading="broad"))


def test_the_sweep_names_cells_that_have_no_c() -> None:
    rows = sweep(1, 2)
    for row in rows[len(TAUS) :]:
        row |= {"value": None, "low": None, "high": None}
    drawn = draw("tau_sweep", 1, 2, scores=study(1, 2)[0], estimates=rows)
    assert "Without a number, and so not shown: model_00 on split_01." in drawn.caption.sentences


def test_captions_of_curves_say_how_dialogues_count() -> None:
    talk = score("model_00", "split_00", 0.5, n=2, n_turns=6, scored="all")
    prompts, answers, verdicts = rows_of(single("R", "C"))
    for row in verdicts:
        row["p_refusal"] = 0.5
    units = {("model_00", "split_00"): units_in(prompts, answers, verdicts, 1, expectation="varies")}
    swept = draw("tau_sweep", 1, 1, scores=[talk], estimates=sweep(1, 1))
    mixed = draw("tau_sweep", 1, 1, scores=[talk], estimates=sweep(1, 1, "c_band_mixed"), measure="mixed")
    reached = draw("threshold", 1, 1, scores=[talk], units=units)
    by_turn = draw("turns", 1, 1, scores=[talk], estimates=turns(1, 1))
    assert "Mean over prompts (scored turns in dialogues) of c(x)" in words(swept)
    assert "Share of prompts (scored turns in dialogues) with |c(x)| at most 0.1" in words(mixed)
    assert "Mean over prompts (scored turns in dialogues) of the share of K" in words(reached)
    assert "Refusal rate of a turn: mean over dialogues of the share of refusals" in words(by_turn)
    plain = draw("tau_sweep", 1, 1, scores=[score("model_00", "split_00", 0.5)], estimates=sweep(1, 1))
    assert "Mean over prompts of c(x)" in words(plain) and "dialogues" not in words(plain)


def test_turns_carry_the_marks_of_their_own_answers() -> None:
    scores, rows = [score("model_00", f"split_0{i}", 0.5, flags=["few_clusters"]) for i in (0, 1)], turns(1, 2)
    for row in rows:
        if (row["split"], row["reading"], row["parameter"]) == ("split_00", "broad", 3):
            row["flags"] = ["unjudged", "truncated"]
    drawn = draw("turns", 1, 2, scores=scores, estimates=rows, reading="broad")
    titles = [ax.get_title(loc="left") for ax in drawn.figure.axes]
    assert titles == ["split_00 (comply\u2193)†‡", "split_01 (refuse\u2191)"]
    assert [sentence[0] for sentence in drawn.caption.sentences if sentence[0] in "†‡*"] == ["†", "‡"]
    at_titles = "A mark at a title applies to at least one point below it."
    assert at_titles in words(drawn)
    assert at_titles not in words(draw("turns", 1, 2, scores=scores, estimates=turns(1, 2), reading="broad"))
    assert drawn.frame["flags"].map(" ".join).tolist() == ["", "", "", "unjudged truncated", *[""] * 6]


def test_points_of_the_sweep_carry_their_own_marks() -> None:
    rows = sweep(1, 1)
    rows[2]["flags"] = ["few_clusters", "blocked_left_out"]
    drawn = draw("tau_sweep", 1, 1, scores=[score("model_00", "split_00", 0.5, flags=["unjudged"])], estimates=rows)
    assert "split_00 (comply\u2193)*" in shown(drawn.figure) and "†" not in words(drawn)
    assert "A mark at a title applies to at least one point below it." in words(drawn)
    assert drawn.frame["flags"].map(" ".join).tolist() == ["", "", "few_clusters blocked_left_out", "", "", "", ""]


def test_a_study_without_these_estimates_says_so() -> None:
    scores = [score("model_00", "split_00", 0.5)]
    with pytest.raises(UserError, match="no estimates by turn"):
        draw("turns", 1, 1, scores=scores, estimates=sweep(1, 1))
    with pytest.raises(UserError, match="no estimates of c_mean"):
        draw("tau_sweep", 1, 1, scores=scores, estimates=turns(1, 1))


# ---------------------------------------------------------------- dose response

SCALES = (-1.0, -0.5, -0.25, 0.0, 0.5, 1.0, 2.0)


def doses(curves: int, splits: int) -> tuple[list[dict[str, Any]], dict[str, dict[str, float]]]:
    """Scores of steered models on splits, and their curves, which share the model at scale 0."""
    scores, found = [], {}
    for i in range(curves):
        label = f"refusal, weighted means, add, layers {i}\u2013{i + 3}" if i else "random, add, layers 0\u20133"
        found[label] = {f"model_{i}_{k}" if scale else "model_plain": scale for k, scale in enumerate(SCALES)}
        for model, scale in found[label].items():
            rates = [min(1.0, max(0.0, 0.5 + scale * i / 4 - 0.05 * j)) for j in range(splits)]
            scores += [score(model, f"split_{j:02d}", rate) for j, rate in enumerate(rates) if scale or not i]
    return scores, found


@pytest.mark.parametrize(("curves", "splits"), sizes((2, 3), full=[(1, 1), (2, 2), (8, 3), (4, 12)]))
def test_dose_response_is_legible(curves: int, splits: int) -> None:
    scores, found = doses(curves, splits)
    models = sorted({model for scales in found.values() for model in scales})
    drawn = draw("dose_response", models, splits, scores=scores, curves=found)
    assert problems(drawn.figure) == [] and drawn.figure.get_figheight() * 2.54 <= 22
    assert len(drawn.figure.axes) == splits


def test_a_dose_response_curve_has_the_plain_model_at_0_and_true_distances() -> None:
    scores, found = doses(2, 1)
    models = sorted({model for scales in found.values() for model in scales})
    drawn = draw("dose_response", models, 1, scores=scores, curves=found)
    frame = drawn.frame[drawn.frame["curve"].str.startswith("refusal")]
    assert frame["scale"].tolist() == list(SCALES)
    assert frame["value"].tolist() == [0.25, 0.375, 0.4375, 0.5, 0.625, 0.75, 1.0]
    assert frame["model"].tolist()[3] == "model_plain"
    (ax,) = drawn.figure.axes
    assert ax.get_xticks().tolist() == list(SCALES)
    grey = [line for line in ax.lines if line.get_markerfacecolor() == GREY and len(line.get_xdata()) == 1]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in grey] == [(0.0, 50.0)], "drawn once, not dodged"
    assert "no intervention" in shown(drawn.figure)
    scale = "Scale of 1: as far as the two sides' means lie apart; at the dashed line nothing is changed."
    assert scale in words(drawn)  # true of a random direction, too


def test_only_models_of_a_curve_mark_a_dose_response() -> None:
    scores, found = doses(1, 1)
    scores[0]["flags"] = ["truncated"]
    models = [*next(iter(found.values())), "other"]
    scores.append(score("other", "split_00", 0.5, flags=["unjudged"]))
    drawn = draw("dose_response", models, 1, scores=scores, curves=found)
    assert "split_00 (comply\u2193)‡" in shown(drawn.figure) and "†" not in shown(drawn.figure) + words(drawn)
    assert "A mark at a title applies to at least one point below it." in words(drawn)
    assert drawn.frame["flags"].map(" ".join).tolist() == ["truncated", *[""] * 6]


def test_a_scale_without_a_rate_is_a_gap_and_named() -> None:
    scores, found = doses(1, 1)
    scores[4]["broad"] = {"rate": None, "low": None, "high": None}
    drawn = draw("dose_response", [*next(iter(found.values()))], 1, scores=scores, curves=found)
    (values,) = [line.get_ydata() for line in drawn.figure.axes[0].lines if len(line.get_ydata()) == len(SCALES)]
    assert pd.isna(values).tolist() == [scale == 0.5 for scale in SCALES]
    assert "Without a number, and so not shown: model_0_4 on split_00." in drawn.caption.sentences


def test_models_that_make_no_curve_are_not_drawn() -> None:
    with pytest.raises(UserError, match="no models differ in the scale of their intervention only"):
        draw("dose_response", 1, 1, scores=[score("model_00", "split_00", 0.5)], curves={})


# ---------------------------------------------------------------- separation

ALL = ["auc", "silhouette", "davies_bouldin", "calinski_harabasz", "xie_beni", "dunn"]


def separation(models: int, layers: int) -> pd.DataFrame:
    """Indices of models by layer; `dunn` has no interval."""
    rows = []
    for i, layer, (k, index) in itertools.product(range(models), range(layers), enumerate(ALL)):
        value = (k + 1) * (1 + 0.1 * i + (layer - layers / 2) ** 2 / 100)
        ends = {"low": None, "high": None} if index == "dunn" else {"low": 0.9 * value, "high": 1.1 * value}
        about = {"model": f"model_{i:02d}", "layer": layer, "index": index, "null": 0.5, "p": 0.01}
        rows.append({**about, "value": value, **ends, "n_positive": 24, "n_negative": 30})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("models", "layers", "indices"), sizes((2, 28, ALL[:3]), full=[(1, 12, ["auc"]), (8, 80, ALL)])
)
def test_separation_is_legible(models: int, layers: int, indices: list[str]) -> None:
    drawn = draw("separation", models, 0, separation=separation(models, layers), indices=indices)
    assert problems(drawn.figure) == [] and drawn.figure.get_figheight() * 2.54 <= 22
    assert len(drawn.figure.axes) == len(indices)
    assert len(drawn.frame) == models * layers * len(indices)
    assert "Groups of 24 and 30 prompts" in words(drawn)


def test_separation_of_models_without_indices_is_not_drawn() -> None:
    with pytest.raises(UserError, match="there are no indices of these models to draw"):
        draw("separation", ["another"], 0, separation=separation(1, 2))


@pytest.mark.parametrize("model", ["null", "nan", "1"])
def test_a_model_whose_name_looks_like_no_value_or_a_number_is_in_the_figure(tmp_path: Path, model: str) -> None:
    path = tmp_path / "far.csv"
    separation(1, 2).assign(model=model).to_csv(path, index=False)
    figure: Any = FIGURES.get("separation")(name="f", kind="separation", separation="far", indices=["auc", "dunn"])
    with figure_style():
        drawn = figure.draw(FigureData(figure, Shown([], [model]), files={"separation": [str(path)]}))
    assert drawn.frame["model"].tolist() == [model] * 4
    assert drawn.frame["low"].isna().tolist() == [False, False, True, True]


# ---------------------------------------------------------------- thresholds


def test_the_share_of_answers_that_reach_each_threshold() -> None:
    names = {"judge": "rules", "model": "m", "split": "s", "expectation": "comply", "max_tokens": 64}
    prompts, answers, verdicts = rows_of(single("RC", "CC", "CF"))
    for row, p in zip(verdicts, (0.9, 0.2, 0.5, 0.1, 0.3), strict=True):
        row["p_refusal"] = p
    found = {row["threshold"]: row for row in shares(units_in(prompts, answers, verdicts, 2, **names))}
    assert [found[t]["value"] for t in (0.0, 0.25, 0.5, 0.95)] == pytest.approx([1, 2 / 3, 1 / 3, 0])
    assert found[0.25]["n_prompts"] == 3 and found[0.25]["low"] < 2 / 3 < found[0.25]["high"]
    for row in verdicts:
        row["p_refusal"] = None
    assert shares(units_in(prompts, answers, verdicts, 2, **names)) == []


def test_cells_without_a_probability_are_named() -> None:
    names = {"judge": "rules", "expectation": "varies", "max_tokens": 64}
    cells = {}
    for split, p in (("split_00", 0.9), ("split_01", None)):
        prompts, answers, verdicts = rows_of(single("R", "C"))
        for row in verdicts:
            row["p_refusal"] = p
        cells["model_00", split] = units_in(prompts, answers, verdicts, 1, model="model_00", split=split, **names)
    drawn = draw("threshold", 1, 2, scores=study(1, 2)[0], units=cells)
    assert set(drawn.frame["split"].dropna()) == {"split_00"}
    assert "Without a number, and so not shown: model_00 on split_01." in drawn.caption.sentences


def test_precision_recall_and_over_refusal_by_category_at_each_threshold() -> None:
    def cell(split: str, expectation: str, categories: list[str], values: list[float | None]) -> Units:
        names = {"judge": "rules", "model": "m", "split": split, "expectation": expectation, "max_tokens": 64}
        prompts, answers, verdicts = rows_of(single(*["R"] * len(values)))
        for row, category in zip(prompts, categories, strict=True):
            row["category"], row["id"] = category, f"{split}-{row['id']}"
        for row, answer, p in zip(verdicts, answers, values, strict=True):
            row["p_refusal"] = p
            row["prompt_id"] = answer["prompt_id"] = f"{split}-{row['prompt_id']}"
        return units_in(prompts, answers, verdicts, 1, **names)

    harmful = cell("harmful", "refuse", ["a", "a", "b", "b"], [0.9, 0.4, 0.8, None])
    harmless = cell("harmless", "comply", ["a", "a", "b", "c"], [0.6, 0.1, 0.1, 0.7])
    rows = detection([harmful, harmless], {"harmful": "harmful", "harmless": "harmless"})
    found = {(row["measure"], row["category"], row["threshold"]): row for row in rows}
    assert found["recall", "", 0.5]["value"] == pytest.approx(2 / 3)
    assert found["over_refusal", "", 0.5]["value"] == pytest.approx(2 / 4)
    assert found["precision", "", 0.5]["value"] == pytest.approx(2 / 4)
    assert found["precision", "a", 0.5]["value"] == pytest.approx(1 / 2)
    assert found["precision", "b", 0.5]["value"] == 1 and found["precision", "c", 0.5]["value"] == 0
    assert found["recall", "b", 0.5]["n_prompts"] == 1, "without a probability it does not count"
    assert ("recall", "c", 0.5) not in found and ("precision", "a", 0.95) not in found
    row = found["recall", "", 0.5]
    assert row["low"] < row["value"] < row["high"] and row["n_clusters"] == 3
    assert detection([cell("sensitive", "varies", ["a"], [0.9])], {}) == []


def test_equal_cluster_names_of_two_sources_are_two_clusters_at_each_threshold() -> None:
    cells = []
    for split in ("strongreject", "sorrybench"):
        names = [f"{split}-{i}" for i in range(10)]
        rows = rows_of({(name, 0): "R" for name in names}, clusters=dict(zip(names, "0123456789", strict=True)))
        for i, verdict in enumerate(rows[2]):
            verdict["p_refusal"] = 0.9 if i % 2 else 0.1
        cells.append(units_in(*rows, 1, split=split, expectation="refuse"))

    def recall(*sources: str) -> tuple[int, float]:
        rows = detection(cells, dict(zip(("strongreject", "sorrybench"), sources, strict=True)))
        (row,) = (row for row in rows if (row["measure"], row["threshold"]) == ("recall", 0.5))
        return row["n_clusters"], round(row["low"], 3)

    assert recall("strongreject", "sorrybench") == (20, 0.284)
    assert recall("both", "both") == (10, 0.199)
