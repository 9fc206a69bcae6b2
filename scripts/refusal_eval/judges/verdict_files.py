"""The lines of verdicts files: the answers that a judge can read, and what it said of them."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.files import write_jsonl
from refusal_eval.core.states import JUDGE_FAILED, JUDGED_ANSWER_STATES, VERDICT_STATES, state_counts
from refusal_eval.judges.judge_base import Verdict

LOG = logging.getLogger(__name__)


def readable(answers: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the answers that a judge can read: complete and truncated ones.

    Only the answer is judged, never the reasoning.
    """
    return (row for row in answers if row["state"] in JUDGED_ANSWER_STATES)


def write_verdicts(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a verdicts file, and tell how many there are in each state."""
    write_jsonl(path, rows)
    LOG.info("%d verdicts: %s", len(rows), state_counts(rows, VERDICT_STATES))


def verdict_row(answer: Mapping[str, Any], verdict: Verdict) -> dict[str, Any]:
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
        "key": None,  # of the response behind it, where there is just one
        **({} if verdict.quality is None else {"quality": verdict.quality}),
    }


def read_safely(read: Callable[[Mapping[str, Any]], Verdict], response: Mapping[str, Any]) -> Verdict:
    """Return what `read` makes of a stored response; one that cannot be read is a failed verdict, which is no vote."""
    try:
        return read(response)
    except (KeyError, TypeError, ValueError) as error:
        why = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        return Verdict(JUDGE_FAILED, raw={"error": f"the judge's response cannot be read: {why}"})
