"""A source of rows: the prompts in a file of recorded answers."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from refusal_eval.config.kinds import LOG_READERS, NameIn
from refusal_eval.config.log_dialogues import asked_by
from refusal_eval.config.log_reader import reader_of, split_name
from refusal_eval.config.shapes import FilePath, Slug, Text
from refusal_eval.config.source_entries import AtPath, RowSource


class RecordedRows(AtPath, RowSource):
    """The prompts of a split in a file of recorded answers (`recorded: {file: ...}` of a model)."""

    kind: Literal["recorded"]
    path: FilePath = Field(description="The file, relative to the YAML file that names it.")
    split: Slug = Field(description="The split, as the file calls it; of rows without one it is the file's name.")
    reader: Annotated[str, NameIn(LOG_READERS)] | None = Field(None, description="What reads the file.")
    columns: dict[Slug, Text | list[Text]] = Field({}, description="Which columns of a table hold what.")

    @property
    def name(self) -> str:
        """The file's name."""
        return os.path.basename(self.path)

    @property
    def origin(self) -> str:
        return f"file {Path(self.path).parent.as_posix()}"

    def local_path(self, bundled: str) -> str:
        return self.path

    def own_rows(self, path: str, *read: str) -> list[dict[str, Any]]:
        columns = {field: [names] if isinstance(names, str) else names for field, names in self.columns.items()}
        rows = reader_of(Path(path), self.reader).read(Path(path), columns).rows
        kept = ("category", "cluster", "prompt_id")
        own = [row for row in rows if split_name(row, path) == self.split]
        return [
            {"messages": asked.prompt, **{field: row.get(field) for field in kept}}
            for row, asked in zip(own, asked_by(own), strict=True)
        ]
