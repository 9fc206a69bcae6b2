"""The figure of attributions: the words of prompts, shaded by what they contribute to a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import Figure, Shown
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug, Whole
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.hints import nearest
from refusal_eval.core.texts import visible
from refusal_eval.features.attributions.attribution_keys import Attribution
from refusal_eval.features.attributions.attribution_scores import ATTRIBUTION_SCORES
from refusal_eval.features.attributions.attribution_words import method_words
from refusal_eval.features.attributions.focus_words import EXACT
from refusal_eval.plots.base import EDGE, new_figure, settle, text_width, widest
from refusal_eval.plots.captions import within
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, fits
from refusal_eval.plots.style import INK, LINE_HEIGHT
from refusal_eval.report.paper.display import clean, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

MOST_PROMPTS = 40
COLOURS = "PuOr_r"  # orange above 0, purple below: people with any colour vision tell them apart
DEEPEST = 0.62  # of half of the scale: black text is readable on every colour
STATES = {True: "refused", False: "answered", None: "no label"}
_LINE, _BETWEEN = LINE_HEIGHT + 3.0, 5.0  # points: of a line of words, and between prompts
_PAD = 1.0  # points of colour on each side of a word
_SCALE = 16.0  # points for the scale below


class ShadedPrompt(NamedTuple):
    """A prompt of the figure."""

    prompt_id: str
    text: str
    refused: bool | None
    units: Sequence[Mapping[str, Any]]


class Piece(NamedTuple):
    """A part of a prompt's text on one line: a unit with its value, or what is between units."""

    text: str
    unit: Mapping[str, Any] | None


