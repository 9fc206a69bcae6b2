"""A finished study's numbers computed again and compared with those it has."""

import os
from typing import Annotated

import typer

from refusal_eval.tools.study_file import DEMO, ROOT, Directory, StudyFile, load_config
from refusal_eval.tools.verify.recompute import recompute


def command(
    study: StudyFile = DEMO,
    directory: Directory = None,
    cores: Annotated[int, typer.Option(min=1, help="Jobs at one time.", show_default="all")] = os.cpu_count() or 1,
) -> None:
    """Compute a finished study's numbers again from its stored answers and verdicts, and compare.

    The workflow makes scores, judge cards, estimates, the results table and all tables in a temporary folder, and they
    are compared byte by byte with those of the study. The headline rate of each cell is also computed a second way, by
    code of its own. Nothing of the study is changed and no engine starts. Pictures, the manifest and the methods
    section are not compared: they tell of the machine and the versions that made them.

    Exit code: 0 everything is as it was; 1 something differs or is missing, or the study is not valid.
    """
    config, file = load_config(study, directory)
    found = recompute(config, file, ROOT, cores)
    for name, problems in found.items():
        typer.echo("\n".join(f"{name}: {problem}" for problem in problems))
    if found:
        typer.echo(f"{len(found)} of the study's files are not what its answers and verdicts give.", err=True)
        raise typer.Exit(1)
    typer.echo(f"Study {config['study']}: scores and tables are what its answers and verdicts give.")
