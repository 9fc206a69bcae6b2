"""The trade-off figure: legible for few and many models, also where they lie on each other, and true."""

import itertools
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from figure_checks import LONG, draw, problems, score, shown, sizes, words
from matplotlib.patches import Polygon

from refusal_eval.core.errors import UserError
from refusal_eval.features.tradeoff.tradeoff_figure import place_texts
from refusal_eval.plots.style import save_figure
from refusal_eval.report.paper.display import Labels
from refusal_eval.stats.estimates.estimate import Estimate

SCORES = [score("model_00", "split_00", 0.1), score("model_00", "split_01", 0.9, headline="strict")]


Rows = dict[str, list[dict[str, Any]]]


def model_rows(model: str, x: float, y: float, on_front: bool) -> list[dict[str, Any]]:
    both, about = {"pool": "comply+refuse", "n_prompts": 90, "n_clusters": 90}, {"judge": "rules", "model": model}
    numbers: list[tuple[str, float, float, dict[str, Any]]] = [
        ("refusal_rate", x, 0.06, {"pool": "comply", "reading": "broad"}),
        ("refusal_rate", y, 0.06, {"pool": "refuse", "reading": "broad"}),
        ("youden_j", y - x, 0.1, both),
    ]
    plain = {"tradeoff_correlation": 0.0, "pareto_front": float(on_front), "pareto_front_share": 0.25}
    least = {"youden_j": -1.0}
    found = [
        Estimate(name, value, max(least.get(name, 0.0), value - by), min(1.0, value + by), 0.95, "m", **about, **own)
        for name, value, by, own in numbers
    ]
    found += [Estimate(name, value, **about, **both) for name, value in plain.items()]
    return [row.row() for row in found]


def found(points: list[tuple[float, float]]) -> Rows:
    front = [not any(a <= x and b >= y and (a, b) != (x, y) for a, b in points) for x, y in points]
    rows = [row for i, (x, y) in enumerate(points) for row in model_rows(f"model_{i:02d}", x, y, front[i])]
    return {"estimates": rows}


def mark(data: Rows, number: int, flag: str, *estimands: str) -> None:
    """Mark these numbers of a model."""
    for row in data["estimates"]:
        if row["model"] == f"model_{number:02d}" and row["estimand"] in estimands:
            row["flags"] = [flag]


def take_away(data: Rows, number: int) -> None:
    """Take away the J of a model that has no rate on a split."""
    keep = [row for row in data["estimates"] if row["model"] != f"model_{number:02d}"]
    none = Estimate("youden_j", None, judge="rules", model=f"model_{number:02d}", pool="comply+refuse").row()
    data["estimates"] = [*keep, none]


@pytest.mark.parametrize(
    ("models", "labels"), sizes((8, LONG), (20, None), full=[(1, None), (2, LONG), (8, None), (20, LONG)])
)
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.5])
def test_trade_off_is_legible(models: int, labels: Labels | None, spread: float) -> None:
    rng = random.Random(models)
    points = [(0.1 + spread * rng.random(), 0.95 - spread * rng.random()) for _ in range(models)]
    drawn = draw("tradeoff", models, 2, labels, scores=SCORES, tradeoff=found(points))
    assert problems(drawn.figure) == []
    most = 8.5 if models <= 8 else 17.5
    assert drawn.figure.get_figwidth() * 2.54 <= most + 0.01 and drawn.figure.get_figheight() * 2.54 < 22
    (ax,) = drawn.figure.axes
    assert ax.get_xlim() == ax.get_ylim()
    box, (wide, high) = ax.get_position(), drawn.figure.get_size_inches()
    assert box.width * wide == pytest.approx(box.height * high, rel=0.01)
    text = shown(drawn.figure)
    if drawn.figure.legends:  # each model has its number in the panel and in the list of names
        numbers = [line.split("\u2007")[0] for line in text.replace("\n\u2007", "\n").split("\n")]
        assert all(numbers.count(str(i)) >= 2 for i in range(1, models + 1))
    assert models > 8 or spread < 0.5 or labels is not None or not drawn.figure.legends


def test_up_to_eight_models_are_named_at_their_points() -> None:
    data = found([(0.1 * i, 0.2 + 0.1 * i) for i in range(8)])
    drawn = draw("tradeoff", 8, 2, scores=SCORES, tradeoff=data)
    assert not drawn.figure.legends and {f"model_0{i}" for i in range(8)} <= set(shown(drawn.figure).split("\n"))
    assert "safety" not in (words(drawn) + shown(drawn.figure)).lower()


