"""What a load serves is what its requests name: asked once, before anything is stored, where adapters are served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import unpack_floats
from refusal_eval.engines.engine_base import Rejected

if TYPE_CHECKING:
    from refusal_eval.ask.pending import Pending
    from refusal_eval.ask.requests import RequestSettings
    from refusal_eval.engines.engine_base import RunningEngine

LOG = logging.getLogger(__name__)
TOKENS = 8  # of each greedy answer: a first one may be certain, with any weights
PROMPTS = 3  # that are asked before a load is refused
# Between two answers of the same weights: rounding, where other requests are computed with one of them (nats).
ROUNDING = 0.25
NO_NUMBER = "Out of range float values"  # what vLLM says of a NaN

Answer = tuple[tuple[int, ...], np.ndarray]


async def probe_adapters(engine: RunningEngine, pending: Sequence[Pending]) -> dict[str, Any]:
    """Return what greedy answers with and without each adapter say; nothing where no request names an adapter.

    An adapter whose modules the engine does not find is loaded and not applied, without a word: its answers are then
    those of the model without it, to the last bit. And an engine may give a request without an adapter the weights of
    one that is computed with it. `difference` is the largest between log-probabilities, in nats, up to the first
    token that differs; `difference_beside` that of the model without the adapter alone and beside it.

    Raises:
        UserError: if an adapter changes nothing, or computes no numbers, or changes the model that is asked beside it.
    """
    adapters = {item.settings.adapter: item for item in pending if item.settings.adapter}
    found: dict[str, Any] = {}
    for name, item in sorted(adapters.items()):
        model = item.cell.split("/")[0]
        prompts = [other for other in pending if other.settings.adapter == name][:PROMPTS]
        changed = beside = 0.0
        # Without requests of the plain model there is nothing that others could change.
        itself = not any(other.settings.adapter is None for other in pending)
        compared = 0
        for asked in prompts:
            with_it, without = _greedy(asked.settings), _greedy(replace(asked.settings, changes=_without(asked)))
            alone, adapted = [await _answer(engine, asked, one, model) for one in (without, with_it)]
            together, _ = await asyncio.gather(*(_answer(engine, asked, one, model) for one in (without, with_it)))
            if alone is None or adapted is None or together is None:
                continue
            compared += 1
            changed, beside = max(changed, _difference(alone, adapted)), _difference(alone, together)
            itself |= beside < ROUNDING
            if changed and itself:
                break
        if not compared:
            LOG.warning("whether the adapter of `%s` is applied is not known: no prompt could be asked", model)
            continue
        if not changed:
            raise UserError(
                f"the LoRA adapter of `{model}` is loaded and changes nothing: {compared} greedy answers have the "
                "same log-probabilities with and without it. The engine does not find its modules, whose names in "
                "adapter_model.safetensors may have another prefix than its model's; nothing was stored"
            )
        if not itself:
            raise UserError(
                f"the model without an adapter answers otherwise when the LoRA adapter of `{model}` is asked beside "
                f"it, at each of {compared} prompts: the engine gives it other weights. Give each model a load of "
                "its own (`batch: model`); nothing was stored"
            )
        found[model] = {"difference": changed, "difference_beside": beside}
        LOG.info("the adapter of `%s` changes greedy answers by up to %.2g nats per token", model, changed)
    return {"adapters": found} if found else {}


def _greedy(settings: RequestSettings) -> RequestSettings:
    """Return the settings of a short greedy answer."""
    most = min(TOKENS, int(settings.sampling["max_tokens"]))  # more may not fit behind the prompt
    return replace(settings, sampling={"max_tokens": most, "temperature": 0.0})


def _without(item: Pending) -> Mapping[str, Any]:
    return {name: value for name, value in item.settings.changes.items() if name != "lora"}


async def _answer(engine: RunningEngine, item: Pending, settings: RequestSettings, model: str) -> Answer | None:
    """Return token ids and log-probabilities of one answer; None where it cannot be had.

    Raises:
        UserError: if the model computes no numbers.
    """
    try:
        response = await engine.complete(item.request.prompt, settings, None)
    except (Rejected, ConnectionError, ValueError) as error:
        if NO_NUMBER not in str(error) + getattr(error, "message", ""):
            return None
        raise _no_numbers(settings, model) from error
    logprobs = unpack_floats(response["logprobs"] or "")
    if not np.isfinite(logprobs).all():
        raise _no_numbers(settings, model)
    return tuple(response["token_ids"]), logprobs


def _no_numbers(settings: RequestSettings, model: str) -> UserError:
    which = f"the LoRA adapter of `{model}`" if settings.adapter else f"the model without the adapter of `{model}`"
    return UserError(f"{which} computes values that are no numbers (NaN); its weights are damaged. Nothing was stored")


def _difference(one: Answer, other: Answer) -> float:
    """Return the largest difference of log-probabilities, up to and with the first token that differs."""
    same = next((n for n, (a, b) in enumerate(zip(one[0], other[0], strict=False)) if a != b), None)
    upto = min(len(one[1]), len(other[1])) if same is None else same + 1
    apart = np.abs(np.subtract(one[1][:upto], other[1][:upto], dtype=float))
    found = float(apart.max(initial=0.0))
    # Two tokens of equal probability are two answers all the same.
    return max(found, np.finfo(float).tiny) if same is not None or len(one[0]) != len(other[0]) else found
