"""Show how far a study is: what is done, what is missing, what failed and why, and where the log is.

Nothing is run and nothing is written. It looks at the files that are there; what a change of the study would run again,
`snakemake -n` tells. Of logs it may quote what an engine said; prompts and answers are never shown.

Exit code: 0 everything is done; 1 something failed, or the study is not valid; 3 not finished, but nothing failed
(2 is a mistake on the command line).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config import ConfigError, load_study, study_values
from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest
from refusal_eval.study.batches import GOLD
from refusal_eval.study.study_folder import refuse_other_study

ROOT = Path(__file__).resolve().parent.parent
EXIT_CODES = {"done": 0, "failed": 1, "incomplete": 3}
NOT_VALID = 1


def load_config(study_file: Path) -> dict[str, Any]:
    """Return the validated config of a study file, as the Snakefile does.

    Raises:
        ConfigError: for mistakes in it.
    """
    config = load_study(study_values(str(study_file)), str(study_file), str(ROOT))
    refuse_other_study(config, str(study_file))
    return config


def wanted_cells(config: dict[str, Any], names: Sequence[str]) -> Callable[[str, str], bool]:
    """Return which (model, split) are named; of gold the model is `gold`.

    Raises:
        ValueError: for a cell that the study does not have.
    """
    known = [f"{model}/{split}" for model in config["models"] for split in config["splits"]]
    known += [f"{GOLD}/{gold}" for gold in config["gold"]]
    for name in names:
        if name not in known:
            raise ValueError(f"there is no cell `{name}`" + nearest(name, known))
    return lambda model, split: f"{model}/{split}" in names


def parse(arguments: Sequence[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Return the parser and the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configfile", type=Path, metavar="STUDY.yaml", help="the study; default: the demo")
    parser.add_argument("--directory", type=Path, metavar="FOLDER", help="working folder, as snakemake's")
    parser.add_argument("--cells", nargs="+", metavar="MODEL/SPLIT", help="only these cells (gold/NAME for gold)")
    parser.add_argument("--all", action="store_true", help="a line for every cell, also for those that are done")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    return parser, parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    parser, options = parse(arguments)
    # Like Snakemake's: the study's path counts from where the command is given.
    study_file = options.configfile.absolute() if options.configfile else ROOT / "config" / "config.yaml"
    try:
        if options.directory:
            os.chdir(options.directory)
        config = load_config(study_file)
    except (ConfigError, UserError, OSError) as error:
        print(error, file=sys.stderr)
        return NOT_VALID
    try:
        wanted = wanted_cells(config, options.cells) if options.cells else None
    except ValueError as error:
        parser.error(str(error))
    return show(config, wanted, options.all, options.json)


def show(config: dict[str, Any], wanted: Callable[[str, str], bool] | None, every: bool, as_json: bool) -> int:
    """Print the status; return the exit code."""
    from refusal_eval.tools.status import study_status
    from refusal_eval.tools.status.status_table import status_table

    try:
        status = study_status(config, time.time(), wanted)
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return NOT_VALID
    text = json.dumps(status.as_json(), indent=2) if as_json else status_table(status, every)
    with contextlib.suppress(BrokenPipeError):  # `make status | head`
        print(text, flush=True)
        return EXIT_CODES[status.state]
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to flush at the exit
    return EXIT_CODES[status.state]


if __name__ == "__main__":
    sys.exit(main())
