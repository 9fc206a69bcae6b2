"""Chat templates in files of the user's own: Jinja, and no JSON that holds it."""

import json
from pathlib import Path

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_users_text


def read_template(path: str | Path) -> str:
    """Return the text of a Jinja file.

    Raises:
        UserError: if it is JSON, which would be sent as it is, or no text.
    """
    text = read_users_text(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict | list | str):
        return text
    key = " of its key `chat_template`" if isinstance(value, dict) and "chat_template" in value else ""
    raise UserError(
        f"{path} is JSON, no Jinja template: all of it would be sent to the model. Write the template's "
        f"text{key} into a file of its own, such as chat_template.jinja, with line breaks for `\\n`"
    )
