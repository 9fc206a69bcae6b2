"""From a study file and the catalogue to one validated config, or to all mistakes at once."""

import os
from collections.abc import Mapping
from typing import Any

from refusal_eval.config.catalogue import Catalogue, shipped_files, with_paths
from refusal_eval.config.explain import ask_for_kinds_again, validated
from refusal_eval.config.kinds import Registry
from refusal_eval.config.lock_file import Lock, check_pins, lock_path, pinned, read_lock
from refusal_eval.config.permission import check_permissions
from refusal_eval.config.problems import ConfigError, Problem
from refusal_eval.config.study_checks import Checks, check_same_name
from refusal_eval.config.study_entry import Study, StudyConfig
from refusal_eval.config.yaml_source import Layer, Source, Written
from refusal_eval.core.errors import UserError
from refusal_eval.core.plugins import load_plugins


def study_values(study_file: str) -> dict[str, Any]:
    """Return what a study file holds, not validated.

    Raises:
        ConfigError: if it is not a mapping in valid YAML.
    """
    source = Source(study_file)
    if not source.readable:
        raise ConfigError(source.problems)
    return dict(source.data)


def load_study(
    raw: Mapping[str, Any], study_file: str, root: str = ".", *, open_pins: bool = False, use_lock: bool = True
) -> dict[str, Any]:
    """Return the validated config of a study as plain JSON values.

    Pins that entries leave open come from the study's lock file. Where there is one, `lock` holds its path.

    Args:
        raw: what Snakemake read from the study file, `--config` overrides included.
        study_file: the study's YAML file (for line numbers and relative paths).
        root: the repository's folder, which holds config/catalogue/.
        open_pins: whether pins may stay open, for what only looks at a study: they are then null.
        use_lock: whether the lock file counts; without it the entries come as the catalogue has them.

    Raises:
        ConfigError: with every mistake found in the study, in the catalogue files, between them and on disk.
    """
    source = Source(study_file, actual=raw)
    problems = list(source.problems)
    value = with_paths(Study, dict(raw), source, (), problems)
    written = Written([Layer(value, source, ())], broken=not source.readable)
    _load_plugins(written, problems)
    study: Study | None = validated(Study, written, problems)
    catalogue = _catalogue(written, root, problems)
    checks = Checks(written, catalogue, root, problems)
    checks.run()
    check_permissions(written, catalogue, checks.used, root, problems)
    lock = read_lock(lock_path(study_file), problems) if use_lock else None
    # A lock that cannot be read is told itself; what it would have filled is no mistake.
    broken = use_lock and lock is None and os.path.lexists(lock_path(study_file))
    check_pins(written, catalogue, checks.used, lock, open_pins or broken, problems)
    check_same_name(raw.get("study"), source, root, problems)
    if problems or study is None:
        raise ConfigError(problems)
    config = _with_entries(study, checks.used, catalogue, lock).model_dump(mode="json")
    return config | ({"lock": lock.path} if lock is not None else {})


def _load_plugins(study: Written, problems: list[Problem]) -> None:
    """Import a study's plug-ins, so that the kinds that they add are known; a missing file is noted by `Checks`."""
    had_others, named = Registry.forget_added(), study.get("plugins")
    files = [file if isinstance(file, str) else "" for file in (named if isinstance(named, list) else ())]
    for index, file in enumerate(files):
        if os.path.isfile(file):
            try:
                load_plugins([file])
            except UserError as error:
                problems.append(study.problem(("plugins", index), str(error)))
    if files or had_others:
        ask_for_kinds_again()


def _catalogue(study: Written, root: str, problems: list[Problem]) -> Catalogue:
    named = study.get("catalogue")
    own = [file for file in named if isinstance(file, str)] if isinstance(named, list) else []
    there = [file for file in own if os.path.isfile(file)]
    shipped = shipped_files(root)
    return Catalogue([*shipped, *there], len(shipped), problems, complete=len(there) == len(own))


def _with_entries(study: Study, used: Mapping[str, list[str]], catalogue: Catalogue, lock: Lock | None) -> StudyConfig:
    values = study.model_dump()
    values["primary_judge"] = study.primary_judge or study.judges[0]
    sections = {
        "engine_entries": "engines",
        "model_entries": "models",
        "split_entries": "splits",
        "judge_entries": "judges",
        "gold_entries": "gold",
    }
    for key, section in sections.items():
        values[key] = {name: pinned(catalogue.valid[section][name], section, lock) for name in used[section]}
    for name, judge in values["judge_entries"].items():
        if (label := judge.own_label(name)) != (judge.label or name):
            values["judge_entries"][name] = judge.model_copy(update={"label": label})
    return StudyConfig(**values)
