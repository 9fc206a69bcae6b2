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


def _asked(study: Study) -> list[Names]:
    return [names for names in file_of("requests").names(study) if names[0] in transforms_of(study)]


TRANSFORMED = File(("transformed/{model}/{split}.jsonl",), ("transformed_prompts",), _asked, after="prompts")
