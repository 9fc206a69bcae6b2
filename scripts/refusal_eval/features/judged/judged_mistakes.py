"""Mistakes of splits of kind `judged`: labels of no judge, draws that cannot differ, columns that the other split
lacks, and dialogues."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake, one_of
from refusal_eval.config.shapes import KeyPath
from refusal_eval.core.hints import nearest
from refusal_eval.core.states import LABELS
from refusal_eval.features.judged.judged_rows import CHANCE, SHARE, JudgedRows


def judged_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong between such splits and those that they are made of."""
    for name, split in study.entries("splits").items():
        source = split.source
        if not isinstance(source, JudgedRows):
            continue
        yield from ((("splits", name, "source", "keep", *path), text) for path, text in _wrong_labels(study, source))
        model = study.catalogue.valid["models"].get(source.model)
        if source.anew and model is not None and model.sampling is not None:
            for parameter, said in model.sampling.greedy_by:
                message = (
                    f"{said} of `{source.model}` (`sampling.{parameter}`) gives the same answer every time, so that "
                )
                yield ("splits", name, "source", "anew"), message + "nothing is drawn anew; leave it out"
        parent = study.catalogue.valid["splits"].get(source.made_of)
        if parent is None:
            continue
        known = [SHARE, CHANCE, *(parent.columns.keep or [])]
        for column in split.columns.keep or ():
            if column not in known:
                what = f"split `{source.split}` keeps no column `{column}` (`columns.keep`){nearest(column, known)}"
                yield ("splits", name, "columns", "keep"), what
        if parent.dialogue is not None:
            what = f"the prompts of `{source.split}` are dialogues, of which several answers may count; name a split "
            yield ("splits", name, "source", "split"), what + "whose rows are one question each"
        if split.dialogue is not None:
            yield ("splits", name, "dialogue"), f"the prompts of `{source.split}` are no dialogues; leave it out"


def _wrong_labels(study: CheckedStudy, source: JudgedRows) -> Iterator[tuple[KeyPath, str]]:
    """Yield the place and what is wrong with what the judge never gives: labels, probabilities."""
    judge, keep = study.judges.get(source.judge), source.keep
    if keep.best is not None and judge is not None and judge.gives_probabilities == "never":
        message = f"`{source.judge}` (kind {judge.kind}) gives no probabilities, by which the best are found; name a "
        yield ("best",), message + "judge that does, such as one of kind `llm` or `first_token`"
    given = judge.labels_given() if judge is not None else LABELS
    # What a judge says is known only if the entries of those that it reads have no mistake.
    kinds = judge.named_kinds(study.view) if judge is not None and study.all_valid("judges") else {}
    for place, label in enumerate(keep.labels):
        path: KeyPath = ("label",) if isinstance(keep.label, str) else ("label", place)
        if label not in given and label in kinds:
            yield path, f"`{label}` is a kind of answer that `{source.judge}` counts as `{kinds[label]}`; write that"
        elif label not in given:
            whose = f"the labels that `{source.judge}` gives"
            yield path, f"must be {one_of([f'`{one}`' for one in given])}, {whose}{nearest(label, given)}"
