"""What Snakemake says of each file of a study: `snakemake --summary`, in a process of its own."""

import csv
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from refusal_eval.core.errors import UserError


@dataclass(frozen=True)
class MadeFiles:
    """A file that a rule makes."""

    path: str  # as the rule names it
    rule: str
    current: bool  # whether the next run would leave it as it is


def snakemake_command(study_file: Path, root: Path, config: Mapping[str, object] | None = None) -> list[str]:
    """Return the command that runs the workflow on a study; `config`: keys with other values than its file has."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(root / "Snakefile")]
    command += ["--configfile", str(study_file)]
    return [*command, "--config", *(f"{key}={value}" for key, value in config.items())] if config else command


def summary(study_file: Path, root: Path, config: Mapping[str, object] | None = None) -> list[MadeFiles]:
    """Return every file that the rules make for a study. Nothing is run or written.

    Raises:
        UserError: if the study cannot be planned.
    """
    command = [*snakemake_command(study_file, root, config), "--summary", "--dry-run"]  # or it leaves a log
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        # With --summary Snakemake reports errors on standard output.
        raise UserError(f"the study cannot be planned: {run.stdout.strip() or run.stderr.strip()}")
    lines = run.stdout.splitlines()
    head = next((number for number, line in enumerate(lines) if line.startswith("output_file\t")), len(lines))
    rows = csv.DictReader(lines[head:], delimiter="\t")
    return [MadeFiles(row["output_file"], row["rule"], row["plan"] == "no update") for row in rows]


def current_files(study_file: Path, root: Path) -> set[Path]:
    """Return the files of a study that its next run would not make again.

    Raises:
        UserError: if the study cannot be planned.
    """
    return {Path(made.path) for made in summary(study_file, root) if made.current}
