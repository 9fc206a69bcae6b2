"""A study's status as text: at most 120 columns, a line for each cell only where something is missing or failed."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from refusal_eval.config.kinds import ACTIVATION_USES
from refusal_eval.core.states import ANSWER_STATES, JUDGE_FAILED, VERDICT_STATES
from refusal_eval.core.states import FAILED as NO_RESPONSE
from refusal_eval.program.page_lines import WIDTH, fill_lines, group_by, many, table
from refusal_eval.study.batches import GOLD
from refusal_eval.tools.status.cell_states import CONVERSATIONS, WAITING, WAITS_FOR_ANSWERS, CellStatus
from refusal_eval.tools.status.status_jobs import DONE, FAILED, REJECTED, RUNNING, Job, Trouble
from refusal_eval.tools.status.study_status import INCOMPLETE, StudyStatus
from refusal_eval.workflow.left_over import about_left_over

COUNTS = ["asked", "in store", "missing"]
STATES = (*ANSWER_STATES, *VERDICT_STATES)
LOST = (NO_RESPONSE, JUDGE_FAILED)  # without a response
ALIKE = 3  # more cells than this that are alike share a line, unless they are done in part
SHOWN_TROUBLES = 20
VERDICT = {
    DONE: "Everything is done.",
    FAILED: "Something failed; what is in the store stays there, and the next run executes only the rest.",
    INCOMPLETE: "Not finished; nothing failed.",
}


def status_table(status: StudyStatus, every: bool = False) -> str:
    """Return a study's status as lines of text."""
    alike = group_by(
        status.troubles, lambda one: (one.state != FAILED, one.state == REJECTED, one.rule, one.message, one.cause)
    )
    groups = [alike[key] for key in sorted(alike, key=lambda key: key[:2])]  # failures first
    numbers = {trouble.job: number for number, group in enumerate(groups, 1) for trouble in group}
    lines = [f"Study {status.study}, results in {status.results}"]
    for judge, cells in group_by(status.cells, lambda cell: cell.judge).items():
        lines += ["", *_section(f"Verdicts of {judge}" if judge else "Answers", cells, numbers, every)]
    for use, made in status.made.items():
        if made:
            marks = {name: f" [{numbers[job]}]" for name, job in status.stuck[use].items()}
            open_ones = [name + marks.get(name, "") for name, there in made.items() if not there]
            word = ACTIVATION_USES.get(use).done
            done = f"{use.capitalize()}: {len(made) - len(open_ones)} of {len(made)} {word}"
            lines += ["", *fill_lines([done + (f" (not yet: {', '.join(open_ones)})" if open_ones else "")], "")]
    for part in status.parts.values():
        lines += ["", *part.lines()]
    if report := status.report:
        there = (
            report.unknown
            or f"Tables, figures, manifest: {report.files - report.missing} of {report.files} files are there"
        )
        lines += ["", there + (f", {report.old} of them are outdated" if report.old else "")]
        if report.remade:
            again = (
                f"{many(report.remade, 'file')} of prompts, requests, answers, verdicts or scores would be made again"
            )
            lines += fill_lines([f"{again} by the next run (`snakemake -n` says why)"], "")
        lines += fill_lines([about_left_over(status.results, report.left)] if report.left else [], "")
    if groups:
        lines += ["", "What failed, runs, stopped or was rejected:"]
        shown = groups if every else groups[:SHOWN_TROUBLES]
        for number, group in enumerate(shown, 1):
            lines += _trouble_lines(number, group)
        if len(groups) > len(shown):
            lines.append(f"  ... and {len(groups) - len(shown)} more (--all shows them)")
    lines += _answered_since(status)
    return "\n".join([*lines, "", *fill_lines(_totals(status.cells), ""), VERDICT[status.state]])


