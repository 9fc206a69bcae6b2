"""Writes prompts that a language model refuses, token by token, for the engine environment: JSON in, JSON lines out.

Usage: python controlled_program.py JOB.json

A program of its own: it imports torch and transformers, and nothing of this library, which that environment does not
have. The method is PHTest's controlled generation (arXiv 2409.00598), with the decoding of AutoDAN (arXiv 2310.15140),
from their formulas. For the next token of a text, with x the text so far, two models are asked: the writer, how likely
a token is (log p), and the target, how likely its refusal becomes (CE, the mean cross-entropy of the refusal's tokens).

1. `candidates` tokens v with the highest w1 * (-dCE/d(one-hot of v)) + log p(v | x). The gradient is that at the
   writer's likeliest token, then, with more `rounds`, at the best candidate so far; candidates of all rounds count.
2. For each of them, and for the end of the text, w2 * (-CE(x + v)) + log p(v | x), with CE computed exactly.
3. A token drawn from the softmax of these / `temperature`; with temperature 0 the best one.

Each text is written alone, from its first token on: it depends on its own item, not on those before. As soon as it is
complete its line is in the file, so that a killed run loses one text.

The job is JSON: `by` and `target` (`folder` and `dtype` of each; the same model once if both are equal), `device` (cpu
or cuda), `gpus`, `trust_remote_code`, `out` (the file that lines are appended to), `candidates`, `rounds`, `steps` (the
most tokens of a text), `w1`, `w2`, `temperature`, `most_tokens` and `most_logits` (of a batch of candidates),
`special_tokens` (whether the tokenizer puts its own marks before a text: of `by` and of `target`), `ends` (ids that end
what the writer writes), `most_positions` (of `by` and of `target`) and `items`: `key`, `draw` (what its random numbers
depend on), `seed` (the text it is made from), `context` (what the writer reads), `before` and `after` (the target's
prompt around the text), `refusal` (the reply that is wanted).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import runpy
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
FIRST_CALLS = HERE.parents[2] / "engines" / "first_calls.py"
CAPTURE = HERE.parents[2] / "activations" / "capture_program.py"
MODELS = HERE.with_name("search_models.py")
SECONDS_BETWEEN_LINES = 5.0
END = -1  # among the candidates, the end of the text
SearchJob = Mapping[str, Any]
SearchItem = Mapping[str, Any]


class Search:
    """A writer and a target with their tokenizer, which write one text after the other."""

    def __init__(self, job: SearchJob) -> None:
        import torch

        runpy.run_path(str(FIRST_CALLS))
        from transformers import AutoTokenizer

        self._torch, self._job, self._models = torch, job, runpy.run_path(str(MODELS))
        options = {"local_files_only": True, "trust_remote_code": job["trust_remote_code"]}
        self._tokenizer = AutoTokenizer.from_pretrained(job["target"]["folder"], **options)
        self._target_model = load(job, "target")
        self._writer_model = self._target_model if job["by"] == job["target"] else load(job, "by")
        self._target = self._models["RefusalTarget"](self._target_model, job["most_tokens"], job["most_logits"])
        self._checked = False
        self.allowed, self._ends = self._usable_tokens()

    def _usable_tokens(self) -> tuple[Any, list[int]]:
        """Return which tokens a text may have, [vocabulary], and those that end it: marks and line breaks.

        A text is one paragraph of whole characters. A token with a line break inside, or with a part of a character,
        is none of both.
        """
        known = len(self._tokenizer)
        rows = min(self._target.vocabulary, self._writer_model.get_input_embeddings().num_embeddings, known)
        added = set(self._tokenizer.added_tokens_decoder) | set(self._tokenizer.all_special_ids)
        allowed, ends = self._torch.zeros(rows, dtype=self._torch.bool), set(self._job["ends"])
        for token, text in enumerate(self._tokenizer.batch_decode([[token] for token in range(rows)])):
            if token in added or not text:
                continue
            if text.lstrip(" \t").startswith(("\n", "\r")):
                ends.add(token)
            elif text.isprintable() and "\ufffd" not in text:
                allowed[token] = True
        ends_here = sorted(token for token in ends if token < rows)
        allowed[ends_here] = False
        return allowed, ends_here

    def encoded(self, text: str, role: str) -> list[int]:
        """Return the token ids of a rendered text, as the model of this role (`by` or `target`) reads it."""
        marks = self._job["special_tokens"][role]
        return list(self._tokenizer(text, add_special_tokens=marks)["input_ids"])

    def behind(self, text: str) -> list[int]:
        """Return the token ids of a text that follows another one."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def line(self, item: SearchItem, said: Callable[[int], None]) -> dict[str, Any]:
        """Return what becomes of one item: its text and state, and what both models make of it.

        Args:
            item: of the job.
            said: is called with the number of tokens after each one.
        """
        before, after, refusal = self.encoded(item["before"], "target"), self.behind(item["after"]), item["refusal"]
        wanted, context = self.behind(refusal), self.encoded(item["context"], "by")
        line: dict[str, Any] = {"key": item["key"], "text": "", "state": "too_long", "tokens": 0}
        line |= {"ce": None, "seed_ce": None, "logp": None}
        room = max(self._job["steps"], len(self.behind(item["seed"])))
        most = self._job["most_positions"]
        if len(before) + len(after) + len(wanted) + room > most["target"] or len(context) + room > most["by"]:
            return line
        if not self._checked:
            self._target.check(before, self.behind(item["seed"]), after, wanted)
            self._checked = True
        token_ids, ended = self.written(before, after, wanted, context, str(item["draw"]), said)
        text = str(self._tokenizer.decode(token_ids)).strip()
        line |= {"tokens": len(token_ids), "seed_ce": self._loss(item, item["seed"], wanted)}
        if not text:
            return line | {"state": "empty"}
        # The loss and the fluency of the text as it will be asked: made into tokens anew, which may be other ones.
        fluency = self._models["mean_log_probability"](self._writer_model, context, self.behind(text))
        state = "same" if text.split() == item["seed"].split() else "written" if ended else "cut"
        return line | {"text": text, "state": state, "ce": self._loss(item, text, wanted), "logp": fluency}

    def _loss(self, item: SearchItem, text: str, wanted: Sequence[int]) -> float:
        prompt = self.encoded(item["before"] + text + item["after"], "target")
        return float(self._target.plain_loss(prompt, wanted))

    def written(
        self,
        before: Sequence[int],
        after: Sequence[int],
        refusal: Sequence[int],
        context: Sequence[int],
        draw: str,
        said: Callable[[int], None] = lambda tokens: None,
    ) -> tuple[list[int], bool]:
        """Return the token ids of a text, and whether it ended before its tokens were used up."""
        writer = self._models["GrowingText"](self._writer_model, context)
        self._target.begin(before, after, refusal)
        token_ids: list[int] = []
        while len(token_ids) < self._job["steps"]:
            scores = self.scores(writer.next_log_probabilities().cpu(), first=not token_ids)
            token = drawn(scores, self._job["temperature"], uniform(draw, len(token_ids)))
            if token == END:
                return token_ids, True
            token_ids.append(token)
            writer.add(token)
            self._target.add(token)
            said(len(token_ids))
        return token_ids, False

    def scores(self, fluency: Any, first: bool) -> dict[int, float]:
        """Return the exact scores of the candidates for the next token, END for the end of the text.

        Args:
            fluency: the writer's log-probability of each token.
            first: whether there is no text yet, which then cannot end.
        """
        torch, job = self._torch, self._job
        masked = fluency[: len(self.allowed)].masked_fill(~self.allowed, -math.inf)
        best, exact = int(masked.argmax()), dict[int, float]()
        most = min(job["candidates"], int(self.allowed.sum()))
        for _ in range(job["rounds"]):
            slope = self._target.gradient(best)[: len(masked)].cpu() if job["w1"] else torch.zeros_like(masked)
            preliminary = masked - job["w1"] * slope
            new = [token for token in preliminary.topk(most).indices.tolist() if token not in exact]
            losses = self._target.losses(sorted(new)) if new and job["w2"] else [0.0] * len(new)
            exact |= {
                token: float(fluency[token]) - job["w2"] * loss for token, loss in zip(sorted(new), losses, strict=True)
            }
            # The best so far; of equal ones the first of the vocabulary.
            before, best = best, min(exact, key=lambda token: (-exact[token], token))
            if best == before:
                break
        if self._ends and not first:
            loss = self._target.loss() if job["w2"] else 0.0
            exact[END] = float(fluency[self._ends].logsumexp(dim=0)) - job["w2"] * loss
        return exact


