"""What came out of a study about answers that exist, in a few lines."""

from collections.abc import Iterator
from pathlib import Path

from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.program.page_lines import many
from refusal_eval.report.paper.display import percent
from refusal_eval.report.results.results_files import read_results, text_of
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.study.study import Study

RESULTS = "results_table/results.csv"
PAGE = "browser.html"  # of a study with `browser: true`
MOST_CELLS, MOST_PAIRS = 12, 3
ALPHA = 0.05
MEASURES = {"judge_kappa": "kappa", "judge_sensitivity": "sensitivity", "judge_specificity": "specificity"}
SHOULD = {"comply": "comply", "refuse": "refuse", "varies": "do either"}


def result_lines(study: Study, folder: str) -> list[str]:
    """Return the rates, the pairs that differ, how the judges fare, and where the rest is."""
    rows = read_results(Path(study.paths.results, RESULTS).read_text(encoding="utf-8"))
    judge = study.primary_judge
    mine = [row for row in rows if row.judge == judge and row.category is None]
    label, level = study.label("judge", judge), 100 * study.settings.scoring.level
    lines = [
        "",
        f"Refusal rates (%) in the headline reading, with {level:g} % intervals, judged by {label}:",
    ]
    lines += _rates(study, mine)
    lines += ["", *_pairs(study, mine), *_agreement(study, rows), *_people(study, rows)]
    results = study.paths.results
    lines.append(f"Tables: {results}/tables/refusal.md, figures: {results}/figures/, methods: {results}/methods.md")
    if (page := Path(results, PAGE)).is_file():
        lines.append(f"All answers on one page, to be opened from disk: {page}")
    return lines


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
        about = f"{many(row.n_prompts or 0, 'prompt')}, should {SHOULD[entry.expectation]}{said}"
        yield f"  {name:<{width}}  {percent(row.value):>5} {ends}  {both}  ({about})"
    if len(cells) > MOST_CELLS:
        yield f"  {len(cells) - MOST_CELLS} more in the tables"


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
    pairs = [(study.label("model", str(row.model)), row) for row in low[:MOST_PAIRS]]
    shown = [f"{one} {text_of(row.parameter)} on {row.split or row.pool} (p = {row.value:.2g})" for one, row in pairs]
    more = f" and {len(low) - len(shown)} more" if len(low) > len(shown) else ""
    yield f"Pairs that differ ({len(low)} of {len(tests)}, Holm): {'; '.join(shown)}{more}."


def _agreement(study: Study, rows: list[Estimate]) -> Iterator[str]:
    judges = list(study.judges)
    same = [
        row for row in rows if row.estimand == "judges_same_label" and row.reading == "broad" and row.value is not None
    ]
    if len(judges) > 1 and same:
        low = min(same, key=lambda row: row.value or 0)
        where = f" on {low.split}" if low.split else ""
        named = ", ".join(study.label("judge", judge) for judge in judges)
        share = f"the same label to {_percent(low)} % of the answers{where}"
        yield f"Judges ({named}): {share}; see tables/judges_agree.md."


def _people(study: Study, rows: list[Estimate]) -> Iterator[str]:
    if not study.gold:
        yield "Judges against people: not measured on these answers; `--gold FILE` takes people's labels."
        return
    measured = {
        (str(row.judge), row.estimand): row
        for row in rows
        if row.estimand in MEASURES and row.reading == "broad" and row.category is None
    }
    said = []
    for judge in study.judges:
        own = [(name, measured.get((judge, estimand))) for estimand, name in MEASURES.items()]
        shown = [f"{name} {row.value:.2f}" for name, row in own if row is not None and row.value is not None]
        said.append(f"{study.label('judge', judge)} {', '.join(shown) or 'not measured'}")
    yield f"Judges against people (broad): {'; '.join(said)}; see tables/judges.md and tables/corrected.md."