def test_the_data_and_the_caption_say_what_is_drawn() -> None:
    drawn = draw("tradeoff", 2, 2, scores=SCORES, tradeoff=found([(0.1, 0.9), (0.2, 0.5)]))
    assert drawn.frame[["model", "over_refusal", "safety", "on_front"]].to_numpy().tolist() == [
        ["model_00", 0.1, 0.9, True],
        ["model_01", 0.2, 0.5, False],
    ]
    text = " ".join(drawn.caption.sentences)
    assert "split_00 (broad)" in text and "split_01 (strict)" in text and "model_00 25 %" in text
    assert "model_01 25 %" not in text and "an ellipse" in text


def test_the_caption_says_where_a_paper_has_another_axis() -> None:
    data = found([(0.1, 0.9), (0.2, 0.5)])
    other = draw("tradeoff", 2, 2, scores=SCORES, tradeoff=data | {"weighed_against": {"split_00": "1 - ASR"}})
    sentence = "In the paper of split_00 the other axis is 1 - ASR: another quantity"
    assert sentence in " ".join(other.caption.sentences) and sentence in " ".join(other.caption.short)
    assert "another quantity" not in words(draw("tradeoff", 2, 2, scores=SCORES, tradeoff=data))


def test_the_caption_tells_the_reading_that_each_split_has() -> None:
    scores = [
        score("model_00", "split_00", 0.1, headline="strict"),
        score("model_00", "split_01", 0.9, headline="broad"),
        score("model_00", "split_04", 0.9, headline="strict"),
    ]
    splits = {"split_00": "comply", "split_01": "refuse", "split_04": "refuse"}
    readings = {str(cell["split"]): cell["headline"] for cell in scores}
    listed = [{"name": name, "expectation": e, "reading": readings[name]} for name, e in splits.items()]
    data = found([(0.1, 0.9)])
    for row in data["estimates"]:
        if row["estimand"] == "refusal_rate":
            row["reading"] = "strict" if row["pool"] == "comply" else "headline"
    text = words(draw("tradeoff", 1, list(splits), scores=scores, tradeoff=data, splits_of=listed))
    assert (
        "refusal rates on split_00 (strict). Should be declined: mean of those on split_01 (broad), split_04 (strict)."
        in text
    )


def test_the_caption_says_whose_the_front_is_where_models_are_not_shown() -> None:
    data = found([(0.1, 0.9), (0.2, 0.5), (0.3, 0.4)])
    shown_of = "Shown are 1 of the study's 3 models; the front and the shares are those of all 3"
    scores = [{**cell, "model": model} for model in ("model_00", "model_01", "model_02") for cell in SCORES]
    one = draw("tradeoff", ["model_01"], 2, scores=scores, tradeoff=data)
    assert shown_of in " ".join(one.caption.sentences)
    assert "Pareto front" not in words(one), "neither the line nor a filled dot is drawn"
    mark(data, 1, "unjudged", "pareto_front", "pareto_front_share")
    assert "†" not in words(draw("tradeoff", ["model_01"], 2, scores=scores, tradeoff=data)), "no share is printed"
    every = draw("tradeoff", 3, 2, scores=scores, tradeoff=data)
    at_shares = "A mark at a share is that of any model that decides it."
    assert "filled dots: the Pareto front" in words(every) and "†" not in words(every) and at_shares not in words(every)
    mark(data, 0, "unjudged", "pareto_front", "pareto_front_share")
    marked = words(draw("tradeoff", 3, 2, scores=scores, tradeoff=data))
    assert "model_00 25 %†." in marked and at_shares in marked
    assert "not shown" not in " ".join(every.caption.sentences)


def test_models_without_both_rates_are_left_out() -> None:
    data = found([(0.1, 0.9), (0.2, 0.5)])
    take_away(data, 1)
    drawn = draw("tradeoff", 2, 2, scores=SCORES, tradeoff=data)
    assert drawn.frame["model"].tolist() == ["model_00"]
    assert "Without a rate of both kinds, and so not shown: model_01." in drawn.caption.sentences
    take_away(data, 0)
    with pytest.raises(UserError, match="no model has both"):
        draw("tradeoff", 2, 2, scores=SCORES, tradeoff=data)


def test_lines_to_numbers_of_crowded_points_do_not_cross_and_numbers_do_not_touch() -> None:
    rng = random.Random(4)
    panel = (0.0, 0.0, 200.0, 170.0)
    for spread in (0.0, 6.0, 20.0, 60.0):
        points = [(30 + spread * rng.random(), 20 + spread * rng.random()) for _ in range(20)]
        placed = place_texts(points, [(4.4, 2.8)] * len(points), [], panel)
        lines = [(number.at, point) for number, point in zip(placed, points, strict=True) if number.line]
        assert lines or spread > 6.0
        for one, two in itertools.combinations(lines, 2):
            assert not crossing(one, two), (spread, one, two)
        for a, b in itertools.combinations([number.at for number in placed], 2):
            assert abs(a[0] - b[0]) >= 8.8 or abs(a[1] - b[1]) >= 5.6
        for x, y in (number.at for number in placed):
            assert panel[0] < x < panel[2] and panel[1] < y < panel[3]
            assert all(abs(x - a) >= 4.4 or abs(y - b) >= 2.8 for a, b in points)


