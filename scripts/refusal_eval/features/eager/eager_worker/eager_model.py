"""A language model of transformers with eager attention, and the answers of a batch of requests.

For the engine environment. Requests of one batch are padded on the left; a prompt that several of them have is read
once. An answer that has ended leaves the batch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from answer_text import StreamedText  # type: ignore[import-not-found]
from steered_attention import NAME, SteeredAttention, Steering  # type: ignore[import-not-found]
from token_choice import next_token  # type: ignore[import-not-found]


@dataclass(eq=False)
class EagerRequest:
    """One request, and its answer as far as it has come."""

    prompt: list[int]
    sampling: Mapping[str, Any]  # every parameter, written out
    seed: int | None = None
    steering: Any = None  # a `Steering`, or None
    likeliest: int = 0  # how many log-probabilities of the likeliest tokens are wanted beside each token's own
    named: Sequence[int] = ()  # tokens whose log-probabilities are wanted
    of_prompt: bool = False  # whether those of the prompt's tokens are wanted
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    rows: list[dict[int, float]] = field(default_factory=list)  # by token, for each token: named and likeliest ones
    prompt_rows: list[dict[int, float] | None] = field(default_factory=list)
    text: str = ""
    finish_reason: str = ""
    stop_reason: int | str | None = None
    writing: Any = None  # a `StreamedText`
    generator: Any = None
    ids: Any = None  # the prompt as a tensor

    def begin(self) -> None:
        """Forget what has come of the answer."""
        self.token_ids, self.logprobs, self.rows, self.text, self.finish_reason = [], [], [], "", ""
        self.stop_reason = None


class EagerModel:
    """The model of a folder in the hub's format, safetensors only.

    Raises:
        SystemExit: if the folder lacks weights, which transformers would make up, or a kind of model whose attention
            transformers does not let us compute.
    """

    def __init__(self, folder: str, device: str, dtype: str, trust_remote_code: bool) -> None:
        self.attention = SteeredAttention()
        self.attention.register()
        model, loaded = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=getattr(torch, dtype),
            attn_implementation=NAME,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
        )
        if lacking := sorted(loaded["missing_keys"]):
            sys.exit(f"{folder} has no weights for {lacking[0]} ({len(lacking)} are missing): a model was never there")
        self._model, self.device = model.to(device).eval(), device
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
        self.vocabulary = int(model.get_input_embeddings().weight.shape[0])
        self._warm_up()

    def _warm_up(self) -> None:
        """Read one token as requests are read, which shows the layers whose attention is ours."""
        with torch.inference_mode():
            self._read([EagerRequest([0], {"max_tokens": 1})])
        if not self.attention.layers:
            sys.exit(f"{type(self._model).__name__} does not compute its attention through transformers' interface")

    def answer(
        self, batch: Sequence[EagerRequest], ended: Callable[[EagerRequest], None], counted: Callable[[int], None]
    ) -> None:
        """Write the answers of a batch; `ended` is called with each as it ends, `counted` with the tokens of a step."""
        with torch.inference_mode():
            self._write(batch, ended, counted)

    def _write(
        self, batch: Sequence[EagerRequest], ended: Callable[[EagerRequest], None], counted: Callable[[int], None]
    ) -> None:
        rows = sorted(batch, key=lambda one: (one.prompt, str(one.steering)))
        for row in rows:
            row.writing = StreamedText(self.tokenizer, row.prompt)
            row.ids = torch.tensor(row.prompt, device=self.device)
            row.generator = None
            if row.seed is not None:
                row.generator = torch.Generator(self.device).manual_seed(row.seed)
        logits, mask, cache = self._read(rows)
        while True:
            on = [place for place, row in enumerate(rows) if not self._take(row, logits[place])]
            counted(len(rows))
            for row in rows:
                if row.finish_reason:
                    row.text = row.writing.text
                    ended(row)
            if not on:
                return
            if len(on) < len(rows):
                rows = [rows[place] for place in on]
                at = torch.tensor(on, device=self.device)
                mask = mask[at]
                cache.batch_select_indices(at)
                self.attention.keep(on)
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
            ids = torch.tensor([[row.token_ids[-1]] for row in rows], device=self.device)
            self.attention.step(1)
            logits = (
                self._model(
                    input_ids=ids,
                    attention_mask=mask,
                    position_ids=mask.sum(1, keepdim=True) - 1,
                    past_key_values=cache,
                    use_cache=True,
                )
                .logits[:, -1]
                .float()
            )

    def _read(self, rows: Sequence[EagerRequest]) -> tuple[Any, Any, Any]:
        """Read the prompts, equal ones once; return the logits behind each, the mask of padding, and the cache."""
        firsts = [n for n, row in enumerate(rows) if n == 0 or not _alike(row, rows[n - 1])]
        prompts = [rows[n] for n in firsts]
        width = max(len(row.prompt) for row in prompts)
        padding = [width - len(row.prompt) for row in prompts]
        ids = torch.zeros(len(prompts), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for number, (row, before) in enumerate(zip(prompts, padding, strict=True)):
            ids[number, before:] = torch.tensor(row.prompt)
            mask[number, before:] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        longest = width + max(int(row.sampling["max_tokens"]) for row in rows)
        self.attention.begin([row.steering for row in prompts], padding, longest, self.device)
        self.attention.step(width)
        cache = transformers.DynamicCache()  # of the whole prompt also for sliding windows, whose masks leave out
        whole = any(row.of_prompt for row in rows)
        logits = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(1) - 1).clamp(min=0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=0 if whole else 1,
        ).logits.float()
        of = [sum(first <= n for first in firsts) - 1 for n in range(len(rows))]
        for row, place in zip(rows, of, strict=True):
            if row.of_prompt:
                row.prompt_rows = _of_prompt(row, logits[place, padding[place] :])
        if len(rows) > len(prompts):
            at = torch.tensor(of, device=self.device)
            cache.batch_select_indices(at)
            self.attention.keep(of)
            mask, logits = mask[at], logits[at]
        return logits[:, -1], mask, cache

    def _take(self, row: EagerRequest, logits: Any) -> bool:
        """Draw the next token of an answer; return whether it has ended."""
        sampling = row.sampling
        token = next_token(logits, row.ids, row.token_ids, sampling, row.generator)
        values = torch.log_softmax(logits, dim=-1)
        row.token_ids.append(token)
        row.logprobs.append(float(values[token]))
        row.rows.append(_row(values, token, row.named, row.likeliest))
        enough = len(row.token_ids) >= sampling["min_tokens"]
        if enough and token in sampling["stop_token_ids"]:
            row.finish_reason, row.stop_reason = "stop", token
            return True
        before = len(row.writing.text)
        row.writing.add(token)
        if enough and sampling["stop"] and (stop := row.writing.cut_at(sampling["stop"], before)) is not None:
            row.finish_reason, row.stop_reason = "stop", stop
        elif len(row.token_ids) >= sampling["max_tokens"]:
            row.finish_reason = "length"
        return bool(row.finish_reason)


def _alike(one: EagerRequest, other: EagerRequest) -> bool:
    return one.prompt == other.prompt and one.steering == other.steering


def _row(values: Any, token: int, named: Sequence[int], likeliest: int) -> dict[int, float]:
    """Return the log-probabilities that were asked for beside a token's own, which is among them."""
    top = values.topk(likeliest).indices.tolist() if likeliest else []
    return {place: float(values[place]) for place in dict.fromkeys([token, *named, *top])}


def _of_prompt(row: EagerRequest, logits: Any) -> list[dict[int, float] | None]:
    """Return the log-probability of each token of a prompt, given those before it; None for the first."""
    values = torch.log_softmax(logits, dim=-1)
    return [None, *({token: float(values[place, token])} for place, token in enumerate(row.prompt[1:]))]


__all__ = ["EagerModel", "EagerRequest", "Steering"]
