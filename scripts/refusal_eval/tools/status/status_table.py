"""A study's status as text: at most 120 columns, a line for each cell only where something is missing or failed."""

import textwrap
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from refusal_eval.core.states import ANSWER_STATES, JUDGE_FAILED, VERDICT_STATES
from refusal_eval.core.states import FAILED as NO_RESPONSE
from refusal_eval.study.batches import GOLD
from refusal_eval.tools.status.cell_states import CONVERSATIONS, WAITING, WAITS_FOR_ANSWERS, CellStatus
from refusal_eval.tools.status.status_jobs import DONE, FAILED, REJECTED, RUNNING, Job, Trouble
from refusal_eval.tools.status.study_status import INCOMPLETE, StudyStatus

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

COLUMNS = 120
LABEL = 44  # the most columns of a split's name and the indent before it
ALIKE = 3  # more cells than this that are alike share a line, unless they are done in part
SHOWN_TROUBLES = 20
VERDICT = {
    DONE: "Everything is done.",
    FAILED: "Something failed; what is in the store stays there, and the next run executes only the rest.",
    INCOMPLETE: "Not finished; nothing failed.",
}


def status_table(status: StudyStatus, every: bool = False) -> str:
    """Return a study's status as lines of text."""
    alike = _by(
        status.troubles, lambda one: (one.state != FAILED, one.state == REJECTED, one.rule, one.message, one.cause)
    )
    groups = [alike[key] for key in sorted(alike, key=lambda key: key[:2])]  # failures first
    numbers = {trouble.job: number for number, group in enumerate(groups, 1) for trouble in group}
    lines = [f"Study {status.study}, results in {status.results}"]
    sections = _by(status.cells, lambda cell: f"Verdicts of {cell.judge}" if cell.judge else "Answers")
    width = max(min(LABEL, 4 + max(len(cell.split) for cell in status.cells)), *map(len, sections))
    for title, cells in sections.items():
        rows: list[tuple[str, Sequence[str], str]] = [(title, ("asked", "in store", "missing"), "")]
        for model, of_model in _by(cells, lambda cell: cell.model).items():
            rows += _rows(model, of_model, numbers, every)
        counted = any(cell.requests is not None for cell in cells)
        lines += ["", *(_line(*row, width, counted) for row in rows)]
    if report := status.report:
        there = f"Tables, figures, manifest: {report.files - report.missing} of {report.files} files are there"
        lines += ["", there + (f", {report.old} of them are outdated" if report.old else "")]
    if groups:
        lines += ["", "What failed, runs, stopped or was rejected:"]
        shown = groups if every else groups[:SHOWN_TROUBLES]
        for number, group in enumerate(shown, 1):
            lines += _trouble_lines(number, group)
        if len(groups) > len(shown):
            lines.append(f"  ... and {len(groups) - len(shown)} more (--all shows them)")
    return "\n".join([*lines, "", *_totals(status.cells), VERDICT[status.state]])


def _totals(every: Sequence[CellStatus]) -> list[str]:
    """Return a line of totals for answers and one for all verdicts."""
    lines = []
    for step, cells in _by(every, lambda cell: cell.step).items():
        states = Counter(cell.state for cell in cells)
        parts = [f"{states[DONE]:,} of {_many(len(cells), 'cell')} done"]
        parts += [f"{states[name]:,} {name}" for name in (FAILED, RUNNING, WAITING) if states[name]]
        columns = {"requests": "asked", "stored": "with a response", "missing": "missing", "rejected": "rejected"}
        columns["too_long"] = "too long"
        sums = {words: sum(getattr(cell, column) or 0 for cell in cells) for column, words in columns.items()}
        told = ", ".join(f"{count:,} {words}" for words, count in sums.items() if count)
        text = f"{step.capitalize()}: {', '.join(parts)}" + (f"; {told}" if told else "")
        lines += textwrap.wrap(text, COLUMNS, subsequent_indent="  ")
    return lines


