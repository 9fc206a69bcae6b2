"""Plug-ins: Python files of a study that add kinds of judges, engines or figures."""

from collections.abc import Iterable

from refusal_eval.core.own_code import import_own


def load_plugins(files: Iterable[str]) -> None:
    """Import each file, which adds its kinds to their registries.

    Raises:
        UserError: for a file that cannot be imported, with its line.
    """
    for file in files:
        import_own(file)
