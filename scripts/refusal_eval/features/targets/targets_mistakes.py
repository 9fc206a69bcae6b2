"""What is wrong with the file of published figures that a study names."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import SLUG
from refusal_eval.core.hints import nearest
from refusal_eval.features.targets.targets_keys import TargetsKeys

if TYPE_CHECKING:
    from refusal_eval.features.targets.target_rows import Target


def targets_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong with the published figures of a study, each with the line of their file."""
    path = TargetsKeys.of(study.settings).targets
    if path is None or not Path(path).is_file():  # the latter is a mistake that is reported anyway
        return
    # Imported here: a study without targets is checked without the data dictionary.
    from refusal_eval.features.targets.target_rows import read_targets

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        yield ("targets",), f"{path} cannot be read as UTF-8 text: {error}"
        return
    targets, wrong = read_targets(text)
    wrong += [(target.line, message) for target in targets for message in _wrong_names(target, study)]
    for line, message in sorted(wrong):
        yield ("targets",), f"{path}:{line}: {message}"


def _wrong_names(target: "Target", study: CheckedStudy) -> Iterator[str]:
    """Yield names that neither the study nor the catalogue has.

    A model may also be one that was published and has no entry here, by its published name: with a blank or a capital.
    """
    written = study.catalogue.written
    for noun, name in (("split", target.split), ("judge", target.judge)):
        known = {*written[f"{noun}s"], *study.names(f"{noun}s")}
        if name and name not in known:
            yield f"there is no {noun} `{name}`{nearest(name, known)}"
    models = {*written["models"], *study.names("models")}
    of_a_sweep = any(target.model.startswith(f"{name}.") for name in models)
    if re.fullmatch(SLUG, target.model) and target.model not in models and not of_a_sweep:
        yield (
            f"there is no model `{target.model}`{nearest(target.model, models)}. Write a model that has no entry as "
            "its publisher does, with a capital or a blank"
        )