def _rows(
    model: str, cells: Sequence[CellStatus], numbers: Mapping[Job, int], every: bool
) -> Iterator[tuple[str, Sequence[str], str]]:
    """Yield a row for a model, and rows for its cells (all of them, or those with something to tell)."""
    done = [cell for cell in cells if cell.state == DONE]
    noun = "gold set" if model == GOLD else "split"
    head = f"  {model}: {len(done)} of {_many(len(cells), noun)} done"
    waiting = sum(cell.note == WAITS_FOR_ANSWERS for cell in cells)
    head += f", {waiting} waiting for answers" if waiting else ""
    states = _states(sum((Counter(cell.states) for cell in done), Counter()))
    yield f"{head} ({states})" if states else head, (), ""
    told = [cell for cell in cells if every or not (cell.note == WAITS_FOR_ANSWERS or _plainly_done(cell))]
    alike = _by(told, lambda cell: (_note(cell, numbers), cell.state == DONE or bool(cell.stored and cell.missing)))
    for (note, partly), group in alike.items():
        if len(group) > ALIKE and not partly and not every:
            yield f"    {_many(len(group), noun)}", _numbers(group), note
        else:
            yield from ((f"    {cell.split}", _numbers([cell]), _note(cell, numbers, own=True)) for cell in group)


def _note(cell: CellStatus, numbers: Mapping[Job, int], own: bool = False) -> str:
    """Return a cell's note; `own`: with what holds for this cell only."""
    number = numbers.get(cell.trouble) if cell.trouble else None
    parts = [cell.note + (f" [{number}]" if number else "")]
    if own:
        parts += [f"{cell.rejected:,} rejected"] if cell.rejected else []
        parts += [f"{cell.too_long:,} too long"] if cell.too_long and not cell.states else []
        parts += [_states(cell.states)] if cell.states else []
    parts += ["conversations, turns unknown"] if cell.unit == CONVERSATIONS else []
    return "; ".join(parts)


def _line(label: str, numbers: Sequence[str], note: str, width: int, counted: bool) -> str:
    """Return a row as text; of a long name both ends, for names often differ in the last part."""
    if numbers and len(label) > width:
        end = (width - 2) // 2
        label = label[: width - 2 - end] + ".." + label[-end:]
    columns = "".join(f"{number:>11}" for number in numbers) if counted else ""
    line = f"{label:<{width}}{columns}  {note}".rstrip()
    return line if len(line) <= COLUMNS else line[: COLUMNS - 3] + "..."


def _trouble_lines(number: int, group: Sequence[Trouble]) -> Iterator[str]:
    first = group[0]
    others = f" and {len(group) - 1} more" if len(group) > 1 else ""
    head = f"  [{number}] "
    text = f"{first.rule} {first.name}".strip() + f"{others} {first.state}: {first.message}"
    indent = " " * len(head)
    yield from textwrap.wrap(text, COLUMNS, initial_indent=head, subsequent_indent=indent)
    if first.cause:
        yield from textwrap.wrap(f"cause: {first.cause}", COLUMNS, initial_indent=indent, subsequent_indent=indent)
    yield f"{indent}{'receipt' if first.state == REJECTED else 'log'}: {first.log}"
    if first.server_log:
        yield f"{indent}server log: {first.server_log}"


def _numbers(cells: Sequence[CellStatus]) -> list[str]:
    """Return what is asked, in the store, and missing."""
    columns = ([cell.requests for cell in cells], [cell.stored for cell in cells], [cell.missing for cell in cells])
    return ["-" if all(n is None for n in column) else f"{sum(n or 0 for n in column):,}" for column in columns]


def _states(counts: Mapping[str, int]) -> str:
    order = (*ANSWER_STATES, *VERDICT_STATES)
    return ", ".join(f"{counts[state]:,} {state}" for state in order if counts.get(state))


def _plainly_done(cell: CellStatus) -> bool:
    """Tell whether a cell is done, and each of its requests got a response."""
    return cell.state == DONE and not (cell.states.get(NO_RESPONSE) or cell.states.get(JUDGE_FAILED))


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return items by a key, in the order in which they come."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
