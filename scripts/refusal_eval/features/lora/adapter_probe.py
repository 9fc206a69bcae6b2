"""What a load serves is what its requests name: asked once, before anything is stored, where adapters are served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import unpack_floats
from refusal_eval.engines.engine_base import Rejected
from refusal_eval.engines.watched import watched

if TYPE_CHECKING:
    from refusal_eval.ask.pending import Pending
    from refusal_eval.ask.requests import RequestSettings
    from refusal_eval.core.time_limit import TimeLimit
    from refusal_eval.engines.engine_base import RunningEngine

LOG = logging.getLogger(__name__)
TOKENS = 8  # of each greedy answer: a first one may be certain, with any weights
BESIDE_TOKENS = 64  # of each adapter's answer while the plain model is asked
HEAD_START = 0.1  # seconds until the answers of the adapters are in the batch that the plain one joins
# Up to this many nats, or this share of what the adapters change, is rounding: other requests are computed with it.
ROUNDING, SHARE = 0.1, 1 / 3
PROMPTS = 3  # that are asked before a load is refused
NO_NUMBER = "Out of range float values"  # what vLLM says of a NaN

Answer = tuple[tuple[int, ...], np.ndarray]


async def probe_adapters(
    engine: RunningEngine, pending: Sequence[Pending], limit: TimeLimit | None = None
) -> dict[str, Any]:
    """Return what greedy answers with and without each adapter say; nothing where no request names an adapter.

    An adapter whose modules the engine does not find is loaded and not applied, without a word: its answers are then
    those of the model without it, to the last bit. And an engine may give a request without an adapter the weights of
    one that is computed with it. `difference` is the largest between log-probabilities, in nats, up to the first
    token that differs; `plain_beside_adapters` that of the model without an adapter, alone and beside all of them.

    Raises:
        UserError: if an adapter changes nothing, or computes no numbers, or reaches the model that is asked beside it;
            and if the engine dies or hangs, or the time limit is reached.
    """
    if not any(item.settings.served_as for item in pending):
        return {}
    return await watched(engine, limit, _probe(engine, pending))


async def _probe(engine: RunningEngine, pending: Sequence[Pending]) -> dict[str, Any]:
    adapters = {item.settings.served_as: item for item in reversed(pending) if item.settings.served_as}
    models = {name: item.cell.split("/")[0] for name, item in sorted(adapters.items())}
    changed, moved, itself, compared = dict.fromkeys(models, 0.0), 0.0, False, 0
    for prompt in list(dict.fromkeys(tuple(item.request.token_ids) for item in pending))[:PROMPTS]:
        ask = partial(_answer, engine, list(prompt), models)
        plain = _greedy(replace(adapters[min(models)].settings, changes=_without(adapters[min(models)])))
        alone, adapted = await ask(plain), {name: await ask(_greedy(adapters[name].settings)) for name in models}
        others = [asyncio.create_task(ask(_long(adapters[name].settings))) for name in models]
        await asyncio.sleep(HEAD_START)  # a prompt that is read alone is read with the right weights
        together = await ask(plain)
        await asyncio.gather(*others)
        if alone is None or together is None or None in adapted.values():
            continue
        compared += 1
        moved, own = _difference(alone, together), {n: _difference(alone, one or alone) for n, one in adapted.items()}
        changed = {name: max(changed[name], own[name]) for name in models}
        itself |= moved < max(ROUNDING, SHARE * min(own.values()))
        if itself and all(changed.values()):
            break
    if not compared:
        LOG.warning("whether the adapters are applied is not known: no prompt could be asked")
        return {}
    if same := [models[name] for name in models if not changed[name]]:
        raise UserError(
            f"the LoRA adapter of `{same[0]}` is loaded and changes nothing: {compared} greedy answers have the same "
            "log-probabilities with and without it. The engine does not find its modules, whose names in "
            "adapter_model.safetensors may have another prefix than its model's, or its weights are too small to "
            "matter; nothing was stored"
        )
    if not itself:
        raise UserError(
            "the model without an adapter answers otherwise when adapters are asked beside it, at each of "
            f"{compared} prompts (by {moved:.2g} nats): the engine gives it weights of an adapter. Give each model a "
            "load of its own (`batch: model`); nothing was stored"
        )
    LOG.info("each of %d adapters changes greedy answers; beside them the plain model keeps its own", len(models))
    found = {models[name]: {"difference": changed[name]} for name in models}
    return {"adapters": found, "plain_beside_adapters": {"difference": moved}}


def _greedy(settings: RequestSettings) -> RequestSettings:
    """Return the settings of a short greedy answer."""
    most = min(TOKENS, int(settings.sampling["max_tokens"]))  # more may not fit behind the prompt
    return replace(settings, sampling={"max_tokens": most, "temperature": 0.0})


def _long(settings: RequestSettings) -> RequestSettings:
    """Return the settings of a greedy answer that does not end early."""
    most = min(BESIDE_TOKENS, int(settings.sampling["max_tokens"]))
    return replace(settings, sampling={"max_tokens": most, "min_tokens": most, "temperature": 0.0})


def _without(item: Pending) -> Mapping[str, Any]:
    return {name: value for name, value in item.settings.changes.items() if name != "lora"}


async def _answer(
    engine: RunningEngine, prompt: list[int], models: Mapping[str, str], settings: RequestSettings
) -> Answer | None:
    """Return token ids and log-probabilities of one answer; None where it cannot be had.

    Raises:
        UserError: if the model computes no numbers.
    """
    try:
        response = await engine.complete(prompt, settings, None)
    except (Rejected, ConnectionError, ValueError) as error:
        if NO_NUMBER not in str(error) + getattr(error, "message", ""):
            return None
        raise _no_numbers(settings, models) from error
    logprobs = unpack_floats(response["logprobs"] or "")
    if not np.isfinite(logprobs).all():
        raise _no_numbers(settings, models)
    return tuple(response["token_ids"]), logprobs


def _no_numbers(settings: RequestSettings, models: Mapping[str, str]) -> UserError:
    which = (
        f"the LoRA adapter of `{models[settings.served_as]}`" if settings.served_as else "the model without an adapter"
    )
    return UserError(f"{which} computes values that are no numbers (NaN); its weights are damaged. Nothing was stored")


def _difference(one: Answer, other: Answer) -> float:
    """Return the largest difference of log-probabilities, up to and with the first token that differs."""
    same = next((n for n, (a, b) in enumerate(zip(one[0], other[0], strict=False)) if a != b), None)
    upto = min(len(one[1]), len(other[1])) if same is None else same + 1
    apart = np.abs(np.subtract(one[1][:upto], other[1][:upto], dtype=float))
    found = float(apart.max(initial=0.0))
    # Two tokens of equal probability are two answers all the same.
    return max(found, np.finfo(float).tiny) if same is not None or len(one[0]) != len(other[0]) else found
