"""What a finished run says last: the refusal rates of its study, and what to do next."""

from collections.abc import Iterator, Sized
from pathlib import Path

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path
from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.program.page_lines import fill_lines
from refusal_eval.report.paper.display import add_marks, clean, notes_of, percent
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.plain_text import plain_text
from refusal_eval.report.results.results_files import read_results, text_of
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.study.study import Study

RESULTS_TABLE = "results_table/results.csv"
MOST_ROWS = 30
EXPECTED = {"comply": "should comply", "refuse": "should refuse", "varies": "may vary"}


def run_summary(study: Study, study_file: str | None, since: float) -> str:
    """Return the table of rates and the next step; empty if the run left them as they were.

    Args:
        study_file: the file that was named on the command line, if one was.
        since: when the run began.
    """
    results, made = (Path(study.paths.results, name) for name in (RESULTS_TABLE, "manifest.json"))
    try:
        if made.stat().st_mtime < since:
            return ""
        rates = list(_rates(study, read_results(results.read_text(encoding="utf-8"))))
    except (OSError, UserError):  # a part of the study was asked for; what is wrong there is said elsewhere
        return ""
    return "\n" + plain_text(rates_table(study, rates)) + "\n" + "\n".join(next_steps(study, study_file))


def _rates(study: Study, rows: list[Estimate]) -> Iterator[Estimate]:
    judge = study.config["primary_judge"]
    found = {
        (row.split, row.model, row.reading): row
        for row in rows
        if row.estimand == "refusal_rate" and row.judge == judge and row.category is None and not text_of(row.parameter)
    }
    for name, split in study.splits.items():
        for model in study.models:
            if row := found.get((name, model, split.headline or HEADLINE_READING[split.expectation])):
                yield row


def rates_table(study: Study, rates: list[Estimate]) -> Table:
    """Return the rates, each with its interval and number of prompts."""
    judge = clean(study.label("judge", study.config["primary_judge"]))
    rows, shown = [], rates[:MOST_ROWS]
    for row in shown:
        ends = f"[{percent(row.low)}, {percent(row.high)}]" if row.low is not None else ""
        rows.append(
            [
                *(clean(study.label("split", str(row.split))), EXPECTED[study.splits[str(row.split)].expectation]),
                *(clean(study.label("model", str(row.model))), percent(row.value), add_marks(ends, row.flags)),
                str(row.n_prompts),
            ]
        )
    notes = [" ".join(notes_of(flag for row in shown for flag in row.flags))]
    if left := len(rates) - len(shown):
        notes.append(f"{left} more rates are in the files below.")
    return Table(
        "rates",
        f"Refusal rates (%) of study {study.name}, K = {study.settings.samples}, judged by {judge}",
        ["Split", "A good model", "Model", "Rate", f"{100 * study.settings.scoring.level:g} % interval", "Prompts"],
        rows,
        list(filter(None, notes)),
        align="lllrlr",
    )


def next_steps(study: Study, study_file: str | None) -> list[str]:
    """Return where the rest is, and the command for a page of it."""
    results = shown_path(study.paths.results)
    size = f"{_counted(study.models, 'model')}, {_counted(study.splits, 'split')}"
    named = f" --configfile {shown_path(study_file)}" if study_file else ""
    return [
        *fill_lines(
            [f"Results: {results}/tables/refusal.md ({size}), {results}/figures/, {results}/methods.md"],
            "",
        ),
        f"Next: snakemake --report report.zip{named}   # everything as a web page",
    ]


def _counted(names: Sized, noun: str) -> str:
    return f"{len(names)} {noun}{'s' if len(names) > 1 else ''}"
