"""Check this machine before a run, and say what to fix. Nothing is changed, but that the folder of leases is made.

Environments and their locks, GPUs and driver, memory, disk, temporary folder, clock, hub and Slurm. With --configfile
the study's engines count: how many GPUs they need, whether their weights fit (estimated before they are fetched), what
is still to be fetched, and whether disk and token are enough for it.

Exit code: 0 nothing failed (warnings apart); 1 something will not work, or the study is not valid.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    options = parse(arguments)
    study_file = options.configfile.absolute() if options.configfile else None
    if options.directory:
        os.chdir(options.directory)
    try:
        return run(study_file)
    except ModuleNotFoundError as error:
        name = str(error.name).split(".")[0]
        print(f"doctor: this Python has no {name}: run `make setup`, then `make doctor`", file=sys.stderr)
        return 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configfile", type=Path, metavar="STUDY.yaml", help="the study that is to run")
    parser.add_argument("--directory", type=Path, metavar="FOLDER", help="working folder, as snakemake's")
    return parser.parse_args(arguments)


def run(study_file: Path | None) -> int:
    """Print the checks; return the exit code."""
    from refusal_eval.config import ConfigError, load_study, study_values
    from refusal_eval.tools.check.all_checks import check_machine, study_needs
    from refusal_eval.tools.check.check import any_failed, counted, lines_of

    needs = None
    if study_file is not None:
        try:
            raw = study_values(str(study_file))
            needs = study_needs(load_study(raw, str(study_file), str(ROOT), open_pins=True), ROOT)
        except (ConfigError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
    checks = list(check_machine(needs, ROOT, os.environ))
    print("\n".join(lines_of(checks)))
    print("\n" + counted(checks))
    return 1 if any_failed(checks) else 0


if __name__ == "__main__":
    sys.exit(main())