class AttributionsFigure(Figure):
    """The words of some prompts, shaded by what they contribute to a refusal, and whether the model refuses."""

    report: ClassVar[tuple[str, str]] = ("Attributions", "Words of prompts")
    needs: ClassVar[tuple[str, ...]] = ("attribution_values", "prompts", "attributions")
    wildcards: ClassVar[tuple[str, ...]] = ("attribution",)

    kind: Literal["attributions"]
    attribution: Slug = Field(description="The study's attribution that it shows, by its name.")
    prompts: Whole | list[str] = Field(
        8,
        description="How many prompts it shows: as many refused as others, where there are, the first ones of the "
        f"split; at most {MOST_PROMPTS}. Or the ids of prompts, in this order.",
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one for each attribution of a study."""
        return [cls(name=f"attributions_{name}", kind="attributions", attribution=name) for name in _known(study)]

    def shown(self, study: StudyView) -> Shown:
        """Return what it shows."""
        one = _known(study).get(self.attribution)
        names = ([one.model], [one.split]) if one is not None else ([], [])
        return Shown([study.primary_judge], *names, further={"attribution": [self.attribution]})

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield an attribution that the study has not, and numbers of prompts that no page holds."""
        if self.attribution not in (known := _known(study)):
            message = f"`{self.attribution}` is not in `attributions` of the study{nearest(self.attribution, known)}"
            yield ("attribution",), message
        asked = self.prompts if isinstance(self.prompts, int) else len(self.prompts)
        if not 1 <= asked <= MOST_PROMPTS:
            yield ("prompts",), f"1 to {MOST_PROMPTS} prompts fit a page, not {asked}"

    def draw(self, data: FigureData) -> Drawn:
        """Return the prompts line by line, a colour behind each word.

        Raises:
            UserError: if there are no such prompts, or no page is high enough.
        """
        content = data.found("attributions")
        one, refused = content["attributions"][self.attribution], content["refused"][self.attribution]
        rows = {row["prompt_id"]: row for row in read_jsonl(data.files["attribution_values"][0])}
        texts = {row["id"]: row["messages"][-1]["content"] for row in read_jsonl(data.files["prompts"][0])}
        every = [
            ShadedPrompt(name, texts[name], refused.get(name), row["units"])
            for name, row in rows.items()
            if row["units"] and all(unit["value"] is not None for unit in row["units"])
        ]
        shown = self._chosen(every, data)
        if not shown:
            raise data.undrawable(": no prompt has a value for each of its words")
        most = max((abs(unit["value"]) for prompt in shown for unit in prompt.units), default=0.0) or 1.0
        longest = max(text_width(clean(prompt.text)) for prompt in shown)
        wide = _side() + longest + 2 * EDGE > data.points(wide=False)
        score = ATTRIBUTION_SCORES.get(one["score"])
        deepest = f"{number(most)} {score.unit}".rstrip()
        drawing = data.fitting(lambda width: _draw(shown, most, score.unit, width), wide)
        if not fits(drawing):
            raise data.too_high(drawing, "show fewer `prompts`")
        title = self.title or (
            f"Words of prompts by what they contribute to a refusal of {data.labels.model(one['model'])}."
        )
        judge = data.labels.judge(data.judge)
        words = [
            f"{method_words(one)} Orange: the {one['unit']} makes {score.greater}; purple: less. One scale for "
            f"all prompts; the deepest colour is {deepest}.",
            f"Prompts of {data.labels.split(one['split'])}; refused: by more than half of the answers, as judge "
            f"{judge} reads them.",
            *(["Underlined: words of the focus."] if one["focus"] is not None else []),
        ]
        needed = [f"Orange: the {one['unit']} makes {score.greater}; purple: less (up to {deepest})."]
        needed += words[2:]
        frame = pd.DataFrame([_row(prompt, unit) for prompt in shown for unit in prompt.units], dtype=object)
        return Drawn(drawing, frame, Caption(title, words, within(title, needed, [])))

    def _chosen(self, every: Sequence[ShadedPrompt], data: FigureData) -> list[ShadedPrompt]:
        """Return the prompts that it shows.

        Raises:
            UserError: if one that it names is not there.
        """
        if isinstance(self.prompts, int):
            refused = [prompt for prompt in every if prompt.refused]
            others = [prompt for prompt in every if not prompt.refused]
            half = max(self.prompts - len(others), min(len(refused), -(-self.prompts // 2)))
            return [*refused[:half], *others[: self.prompts - len(refused[:half])]]
        by_id = {prompt.prompt_id: prompt for prompt in every}
        if lost := [name for name in self.prompts if name not in by_id]:
            raise data.undrawable(f": prompt `{lost[0]}` is not in the split, or has no values")
        return [by_id[name] for name in self.prompts]


def _known(study: StudyView) -> dict[str, Attribution]:
    return dict(study.items("attributions", Attribution))


def _row(prompt: ShadedPrompt, unit: Mapping[str, Any]) -> dict[str, Any]:
    named = {key: unit[key] for key in ("word", "begin", "end", "value", "rank")}
    return {"prompt": prompt.prompt_id, "refused": STATES[prompt.refused], **named, "is_focus": unit[EXACT]}


def pieces_of(text: str, units: Sequence[Mapping[str, Any]]) -> Iterator[Piece]:
    """Yield a text in parts: each unit, and what is between them; joined they give the text back."""
    place = 0
    for unit in units:
        if unit["begin"] > place:
            yield Piece(text[place : unit["begin"]], None)
        yield Piece(text[unit["begin"] : unit["end"]], unit)
        place = unit["end"]
    if place < len(text):
        yield Piece(text[place:], None)


def lines_of(text: str, units: Sequence[Mapping[str, Any]], width: float) -> list[list[Piece]]:
    """Return the parts of a text line by line, none wider than `width` points where no part alone is.

    Lines break at white space, which is one blank; a part between blanks that is wider than a line also breaks between
    units, as text without blanks does.
    """
    lines: list[list[Piece]] = [[]]
    room = width
    for chunk in _chunks(text, units):
        groups = [chunk] if sum(text_width(piece.text) for piece in chunk) <= width else [[piece] for piece in chunk]
        for place, group in enumerate(groups):
            inside = bool(lines[-1]) and lines[-1][-1].unit is group[0].unit  # of a sentence, blanks are a part
            blank = [Piece(" ", group[0].unit if inside else None)] if lines[-1] and not place else []
            wide = sum(text_width(piece.text) for piece in (*blank, *group))
            if lines[-1] and wide > room:
                lines.append([])
                room, wide, blank = width, wide - sum(text_width(piece.text) for piece in blank), []
            lines[-1] += [*blank, *group]
            room -= wide
    return [line for line in lines if line]


def _chunks(text: str, units: Sequence[Mapping[str, Any]]) -> list[list[Piece]]:
    """Return what stands between the white space of a text, each in its parts."""
    chunks: list[list[Piece]] = [[]]
    for piece in pieces_of(text, units):
        for place, part in enumerate(re.split(r"\s+", piece.text)):
            if place:
                chunks.append([])
            if shown := clean(visible(part)):
                chunks[-1].append(Piece(shown, piece.unit))
    return [chunk for chunk in chunks if chunk]


def _side() -> float:
    """Return the width of the column that says what the model did."""
    return widest(list(STATES.values())) + 8


def _draw(shown: Sequence[ShadedPrompt], most: float, unit: str, width: float) -> Drawing:
    side = _side()
    room = width - 2 * EDGE - side
    broken = [lines_of(prompt.text, prompt.units, room) for prompt in shown]
    heights = [len(lines) * _LINE + _BETWEEN for lines in broken]
    fig = new_figure(width, [sum(heights), _SCALE])
    ax, scale = fig.subplots(2, 1, height_ratios=[sum(heights), _SCALE])
    for one in (ax, scale):
        one.set_axis_off()
    ax.set(xlim=(0, width - 2 * EDGE), ylim=(sum(heights), 0))
    top = 0.0
    for prompt, lines, height in zip(shown, broken, heights, strict=True):
        ax.text(0, top + _LINE / 2, STATES[prompt.refused], va="center", weight="bold" if prompt.refused else "normal")
        for row, line in enumerate(lines):
            _draw_line(ax, line, side, top + row * _LINE, most)
        top += height
    _draw_scale(scale, most, unit, width - 2 * EDGE)
    return settle(fig, ax, [sum(heights), _SCALE])


def _draw_line(ax: Axes, line: Sequence[Piece], left: float, top: float, most: float) -> None:
    from matplotlib.patches import Rectangle

    for piece in line:
        wide = text_width(piece.text)
        if piece.unit is not None:
            box = (left - _PAD, top + 1), wide + 2 * _PAD, _LINE - 2
            ax.add_patch(Rectangle(*box, facecolor=colour(piece.unit["value"], most), edgecolor="none", zorder=0))
            if piece.unit[EXACT]:
                ax.plot([left, left + wide], [top + _LINE - 1.5] * 2, color=INK, linewidth=0.8, zorder=2)
        ax.text(left, top + _LINE / 2, piece.text, va="center", zorder=1, parse_math=False)
        left += wide


def colour(value: float, most: float) -> Any:
    """Return the colour of a value on a scale from -`most` to `most`, white at 0."""
    import matplotlib

    share = max(-1.0, min(1.0, value / most))
    return matplotlib.colormaps[COLOURS](0.5 + DEEPEST * share / 2)


def _draw_scale(ax: Axes, most: float, unit: str, width: float) -> None:
    from matplotlib.patches import Rectangle

    ax.set(xlim=(0, width), ylim=(_SCALE, 0))
    low, high = f"{number(-most)}", f"{number(most)} {unit}".rstrip()
    wide, steps, middle = 90.0, 60, _SCALE - 5
    left = width - wide - text_width(high) - 6
    for step in range(steps):
        value = most * (2 * (step + 0.5) / steps - 1)
        box = (left + wide * step / steps, middle - 3), wide / steps, 6
        ax.add_patch(Rectangle(*box, facecolor=colour(value, most), edgecolor="none"))
    ax.text(left - 4, middle, low, va="center", ha="right")
    ax.text(left + wide + 4, middle, high, va="center")
