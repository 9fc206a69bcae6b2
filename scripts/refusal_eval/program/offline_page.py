"""Pages of one file that are opened from disk: they load nothing, connect to nothing, and run their own script alone.

What a page shows travels as data: JSON in a script element of its own, which its script shows as text, never as markup.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from refusal_eval.program.text_templates import render_template

FRAME = Path(__file__).with_suffix(".html")


def embed(value: Any) -> str:
    """Return JSON that is safe inside a script element: ASCII, without <, > and &."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def offline_page(
    body: Path, style: str, script: str, data: Any, title: str, values: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """Return a page in the frame that all have (`FRAME`).

    Its content security policy names the hashes of its one script and one style: nothing else runs, nothing is loaded,
    and no connection is opened.

    Args:
        body: the template of what is shown, which escapes `values`.
        data: what the page shows, as JSON.
    """
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; connect-src 'none'; "
        "img-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'"
    )
    # Own files and data without markup: the only parts that are not escaped.
    made = {"policy": policy, "style": style, "script": script, "data": embed(data)}
    made["body"] = render_template(body, values)
    return render_template(FRAME, {**{name: Markup(text) for name, text in made.items()}, "title": title})


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
