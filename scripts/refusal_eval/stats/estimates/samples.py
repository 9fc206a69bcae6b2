"""The file of a scored cell: a row for each sample of each scored turn, as Parquet.

It has everything that estimates need of a cell, and `units.read_units` is its only reader. Facts about the whole cell
are in the file's metadata.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.files import BadFile, written_whole
from refusal_eval.core.right_answers import is_right
from refusal_eval.core.states import COMPLETE, DECIDED_BY, JUDGED, UNSURE, is_cut
from refusal_eval.stats.estimates.answer_loops import ends_in_loop
from refusal_eval.stats.estimates.estimands import BadRows, CellRow, SampleOutcome
from refusal_eval.stats.estimates.flags import UNFILTERED

if TYPE_CHECKING:
    import pyarrow as pa

_FACTS = b"refusal_eval"  # key of the metadata
# Columns of cells in which a server of another party said any of it (`ask.answers.said_beside`).
SERVER = ("blocked_by", "blocked_stage", "declared", UNFILTERED, "reason")
_SAID = ("blocked", "declared", "marks", "reason")  # what they are made of
_UNREADABLE = "is no scored cell that this version reads; delete it and run again (no GPU is needed)"


def schema(with_server: bool = False) -> pa.Schema:
    """Return the columns: names of the prompt, what became of the answer, what the judge said of it.

    `state` is that of the answer, `failed` for one without a row; `verdict` that of the verdict, null without one.
    `label`, `kind` and `quality` are null unless the judge gave them. `logprob` is the mean raw log-probability of the
    answer's tokens in nats, null without one. `loops` says whether the answer's text ends in a loop, `correct` whether
    it is right, null in a split without right answers. `cut` says whether the judge saw only head and tail.
    `published_c` is c(x) as the study's protocol computes it, the same for all samples of a prompt; null under the
    default one.

    Args:
        with_server: also `SERVER`: who blocked the answer and at which stage, null where nobody says; `declared` for a
            refusal in a field of its own; `unfiltered` for a filter that was out of order; the `reason` of a failure.
    """
    import pyarrow as pa  # late: planning a study imports this module

    text, number = pa.string(), pa.float64()
    names = [("prompt_id", text), ("turn", pa.int32()), ("sample", pa.int32()), ("category", text), ("cluster", text)]
    answer = [("state", text), ("answer_tokens", pa.int64()), ("logprob", number)]
    answer += [("loops", pa.bool_()), ("correct", pa.bool_())]
    verdict = [("verdict", text), ("label", text), ("kind", text), ("p_refusal", number), ("quality", number)]
    verdict += [("cut", pa.bool_())]
    server = [(name, pa.bool_() if name in ("declared", UNFILTERED) else text) for name in SERVER]
    return pa.schema([*names, *answer, *verdict, ("published_c", number), *(server if with_server else ())])


def sample_rows(
    prompts: Iterable[CellRow],
    outcomes: Mapping[tuple[str, int], Sequence[SampleOutcome]],
    published: Mapping[tuple[str, int], float | None] | None = None,
    match: str | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of a cell's file, sorted by prompt, turn and sample.

    Args:
        outcomes: of `estimands.cell_outcomes`; they say which turns are scored.
        match: how answers are compared with the right one (`right_answers.is_right`); None where none are right.
        published: c(x) by (prompt id, turn) as the study's protocol computes it; None under the default one.
    """
    by_id = {prompt["id"]: prompt for prompt in prompts}
    with_server = any(o.answer and any(map(o.answer.get, _SAID)) for own in outcomes.values() for o in own)
    rows = []
    for (name, turn), samples in outcomes.items():
        prompt = by_id[name]
        about = {"prompt_id": name, "turn": turn, "category": prompt["category"], "cluster": prompt["cluster"]}
        about["published_c"] = None if published is None else published.get((name, turn))
        for sample, outcome in enumerate(samples):
            verdict, answer = outcome.verdict or {}, outcome.answer or {}
            written = str(answer.get("answer") or "")
            rows.append(
                {
                    **about,
                    "sample": sample,
                    "state": outcome.state,
                    "answer_tokens": answer.get("answer_tokens"),
                    "logprob": outcome.logprob,
                    "loops": ends_in_loop(written),
                    # The end of a cut answer is unknown.
                    "correct": None
                    if match is None
                    else outcome.state == COMPLETE and is_right(written, prompt["right"], match),
                    "verdict": verdict.get("state"),
                    "label": outcome.label,
                    "kind": verdict.get("kind"),
                    "p_refusal": verdict.get("p_refusal"),
                    "quality": verdict.get("quality"),
                    "cut": bool(verdict) and is_cut(verdict),
                    **(_said(answer) if with_server else {}),
                }
            )
    return rows


