"""What of an engine's log goes into the block: the line that tells why it ended, and its last errors."""

from __future__ import annotations

from refusal_eval.data.network import without_secrets
from refusal_eval.tools.status.log_text import ESCAPES, HARMLESS_LEVELS, SERVER_PREFIX, clean, server_cause

LAST_ERRORS = 5


def last_words(text: str) -> list[str]:
    """Return the cause first, where one is recognised, then the last errors; each one printable line, no secrets.

    Lines of a level below an error are left out, and so are those of code in tracebacks.

    Args:
        text: the end of the server's log.
    """
    errors = []
    for raw in text.split("\n"):
        line = ESCAPES.sub("", raw)
        prefix = SERVER_PREFIX.match(line)
        assert prefix is not None  # it matches nothing as well
        message = line[prefix.end() :]
        if prefix[1] not in HARMLESS_LEVELS and message.strip() and not message.startswith((" ", "\t", "Traceback")):
            errors.append(clean(message))
    cause = server_cause(text)
    return [without_secrets(line) for line in dict.fromkeys([*([cause] if cause else []), *errors[-LAST_ERRORS:]])]
