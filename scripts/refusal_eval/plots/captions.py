"""Captions of figures: sentences that several kinds share, and captions as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from refusal_eval.plots.plot import Caption
from refusal_eval.report.paper.display import Labels, Score, headlines, mark_notes, notes_of
from refusal_eval.report.paper.frames import Card, agreement_note
from refusal_eval.report.paper.latex_text import HAN, OTHER, definitions, latex_escaped
from refusal_eval.report.paper.markup import markdown_escaped
from refusal_eval.report.paper.protocol_labels import protocol_notes
from refusal_eval.report.paper.table_notes import level_text, prompts_note

PREAMBLE = "captions_preamble.tex"  # beside the captions


def caption_markdown(caption: Caption) -> str:
    """Return a caption as one paragraph of Markdown, its title bold."""
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


def rates_words(scores: Sequence[Score]) -> list[str]:
    """What the refusal rates of scores are: mean over what, K, reading, interval."""
    sizes = " or ".join(str(k) for k in sorted({score["samples"] for score in scores}))
    methods = "; ".join(sorted({score["interval"]["method"] for score in scores}))
    return [
        f"Refusal rate: mean over prompts of the share of refusals among K = {sizes} answers.",
        f"Reading: {headlines(scores)} (strict counts refusals, broad partial refusals as well).",
        f"Intervals: {level_text(scores)}, {methods}.",
    ]


def judge_words(scores: Sequence[Score], cards: Iterable[Card], show: Labels) -> list[str]:
    """Who judged, and how well that judge agrees with people."""
    judge = scores[0]["judge"]
    return [f"Judge: {show.judge(judge)}.", agreement_note(judge, cards, show.golds)]


def cell_words(
    scores: Sequence[Score], splits: Sequence[str], show: Labels, flags: Collection[str] | None = None
) -> list[str]:
    """How many prompts there are, what the marks in the figure mean, and under which protocol it was asked.

    Args:
        scores: of the cells that are shown.
        splits: of these.
        show: labels.
        flags: that the figure marks; None for all of the scores.
    """
    marks = mark_notes(scores) if flags is None else notes_of(flags)
    return [prompts_note(scores, splits, show), *(f"{note}." for note in marks), *protocol_notes(scores)]
