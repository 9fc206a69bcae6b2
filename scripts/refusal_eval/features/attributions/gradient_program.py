"""Computes gradients of the score of a refusal at the tokens of prompts, for the engine environment: JSON in and out.

Usage: python gradient_program.py JOB.json

A program of its own: it imports torch and transformers, and nothing of this library, which that environment does not
have. With e the embeddings of a prompt, b the same with that of one token in place of each of the prompt's own tokens
(those of the template stay), and F the score, a token's value is (e - b) . g, where g is a gradient with respect to its
embedding:

- `gradient`: dF/de at the prompt itself;
- `integrated_gradient` (arXiv 1703.01365): the mean of dF/de over the straight line from b to e, by Gauss-Legendre
  quadrature with `steps` nodes. Its values add up to F(e) - F(b), but for the error of the quadrature.

- `leave_one_out`: no gradients; a value is F of the item minus F of each of `without`, prompts without a part of it.

F is the logarithm of the probability that the reply begins with a token of `refusal`; or, of an item with `reply`, the
log-probability of its last `reply` tokens; or, of a job with `direction`, the projection on its `vector` of the output
of the decoder layer `layer` (0-based, of `model_layers`) at the last token.

Each prompt is computed by itself, in batches of points on its line, so that it does not depend on others. As soon as
it is done its line is in the file, so that a killed run loses one prompt.

The job is JSON: `folder` (the model), `dtype`, `device` (cpu or cuda), `gpus`, `trust_remote_code`, `out` (the file
that lines are appended to), `method`, `steps`, `most_tokens` (of a batch), `baseline` (the token of b, of gradients),
`refusal` (tokens) or `direction`, where the score is of them, and `items`: `key`, `token_ids`, `own` (the places of the
prompt's own tokens), and perhaps `reply` (how many tokens at the end are the reply) and `without`.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import runpy
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
CAPTURE = HERE.parents[2] / "activations" / "capture_program.py"
FIRST_CALLS = HERE.parents[2] / "engines" / "first_calls.py"
SECONDS_BETWEEN_LINES = 5.0


def nodes(method: str, steps: int) -> list[tuple[float, float]]:
    """Return the points of the line from baseline (0) to prompt (1) at which gradients are taken, and their weights."""
    import numpy as np

    if method == "gradient":
        return [(1.0, 1.0)]
    places, weights = np.polynomial.legendre.leggauss(steps)
    return list(zip(((places + 1) / 2).tolist(), (weights / 2).tolist(), strict=True))


class Gradients:
    """A model with a hook on its embedding, through which prompts are put that no token has."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        import torch

        runpy.run_path(str(FIRST_CALLS))
        program = runpy.run_path(str(CAPTURE))
        self._torch, self._job = torch, job
        model, missing = program["load_model"](dict(job))
        program["refuse_made_up"](model, model, missing)
        self._model = model.requires_grad_(False)
        self._embedding = model.get_input_embeddings()
        self._device = self._embedding.weight.device
        if job["steps"] and job["baseline"] >= self._embedding.num_embeddings:
            sys.exit(f"the model has no embedding of the token {job['baseline']}, from which gradients are to begin")
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._given: Any = None
        if direction := job.get("direction"):
            self._decoder, layers = program["text_decoder"](model, direction["model_layers"])
            layers[direction["layer"]].register_forward_hook(self._keep_last)
            self._last: Any = None
            self._vector = torch.tensor(direction["vector"], device=self._device)
        # Whatever the model does to embeddings after this, such as scaling them, is a part of F.
        self._embedding.register_forward_hook(lambda _, __, output: output if self._given is None else self._given)

    def scores(self, item: Mapping[str, Any], embedded: Any) -> Any:
        """Return F of each row, in float32.

        Args:
            embedded: what the model is to read in place of its embeddings, [rows, tokens, width].
        """
        torch, reply = self._torch, item.get("reply", 0)
        ids = torch.tensor([item["token_ids"]] * len(embedded), device=self._device)
        keep = {"logits_to_keep": reply + 1} if self._keeps else {}
        if "direction" in self._job:
            return self._projected(ids, embedded)
        self._given = embedded
        try:
            logits = self._model(input_ids=ids, use_cache=False, **keep).logits[:, -reply - 1 :].float()
        finally:
            self._given = None
        likely = torch.log_softmax(logits, dim=-1)
        if not reply:
            return likely[:, -1, self._job["refusal"]].logsumexp(dim=-1)
        # What is behind a token says how probable the next one is.
        return likely[:, :-1].gather(2, ids[:, -reply:, None])[:, :, 0].sum(dim=1)

    def _keep_last(self, _: Any, __: Any, output: Any) -> None:
        self._last = (output[0] if isinstance(output, tuple) else output)[:, -1]

    def _projected(self, ids: Any, embedded: Any) -> Any:
        self._given, self._last = embedded, None
        try:
            self._decoder(input_ids=ids, use_cache=False, return_dict=True)
        finally:
            self._given = None
        if self._last is None:
            sys.exit("the hook of the layer did not fire: nothing is computed")
        return self._last.float() @ self._vector.to(self._last.device)

    def left_out(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return what F of a prompt is more than that of each one without a part."""
        torch, found = self._torch, []
        for ids in (item["token_ids"], *item["without"]):
            with torch.no_grad():
                embedded = self._embedding(torch.tensor([ids], device=self._device))
                found.append(self.scores({"token_ids": ids}, embedded).item())
        return {"key": item["key"], "score": found[0], "baseline": None, "values": [found[0] - f for f in found[1:]]}

    def line(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a prompt's own tokens, with F of the prompt and of its baseline."""
        torch, ids, own = self._torch, item["token_ids"], item["own"]
        with torch.no_grad():
            prompt = self._embedding(torch.tensor(ids, device=self._device)).float()
            other = self._embedding(torch.tensor([self._job["baseline"]], device=self._device)).float()
            places = torch.tensor(own, device=self._device)
            way = prompt[places] - other  # [own tokens, width]
        total = torch.zeros_like(way)
        at_once = max(1, self._job["most_tokens"] // len(ids))
        every = nodes(self._job["method"], self._job["steps"])
        for first in range(0, len(every), at_once):
            part = every[first : first + at_once]
            moved = prompt.repeat(len(part), 1, 1)
            for row, (place, _) in enumerate(part):
                moved[row, places] = prompt[places] + (place - 1) * way
            moved.requires_grad_()
            with torch.enable_grad():
                scores = self.scores(item, moved.to(self._embedding.weight.dtype))
                (slopes,) = torch.autograd.grad(scores.sum(), moved)
            weights = torch.tensor([weight for _, weight in part], device=self._device)
            total += (weights[:, None, None] * slopes[:, places]).sum(dim=0)
        ends = prompt.repeat(2, 1, 1)
        ends[1, places] = other
        with torch.no_grad():
            score, baseline = self.scores(item, ends.to(self._embedding.weight.dtype)).tolist()
        values = (way * total).sum(dim=1).tolist()
        return {"key": item["key"], "score": score, "baseline": baseline, "values": values}


def main(job_path: str) -> None:
    """Compute the values of all items of a job."""
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    out, items = Path(job["out"]), job["items"]
    out.parent.mkdir(parents=True, exist_ok=True)
    gradients = Gradients(job)
    started = said = time.monotonic()
    with open(out, "a", encoding="utf-8") as lines:
        for done, item in enumerate(items, start=1):
            line = gradients.line(item) if job["steps"] else gradients.left_out(item)
            if not all(map(math.isfinite, (line["score"], line["baseline"] or 0.0, *line["values"]))):
                sys.exit(f"the model computes no numbers for the prompt with the key {item['key']}")
            lines.write(json.dumps(line, sort_keys=True) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
            now = time.monotonic()
            if now - said > SECONDS_BETWEEN_LINES or done == len(items):
                said, left = now, round((now - started) / done * (len(items) - done))
                print(f"attributed {done} of {len(items)} prompts, about {left} s left", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
