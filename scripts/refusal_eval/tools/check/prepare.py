"""From a model's name to a small study that is ready to be executed, through the real rules."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from refusal_eval.config.load_study import load_study
from refusal_eval.config.problems import ConfigError
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.study.paths import Paths
from refusal_eval.tools.check.check_study import CHECKED, SPLITS, asking_study, checking_catalogue, checking_study
from refusal_eval.tools.check.model_pins import differs, not_pinned, take_lock
from refusal_eval.tools.check.probes import Prepared
from refusal_eval.weights.adapter import Adapter

LAST_LINES = 40


def prepare(
    model: str,
    catalogues: Sequence[str],
    cache_dir: str,
    folder: Path,
    root: Path,
    say: Callable[[str], None],
    study_file: Path | None = None,
) -> Prepared:
    """Write the study into `folder` and run the rules that come before an engine.

    Args:
        model: name of the model in the catalogue.
        catalogues: absolute paths of the user's catalogue files.
        cache_dir: absolute path of the cache.
        folder: where everything but the weights goes.
        root: the repository.
        say: tells what is going on.
        study_file: the user's study, whose lock file fills open pins.

    Raises:
        ConfigError: if there is no such model, or it is not valid.
        UserError: if the model is not pinned, or a rule fails.
    """
    study = folder / "study.yaml"
    entry = checked_entry(model, catalogues, study, root, study_file)
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(checking_catalogue(model, entry)), encoding="utf-8")
    every = [*catalogues, str(folder / "catalogue.yaml")]
    config = _loaded(study, checking_study(entry, every, cache_dir), root)
    paths = Paths(config)
    (name,) = config["engine_entries"]
    weights = config["engine_entries"][name]["weights"]
    manifest = [] if weights["kind"] == "folder" else [paths.weights_manifest(weights)]
    requests = [f"{paths.results}/requests/{CHECKED}/{split}.jsonl" for split in SPLITS]
    adapter = [paths.checked_adapter(CHECKED)] if entry["lora"] else []
    say("rendering prompts, and fetching what is missing ...")
    # What is in the cache is no rule's output any more (see `folder_not_there`), and cannot be asked for.
    missing = [path for path in manifest if not Path(path).is_file()]
    _make([*requests, *missing, *adapter], study, folder, root)
    engine = read_json(folder / paths.engine(name))
    # Folders are relative to where the rules ran.
    described = [read_json(folder / path) for path in adapter]
    adapters = [Adapter(**one | {"folder": str(folder / one["folder"])}) for one in described]
    plan = LoadPlan.of_study(config, engine, manifest, root, adapters=adapters)
    plan = dataclasses.replace(plan, store_dir=str(folder / config["store_dir"]))
    return Prepared(folder / paths.results, config, plan, folder / "engine.server.log")


def checked_entry(
    model: str, catalogues: Sequence[str], check: Path, root: Path, study_file: Path | None
) -> dict[str, Any]:
    """Return the validated entry of a model, everything pinned; the lock file then lies beside the check's study.

    Args:
        model: its name in the catalogue.
        catalogues: absolute paths of the user's catalogue files.
        check: where the study of the check is written.
        root: the repository.
        study_file: the user's study.

    Raises:
        ConfigError: if there is no such model, or it is not valid.
        UserError: if it is not pinned.
    """
    asking = asking_study(model, catalogues)
    _loaded(check, asking, root, open_pins=True)
    try:
        config = _loaded(check, asking, root)
    except ConfigError:  # only what is open is left to be wrong
        take_lock(study_file, check)
        try:
            _loaded(check, asking, root, open_pins=True)
        except ConfigError as error:  # the lock says otherwise than an entry
            raise differs(study_file, check, error) from error
        try:
            config = _loaded(check, asking, root)
        except ConfigError as error:
            raise not_pinned(model, study_file, error) from error
    entry: dict[str, Any] = config["model_entries"][model]
    return entry


def _loaded(file: Path, study: Mapping[str, Any], root: Path, open_pins: bool = False) -> dict[str, Any]:
    file.write_text(yaml.safe_dump(dict(study)), encoding="utf-8")
    return load_study(study, str(file), str(root), open_pins=open_pins)


def _make(files: Sequence[str], study: Path, folder: Path, root: Path) -> None:
    command = [sys.executable, "-m", "snakemake", "-s", str(root / "Snakefile"), "--directory", str(folder)]
    command += ["--configfile", str(study), "--cores", "all", *files]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if run.returncode != 0:
        last = "\n".join((run.stdout + run.stderr).splitlines()[-LAST_LINES:])
        raise UserError(f"the rules before the engine failed; their last lines:\n{last}")
