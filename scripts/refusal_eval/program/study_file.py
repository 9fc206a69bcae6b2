"""The study file that a verb is given, loaded as the Snakefile loads it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_eval.config.load_study import load_study, study_values

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "config" / "config.yaml"
StudyFile = Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="The study file.", show_default="the demo's")]
Directory = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Working folder, as snakemake's.")]


def load_config(
    study: Path,
    directory: Path | None = None,
    open_pins: bool = False,
    warn: Callable[[str], None] | None = None,
) -> tuple[dict[str, Any], Path]:
    """Return the validated config of a study file, and the file's whole path; change to the working folder.

    Like Snakemake's, the study's path counts from where the command is given.

    Args:
        study: the file.
        directory: the working folder, if it is another one than this.
        open_pins: whether pins may be open.
        warn: takes what would only harm a run (`load_study`).

    Raises:
        ConfigError: for mistakes in it.
    """
    file = working_in(study, directory)
    return load_study(study_values(str(file)), str(file), str(ROOT), open_pins=open_pins, warn=warn), file


def working_in(study: Path, directory: Path | None) -> Path:
    """Return the whole path of a study file, which counts from here; change to the working folder, if there is one."""
    file = study.absolute()
    if directory:
        os.chdir(directory)
    return file
