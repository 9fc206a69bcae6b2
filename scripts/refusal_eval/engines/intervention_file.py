"""A compiled intervention: the file that a worker of vLLM reads, what identifies it, and the proof that it works."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json, read_json

if TYPE_CHECKING:
    import numpy as np

VERSION = 1  # of the file and of what the modes mean, as in vllm_worker/steered_stream.py
HASHED = ("gate", "layers", "mode", "version")
METADATA = "refusal_eval"  # the one key of the file's metadata
RECORD = "intervention.json"  # what the worker writes into the server's private folder
GATED = ("gated", "constellation")  # modes that leave tokens as they are
COUNTS = "intervention_gate.json"  # beside the record: how many tokens passed the gate, since it was last asked
COUNTING = "refusal-eval-gate"  # in the id of the request that asks; counts begin again after it
PLAIN = "refusal-eval-plain"  # in the id of a request, alone in the engine, that is answered without the intervention
STRENGTHS = ("add", "remove", "share")  # tensors that are 0 where an intervention changes nothing
TOKENS = 8  # of each greedy answer that is compared: a first one may be certain
PROMPTS = (0, 1, 2)  # each a token, compared one after the other until an answer differs
WORKER = "steered_worker.SteeredWorker"


@dataclass(frozen=True)
class CompiledIntervention:
    """A model's compiled intervention, as its card has it."""

    model: str  # the model's name
    sha256: str  # of its content, see `intervention_sha256`
    version: int
    mode: str  # add, ablate, gated, pull or constellation
    layers: tuple[int, ...]  # 0-based decoder layers, ascending
    file: str  # the compiled file
    gate: float | None = None  # of `gated` and `constellation`

    @classmethod
    def of_card(cls, card: Mapping[str, Any], file: str) -> CompiledIntervention:
        """Return the intervention that a card describes, compiled into `file`."""
        keys = ("model", "sha256", "version", "mode", "gate")
        return cls(**{key: card[key] for key in keys}, layers=tuple(card["layers"]), file=file)

    @property
    def identity(self) -> dict[str, Any]:
        """The part of it that is in the key of every request of its model; it never changes form."""
        return {"sha256": self.sha256, "version": self.version}

    def unchanged(self) -> CompiledIntervention:
        """Return it with its whole path, for the engine.

        Raises:
            UserError: for a file whose content is not the card's: it has another key.
        """
        spec, tensors = read_compiled(self.file)
        if intervention_sha256(spec, tensors) != self.sha256:
            raise UserError(f"{self.file} has changed since its requests were planned; delete it and run again")
        return replace(self, file=os.path.abspath(self.file))

    def worker_options(self) -> dict[str, Any]:
        """Return the options that give a server of vLLM the worker and the intervention."""
        asked = {"intervention": {"file": self.file, "sha256": self.sha256}}
        return {"worker-cls": WORKER, "additional-config": canonical_json(asked)}


