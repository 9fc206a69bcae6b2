"""Attention with a bias on some keys: transformers' own eager attention of each family, after log(alpha) is added.

For the engine environment. Bound to transformers 5: `AttentionInterface.register` and `AttentionMaskInterface.register`
are its public ways to add an attention function, and every family has an `eager_attention_forward` in its own module,
which is taken so that soft caps and sinks stay as they are. It may go when transformers takes such a bias itself.

Where there is no bias the family's function gets what it would get anyway, so that answers are equal to the last bit.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface

NAME = "refusal_eval_eager"


@dataclass(frozen=True)
class Steering:
    """What is done to the attention of one request: `log(alpha)` is added to the scores of some keys."""

    alpha: float  # more than 0, at most 1
    positions: tuple[int, ...]  # of these tokens as keys, ascending; places in the prompt
    layers: frozenset[int] | None  # decoder layers, the first is 0; None for all

    def ends(self) -> list[int]:
        """Return for each position the last one of its run: queries up to there attend to it as before."""
        runs = [0, *(n for n, (one, next_) in enumerate(pairwise(self.positions), 1) if next_ != one + 1)]
        runs.append(len(self.positions))
        return [self.positions[end - 1] for start, end in pairwise(runs) for _ in range(end - start)]


class SteeredAttention:
    """The attention function of a model. `rows` says what is done to each row of the batch that runs."""

    def __init__(self) -> None:
        self.layers = set[int]()  # that came by, so far
        self._rows: list[Steering | None] = []
        self._bias = self._ends = torch.empty(0)
        self._length = 0  # tokens that have been read, with those of the step that runs

    def register(self) -> None:
        """Give the function to transformers, under `NAME`."""
        AttentionInterface.register(NAME, self)
        masks: Any = AttentionMaskInterface  # without types
        masks.register(NAME, masks()["eager"])

    def begin(self, rows: Sequence[Steering | None], padding: Sequence[int], longest: int, device: Any) -> None:
        """Say what is done to the rows of a batch from here on.

        Args:
            padding: how many tokens stand before each row.
            longest: the most tokens of a row, padding and answer included.
        """
        self._rows, self._length = list(rows), 0
        bias, ends = torch.zeros(len(rows), longest), torch.zeros(len(rows), longest, dtype=torch.long)
        for number, (row, before) in enumerate(zip(rows, padding, strict=True)):
            if row is not None:
                places = torch.tensor(row.positions) + before
                bias[number, places] = math.log(row.alpha)
                ends[number, places] = torch.tensor(row.ends()) + before
        self._bias, self._ends = bias.to(device), ends.to(device)

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows of the batch."""
        at = torch.tensor(rows, device=self._bias.device)
        self._bias, self._ends = self._bias[at], self._ends[at]
        self._rows = [self._rows[row] for row in rows]

    def step(self, tokens: int) -> None:
        """Say that the next step reads so many tokens of each row."""
        self._length += tokens

    def __call__(self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **more: Any) -> Any:
        """Compute the attention of one layer (see transformers' `AttentionInterface`)."""
        layer = module.layer_idx
        self.layers.add(layer)
        steered = [row is not None and (row.layers is None or layer in row.layers) for row in self._rows]
        if any(steered):
            bias = self._bias_of(steered, query.shape[2], key.shape[2]).to(query.dtype)
            attention_mask = bias if attention_mask is None else attention_mask + bias
        own = sys.modules[type(module).__module__].eager_attention_forward
        return own(module, query, key, value, attention_mask, **more)

    def _bias_of(self, steered: Sequence[bool], queries: int, keys: int) -> Any:
        """Return what is added to the scores, [rows, 1, queries, keys]. A sliding window keeps the last keys alone."""
        first = self._length - keys
        bias, ends = (tensor[:, None, first : self._length] for tensor in (self._bias, self._ends))
        asked = torch.arange(self._length - queries, self._length, device=bias.device)[None, :, None]
        rows = torch.tensor(steered, device=bias.device)[:, None, None]
        return torch.where(rows & (asked > ends), bias, 0.0)[:, None]
