"""What the mode `constellation` costs against SafeConstellations' vector per prompt; for the engine environment.

The exact method (arXiv 2508.11290) runs a prompt once, finds its task by the mean cosine of its last token with each
task's answered mean over all layers, and adds s (mu - h) of that last token to every token after the chosen layers. The
mode sees tokens without prompts: each finds its own task, at each layer, and moves by s (mu - its own h). Both run here
in transformers, float32, greedy, on prompts that are in no mean. Compared are next-token distributions along the exact
method's own answers, so that one different token does not make all that follow different.

Three tasks wrap the texts of config/prompts/refusal_pairs.jsonl: harmless ones make the answered means, harmful ones of
the other part are asked, which a cautious model would refuse. Two more rows say what the difference is made of:

    constant   each token that passes the gate gets s (mu - mean of the refused prompts of its task), one vector a task
    published  the exact method where the paper's code has it: added to the output of a layer's input norm, so that it
               reaches that layer's attention only, with means of that place
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measuring import ROOT, print_head
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXTS = ROOT / "config" / "prompts" / "refusal_pairs.jsonl"
TASKS = {
    "translating": "Translate this sentence into Spanish. {text}",
    "mood": "Is the mood of this sentence cheerful, neutral or gloomy? Reply with one word. {text}",
    "rewording": "Say the same in other words. {text}",
}
TOKENS = 16  # of an answer
Change = Callable[[Tensor], Tensor]  # of the states of one prompt, [1, tokens, width]


class Model:
    """A language model whose layers can be read and changed: after a layer (`stream`), or its input norm (`norm`)."""

    def __init__(self, folder: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
        self.model = model.eval()
        layers = list(self.model.get_decoder().layers)
        self.places = {"stream": layers, "norm": [layer.input_layernorm for layer in layers]}

    def ids(self, text: str) -> Tensor:
        """Return the token ids of a question in the chat template, [1, tokens]."""
        messages = [{"role": "user", "content": text}]
        given: dict[str, Any] = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
        found: Any = self.tokenizer.apply_chat_template(messages, **given)
        return found["input_ids"]

    def states(self, ids: Tensor) -> dict[str, Tensor]:
        """Return the states of the last token by place, [layers, width]."""
        kept: dict[str, list[Tensor]] = {place: [] for place in self.places}

        def keep(place: str) -> Change:
            def kept_as_it_is(h: Tensor) -> Tensor:
                kept[place].append(h[0, -1].clone())
                return h

            return kept_as_it_is

        changes = {place: dict.fromkeys(range(len(parts)), keep(place)) for place, parts in self.places.items()}
        with self.changed(changes):
            self.model(input_ids=ids, use_cache=False)
        return {place: torch.stack(rows) for place, rows in kept.items()}

    @contextmanager
    def changed(self, changes: dict[str, dict[int, Change]]) -> Iterator[None]:
        """Change the model by place and layer."""

        def hook(change: Change) -> Callable[[Any, Any, Any], Any]:
            def changed(module: Any, inputs: Any, output: Any) -> Any:
                if isinstance(output, tuple):
                    return (change(output[0]), *output[1:])
                return change(output)

            return changed

        handles = [
            self.places[place][layer].register_forward_hook(hook(change))
            for place, layers in changes.items()
            for layer, change in layers.items()
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def answer(self, ids: Tensor) -> Tensor:
        """Return prompt and greedy answer, [1, tokens]."""
        more: Tensor = self.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False
        )
        return more

    def next_tokens(self, ids: Tensor) -> Tensor:
        """Return the log-probabilities of each token of the answer's places, [TOKENS, vocabulary]."""
        logits = self.model(input_ids=ids, use_cache=False).logits[0, -TOKENS - 1 : -1]
        return torch.log_softmax(logits.double(), dim=-1)


