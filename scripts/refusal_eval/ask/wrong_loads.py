"""Files of the store, as earlier versions wrote them, whose responses are not those of the models that they name."""

import json
from pathlib import Path

from refusal_eval.config.change import changes

HEAD = b'{"serving_id"'
MOST_BYTES = 1 << 20  # of a serving record: what is longer is none


def why_not_to_be_read(path: Path) -> str | None:
    """Return why the responses in a file of the store are not to be read; None where they are."""
    with open(path, "rb") as handle:
        while (line := handle.readline(MOST_BYTES)).startswith(HEAD):
            try:
                record = json.loads(line)["serving_record"]
                for change in changes():
                    if why := change.damage_by(record):
                        return why
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                return None  # a damaged record, which its reader names
    return None
