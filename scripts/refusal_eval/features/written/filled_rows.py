"""The source of rows `filled`: a template filled with each prompt of another split."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from refusal_eval.config.shapes import FilePath, Slug, Whole
from refusal_eval.config.source_entries import RowSource
from refusal_eval.core.files import canonical_json, read_jsonl
from refusal_eval.features.written.writing_template import WritingTemplate

FILLED_IN = "filled_in"  # column of its rows: what was filled in, as JSON


class FilledRows(RowSource):
    """A template filled with each prompt of another split: what a model is asked that writes prompts. A split of kind
    `written` brings its own of this kind along."""

    fetched: ClassVar[bool] = False
    own_columns: ClassVar[tuple[str, ...]] = (FILLED_IN,)

    kind: Literal["filled"]
    split: Slug = Field(description="The split whose prompts are filled in. The study need not evaluate it.")
    template: FilePath = Field(
        description="A Jinja file, relative to the YAML file that names it, with `{{ prompt }}` (the last turn of the "
        "user), `{{ conversation }}` or columns that the split keeps, between delimiters with `{{ nonce }}`."
    )
    samples: Whole | None = Field(
        None, ge=1, description="How often a writer is asked each of them. Only for splits that `written` brings."
    )

    @property
    def made_of(self) -> str:
        return self.split

    @property
    def asked(self) -> int | None:
        return self.samples

    def files(self) -> list[str]:
        return [self.template]

    @property
    def name(self) -> str:
        return f"{self.split} in a template"

    @property
    def origin(self) -> str:
        return f"{self.kind} {self.split}"

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        return f"the prompts of {quoted(self.split)} in the template {quoted(self.template.rsplit('/', 1)[-1])}"

    def rows_of_each(self, tokens: float) -> float:
        return 1.0

    def own_rows(self, path: str, *read: str) -> list[dict[str, Any]]:
        """Return a row for each prompt in a file of prompts.

        Raises:
            UserError: if the template fails.
        """
        template = WritingTemplate(self.template)
        return [_row(prompt, template) for prompt in read_jsonl(path)]


def _row(prompt: Mapping[str, Any], template: WritingTemplate) -> dict[str, Any]:
    kept = prompt["source"].get("kept", {})
    text, nonce = template.filled(prompt["messages"], kept)
    own = {FILLED_IN: canonical_json({"messages": prompt["messages"], "kept": kept, "nonce": nonce})}
    about = {"parent": prompt["id"], "cluster": prompt["cluster"], "category": prompt["category"]}
    return {**kept, **own, **about, "messages": [{"role": "user", "content": text}]}
