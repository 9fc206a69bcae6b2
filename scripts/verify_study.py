"""Compute a finished study's numbers again from its stored answers and verdicts, and compare.

Scores, judge cards, estimates, the results table and all tables are made anew in a temporary folder, by the rules' own
scripts, and compared byte by byte with those of the study. The headline rate of each cell is also computed a second
way, by code of its own. Nothing of the study is changed and no engine starts. Pictures, the manifest and the methods
section are not compared: they tell of the machine and the versions that made them.

Exit code: 0 everything is as it was; 1 something differs or is missing, or the study is not valid.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from show_status import load_config
from tqdm import tqdm

from refusal_eval.config import ConfigError
from refusal_eval.core.errors import UserError
from refusal_eval.study.paths import Paths
from refusal_eval.tools.verify.file_differences import Difference, differences
from refusal_eval.tools.verify.recompute import (
    NOT_COMPARED,
    cells_of,
    compared_files,
    link_inputs,
    only_numbers,
    other_rates,
)
from refusal_eval.tools.verify.rule_jobs import planned, run

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    from snakemake.exceptions import WorkflowError

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configfile", type=Path, metavar="STUDY.yaml", help="the study; default: the demo")
    parser.add_argument("--directory", type=Path, metavar="FOLDER", help="working folder, as snakemake's")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="processes at one time; default: all")
    options = parser.parse_args(arguments)
    study_file = options.configfile.absolute() if options.configfile else ROOT / "config" / "config.yaml"
    try:
        if options.directory:
            os.chdir(options.directory)
        config = load_config(study_file)
        found = checked(config, study_file, options.cores)
    except (ConfigError, UserError, WorkflowError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    for difference in found:
        print(f"{difference.path}: {difference.problem}")
    if found:
        files = len({difference.path for difference in found})
        print(f"{files} of the study's files are not what its answers and verdicts give.", file=sys.stderr)
    else:
        print(f"Study {config['study']}: scores and tables are what its answers and verdicts give.")
    return 1 if found else 0


def checked(config: dict[str, Any], study_file: Path, cores: int) -> list[Difference]:
    """Return everything that differs.

    Raises:
        UserError: if the study has no answers or verdicts yet, or not all.
    """
    stored = Path(Paths(config).results).absolute()
    needed = [f"answers/{m}/{s}.jsonl" for _, m, s in cells_of(config)]
    needed += [f"verdicts/{j}/{m}/{s}.jsonl" for j, m, s in cells_of(config)]
    missing = [name for name in needed if not (stored / name).is_file()]
    if missing:
        raise UserError(f"{stored / missing[0]} is not there: the study is not finished (`make status` tells more)")
    with tempfile.TemporaryDirectory(prefix="refusal-eval-verify-") as temporary:
        made = Path(temporary) / config["study"]
        levels = only_numbers(planned(study_file, Path.cwd(), {"results_dir": temporary}, NOT_COMPARED))
        link_inputs(levels, stored, made)
        total = sum(len(level) for level in levels)
        for _ in tqdm(run(levels, Path.cwd(), cores), "computing", total, unit="file", disable=None):
            pass
        found = [d for name in compared_files(levels, made) for d in differences(stored / name, made / name, name)]
    return found + list(other_rates(config, stored))


if __name__ == "__main__":
    sys.exit(main())
