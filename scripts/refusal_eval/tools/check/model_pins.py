"""What a check does about a model whose commit is not known: takes it from a study's lock file, or says what to do."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from refusal_eval.config.lock_file import lock_path
from refusal_eval.config.problems import ConfigError
from refusal_eval.config.yaml_source import readable_path
from refusal_eval.core.errors import UserError


def take_lock(study_file: Path | None, check: Path) -> None:
    """Put the lock file of the user's study, if there is one, beside the study of the check.

    Args:
        study_file: the user's study.
        check: the study file of the check.
    """
    if study_file is not None and os.path.isfile(lock_path(str(study_file))):
        shutil.copyfile(lock_path(str(study_file)), lock_path(str(check)))


def differs(study_file: Path | None, check: Path, error: ConfigError) -> UserError:
    """Return what an entry is refused with that differs from the lock file, with the names of the user's files."""
    text = str(error)
    if study_file is not None:
        text = text.replace(lock_path(str(check)), lock_path(str(study_file)))
        text = text.replace(readable_path(str(check)), str(study_file))
    return UserError(text)


def not_pinned(model: str, study_file: Path | None, error: ConfigError) -> UserError:
    """Return what to tell of a model that is not pinned.

    Args:
        model: its name in the catalogue.
        study_file: the user's study, if one was named.
        error: what a study with this model is refused with: nothing but its open pins.
    """
    places = [f"{problem.file}:{problem.line}: {problem.path}" for problem in error.problems]
    lines = [f"`{model}` cannot be checked yet: the commit is not known of", *(f"  - {place}" for place in places)]
    again = f"refusal-eval check --model {model}"
    if study_file is None:
        study = "my_study.yaml"
        lines.append(f"Write it there, or name the model in a study, run `refusal-eval pin {study}`, and then")
    else:
        study = shlex.quote(str(study_file))
        lock = lock_path(str(study_file))
        lacks = "does not have it" if os.path.isfile(lock) else "is not there"
        lines.append(f"and {lock} {lacks}. Name the model in {study_file}, run `refusal-eval pin {study}`, and then")
    lines.append(f"`{again} {study}`, which reads the lock file that `refusal-eval pin` writes.")
    return UserError("\n".join(lines))
