"""Captions of figures: sentences that several kinds share, and captions as Markdown and LaTeX."""

from collections.abc import Collection, Iterable, Sequence

from refusal_eval.plots.figure_data import Caption, FigureData
from refusal_eval.report.paper.display import Labels, Score, flags_in, headlines, notes_of
from refusal_eval.report.paper.latex_text import HAN, OTHER, definitions, latex_escaped
from refusal_eval.report.paper.markup import markdown_escaped
from refusal_eval.report.paper.table_notes import (
    AS_READ,
    OF_TURNS,
    agreement_note,
    k_text,
    level_text,
    prompts_note,
    protocol_notes,
)
from refusal_eval.report.results.cells import has_turns

PREAMBLE = "captions_preamble.tex"  # next to the captions


def caption_markdown(caption: Caption) -> str:
    """Return a caption as one Markdown paragraph with a bold title."""
    return f"**{markdown_escaped(caption.title)}** {markdown_escaped(' '.join(caption.sentences))}".rstrip() + "\n"


def caption_latex(caption: Caption) -> str:
    r"""Return a caption as the argument of LaTeX's `\caption`, its title bold.

    A comment before it says so where it has characters that only a document with `captions_preamble` can print.
    """
    text = f"\\textbf{{{latex_escaped(caption.title)}}} {latex_escaped(' '.join(caption.sentences))}".rstrip() + "\n"
    needs = f"% Needs \\input{{{PREAMBLE.removesuffix('.tex')}}} before \\begin{{document}}.\n"
    return (needs if definitions(text) else "") + text


def captions_preamble() -> str:
    r"""Return LaTeX for the preamble of a document, with all commands that captions use and no package has.

    It stands apart from the captions: a definition within `\caption` would not survive the way to a list of figures.
    """
    return f"% For the captions of figures: \\input this file before \\begin{{document}}.\n{HAN}\n{OTHER}\n"


def prompts_words(scores: Sequence[Score]) -> str:
    """Return what is counted: prompts, or scored turns if a prompt has several."""
    return "prompts" + (OF_TURNS if has_turns(scores) else "")


def rates_words(scores: Sequence[Score], show: Labels, mean: str | None = None) -> list[str]:
    """What the refusal rates of scores are: mean over what (`mean`; None for prompts), K, reading, interval."""
    mean = mean or f"Refusal rate: mean over {prompts_words(scores)}"
    methods = "; ".join(sorted({score["interval"]["method"] for score in scores}))
    return [
        f"{mean} of the share of refusals among K = {k_text(scores)} answers.",
        f"Reading: {headlines(scores, show.split)} (strict counts refusals, broad partial refusals as well).",
        f"Intervals: {level_text(scores)}, {methods}.",
    ]


def study_words(
    data: FigureData,
    scores: Sequence[Score] | None = None,
    splits: Sequence[str] | None = None,
    flags: Collection[str] | None = None,
) -> list[str]:
    """Who judged, and how well that judge agrees with people; how many prompts there are, marks, and the protocol.

    Args:
        scores: of the cells that are shown; None for all of the figure.
        splits: of these.
        flags: that the figure marks; None for all of the scores.
    """
    show, scores = data.labels, data.scores if scores is None else scores
    return [
        f"Judge: {show.judge(data.judge)}.",
        AS_READ,
        agreement_note(data.judge, data.cards, show.golds),
        prompts_note(scores, data.shown.splits if splits is None else splits, show),
        *notes_of(flags_in(scores) if flags is None else flags),
        *protocol_notes(scores),
    ]


def label_with_protocol(label: str, scores: Iterable[Score]) -> str:
    """Return the label below a figure, with a line on the protocol of a study under another one than the default.

    So it can be seen even where the caption is lost.
    """
    other = sorted({str(score["protocol"]) for score in scores if score.get("protocol") not in (None, "default")})
    return f"{label}\nProtocol {', '.join(other)}: see the caption." if other else label
