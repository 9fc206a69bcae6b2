"""Captions of figures: sentences that several kinds share, and captions as Markdown and LaTeX."""

import re
from collections.abc import Collection, Iterable, Sequence

from refusal_eval.plots.figure_data import Caption, FigureData
from refusal_eval.report.paper.display import (
    EN_DASH,
    MARKS,
    Card,
    Labels,
    Score,
    flags_in,
    headlines,
    mark_of,
    notes_of,
    number,
    percent,
)
from refusal_eval.report.paper.latex_text import HAN, OTHER, definitions, latex_escaped
from refusal_eval.report.paper.markup import markdown_escaped
from refusal_eval.report.paper.table_notes import (
    AS_READ,
    OF_TURNS,
    agreement_note,
    is_peoples,
    k_text,
    level_text,
    prompts_note,
    protocol_notes,
)
from refusal_eval.report.results.cells import has_turns
from refusal_eval.stats.estimates.estimands import READINGS

MOST_WORDS = 60  # of a caption
# What marks mean, in a few words; notes of tables and long captions have the whole sentence (`display.MARKS`).
IN_SHORT = {
    "unjudged": "many answers without a verdict",
    "truncated": "answers cut off",
    "fitted_prompts": "direction fitted on some prompts",
    "few_clusters": "few independent prompts",
    "mixed_serving": "mixed hardware or versions",
    "unfiltered": "a filter out of order",
    "untransformed": "some prompts in their own text",
    "unsteered": "some prompts without the word",
}
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


def figure_latex(name: str, caption: Caption, spans: bool) -> str:
    r"""Return a whole figure environment to `\input`: the PDF at its natural size, the short caption and a label.

    The file may lie anywhere: `\refusalevalfigures` says where the PDFs lie, seen from the paper's main file.

    Args:
        spans: whether it is wider than a column of a paper with two.
    """
    kind = "figure*" if spans else "figure"
    text = caption_latex(caption.brief)
    comments, lines = [line for line in text.splitlines() if line.startswith("%")], text.splitlines()
    needs = [
        *comments,
        "% Needs \\usepackage{graphicx}. Where the PDFs are not in figures/: \\newcommand{\\refusalevalfigures}{...}",
    ]
    needs[-1] += " before \\begin{document}."
    words = "\n".join(line for line in lines if not line.startswith("%"))
    title = latex_escaped(caption.title.rstrip("."))
    label = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
    return "\n".join(
        [
            *needs,
            "\\providecommand{\\refusalevalfigures}{figures}%",
            f"\\begin{{{kind}}}[tb]",
            "\\centering",
            f"\\includegraphics{{\\refusalevalfigures/{name}.pdf}}",
            f"\\caption[{{{title}}}]{{{words}}}",
            f"\\label{{fig:{label}}}",
            f"\\end{{{kind}}}",
            "",
        ]
    )


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


def short_words(
    data: FigureData,
    what: str,
    scores: Sequence[Score] | None = None,
    flags: Collection[str] | None = None,
    everywhere: Collection[str] = (),
    cards: bool = True,
) -> list[str]:
    """Return the sentences of a caption that every figure of a judge's numbers needs, in as few words as can be.

    Args:
        what: its numbers are, such as "Refusal rate (%) with 95 % CI".
        scores: of the cells that are shown; None for all of the figure.
        flags: that the figure marks; None for all of the scores.
        everywhere: flags whose marks nearly all cells would carry, and none does (`shared_marks`).
    """
    scores = data.scores if scores is None else scores
    found = flags_in(scores) if flags is None else set(flags)
    judge = f"judged by {data.labels.judge(data.judge)} ({short_agreement(data.judge, data.cards)})" if cards else ""
    parts = [
        what,
        *([f"K = {k_text(scores)}", _prompts_in_short(scores)] if scores else []),
        *([judge] if judge else []),
    ]
    others = sorted({str(score["protocol"]) for score in scores if score.get("protocol") not in (None, "default")})
    return [
        ", ".join(parts) + ".",
        *([f"Protocol {', '.join(others)}."] if others else []),
        *short_marks(found - set(everywhere)),
        *([f"Nearly everywhere, and so unmarked: {_marks_in_short(everywhere)}."] if everywhere else []),
    ]


def short_marks(flags: Collection[str]) -> list[str]:
    """Return what the marks of these flags mean, as one sentence; none without marks."""
    text = _marks_in_short(flags)
    return [f"{text}."] if text else []


def everywhere_words(flags: Collection[str]) -> list[str]:
    """Say for a long caption which marks nearly all cells would carry, and none does."""
    symbols = ", ".join(mark_of(flags))
    return [f"Not marked, as more than four fifths would carry it: {symbols}."] if symbols else []


def _marks_in_short(flags: Collection[str]) -> str:
    return "; ".join(f"{symbol} {IN_SHORT[flag]}" for flag, (symbol, _) in MARKS.items() if flag in flags)


def within(title: str, needed: Sequence[str], further: Sequence[str]) -> list[str]:
    """Return the sentences that a caption needs, and of the further ones as many as it has room for."""
    found = list(needed)
    for sentence in further:
        if len(" ".join([title, *found, sentence]).split()) > MOST_WORDS:
            break
        found.append(sentence)
    return found


def short_agreement(judge: str, cards: Iterable[Card]) -> str:
    """Return a judge's kappa with people in both readings, from the lowest to the highest of several gold sets."""
    peoples = [card for card in cards if card["judge"] == judge and card["n_judged"] and is_peoples(card)]
    for name, text in (("kappa", number), ("accuracy", percent)):
        found = {
            reading: sorted(card[reading][name] for card in peoples if card[reading][name] is not None)
            for reading in READINGS
        }
        ends = {of: EN_DASH.join(dict.fromkeys([text(own[0]), text(own[-1])])) for of, own in found.items() if own}
        if len(ends) > 1 and len(set(ends.values())) == 1:
            ends = {" and ".join(ends): next(iter(ends.values()))}
        texts = [f"{numbers} {reading}" for reading, numbers in ends.items()]
        if texts:
            return f"{name}{' (%)' if name == 'accuracy' else ''} with people {', '.join(texts)}"
    return "agreement with people not measured"


def _prompts_in_short(scores: Sequence[Score]) -> str:
    sizes = sorted({score["n_prompts"] for score in scores})
    several = len({score["split"] for score in scores}) > 1
    return (
        f"{f'{EN_DASH}'.join(map(str, dict.fromkeys([sizes[0], sizes[-1]])))} prompts{' per split' if several else ''}"
    )


def _prompts_note(scores: Sequence[Score], splits: Sequence[str], show: Labels) -> str:
    """How many prompts each split has; once where all have as many."""
    counts = {(score["n_prompts"], score["n_turns"], score["n_scored_turns"]) for score in scores}
    if len(splits) > 1 and len(counts) == 1 and len(set(*counts)) == 1:
        return f"Prompts: {next(iter(counts))[0]} per split."
    return prompts_note(scores, splits, show)


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
        _prompts_note(scores, data.shown.splits if splits is None else splits, show),
        *notes_of(flags_in(scores) if flags is None else flags),
        *protocol_notes(scores),
    ]


def label_with_protocol(label: str, scores: Iterable[Score]) -> str:
    """Return the label below a figure, with a line on the protocol of a study under another one than the default.

    So it can be seen even where the caption is lost.
    """
    other = sorted({str(score["protocol"]) for score in scores if score.get("protocol") not in (None, "default")})
    return f"{label}\nProtocol {', '.join(other)}: see the caption." if other else label
