"""Which files the card of a data set on the hub names: those of its own commit, and no others.

The `datasets` library accepts anything there: addresses, absolute paths, `..`. A locked commit does not pin such files,
and a card could turn files of this machine into prompts.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import inner_name
from refusal_eval.core.yaml_files import refuse_unbounded

CARD, SETTINGS = "README.md", ".huggingface.yaml"


def check_card(folder: Path, what: str) -> None:
    """Check that a data set's card, and its settings in a file of their own, name files of the repository only.

    Raises:
        UserError: with the line, if they name others; `what` is the data set.
    """
    for path in (folder / CARD, folder / SETTINGS):
        for given in _patterns(_settings(path)) if path.is_file() else ():
            try:
                inner_name(given)
                inside = "://" not in given and "::" not in given
            except ValueError:
                inside = False
            if not inside:
                raise UserError(
                    f"{what}: {_place(path, given)}: `{given}` is not in the repository, so the commit does not lock "
                    "it; a card may name files of its own repository only"
                )


def check_listed(files: Iterable[str], folder: Path, listed: Collection[str], what: str) -> None:
    """Check that the files which rows are read from are files of a copy that the repository lists.

    The files of the copy are links to where the cache keeps them, which are not followed.

    Raises:
        UserError: if one is another file.
    """
    home = folder.resolve()
    for file in files:
        name = Path(os.path.relpath(file, home)).as_posix()
        if name not in listed:
            raise UserError(f"{what}: its rows would come from {name}, and the repository does not list it; remove it")


def _settings(path: Path) -> Any:
    """Return what a file says, read as the library reads it, so that nothing is seen here otherwise than there."""
    from huggingface_hub import DatasetCard, repocard

    text = path.read_text(encoding="utf-8")
    if path.name == CARD:
        block = repocard.REGEX_YAML_BLOCK.search(text)
        refuse_unbounded(block[2] if block else "")
        card: Any = DatasetCard.load(path)
        return card.data.to_dict()
    refuse_unbounded(text)
    return yaml.safe_load(text)


def _patterns(settings: Any) -> Iterator[str]:
    """Yield the patterns and folders that settings name; what has another form is left for the library to refuse."""
    configs = settings.get("configs") if isinstance(settings, Mapping) else None
    for config in configs if isinstance(configs, list) else ():
        if isinstance(config, Mapping):
            yield from _texts(config.get("data_files"))
            yield from _texts(config.get("data_dir"))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(value.get("path"))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _place(path: Path, given: str) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((f"{path.name}, line {number}" for number, line in enumerate(lines, 1) if given in line), path.name)
