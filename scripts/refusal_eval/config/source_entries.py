"""Where bytes come from: what all sources of rows, of weights and of adapters have, and what the workflow asks them.

Kinds of sources of rows are in data/row_kinds.py, those of weights in weights/weight_kinds.py.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from refusal_eval.config.kinds import ADAPTER_SOURCES, ROW_SOURCES, WEIGHT_SOURCES, OfKind
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import AdapterFolder, CommitHash, Entry, RepoId

COMMIT_HELP = (
    "Full commit hash (40 hex digits). `null` where it is not known: `refusal-eval pin` finds it for the study's lock "
    "file."
)
# The field of an entry that holds its source, by section of the catalogue.
PINNED = {"engines": "weights", "models": "lora", "splits": "source", "gold": "source"}


class Source(Entry):
    """What all sources have.

    Attributes:
        fetched: a copy of it is made in the cache.
        pin: the field with the hash that pins it, which a lock file may fill; None where nothing has to be locked.
        pin_words: what that hash is.
        locked_as: whether the lock file lists it as a `repo` or a `url`.
    """

    fetched: ClassVar[bool] = True
    pin: ClassVar[str | None] = None
    pin_words: ClassVar[str] = "commit hash"
    locked_as: ClassVar[Literal["repo", "url"]] = "repo"

    kind: str

    @property
    def place(self) -> str:
        """The repository or the address that the lock file knows it by."""
        return str(getattr(self, self.locked_as))

    @property
    def open_pin(self) -> str | None:
        """The field that must hold a hash and is null; None when all is pinned."""
        return self.pin if self.pin is not None and getattr(self, self.pin) is None else None


class RowSource(Source):
    """Where the rows of a split or of gold come from.

    Attributes:
        later: fields that came when there were copies in caches; without a value they are in no id and no param.
    """

    later: ClassVar[tuple[str, ...]] = ("encoding",)

    @property
    def name(self) -> str:
        """What prompts, logs and messages call it; never an absolute path of this machine."""
        raise NotImplementedError

    @property
    def origin(self) -> str:
        """What tells where it comes from apart, whichever file it is there: a repository, a package, a folder."""
        raise NotImplementedError

    @property
    def cached_name(self) -> str:
        """The name of the file with its rows in the cache, for a source that is fetched."""
        raise NotImplementedError

    @property
    def read_file(self) -> str | None:
        """The file whose ending says how it is read; None where something else does."""
        return getattr(self, "file", None)

    def mistakes(self, bundled: str) -> Iterator[Mistake]:
        """Yield what is wrong with its file, and with how it is to be read.

        Args:
            bundled: folder of the files that ship with refusal-eval.
        """
        file = self.read_file or ""
        if getattr(self, "skip_lines", 0) and file and not file.endswith(".csv"):
            yield ("skip_lines",), "is for CSV files only; leave it out"
        if getattr(self, "encoding", None) and file.endswith(".parquet"):
            yield ("encoding",), "is for CSV and JSONL files only; leave it out"

    def local_path(self, bundled: str) -> str:
        """Return the file with its rows, for a source that is not fetched.

        Args:
            bundled: folder of the files that ship with refusal-eval.
        """
        raise NotImplementedError

    def fetch(self, target: str | Path, cache: str, log: logging.Logger, locked: Mapping[str, Any] | None) -> None:
        """Write its rows to `target`, whole or not at all (see `refusal_eval.data.row_fetching.fetch_rows`)."""
        raise NotImplementedError


DataSource = Annotated[RowSource, OfKind(ROW_SOURCES)]


class WeightSource(Source):
    """Where the weights of an engine come from. Each kind is a class in weights/weight_kinds.py.

    Attributes:
        tokenizer_apart: tokenizer and template can be had before the weights.
    """

    tokenizer_apart: ClassVar[bool] = False

    def identity(self, fingerprint: str | None) -> dict[str, Any]:
        """Return what identifies weights, tokenizer and template; it is in keys, and can never change its form.

        Args:
            fingerprint: that of their folder, for a source that is no copy in the cache.
        """
        raise NotImplementedError

    def told(self) -> str:
        """Return where they come from, as Markdown."""
        raise NotImplementedError

    def fetch(self, part: str, fetching: Any) -> None:
        """Make the copy in the cache, and its manifest.

        Args:
            part: `tokenizer` or `weights`.
            fetching: where to, and with what (`refusal_eval.weights.weight_fetching.Fetching`).
        """
        raise NotImplementedError


AnyWeights = Annotated[WeightSource, OfKind(WEIGHT_SOURCES)]


class AdapterSource(Source):
    """Where a LoRA adapter in PEFT's format comes from."""

    def identity(self, folder_sha256: str | None) -> dict[str, Any]:
        """Return what identifies the adapter; it is in the key of every request of its model, and never changes form.

        Args:
            folder_sha256: fingerprint of its two files, for an adapter in a folder.
        """
        raise NotImplementedError


class HubAdapter(AdapterSource):
    """A LoRA adapter in PEFT's format on the Hugging Face hub, at a locked commit: adapter_config.json and
    adapter_model.safetensors at the top of the repository; no other file is fetched."""

    pin: ClassVar[str | None] = "revision"

    kind: Literal["hub"]
    repo: RepoId = Field(description="Repository of the adapter, `owner/name`.")
    revision: CommitHash | None = Field(description=COMMIT_HELP)

    def identity(self, folder_sha256: str | None) -> dict[str, Any]:
        """Return the repository and its commit."""
        return {"repo": self.repo, "commit": self.revision}


class FolderAdapter(AdapterSource):
    """A LoRA adapter in PEFT's format in a local folder: adapter_config.json and adapter_model.safetensors."""

    fetched: ClassVar[bool] = False

    kind: Literal["folder"]
    path: AdapterFolder = Field(description="The folder, relative to the YAML file that names it.")

    def identity(self, folder_sha256: str | None) -> dict[str, Any]:
        """Return the fingerprint of the two files."""
        if folder_sha256 is None:
            raise ValueError("an adapter's folder is identified by its fingerprint")
        return {"folder_sha256": folder_sha256}


AnyAdapter = Annotated[AdapterSource, OfKind(ADAPTER_SOURCES)]
