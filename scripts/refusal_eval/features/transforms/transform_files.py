"""The files of transforms: the prompts of each split as a transformed model is asked them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refusal_eval.features.transforms.transform_keys import TransformKeys
from refusal_eval.study.files import File, Names, file_of

if TYPE_CHECKING:
    from refusal_eval.features.transforms.transform_kind import Transform
    from refusal_eval.study.study import Study


def transforms_of(study: Study) -> dict[str, Transform]:
    """Return the transforms of a study's models, by model; also of those whose answers only make prompts."""
    found = {name: TransformKeys.of(model).transform for name, model in study.every_model.items()}
    return {name: transform for name, transform in found.items() if transform is not None}


def values_files(study: Study, model: str, split: str) -> list[str]:
    """Return the files of the values of words that the prompts of a cell are changed by."""
    asked = transforms_of(study)[model].values_read()
    read = [(name, study.word_values[name]) for name in asked if study.word_values[name].split == split]
    return [study.paths.of(one.file, **{file_of(one.file).wildcards[0]: name}) for name, one in read]


def _asked(study: Study) -> list[Names]:
    return [names for names in file_of("requests").names(study) if names[0] in transforms_of(study)]


TRANSFORMED = File(("transformed/{model}/{split}.jsonl",), ("transformed_prompts",), _asked, after="prompts")
