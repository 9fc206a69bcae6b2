"""The figure of agreement among a study's judges: kappa of every pair."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import Figure as FigureEntry
from refusal_eval.config.figure_entry import Shown
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.features.judge_pairs.pair_agreement import MIN_ROWS
from refusal_eval.plots.base import Tile, settle, text_width, tile_table
from refusal_eval.plots.captions import everywhere_words, short_marks
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData
from refusal_eval.plots.shared_marks import shared_flags
from refusal_eval.plots.style import GREY, INK
from refusal_eval.report.paper.display import NO_DATA, add_marks, mark_of, notes_of, number
from refusal_eval.report.paper.table_notes import value_text
from refusal_eval.stats.estimates.estimands import READINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEWEST = 3  # judges for a default figure; two have a single number, which is in the table
_COLUMNS = 3  # judges that a narrow figure has room for
_MOST_LINES = 4  # of a level column label
_SIDE = 3.0  # points left free in a tile, both sides together


class JudgeAgreementFigure(FigureEntry):
    """Kappa of every two judges as tiles: broad below the diagonal, strict above it."""

    report: ClassVar[tuple[str, str]] = ("Judges", "Agreement between judges")
    needs: ClassVar[tuple[str, ...]] = ("judge_agreement",)

    kind: Literal["judge_agreement"]
    judges: list[Slug] | None = Field(
        None, min_length=2, description="Judges that it shows, in this order. Default: all."
    )
    split: Slug | None = Field(None, description="The split whose answers count. Default: all splits together.")

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        return [cls(name="judges_agree", kind="judge_agreement")] if len(study.whole_judges) >= _FEWEST else []

    def shown(self, study: StudyView) -> Shown:
        return Shown(list(self.judges or study.whole_judges))

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield that there is one judge only."""
        if len(study.whole_judges) < 2:
            yield ("kind",), "`judge_agreement` needs two judges of every model, and the study has one at most"

    def draw(self, data: FigureData) -> Drawn:
        """Return kappa of every two judges as tiles.

        Raises:
            UserError: if one of the judges or the split is not in the file.
        """
        agreement, judges = data.found("judge_agreement"), data.shown.judges
        missing = sorted(set(judges) - set(agreement["judges"]))
        group = next((group for group in agreement["groups"] if group["split"] == self.split), None)
        if missing or group is None:
            raise data.undrawable(f": there is no agreement of {', '.join(missing) or self.split} to draw")
        pairs = [pair for pair in group["pairs"] if {pair["first"], pair["second"]} <= set(judges)]
        rows = []
        for pair in pairs:
            for reading in ("broad", "strict"):
                kappa = pair[reading]["kappa"]
                low, high = kappa["interval"] or (None, None)
                names = {"first": pair["first"], "second": pair["second"], "split": self.split, "reading": reading}
                size = {"n": pair["n"], "overlap": pair["overlap"]}
                rows.append(names | size | {"kappa": kappa["value"], "low": low, "high": high})
        fig = _draw(pairs, judges, data)
        where = f" on {data.labels.split(self.split)}" if self.split else ""
        title = self.title or f"Agreement of judges{where}."
        caption = Caption(title, _words(agreement, group, pairs, data), _short(agreement, group, pairs))
        return Drawn(fig, pd.DataFrame(rows, dtype=object), caption)


def _draw(pairs: Sequence[Mapping[str, Any]], judges: Sequence[str], data: FigureData) -> Figure:
    labels = [data.labels.judge(name) for name in judges]
    by_judges = {frozenset((pair["first"], pair["second"])): pair for pair in pairs}

    everywhere = _everywhere(pairs)

    def tiles_at(step: float) -> dict[tuple[int, int], Tile]:
        found: dict[tuple[int, int], Tile] = {}
        for i, j in itertools.permutations(range(len(judges)), 2):
            pair = by_judges.get(frozenset((judges[i], judges[j])))
            found[i, j] = [NO_DATA], None
            if pair and (kappa := pair["broad" if i > j else "strict"]["kappa"])["value"] is not None:
                found[i, j] = _lines(kappa, set(pair["flags"]) - everywhere, step), max(0.0, kappa["value"])
        return found

    width, narrowest = data.points(len(judges) > _COLUMNS), text_width(f"{number(-0.5)},") + _SIDE
    fig, (ax,), heights = tile_table(width, labels, labels, tiles_at, narrowest=narrowest, most_lines=_MOST_LINES)
    _name_triangles(ax, len(judges))
    return settle(fig, ax, heights)


