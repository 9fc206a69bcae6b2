"""Draw the workflow as the README shows it: docs/dag.svg, or the file that is named (its ending decides the format).

    .venv/workflow/bin/python docs/make_dag.py

A test holds what is drawn here against the rules, and dag.svg against this script.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, FancyBboxPatch, Rectangle

DOCS = Path(__file__).resolve().parent

# Points; the picture is shown about as wide as it is drawn.
WIDTH, HEIGHT = 664, 630
BOX_WIDTH, BOX_HEIGHT = 142, 56
COLUMNS = {"A": 84, "B": 248, "C": 412, "D": 576}  # centres
ROWS = {0: 592, 1: 488, 2: 334, 3: 236, 4: 138, 5: 40}
GAP = ROWS[4] - ROWS[5] - BOX_HEIGHT  # between two rows
STORE_WIDTH, STORE_HEIGHT = 108, 48

INK, SMALL_INK, LINE = "#222222", "#555555", "#555555"
# Fill and edge; blue and orange differ for any colour vision, and a batch differs by its thick edge too.
STYLES = {
    "source": ("#FFFFFF", "#8C8C8C"),
    "cell": ("#E3EFF8", "#0072B2"),
    "batch": ("#FCE3CF", "#D55E00"),
    "study": ("#ECECEC", "#555555"),
}
STACKED = ("source", "cell")
PILE = 5  # how far a pile of cards shows behind its first
SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "svg.fonttype": "path",
    "svg.hashsalt": "refusal-eval",  # ids in the file would be random otherwise
}


@dataclass(frozen=True)
class Box:
    """What is made, by which rules, how often (a style), and where it stands.

    `also` are rules that only some studies need; they are not written into the box.
    """

    title: str
    text: str
    rules: tuple[str, ...]
    style: str
    column: str
    row: int
    also: tuple[str, ...] = ()

    @property
    def x(self) -> float:
        """The middle."""
        return COLUMNS[self.column]

    @property
    def y(self) -> float:
        """The middle."""
        return ROWS[self.row]

    @property
    def pile(self) -> float:
        """How far it reaches beyond its edge, to the right and below."""
        return PILE if self.style in STACKED else 0

    @property
    def top(self) -> float:
        """The upper edge."""
        return self.y + BOX_HEIGHT / 2

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y - BOX_HEIGHT / 2


BOXES = {
    "prompts": Box("prompts", "ids, categories, clusters", ("fetch_rows", "prompts"), "source", "A", 0),
    "engine": Box(
        "weights, tokenizer",
        "at a locked revision",
        ("fetch_tokenizer", "fetch_weights", "identify_engine"),
        "source",
        "B",
        0,
        also=("fetch_adapter", "identify_adapter", "check_adapter", "intervention"),
    ),
    "gold": Box("gold", "answers people labelled", ("fetch_rows", "gold"), "source", "D", 1),
    "requests": Box("requests", "token ids, sampling, key", ("requests",), "cell", "A", 1),
    "generate": Box("generate", "what the store lacks", ("generate",), "batch", "B", 1, also=("activations",)),
    "answers": Box("answers", "text, reasoning, state", ("answers",), "cell", "C", 1, also=("recorded_answers",)),
    "judge_requests": Box(
        "judge requests", "rubric and answer, as ids", ("check_judge", "judge_requests"), "cell", "C", 2
    ),
    "judge": Box("judge", "what the store lacks", ("judge",), "batch", "B", 2),
    "llm_verdicts": Box("verdicts", "of a language model", ("llm_verdicts",), "cell", "A", 2, also=("train_judge",)),
    "cpu_verdicts": Box(
        "verdicts",
        "of word lists, own code",
        ("cpu_verdicts",),
        "cell",
        "D",
        2,
        also=("panel_verdicts", "recorded_verdicts"),
    ),
    "scores": Box(
        "scores", "a row per sample", ("score",), "cell", "B", 3, also=("published_answers", "published_scores")
    ),
    "judge_cards": Box("judge cards", "agreement with people", ("judge_card",), "cell", "C", 3, also=("calibration",)),
    "numbers": Box(
        "estimates",
        "rates, intervals, tests",
        ("estimates", "compare", "tradeoff"),
        "study",
        "B",
        4,
        also=(
            *("near_duplicates", "variance", "mixed_model", "corrected", "battles", "judge_agreement"),
            *("direction", "direction_cosines", "separation", "aqi"),
        ),
    ),
    "results": Box("results table", "every number, its interval", ("results_table",), "study", "C", 4),
    "figures": Box(
        "figures", "PDF, SVG, PNG", ("figure",), "study", "B", 5, also=("judge_card_figure", "captions_preamble")
    ),
    "tables": Box(
        "tables",
        "CSV, Markdown, LaTeX",
        ("table",),
        "study",
        "C",
        5,
    ),
    "manifest": Box(
        "manifest, methods",
        "what each number is from",
        ("manifest", "methods"),
        "study",
        "D",
        5,
        also=("judge_floor",),
    ),
}

ARROWS = (
    ("prompts", "requests"),
    ("engine", "requests"),
    ("engine", "generate"),
    ("requests", "generate"),
    ("generate", "answers"),
    ("judge_requests", "judge"),
    ("judge", "llm_verdicts"),
    ("scores", "numbers"),
    ("judge_cards", "results"),
    ("judge_cards", "figures"),
    ("numbers", "results"),
    ("numbers", "figures"),
    ("results", "tables"),
    ("tables", "manifest"),
)

# Bars: each of the first goes into each of the second.
BARS = (
    (("answers", "gold"), ("judge_requests", "cpu_verdicts")),
    (("llm_verdicts", "cpu_verdicts"), ("scores", "judge_cards")),
)

LEGEND = (
    ("source", "one per split, engine or gold set; CPU"),
    ("cell", "one per cell: model x split, or\nmodel x split x judge; CPU".replace(" x ", " \N{MULTIPLICATION SIGN} ")),
    ("batch", "one per batch: all cells that share\none engine load; GPU"),
    ("study", "one per study; CPU"),
)


def drawn_arrows() -> set[tuple[str, str]]:
    """Return all pairs of boxes that the picture connects, through bars as well."""
    through_bars = {(source, target) for sources, targets in BARS for source in sources for target in targets}
    return set(ARROWS) | through_bars


def make_figure() -> Figure:
    """Return the picture."""
    figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.axis("off")
    for sources, targets in BARS:
        draw_bar(axes, [BOXES[name] for name in sources], [BOXES[name] for name in targets])
    for source, target in ARROWS:
        draw_arrow(axes, BOXES[source], BOXES[target])
    draw_store(axes)
    for box in BOXES.values():
        draw_box(axes, box)
    draw_legend(axes)
    return figure


def draw_box(axes: Axes, box: Box) -> None:
    """Draw a box with its title, its text, and its rules in small print."""
    draw_shape(axes, box.style, box.x, box.y, BOX_WIDTH, BOX_HEIGHT)
    left = box.x - BOX_WIDTH / 2 + 8
    axes.text(left, box.top - 8, box.title, size=10.5, weight="bold", va="top", color=INK)
    axes.text(left, box.top - 24, box.text, size=8.5, va="top", color=INK)
    rules = ", ".join(box.rules)
    if len(box.rules) > 2:
        rules = box.rules[0] + ",\n" + ", ".join(box.rules[1:])
    axes.text(left, box.top - 38, rules, size=7, va="top", color=SMALL_INK, family="DejaVu Sans Mono", linespacing=1.15)
    if box.style == "batch":
        draw_gpu_tag(axes, box.x + BOX_WIDTH / 2 - 6, box.top - 8)


def draw_shape(axes: Axes, style: str, x: float, y: float, width: float, height: float) -> None:
    """Draw a box without text around a middle: a pile of cards, or one card with an edge that fits its style."""
    fill, edge = STYLES[style]
    thick = 2.4 if style == "batch" else 1.0
    for shift in (PILE, PILE / 2, 0) if style in STACKED else (0,):
        axes.add_patch(
            FancyBboxPatch(
                (x - width / 2 + shift, y - height / 2 - shift),
                width,
                height,
                boxstyle="round,pad=0,rounding_size=4",
                facecolor=fill,
                edgecolor=edge,
                linewidth=thick,
                zorder=3,
            )
        )


def draw_gpu_tag(axes: Axes, right: float, top: float) -> None:
    """Draw the sign of a job that takes GPUs, its upper right corner at a point."""
    axes.add_patch(Rectangle((right - 28, top - 12), 28, 12, facecolor=STYLES["batch"][1], linewidth=0, zorder=4))
    axes.text(
        right - 14, top - 6.4, "GPU", size=8, weight="bold", color="white", ha="center", va="center_baseline", zorder=5
    )


def draw_line(axes: Axes, points: Sequence[tuple[float, float]], head: bool = True, store: bool = False) -> None:
    """Draw a line through points, with an arrow's head at the last one; what belongs to the store is dashed."""
    color, dashes = (STYLES["batch"][1], (0, (3, 2))) if store else (LINE, "-")
    xs, ys = zip(*points, strict=True)
    (x0, y0), (x1, y1) = points[-2:]
    length = max(abs(x1 - x0), abs(y1 - y0))  # lines are level or upright
    near = (x1 - (x1 - x0) / length, y1 - (y1 - y0) / length)
    axes.plot(xs, ys, color=color, linewidth=1.3, linestyle=dashes, solid_joinstyle="round", zorder=2)
    if head:
        arrow = {
            "arrowstyle": "-|>,head_length=6,head_width=2.8",
            "mutation_scale": 1,
            "color": color,
            "linewidth": 1.3,
        }
        axes.annotate("", points[-1], near, arrowprops=arrow, zorder=2)