def crossing(one: Any, two: Any) -> bool:
    """Whether two segments cross, by where their lines meet."""
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = *one, *two
    whole = (bx - ax) * (dy - cy) - (by - ay) * (dx - cx)
    if abs(whole) < 1e-9:
        return False
    s = ((cx - ax) * (dy - cy) - (cy - ay) * (dx - cx)) / whole
    t = ((cx - ax) * (by - ay) - (cy - ay) * (bx - ax)) / whole
    return 1e-6 < s < 1 - 1e-6 and 1e-6 < t < 1 - 1e-6


def test_names_have_the_marks_of_their_cells_and_lists_are_unambiguous() -> None:
    scores = [
        score("model_00", "split_00", 0.1, flags=["truncated"]),
        score("model_00", "split_01", 0.9),
        score("model_00", "split_02", 0.5, flags=["unjudged"]),  # in no part of the figure
    ]
    labels = Labels(models={"model_00": "One, told to decline"})
    drawn = draw("tradeoff", 2, 3, labels, scores=scores, tradeoff=found([(0.1, 0.9), (0.2, 0.95)]))
    text = " ".join(drawn.caption.sentences)
    assert "One, told to decline‡" in shown(drawn.figure) and "‡ more than 20 %" in text and "†" not in text
    assert "One, told to decline 25 %; model_01 25 %." in text and "Prompts: 60 per split." in text


def test_the_number_of_a_label_that_is_read_from_right_to_left_stands_before_it(tmp_path: Path) -> None:
    labels = Labels(models={"model_00": "\u0646\u0645\u0648\u0630\u062c 7", "model_01": "plain 7"})
    data = found([(0.1, 0.9), (0.2, 0.5), *((0.3 + 0.05 * i, 0.4) for i in range(7))])
    drawn = draw("tradeoff", 9, 2, labels, scores=SCORES, tradeoff=data)
    names = [text.get_text() for text in drawn.figure.legends[0].get_texts()]
    assert names[:2] == ["1\u2007\u2068\u0646\u0645\u0648\u0630\u062c 7\u2069", "2\u2007plain 7"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of characters that the font lacks
        save_figure(drawn.figure, tmp_path / "figure")
    assert "\u2068" not in words(drawn) and "\u0646\u0645\u0648\u0630\u062c 7 25 %" in words(drawn)


def test_a_model_whose_pools_have_few_clusters_is_marked_though_its_cells_are_not() -> None:
    data = found([(0.1, 0.9), (0.2, 0.95)])
    mark(data, 1, "few_clusters", "youden_j")
    scores = [*SCORES, *({**cell, "model": "model_01", "flags": ["mixed_serving"]} for cell in SCORES)]
    drawn = draw("tradeoff", 2, 2, scores=scores, tradeoff=data)
    assert {"model_00", "model_01*\u00a7"} <= set(shown(drawn.figure).split("\n"))
    assert "* fewer than 30 independent clusters" in " ".join(drawn.caption.sentences)


def test_of_many_models_only_those_on_the_front_have_a_region() -> None:
    rng = random.Random(2)
    for models, regions in ((8, 8), (20, None)):
        data = found([(0.05 + 0.2 * rng.random(), 0.95 - 0.2 * rng.random()) for _ in range(models)])
        drawn = draw("tradeoff", models, 2, scores=SCORES, tradeoff=data)
        front = sum(row["value"] == 1 for row in data["estimates"] if row["estimand"] == "pareto_front")
        outlines = [patch for patch in drawn.figure.findobj(Polygon) if not patch.get_fill()]
        assert len(outlines) == (regions or front) and 0 < front < models
        assert ("Regions (of models on the front)" in " ".join(drawn.caption.sentences)) == (models > 8)
        assert set(drawn.frame["region"]) != {""}  # all are in the data


def test_a_line_leads_through_the_models_of_a_dose_response_curve() -> None:
    points = [(0.3, 0.9), (0.1, 0.5), (0.2, 0.7)]
    curves = {"refusal": {"model_01": -1.0, "model_02": 0.0, "model_00": 1.0}, "chance": {"model_02": 0.0}}
    drawn = draw("tradeoff", 3, 2, scores=SCORES, tradeoff=found(points), curves=curves)
    (ax,) = drawn.figure.axes
    lines = [[round(x) for x in line.get_xdata()] for line in ax.lines]
    assert [10, 20, 30] in lines  # over-refusal in percent, in the order of the scales
    assert "differ in the scale of their intervention only" in words(drawn)
    assert "scale of their intervention" not in words(draw("tradeoff", 3, 2, scores=SCORES, tradeoff=found(points)))
