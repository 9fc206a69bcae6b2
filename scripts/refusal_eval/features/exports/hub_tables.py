"""The tables of a data set about a study: a Parquet file each, with a fixed form."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from refusal_eval.core.files import canonical_json
from refusal_eval.core.label_rows import answer_without_texts
from refusal_eval.core.states import EARLIER_TURN
from refusal_eval.features.exports.exported_cells import ExportedCell, ExportedRow, reason_of
from refusal_eval.program.exporter import ALL, LABELS, Level

TEXT, WHOLE, REAL = pa.string(), pa.int64(), pa.float64()
PLACE = {"model": TEXT, "split": TEXT, "prompt_id": TEXT, "sample": WHOLE, "turn": WHOLE}
ABOUT = {"category": TEXT, "cluster": TEXT, "expectation": TEXT}
BLOCK = ("by", "stage", "category", "severity", "code")
STATES = pa.schema(
    {
        **PLACE,
        **ABOUT,
        "state": TEXT,
        "finish_reason": TEXT,
        **{f"blocked_{name}": TEXT for name in BLOCK},
        "declared": pa.bool_(),
        "marks": pa.list_(TEXT),
        **dict.fromkeys(("answer_tokens", "reasoning_tokens"), WHOLE),
        **dict.fromkeys(("answer_logprob", "reasoning_logprob"), REAL),
        **{f"usage_{name}": WHOLE for name in ("input", "cached", "output")},
    }
)
VERDICTS = {
    **PLACE,
    "judge": TEXT,
    "state": TEXT,
    "label": TEXT,
    "p_refusal": REAL,
    "kind": TEXT,
    "flags": pa.list_(TEXT),
}
MESSAGES = pa.list_(pa.struct({"role": TEXT, "content": TEXT}))
SAID = pa.list_(pa.struct({"by": TEXT, "label": TEXT, "probability": REAL, "reason": TEXT}))
STOPPED = pa.struct({**dict.fromkeys(BLOCK, TEXT), "partial": TEXT})
# Neutral rows, which `refusal-eval judge` reads: their columns are those of a neutral row, and no others.
ROWS = pa.schema(
    {
        "messages": MESSAGES,
        **{name: PLACE[name] for name in ("model", "split", "prompt_id", "sample")},
        "answer": TEXT,
        "reasoning": TEXT,
        **dict.fromkeys(("state", "finish_reason"), TEXT),
        "blocked": STOPPED,
        "answer_logprob": REAL,
        "labels": SAID,
        **ABOUT,
        "reason": TEXT,
    }
)


def verdict_form(level: Level) -> pa.Schema:
    """Return the columns of the verdicts; `raw` is JSON."""
    return pa.schema({**VERDICTS, "raw": TEXT} if level == ALL else VERDICTS)


def states(cell: ExportedCell) -> Iterator[dict[str, Any]]:
    """Yield a row for each answer, without any text."""
    for answer in map(answer_without_texts, cell.answers):
        block, usage = answer.get("blocked") or {}, answer.get("usage") or {}
        row = _place(cell, answer) | _about(cell, answer)
        row |= {name: answer.get(name) for name in STATES.names if name in answer}
        row |= {f"blocked_{name}": block.get(name) for name in BLOCK}
        yield row | {f"usage_{name}": usage.get(name) for name in ("input", "cached", "output")}


def verdicts(cell: ExportedCell, level: Level) -> Iterator[dict[str, Any]]:
    """Yield a row for each verdict."""
    for judge, own in cell.verdicts.items():
        for verdict in own.values():
            row = {name: verdict.get(name) for name in VERDICTS if name in verdict}
            row |= {"model": cell.model, "split": cell.split, "judge": judge}
            yield row | ({"raw": canonical_json(verdict.get("raw") or {})} if level == ALL else {})


def rows(cell: ExportedCell, level: Level) -> Iterator[dict[str, Any]]:
    """Yield a neutral row for each answer: what was asked, what came, and each judge's label."""
    assert level != LABELS
    for answer in cell.answers:
        labels = [
            {"by": judge, "label": verdict["label"], "probability": verdict.get("p_refusal")}
            | ({"reason": reason_of(verdict)} if level == ALL else {})
            for judge, verdict in cell.read(answer).items()
            if verdict["label"] is not None
        ]
        block = answer.get("blocked")
        if block and block.get("stage") == EARLIER_TURN:
            block = block | {"stage": None}
        row = _place(cell, answer) | _about(cell, answer) | {"messages": cell.asked(answer), "labels": labels or None}
        own = ("answer", "reasoning", "state", "finish_reason", "answer_logprob", "reason")
        yield row | {name: answer.get(name) for name in own} | {"blocked": block}


def _place(cell: ExportedCell, answer: ExportedRow) -> dict[str, Any]:
    own = {name: answer[name] for name in ("prompt_id", "sample", "turn")}
    return {"model": cell.model, "split": cell.split, **own}


def _about(cell: ExportedCell, answer: ExportedRow) -> dict[str, Any]:
    prompt = cell.prompts[answer["prompt_id"]]
    return {"category": prompt.get("category"), "cluster": prompt.get("cluster"), "expectation": cell.expectation}
