"""The figure of battles: how often answers of each class win, where people choose and where a language model does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import SPLITS, OfModels, Shown
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.recorded_files import IN_ROWS
from refusal_eval.features.battles.class_names import by_label, in_words, is_kind
from refusal_eval.features.battles.classing_judges import classing_judges
from refusal_eval.plots.base import LOOKS, draw_mark, legend, name_rows, new_figure, numbers_inside, settle, wrap_to
from refusal_eval.plots.captions import short_agreement, short_marks, study_words, within
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, ResultRow, fits
from refusal_eval.plots.style import FAINT, LINE_HEIGHT
from refusal_eval.report.paper.display import flags_in, join_texts, marks_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEOPLE, LLM = "people", "language model"
VOTERS = {"battle_wins": PEOPLE, "battle_wins_paired": PEOPLE, "battle_wins_llm": LLM}
_COLUMNS = ["judge", "model", "split", "estimand", "parameter", "value", "low", "high"]
_COLUMNS += ["n_prompts", "n_clusters", "flags"]


class BattlesFigure(OfModels):
    """How often answers of each class win their battles, and of which class they are."""

    report: ClassVar[tuple[str, str]] = ("Battles", "Win rate by class of answer")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "battles", "cards")

    kind: Literal["battles"]
    splits: list[Slug] | None = SPLITS
    judge: Slug | None = Field(
        None,
        description="Judge whose classes of answers it shows. Default: the first that names kinds of answers, such as "
        "ethical refusals, or else `primary_judge`.",
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one of a study whose answers are those of battles."""
        return [cls(name="battles", kind="battles")] if _fought(study) else []

    def shown(self, study: StudyView) -> Shown:
        """Return what it shows."""
        return replace(super().shown(study), judges=[self.judge or next(iter(classing_judges(study)))])

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield that no answers of the study are those of battles."""
        if not _fought(study):
            yield ("kind",), f"`battles` needs a model with `recorded: {IN_ROWS}`, and the study has none"

    def draw(self, data: FigureData) -> Drawn:
        """Return the share of answers that won outright, by split and class, with a mark for people and one for the
        language model.

        Raises:
            UserError: without battles whose answers have a label, or where no page is high enough.
        """
        paired = {row["split"] for row in _rows(data) if row["estimand"] == "battle_wins_llm"}
        unpaired = [row for row in _rows(data) if (row["estimand"], row["split"] in paired) != ("battle_wins", True)]
        rows = [row for row in unpaired if row["estimand"] in VOTERS]
        if not rows:
            raise data.undrawable(": there is no battle whose answers both have a label")
        fig = _draw(rows, data)
        if not fits(fig):
            raise data.too_high(fig, "name fewer `splits`")
        levels = " or ".join(f"{100 * level:g} %" for level in sorted({row["level"] for row in rows if row["level"]}))
        both = join_texts(data.labels.split(split) for split in data.shown.splits if split in paired)
        those = "" if paired >= {row["split"] for row in rows} else f"; of {both} those"
        there = {(row["split"], row["parameter"]) for row in rows}
        unread = [data.labels.split(of) for of in data.shown.splits if of not in {split for split, _ in there}]
        unjudged = [
            f"{in_words(row['parameter'])} on {data.labels.split(row['split'])}"
            for row in _rows(data)
            if row["estimand"] == "battle_wins" and (row["split"], row["parameter"]) not in there
        ]
        words = [
            "Share of the answers of a class that won outright; a tie is no win. In brackets: battles"
            + (f"{those} that the language model judged too, its ties included." if paired else "."),
            *(["In bold: a label, all its kinds together."] if any(is_kind(row["parameter"]) for row in rows) else []),
            f"Intervals ({levels}) over clusters of prompts, or over pairs of models where that is wider.",
            *([f"In none of these battles, and so not shown: {join_texts(unjudged)}."] if unjudged else []),
            *([f"Without a battle of two labelled answers: {join_texts(unread)}."] if unread else []),
            *study_words(data, flags=flags_in(rows)),
        ]
        frame = pd.DataFrame(rows, columns=_COLUMNS, dtype=object)
        title = self.title or "Win rate by class of answer."
        needed = [
            f"Answers that won outright (%) with {levels} CI; in brackets battles; answers classed by "
            f"{data.labels.judge(data.judge)} ({short_agreement(data.judge, data.cards)}).",
            *short_marks(flags_in(rows)),
        ]
        return Drawn(fig, frame, Caption(title, words, within(title, needed, ["A tie is no win."])))


def _fought(study: StudyView) -> bool:
    return any(getattr(model, "recorded", None) == IN_ROWS for model in study.entries.get("models", {}).values())


def _rows(data: FigureData) -> list[ResultRow]:
    """Return the numbers about battles under its judge, on the splits that it shows."""
    rows = data.found("battles")["estimates"]
    return [row for row in rows if row["judge"] == data.judge and row["split"] in data.shown.splits]


def _draw(rows: list[ResultRow], data: FigureData) -> Figure:
    """Draw a row for each split and class. A label comes before its kinds, in bold; several splits are named."""
    places = list(dict.fromkeys(row["split"] for row in rows))
    keys = [(at, name) for at in places for name in by_label(row["parameter"] for row in rows if row["split"] == at)]
    by_key = {(row["split"], row["parameter"], VOTERS[row["estimand"]]): row for row in rows}
    shown = [voter for voter in (PEOPLE, LLM) if any(found == voter for *_, found in by_key)]
    several, width = len({split for split, _ in keys}) > 1, data.points(False)
    texts = []
    for split, name in keys:
        own = [row for row in rows if (row["split"], row["parameter"]) == (split, name)]
        start = f"{data.labels.split(split)}, " if several else ""
        called = in_words(name, short=True)
        texts.append(wrap_to(f"{start}{called} ({own[0]['n_prompts']}{marks_of(own)})", 0.4 * width))
    bold = (
        [place for place, (_, name) in enumerate(keys) if not is_kind(name)] if any(is_kind(n) for _, n in keys) else []
    )
    heights = [max(len(lines) * LINE_HEIGHT + 2, 16.0) for lines in texts]
    labels = ["\n".join(lines) for lines in texts]
    fig = new_figure(width, heights)
    ax = fig.subplots()
    for (split, name), middle in zip(keys, name_rows(ax, heights, labels, bold), strict=True):
        for number, (voter, look) in enumerate(zip(shown, LOOKS, strict=False)):
            if found := by_key.get((split, name, voter)):
                at = middle + 5.0 * (number - (len(shown) - 1) / 2)
                draw_mark(ax, look, found["value"], (found["low"], found["high"]), at, factor=100)
    ax.set_xlim(0, 100)
    ax.set_xticks([0, 25, 50, 75, 100])
    ax.grid(axis="x", color=FAINT, linewidth=0.5)
    ax.set_axisbelow(True)
    numbers_inside(ax)
    ax.set_xlabel("Battles won outright (%)")
    if len(shown) > 1:
        legend(fig, [look.sample() for look, _ in zip(LOOKS, shown, strict=False)], shown)
    return settle(fig, ax, [sum(heights)])