def _said(answer: CellRow) -> dict[str, Any]:
    block = answer.get("blocked") or {}
    said = (block.get("by"), block.get("stage"), bool(answer.get("declared")))
    return dict(zip(SERVER, (*said, UNFILTERED in (answer.get("marks") or ()), answer.get("reason")), strict=True))


def judge_reports(
    units: Collection[tuple[str, int]], verdicts: Iterable[CellRow], flags: Sequence[str], again: bool
) -> dict[str, Any]:
    """Return what the judge of a cell reports besides its labels; what it cannot report is missing.

    judge_flags     for each flag the number of labelled answers with it
    votes           n, the votes of the judge, or of the one asked on its behalf, on all answers that it was asked
                    about, and n_asked_again, those that could not be read at first

    Only verdicts on the scored `units` (prompt id, turn) count; `flags` are those that the judge can raise (others that
    occur are counted too), and `again` says whether votes that cannot be read are asked again.

    Raises:
        BadRows: for a verdict with flags that are no words.
    """
    own = [verdict for verdict in verdicts if (verdict["prompt_id"], verdict["turn"]) in units]
    found = Counter(dict.fromkeys(flags, 0))
    for verdict in own:
        if verdict["state"] == JUDGED and (raised := verdict.get("flags")):
            if not isinstance(raised, list) or not all(isinstance(flag, str) for flag in raised):
                raise BadRows(f"the flags of the verdict on prompt {verdict['prompt_id']} are no list of words")
            found.update(raised)
    found_here: dict[str, Any] = {"judge_flags": dict(sorted(found.items()))} if found else {}
    if again:
        asked = [v["raw"] for v in own if DECIDED_BY not in v["raw"] or UNSURE in v["flags"]]
        votes = [vote for raw in asked for vote in raw.get("each") or [raw]]
        found_here["votes"] = {"n": len(votes), "n_asked_again": sum(vote.get("tries", 1) > 1 for vote in votes)}
    return found_here


def write_samples(path: str | Path, rows: Sequence[CellRow], facts: Mapping[str, Any]) -> None:
    """Write the rows of `sample_rows`; the same rows and facts give the same bytes under one version of pyarrow.

    Args:
        facts: facts about the whole cell, as JSON (`units.Units.facts`).

    Raises:
        BadRows: for a value whose type differs from its named column's, and for text that is not valid.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = json.dumps(facts, sort_keys=True, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadRows(f"a flag of some verdict is no text ({error})") from error
    columns = schema(bool(rows) and SERVER[0] in rows[0]).with_metadata({_FACTS: metadata})
    table = pa.Table.from_arrays([_column(column, rows) for column in columns], schema=columns)
    with written_whole(path, "wb") as handle:
        pq.write_table(table, handle, row_group_size=max(1, len(rows)), compression="zstd")


def _column(column: pa.Field, rows: Sequence[CellRow]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array([row[column.name] for row in rows], column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError) as error:
        raise BadRows(f"`{column.name}` of some row is no {column.type} ({error})") from error


def read_samples(path: str | Path) -> tuple[pa.Table, dict[str, Any]]:
    """Return the rows of a cell's file, in their order, and the facts of the cell.

    Raises:
        BadFile: if it is no such file.
    """
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        facts = json.loads((table.schema.metadata or {})[_FACTS])
    except (OSError, KeyError, ValueError) as error:
        raise BadFile(f"{path} {_UNREADABLE} ({error})") from error
    if table.schema.names not in (schema().names, schema(with_server=True).names):
        raise BadFile(f"{path} {_UNREADABLE} (its columns are {', '.join(table.schema.names)})")
    return table, facts


def read_facts(path: str | Path) -> dict[str, Any]:
    """Return the facts of a cell without its rows.

    Raises:
        BadFile: if it is no such file.
    """
    import pyarrow.parquet as pq

    try:
        found: dict[str, Any] = json.loads((pq.read_schema(path).metadata or {})[_FACTS])
    except (OSError, KeyError, ValueError) as error:
        raise BadFile(f"{path} {_UNREADABLE} ({error})") from error
    return found