def _name_triangles(ax: Axes, judges: int) -> None:
    """Write on the diagonal which reading lies on which side of it."""
    low, high = ax.get_ylim()
    row = (low - high) / judges
    for i in range(judges):
        ax.plot([i + 0.04, i + 0.96], [row * (i + 0.06), row * (i + 0.94)], color=GREY, linewidth=0.5)
        for place, text, side in ((0.27, "broad", 0.78), (0.73, "strict", 0.24)):
            style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "in_layout": False}
            ax.text(i + place, row * (i + side), text, color=INK, **style)


def _lines(kappa: Mapping[str, Any], flags: Collection[str], step: float) -> list[str]:
    """Kappa, then the interval with the marks, in two lines where one is too narrow."""
    value, marks = number(kappa["value"]), mark_of(flags)
    ends = [number(end) for end in kappa["interval"] or ()]
    if not ends:
        return [value + marks]
    one = f"[{', '.join(ends)}]{marks}"
    if text_width(one) <= step - _SIDE:
        return [value, one]
    upper = [ends[1] + marks] if text_width(ends[1] + marks) <= step - _SIDE else [ends[1], marks]
    return [value, f"{ends[0]},", *upper]


def _everywhere(pairs: Sequence[Mapping[str, Any]]) -> set[str]:
    return shared_flags(pair["flags"] for pair in pairs)


def _short(agreement: Mapping[str, Any], group: Mapping[str, Any], pairs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the sentences of the short caption."""
    everywhere = _everywhere(pairs)
    flags = {flag for pair in pairs for flag in pair["flags"]}
    return [
        f"Cohen's kappa with {100 * agreement['level']:g} % CI on up to {group['n_answers']} answers: strict "
        "(refusals) above the diagonal, broad (with partial refusals) below.",
        *short_marks(flags - everywhere),
        *([f"Nearly everywhere, and so unmarked: {short_marks(everywhere)[0]}"] if everywhere else []),
    ]


def _words(
    agreement: Mapping[str, Any],
    group: Mapping[str, Any],
    pairs: Sequence[Mapping[str, Any]],
    data: FigureData,
) -> list[str]:
    """What is shown, and what is not: alpha of all judges and changed orders of models; then what marks mean."""
    judges, show = data.shown.judges, data.labels
    notes = [
        f"Cohen's kappa between judges on the answers that both labelled, of {group['n_answers']}, with its "
        f"{100 * agreement['level']:g} % "
        "interval over clusters. Below the diagonal broad (partial refusals count as refusals), above it strict.",
    ]
    if any(pair[reading]["kappa"]["value"] is None for pair in pairs for reading in READINGS):
        few = f"both judges put fewer than {MIN_ROWS} answers in one class"
        notes.append(f"{NO_DATA} where {few} or all answers are one cluster.")
    if shared := [f"{show.judge(pair['first'])} and {show.judge(pair['second'])}" for pair in pairs if pair["overlap"]]:
        notes.append(f"Judges that share labels agree in part because of that: {'; '.join(shared)}.")
    alpha = group["alpha"]
    if alpha and len(group["raters"]) > 2:
        numbers = {r: value_text(alpha[r]["value"], alpha[r]["interval"]) for r in ("broad", "strict")}
        texts = [f"{add_marks(text, group['alpha_flags'])} {reading}" for reading, text in numbers.items()]
        panels = " with an opinion of their own" if len(group["raters"]) < len(agreement["judges"]) else ""
        notes.append(f"All {len(group['raters'])} judges{panels}, Krippendorff's alpha: {', '.join(texts)}.")
    known = [
        rank
        for rank in agreement["rankings"]
        if rank["n_models"] > 1 and rank["tau"] is not None and group["split"] in (None, rank["split"])
    ]
    known = [rank for rank in known if {rank["first"], rank["second"]} <= set(judges)]
    if known:
        swapped = sum(bool(rank["swapped"]) for rank in known)
        notes.append(
            f"The order of the models changes in {swapped} of {len(known)} comparisons of two judges on a split."
        )
    found = [(pair[reading]["kappa"], pair["flags"]) for pair in pairs for reading in READINGS]
    if alpha and len(group["raters"]) > 2:
        found += [(alpha[reading], group["alpha_flags"]) for reading in READINGS]
    flags = {flag for number, own in found if number["value"] is not None for flag in own}
    return [*notes, *notes_of(flags), *everywhere_words(_everywhere(pairs))]
