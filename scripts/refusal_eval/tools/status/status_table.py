"""A study's status as text: at most 120 columns, a line for each cell only where something is missing or failed."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from refusal_eval.core.states import ANSWER_STATES, JUDGE_FAILED, VERDICT_STATES
from refusal_eval.core.states import FAILED as NO_RESPONSE
from refusal_eval.study.batches import GOLD
from refusal_eval.tools.status.cell_states import CONVERSATIONS, WAITING, WAITS_FOR_ANSWERS, CellStatus
from refusal_eval.tools.status.job_states import DONE, FAILED, REJECTED, RUNNING, Job, Trouble
from refusal_eval.tools.status.study_status import INCOMPLETE, ReportStatus, StudyStatus

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
    """Return a study's status as lines of text.

    Args:
        status: the status.
        every: a line for every cell, and all troubles.
    """
    groups = grouped(status.troubles)
    numbers = {trouble.job: number for number, group in enumerate(groups, 1) for trouble in group}
    lines = [f"Study {status.study}, results in {status.results}"]
    sections = _by(status.cells, lambda cell: f"Verdicts of {cell.judge}" if cell.judge else "Answers")
    width = max(min(LABEL, 4 + max(len(cell.split) for cell in status.cells)), *map(len, sections))
    for title, cells in sections.items():
        rows = _Rows(width, counted=any(cell.requests is not None for cell in cells), references=numbers)
        lines += ["", rows.heading(title)]
        for model, of_model in _by(cells, lambda cell: cell.model).items():
            lines += rows.of_model(model, of_model, every)
    if status.report is not None:
        lines += ["", _report(status.report)]
    if groups:
        lines += ["", "What failed, runs, stopped or was rejected:"]
        shown = groups if every else groups[:SHOWN_TROUBLES]
        for number, group in enumerate(shown, 1):
            lines += _trouble_lines(number, group)
        if len(groups) > len(shown):
            lines.append(f"  ... and {len(groups) - len(shown)} more (--all shows them)")
    return "\n".join([*lines, "", *totals(status), VERDICT[status.state]])


def totals(status: StudyStatus) -> list[str]:
    """Return a line of totals for answers and one for all verdicts."""
    lines = []
    for step, cells in _by(status.cells, lambda cell: cell.step).items():
        states = Counter(cell.state for cell in cells)
        parts = [f"{states[DONE]:,} of {_many(len(cells), 'cell')} done"]
        parts += [f"{states[name]:,} {name}" for name in (FAILED, RUNNING, WAITING) if states[name]]
        counted = {
            "asked": sum(cell.requests or 0 for cell in cells),
            "with a response": sum(cell.stored or 0 for cell in cells),
            "missing": sum(cell.missing or 0 for cell in cells),
            "rejected": sum(cell.rejected or 0 for cell in cells),
            "too long": sum(cell.too_long or 0 for cell in cells),
        }
        numbers = [f"{count:,} {words}" for words, count in counted.items() if count]
        lines += textwrap.wrap(
            f"{step.capitalize()}: {', '.join(parts)}" + (f"; {', '.join(numbers)}" if numbers else ""),
            COLUMNS,
            subsequent_indent="  ",
        )
    return lines


def grouped(troubles: Iterable[Trouble]) -> list[list[Trouble]]:
    """Return troubles in groups that differ in nothing but the name, failures first."""
    groups = _by(troubles, lambda one: (one.state != FAILED, one.state == REJECTED, one.rule, one.message, one.cause))
    return [groups[key] for key in sorted(groups, key=lambda key: key[:2])]


class _Rows:
    """The lines of one section.

    Args:
        width: columns of the label.
        counted: whether there are requests to count.
        references: the numbers under which troubles are listed.
    """

    def __init__(self, width: int, counted: bool, references: Mapping[Job, int]) -> None:
        self._width, self._counted, self._references = width, counted, references

    def heading(self, title: str) -> str:
        return self._row(title, ("asked", "in store", "missing"), "")

    def of_model(self, model: str, cells: Sequence[CellStatus], every: bool) -> Iterator[str]:
        """Yield a line for the model, and lines for its cells (all of them, or those with something to tell)."""
        done = [cell for cell in cells if cell.state == DONE]
        noun = "gold set" if model == GOLD else "split"
        head = f"  {model}: {len(done)} of {_many(len(cells), noun)} done"
        states = _states(sum((Counter(cell.states) for cell in done), Counter()))
        waiting = sum(cell.note == WAITS_FOR_ANSWERS for cell in cells)
        head += f", {waiting} waiting for answers" if waiting else ""
        yield _cut(f"{head} ({states})" if states else head)
        told = [cell for cell in cells if every or not (cell.note == WAITS_FOR_ANSWERS or _plainly_done(cell))]
        alike = _by(told, lambda cell: (self._note(cell), cell.state == DONE or bool(cell.stored and cell.missing)))
        for (note, partly), group in alike.items():
            if len(group) > ALIKE and not partly and not every:
                yield self._row(f"    {_many(len(group), noun)}", _numbers(group), note)
            else:
                yield from (self._row(f"    {cell.split}", _numbers([cell]), self._note(cell, True)) for cell in group)

    def _note(self, cell: CellStatus, own: bool = False) -> str:
        """Return a cell's note; `own`: with what holds for this cell only."""
        number = self._references.get(cell.trouble) if cell.trouble else None
        parts = [cell.note + (f" [{number}]" if number else "")]
        if own:
            parts += [f"{cell.rejected:,} rejected"] if cell.rejected else []
            parts += [f"{cell.too_long:,} too long"] if cell.too_long and not cell.states else []
            parts += [_states(cell.states)] if cell.states else []
        parts += ["conversations, turns unknown"] if cell.unit == CONVERSATIONS else []
        return "; ".join(parts)

    def _row(self, label: str, numbers: Sequence[str], note: str) -> str:
        columns = "".join(f"{number:>11}" for number in numbers) if self._counted else ""
        return _cut(f"{_middle(label, self._width):<{self._width}}{columns}  {note}".rstrip())


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


def _report(report: ReportStatus) -> str:
    there = f"Tables, figures, manifest: {report.files - report.missing} of {report.files} files are there"
    return there + (f", {report.old} of them are outdated" if report.old else "")


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


def _cut(line: str) -> str:
    return line if len(line) <= COLUMNS else line[: COLUMNS - 3] + "..."


def _middle(text: str, width: int) -> str:
    """Return text of at most `width` characters; of a long one both ends, for names often differ in the last part."""
    if len(text) <= width:
        return text
    end = (width - 2) // 2
    return text[: width - 2 - end] + ".." + text[-end:]


def _by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return items by a key, in the order in which they come."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