def load(job: SearchJob, role: str) -> Any:
    """Return the model of a role, of which no parameter has a gradient."""
    program = runpy.run_path(str(CAPTURE))
    model, missing = program["load_model"]({**job, **job[role]})
    program["refuse_made_up"](model, model, missing)
    return model.requires_grad_(False)


def uniform(draw: str, position: int) -> float:
    """Return a number in [0, 1) that depends on nothing but the item's draw and the position in its text."""
    digest = hashlib.sha256(f"refusal-eval/controlled/{draw}/{position}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def drawn(scores: Mapping[int, float], temperature: float, number: float) -> int:
    """Return a token drawn from the softmax of scores / temperature; the best one, the first of equals, for 0.

    Args:
        number: uniform in [0, 1).
    """
    ordered = sorted(scores)
    best = max(scores.values())
    if temperature == 0:
        return next(token for token in ordered if scores[token] == best)
    weights = [math.exp((scores[token] - best) / temperature) for token in ordered]
    left = number * math.fsum(weights)
    for token, weight in zip(ordered, weights, strict=True):
        left -= weight
        if left < 0:
            return token
    return next(token for token, weight in zip(reversed(ordered), reversed(weights), strict=True) if weight > 0)


def main(job_path: str) -> None:
    """Write the texts of all items of a job."""
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    out, items = Path(job["out"]), job["items"]
    out.parent.mkdir(parents=True, exist_ok=True)
    search = Search(job)
    started = last = time.monotonic()

    def said(tokens: int) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"writing prompt {done + 1} of {len(items)}: {tokens} tokens", flush=True)

    with open(out, "a", encoding="utf-8") as lines:
        for done, item in enumerate(items):
            line = search.line(item, said)
            if not all(math.isfinite(line[name]) for name in ("ce", "seed_ce", "logp") if line[name] is not None):
                sys.exit(f"the models compute no numbers for the prompt made from {item['seed']!r}: {line}")
            lines.write(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
            each = (time.monotonic() - started) / (done + 1)
            left = round(each * (len(items) - done - 1))
            print(f"written {done + 1} of {len(items)} prompts, {each:.1f} s each, about {left} s left", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