@dataclass(frozen=True)
class Bank:
    """The means of the tasks at one place, [tasks, layers, width], of answered and of refused prompts."""

    answered: Tensor
    refused: Tensor

    def detected(self, h: Tensor) -> tuple[int, float]:
        """Return the task of a prompt and its mean cosine over all layers, by its last token [layers, width]."""
        cosines = torch.cosine_similarity(self.answered, h[None], dim=-1).mean(1)
        return int(cosines.argmax()), float(cosines.max())

    def exact(self, h: Tensor, layers: Sequence[int], scale: float, gate: float) -> dict[int, Change]:
        """Return the exact method's changes for a prompt whose last token is h, [layers, width]."""
        task, cosine = self.detected(h)
        moves = {layer: scale * (self.answered[task, layer] - h[layer]) for layer in layers if cosine > gate}
        return {layer: partial(torch.add, move) for layer, move in moves.items()}

    def by_token(self, x: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Return each token's task at a layer and its cosine, [1, tokens]."""
        cosines = torch.cosine_similarity(x[..., None, :], self.answered[:, layer], dim=-1)
        best = cosines.max(-1)
        return best.indices, best.values

    def per_token(self, layers: Sequence[int], scale: float, gate: float, constant: bool) -> dict[int, Change]:
        """Return the changes of the mode `constellation`, or with `constant` of one vector for each task."""

        def change(x: Tensor, layer: int) -> Tensor:
            task, cosine = self.by_token(x, layer)
            start = self.refused[task, layer] if constant else x
            return torch.where((cosine > gate)[..., None], x + scale * (self.answered[task, layer] - start), x)

        return {layer: partial(change, layer=layer) for layer in layers}


def prompts(side: str, part: str, most: int) -> list[tuple[int, str]]:
    """Return wrapped texts, each with the number of its task."""
    rows = [json.loads(line) for line in TEXTS.read_text(encoding="utf-8").splitlines()]
    texts = [row["prompt"] for row in rows if (row["side"], row["part"]) == (side, part)][:most]
    return [(task, form.format(text=text)) for task, form in enumerate(TASKS.values()) for text in texts]


def banks(model: Model, most: int) -> dict[str, Bank]:
    """Return the means of all tasks by place."""
    found: dict[str, list[Tensor]] = {place: [] for place in model.places}
    for side in ("harmless", "harmful"):
        states = [(task, model.states(model.ids(text))) for task, text in prompts(side, "fit", most)]
        for place, means in found.items():
            of_tasks = [[h[place] for own, h in states if own == task] for task in range(len(TASKS))]
            means.append(torch.stack([torch.stack(rows).mean(0) for rows in of_tasks]))
    return {place: Bank(*means) for place, means in found.items()}


def compared(model: Model, bank: dict[str, Bank], asked: Sequence[Tensor], layers: Sequence[int], **how: Any) -> None:
    """Print how far each way is from the exact one, at one scale."""
    equal: dict[str, list[float]] = {}
    kl: dict[str, list[float]] = {}
    scale, gate, moved = how["scale"], how["gate"], 0
    for ids in asked:
        h = model.states(ids)
        exact = {"stream": bank["stream"].exact(h["stream"], layers, scale, gate)}
        moved += bool(exact["stream"])
        ways: dict[str, dict[str, dict[int, Change]]] = {"unsteered": {}}
        for name, constant in (("constellation", False), ("constant", True)):
            for of_token in how["token_gates"]:
                changes = bank["stream"].per_token(layers, scale, of_token, constant)
                ways[f"{name}, gate {of_token:g}"] = {"stream": changes}
        ways["published"] = {"norm": bank["norm"].exact(h["norm"], layers, scale, gate)}
        with model.changed(exact):
            text = model.answer(ids)
            wanted = model.next_tokens(text)
        for name, places in ways.items():
            with model.changed(places):
                found = model.next_tokens(text)
            equal.setdefault(name, []).append(float((found.argmax(-1) == wanted.argmax(-1)).double().mean()))
            kl.setdefault(name, []).append(float((wanted.exp() * (wanted - found)).sum(-1).mean()))
    print(f"\nscale {scale:g}: the exact method moves {moved} of {len(asked)} prompts (gate {gate:g})")
    for name in equal:
        mean = sum(equal[name]) / len(asked), sum(kl[name]) / len(asked)
        print(
            f"  {name:<26} greedy tokens equal {mean[0]:6.1%}   KL from the exact one {mean[1]:7.3f} nats", flush=True
        )


def detection(model: Model, bank: Bank, asked: Sequence[tuple[int, Tensor]], layers: Sequence[int], **how: Any) -> None:
    """Print how often prompts and their tokens are given the same task, and how many tokens pass which gate."""
    right = same = passed = 0
    seen: dict[int, tuple[Tensor, Tensor]] = {}
    of_tokens: dict[str, list[Tensor]] = {}  # [layers, tokens]: of the exact method's task, and cosines

    def look(x: Tensor, layer: int) -> Tensor:
        seen[layer] = bank.by_token(x, layer)
        return x

    for true, ids in asked:
        task, cosine = bank.detected(model.states(ids)["stream"])
        text = model.answer(ids)
        with model.changed({"stream": {layer: partial(look, layer=layer) for layer in layers}}):
            model.model(input_ids=text, use_cache=False)
        tasks, cosines = (torch.cat([seen[layer][part] for layer in layers]) for part in (0, 1))
        last = ids.shape[1] - 1
        right, passed = right + (task == true), passed + (cosine > how["gate"])
        same += bool((tasks[:, last] == task).all())
        for name, part in (
            ("prompts", slice(last)),
            ("last", slice(last, last + 1)),
            ("answers", slice(last + 1, None)),
        ):
            of_tokens.setdefault(f"{name} task", []).append((tasks[:, part] == task).flatten())
            of_tokens.setdefault(f"{name} cosine", []).append(cosines[:, part].flatten())
    print(f"task found by the exact method: {right} of {len(asked)}; above its gate: {passed}")
    print(f"last token of the prompt with the same task at all chosen layers: {same} of {len(asked)}")
    for name, words in (("last", "last tokens"), ("prompts", "prompt tokens before"), ("answers", "answer tokens")):
        agreeing, cosines = (torch.cat(of_tokens[f"{name} {what}"]) for what in ("task", "cosine"))
        shares = (f"{float((cosines > gate).double().mean()):.1%} pass {gate:g}" for gate in how["token_gates"])
        print(f"  {words:<22} same task {float(agreeing.double().mean()):6.1%}; {', '.join(shares)}", flush=True)


def main() -> None:
    """Print all numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--weights", required=True, type=Path, help="folder of SmolLM2-135M-Instruct")
    parser.add_argument("--layers", type=int, nargs="+", default=[14, 15, 18, 20])
    parser.add_argument("--scales", type=float, nargs="+", default=[0.1, 0.3, 1.0])
    parser.add_argument("--gate", type=float, default=0.85, help="of the exact method: of a prompt's mean cosine")
    parser.add_argument("--token-gates", type=float, nargs="+", default=[0.85, 0.5, -1.0], help="of the mode")
    parser.add_argument("--fitted", type=int, default=24, help="texts behind each mean")
    parser.add_argument("--asked", type=int, default=8, help="texts that are asked, in each task")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print_head("A vector for each token, against SafeConstellations' vector for each prompt")
    with torch.inference_mode():
        model = Model(str(given.weights))
        bank = banks(model, given.fitted)
        asked = [(task, model.ids(text)) for task, text in prompts("harmful", "test", given.asked)]
        gates = {"gate": given.gate, "token_gates": given.token_gates}
        detection(model, bank["stream"], asked, given.layers, **gates)
        for scale in given.scales:
            compared(model, bank, [ids for _, ids in asked], given.layers, scale=scale, **gates)


if __name__ == "__main__":
    main()