def draw_arrow(axes: Axes, source: Box, target: Box) -> None:
    """Draw an arrow: straight within a row or column, else down, across and down; past a row between its columns."""
    if source.row == target.row:
        if target.x > source.x:
            ends = (source.x + BOX_WIDTH / 2 + source.pile, target.x - BOX_WIDTH / 2)
        else:
            ends = (source.x - BOX_WIDTH / 2, target.x + BOX_WIDTH / 2 + target.pile)
        draw_line(axes, [(x, source.y) for x in ends])
    elif source.column == target.column:
        draw_line(axes, [(source.x, source.bottom), (target.x, target.top)])
    else:
        begin, end = source.x - BOX_WIDTH / 4, target.x + BOX_WIDTH / 4
        if target.row - source.row == 1:
            middle = (source.bottom + target.top) / 2
            draw_line(axes, [(begin, source.bottom), (begin, middle), (end, middle), (end, target.top)])
            return
        between, high, low = (source.x + target.x) / 2, source.bottom - GAP / 4, target.top + GAP / 2
        way = [(begin, high), (between, high), (between, low), (end, low)]
        draw_line(axes, [(begin, source.bottom), *way, (end, target.top)])


def draw_bar(axes: Axes, sources: Sequence[Box], targets: Sequence[Box]) -> None:
    """Draw a bar that takes from all sources above it and gives to all targets below it."""
    middle = (sources[0].bottom + targets[0].top) / 2 - 2
    xs = [box.x for box in (*sources, *targets)]
    axes.plot([min(xs) - 8, max(xs) + 8], [middle, middle], color=LINE, linewidth=3.2, solid_capstyle="round", zorder=2)
    for box in sources:
        draw_line(axes, [(box.x, box.bottom), (box.x, middle)], head=False)
    for box in targets:
        draw_line(axes, [(box.x, middle), (box.x, box.top)])


