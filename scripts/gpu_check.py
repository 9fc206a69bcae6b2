"""Check one model on this machine through the real path, and print a block to paste into an issue.

Eight bundled prompts are rendered, executed on the model's engine into a store in a temporary folder, and read back as
answers. Then the engine is asked what tells whether its answers can be trusted: token ids of the template,
log-probabilities, seeds, stop tokens, prefix cache, and who can reach it. The block holds no prompts, answers, paths or
secrets. Weights that are missing are fetched into the cache. Where something fails, the folder is kept, with the logs.

Exit code: 0 everything is as it should be (warnings apart); 1 something is not.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from execute import allow_many_connections

from refusal_eval.config import ConfigError
from refusal_eval.core.errors import UserError
from refusal_eval.engines.process import end_with_parent

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    options = parse(arguments)
    end_with_parent()
    signal.signal(signal.SIGTERM, _stop_on_sigterm)
    logging.basicConfig(level=logging.WARNING, format="gpu-check: %(message)s", stream=sys.stderr)
    logging.getLogger("refusal_eval.engines.devices").setLevel(logging.INFO)  # who waits for a GPU is to know it
    allow_many_connections()
    folder = Path(tempfile.mkdtemp(prefix="gpu-check-"))
    code = 1  # also for whatever nobody expected
    try:
        code = run(options.model, options.configfile, folder)
    except (ConfigError, UserError) as error:
        print(f"gpu-check: {error}", file=sys.stderr)
    finally:
        if options.keep or (code and any(folder.rglob("*.log"))):
            print(f"gpu-check: everything is kept in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return code


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="name of a model in the catalogue, such as smollm2-plain")
    parser.add_argument(
        "--configfile",
        type=Path,
        metavar="STUDY.yaml",
        help="a study whose catalogue files, cache_dir and lock file count",
    )
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder also where nothing fails")
    return parser.parse_args(arguments)


def run(model: str, study_file: Path | None, folder: Path) -> int:
    """Check a model, with `folder` for everything but weights; print the block; return the exit code.

    Raises:
        ConfigError: if there is no such model, or its entries are not valid.
        UserError: if the model cannot be prepared.
    """
    from refusal_eval.tools.check.check import any_failed
    from refusal_eval.tools.gpu_check.answer_checks import run_checks
    from refusal_eval.tools.gpu_check.check_report import block, failed_block
    from refusal_eval.tools.gpu_check.gpu_facts import Facts
    from refusal_eval.tools.gpu_check.prepare import prepare
    from refusal_eval.tools.gpu_check.probes import find_out
    from refusal_eval.tools.status.log_text import tail

    catalogues, cache = places(study_file)
    prepared = prepare(model, catalogues, cache, folder, ROOT, say, study_file)
    day = datetime.date.today().isoformat()
    facts = Facts()
    try:
        asyncio.run(find_out(prepared, say, facts))
    except UserError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        print(failed_block(model, facts, str(error), tail(prepared.log), day), flush=True)
        return 1
    checks = run_checks(facts)
    print(block(model, prepared.files()[0].header["identity"], facts, checks, day), flush=True)
    return 1 if any_failed(checks) else 0


def places(study_file: Path | None) -> tuple[list[str], str]:
    """Return the user's catalogue files and the cache, as absolute paths: of the study, else those of the demo."""
    if study_file is None:
        return [], str(ROOT / ".cache")
    from refusal_eval.config import load_study, study_values

    try:
        # Of its pins only the model's have to be known.
        config = load_study(study_values(str(study_file)), str(study_file), str(ROOT), open_pins=True)
    except OSError as error:
        raise UserError(str(error)) from error
    return [os.path.abspath(file) for file in config["catalogue"]], os.path.abspath(config["cache_dir"])


def say(text: str) -> None:
    """Tell what is going on; standard output is for the block alone."""
    print(f"gpu-check: {text}", file=sys.stderr, flush=True)


def _stop_on_sigterm(*_: object) -> None:
    raise SystemExit("stopped by SIGTERM")


if __name__ == "__main__":
    sys.exit(main())
