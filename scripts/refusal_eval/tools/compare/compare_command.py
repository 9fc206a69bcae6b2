"""Two finished studies compared: rates per cell on shared prompts, the prompts that changed most, and settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_text
from refusal_eval.core.texts import visible
from refusal_eval.program.page_lines import WIDTH, fill_lines
from refusal_eval.program.terminal import show as show_page
from refusal_eval.program.text_templates import render_template
from refusal_eval.report.paper.display import (
    Labels,
    add_marks,
    clean,
    notes_of,
    p_text,
    percent,
    points,
    points_interval,
)
from refusal_eval.report.paper.latex_table import latex
from refusal_eval.report.paper.markup import Table, csv_text, markdown, markdown_escaped
from refusal_eval.report.paper.plain_text import plain_text
from refusal_eval.report.paper.table_notes import AS_READ, judges_notes
from refusal_eval.tools.compare.manifest_differences import files_that_differ, settings_that_differ
from refusal_eval.tools.compare.two_studies import (
    FinishedStudy,
    cell_differences,
    finished_study,
    labels_of,
    most_changed,
)

TEXT_LENGTH = 90  # characters of a prompt that are shown
IDENTICAL = "identical"  # instead of a difference, where no prompt has another rate
COLUMNS = (
    *("judge", "model", "split", "reading", "rate_first", "rate_second", "difference", "low", "high", "method"),
    *("p", "p_holm", "test", "bound_low", "bound_high", "n", "n_all", "n_clusters", "n_differ", "changed"),
    *("only_first", "only_second", "samples_first", "samples_second"),
    "flags",
)
ChangedRow = Mapping[str, Any]


def differences_table(
    rows: Sequence[ChangedRow], names: Sequence[str], show: Labels, level: float, judged: Sequence[str]
) -> Table:
    """One row per cell that both studies have: both rates, their difference, its test, and how many prompts changed.

    `judged` are the notes on the judges (`judged_notes`).
    """
    header = ["Judge", "Model", "Split", "Shared\nprompts", f"A: {names[0]}", f"B: {names[1]}", "B minus A", "p"]
    header += ["p (Holm)", "Prompts\nthat changed"]
    body = [
        [
            *(show.judge(row["judge"]), show.model(row["model"]), show.split(row["split"]), str(row["n_all"])),
            *(add_marks(percent(row[f"rate_{side}"]), row[f"flags_{side}"]) for side in ("first", "second")),
            difference_text(row),
            *(p_text(row["p"]), p_text(row["p_holm"]), str(row["changed"])),
        ]
        for row in rows
    ]
    sizes = sorted({row[f"samples_{side}"] for row in rows for side in ("first", "second")})
    # A prompt that one study lacks is missing in the cells of all models and judges: it counts once per split.
    only = pd.DataFrame(rows).groupby("split")[["only_first", "only_second"]].max().sum()
    methods = "; ".join(sorted({row["method"] for row in rows if row["method"]}))
    notes = [
        "Headline refusal rates of A's readings in percent, on the prompts that both have and both could judge; "
        "B minus A in percentage points.",
        f"Intervals ({100 * level:g} %): {methods or 'none'}.",
        "p: two-sided sign-flip test over clusters; p (Holm): corrected for all cells of a judge in this table.",
        f"K = {' or '.join(map(str, sizes))} answers per prompt.",
    ]
    if only.any():
        notes.append(f"Left out: {only['only_first']} prompts that only A has, {only['only_second']} that only B has.")
    notes += notes_of(flag for row in rows for flag in row["flags"])
    if any(row["n"] < row["n_all"] for row in rows):
        notes.append("Some shared prompts have no rate in one study; the CSV has the bounds that this leaves.")
    notes += judged
    return Table("studies", "Two studies on the prompts they share.", header, body, notes, keys=3, per_block=4)


def difference_text(row: ChangedRow) -> str:
    """B minus A with its interval; that of studies with the same rates on all prompts says nothing."""
    if is_identical(row):
        return IDENTICAL
    return add_marks(f"{points(row['difference'])} {points_interval(row['low'], row['high'])}".strip(), row["flags"])


def is_identical(row: ChangedRow) -> bool:
    """Whether both studies have the same prompts, each with the same rate."""
    return bool(row["n"]) and row["n"] == row["n_all"] and not row["n_differ"]


def judged_notes(studies: Sequence[FinishedStudy], rows: Sequence[ChangedRow], show: Labels) -> list[str]:
    """How well each judge agrees with people; by study where the two say otherwise of it."""
    judges = {row["judge"] for row in rows}
    first, second = (
        [note for note in judges_notes(judges, study.cards(), show) if note != AS_READ] for study in studies
    )
    return [AS_READ, *(first if first == second else [f"A: {n}" for n in first] + [f"B: {n}" for n in second])]


def differences_frame(rows: Sequence[ChangedRow]) -> pd.DataFrame:
    """The same as a frame for CSV; `first` is study A, and the difference is B less A."""
    own = [[{**row, "flags": " ".join(row["flags"])}[name] for name in COLUMNS] for row in rows]
    return pd.DataFrame(own, columns=list(COLUMNS), dtype=object)


def changed_table(rows: Sequence[ChangedRow], show: Labels) -> Table:
    """One row per prompt whose rate changed most."""
    body = [
        [
            *(show.model(row["model"]), show.split(row["split"]), show.judge(row["judge"]), row["prompt_id"]),
            *(str(row["turn"]), percent(row["first"]), percent(row["second"]), shortened(row["text"])),
        ]
        for row in rows
    ]
    header = ["Model", "Split", "Judge", "Prompt", "Turn", "A", "B", "Its last message"]
    return Table(
        "changed", "Prompts whose refusal rate changed most, in percent.", header, body, keys=4, align="llllrrrl"
    )


def shortened(text: str) -> str:
    """The start of a prompt on one line."""
    line = clean(text)
    return line if len(line) <= TEXT_LENGTH else line[: TEXT_LENGTH - 3].rstrip() + "..."


def page(
    first: FinishedStudy,
    second: FinishedStudy,
    rows: Sequence[ChangedRow],
    level: float,
    most: int,
    every: bool,
    plain: bool = False,
) -> str:
    """The whole comparison in Markdown, or as plain text."""
    show = Labels(**labels_of([first, second]))
    names = [study.name if first.name != second.name else str(study.folder) for study in (first, second)]
    changed = most_changed(first, second, [(row["judge"], row["model"], row["split"]) for row in rows], most)
    table = differences_table(rows, names, show, level, judged_notes((first, second), rows, show))
    typeset = plain_text if plain else markdown
    values = {
        "folders": [str(first.folder), str(second.folder)],
        "differences": typeset(table).rstrip(),
        "changed": typeset(changed_table(changed, show)).rstrip() if changed else "",
        "alone": {"A": sorted(set(first.cells) - set(second.cells)), "B": sorted(set(second.cells) - set(first.cells))},
        "settings": settings_that_differ(first.manifest, second.manifest),
        "most": None if every else 40,
        "files": files_that_differ(first.manifest, second.manifest),
    }
    escaped = visible if plain else markdown_escaped
    filters = {"md": escaped, "short": lambda side: "not there" if side is None else shortened(side)}
    text = render_template(Path(__file__).with_name("compare.txt.j2" if plain else "compare.md.j2"), values, filters)
    return "\n".join(line for each in text.splitlines() for line in _fitted(each)) + "\n" if plain else text


def _fitted(line: str) -> list[str]:
    """A line of a list that is too long for a terminal, in several."""
    return fill_lines([line.lstrip()], "  ") if line.startswith("  ") and len(line) > WIDTH else [line]


def command(
    first: Annotated[Path, typer.Argument(metavar="A", help="Results of a finished study, e.g. results/demo.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Results of another one.")],
    judge: Annotated[str | None, typer.Option(help="Only this judge (default: all that both have).")] = None,
    level: Annotated[float, typer.Option(min=0.01, max=0.9999, help="Level of the intervals.")] = 0.95,
    most: Annotated[int, typer.Option(min=1, help="How many changed prompts are shown.")] = 10,
    every: Annotated[bool, typer.Option("--all", help="All settings that differ.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|FILE.md",
            help="Write studies.{md,csv,tex} into this folder too, or the page into this file.",
        ),
    ] = None,
) -> None:
    """Put two finished studies side by side: rates on the prompts they share, changed prompts, and settings.

    Nothing is computed again but the differences: it reads the scores and the manifests that the two runs wrote. It is
    for a study that was run again with another seed or another version of an engine, or with a model added.
    """
    one, other = finished_study(first), finished_study(second)
    rows = [row for row in cell_differences(one, other, level) if judge in (None, row["judge"])]
    if not rows:
        under = f" under judge {judge}" if judge else ""
        raise UserError(f"{first} and {second} have no (judge, model, split) in common{under}")
    text = page(one, other, rows, level, most, every)
    if output and output.suffix == ".md":
        write_text(output, text)
    elif output:
        show = Labels(**labels_of([one, other]))
        judged = judged_notes((one, other), rows, show)
        table = differences_table(rows, [str(first), str(second)], show, level, judged)
        for ending, content in (("md", text), ("csv", csv_text(differences_frame(rows))), ("tex", latex(table))):
            write_text(output / f"studies.{ending}", content)
    show_page(page(one, other, rows, level, most, every, plain=True).rstrip("\n"))
