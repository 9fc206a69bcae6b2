"""What a check finds out about a model on a machine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refusal_eval.ask.requests import Request
from refusal_eval.engines.listeners import Listener


@dataclass(frozen=True)
class Sample:
    """A request with its response as the store keeps it, and the fields of its answer."""

    request: Request
    response: Mapping[str, Any]
    answer: Mapping[str, Any]


@dataclass(frozen=True)
class Template:
    """Our token ids of a prompt, and those that the server renders from the same messages."""

    ours: Sequence[int]
    servers: Sequence[int]


@dataclass(frozen=True)
class Rescored:
    """Log-probabilities (nats) of an answer's tokens: as they came with it, and scored again as part of a prompt."""

    first: Sequence[float]
    again: Sequence[float]


@dataclass(frozen=True)
class StopProbe:
    """An answer asked again with a token of its own as stop token."""

    stop: int
    token_ids: Sequence[int]
    finish_reason: str
    stop_reason: Any


@dataclass
class Facts:
    """All that was found out.

    Attributes:
        serving: what served: versions, device, arguments; before the engine is healthy, what is to serve.
        stop_token_ids: the ids that were sent as stop tokens.
        greedy: whether nothing is drawn.
        reasoning: whether the model has reasoning marks.
        start_seconds: until the engine was healthy.
        work_seconds: for all answers, asked together.
        counters: the server's own, at the end.
        samples: all answers.
        failed: how many requests failed or were rejected.
        templates: rendered by both, a pair per prompt; empty if `untested` says why.
        repeats: pairs of token ids of one request asked twice, alone.
        together: pairs of token ids of one request: as it was answered, and asked again under load in another order.
        plain: log-probabilities of an answer's tokens with the model's adapter and without; None if it has none.
        told_offline: whether the server was told to ask no hub.
        leased: UUIDs of the GPUs that the engine leased; empty also where nvidia-smi does not tell them.
        computing: UUIDs of the GPUs on which the engine's processes compute.
        unseeded: of each token drawn with top_k and no seed the log-probability, and that of the k-th likeliest.
        named: log-probabilities of tokens, among the likeliest of a reply and asked for by their ids.
        forms: for each kind of form whether the reply obeyed it.
        errors: what went wrong in a probe, by its name.
    """

    serving: Mapping[str, Any] = field(default_factory=dict)
    stop_token_ids: Sequence[int] = ()
    greedy: bool = False
    reasoning: bool = False
    start_seconds: float = 0.0
    work_seconds: float = 0.0
    counters: Mapping[str, float] = field(default_factory=dict)
    samples: Sequence[Sample] = ()
    failed: int = 0
    templates: Sequence[Template] = ()
    untested: str = ""
    rescored: Sequence[Rescored] = ()
    repeats: Sequence[tuple[Sequence[int], Sequence[int]]] = ()
    together: Sequence[tuple[Sequence[int], Sequence[int]]] = ()
    plain: Rescored | None = None
    told_offline: bool = False
    leased: Collection[str] = ()
    computing: Collection[str] = ()
    stops: Sequence[StopProbe] = ()
    unseeded: Sequence[tuple[float, float]] = ()
    named: Sequence[tuple[float, float]] = ()
    forms: Mapping[str, bool] = field(default_factory=dict)
    listeners: Sequence[Listener] = ()
    errors: dict[str, str] = field(default_factory=dict)
