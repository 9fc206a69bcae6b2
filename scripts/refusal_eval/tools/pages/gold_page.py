"""The page docs/gold.md: the gold that comes with refusal-eval, out of the catalogue."""

from __future__ import annotations

from refusal_eval.config.entries import Gold
from refusal_eval.config.source_entries import open_pin
from refusal_eval.study.row_sources import addresses_of
from refusal_eval.tools.pages.catalogue_pages import details_of, shipped_catalogue, table_head, table_row

INTRODUCTION = """# Gold

Answers that people labelled, on which every judge of a study is measured. Written by scripts/generate_config_docs.py
out of [config/catalogue](../config/catalogue): edit the entries there, not this page. No row is shipped. A study
fetches the gold that it names, at the commit or with the SHA-256 of the entry or of its lock file, and checks the
number of rows.

- **Labels**: the source's own, each as refusal, partial refusal or compliance. "Binary" is always said with its
  reading: *strict* takes refusals alone, *broad*, the default, partial refusals too. What is called partial differs
  between sources.
- **People among themselves** is the kappa that the annotators reach with each other; no judge can be shown to beat
  it. Judge cards show it, and what other judges are published to reach (kappa or F1), beside the judge's own numbers.
- **Off** means that a study must name the gold in `allow` before it may use it.
- **Pin first**: we have not seen the file, so the entry has no hash of it, and a study that names the gold stops with a
  message until `refusal-eval pin my_study.yaml` has read the file once and written what it found into the study's lock
  file. Later runs, yours and those of others with that lock file, get the same bytes or stop. That the first file is
  the right one is not proven by this: its number of rows and its labels are checked when gold is made.
- Labels of your own, on the answers of your own study, are made with the labelling kit
  ([labelling.md](labelling.md)).
"""


def gold_page(root: str) -> str:
    """Return the page as Markdown.

    Raises:
        ConfigError: if the shipped catalogue has mistakes.
    """
    gold: dict[str, Gold] = shipped_catalogue(root).valid["gold"]
    head = ["gold", "rows", "answering models", "labels", "people", "people among themselves", "licence", "state"]
    lines = [INTRODUCTION, *table_head(head)]
    lines += [_line(name, entry) for name, entry in gold.items()]
    lines += ["", *(details_of(name, entry.label or name, entry, entry.source) for name, entry in gold.items())]
    return "\n".join(lines) + "\n"


def _line(name: str, entry: Gold) -> str:
    rows = "not known" if entry.expected_rows is None else f"{entry.expected_rows:,}"
    labels = ", ".join(f"{given} = {label}" for given, label in entry.labels.items())
    kappa = entry.human_kappa
    agreed = "-" if kappa is None else "; ".join(f"{key} {value:g}" for key, value in _kappas(entry))
    agreed += "" if kappa is None else f" ({kappa.statistic})"
    first = open_pin(entry.source.model_dump()) is not None
    state = ("on" if entry.enabled else "**off**") + (", **pin first**" if first else "")
    return table_row(
        [f"`{name}`", rows, _models(entry), labels, str(entry.raters), agreed, entry.licence or "not stated", state]
    )


def _kappas(entry: Gold) -> list[tuple[str, float]]:
    kappa = entry.human_kappa
    values = {} if kappa is None else {"broad": kappa.broad, "strict": kappa.strict, "three-class": kappa.three_class}
    return [(name, float(value)) for name, value in values.items() if value is not None]


def _models(entry: Gold) -> str:
    """Return how many models answered, as far as the entry tells."""
    if entry.answers:
        return str(len(entry.answers))
    parts = addresses_of(entry.source.url) if entry.source.kind == "url" else {}
    return str(len(parts)) if len(parts) > 1 else "not told apart"
