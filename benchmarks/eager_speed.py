"""Tokens per second of the engine `eager` beside vLLM: in batches, with a steered word, and one request at a time.

Each arm is a load of its own, with the same weights, number format, prompts and number of tokens; in each round all
arms run in turn, and are compared within it. Greedy answers of a fixed length, so that all arms write as many tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import tempfile
import time
from pathlib import Path

from measuring import ROOT, print_head, print_values

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.features.eager.eager_engine import EagerEngine
from refusal_eval.tools.check.checked_model import CheckedModel, prepare
from refusal_eval.tools.check.model_checks import engine_of_plan

VLLM, EAGER, STEERED, ALONE = "vLLM", "eager", "eager, steered", "eager, one at a time"
SAME = ("weights", "dtype", "max_model_len", "device", "python", "start_timeout", "stall_timeout")


def main() -> None:
    """Measure, and print tokens per second and their share of vLLM's."""
    options = arguments()
    print_head("tokens per second of the engine eager beside vLLM")
    with tempfile.TemporaryDirectory() as work:
        model = prepare(options.model, options.catalogue, str(ROOT / ".cache"), Path(work), None)
        if not isinstance(model, CheckedModel):
            raise SystemExit(f"{options.model} computes elsewhere")
        rates: dict[str, list[float]] = {name: [] for name in (VLLM, EAGER, STEERED, ALONE)}
        for number in range(options.rounds):
            for name in rates:
                rates[name].append(asyncio.run(tokens_per_second(model, name, options)))
            shown = ", ".join(f"{name} {values[-1]:.1f}" for name, values in rates.items())
            print(f"  round {number + 1}: {shown} tokens/s", flush=True)
    for name, values in rates.items():
        print_values(name, values, "tokens/s", 1)
    for name in (EAGER, STEERED, ALONE):
        pairs = zip(rates[name], rates[VLLM], strict=True)
        print_values(f"{name}, share of vLLM's", [one / other for one, other in pairs], "")


def plan_of(model: CheckedModel, name: str) -> LoadPlan:
    """Return how to load the model in one arm."""
    if name == VLLM:
        return model.plan
    engine = model.plan.engine
    assert isinstance(engine, LocalEngine)
    same = {key: getattr(engine, key) for key in SAME}
    eager = EagerEngine.model_construct(kind="eager", trust_remote_code=engine.trust_remote_code, **same)
    determinism = "strict" if name == ALONE else model.plan.determinism
    return dataclasses.replace(model.plan, engine=eager, determinism=determinism)


async def tokens_per_second(model: CheckedModel, name: str, options: argparse.Namespace) -> float:
    """Start the engine, ask it once to warm up and then everything at once; return the tokens per second of that."""
    sampling = {**NEUTRAL_SAMPLING, "temperature": 0.0, "max_tokens": options.max_tokens}
    prompts = [request.token_ids for file in model.files for request in file.requests() if request.key is not None]
    count = options.requests // 4 if name == ALONE else options.requests
    change = {"attention": {"alpha": 0.1, "positions": [2, 3]}} if name == STEERED else {}
    settings = RequestSettings(sampling=sampling, changes=change)
    async with engine_of_plan(plan_of(model, name), model.log) as server:
        await server.complete(prompts[0], settings, None)
        started = time.perf_counter()
        asked = [server.complete(prompts[n % len(prompts)], settings, None) for n in range(count)]
        replies = await asyncio.gather(*asked)
        return sum(len(reply["token_ids"]) for reply in replies) / (time.perf_counter() - started)


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-plain", help="a model of the catalogue")
    parser.add_argument("--catalogue", nargs="*", default=[], type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=32, help="of each load; a quarter of them one at a time")
    parser.add_argument("--max-tokens", type=int, default=64)
    return parser.parse_args()


if __name__ == "__main__":
    main()
