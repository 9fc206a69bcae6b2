"""The figure of dialogues: refusal rate by turn."""

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import MOST_CURVES, READING, Ordered, too_many_curves
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.hints import nearest
from refusal_eval.plots.captions import rates_words, short_words, study_words
from refusal_eval.plots.curves import Chart, draw_curves, gaps_words, highest, percent_scale, titles_words, unmarked
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData
from refusal_eval.report.paper.display import Labels, flags_in
from refusal_eval.report.paper.table_notes import level_text

ESTIMAND = "refusal_rate_turn"
_MEAN = "Refusal rate of a turn: mean over dialogues"


class TurnsFigure(Ordered):
    """Refusal rate by turn of dialogues."""

    report: ClassVar[tuple[str, str]] = ("Refusal rates", "Rates by turn")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "cards")

    kind: Literal["turns"]
    splits: list[Slug] | None = Field(
        None, min_length=1, description="Splits of dialogues that it shows, in this order. Default: all of them."
    )
    reading: Literal["strict", "broad"] | None = READING

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one for a study with dialogues, unless its curves are too many to distinguish."""
        dialogues = _by_turn(study)
        drawable = dialogues and min(len(study.models), len(dialogues)) <= MOST_CURVES
        return [cls(name="turns", kind="turns")] if drawable else []

    def splits_of(self, study: StudyView) -> list[str]:
        return list(self.splits or _by_turn(study))

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield a mistake if no dialogue has several scored turns."""
        dialogues, several = [name for name, split in study.splits.items() if split.dialogue], _by_turn(study)
        if not dialogues:
            yield ("kind",), "`turns` needs a split of dialogues, and the study has none"
        elif not several:
            message = "`turns` needs dialogues in mode `cumulative` with several scored turns; the study has none"
            yield ("kind",), f"{message} (`dialogue.mode` and `dialogue.scored` of a split)"
        yield from too_many_curves(self.shown(study))
        for index, name in enumerate(self.splits or []) if several else ():
            if name in study.splits and name not in several:
                what = f"the dialogues of `{name}` have no rates by turn (`dialogue.mode` or `dialogue.scored`)"
                why = what if name in dialogues else f"`{name}` is no split of dialogues"
                yield ("splits", index), why + nearest(name, several)

    def draw(self, data: FigureData) -> Drawn:
        """Draw a panel of curves for each split, or for each of many models.

        Raises:
            UserError: without estimates by turn, with too many curves to distinguish, or if no page is high enough.
        """
        readings = {score["split"]: score["headline"] for score in data.scores}
        found = [
            row
            for row in data.estimates
            if (row["estimand"], row["category"]) == (ESTIMAND, None)
            and row["reading"] == readings.get(row["split"])
            and row["parameter"] is not None
        ]
        if not found:
            raise data.undrawable(": there are no estimates by turn to draw")
        turns = sorted({int(row["parameter"]) for row in found})
        chart = Chart(
            x_label="Turn",
            places=[str(turn + 1) for turn in turns],
            place=lambda row: turns.index(int(row["parameter"])),
            y_label="Refusal rate (%)",
            y_ticks=percent_scale(highest(found)),
        )
        frame = pd.DataFrame(found, dtype=object)
        frame["turn"] = [int(row["parameter"]) + 1 for row in found]
        names = ["judge", "model", "split", "reading", "turn", "value", "low", "high"]
        names += ["n_prompts", "n_clusters", "flags"]
        words = [*rates_words(data.scores, data.labels, _MEAN), *study_words(data, flags=flags_in(found))]
        words += [*titles_words(found), *gaps_words(found, data), *_turns_words(frame, data.labels)]
        title, everywhere = self.title or "Refusal rate by turn of the dialogues.", unmarked(found)
        what = f"Rate (%) with {level_text(data.scores)} CI"
        short = short_words(data, what, flags=flags_in(found), everywhere=everywhere)
        caption = Caption(title, words, short)
        return Drawn(draw_curves(found, chart, data), frame[names].sort_values(["model", "split", "turn"]), caption)


def _turns_words(frame: pd.DataFrame, show: Labels) -> list[str]:
    """Say which turns are not of the same dialogues: their rates can differ though no conversation changed."""
    found = []
    for split, rows in frame.groupby("split", sort=False):
        counts = rows.groupby("turn")["n_prompts"].max()
        if counts.nunique() > 1:
            listed = ", ".join(f"turn {turn}: {count}" for turn, count in counts.items())
            found.append(f"{show.split(str(split))} ({listed})")
    words = "Rates of turns with different numbers of dialogues are not of the same dialogues"
    return [f"{words}: {'; '.join(found)}."] if found else []


def _by_turn(study: StudyView) -> list[str]:
    """Return the dialogue splits with rates by turn."""
    return [name for name, split in study.splits.items() if split.dialogue and split.dialogue.by_turn]
