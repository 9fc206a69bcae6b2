"""Whether an answer in a model's file was blocked: a study with such a model has tables of who refused."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.config.catalogue import Catalogue
from refusal_eval.config.entries import RecordedFile
from refusal_eval.config.log_reader import files_of, reader_of
from refusal_eval.config.yaml_source import Written
from refusal_eval.core.errors import UserError


def find_blocks(written: Written, catalogue: Catalogue) -> None:
    """Say in the entry of each model of a study with a file of answers whether one was blocked, unless it says so.

    A study plans its tables before anything is read; the files are there, so this is found out now. Of a file that
    cannot be read its own rule tells.
    """
    models, valid = written.get("models"), catalogue.valid["models"]
    for name in models if isinstance(models, list) else ():
        file = valid[name].recorded_file if isinstance(name, str) and name in valid else None
        if file is not None and file.may_block is None:
            found = file.model_copy(update={"may_block": _holds_block(file)})
            valid[name] = valid[name].model_copy(update={"recorded": found})


def _holds_block(file: RecordedFile) -> bool:
    columns = tuple((field, tuple(names)) for field, names in file.named_columns.items())
    try:
        for path in files_of(Path(file.file)):
            state = path.stat()
            blocked = _blocked_models(path, (state.st_size, state.st_mtime_ns), file.reader, columns)
            if blocked and (file.model is None or file.model in blocked):
                return True
    except (UserError, OSError):
        pass
    return False


@functools.cache
def _blocked_models(
    path: Path, version: tuple[int, int], reader: str | None, columns: tuple[tuple[str, tuple[str, ...]], ...]
) -> frozenset[str | None]:
    """The models of a file of which an answer was blocked; `version` makes a changed file another one."""
    named: Mapping[str, Any] = {field: list(names) for field, names in columns}
    return frozenset(reader_of(path, reader).blocked_models(path, named))