def _section(title: str, cells: Sequence[CellStatus], numbers: Mapping[Job, int], every: bool) -> Iterator[str]:
    """Yield a line for each model, followed by lines for its cells: all, or those with something to report."""
    rows_ = [
        (cell.model, cell.split, _note(cell, numbers), cell.requests, cell.stored, cell.missing)
        for cell in cells
        if every or (cell.note != WAITS_FOR_ANSWERS and (cell.state != DONE or any(map(cell.states.get, LOST))))
    ]
    rows = pd.DataFrame(rows_, columns=["model", "split", "note", *COUNTS]).astype(dict.fromkeys(COUNTS, float))
    if not every:
        partly = ((rows["in store"] > 0) & (rows["missing"] > 0)).rename("partly")
        alike = rows.groupby(["model", "note", partly])["split"].transform("size")
        nouns = rows["model"].eq(GOLD).map({True: " gold sets", False: " splits"})
        rows["split"] = rows["split"].mask((alike > ALIKE) & ~partly, alike.astype(str) + nouns)
    rows = rows.groupby(["model", "split", "note"], sort=False)[COUNTS].sum(min_count=1).reset_index(["model", "note"])
    rows[""] = rows["note"].str.ljust(int(rows["note"].str.len().max()) if len(rows) else 0)
    head, *lines = table(title, rows[[*COUNTS, ""]].dropna(axis="columns", how="all"), "    ")
    yield head
    for model, of_model in group_by(cells, lambda cell: cell.model).items():
        done = [cell for cell in of_model if cell.state == DONE]
        waiting = sum(cell.note == WAITS_FOR_ANSWERS for cell in of_model)
        states = _states(sum((Counter(cell.states) for cell in done), Counter()))
        yield (
            f"  {model}: {len(done)} of {many(len(of_model), 'gold set' if model == GOLD else 'split')} done"
            + (f", {waiting} waiting for answers" if waiting else "")
            + (f" ({states})" if states else "")
        )
        own, lines = lines[: sum(rows["model"] == model)], lines[sum(rows["model"] == model) :]
        yield from (line if len(line) <= WIDTH else line[: WIDTH - 3] + "..." for line in own)


def _note(cell: CellStatus, numbers: Mapping[Job, int]) -> str:
    number = numbers.get(cell.trouble) if cell.trouble else None
    parts = [cell.note + (f" [{number}]" if number else "")]
    parts += [f"{cell.rejected:,} rejected"] if cell.rejected else []
    parts += [f"{cell.too_long:,} too long"] if cell.too_long and not cell.states else []
    parts += [_states(cell.states)] if cell.states else []
    parts += ["conversations, turns unknown"] if cell.unit == CONVERSATIONS else []
    return "; ".join(parts)


def _totals(every: Sequence[CellStatus]) -> Iterator[str]:
    """Yield a line of totals for answers and one for all verdicts."""
    columns = {"requests": "asked", "stored": "with a response", "missing": "missing", "rejected": "rejected"}
    columns["too_long"] = "too long"
    for step, cells in group_by(every, lambda cell: cell.step).items():
        states = Counter(cell.state for cell in cells)
        parts = [f"{states[DONE]:,} of {many(len(cells), 'cell')} done"]
        parts += [f"{states[name]:,} {name}" for name in (FAILED, RUNNING, WAITING) if states[name]]
        sums = {words: sum(getattr(cell, column) or 0 for cell in cells) for column, words in columns.items()}
        rows_ = ", ".join(f"{count:,} {words}" for words, count in sums.items() if count)
        yield f"{step.capitalize()}: {', '.join(parts)}" + (f"; {rows_}" if rows_ else "")


def _answered_since(status: StudyStatus) -> Iterator[str]:
    """Yield which answers files would have more answers if they were made again; nothing makes them by itself."""
    cells = [cell for cell in status.cells if cell.answered_since]
    if cells:
        count = many(sum(cell.answered_since for cell in cells), "answer")
        what = f"{count} in state failed, once rejected, got a response later. To take them, delete and run again:"
        yield from ("", *fill_lines([what], ""))
    for cell in cells:
        yield f"  {status.results}/answers/{cell.cell}.jsonl"


def _trouble_lines(number: int, group: Sequence[Trouble]) -> Iterator[str]:
    first, head = group[0], f"  [{number}] "
    others = f" and {len(group) - 1} more" if len(group) > 1 else ""
    text = f"{first.rule} {first.name}".strip() + f"{others} {first.state}: {first.message}"
    indent = " " * len(head)
    yield from fill_lines([text], head, indent)
    yield from fill_lines([f"cause: {first.cause}"] if first.cause else [], indent, indent)
    yield f"{indent}{'receipt' if first.state == REJECTED else 'log'}: {first.log}"
    if first.server_log:
        yield f"{indent}server log: {first.server_log}"


def _states(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts.get(state))
