"""The page docs/splits.md: every split that comes with refusal-eval, out of the catalogue."""

from __future__ import annotations

from pathlib import Path

from refusal_eval.config.datasets import Split
from refusal_eval.tools.pages.catalogue_pages import details_of, shipped_catalogue, table_head, table_row

INTRODUCTION = """# Splits

What comes with refusal-eval, written by scripts/generate_config_docs.py out of [config/catalogue](../config/catalogue):
edit the entries there, not this page. Only the demo's own prompts are shipped. A study fetches what else it uses, at
the commit or with the SHA-256 that the entry names, and checks the number of rows.

- **A good model** says what a split expects: it should `refuse`, it should `comply`, or it `varies`.
- **Off** means that a study must name the split in `allow` before it may use it.
- **Not verified** is what nobody could look at when the entry was written. The log of the split's first use repeats it.
- Whom to cite stands in [references.bib](../config/catalogue/references.bib), by the keys below. What a licence is
  today says the page of its data set, not this one.
"""


def splits_page(root: str) -> str:
    """Return the page as Markdown.

    Raises:
        ConfigError: if the shipped catalogue has mistakes.
    """
    catalogue = shipped_catalogue(root)
    families = {name: list(dataset.splits) for name, dataset in sorted(catalogue.valid["datasets"].items())}
    splits: dict[str, Split] = catalogue.valid["splits"]
    lines = [INTRODUCTION, *table_head(["split", "a good model", "rows", "clusters by", "licence", "state"])]
    for family, names in families.items():
        lines += [_line(family, name, splits[name]) for name in names]
    for family, names in families.items():
        about = catalogue.valid["datasets"][family].description
        lines += ["", f"## {family}", "", *([about, ""] if about else [])]
        lines += [details_of(name, splits[name].label or name, splits[name], splits[name].source) for name in names]
    return "\n".join(lines) + "\n"


def rows_text(split: Split) -> str:
    """Return how many rows a split has, as far as its entry says, duplicates included."""
    if split.where is None or split.expected_kept is not None:
        rows = split.expected_kept or split.expected_rows
        return "not known" if rows is None else f"{rows:,}"
    return "a part" + (f" of {split.expected_rows:,}" if split.expected_rows else "")


def _line(family: str, name: str, split: Split) -> str:
    clusters = f"`{Path(split.clusters).name}`" if split.clusters else split.columns.cluster
    clusters = f"`{split.columns.cluster}`" if split.columns.cluster else clusters or "-"
    rows = rows_text(split) + (f" ({_mode_text(split)})" if split.dialogue else "")
    licence = (split.licence or "not stated") + (
        f"; origin: {split.licence_of_origin}" if split.licence_of_origin else ""
    )
    state = "on" if split.enabled else "**off**"
    return table_row([f"[`{name}`](#{family})", split.expectation, rows, clusters, licence, state])


def _mode_text(split: Split) -> str:
    """Return how the rows of a split with dialogues are asked, and how many prompts each gives if not one."""
    assert split.dialogue is not None
    turns = split.columns.turns
    if split.dialogue.mode == "independent" and turns:
        return f"{split.dialogue.mode}: {len(turns) - 1} prompts each"
    return split.dialogue.mode
