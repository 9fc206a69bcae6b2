"""A rater's page: one HTML file that needs no network, no server and no other file."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.texts import visible
from refusal_eval.tools.audit.rater_words import MEANINGS, NOTICE, RULES, TASK
from refusal_eval.tools.audit.shown_text import ROLES

_FILES = Path(__file__).parent / "page"


def page(audit: str, rater: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of one rater with these rows of the sample, in their order.

    The texts stand in it as data (JSON in which no `<` is left) and come onto the page as text, never as markup. Its
    content security policy names the hashes of its one script and one style: nothing else runs, nothing is loaded,
    and no connection is opened.
    """
    data = {
        "audit": audit,
        "rater": rater,
        "words": {"notice": NOTICE, "task": TASK, "meanings": MEANINGS, "rules": RULES},
        "rows": [
            {
                "id": row["id"],
                "messages": [
                    [ROLES.get(message["role"], message["role"]), visible(message["content"])]
                    for message in row["messages"]
                ],
                "answer": visible(row["answer"]),
            }
            for row in rows
        ],
    }
    style, script = (_FILES.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    text = _FILES.joinpath("page.html").read_text(encoding="utf-8")
    # The data come last: no text of a model stands there when the places are filled.
    for place, value in (
        ("@STYLE_HASH@", _hash(style)),
        ("@SCRIPT_HASH@", _hash(script)),
        ("@STYLE@", style),
        ("@SCRIPT@", script),
        ("@DATA@", embedded(data)),
    ):
        before, after = text.split(place)
        text = before + value + after
    return text


def embedded(value: Any) -> str:
    """Return JSON that can stand in a script element: ASCII, and without <, > and &."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
