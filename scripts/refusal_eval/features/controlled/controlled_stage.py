"""What the rules in workflow/rules/controlled.smk ask of a study."""

from pathlib import Path
from typing import Any

from refusal_eval.core.files import read_json
from refusal_eval.features.controlled.controlled_files import controlled_splits
from refusal_eval.study.batches import load_names
from refusal_eval.study.study import Study
from refusal_eval.workflow import generation, weights_stage

ROLES = ("by", "target")


def model_of(study: Study, split: str, role: str) -> str:
    """Return the model of a role, `by` or `target`."""
    source = controlled_splits(study)[split]
    return source.by if role == "by" else source.target


def engine_name(study: Study, split: str, role: str) -> str:
    """Return the engine of the model of a role."""
    return study.settings.model_entries[model_of(study, split, role)].engine_name


def engine_file(study: Study, split: str, role: str) -> str:
    """Return the identity file of the engine of a role."""
    return study.paths.of("engines", engine=engine_name(study, split, role))


def template_files(study: Study, split: str) -> list[str]:
    """Return the template files of both models."""
    entries = [study.config["model_entries"][model_of(study, split, role)] for role in ROLES]
    return [path for entry in entries for path in generation.template_file(entry)]


def weights_of(study: Study, split: str, role: str) -> list[str]:
    """Return what must be there before the model of a role can be loaded."""
    return weights_stage.weights_files(study, engine_name(study, split, role))


def search_params(study: Study, split: str) -> dict[str, Any]:
    """Return the settings that decide what is searched for: the source, and how both models read a prompt."""
    entries = {role: study.config["model_entries"][model_of(study, split, role)] for role in ROLES}
    return {
        "source": controlled_splits(study)[split].param(),
        "seed": study.config["seed"],
        # The identity file of another engine may be older than the items, and keys hold what identifies it.
        "engines": {role: engine_name(study, split, role) for role in ROLES},
        "rendering": {role: generation.rendering_params(study.config, entry) for role, entry in entries.items()},
    }


def refusals_read(study: Study, split: str, noun: str) -> str:
    """Return the file with the target's answers, or with the verdicts on them, that say what it refuses with.

    Args:
        noun: `answers` or `verdicts`.
    """
    source = controlled_splits(study)[split]
    names = {"model": source.target, "split": source.refusals.split}
    return study.paths.of(noun, **names, **({"judge": source.refusals.judge} if noun == "verdicts" else {}))


def receipts(study: Study, split: str) -> list[str]:
    """Return the receipts of all searches of a split."""
    shards = controlled_splits(study)[split].shards
    return [study.paths.of("searches", split=split, load=load) for load in load_names(shards)]


def most_gpus(study: Study, split: str, root: Path) -> str:
    """Return the role of the engine that takes more GPUs.

    Args:
        root: the repository's folder, which holds the engines' environment.
    """
    engines = {role: study.engines[engine_name(study, split, role)] for role in ROLES}
    return max(ROLES, key=lambda role: engines[role].gpus(engines[role].device_here(root)))


def largest_engine(study: Study, split: str, root: Path) -> str:
    """Return the engine that takes more GPUs."""
    return engine_name(study, split, most_gpus(study, split, root))


def gpus(study: Study, split: str, load: str, root: Path, items: str) -> int:
    """Return the GPUs of a search; none when the store already has what it looks for.

    Args:
        root: the repository's folder, which holds the engines' environment.
        items: the file with what is searched for.
    """
    from refusal_eval.features.controlled.search_store import SearchStore, items_of_load

    engine = study.engines[largest_engine(study, split, root)]
    count = engine.gpus(engine.device_here(root))
    if count == 0 or not Path(items).is_file():
        return count
    file = read_json(items)
    store = SearchStore(study.paths.store, file["target"])
    return count if store.missing(item["key"] for item in items_of_load(file["items"], load)) else 0
