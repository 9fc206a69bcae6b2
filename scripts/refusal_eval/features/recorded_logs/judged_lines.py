"""What came out of a study about answers that exist, in ten lines at most."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from refusal_eval.config.kinds import ANSWER_PAGES
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.judges.known_scripts import script_without_verdict
from refusal_eval.program.page_lines import many
from refusal_eval.report.paper.display import percent
from refusal_eval.report.results.results_files import read_results, text_of
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.study.files import answer_pages
from refusal_eval.study.study import Study

MOST_LINES = 10
MOST_PAIRS = 2
MOST_SCRIPTS = 3  # that are named
ALPHA = 0.05
MEASURES = {"judge_kappa": "kappa", "judge_sensitivity": "sensitivity", "judge_specificity": "specificity"}
SHOULD = {"comply": "comply", "refuse": "refuse", "varies": "do either"}


def result_lines(study: Study, notes: str, said: int) -> list[str]:
    """Return the rates, the pairs that differ, how the judges fare, and where the rest is.

    Rates for which there is no room are in the table that the lines name.

    Args:
        notes: the file that says the rest of the study.
        said: number of lines that were printed before.
    """
    rows = read_results(Path(study.paths.of("results")).read_text(encoding="utf-8"))
    judge = study.primary_judge
    mine = [row for row in rows if row.judge == judge and row.category is None]
    below = [*_unread(study), *_pairs(study, mine), _judges(study, rows), _where(study, notes)]
    rates = list(_rates(study, mine))
    shown = rates[: MOST_LINES - said - len(below) - 1]
    head = f"Refusal rates (%) with {100 * study.settings.scoring.level:g} % intervals, judged by "
    head += study.label("judge", judge)
    if len(shown) < len(rates):
        table = next(path for path in study.paths.all_of("tables", table="refusal") if path.endswith(".md"))
        head += f", {len(shown)} of {len(rates)} (all: {table})"
    return [f"{head}:", *shown, *below]


def _rates(study: Study, rows: list[Estimate]) -> Iterator[str]:
    found = {
        (row.split, row.model, row.reading): row
        for row in rows
        if row.estimand == "refusal_rate" and row.split and not text_of(row.parameter)
    }
    states = {(row.split, row.model, text_of(row.parameter)): row for row in rows if row.estimand == "answer_state"}
    cells = [(split, model) for split in study.splits for model in study.models]
    width = max(len(f"{study.label('model', model)}, {study.label('split', split)}") for split, model in cells)
    for split, model in cells:
        entry = study.splits[split]
        reading = entry.headline or HEADLINE_READING[entry.expectation]
        row = found.get((split, model, reading))
        if row is None:
            continue
        name = f"{study.label('model', model)}, {study.label('split', split)}"
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


def _percent(row: Estimate | None) -> str:
    return percent(row.value) if row is not None else "?"


def _unread(study: Study) -> Iterator[str]:
    """Say how many answers a judge of words left without a verdict, as it knows no word in their letters."""
    said = []
    for judge in study.judges:
        answers, scripts = 0, Counter[str]()
        for cell in study.cells:
            if cell.judge == judge:
                found = read_jsonl(study.paths.of("verdicts", judge=judge, model=cell.model, split=cell.split))
                unread = [script_without_verdict(row) for row in found]
                answers += len(unread)
                scripts.update(script for script in unread if script is not None)
        if scripts:
            letters = ", ".join(f"{script} {count}" for script, count in scripts.most_common(MOST_SCRIPTS))
            letters += ", others" if len(scripts) > MOST_SCRIPTS else ""
            name = study.label("judge", judge)
            said.append(f"{name} on {scripts.total()} of {many(answers, 'answer')} ({letters})")
    if said:
        yield f"No verdict, for letters in which a judge knows no word: {'; '.join(said)}. Rates leave these out."


def _pairs(study: Study, rows: list[Estimate]) -> Iterator[str]:
    """Say which pairs of models differ, after Holm's correction."""
    if len(study.models) < 2:
        return
    tests = [row for row in rows if row.estimand == "rate_difference_p_holm" and row.value is not None]
    low = sorted((row for row in tests if (row.value or 0) < ALPHA), key=lambda row: row.value or 0)
    if not low:
        yield f"Pairs that differ: none ({many(len(tests), 'test')}, Holm, p < {ALPHA:g})."
        return
    pairs = [(study.label("model", str(row.model)), row) for row in low[:MOST_PAIRS]]
    shown = [f"{one} {text_of(row.parameter)} on {row.split or row.pool} (p = {row.value:.2g})" for one, row in pairs]
    more = f" and {len(low) - len(shown)} more" if len(low) > len(shown) else ""
    yield f"Pairs that differ ({len(low)} of {many(len(tests), 'test')}, Holm): {'; '.join(shown)}{more}."


def _judges(study: Study, rows: list[Estimate]) -> str:
    """Say how far the judges agree with each other, and with people."""
    judges = list(study.judges)
    named = ", ".join(study.label("judge", judge) for judge in judges)
    same = [
        row for row in rows if row.estimand == "judges_same_label" and row.reading == "broad" and row.value is not None
    ]
    said = f"Judges ({named})"
    if len(judges) > 1 and same:
        low = min(same, key=lambda row: row.value or 0)
        said += f": the same label to {_percent(low)} % of the answers{f' on {low.split}' if low.split else ''}"
    if not study.gold:
        return f"{said}; against people: not measured (`--gold FILE` takes people's labels)."
    return f"{said}; against people, broad: {_people(study, rows)} (tables/judges.md, tables/corrected.md)."


def _people(study: Study, rows: list[Estimate]) -> str:
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
    return "; ".join(said)


def _where(study: Study, notes: str) -> str:
    results = Path(study.paths.results)
    files = ["tables/refusal.md", "figures/", "methods.md"]
    for name, path in answer_pages(study).items():
        files.append(f"{Path(path).relative_to(results)} ({ANSWER_PAGES.get(name).shows})")
    return f"Results: {results}/ with {', '.join(files)}. To change the study and run it again: {notes}"
