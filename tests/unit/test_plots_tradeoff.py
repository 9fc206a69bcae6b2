"""The trade-off figure: legible for few and many models, also where they lie on each other, and true."""

import math
import random
from typing import Any

import pytest
from figure_checks import LONG, plot, problems, score, shown

from refusal_eval.display import Labels
from refusal_eval.errors import UserError
from refusal_eval.plots.tradeoff import trade_off_figure

SCORES = [score("model_00", "split_00", 0.1), score("model_00", "split_01", 0.9)]


def entry(model: str, x: float, y: float, **more: Any) -> dict[str, Any]:
    angles = [2 * math.pi * i / 24 for i in range(25)]
    outline = [[min(1, max(0, x + 0.08 * math.cos(a))), min(1, max(0, y + 0.05 * math.sin(a)))] for a in angles]
    parts = {
        name: {"value": value, "low": max(0, value - 0.06), "high": min(1, value + 0.06)}
        for name, value in (("over_refusal", x), ("safety", y))
    }
    j = {"value": y - x, "low": y - x - 0.1, "high": y - x + 0.1}
    rest = {
        "correlation": 0.0,
        "region": outline,
        "on_front": False,
        "front_share": 0.25,
        "n_prompts": 9,
        "n_clusters": 9,
    }
    return {"judge": "rules", "model": model, **parts, "youden_j": j, **rest} | more


def found(points: list[tuple[float, float]]) -> dict[str, Any]:
    front = [not any(a <= x and b >= y and (a, b) != (x, y) for a, b in points) for x, y in points]
    models = [entry(f"model_{i:02d}", x, y, on_front=front[i]) for i, (x, y) in enumerate(points)]
    splits = {"comply": ["split_00"], "refuse": ["split_01"], "varies": []}
    return {"level": 0.95, "region": "an ellipse", "method": "a bootstrap", "models": models, "splits": splits}


@pytest.mark.parametrize(("models", "labels"), [(1, None), (2, LONG), (8, None), (8, LONG), (20, None), (20, LONG)])
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.5])
def test_trade_off_is_legible(models: int, labels: Labels | None, spread: float) -> None:
    rng = random.Random(models)
    points = [(0.1 + spread * rng.random(), 0.95 - spread * rng.random()) for _ in range(models)]
    drawn = trade_off_figure(SCORES, found(points), [], plot("tradeoff", models, 2, labels))
    assert problems(drawn.figure) == []
    assert drawn.figure.get_figwidth() * 2.54 == pytest.approx(8.5) and drawn.figure.get_figheight() * 2.54 < 22
    numbers = shown(drawn.figure).split("\n")
    # Each model has its number in the panel and in the list of names.
    assert all(numbers.count(str(i)) >= 2 for i in range(1, models + 1))


def test_the_data_and_the_caption_say_what_is_drawn() -> None:
    drawn = trade_off_figure(SCORES, found([(0.1, 0.9), (0.2, 0.5)]), [], plot("tradeoff", 2, 2))
    assert drawn.frame[["model", "over_refusal", "safety", "on_front"]].to_numpy().tolist() == [
        ["model_00", 0.1, 0.9, True],
        ["model_01", 0.2, 0.5, False],
    ]
    text = " ".join(drawn.caption.sentences)
    assert "split_00 (broad)" in text and "split_01 (strict)" in text and "model_00 25 %" in text
    assert "model_01 25 %" not in text and "an ellipse" in text


def test_models_without_both_rates_are_left_out() -> None:
    data = found([(0.1, 0.9), (0.2, 0.5)])
    data["models"][1] |= {"safety": None, "region": None, "youden_j": None, "on_front": None}
    assert trade_off_figure(SCORES, data, [], plot("tradeoff", 2, 2)).frame["model"].tolist() == ["model_00"]
    data["models"][0] |= {"over_refusal": None}
    with pytest.raises(UserError, match="no model has both"):
        trade_off_figure(SCORES, data, [], plot("tradeoff", 2, 2))
