"""Mistakes of splits of kind `judged`: columns that the other split does not keep, and dialogues."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.core.hints import nearest
from refusal_eval.features.judged.judged_rows import SHARE, JudgedRows


def judged_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong between such splits and those that they are made of."""
    for name, split in study.entries("splits").items():
        source = split.source
        parent = study.catalogue.valid["splits"].get(source.made_of)
        if not isinstance(source, JudgedRows) or parent is None:
            continue
        known = [SHARE, *(parent.columns.keep or [])]
        for column in split.columns.keep or ():
            if column not in known:
                what = f"split `{source.split}` keeps no column `{column}` (`columns.keep`){nearest(column, known)}"
                yield ("splits", name, "columns", "keep"), what
        if parent.dialogue is not None:
            what = f"the prompts of `{source.split}` are dialogues, of which several answers may count; name a split "
            yield ("splits", name, "source", "split"), what + "whose rows are one question each"
        if split.dialogue is not None:
            yield ("splits", name, "dialogue"), f"the prompts of `{source.split}` are no dialogues; leave it out"
