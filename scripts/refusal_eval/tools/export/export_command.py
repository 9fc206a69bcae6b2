"""A finished study in one of the forms that others read, and the check of such a folder."""

from pathlib import Path
from typing import Annotated

import typer

from refusal_eval.config.kinds import EXPORTERS
from refusal_eval.core.hints import nearest
from refusal_eval.core.texts import visible
from refusal_eval.program.exporter import ANSWERS, Exporter, ExportOrder, Level
from refusal_eval.program.snakemake_summary import current_files
from refusal_eval.program.study_file import DEMO, ROOT, StudyFile, load_config
from refusal_eval.study.paths import Paths

DIFFERENT = 3
FORMS = "; ".join(f"{name}: {EXPORTERS.get(name).writes}" for name in EXPORTERS.names())
PUBLISHED = "published"  # what `export` wrote before there were others


def command(
    study: StudyFile = DEMO,
    form: Annotated[
        str,
        typer.Option("--as", metavar="FORM", help=f"{FORMS}."),
    ] = PUBLISHED,
    level: Annotated[
        Level | None,
        typer.Option(
            help="How much: labels has no text of a prompt or an answer, answers nothing that judges wrote.",
            show_default=ANSWERS,
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(help="Whose verdicts.", show_default="all judges; published: the primary judge"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where to.", show_default="results/STUDY/exports/FORM-LEVEL"),
    ] = None,
    check_folder: Annotated[
        Path | None,
        typer.Option("--check", metavar="FOLDER", help="Check a folder in that form instead; exports nothing."),
    ] = None,
) -> None:
    """Write a finished study in a form that other programs read, or check a folder in such a form.

    An export with prompts and answers says so: do not publish it before you know that you may. What is there already is
    not replaced, but for the study's own export in the published library's layout.

    A check is for the published library's layout. It reads every folder below FOLDER with an answers.json, computes
    scores and metrics again from answers and judge scores, prints them, and says where the folder has others (exit
    code 3).
    """
    exporter = _exporter(form)
    if check_folder is not None:
        if judge or output or level:
            raise typer.BadParameter("--check exports nothing: leave out --judge and --output, and --level")
        found = exporter.check(check_folder)
        typer.echo("\n".join(["Differences:", *found]) if found else "What the folders say follows from their answers.")
        if found:
            raise typer.Exit(DIFFERENT)
        return
    much: Level = level or ANSWERS
    if much not in exporter.levels:
        raise typer.BadParameter(
            f"`{form}` holds prompts and answers, and has no level `{much}`; it has {', '.join(exporter.levels)}",
            param_hint="--level",
        )
    config, file = load_config(study)
    folder = output or exporter.own_folder(Path(Paths(config).results), much)
    for line in exporter.export(ExportOrder(config, current_files(file, ROOT), judge, folder, much)):
        typer.echo(visible(line))


def _exporter(form: str) -> Exporter:
    if form not in EXPORTERS.names():
        known = f"there is no form `{form}`{nearest(form, EXPORTERS.names())}"
        raise typer.BadParameter(f"{known}; forms: {', '.join(EXPORTERS.names())}", param_hint="--as")
    found: type[Exporter] = EXPORTERS.get(form)
    return found()
