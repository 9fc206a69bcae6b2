"""Turn one cell's answers and verdicts into scores: a row per prompt (of dialogues per scored turn), and a summary."""

import gc
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from refusal_eval.compat.published_cell import with_published_scores
from refusal_eval.core.files import BadFile, read_json, read_jsonl, refuse_bad_rows, write_json, written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.stats.estimates.estimands import BadRows, cell_outcomes, score_rows
from refusal_eval.stats.estimates.samples import samples_of, write_samples
from refusal_eval.stats.estimates.scores import cell_score, noticed, score_csv

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)
MISSING = type(...)
PLACE = {"prompt_id": (str,), "sample": (int,), "turn": (int,), "state": (str,)}
NEEDED: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "prompts": {"id": (str,), "category": (str, type(None)), "cluster": (str,)},
    "answers": PLACE | {"answer_logprob": (float, int, type(None)), "serving": (str, type(None))},
    "verdicts": PLACE | {"label": (str, type(None)), "flags": (list, MISSING), "raw": (dict, MISSING)},
}


def main(
    paths: Mapping[str, str], cell: Mapping[str, Any], outputs: Mapping[str, str], published: str | None = None
) -> None:
    """Write the scores of one (judge, model, split); with c(x) out of the `published` scores where they are given.

    Args:
        paths: `prompts`, `answers` and `verdicts`.
        cell: what else decides its numbers (`Scoring.cell`).
        outputs: `csv`, a row per prompt; `json`, the summary; `samples`, all samples (`samples.Samples`).
        published: a file of published scores.

    Raises:
        BadFile: if a file was changed so that it cannot be scored.
    """
    read = {name: list(read_jsonl(paths[name])) for name in NEEDED}
    try:
        write_scores(read, cell, outputs, published)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        for name, fields in NEEDED.items():  # only now, for it takes a while
            refuse_bad_rows(paths[name], read[name], fields)
        if isinstance(error, BadRows):
            files = ", ".join(paths[name] for name in NEEDED)
            raise BadFile(f"{files} do not belong together: {error}; delete them and run again") from error
        raise


def write_scores(
    read: Mapping[str, list[Any]], cell: Mapping[str, Any], outputs: Mapping[str, str], published: str | None
) -> None:
    """Write the scores of rows that were read; else as `main`."""
    prompts, answers, verdicts = (read[name] for name in NEEDED)
    scored = cell.get("scored")  # which turns count; only where the split has dialogues
    outcomes = cell_outcomes(prompts, answers, verdicts, cell["samples"], scored or "all")
    rows = score_rows(prompts, outcomes, cell["tau"], cell["band"])
    if published is not None:
        rows = with_published_scores(rows, read_json(published))
    names = ("judge", "model", "split", "expectation", "samples", "max_tokens", "headline", "level")
    score = cell_score(rows, answers, verdicts, **{name: cell[name] for name in names}, scored=scored)
    score |= {"protocol": cell["protocol"]} if "protocol" in cell else {}
    score |= noticed(rows, verdicts, cell.get("judge_flags", ()), cell.get("votes_asked_again", False))
    with written_whole(outputs["csv"]) as handle:
        handle.write(score_csv(rows))
    write_json(outputs["json"], score)
    write_samples(outputs["samples"], samples_of(outcomes.values()))
    counts = "%(n_prompts)d prompts, %(n_turns)d turns" if scored else "%(n_prompts)d prompts"
    LOG.info("%s, flags: %s", counts % score, ", ".join(score["flags"]) or "none")


if "snakemake" in globals():
    gc.disable()  # the rows hold no cycles, and looking for some among them takes a fifth of the time
    start_log(snakemake)
    main(
        paths={name: str(snakemake.input[name]) for name in ("prompts", "answers", "verdicts")},
        cell=snakemake.params.cell,
        outputs={name: str(snakemake.output[name]) for name in ("csv", "json", "samples")},
        published=next(iter(snakemake.input.get("published", [])), None),
    )
