"""Where LoRA adapters come from."""

from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from refusal_eval.config.shapes import CommitHash, OnDisk, RepoId
from refusal_eval.config.source_entries import COMMIT_HELP, AtPath, OnHub, Source


def _wrong_with_folder(path: str, names: Collection[str]) -> Iterator[str]:
    if "adapter_config.json" not in names:
        yield f"{path} has no adapter_config.json: it is not a LoRA adapter in PEFT's format"
    if "adapter_model.safetensors" not in names:
        pickles = sorted({"adapter_model.bin", "adapter_model.pt"} & set(names))
        hint = f"; {pickles[0]} is not loaded, because pickles run code" if pickles else ""
        yield f"{path} has no adapter_model.safetensors{hint}"


AdapterFolder = Annotated[str, StringConstraints(min_length=1), OnDisk("folder", check=_wrong_with_folder)]


class AdapterSource(Source):
    """Where a LoRA adapter in PEFT's format comes from."""

    role: ClassVar[str] = "Adapter"
    wants: ClassVar[str] = "adapter"

    def copy_file(self, cache: str) -> str:
        """Return the manifest of its copy."""
        return f"{cache}/adapters/{self.copy_id}/adapter.json"

    def identity(self, folder_sha256: str | None) -> dict[str, Any]:
        """Return what identifies the adapter; it is in the key of every request of its model, and never changes form.

        Args:
            folder_sha256: fingerprint of its two files, for an adapter in a folder.
        """
        raise NotImplementedError


class HubAdapter(OnHub, AdapterSource):
    """A LoRA adapter in PEFT's format on the Hugging Face hub, at a locked commit: adapter_config.json and
    adapter_model.safetensors at the top of the repository; no other file is fetched."""

    kind: Literal["hub"]
    repo: RepoId = Field(description="Repository of the adapter, `owner/name`.")
    revision: CommitHash | None = Field(description=COMMIT_HELP)

    def identity(self, folder_sha256: str | None) -> dict[str, Any]:
        """Return the repository and its commit."""
        return {"repo": self.repo, "commit": self.revision}


class FolderAdapter(AtPath, AdapterSource):
    """A LoRA adapter in PEFT's format in a local folder: adapter_config.json and adapter_model.safetensors."""

    kind: Literal["folder"]
    path: AdapterFolder = Field(description="The folder, relative to the YAML file that names it.")

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        """Return that it lies here."""
        return "a local one"

    def identity(self, folder_sha256: str | None) -> dict[str, Any]:
        """Return the fingerprint of the two files."""
        if folder_sha256 is None:
            raise ValueError("an adapter's folder is identified by its fingerprint")
        return {"folder_sha256": folder_sha256}
