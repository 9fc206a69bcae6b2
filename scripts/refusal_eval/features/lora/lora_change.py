"""What a model's LoRA adapter changes of its requests, its load, and its study's files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.change import Change, named
from refusal_eval.config.kinds import ADAPTER_SOURCES
from refusal_eval.core.canonical import plain
from refusal_eval.core.files import sha256_of

if TYPE_CHECKING:
    from refusal_eval.features.lora.adapter_sources import AdapterSource
    from refusal_eval.study.paths import Paths


class LoraChange(Change):
    """A LoRA adapter. Models of one engine that differ by adapter share its load."""

    name: ClassVar[str] = "lora"
    words: ClassVar[str] = "a LoRA adapter"
    has_source: ClassVar[bool] = True
    wants: ClassVar[str] = "adapter"
    load_code: ClassVar[str] = "refusal_eval.features.lora.loaded_adapters:loaded_adapters"
    words_code: ClassVar[str] = "refusal_eval.features.lora.adapter_words:adapter_words"
    damage_code: ClassVar[str] = "refusal_eval.features.lora.wrong_loads:last_slot_taken"

    def identity_files(self, paths: Paths, model: str) -> list[str]:
        """Return the identity file of a model's adapter."""
        return [paths.of("adapters", model=model)]

    def loaded_files(self, paths: Paths, model: str) -> list[str]:
        """Return the same after the adapter was compared with the engine's weights."""
        return [paths.of("checked_adapters", model=model)]

    def source(self, value: Mapping[str, Any]) -> AdapterSource:
        """Return where the adapter comes from."""
        source: AdapterSource = ADAPTER_SOURCES.entry(value)
        return source

    def wanted_names(self, names: Iterable[str]) -> list[str]:
        """Return the two files of an adapter, and those that something is said of."""
        wanted: list[str] = named("refusal_eval.features.lora.adapter:wanted_names")(names)
        return wanted

    def identity(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return what identifies the adapter: the hub's repository and commit, or the fingerprint of its files."""
        return dict(described["identity"])

    def served_as(self, identity: Mapping[str, Any]) -> str:
        """Return the name under which the engine serves the adapter."""
        return adapter_name(identity)

    def in_manifest(self, described: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return what identifies the adapter of each model."""
        return {"adapters": {one["model"]: one["identity"] for one in described}}


def adapter_name(identity: Mapping[str, Any]) -> str:
    """Return the name under which an engine serves an adapter: ours, from its identity, never a text of the user's."""
    return f"lora-{sha256_of(plain(identity))[:16]}"
