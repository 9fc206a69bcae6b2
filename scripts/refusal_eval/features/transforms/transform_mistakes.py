"""Mistakes of transforms: fields that a split does not keep, and what each kind needs of its study."""

from collections.abc import Iterable, Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.core.hints import nearest
from refusal_eval.features.transforms.transform_keys import TransformKeys

FOCUS_PATH = ("focus", "attribution")


def transform_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong with the transforms of a study's models."""
    for name, model in (study.models | study.further_models).items():
        transform = TransformKeys.of(model).transform
        if transform is None or model.recorded:
            continue
        here = ("models", name, "transform")
        yield from (((*here, *path), message) for path, message in transform.mistakes(study, model))
        asked = dict.fromkeys([*study.splits_asked(name), *(side.split for _, side in study.sides(name))])
        yield from (
            ((*here, *FOCUS_PATH), message) for message in _without_words(study, transform.values_read(), asked)
        )
        for split in asked:
            entry = study.catalogue.valid["splits"].get(split)
            kept = (entry.columns.keep or []) if entry is not None else []
            for field in transform.fields() if entry is not None else ():
                if field not in kept:
                    hint = nearest(field, kept) if kept else f"; add it: `columns: {{keep: [{field}]}}`"
                    yield (*here, "text"), f"split `{split}` keeps no column `{field}` (`columns.keep`){hint}"


def _without_words(study: CheckedStudy, names: list[str], asked: Iterable[str]) -> Iterator[str]:
    """Yield the splits that a model is asked, and that no attribution which its transform names is of."""
    known = study.word_values() if names else {}
    if names and set(names) <= set(known):
        splits = {known[name].split for name in names}
        for split in asked:
            if split not in splits:
                yield f"the model is asked split `{split}`, of which none of these is; name one of that split as well"
