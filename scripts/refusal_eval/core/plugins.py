"""Plug-ins: Python files of a study that add kinds of judges, engines or figures."""

import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable

from refusal_eval.core.errors import UserError


def load_plugins(files: Iterable[str]) -> None:
    """Import each file, which adds its kinds to their registries.

    Raises:
        UserError: for a file that cannot be imported, with its line.
    """
    for file in files:
        path = os.path.realpath(file)
        name = f"refusal_eval_plugin_{hashlib.sha256(path.encode()).hexdigest()[:16]}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UserError(f"{file} is not a Python file: its name must end in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # before it runs: classes look for their annotations there
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            place = f"{file}, line {_line(error, path)}"
            raise UserError(f"{place}: cannot be imported: {type(error).__name__}: {error}") from error


def _line(error: BaseException, path: str) -> int:
    """Return the line of a file where an error was raised."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno or 0
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] or 0 if lines else 0
