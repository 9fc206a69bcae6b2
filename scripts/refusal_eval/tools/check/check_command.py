"""This machine, a study's needs, and one model's answers through the real path: what is not as it should be."""

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from execute import allow_many_connections

from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.core.errors import UserError
from refusal_eval.core.log_text import tail
from refusal_eval.core.logs import ShownFormatter
from refusal_eval.core.texts import visible
from refusal_eval.engines.devices.lease import may_share
from refusal_eval.engines.devices.nvidia_smi import read_gpus
from refusal_eval.engines.stopping import end_with_parent, run_stoppable
from refusal_eval.program.check_lines import any_failed, count_outcomes, text_of
from refusal_eval.program.study_file import ROOT, Directory, working_in
from refusal_eval.program.terminal import show
from refusal_eval.program.trial_elsewhere import TrialElsewhere
from refusal_eval.study.engine_environment import built_for
from refusal_eval.tools.check.check_report import block, block_elsewhere, failed_block
from refusal_eval.tools.check.checked_model import prepare
from refusal_eval.tools.check.environment_checks import environment_lines
from refusal_eval.tools.check.gpu_checks import gpu_lines
from refusal_eval.tools.check.machine_checks import machine_lines
from refusal_eval.tools.check.model_checks import Trial
from refusal_eval.tools.check.network_checks import network_lines, read_slurm
from refusal_eval.tools.check.no_network import take_network_away
from refusal_eval.tools.check.study_needs import study_needs


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

    Without --model it checks environments and their locks, GPUs and driver, memory, disk, temporary folder, clock, hub
    and Slurm; with a study also how many GPUs its engines need, whether their weights fit (estimated until they are
    fetched), and whether disk and token suffice for what is still to be fetched. It only creates the folder of leases.

    With --model it sends eight bundled prompts to the model's engine, with a store in a temporary folder, and reads
    them back as answers. Then it tests what your numbers depend on: token ids of the template, log-probabilities, seeds
    alone and under load, an adapter, stop tokens, structured output, prefix cache, tokens per second, the leased GPUs,
    a start without a network, who can reach the engine, that nothing is left when it stops and, if there are enough
    GPUs, another number of them. Of a steered model it tests the plain model first, then made-up interventions in every
    step. Of a hosted model it sends at most five requests of its own instead, which cost what the report says: a plain
    one, one with every sampling parameter, the same once more, one with a system message, and the refusal test of its
    provider, if there is one. The block that it prints holds no prompts, answers, paths or secrets: paste it into an
    issue. Missing weights are fetched into the cache. If something fails, the folder is kept, with the logs. From a
    study it takes catalogue files, plug-ins, cache and lock file.

    Exit code: 0 nothing failed (warnings apart); 1 something will not work, or the study is not valid.
    """
    if keep and not model:
        raise typer.BadParameter("--keep goes with --model: without it there is no temporary folder")
    file = working_in(study, directory) if study else None
    if directory and not study:
        os.chdir(directory)
    # Of a model's study only the model has to be pinned.
    config = load_study(study_values(str(file)), str(file), str(ROOT), open_pins=True) if file else None
    if check_model(model, file, config, keep) if model else check_this_machine(config, file):
        raise typer.Exit(1)


def check_this_machine(config: dict[str, Any] | None, study_file: Path | None) -> bool:
    """Print the checks of this machine, for a study if there is one; return whether one failed."""
    needs = study_needs(config, study_file) if config and study_file else None
    engines, variables, slurm = needs.engines if needs else (), os.environ, read_slurm(os.environ)
    kind = built_for(ROOT) or ""
    lines = [
        *environment_lines(needs, kind, variables),
        *gpu_lines(read_gpus(strangers=not may_share(variables)), engines, kind, variables, slurm.on_login_node),
        *machine_lines(needs, kind, variables),
        *network_lines(needs, variables),
        ("Slurm", slurm.outcome()),
    ]
    show(text_of(lines) + "\n\n" + count_outcomes(lines))
    return any_failed(lines)


def check_model(model: str, study_file: Path | None, config: Mapping[str, Any] | None, keep: bool) -> bool:
    """Print the report on one model; return whether something failed. Its temporary folder is kept after a failure, or
    with `keep`.

    Raises:
        ConfigError: if there is no such model, or its entries are not valid.
        UserError: if the model cannot be prepared.
    """
    end_with_parent()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ShownFormatter("check: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("refusal_eval.engines.devices").setLevel(logging.INFO)  # users are to know who waits for a GPU
    allow_many_connections()
    folder = Path(tempfile.mkdtemp(prefix="refusal-eval-check-"))
    catalogues, plugins = ([*map(os.path.abspath, config[key])] if config else [] for key in ("catalogue", "plugins"))
    cache = os.path.abspath(config["cache_dir"]) if config else str(ROOT / ".cache")
    failed = True  # by unexpected errors, too
    try:
        say("rendering prompts, and fetching what is missing ...")
        ready = prepare(model, catalogues, cache, folder, study_file, plugins)
        if isinstance(ready, TrialElsewhere):
            lines = run_stoppable(ready.run(say))
            show(block_elsewhere(model, ready, lines))
            failed = any_failed(lines)
            return failed
        trial = Trial(ready)
        if trial.local_engine.nodes_used() == 1:
            trial.network = take_network_away()
        try:
            lines = run_stoppable(trial.run(say))
            show(block(model, trial, lines))
            failed = any_failed(lines)
        except UserError as error:
            say(str(error))
            show(failed_block(model, trial, str(error), tail(trial.model.log)))
    finally:
        if keep or (failed and any(folder.rglob("*.log"))):
            say(f"everything is kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return failed


def say(text: str) -> None:
    # Standard output is for the report alone.
    print(f"check: {visible(text)}", file=sys.stderr, flush=True)
