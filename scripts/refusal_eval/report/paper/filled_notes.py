"""The notes below tables, out of the templates in the notes/ of features, one for each table.

In a template every note begins with a hyphen; white space in it does not matter. No line begins with what a user wrote.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2

import refusal_eval
from refusal_eval.report.paper import display, table_notes
from refusal_eval.stats.estimates.intervals import RATE_INTERVAL

FOLDERS = sorted(Path(refusal_eval.__file__).parent.glob("features/*/notes"))
_WORDS = ("NO_DATA", "MINUS", "clean", "headlines", "join_texts", "percent")
_SENTENCES = (
    *(
        "MODEL_ALONE_NOTE",
        "OF_TURNS",
        "READINGS_NOTE",
        "TURNS_NOTE",
        "c_notes",
        "common_notes",
        "compared_notes",
        "flags_notes",
        "gold_notes",
    ),
    *("has_turns", "judged_notes", "judges_notes", "labels_notes", "level_text", "prompts_note", "ranking_text"),
    *("k_text", "kinds_agreement", "readings_note", "sorted_cards", "turns_notes", "unshown_kappa"),
)


def filled_notes(template: str, show: display.Labels, **values: Any) -> list[str]:
    """Return the notes below one table.

    Args:
        template: its name, such as `corrected/rates`.
        show: display names, used by the filters `model`, `split`, `judge` and `gold`.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDERS),
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: value if isinstance(value, _Notes) else " ".join(str(value).split()),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {noun: getattr(show, noun) for noun in ("model", "split", "judge", "gold")}
    environment.globals |= {name: getattr(display, name) for name in _WORDS}
    environment.globals |= {name: getattr(table_notes, name) for name in _SENTENCES}
    environment.globals["RATE_INTERVAL"] = RATE_INTERVAL
    text = environment.get_template(f"{template}.j2").render(values, show=show, each=_each)
    return [" ".join(note.split()) for note in re.split(r"^- ", text, flags=re.MULTILINE)[1:]]


class _Notes(str):
    """Finished notes, each on a line of its own."""


def _each(notes: Iterable[str]) -> _Notes:
    return _Notes("".join(f"- {' '.join(note.split())}\n" for note in notes))
