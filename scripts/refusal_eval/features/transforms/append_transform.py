"""The transform `append`: a text behind each turn of the user."""

from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import Field

from refusal_eval.features.transforms.field_text import FIELDS_HELP, FieldText, filled
from refusal_eval.features.transforms.text_transform import TextTransform
from refusal_eval.features.transforms.transform_kind import NO_FIELD, AskedMessages, PlainPrompt


class AppendTransform(TextTransform):
    """A text behind each turn of the user, in the same message."""

    kind: Literal["append"]
    text: FieldText = Field(
        description="The text, put behind the turn as it is: begin it with a space or a line break where one is to be. "
        f"{FIELDS_HELP} A prompt with an empty cell keeps its own text. Of a dialogue it is put behind every turn of "
        "the user."
    )

    def transformer(self, read: Sequence[Sequence[PlainPrompt]]) -> Callable[[PlainPrompt], AskedMessages | str]:
        return self._appended

    def _appended(self, prompt: PlainPrompt) -> AskedMessages | str:
        text = filled(self.text, prompt["source"].get("kept", {}))
        if text is None:
            return NO_FIELD
        return [
            {**message, "content": message["content"] + (text if message["role"] == "user" else "")}
            for message in prompt["messages"]
        ]

    def in_words(self, quoted: Callable[[str], str], label: Callable[[str], str]) -> str:
        return f"\u201c{quoted(self.text)}\u201d appended to each turn of the user{self._words(quoted)}"
