"""What the pages that are generated from the catalogue share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refusal_eval.config.catalogue import Catalogue, shipped_files
from refusal_eval.config.entry_marks import Marks
from refusal_eval.config.problems import ConfigError, Problem
from refusal_eval.config.source_entries import DataSource, open_pin


def shipped_catalogue(root: str) -> Catalogue:
    """Return the shipped catalogue.

    Raises:
        ConfigError: if it has mistakes.
    """
    files, problems = shipped_files(root), list[Problem]()
    catalogue = Catalogue(files, len(files), problems)
    if problems:
        raise ConfigError(problems)
    return catalogue


def table_head(cells: Sequence[str]) -> list[str]:
    """Return the two lines that begin a Markdown table."""
    return [table_row(cells), table_row(["---"] * len(cells))]


def table_row(cells: Iterable[str]) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def details_of(name: str, title: str, marks: Marks, source: DataSource) -> str:
    """Return the paragraph about an entry: what it is, why it is off, what is open or not verified, whom to cite."""
    parts = [f"- **`{name}`**, {title}: {marks.description or 'no description'}"]
    if marks.reason is not None and not marks.enabled:
        terms = f" ([terms]({marks.terms}))" if marks.terms else ""
        parts.append(f"  **Off:** {marks.reason.rstrip('.')}{terms}.")
    pin = open_pin(source.model_dump())
    if pin is not None:
        parts.append(f"  Its `{pin}` is not known yet; `refusal-eval pin` asks for it and writes it into a lock file.")
    if marks.unverified:
        parts.append(f"  Not verified: {'; '.join(marks.unverified)}.")
    links = [f"[page]({marks.homepage})"] if marks.homepage else []
    links += [f"cite `{key}`" for key in marks.citation]
    return "\n".join([*parts, *([f"  {', '.join(links)}"] if links else [])])
