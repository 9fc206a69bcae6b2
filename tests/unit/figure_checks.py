"""What the tests of figures share: made-up studies, and what is wrong with a drawing."""

import dataclasses
import functools
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from refusal_eval.config.figure_entry import Shown
from refusal_eval.config.kinds import FIGURES
from refusal_eval.plots.figure_data import Drawn, FigureData
from refusal_eval.plots.style import figure_style
from refusal_eval.report.paper.display import Labels

EXPECTATIONS = ("comply", "refuse", "varies")
LONG = Labels(
    models={f"model_{i:02d}": f"meta-llama/Llama-3.{i}-8B-Instruct with a system prompt (4 bit)" for i in range(20)},
    splits={f"split_{i:02d}": f"XSTest, prompts that only look unsafe, part_{i}" for i in range(20)},
    judges={"rules": "A judge with quite a long name that somebody thought of"},
)


class Given(FigureData):
    """What figures are drawn from, without files."""

    def _read(self, noun: str) -> Iterator[Any]:
        return iter(vars(self)["given"].get(noun, ()))

    def rows_of_csv(self, noun: str) -> Any:
        return vars(self)["given"][noun]

    @functools.cached_property
    def scores(self) -> list[Any]:
        of = {"judge": self.shown.judges, "model": self.shown.models, "split": self.shown.splits}
        reading = getattr(self.figure, "reading", None)
        found = [row for row in self._read("scores") if all(row[name] in names for name, names in of.items())]
        return [{**row, "headline": reading or row["headline"]} for row in found]


def draw(
    kind: str,
    models: int | list[str] = 2,
    splits: int | list[str] = 3,
    study_labels: Labels | None = None,
    *,
    judges: Sequence[str] = ("rules",),
    gold: Sequence[str] = (),
    scores: Any = (),
    cards: Any = (),
    estimates: Any = (),
    tradeoff: Any = None,
    agreement: Any = None,
    votes: Any = None,
    verdicts: Any = None,
    scoring: Any = None,
    curves: Any = None,
    separation: Any = None,
    units: Any = None,
    battles: Sequence[Any] = (),
    splits_of: Sequence[Any] | None = None,
    **entry: Any,
) -> Drawn:
    """A figure of that many models and splits, or of these; `entry` has further keys of its entry."""
    needs = {"separation": "far"} if kind == "separation" else {}
    figure: Any = FIGURES.get(kind).model_validate({"name": "figure", "kind": kind} | needs | entry)
    listed = [f"model_{i:02d}" for i in range(models)] if isinstance(models, int) else models
    shown = Shown(
        list(judges), listed, [f"split_{i:02d}" for i in range(splits)] if isinstance(splits, int) else splits
    )
    shown = dataclasses.replace(shown, gold=list(gold), curves=curves or {})
    expected = splits_of or [
        {"name": name, "source": name, "expectation": EXPECTATIONS[i % 3], "reading": "broad"}
        for i, name in enumerate(shown.splits)
    ]
    study = (vars(study_labels or Labels()), scoring or {"tau": 1.0, "band": 0.1}, expected)
    data = Given(figure, shown, *study)
    vars(data)["given"] = {"scores": scores, "cards": cards, "separation": separation}
    vars(data)["given"] |= {"tradeoff": [tradeoff], "judge_agreement": [agreement], "battles": [{"estimates": battles}]}
    vars(data).update(votes=votes or {}, verdicts=verdicts or {}, estimates=list(estimates))
    vars(data).update({} if units is None else {"units": units})
    with figure_style():
        found: Drawn = figure.draw(data)
    return found


def words(of: Drawn) -> str:
    """The caption."""
    return " ".join([of.caption.title, *of.caption.sentences])


def score(model: str, split: str, rate: float | None, n: int = 60, **more: Any) -> dict[str, Any]:
    """What a figure reads of a score."""
    part = {"rate": rate, "low": rate and rate * 0.8, "high": rate and rate + (1 - rate) * 0.2}
    number = int(split.split("_")[-1]) if split[-1].isdigit() else 0
    return {
        "judge": "rules", "model": model, "split": split, "expectation": EXPECTATIONS[number % 3], "headline": "broad",
        "samples": 5, "n_prompts": n, "n_turns": n, "n_scored_turns": n, "n_clusters": n, "broad": part,
        "strict": part, "flags": [], "mixed_serving": False, "states": {"blocked": 0},
        "c": {"n": n}, "protocol": "default",
        "scored": None, "interval": {"level": 0.95, "method": "Wilson"},
    } | more  # fmt: skip


def sizes(*every_day: Any, full: Sequence[Any]) -> list[Any]:
    """Sizes for which a figure is drawn in every run of the tests, and those for `make test-full` alone."""
    return [*every_day, *(pytest.param(*size, marks=pytest.mark.full) for size in full)]


def study(models: int, splits: int) -> tuple[list[dict[str, Any]], dict[tuple[str, str], list[float]]]:
    """Scores of all cells, and c(x) of their prompts."""
    rng = random.Random(models * 100 + splits)
    scores, votes = [], {}
    for i, j in itertools.product(range(models), range(splits)):
        flags = [flag for flag in ("unjudged", "truncated", "few_clusters") if rng.random() < 0.2]
        rate = rng.random()
        flags += ["mixed_serving"] if rng.random() < 0.1 else []
        cell = score(f"model_{i:02d}", f"split_{j:02d}", rate, flags=flags)
        scores.append(cell)
        votes[cell["model"], cell["split"]] = [rng.choice((-1, -0.6, -0.2, 0, 0.2, 0.6, 1)) for _ in range(120)]
    scores[0] |= {"broad": {"rate": 1.0, "low": 0.95, "high": 1.0}}
    return scores, votes


def estimate(estimand: str, value: float | None, **more: Any) -> dict[str, Any]:
    """A row of estimates with an interval around its value."""
    ends = {"low": None if value is None else value - 0.04, "high": None if value is None else value + 0.05}
    names = dict.fromkeys(("model", "split", "pool", "category", "reading", "parameter"))
    size = {"samples": 5, "n_prompts": 40, "n_clusters": 40, "level": 0.95, "method": "Wilson"}
    return {"estimand": estimand, "value": value, "judge": "rules", **ends, **names, **size, "flags": []} | more


def problems(fig: Figure) -> list[str]:
    """Text outside the page, over other text, or smaller than 7 points."""
    canvas = FigureCanvasAgg(fig)
    with figure_style():
        fig.draw_without_rendering()  # places all text, in a fraction of the time that pictures take
    renderer, (width, height) = canvas.get_renderer(), canvas.get_width_height()
    texts = [text for text in fig.findobj(Text) if text.get_text().strip() and text.get_visible()]
    # Without the lines that lead from texts to points.
    boxes = [(text.get_text(), Text.get_window_extent(text, renderer)) for text in texts]
    found = [f"{text.get_text()} is small" for text in texts if text.get_fontsize() < 7]
    found += [
        f"{t} is cut off" for t, b in boxes if b.x0 < -0.5 or b.y0 < -0.5 or b.x1 > width + 0.5 or b.y1 > height + 0.5
    ]
    for (one, a), (two, b) in itertools.combinations(boxes, 2):
        # Boxes hold the room for accents and descenders, so lines below each other touch by up to 2 points.
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 0.6 and min(a.y1, b.y1) - max(a.y0, b.y0) > 2:
            found.append(f"{one} and {two} overlap")
    return found


def shown(fig: Figure) -> str:
    """All text of a drawing that can be seen, a line for each piece."""
    return "\n".join(text.get_text() for text in fig.findobj(Text) if text.get_visible())
