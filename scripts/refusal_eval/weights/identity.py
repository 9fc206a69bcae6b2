"""The identity of an engine: what of it enters the key of every request, and so can never change its form.

Changing what these functions return for an existing entry makes every stored response of that engine unreachable.
Fields at their neutral value are left out, so that a field added later leaves today's identities as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.config.kinds import WEIGHT_SOURCES
from refusal_eval.config.source_entries import WeightSource
from refusal_eval.core.canonical import KEY_VERSION
from refusal_eval.core.files import sha256_of


def weights_identity(weights: Mapping[str, Any], folder_sha256: str | None = None) -> dict[str, Any]:
    """Return what identifies weights, tokenizer and template.

    Args:
        weights: the `weights` of an engine entry.
        folder_sha256: fingerprint of the folder, for `kind: folder`.
    """
    return weight_source(weights).identity(folder_sha256)


def weight_source(weights: Mapping[str, Any]) -> WeightSource:
    """Return a source of weights, as the config holds it, as its class."""
    source: WeightSource = WEIGHT_SOURCES.get(weights["kind"]).model_validate(weights)  # type: ignore[assignment]
    return source


def engine_id(identity: Mapping[str, Any]) -> str:
    """Return the 16 hex digits that name an engine in the store."""
    return sha256_of({"key_version": KEY_VERSION, **identity})[:16]
