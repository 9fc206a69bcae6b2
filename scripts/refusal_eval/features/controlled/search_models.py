"""What the search for a prompt asks of its two models: how likely the next token is, and what it does to a refusal.

For the engine environment; not imported but run (`runpy.run_path`), since that environment does not have this library.
Keys and values of the text so far are computed once and shared by all candidates for its next token.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Sequence
from typing import Any

import torch

ROWS_AT_ONCE = 16384  # of the embedding, when the gradient is taken to the whole vocabulary
SAME = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.05}  # how far two ways to compute a loss may be apart


class GrowingText:
    """A text of which the keys and values are kept, and that grows token by token."""

    def __init__(self, model: Any, token_ids: Sequence[int]) -> None:
        self._model, self.token_ids = model, list(token_ids)
        self._device = model.get_input_embeddings().weight.device
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._cache: Any = None
        self._last = self._append(self.token_ids)

    def _append(self, token_ids: Sequence[int]) -> Any:
        with torch.no_grad():
            out = self._model(
                input_ids=torch.tensor([list(token_ids)], device=self._device),
                past_key_values=self._cache,
                use_cache=True,
                **({"logits_to_keep": 1} if self._keeps else {}),
            )
        self._cache = out.past_key_values
        return out.logits[0, -1].float()

    def add(self, token_id: int) -> None:
        """Put a token behind the text."""
        self.token_ids.append(token_id)
        self._last = self._append([token_id])

    def next_log_probabilities(self) -> Any:
        """Return the log-probability of each token as the next one, in float32."""
        return torch.log_softmax(self._last, dim=-1)

    def logits_behind(self, last: int, times: int, **suffix: Any) -> Any:
        """Return the logits at the last positions of this text with something behind it, [times, last, vocabulary].

        Args:
            last: at how many positions.
            times: how many continuations there are.
            suffix: `input_ids` or `inputs_embeds`, one row for each continuation.
        """
        cache = copy.deepcopy(self._cache)
        if times > 1:
            cache.batch_repeat_interleave(times)
        keep = {"logits_to_keep": last} if self._keeps else {}
        return self._model(past_key_values=cache, use_cache=True, **keep, **suffix).logits[:, -last:].float()


class RefusalTarget:
    """The model whose refusal is wanted, with a prompt that grows token by token.

    Its loss is the mean cross-entropy, in nats per token, of a refusal behind the prompt: -log p(refusal) / its length.
    """

    def __init__(self, model: Any, most_tokens: int, most_logits: int) -> None:
        self._model = model
        self._most_tokens, self._most_logits = most_tokens, most_logits
        embedding = model.get_input_embeddings()
        self._device = embedding.weight.device
        # Some models scale what they look up, so that their matrix alone is not what their first layer gets.
        plain = type(embedding).forward is torch.nn.Embedding.forward
        with torch.no_grad():
            every = torch.arange(embedding.num_embeddings, device=self._device)
            self._embedding = embedding.weight.detach() if plain else embedding(every).detach()

    @property
    def vocabulary(self) -> int:
        """How many tokens have an embedding."""
        return int(self._embedding.shape[0])

    def begin(self, before: Sequence[int], after: Sequence[int], refusal: Sequence[int]) -> None:
        """Begin a prompt: the tokens before and behind its text, and the reply that is wanted."""
        self._text = GrowingText(self._model, before)
        self._after, self._refusal = list(after), list(refusal)

    def add(self, token_id: int) -> None:
        """Put a token behind the prompt's text."""
        self._text.add(token_id)

    def gradient(self, token_id: int) -> Any:
        """Return the loss's gradient with respect to the one-hot vector of one more token, [vocabulary].

        Args:
            token_id: the token at which the loss is linearised.
        """
        behind = self._embedding[torch.tensor([token_id, *self._after, *self._refusal], device=self._device)]
        changed = behind[:1].clone().requires_grad_()
        with torch.enable_grad():
            logits = self._text.logits_behind(
                len(self._refusal) + 1, 1, inputs_embeds=torch.cat([changed, behind[1:]])[None]
            )
            (slope,) = torch.autograd.grad(self._losses(logits)[0], changed)
        slope = slope[0].float()
        parts = self._embedding.split(ROWS_AT_ONCE)
        return torch.cat([part.float() @ slope for part in parts])

    def losses(self, token_ids: Sequence[int]) -> list[float]:
        """Return the loss with each of these tokens behind the text, computed exactly."""
        return self._of_suffixes([[token_id] for token_id in token_ids])

    def loss(self) -> float:
        """Return the loss of the text as it is."""
        return self._of_suffixes([[]])[0]

    def _of_suffixes(self, added: Sequence[Sequence[int]]) -> list[float]:
        behind = torch.tensor([[*more, *self._after, *self._refusal] for more in added], device=self._device)
        length = len(self._text.token_ids) + behind.shape[1]
        logits = (len(self._refusal) + 1) * self.vocabulary
        at_once = max(1, min(self._most_tokens // length, self._most_logits // logits))
        found: list[float] = []
        with torch.no_grad():
            for part in behind.split(at_once):
                rows = self._text.logits_behind(len(self._refusal) + 1, len(part), input_ids=part)
                found += self._losses(rows).tolist()
        return found

    def _losses(self, logits: Any) -> Any:
        """Return the mean cross-entropy of the refusal in each row, from the logits at it and at the token before."""
        wanted = torch.tensor(self._refusal, device=logits.device)
        found = torch.log_softmax(logits[:, :-1], dim=-1)
        return -found[:, torch.arange(len(self._refusal), device=logits.device), wanted].mean(dim=1)

    def check(self, before: Sequence[int], text: Sequence[int], after: Sequence[int], refusal: Sequence[int]) -> None:
        """End the program if what is kept of a text gives another loss than the whole text.

        That would be an architecture whose state cannot be shared by candidates.
        """
        self.begin([*before, *text], after, refusal)
        shared, whole = self.loss(), self.plain_loss([*before, *text, *after], refusal)
        if abs(shared - whole) > SAME[str(self._embedding.dtype).removeprefix("torch.")] * max(1.0, whole):
            name = type(self._model).__name__
            sys.exit(f"{name}: a loss of {whole:.5f} becomes {shared:.5f} when keys and values are kept")

    def plain_loss(self, prompt: Sequence[int], refusal: Sequence[int]) -> float:
        """Return the loss of a whole prompt, computed in one piece without anything kept."""
        ids = torch.tensor([[*prompt, *refusal]], device=self._device)
        with torch.no_grad():
            logits = self._model(input_ids=ids, use_cache=False).logits[:, -len(refusal) - 1 :].float()
        self._refusal = list(refusal)
        return float(self._losses(logits)[0])


def mean_log_probability(model: Any, before: Sequence[int], text: Sequence[int]) -> float:
    """Return the mean log-probability of a text's tokens behind another text."""
    ids = torch.tensor([[*before, *text]], device=model.get_input_embeddings().weight.device)
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits[0, len(before) - 1 : -1].float()
    found = torch.log_softmax(logits, dim=-1)
    return float(found[torch.arange(len(text), device=found.device), ids[0, len(before) :]].mean())
