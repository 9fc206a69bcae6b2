"""From a model's name to a small study that is ready for its engine: 8 bundled prompts, through the real rules."""

import dataclasses
import itertools
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from refusal_eval.ask.requests import RequestFile, read_requests
from refusal_eval.config.catalogue import Catalogue, shipped_files
from refusal_eval.config.change import changes, changes_of
from refusal_eval.config.entries import Sampling
from refusal_eval.config.feature_keys import MODEL_KEYS
from refusal_eval.config.kinds import ENGINES
from refusal_eval.config.load_study import load_study
from refusal_eval.config.lock_file import lock_path
from refusal_eval.config.problems import ConfigError
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, shown_path
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.loaded_change import loaded_changes
from refusal_eval.program.snakemake_summary import snakemake_command
from refusal_eval.program.study_file import ROOT
from refusal_eval.program.trial_elsewhere import TrialElsewhere
from refusal_eval.study.paths import Paths
from refusal_eval.weights.engine_file import weight_source

CHECKED = "checked"  # the model under the check's own name, with shorter answers
SAMPLES = 3
PROMPTS_PER_SPLIT = 4
SPLITS = {
    "gpu-check-safe": ("alarming_but_safe.jsonl", "comply"),
    "gpu-check-decline": ("should_decline.jsonl", "refuse"),
}
MOST_TOKENS = 64
MOST_REASONING_TOKENS = 2048  # or a reasoning model would not come to its end mark
LAST_LINES = 40


def plain_keys() -> dict[str, None]:
    """Return the keys of an entry that are left out: changes that the checks make up, and what makes several models."""
    several = (MODEL_KEYS.get(name).makes_several for name in MODEL_KEYS.names())
    return dict.fromkeys([change.key for change in changes() if change.made_up_code] + [key for key in several if key])


@dataclass(frozen=True)
class CheckedModel:
    """A model whose requests are rendered and whose weights are there."""

    entry: Mapping[str, Any]
    files: Sequence[RequestFile]
    prompts: Sequence[Path]  # the files of their prompts
    plan: LoadPlan  # how to execute
    log: Path  # file for the server's output
    left_out: bool = False  # whether its entry has a change that the checks make up, which is left out


def asking_study(model: str, catalogues: Sequence[str], plugins: Sequence[str] = ()) -> dict[str, Any]:
    """Return a study that only names the model: validating it gives the model's entry, or the mistake.

    Naming a model for a check counts as allowing it.
    """
    return {
        "study": "gpu-check",
        "models": [model],
        "allow": [model],
        "splits": ["alarming_but_safe"],
        "samples": 1,
        "judges": ["keyword"],
        "catalogue": list(catalogues),
        "plugins": list(plugins),
    }


