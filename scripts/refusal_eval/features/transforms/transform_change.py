"""What a model's transform changes of its prompts, and of its study's files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.change import Change

if TYPE_CHECKING:
    from refusal_eval.study.paths import Paths


class TransformChange(Change):
    """A change of the prompts that a model is asked. It shares the engine load of the model without it."""

    name: ClassVar[str] = "transform"
    words: ClassVar[str] = "a transform of its prompts"
    loads: ClassVar[bool] = False
    engine_needs: ClassVar[tuple[str, ...]] = ()
    of_prompts: ClassVar[bool] = True
    captured: ClassVar[bool] = True
    words_code: ClassVar[str] = "refusal_eval.features.transforms.transform_words:transform_words"

    def asked_prompts(self, paths: Paths, model: str, split: str) -> str:
        return paths.of("transformed", model=model, split=split)

    def values_read(self, value: Any) -> list[str]:
        found: list[str] = value.values_read()
        return found

    def splits_read(self, value: Any) -> list[str]:
        found: list[str] = value.splits_read()
        return found
