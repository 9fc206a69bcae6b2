"""What a request is, and its key. Changing what enters a key makes every stored response unreachable."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from refusal_eval.core.canonical import KEY_VERSION, plain
from refusal_eval.core.files import sha256_of

# Sampling parameters at these values are left out of the key, so that a parameter which is added later with
# a neutral default leaves all older keys as they are. Parameters without a neutral value always count.
NEUTRAL_SAMPLING: Mapping[str, Any] = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "min_tokens": 0,
    "stop": [],
    "stop_token_ids": [],
    "logprob_token_ids": [],
}
DEFAULT_DETERMINISM = "seeded"
Message = Mapping[str, str]
EnginePrompt = Sequence[int] | Sequence[Message]


def is_messages(prompt: EnginePrompt) -> TypeGuard[Sequence[Message]]:
    return len(prompt) > 0 and isinstance(prompt[0], Mapping)


def sample_seed(study_seed: int, prompt_id: str, sample: int, turn: int = 0) -> int:
    """Return the seed of one sample: 48 bits, the same for every model, so that all are compared on the same draws."""
    text = f"refusal-eval/{study_seed}/{prompt_id}/{sample}" + (f"/{turn}" if turn else "")
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def request_key(
    identity: Mapping[str, Any],
    prompt: EnginePrompt,
    sampling: Mapping[str, Any],
    seed: int | None,
    determinism: str = DEFAULT_DETERMINISM,
) -> str:
    """Return the key of a request: SHA-256 (64 hex digits) of all that can change its response.

    Args:
        identity: the engine's identity (see `refusal_eval.weights`).
        prompt: the exact prompt: its token ids, or messages for an engine that takes no ids.
        sampling: every sampling parameter that is sent.
        seed: the sample's seed; None where nothing is drawn.
        determinism: how the engine executes (strict, seeded or free).
    """
    body: dict[str, Any] = {
        "key_version": KEY_VERSION,
        "engine": plain(identity),
        "messages" if is_messages(prompt) else "token_ids": list(prompt),
        "sampling": {name: plain(value) for name, value in sampling.items() if not is_neutral(name, value)},
    }
    if seed is not None:
        body["seed"] = seed
    if determinism != DEFAULT_DETERMINISM:
        body["determinism"] = determinism
    return sha256_of(body)


def is_neutral(name: str, value: Any) -> bool:
    """Tell whether a sampling parameter has the value that switches it off."""
    return value is None or (name in NEUTRAL_SAMPLING and plain(value) == plain(NEUTRAL_SAMPLING[name]))
