"""What results say of the study file that they belong to."""

import os
from pathlib import Path

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json

RECORD = "study.json"  # of the results


def recorded_file(record: Path) -> Path:
    """Return the study file that results belong to.

    Args:
        record: the study.json of the results.

    Raises:
        UserError: if the record is damaged.
    """
    try:
        record_read = read_json(record)
    except (UserError, RecursionError, ValueError, OSError):
        record_read = None
    file = record_read.get("file") if isinstance(record_read, dict) else None
    if not isinstance(file, str) or not os.path.isabs(file) or "\0" in file:
        raise UserError(
            f"{record} is damaged: it does not say which study file these results belong to. Delete it if they are of "
            "this study; the next run writes it"
        )
    return Path(file)
