"""What transformers makes of a model with an intervention, token by token; for the engine environment.

Independent of the project: it reads the files of directions and the entry of the model, and none of our code. Standard
input is JSON: {"folder", "directions": {name: file}, "cases": [{"asked": {direction, mode ...} or null, "prompts":
[ids], "answers": [ids]}]}. Printed is, for each case, the greedy token at every place of every answer, given the
answer's own tokens before it.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM


def at_layer(path: str, layer: int) -> list[Any]:
    """Return a direction's vector at a layer, the means of its positive and its negative side, and the gate's vector.

    The gate's is the direction's, but of a control that of the direction which it is the control of.
    """
    with safe_open(path, "pt") as file:
        at = json.loads(file.metadata()["refusal_eval"])["layers"].index(layer)
        looked_at = "controlled" if "controlled" in file.keys() else "direction"  # noqa: SIM118
        names = ("direction", "mean_positive", "mean_negative", looked_at)
        return [file.get_tensor(name)[at].double() for name in names]


def to_own_task(h: Any, s: float, gate: float, means: list[Any]) -> Any:
    """Return the stream of one layer after `constellation`, token by token."""
    moved = h.clone()
    for place in np.ndindex(*h.shape[:-1]):
        cosine, task = max((float(h[place] @ mean / h[place].norm() / mean.norm()), n) for n, mean in enumerate(means))
        if cosine > gate:
            moved[place] = (1 - s) * h[place] + s * means[task]
    return moved


def to_step(path: str, layer: int, scale: Any, v: Any) -> tuple[Any, Any]:
    """Return what is added to a repositioned stream, and the mean of the neutral prompts."""
    with safe_open(path, "pt") as file:
        card = json.loads(file.metadata()["refusal_eval"])
        at = card["layers"].index(layer)
        neutral = file.get_tensor("mean_neutral")[at].double()
    if not isinstance(scale, dict):
        return float(scale) * v, neutral
    alpha = scale["alpha"]
    return alpha * card["scales"][at][0 if alpha > 0 else 1] * v / v.norm(), neutral


def changes(asked: dict[str, Any] | None, directions: dict[str, str]) -> dict[int, Callable[[Any], Any]]:
    """Return what happens to the stream after each layer, by the formulas of docs/reference/steering.md."""
    found: dict[int, Callable[[Any], Any]] = {}
    for layer in asked["layers"] if asked else ():
        if asked["mode"] == "constellation":
            s, gate = float(asked["scale"]), float(asked["gate"])
            means = [at_layer(directions[name], layer)[2] for name in asked["direction"]]
            found[layer] = lambda h, s=s, g=gate, m=means: to_own_task(h, s, g, m)
            continue
        v, plus, minus, like = at_layer(directions[asked["direction"]], layer)
        u = v / v.norm()
        if asked["mode"] == "reposition":
            step, neutral = to_step(directions[asked["direction"]], layer, asked["scale"], v)
            found[layer] = lambda h, u=u, o=neutral, step=step: h - ((h - o) * u).sum(-1, keepdim=True) * u + step
            continue
        mode, s = asked["mode"], 1.0 if asked["scale"] is None else float(asked["scale"])
        o = (plus + minus) / 2 if asked.get("offset") == "midpoint" else torch.zeros_like(v)
        mu = plus if asked.get("towards") == "positive" else minus
        if mode == "add":
            found[layer] = lambda h, s=s, v=v: h + s * v
        elif mode == "ablate":
            found[layer] = lambda h, s=s, u=u, o=o: h - s * ((h - o) * u).sum(-1, keepdim=True) * u
        elif mode == "gated":
            gate = float(asked["gate"])
            found[layer] = lambda h, s=s, v=v, like=like, g=gate: torch.where(
                (torch.cosine_similarity(h, like.expand_as(h), dim=-1) > g).unsqueeze(-1), h + s * v, h
            )
        else:
            found[layer] = lambda h, s=s, m=mu: h + s * (m - h)
    return found


def hook(change: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Return a forward hook of a decoder layer of transformers."""

    def changed(module: Any, inputs: Any, output: Any) -> Any:
        h = output[0] if isinstance(output, tuple) else output
        new = change(h.double()).to(h.dtype)
        return (new, *output[1:]) if isinstance(output, tuple) else new

    return changed


def main() -> None:
    """Answer what standard input asks."""
    given = json.load(sys.stdin)
    model = AutoModelForCausalLM.from_pretrained(given["folder"], dtype=torch.float32, local_files_only=True).eval()
    results = []
    with torch.inference_mode():
        for case in given["cases"]:
            found = changes(case["asked"], given["directions"])
            handles = [model.model.layers[at].register_forward_hook(hook(change)) for at, change in found.items()]
            reported = []
            for prompt, answer in zip(case["prompts"], case["answers"], strict=True):
                logits = model(input_ids=torch.tensor([prompt + answer]), use_cache=False).logits[0]
                reported.append(logits[len(prompt) - 1 : len(prompt) + len(answer) - 1].argmax(-1).tolist())
            for handle in handles:
                handle.remove()
            results.append(reported)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
