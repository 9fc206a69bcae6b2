"""Refuse a config that Snakemake merged from several files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from refusal_eval.config.problems import ConfigError, Problem, dotted
from refusal_eval.config.shapes import KeyPath
from refusal_eval.config.yaml_source import Source


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
