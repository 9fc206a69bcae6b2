"""How far a study is: what is done, what is missing, what failed and why, and where the log is."""

import json
import time
from typing import Annotated

import typer

from refusal_eval.core.hints import nearest
from refusal_eval.program.study_file import DEMO, ROOT, Directory, StudyFile, load_config
from refusal_eval.study.batches import GOLD
from refusal_eval.tools.status.status_table import status_table
from refusal_eval.tools.status.study_status import files_left_alone, report_status, study_status

EXIT_CODES = {"done": 0, "failed": 1, "incomplete": 3}


def command(
    study: StudyFile = DEMO,
    directory: Directory = None,
    cells: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL/SPLIT", help="Only this cell (gold/NAME); may be repeated."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="A line for every cell, also for those that are done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Show how far a study is: what is done, what is missing, what failed and why, and where the log is.

    Nothing is run and nothing is written. It looks at existing files and their times, and asks Snakemake where these
    are out of order or all cells are done; `snakemake -n` shows what a changed study would rerun. It may quote an
    engine's messages from logs, but never shows prompts or answers.

    Exit code: 0 everything is done; 1 something failed, or the study is not valid; 2 a mistake on the command line; 3
    not finished, but nothing failed.
    """
    config, file = load_config(study, directory)
    known = [f"{model}/{split}" for model in config["models"] for split in config["splits"]]
    known += [f"{GOLD}/{gold}" for gold in config["gold"]]
    for name in cells or ():
        if name not in known:
            raise typer.BadParameter(f"there is no cell `{name}`" + nearest(name, known))
    asked = (lambda: report_status(config, file, ROOT)), (lambda: files_left_alone(file, ROOT))
    status = study_status(config, time.time(), cells or (), *asked)
    typer.echo(json.dumps(status.as_json(), indent=2) if as_json else status_table(status, every))
    raise typer.Exit(EXIT_CODES[status.state])
