"""This machine, a study's needs, and one model's answers through the real path: what is not as it should be."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from execute import allow_many_connections

from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.config.problems import ConfigError
from refusal_eval.core.errors import UserError
from refusal_eval.engines.process import end_with_parent
from refusal_eval.tools.check.all_checks import check_machine, study_needs
from refusal_eval.tools.check.answer_checks import run_checks
from refusal_eval.tools.check.check import any_failed, counted, lines_of
from refusal_eval.tools.check.check_report import block, failed_block
from refusal_eval.tools.check.gpu_facts import Facts
from refusal_eval.tools.check.prepare import prepare
from refusal_eval.tools.check.probes import find_out
from refusal_eval.tools.status.log_text import tail
from refusal_eval.tools.study_file import ROOT, Directory, working_in


def command(
    study: Annotated[
        Path | None, typer.Argument(metavar="STUDY.yaml", help="The study that is to run.", show_default="none")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Check this model of the catalogue through the real path instead."),
    ] = None,
    directory: Directory = None,
    keep: Annotated[bool, typer.Option("--keep", help="With --model: keep the temporary folder in any case.")] = False,
) -> None:
    """Check this machine before a run, or one model through the real path, and say what to fix.

    Without --model: environments and their locks, GPUs and driver, memory, disk, temporary folder, clock, hub and
    Slurm. With a study its engines count: how many GPUs they need, whether their weights fit (estimated before they are
    fetched), what is still to be fetched, and whether disk and token are enough for it. Nothing is changed, but that
    the folder of leases is made.

    With --model: eight bundled prompts are rendered, executed on the model's engine into a store in a temporary folder,
    and read back as answers. Then the engine is asked what tells whether its answers can be trusted: token ids of the
    template, log-probabilities, seeds alone and under load, an adapter, stop tokens, forms, prefix cache, the GPUs that
    compute, whether it may ask a hub, and who can reach it. The block that is printed holds no prompts, answers, paths
    or secrets; paste it into an issue. Weights that are missing are fetched into the cache.
    Where something fails, the folder is kept, with the logs. Of a study its catalogue files, cache and lock file count.

    Exit code: 0 nothing failed (warnings apart); 1 something will not work, or the study is not valid.
    """
    file = working_in(study, directory) if study else None
    if directory and not study:
        os.chdir(directory)
    failed = check_model(model, file, keep) if model else check_this_machine(file)
    if failed:
        raise typer.Exit(1)


def check_this_machine(study_file: Path | None) -> bool:
    """Print the checks of this machine; tell whether one failed.

    Raises:
        ConfigError: if the study is not valid.
    """
    needs = None
    if study_file is not None:
        config = load_study(study_values(str(study_file)), str(study_file), str(ROOT), open_pins=True)
        needs = study_needs(config, ROOT)
    checks = list(check_machine(needs, ROOT, os.environ))
    print("\n".join(lines_of(checks)))
    print("\n" + counted(checks))
    return any_failed(checks)


def check_model(model: str, study_file: Path | None, keep: bool) -> bool:
    """Print the block of one model; tell whether something failed. Its temporary folder is kept if so, or if `keep`."""
    end_with_parent()
    signal.signal(signal.SIGTERM, _stop_on_sigterm)
    logging.basicConfig(level=logging.WARNING, format="check: %(message)s", stream=sys.stderr)
    logging.getLogger("refusal_eval.engines.devices").setLevel(logging.INFO)  # users are to know who waits for a GPU
    allow_many_connections()
    folder = Path(tempfile.mkdtemp(prefix="refusal-eval-check-"))
    failed = True  # also by whatever nobody expected
    try:
        failed = run_model(model, study_file, folder)
    except (ConfigError, UserError) as error:
        say(str(error))
    finally:
        if keep or (failed and any(folder.rglob("*.log"))):
            say(f"everything is kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return failed


def run_model(model: str, study_file: Path | None, folder: Path) -> bool:
    """Check a model, with `folder` for everything but weights; print the block; tell whether something failed.

    Raises:
        ConfigError: if there is no such model, or its entries are not valid.
        UserError: if the model cannot be prepared.
    """
    catalogues, cache = places(study_file)
    prepared = prepare(model, catalogues, cache, folder, ROOT, say, study_file)
    day = datetime.date.today().isoformat()
    facts = Facts()
    try:
        asyncio.run(find_out(prepared, say, facts))
    except UserError as error:
        say(str(error))
        print(failed_block(model, facts, str(error), tail(prepared.log), day), flush=True)
        return True
    checks = run_checks(facts)
    print(block(model, prepared.files()[0].header["identity"], facts, checks, day), flush=True)
    return any_failed(checks)


def places(study_file: Path | None) -> tuple[list[str], str]:
    """Return the user's catalogue files and the cache, as absolute paths: of the study, else those of the demo."""
    if study_file is None:
        return [], str(ROOT / ".cache")
    # Of its pins only the model's have to be known.
    config = load_study(study_values(str(study_file)), str(study_file), str(ROOT), open_pins=True)
    return [os.path.abspath(file) for file in config["catalogue"]], os.path.abspath(config["cache_dir"])


def say(text: str) -> None:
    """Report progress; standard output is for the block alone."""
    print(f"check: {text}", file=sys.stderr, flush=True)


def _stop_on_sigterm(*_: object) -> None:
    raise SystemExit("stopped by SIGTERM")