def checking_study(
    entry: Mapping[str, Any], catalogues: Sequence[str], cache_dir: str, plugins: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the study of the check."""
    samples = 1 if is_greedy(entry) else SAMPLES
    own = {"splits": list(SPLITS), "samples": samples, "cache_dir": cache_dir}
    return asking_study(CHECKED, catalogues, plugins) | own


def checking_catalogue(model: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the catalogue of the check: the model with answers no longer than needed, and the prompts."""
    sampling = entry["sampling"]
    most = min(int(sampling["max_tokens"]), MOST_REASONING_TOKENS if entry["reasoning"] else MOST_TOKENS)
    shorter = {"max_tokens": most, "min_tokens": min(int(sampling["min_tokens"]), most)}
    few = {"size": PROMPTS_PER_SPLIT, "seed": 0}
    splits = {
        name: {"source": {"kind": "bundled", "file": file}, "expectation": expectation, "sample": few}
        for name, (file, expectation) in SPLITS.items()
    }
    return {
        # Without what is made from answers of a study: the checks make it up.
        "models": {CHECKED: {"like": model, "label": "the checked model", "sampling": shorter, **plain_keys()}},
        "datasets": {"gpu-check": {"splits": splits}},
    }


def is_greedy(entry: Mapping[str, Any]) -> bool:
    """Tell whether all samples of a model are equal, by the rule that the study's check of `samples` uses."""
    return bool(Sampling(**entry["sampling"]).greedy_by)


def prepare(
    model: str,
    catalogues: Sequence[str],
    cache_dir: str,
    folder: Path,
    study_file: Path | None,
    plugins: Sequence[str] = (),
) -> CheckedModel | TrialElsewhere:
    """Write the study into `folder` and run the rules that come before an engine.

    A model whose engine computes elsewhere needs none: its trial is returned.

    Args:
        model: name of the model in the catalogue.
        catalogues: absolute paths of the user's catalogue files.
        cache_dir: absolute path of the cache.
        folder: where everything but the weights goes.
        study_file: the user's study, whose lock file fills open pins.
        plugins: absolute paths of its plug-ins, whose kinds the catalogue files may have.

    Raises:
        ConfigError: if there is no such model, or it is not valid.
        UserError: if the model is not pinned, or a rule fails.
    """
    study, own = folder / "study.yaml", folder / "catalogue.yaml"
    written, left_out = written_entry(model, catalogues)
    entry = checked_entry(written, catalogues, study, study_file, left_out, plugins)
    own.write_text(yaml.safe_dump(checking_catalogue(written, entry)), encoding="utf-8")
    config = _load(study, checking_study(entry, [*catalogues, str(own)], cache_dir, plugins))
    paths = Paths(config)
    ((name, engine),) = config["engine_entries"].items()
    weights = engine.get("weights")
    if weights is None:
        trial: TrialElsewhere | None = ENGINES.entry(engine).trial(entry["sampling"], str(folder))
        if trial is None:
            raise UserError(f"`{model}` cannot be checked: its engine `{name}` computes elsewhere")
        return trial
    manifest = [source.copy_file(paths.cache)] if (source := weight_source(weights)).fetched else []
    requests = [paths.of("requests", model=CHECKED, split=split) for split in SPLITS]
    changed = {change.name: change.loaded_files(paths, CHECKED) for change in changes_of(entry | plain_keys())}
    # What is in the cache is no rule's output any more (see `folder_not_there`), and cannot be asked for.
    missing = [path for path in manifest if not Path(path).is_file()]
    _make([*requests, *missing, *itertools.chain(*changed.values())], study)
    # Folders are relative to where the rules ran.
    changes = loaded_changes(
        {change: [str(folder / path) for path in files] for change, files in changed.items()}, folder
    )
    engine_file = read_json(folder / paths.of("engines", engine=name))
    plan = LoadPlan.of_study(config, engine_file, manifest, ROOT, changes=changes)
    return CheckedModel(
        entry=config["model_entries"][CHECKED],
        files=[read_requests(folder / path) for path in requests],
        prompts=[folder / paths.of("prompts", split=split) for split in SPLITS],
        plan=dataclasses.replace(plan, store_dir=str(folder / config["store_dir"])),
        log=folder / "engine.server.log",
        left_out=left_out,
    )


def written_entry(model: str, catalogues: Sequence[str]) -> tuple[str, bool]:
    """Return the name of the entry that makes a model (of a sweep: the sweep's), and whether the checks make up
    a change of it."""
    shipped = shipped_files(str(ROOT))
    catalogue = Catalogue([*shipped, *filter(os.path.isfile, catalogues)], len(shipped), [])
    name = next((name for name, models in catalogue.swept.items() if model in models), model)
    written = catalogue.written["models"].get(name)
    made_up = [change.key for change in changes() if change.made_up_code]
    return name, written is not None and any(written.get(key) is not None for key in made_up)


def checked_entry(
    model: str,
    catalogues: Sequence[str],
    check: Path,
    study_file: Path | None,
    left_out: bool = False,
    plugins: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the validated entry of a model with everything pinned; the lock file lies next to the check's study.

    It is the plain model's if the checks make up its change: no control is requested, and nothing it is made from.

    Raises:
        ConfigError: if there is no such model, or it is not valid.
        UserError: if it is not pinned.
    """
    asking = asking_study(model, catalogues, plugins)
    if left_out:
        plain = check.with_name("plain.yaml")
        plain.write_text(yaml.safe_dump({"models": {CHECKED: {"like": model, **plain_keys()}}}), encoding="utf-8")
        asking = asking_study(CHECKED, [*catalogues, str(plain)], plugins)
    _load(check, asking, open_pins=True)
    try:
        config = _load(check, asking)
    except ConfigError:  # only what is open is left to be wrong
        own_lock = lock_path(str(study_file)) if study_file is not None else ""
        if os.path.isfile(own_lock):
            shutil.copyfile(own_lock, lock_path(str(check)))
        try:
            _load(check, asking, open_pins=True)
        except (
            ConfigError
        ) as error:  # the lock says otherwise than an entry: reported with the names of the user's files
            text = str(error).replace(lock_path(str(check)), own_lock)
            raise UserError(text.replace(shown_path(str(check)), str(study_file))) from error
        try:
            config = _load(check, asking)
        except ConfigError as error:
            raise _not_pinned(model, study_file, error) from error
    entry: dict[str, Any]
    (entry,) = config["model_entries"].values()
    return entry


def _not_pinned(model: str, study_file: Path | None, error: ConfigError) -> UserError:
    """Return the message for a model that is not pinned; open pins are its study's only mistakes."""
    study, place = "my_study.yaml", "Write it there, or name the model in a study"
    if study_file is not None:
        study, lock = shlex.quote(str(study_file)), lock_path(str(study_file))
        lacks = "does not have it" if os.path.isfile(lock) else "is not there"
        place = f"and {lock} {lacks}. Name the model in {study_file}"
    return UserError(
        "\n".join(
            [
                f"`{model}` cannot be checked yet: the commit is not known of",
                *(f"  - {problem.file}:{problem.line}: {problem.path}" for problem in error.problems),
                f"{place}, run `refusal-eval pin {study}`, and then",
                f"`refusal-eval check --model {model} {study}`, which reads the lock file that `refusal-eval pin` "
                "writes.",
            ]
        )
    )


def _load(file: Path, study: Mapping[str, Any], open_pins: bool = False) -> dict[str, Any]:
    file.write_text(yaml.safe_dump(dict(study)), encoding="utf-8")
    return load_study(study, str(file), str(ROOT), open_pins=open_pins)


def _make(files: Sequence[str], study: Path) -> None:
    folder = str(study.parent)
    command = [*snakemake_command(study, ROOT), "--directory", folder, "--cores", "all", *files]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if run.returncode != 0:
        last = "\n".join((run.stdout + run.stderr).splitlines()[-LAST_LINES:])
        raise UserError(f"the rules before the engine failed; their last lines:\n{last}")