def draw_store(axes: Axes) -> None:
    """Draw the store between the two batches, with what they append to it and what is read from it."""
    x = COLUMNS["B"]
    y = (BOXES["generate"].bottom + BOXES["judge"].top) / 2
    fill, edge = "#FFFFFF", STYLES["batch"][1]
    left, lid = x - STORE_WIDTH / 2, 13
    low, high = y - STORE_HEIGHT / 2 + lid / 2, y + STORE_HEIGHT / 2 - lid / 2
    axes.add_patch(Ellipse((x, low), STORE_WIDTH, lid, facecolor=fill, edgecolor=edge, linewidth=1.6, zorder=3))
    axes.add_patch(Rectangle((left, low), STORE_WIDTH, high - low, facecolor=fill, linewidth=0, zorder=3))
    axes.plot([left, left], [low, high], color=edge, linewidth=1.6, zorder=4)
    axes.plot([left + STORE_WIDTH] * 2, [low, high], color=edge, linewidth=1.6, zorder=4)
    axes.add_patch(Ellipse((x, high), STORE_WIDTH, lid, facecolor=fill, edgecolor=edge, linewidth=1.6, zorder=4))
    axes.text(x, y + 2, "store", size=10.5, weight="bold", ha="center", va="center", color=INK, zorder=5)
    axes.text(x, y - 12, "every response, by key", size=7.6, ha="center", va="center", color=INK, zorder=5)
    small: dict[str, Any] = {"size": 7.6, "color": STYLES["batch"][1], "va": "center"}
    for name, edge_of_store in (("generate", y + STORE_HEIGHT / 2), ("judge", y - STORE_HEIGHT / 2)):
        box = BOXES[name]
        begin = box.bottom if box.y > y else box.top
        draw_line(axes, [(x, begin), (x, edge_of_store)], store=True)
        axes.text(x + 5, (begin + edge_of_store) / 2, "append", **small)
    for name, sign in (("answers", 1), ("llm_verdicts", -1)):
        box = BOXES[name]
        end = box.x - sign * (BOX_WIDTH / 2 - 16)
        draw_line(
            axes,
            [(x + sign * STORE_WIDTH / 2, y), (end, y), (end, box.bottom - box.pile if sign == 1 else box.top)],
            store=True,
        )
        axes.text(x + sign * (STORE_WIDTH / 2 + 14), y + 6, "read", ha="center", **small)


def draw_legend(axes: Axes) -> None:
    """Say what the styles mean."""
    left, y = COLUMNS["C"] - BOX_WIDTH / 2 + 2, HEIGHT - 17
    for style, text in LEGEND:
        lines = text.count("\n") + 1
        draw_shape(axes, style, left + 13, y - (lines - 1) * 5.5, 26, 13)
        axes.text(left + 40, y - (lines - 1) * 5.5, text, size=8.5, va="center", color=INK, linespacing=1.25)
        y -= 11 * lines + 9


def save(path: Path) -> None:
    """Write the picture; the same bytes each time."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        make_figure().savefig(path, dpi=120, metadata=metadata)


if __name__ == "__main__":
    save(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "dag.svg")
