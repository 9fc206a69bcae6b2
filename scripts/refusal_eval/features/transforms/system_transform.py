"""The transform `system`: a text of each prompt's own in the system message."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from pydantic import Field

from refusal_eval.config.problems import Mistake
from refusal_eval.features.transforms.field_text import FIELDS_HELP, FieldText, filled
from refusal_eval.features.transforms.text_transform import TextTransform
from refusal_eval.features.transforms.transform_kind import NO_FIELD, AskedMessages, PlainPrompt


class SystemTransform(TextTransform):
    """A text in the system message, which may differ between prompts."""

    kind: Literal["system"]
    text: FieldText = Field(
        description="The text. It is a paragraph behind the model's `system_prompt` and before a system message of the "
        f"prompt's own. {FIELDS_HELP} A prompt with an empty cell keeps its own text."
    )

    def mistakes(self, study: Any, model: Any) -> Iterator[Mistake]:
        yield from super().mistakes(study, model)
        if model.template == "none":
            yield ("kind",), "`template: none` takes one user message and no system message; use `append`"
        elif (
            not self.fields()
            and self.focus is None
            and model.system_prompt is not None
            and self.text.strip() == model.system_prompt.strip()
        ):
            yield ("text",), "is the model's `system_prompt` already, and would say it twice; leave one of them out"

    def transformer(self, read: Sequence[Sequence[PlainPrompt]]) -> Callable[[PlainPrompt], AskedMessages | str]:
        return self._with_text

    def _with_text(self, prompt: PlainPrompt) -> AskedMessages | str:
        text = filled(self.text, prompt["source"].get("kept", {}))
        if text is None:
            return NO_FIELD
        first, *rest = [dict(message) for message in prompt["messages"]]
        if first["role"] != "system":
            return [{"role": "system", "content": text}, first, *rest]
        return [{**first, "content": f"{text}\n\n{first['content']}"}, *rest]

    def in_words(self, quoted: Callable[[str], str], label: Callable[[str], str]) -> str:
        return f"\u201c{quoted(self.text)}\u201d in the system message{self._words(quoted)}"
