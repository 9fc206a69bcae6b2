"""Paragraphs with citations, as Markdown (pandoc's citations) and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from refusal_eval.report.paper.display import clean
from refusal_eval.report.paper.latex_text import definitions, latex_escaped
from refusal_eval.report.paper.markup import markdown_escaped

# Around the keys of a citation within a text. Nothing that a user wrote holds them: `quoted` takes them away.
_OPEN, _CLOSE = "\ue000", "\ue001"
_CITED = re.compile(f" ?{_OPEN}([^{_CLOSE}]*){_CLOSE}")


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of plain text: its title and its sentences."""

    title: str
    sentences: tuple[str, ...]


def cite(*keys: str) -> str:
    """Return a citation to be put into a text, after a space; nothing without keys."""
    known = [key for key in dict.fromkeys(keys) if key]
    return f" {_OPEN}{','.join(known)}{_CLOSE}" if known else ""


def quoted(text: str) -> str:
    """Return a user's text on one line, without control characters."""
    return clean(text)


def listed(texts: Iterable[str]) -> str:
    """Return texts as a list in a sentence: a, b and c; where one has a comma itself, "a; b, with c; and d"."""
    *first, last = list(texts) or [""]
    if not any(", " in text for text in (*first, last)):
        return f"{', '.join(first)} and {last}" if first else last
    if len(first) > 1:
        return f"{'; '.join(first)}; and {last}"
    return f"{first[0]}{',' if ', ' in first[0] else ''} and {last}" if first else last


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: 1 prompt, 2 prompts; thousands are set apart by commas."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def cited_keys(paragraphs: Iterable[Paragraph]) -> list[str]:
    """Return the keys that paragraphs cite, in the order of their first citation."""
    text = "".join("".join(paragraph.sentences) for paragraph in paragraphs)
    return list(dict.fromkeys(key for found in _CITED.findall(text) for key in found.split(",")))


def as_markdown(paragraphs: Iterable[Paragraph]) -> str:
    """Return the paragraphs in Markdown; a citation is `[@key; @key]`."""
    parts = []
    for paragraph in paragraphs:
        text = _woven(" ".join(paragraph.sentences), markdown_escaped, _pandoc)
        parts.append(f"**{markdown_escaped(paragraph.title)}.** {text}")
    return "\n\n".join(parts) + "\n"


def as_latex(paragraphs: Iterable[Paragraph]) -> str:
    """Return the paragraphs in LaTeX; a citation is `\\cite`. They need no package."""
    parts = []
    for paragraph in paragraphs:
        text = _woven(" ".join(paragraph.sentences), latex_escaped, _latex)
        parts.append(f"\\paragraph{{{latex_escaped(paragraph.title)}.}}\n{text}")
    text = "\n\n".join(parts) + "\n"
    return definitions(text) + text


def _woven(text: str, escaped: Callable[[str], str], cited: Callable[[list[str]], str]) -> str:
    pieces = _CITED.split(text)
    return "".join(cited(piece.split(",")) if i % 2 else escaped(piece) for i, piece in enumerate(pieces))


def _pandoc(keys: list[str]) -> str:
    return f" [{'; '.join('@' + key for key in keys)}]"


def _latex(keys: list[str]) -> str:
    return f"~\\cite{{{','.join(keys)}}}"
