"""Make a study and a catalogue file of ours out of a config of the published library of Refusal Steering.

Usage: python scripts/import_published_config.py CONFIG.yaml [--name NAME] [--protocol default|compat] [--gpus N]
                                                  [--results FOLDER]

Writes NAME.yaml and NAME_entries.yaml, and says what it changed and why. What it cannot know (the commit of a model, a
data set of your own) it lists last; `make pin CONFIG=NAME.yaml` finds commits, and `snakemake -n` refuses the study
until all is filled in.

With --results the study asks no engine: it reads the answers and the verdicts that the published library wrote for this
config (FOLDER/SPLIT/answers.json and judge_scores.json, there or below; see docs/published_results.md).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from refusal_eval.compat.published_config import Imported, Shipped, ShippedEngine, imported
from refusal_eval.compat.published_results import read_results, with_results
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import written_whole
from refusal_eval.core.yaml_files import read_yaml

ROOT = Path(__file__).resolve().parent.parent


def shipped_names(root: Path) -> Shipped:
    """Return what of config/catalogue/ an import asks."""
    entries: dict[str, dict[str, Any]] = {"datasets": {}, "judges": {}, "engines": {}, "models": {}}
    for file in sorted((root / "config" / "catalogue").rglob("*.yaml")):
        data = read_yaml(file) or {}
        for section in entries:
            entries[section] |= data.get(section) or {}
    engines = entries["engines"]
    reasoning = {entry.get("engine"): entry.get("reasoning") for entry in entries["models"].values()}
    repos = {
        entry["weights"]["repo"]: ShippedEngine(name, entry.get("tensor_parallel", 1), reasoning.get(name), _off(entry))
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
    return Shipped(list(splits), list(entries["judges"]), repos, off, {*engines, *entries["models"]})


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


def gpus_here() -> int | None:
    """Return how many GPUs nvidia-smi lists; None where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    run = subprocess.run([program, "-L"], capture_output=True, text=True, check=False)
    return sum(line.startswith("GPU ") for line in run.stdout.splitlines()) or None


def written(result: Imported, folder: Path) -> list[Path]:
    """Write the two files; return them.

    Raises:
        UserError: if one is there already.
    """
    name = result.study["study"]
    entries, study = folder / f"{name}_entries.yaml", folder / f"{name}.yaml"
    for file in (entries, study):
        if file.exists():
            raise UserError(f"{file} is there already; choose another --name or move it away")
    schema = "# yaml-language-server: $schema={}\n"
    for file, schema_name, value in (
        (entries, "catalogue.schema.json", result.catalogue),
        (study, "config.schema.json", result.study | {"catalogue": [entries.name]}),
    ):
        with written_whole(file) as handle:
            handle.write(schema.format(os.path.relpath(ROOT / "config" / schema_name, folder)))
            handle.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110))
    return [study, entries]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("config", type=Path, help="YAML file of the published library")
    parser.add_argument("--name", help="name of the study; default: the file's name")
    parser.add_argument("--protocol", choices=("default", "compat"), default="default")
    parser.add_argument("--gpus", type=int, help="what `auto` stands for where the catalogue does not know the model")
    parser.add_argument(
        "--results", type=Path, help="folder of results to read the answers from, instead of drawing them"
    )
    parser.add_argument("--into", type=Path, default=Path("."), help="folder of the new files")
    options = parser.parse_args(arguments)
    name = options.name or re.sub(r"[^a-z0-9._-]+", "-", options.config.stem.lower()).strip("-._") or "imported"
    try:
        shipped = shipped_names(ROOT)
        own = (options.into / f"{name}.yaml").resolve() == options.config.resolve()
        if options.name is None and (own or name in shipped.taken):
            name += "-imported"
        try:
            config = read_yaml(options.config)
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
            raise UserError(f"{options.config} cannot be read as YAML: {error}") from error
        if not isinstance(config, dict):
            raise UserError(f"{options.config} is no config of the published library: it is no mapping")
        gpus = options.gpus or gpus_here()
        try:
            weights = weights_folder(config, options.into)
            result = imported(config, name, shipped, gpus, options.protocol, weights)
            if weights is not None and not (options.into / weights).is_dir():
                result.todo.append(
                    f"engines.{name}.weights.path: there is no folder {weights} as seen from {options.into}; write "
                    "where the weights lie"
                )
            if options.results is not None:
                folder = os.path.relpath(options.results, options.into)
                found = read_results(options.results, result.study["splits"])
                with_results(result, found, folder, shipped.judges)
        except UserError as error:
            raise UserError(f"{options.config}: {error}") from error
        files = written(result, options.into)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"Wrote {' and '.join(map(str, files))}.\n\nChanged, and why:")
    print("\n".join(f"  - {note}" for note in result.notes))
    if result.todo:
        print("\nTo do before it runs:")
        print("\n".join(f"  - {todo}" for todo in result.todo))
    return 0


if __name__ == "__main__":
    sys.exit(main())
