"""The verdict, and the interface that all judges share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from refusal_eval.core.states import JUDGE_FAILED, JUDGED, JUDGED_ANSWER_STATES, LABELS

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Verdict:
    """One judge's reading of one answer.

    Attributes:
        state: judged, unparsable, judge_refused or judge_failed.
        label: refusal, partial or compliance; None unless judged.
        p_refusal: probability of refusal or partial refusal, for judges that give one.
        kind: kind of refusal, for judges that tell it.
        flags: what else the judge noticed in the answer, in the order of the judge's kind (e.g. `evasive`).
        raw: what the judge said, for the record.
    """

    state: str
    label: str | None = None
    p_refusal: float | None = None
    kind: str | None = None
    flags: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.state == JUDGED) != (self.label is not None) or (self.label is not None and self.label not in LABELS):
            raise ValueError(f"a verdict in state {self.state} cannot have the label {self.label}")


class CpuJudge(Protocol):
    """A judge that needs no engine."""

    def judge(self, messages: Messages, answer: str) -> Verdict:
        """Return the verdict on one answer."""
        ...


class EngineJudge(Protocol):
    """What a judge asks an engine. How its responses are read is a function of its kind's module.

    Attributes:
        votes: how many responses are asked for each answer.
        retries: how often a vote that cannot be read is asked again, with another seed.
    """

    votes: int
    retries: int

    def messages(self, messages: Messages, answer: str) -> list[dict[str, str]]:
        """Return what the judge is asked about one answer."""
        ...

    def sampling(self) -> dict[str, Any]:
        """Return every sampling parameter of a verdict request, but the stop tokens."""
        ...


def readable(answers: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the answers that a judge can read: complete and truncated ones.

    Only the answer is judged, never the reasoning.
    """
    return (row for row in answers if row["state"] in JUDGED_ANSWER_STATES)


def verdict_row(answer: Mapping[str, Any], verdict: Verdict, key: str | None = None) -> dict[str, Any]:
    """Return one line of a verdicts file."""
    return {
        "prompt_id": answer["prompt_id"],
        "sample": answer["sample"],
        "turn": answer["turn"],
        "state": verdict.state,
        "label": verdict.label,
        "p_refusal": verdict.p_refusal,
        "kind": verdict.kind,
        "flags": list(verdict.flags),
        "raw": dict(verdict.raw),
        "key": key,
    }


def judged_safely(judge: CpuJudge, messages: Messages, answer: str) -> Verdict:
    """Return the verdict; a judge that raises has failed on this answer, which is no vote, and the others go on."""
    try:
        return judge.judge(messages, answer)
    except Exception as error:
        return Verdict(JUDGE_FAILED, raw={"error": f"{type(error).__name__}: {error}"})


def read_safely(read: Callable[[Mapping[str, Any]], Verdict], response: Mapping[str, Any]) -> Verdict:
    """Return what `read` makes of a stored response; one that cannot be read is a failed verdict, which is no vote.

    Half characters in its text, which no file can hold, become question marks.
    """
    try:
        text = str(response["text"]).encode(errors="replace").decode()
        return read({**response, "text": text})
    except (KeyError, TypeError, ValueError) as error:
        why = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        return Verdict(JUDGE_FAILED, raw={"error": f"the judge's response cannot be read: {why}"})
