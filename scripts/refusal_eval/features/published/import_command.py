"""A study and a catalogue file of ours out of a config of the published library of Refusal Steering."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml

from refusal_eval.config.catalogue import shipped_files
from refusal_eval.config.shapes import FORMS, SLUG
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import written_whole
from refusal_eval.core.yaml_files import read_yaml
from refusal_eval.engines.devices.nvidia_smi import read_gpus
from refusal_eval.features.published.published_config import Imported, Shipped, ShippedEngine, imported
from refusal_eval.features.published.published_results import read_results, with_results
from refusal_eval.program.study_file import ROOT


def shipped_names(root: Path) -> Shipped:
    """Return the parts of config/catalogue/ that an import asks."""
    entries: dict[str, dict[str, Any]] = {"datasets": {}, "judges": {}, "engines": {}, "models": {}}
    for file in shipped_files(str(root)):
        data = read_yaml(file) or {}
        for section in entries:
            entries[section] |= data.get(section) or {}
    engines = entries["engines"]
    reasoning = {entry.get("engine"): entry.get("reasoning") for entry in entries["models"].values()}
    repos = {
        entry["weights"]["repo"]: ShippedEngine(
            name, entry.get("tensor_parallel", 1), reasoning.get(name), _off(entry), not _is_open(entry["weights"])
        )
        for name, entry in engines.items()
        if (entry.get("weights") or {}).get("repo")
    }
    splits: dict[str, dict[str, Any]] = {}
    for dataset in entries["datasets"].values():
        defaults = dataset.get("defaults") or {}
        splits |= {name: {**defaults, **entry} for name, entry in (dataset.get("splits") or {}).items()}
    off = {name: why for name, entry in splits.items() if (why := _off(entry))}
    off |= {
        name: why for name, entry in entries["judges"].items() if (why := _off(engines.get(entry.get("engine")) or {}))
    }
    unpinned = {name for name, entry in splits.items() if _is_open(entry.get("source") or {})}
    unpinned |= {
        name
        for name, entry in entries["judges"].items()
        if _is_open((engines.get(entry.get("engine")) or {}).get("weights") or {})
    }
    return Shipped(list(splits), list(entries["judges"]), repos, off, {*engines, *entries["models"]}, unpinned)


def _is_open(source: Mapping[str, Any]) -> bool:
    """Tell whether a source has a pin that nobody has filled in."""
    return any(key in source and source[key] is None for key in ("revision", "sha256"))


def _off(entry: Mapping[str, Any]) -> str | None:
    return str(entry.get("reason")) if entry.get("enabled") is False else None


def weights_folder(config: Mapping[str, Any], into: Path) -> str | None:
    """Return the folder of the model's weights as seen from the folder `into`; None for a repository of the hub.

    The published code starts where its user is, and takes a folder of that name before it asks the hub.
    """
    model = config.get("model")
    name = model.get("name_or_path") if isinstance(model, dict) else None
    if not isinstance(name, str) or not name.strip():
        return None
    path = os.path.expanduser(name.strip())
    if not name.strip().startswith(("/", "./", "../", "~")) and not os.path.isdir(path):
        return None
    return os.path.normpath(path) if os.path.isabs(path) else os.path.relpath(path, into)


def command(
    config: Annotated[Path, typer.Argument(metavar="THEIRS.yaml", help="A config of the published library.")],
    name: Annotated[str | None, typer.Option(help="Name of the study.", show_default="the file's name")] = None,
    protocol: Annotated[
        Literal["default", "compat"], typer.Option(help="How the study draws and scores answers.")
    ] = "default",
    gpus: Annotated[
        int | None,
        typer.Option(min=1, help="GPUs that `auto` stands for where the catalogue does not know the model."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Results to read the answers from, instead of drawing them."),
    ] = None,
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the new files.")] = Path("."),
) -> None:
    """Turn a config of the published library into a study.

    It writes NAME.yaml and NAME_entries.yaml and says what it changed and why. Last it lists what it cannot know (the
    commit of a model, your own data sets); `refusal-eval pin NAME.yaml` finds commits, and `snakemake -n` refuses the
    study until nothing is missing.

    With --results the study starts no engine: it reads the published library's answers and verdicts for this config
    (FOLDER/SPLIT/answers.json and judge_scores.json, or deeper; see docs/reference/published_protocol.md).
    """
    if name is not None and not re.match(SLUG, name):
        raise typer.BadParameter(f"--name {name}: must be {FORMS[SLUG]}")
    study = name or re.sub(r"[^a-z0-9._-]+", "-", config.stem.lower()).strip("-._") or "imported"
    shipped = shipped_names(ROOT)
    own = (into / f"{study}.yaml").resolve() == config.resolve()
    if name is None and (own or study in shipped.taken):
        study += "-imported"
    gpus = gpus or len(read_gpus(strangers=False).gpus) or None
    result = imported_study(config, study, shipped, gpus, protocol, into, results)
    files = {f"{study}.yaml": ("config.schema.json", result.study | {"catalogue": [f"{study}_entries.yaml"]})}
    files[f"{study}_entries.yaml"] = ("catalogue.schema.json", result.catalogue)
    for file in files:
        if (into / file).exists():
            raise UserError(f"{into / file} is there already; choose another --name or move it away")
    for file, (schema, value) in files.items():
        with written_whole(into / file) as handle:
            place = os.path.relpath(ROOT / "config" / schema, into)
            handle.write(f"# yaml-language-server: $schema={place}\n")
            handle.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110))
    typer.echo(f"Wrote {' and '.join(str(into / file) for file in files)}.\n\nChanged, and why:")
    typer.echo("\n".join(f"  - {note}" for note in result.notes))
    if result.todo:
        typer.echo("\nTo do before it runs:")
        typer.echo("\n".join(f"  - {todo}" for todo in result.todo))


def imported_study(
    file: Path, name: str, shipped: Shipped, gpus: int | None, protocol: str, into: Path, results: Path | None
) -> Imported:
    """Return the study and the catalogue entries that a published config stands for.

    Raises:
        UserError: if it is no such config, or `results` do not belong to it.
    """
    try:
        config = read_yaml(file, of_user=True)
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read as YAML: {error}") from error
    if not isinstance(config, dict):
        raise UserError(f"{file} is no config of the published library: it is no mapping")
    try:
        weights = weights_folder(config, into)
        result = imported(config, name, shipped, gpus, protocol, weights)
        if weights is not None and not (into / weights).is_dir():
            result.do("folder", name=name, weights=weights, into=into)
        if results is not None:
            found = read_results(results, result.study["splits"])
            with_results(result, found, os.path.relpath(results, into), shipped.judges)
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
    return result
