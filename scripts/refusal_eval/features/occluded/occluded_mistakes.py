"""Mistakes of splits of kind `occluded`: columns that the other split does not keep, and dialogues asked otherwise."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.core.hints import nearest
from refusal_eval.features.occluded.occluded_rows import KEPT, OccludedRows


def occluded_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong between such splits and those that they are made of."""
    for name, split in study.entries("splits").items():
        parent = study.catalogue.valid["splits"].get(split.source.made_of)
        if not isinstance(split.source, OccludedRows) or parent is None:
            continue
        known = [*KEPT, *(parent.columns.keep or [])]
        for column in split.columns.keep or ():
            if column not in known:
                what = (
                    f"split `{split.source.split}` keeps no column `{column}` (`columns.keep`){nearest(column, known)}"
                )
                yield ("splits", name, "columns", "keep"), what
        own, asked = (entry.dialogue.mode if entry.dialogue else None for entry in (split, parent))
        if own != asked and asked is None:
            yield ("splits", name, "dialogue"), f"the prompts of `{split.source.split}` are no dialogues; leave it out"
        elif own != asked:
            what = f"the prompts of `{split.source.split}` are dialogues, whose last turn is changed"
            yield ("splits", name, "dialogue"), f"{what}; ask them here as there, by `dialogue: {{mode: {asked}}}`"
