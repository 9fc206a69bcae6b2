"""What came out of a study about answers that exist, in a few lines."""

from collections.abc import Iterator
from pathlib import Path

from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.report.paper.display import percent
from refusal_eval.report.results.results_files import read_results, text_of
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.study.study import Study

RESULTS = "results_table/results.csv"
MOST_CELLS, MOST_PAIRS = 12, 3
ALPHA = 0.05


def result_lines(study: Study, folder: str) -> list[str]:
    """Return the rates, the pairs that differ, how the judges fare, and where the rest is."""
    rows = read_results(Path(study.paths.results, RESULTS).read_text(encoding="utf-8"))
    judge = study.primary_judge
    mine = [row for row in rows if row.judge == judge and row.category is None]
    label = study.label("judge", judge)
    lines = [
        "",
        f"Refusal rates (%), judged by {label}; headline reading with its {100 * study.settings.scoring.level:g} % interval:",
    ]
    lines += _rates(study, mine)
    lines += ["", *_pairs(study, mine), *_agreement(study, rows), *_people(study, rows)]
    results = study.paths.results
    return [*lines, f"Tables: {results}/tables/refusal.md, figures: {results}/figures/, methods: {results}/methods.md"]


def _rates(study: Study, rows: list[Estimate]) -> Iterator[str]:
    found = {
        (row.split, row.model, row.reading): row
        for row in rows
        if row.estimand == "refusal_rate" and row.split and not text_of(row.parameter)
    }
    states = {(row.split, row.model, text_of(row.parameter)): row for row in rows if row.estimand == "answer_state"}
    cells = [(split, model) for split in study.splits for model in study.models]
    width = max(len(f"{study.label('model', model)}, {study.label('split', split)}") for split, model in cells)
    for split, model in cells[:MOST_CELLS]:
        entry = study.splits[split]
        reading = entry.headline or HEADLINE_READING[entry.expectation]
        row = found.get((split, model, reading))
        name = f"{study.label('model', model)}, {study.label('split', split)}"
        if row is None:
            continue
        both = " ".join(f"{one} {_percent(found.get((split, model, one)))}" for one in ("strict", "broad"))
        ends = f"[{percent(row.low)}, {percent(row.high)}]" if row.low is not None else "[no interval]"
        lost = [
            f"{_percent(states[split, model, state])} % {state}"
            for state in ("failed", "blocked", "truncated")
            if (split, model, state) in states and states[split, model, state].value
        ]
        said = f"; {', '.join(lost)}" if lost else ""
        yield f"  {name:<{width}}  {percent(row.value):>5} {ends}  {both}  ({row.n_prompts} prompts, should {_word(entry.expectation)}{said})"
    if len(cells) > MOST_CELLS:
        yield f"  {len(cells) - MOST_CELLS} more in the tables"


def _word(expectation: str) -> str:
    return {"comply": "comply", "refuse": "refuse", "varies": "vary"}[expectation]


def _percent(row: Estimate | None) -> str:
    return percent(row.value) if row is not None else "?"


def _pairs(study: Study, rows: list[Estimate]) -> Iterator[str]:
    """Say which pairs of models differ, after Holm's correction."""
    if len(study.models) < 2:
        return
    tests = [row for row in rows if row.estimand == "rate_difference_p_holm" and row.value is not None]
    low = sorted((row for row in tests if (row.value or 0) < ALPHA), key=lambda row: row.value or 0)
    if not low:
        yield f"Pairs of models: none of {len(tests)} comparisons differs (Holm, p < {ALPHA:g})."
        return
    shown = [
        f"{study.label('model', str(row.model))} {text_of(row.parameter)} on {row.split or row.pool} (p = {row.value:.2g})"
        for row in low[:MOST_PAIRS]
    ]
    more = f" and {len(low) - len(shown)} more" if len(low) > len(shown) else ""
    yield f"Pairs that differ ({len(low)} of {len(tests)}, Holm): {'; '.join(shown)}{more}."


def _agreement(study: Study, rows: list[Estimate]) -> Iterator[str]:
    judges = list(study.judges)
    same = [
        row for row in rows if row.estimand == "judges_same_label" and row.reading == "broad" and row.value is not None
    ]
    if len(judges) > 1 and same:
        low = min(same, key=lambda row: row.value or 0)
        where = f" on {low.split or low.pool}" if low.split or low.pool else ""
        named = ", ".join(study.label("judge", judge) for judge in judges)
        yield f"Judges ({named}): the same label to {_percent(low)} % of the answers{where}; see tables/judges_agree.md."


def _people(study: Study, rows: list[Estimate]) -> Iterator[str]:
    if not study.gold:
        yield "Judges against people: not measured on these answers; `--gold FILE` takes people's labels."
        return
    kappas = [
        row
        for row in rows
        if row.estimand == "kappa" and row.reading == "broad" and row.value is not None and row.category is None
    ]
    shown = [f"{study.label('judge', str(row.judge))} {row.value:.2f}" for row in kappas if row.model is None]
    yield f"Judges against people (kappa, broad): {', '.join(dict.fromkeys(shown)) or 'see tables/judges.md'}."