def intervention_sha256(spec: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 (64 hex digits) that identifies an intervention.

    It is taken over canonical JSON of mode, layers, gate and version, and the bytes of the tensors in the order of
    their names: not over the file, whose header may be written in other ways.
    """
    digest = hashlib.sha256(canonical_json({key: spec[key] for key in HASHED}).encode())
    for name in sorted(tensors):
        digest.update(tensors[name].astype("<f4").tobytes())
    return digest.hexdigest()


def read_compiled(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what a compiled file says of itself, and its tensors by name.

    Raises:
        UserError: if it is none.
    """
    import json

    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            spec = json.loads((file.metadata() or {})[METADATA])
            if not isinstance(spec, dict) or not set(HASHED) <= set(spec):
                raise ValueError(f"its metadata lacks one of {', '.join(HASHED)}")
            return spec, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserError(f"{path} is not a compiled intervention ({error}); delete it and run again") from error


def refusal(folder: str) -> str:
    """Return why the worker of a server refused its intervention, a sentence with a blank behind it; else nothing."""
    path = Path(folder, RECORD)
    reason = read_json(path).get("refused") if path.is_file() else None
    return f"It refused the intervention: {reason}. " if reason else ""


async def proven(
    intervention: CompiledIntervention, ask: Callable[[str, Mapping[str, Any]], Awaitable[Any]], folder: str
) -> dict[str, Any]:
    """Ask a started server for a few tokens; return what its worker then says: {"sha256", "mode", "layers", "fired"}.

    The first token is of a prefill step and the others are of decode steps, which on CUDA are graphs that are replayed.
    Then greedy answers with and without the intervention are compared: hooks may fire and change nothing.

    Args:
        intervention: what it was started with.
        ask: posts JSON to an endpoint of the server.
        folder: the server's private folder.

    Raises:
        UserError: if the hooks of all layers did not fire in both, or change no answer. Unsteered answers would
            otherwise count as steered.
    """
    try:
        await ask("/v1/completions", {"prompt": [0], "max_tokens": 3, "ignore_eos": True, "temperature": 0.0})
    except ConnectionError as error:
        problem = refusal(folder) or f"It does not answer: {error}. "
        raise UserError(
            f"the engine cannot be given the intervention of `{intervention.model}`. {problem}No answer was asked for"
        ) from error
    path = Path(folder, RECORD)
    record: dict[str, Any] = read_json(path) if path.is_file() else {}
    wanted = list(intervention.layers)
    if (record.get("sha256"), record.get("layers"), record.get("fired")) != (intervention.sha256, wanted, wanted):
        what = f"it says {record}" if record else "it says nothing"
        raise UserError(
            f"the engine does not show that the intervention of `{intervention.model}` is at work on layers {wanted}: "
            f"{what}. Its answers would not be steered, and none was asked for"
        )
    if await _changes_nothing(intervention, ask):
        raise UserError(
            f"the intervention of `{intervention.model}` is at work on layers {wanted} and changes nothing: "
            f"{len(PROMPTS)} greedy answers have the same log-probabilities with and without it. Its `scale` may be "
            "lost in the rounding of the engine's `dtype`; no answer was asked for"
        )
    return record


async def _changes_nothing(
    intervention: CompiledIntervention, ask: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
) -> bool:
    """Tell whether greedy answers are the same without an intervention that should change them.

    Of modes with a gate it is not known: these tokens may not pass (see `refuse_nothing_passed` for those that are
    asked). One of scale 0 should change nothing.
    """
    tensors = read_compiled(intervention.file)[1]
    strengths = [tensor for name, tensor in tensors.items() if name.rpartition(".")[2] in STRENGTHS]
    if intervention.mode in GATED or not any(tensor.any() for tensor in strengths):
        return False
    for token in PROMPTS:
        asked = {"prompt": [token], "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0.0, "logprobs": 0}
        # Under a salt of its own, so that the cache of prompts gives no steered request what is computed without it.
        plain = {**asked, "request_id": PLAIN, "cache_salt": PLAIN}
        found = [(await ask("/v1/completions", body))["choices"][0]["logprobs"] for body in (plain, asked)]
        if found[0]["token_logprobs"] != found[1]["token_logprobs"]:
            return False
    return True


async def gate_counts(
    intervention: CompiledIntervention, ask: Callable[[str, Mapping[str, Any]], Awaitable[Any]], folder: str
) -> dict[str, Any]:
    """Return {"tokens", "passed": {layer: tokens}} since it was last asked, or since the start; nothing without a gate.

    The tokens of the request that asks are not counted. Of several copies of the model one tells.

    Args:
        intervention: what the server was started with.
        ask: posts JSON to an endpoint of the server.
        folder: the server's private folder.

    Raises:
        ConnectionError: if the server does not tell.
    """
    if intervention.mode not in GATED:
        return {}
    Path(folder, COUNTS).unlink(missing_ok=True)
    await ask("/v1/completions", {"prompt": [0], "max_tokens": 1, "temperature": 0.0, "request_id": COUNTING})
    if not Path(folder, COUNTS).is_file():
        raise ConnectionError("the worker says nothing of the gate")
    counts: dict[str, Any] = read_json(Path(folder, COUNTS))
    return counts


def refuse_nothing_passed(intervention: CompiledIntervention, counts: Mapping[str, Any]) -> None:
    """Raise `UserError` if there were tokens, and none of them passed the gate at any layer.

    Args:
        intervention: the load's.
        counts: of the loads that gave the model's answers, see `gate_counts`.
    """
    if counts.get("tokens") and not any(counts["passed"].values()):
        raise UserError(
            f"no token passed the gate of {intervention.gate:g} of `{intervention.model}` in the loads that gave these "
            "answers, so they are those of the model without the intervention: lower `gate`, or run again to take them "
            "as they are"
        )
