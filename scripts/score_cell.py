"""Join one cell's prompts, answers and verdicts: a row for each sample of each scored prompt, as Parquet."""

import gc
import itertools
from collections.abc import Mapping
from typing import Any

from refusal_eval.core.files import BadFile, read_json, read_jsonl, refuse_bad_rows
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.stats.estimates.estimands import BadRows, cell_outcomes
from refusal_eval.stats.estimates.flags import FITTED, UNFILTERED, UNSTEERED, UNTRANSFORMED
from refusal_eval.stats.estimates.samples import judge_reports, sample_rows, write_samples

MISSING = type(...)
PLACE = {"prompt_id": (str,), "sample": (int,), "turn": (int,), "state": (str,)}
NEEDED: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "prompts": {"id": (str,), "category": (str, type(None)), "cluster": (str,)},
    "answers": PLACE | {"answer_logprob": (float, int, type(None)), "serving": (str, type(None))},
    "verdicts": PLACE | {"label": (str, type(None)), "flags": (list, MISSING), "raw": (dict, MISSING)},
}


# What decides a cell's numbers and is kept with its samples.
FACTS = ("judge", "model", "split", "expectation", "samples", "max_tokens", "level", "tau", "band")


def main(
    paths: Mapping[str, str],
    cell: Mapping[str, Any],
    output: str,
    published: str | None = None,
    asked: str | None = None,
    placed: str | None = None,
) -> None:
    """Write the samples of one (judge, model, split); with c(x) out of the `published` scores where they are given.

    Args:
        paths: `prompts`, `answers` and `verdicts`.
        cell: what else decides its numbers (`workflow.scoring.cell`).
        output: the file to write (`samples.write_samples`).
        published: a file of published scores.
        asked: the prompts as the model was asked them, where a change of it changes prompts.
        placed: its requests, where a change of it is done at tokens that each of them names.

    Raises:
        BadFile: if a file was changed so that it cannot be scored.
    """
    read = {name: list(read_jsonl(paths[name])) for name in NEEDED}
    if asked is not None and any(row.get(UNTRANSFORMED) for row in read_jsonl(asked)):
        cell = {**cell, UNTRANSFORMED: True}
    # The first row is the header.
    if placed is not None and not all(row.get("positions") for row in itertools.islice(read_jsonl(placed), 1, None)):
        cell = {**cell, UNSTEERED: True}
    try:
        write_cell(read, cell, output, published)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        for name, fields in NEEDED.items():  # only now, for it takes a while
            refuse_bad_rows(paths[name], read[name], fields)
        if isinstance(error, BadRows):
            files = ", ".join(paths[name] for name in NEEDED)
            raise BadFile(f"{files} do not belong together: {error}; delete them and run again") from error
        raise


def write_cell(read: Mapping[str, list[Any]], cell: Mapping[str, Any], output: str, published: str | None) -> None:
    """Write the samples of rows that were read; else as `main`.

    Raises:
        ValueError: for a split without prompts.
    """
    prompts, answers, verdicts = (read[name] for name in NEEDED)
    if not prompts:
        raise ValueError(f"split {cell['split']} has no prompts")
    scored = cell.get("scored")  # which turns count; only where prompts have several
    outcomes = cell_outcomes(prompts, answers, verdicts, cell["samples"], scored or "all")
    facts: dict[str, Any] = {name: cell[name] for name in FACTS} | {"scored": scored}
    facts["headline"] = cell["headline"] or HEADLINE_READING[cell["expectation"]]
    servings, versions = {row["serving"] for row in answers}, {row.get("model_version") for row in answers}
    facts["mixed_serving"] = any(len(known - {None}) > 1 for known in (servings, versions))
    if any(UNFILTERED in (row.get("marks") or ()) for row in answers):
        facts[UNFILTERED] = True
    facts |= {name: cell[name] for name in (FITTED, UNTRANSFORMED, UNSTEERED, "kinds", "by_turn") if cell.get(name)}
    facts |= judge_reports(outcomes.keys(), verdicts, cell.get("judge_flags", ()), cell.get("votes_asked_again", False))
    c = None
    if published is not None:
        facts["protocol"] = cell["protocol"]
        rows = read_json(published)["scores"]
        c = {(row["prompt_id"], row["turn"]): row["answer_censor_score"] for row in rows}
    rows = sample_rows(prompts, outcomes, c, cell.get("match"))
    write_samples(output, rows, facts)
    LOG.info("%d prompts, %d turns, %d samples", len(prompts), len(outcomes), len(rows))


if snakemake := globals().get("snakemake"):
    gc.disable()  # the rows hold no cycles, and looking for some among them takes a fifth of the time
    start_log(snakemake)
    files = snakemake.input
    published, asked = next(iter(files.published), None), next(iter(files.asked), None)
    placed = next(iter(files.placed), None)
    main({name: files[name] for name in NEEDED}, snakemake.params.cell, snakemake.output[0], published, asked, placed)
