"""From a study file and the catalogue to one validated config, or to all mistakes at once.

1. The files are read with the line of every key (yaml_source.py), and entries are laid over those that they inherit
   from (catalogue.py).
2. Each entry of the catalogue, and each key of the study, is valid, or its mistakes are noted (explain.py).
3. Checks ask the study of what is valid (checked_study.py) for mistakes between entries: `CHECKS`.
4. Without a mistake, open pins are filled from the lock (lock_file.py), and the entries in use go with the study.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from refusal_eval.config.capture_mistakes import capture_mistakes
from refusal_eval.config.catalogue import Catalogue, shipped_files, with_paths
from refusal_eval.config.checked_study import LISTS, CheckedStudy
from refusal_eval.config.disk_mistakes import column_mistakes, folder_mistakes, path_mistakes, row_mistakes
from refusal_eval.config.explain import ask_for_kinds_again, validated
from refusal_eval.config.feature_keys import CHECKS as OF_FEATURES
from refusal_eval.config.lock_file import lock_path, pinned, read_lock
from refusal_eval.config.permission_mistakes import citation_mistakes, permission_mistakes, pin_mistakes
from refusal_eval.config.problems import ConfigError, Mistake, Problem, dotted
from refusal_eval.config.recorded_blocks import find_blocks
from refusal_eval.config.recorded_splits import with_splits_of_files
from refusal_eval.config.shapes import KeyPath
from refusal_eval.config.study_entry import Study, StudyConfig
from refusal_eval.config.study_mistakes import study_mistakes
from refusal_eval.config.study_name_mistakes import same_name_mistakes
from refusal_eval.config.yaml_source import Layer, Source, Written
from refusal_eval.core.errors import UserError
from refusal_eval.core.plugins import load_plugins
from refusal_eval.core.registry import Registry

CHECKS: tuple[Callable[[CheckedStudy], Iterable[Mistake]], ...] = (
    study_mistakes,
    capture_mistakes,
    permission_mistakes,
    citation_mistakes,
    pin_mistakes,
    path_mistakes,
    row_mistakes,
    column_mistakes,
    folder_mistakes,
)


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
    raw: Mapping[str, Any],
    study_file: str,
    root: str = ".",
    *,
    open_pins: bool = False,
    use_lock: bool = True,
    warn: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return the validated config of a study as plain JSON values.

    Pins that entries leave open come from the study's lock file. Where there is one, `lock` holds its path.

    Args:
        raw: what Snakemake read from the study file, `--config` overrides included.
        study_file: the study's YAML file (for line numbers and relative paths).
        root: the repository's folder, which holds config/catalogue/.
        open_pins: whether pins may stay open, for what only looks at a study: they are then null.
        use_lock: whether the lock file counts; without it the entries come as the catalogue has them.
        warn: takes what would only harm a run: other study files of the same name. Without it they are mistakes.

    Raises:
        ConfigError: with every mistake found in the study, in the catalogue files, between them and on disk.
    """
    source = Source(study_file, actual=raw)
    problems = list(source.problems)
    value = with_paths(Study, dict(raw), source, (), problems)
    written = Written([Layer(value, source, ())], broken=not source.readable)
    _load_plugins(written, problems)
    named, shipped = written.get("catalogue"), shipped_files(root)
    own = [file for file in named if isinstance(file, str)] if isinstance(named, list) else []
    there = [file for file in own if os.path.isfile(file)]  # of those that are missing `path_mistakes` tells
    catalogue = Catalogue([*shipped, *there], len(shipped), problems, there == own and not isinstance(named, str))
    written = with_splits_of_files(written, catalogue, problems)
    find_blocks(written, catalogue)
    settings: Study | None = validated(Study, written, problems)
    lock = read_lock(lock_path(study_file), problems) if use_lock else None
    # A lock that cannot be read has a mistake of its own; what it would have filled is no mistake.
    broken = use_lock and lock is None and os.path.lexists(lock_path(study_file))
    study = CheckedStudy(settings, written, catalogue, root, lock, open_pins or broken)
    problems += (study.placed(mistake) for find in _checks() for mistake in find(study))
    names = [dataclasses.replace(study.placed(mistake), comes_last=True) for mistake in same_name_mistakes(study)]
    if warn is None:
        problems += names
    else:
        for name in names:
            warn(str(name))
    if problems:
        raise ConfigError(problems)
    config = _with_entries(study).model_dump(mode="json")
    return config | ({"lock": lock.path} if lock is not None else {})


def _load_plugins(study: Written, problems: list[Problem]) -> None:
    """Import a study's plug-ins, so that their kinds are known; of those that are missing `path_mistakes` tells."""
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


def _checks() -> list[Callable[[CheckedStudy], Iterable[Mistake]]]:
    """Return all checks: those of features come last."""
    return [*CHECKS, *map(OF_FEATURES.get, OF_FEATURES.names())]


def _with_entries(study: CheckedStudy) -> StudyConfig:
    values = study.settings.model_dump() | {"models": study.names("models")}
    values["primary_judge"] = study.view.primary_judge
    for section, word in {"engines": "engine", **LISTS}.items():
        valid = study.catalogue.valid[section]
        values[f"{word}_entries"] = {name: pinned(valid[name], section, study.lock) for name in study.used[section]}
    for name, judge in values["judge_entries"].items():
        if (label := judge.own_label(name)) != (judge.label or name):
            values["judge_entries"][name] = judge.model_copy(update={"label": label})
    return StudyConfig(**values)


def know_kinds_of(config: Mapping[str, Any]) -> None:
    """Let the kinds of a validated study's plug-ins be known again, after another study was loaded."""
    if Registry.forget_added() or config["plugins"]:
        load_plugins(config["plugins"])
        ask_for_kinds_again()


def refuse_merged(config: Mapping[str, Any], study_file: str, command_line: Mapping[str, Any]) -> None:
    """Raise `ConfigError` unless Snakemake's config is one study file with the command line laid over it.

    Snakemake merges `--configfile` into every `configfile:` of the Snakefile that was started, so keys of another
    study (its gold, its primary judge) would enter this one unseen.

    Args:
        config: the config as Snakemake put it together.
        study_file: the one file that the study should come from.
        command_line: the values of `--config`.
    """
    source = Source(study_file)
    if not source.readable:
        return  # loading the study says what is wrong with the file
    known = {*_paths(source.data), *_paths(command_line)}
    foreign = [path for path in _paths(config) if path not in known and (path[:-1] in known or len(path) == 1)]
    if foreign:
        message = (
            f"the config also holds {_named(foreign)}, from another file. A study file is complete and is never "
            "merged with another: take `configfile:` out of the Snakefile that uses this workflow as a module"
        )
        raise ConfigError([Problem(study_file, 0, "", message)])
    if lost := [(key,) for key in source.data if key not in config]:
        message = (
            f"the config lacks this file's {_named(lost)}: a Snakefile that uses this workflow as a `module:` passes "
            "the study on with `config: config`"
        )
        raise ConfigError([Problem(study_file, 0, "", message)])


def _paths(value: Any, inside: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield (*inside, key)
            yield from _paths(child, (*inside, key))


def _named(paths: Sequence[KeyPath]) -> str:
    return ", ".join(f"`{dotted(path)}`" for path in paths)
