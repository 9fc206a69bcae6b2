"""What interventions cost: tokens per second of a model with each mode after each layer, against the plain model.

Each arm is a load of its own, with the same weights, arguments, prompts and number of tokens; in each round all arms
run in turn, and are compared within it. The directions are random numbers: what is computed does not depend on them.
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
from refusal_eval.features.steering.intervention import write_intervention
from refusal_eval.features.steering.intervention_file import CompiledIntervention
from refusal_eval.features.steering.loaded_intervention import LoadedIntervention
from refusal_eval.features.steering.made_up_intervention import NEUTRAL, made_up_direction
from refusal_eval.tools.check.checked_model import CheckedModel, prepare
from refusal_eval.tools.check.model_checks import engine_of_plan

SCALES = {"add": 1e-6, "ablate": 1.0, "gated": 1e-6, "pull": 1e-6, "constellation": 1e-6}


def main() -> None:
    """Measure, and print tokens per second and their share of the plain model's."""
    options = arguments()
    print_head("tokens per second under an intervention after each layer")
    with tempfile.TemporaryDirectory() as work:
        model = prepare(options.model, options.catalogue, str(ROOT / ".cache"), Path(work), None)
        if not isinstance(model, CheckedModel):
            raise SystemExit(f"{options.model} computes elsewhere")
        rates: dict[str, list[float]] = {name: [] for name in ("plain", *options.modes)}
        for number in range(options.rounds):
            for name in rates:
                plan = model.plan if name == "plain" else steered(model, name)
                rates[name].append(asyncio.run(tokens_per_second(model, plan, options)))
            shown = ", ".join(f"{name} {values[-1]:.1f}" for name, values in rates.items())
            print(f"  round {number + 1}: {shown} tokens/s", flush=True)
    for name, values in rates.items():
        print_values(name, values, "tokens/s", 1)
    for name in options.modes:
        pairs = zip(rates[name], rates["plain"], strict=True)
        print_values(f"{name}, share of the plain model's", [one / plain for one, plain in pairs], "")


def steered(model: CheckedModel, mode: str) -> LoadPlan:
    """Return how to load the model with an intervention of this mode after every layer."""
    direction = made_up_direction(model.plan.folder or "")
    asked = {**NEUTRAL, "mode": mode, "layers": direction.layers, "scale": SCALES[mode], "gate": -1.0}
    file = model.log.with_name(f"{mode}.safetensors")
    card = write_intervention(file, mode, [direction], asked)
    return dataclasses.replace(
        model.plan, changes=[LoadedIntervention([CompiledIntervention.of_card(card, str(file))])]
    )


async def tokens_per_second(model: CheckedModel, plan: LoadPlan, options: argparse.Namespace) -> float:
    """Start the engine, ask it once to warm up and then everything at once; return the tokens per second of that."""
    sampling = {**NEUTRAL_SAMPLING, "temperature": 0.0, "max_tokens": options.max_tokens}
    settings = RequestSettings(sampling=sampling)
    prompts = [request.token_ids for file in model.files for request in file.requests() if request.key is not None]
    async with engine_of_plan(plan, model.log) as server:
        await server.complete(prompts[0], settings, None)
        started = time.perf_counter()
        asked = [server.complete(prompts[n % len(prompts)], settings, None) for n in range(options.requests)]
        replies = await asyncio.gather(*asked)
        return sum(len(reply["token_ids"]) for reply in replies) / (time.perf_counter() - started)


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-plain", help="a model of the catalogue")
    parser.add_argument("--catalogue", nargs="*", default=[], help="more catalogue files, absolute paths")
    parser.add_argument("--modes", nargs="+", default=list(SCALES), choices=list(SCALES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=32, help="asked at once")
    parser.add_argument("--max-tokens", type=int, default=64)
    return parser.parse_args()


if __name__ == "__main__":
    main()
