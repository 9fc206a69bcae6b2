"""What the rules in workflow/rules/generate.smk ask of a study: what decides its requests, and what is the answer.

How messages become token ids is decided alike for the prompts of a model and of a judge.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.config.change import changes, changes_of
from refusal_eval.config.kinds import CHANGES, LOG_READERS
from refusal_eval.config.log_reader import files_of
from refusal_eval.config.protocol import DEFAULT
from refusal_eval.core.errors import UserError
from refusal_eval.core.recorded_files import ANSWERS, IN_ROWS, split_folder
from refusal_eval.study.study import Study
from refusal_eval.workflow.rule_files import content_hash
from refusal_eval.workflow.whole_study import scored_turns

FURTHER = ("prefill", "frame")  # see `Renderer`; left out where they are not used


def request_params(study: Study, model: str, split: str) -> dict[str, Any]:
    """Return the settings of model and study that enter the requests of a cell."""
    entry = study.config["model_entries"][model]
    params = rendering_params(study.config, entry) | {
        # The identity file of another engine may be older than the requests, and keys hold the engine's id.
        "engine": entry["engine"],
        "sampling": study.engines[entry["engine"]].sent_sampling(entry["sampling"]),
        "samples": study.samples_of(split),
        "seed": study.config["seed"],
    }
    if study.protocol.name != DEFAULT:
        params |= {"protocol": study.protocol.name, "sampling": entry["sampling"] | study.protocol.sampling}
    for change in changes_of(entry):
        params |= change.request_params(entry, split in study.splits)
    if study.config["split_entries"][split].get("dialogue"):
        # Only the answer to a turn, without its reasoning, stands in the history of the next one.
        params["dialogue"] = {"reasoning": entry["reasoning"]}
    return params


def segments(study: Study, model: str) -> dict[str, Any]:
    """Return what decides which part of a model's response is the answer."""
    entry = study.config["model_entries"][model]
    trust = study.config["engine_entries"][entry["engine"]].get("trust_remote_code", False)
    return {"reasoning": entry["reasoning"], "trust_remote_code": trust} | _whole(study, model)


def _whole(study: Study, model: str) -> dict[str, Any]:
    """Return why responses are judged whole, whatever marks they hold, where they are."""
    by_protocol = {"protocol": study.protocol.name} if study.protocol.judges_whole else {}
    return by_protocol | ({"judged_whole": True} if study.config["model_entries"][model]["judged_whole"] else {})


def recorded_file(study: Study, model: str, split: str, name: str) -> str:
    """Return a file of a cell's recorded answers; those that came in rows are in the file of prompts."""
    if study.every_model[model].recorded == IN_ROWS:
        return study.paths.of("prompts", split=split)
    return str(split_folder(str(study.every_model[model].recorded), split) / name)


def recorded_reading(study: Study, model: str, split: str) -> dict[str, Any]:
    """Return what decides how a cell's recorded answers are read."""
    reasoning = study.config["model_entries"][model]["reasoning"]
    how = {"model": model, "reasoning": reasoning, "samples": study.config["samples"]} | _whole(study, model)
    if study.every_model[model].recorded == IN_ROWS:
        return how | {IN_ROWS: True}
    return how | {"sha256": content_hash(recorded_file(study, model, split, ANSWERS))}


def logged_reading(study: Study, model: str, split: str) -> dict[str, Any]:
    """Return what decides how a cell's answers are read out of a file."""
    reasoning = study.config["model_entries"][model]["reasoning"]
    how = {"model": model, "reasoning": reasoning, "samples": study.config["samples"]} | _whole(study, model)
    return how | _in_file(study, model, split)


def logged_labels(study: Study, judge: str, model: str, split: str) -> dict[str, Any]:
    """Return what decides which labels are read with them."""
    scored = scored_turns(study, split)
    turns = {} if scored in (None, "all") else {"scored": scored}
    return {"by": study.judges[judge].by} | _in_file(study, model, split) | turns


def logged_files(study: Study, model: str) -> list[str]:
    """Return the files that a model's answers are read from."""
    named = study.every_model[model].recorded_file
    assert named is not None
    try:
        return [str(path) for path in files_of(Path(named.file))]
    except UserError:
        return [named.file]


def _in_file(study: Study, model: str, split: str) -> dict[str, Any]:
    named = dict(study.config["model_entries"][model]["recorded"])
    others = sorted(set(study.splits) - {split})
    named = {key: one for key, one in named.items() if key not in ("file", "may_block")}
    hashes = [content_hash(path) for path in logged_files(study, model)]
    return {"split": split, "others": others, "sha256": hashes, "named": named}


def labelled_cells(study: Study) -> list[tuple[str, str]]:
    """Return model and split of the cells whose answers may have labels that came with them."""
    return [(model, split) for model in study.recorded_models for split in study.splits]


def names_of_answering(study: Study, model: str) -> list[str]:
    """Return the names that gold may have for a model."""
    file = study.every_model[model].recorded_file
    names = [model, study.label("model", model), *([file.model] if file is not None and file.model else [])]
    return list(dict.fromkeys(names))


def log_readers(study: Study) -> list[Path]:
    """Return the modules of the classes that may read its files of answers, for `code_version`."""
    return [LOG_READERS.module(name) for name in LOG_READERS.names()] if study.models_in_files else []


def fetched_changes(study: Study) -> list[str]:
    """Return the files that stand for copies in the cache of what changes the models."""
    return [source.copy_file(study.paths.cache) for source in study.fetched("models").values()]


def changed_prompts(study: Study, model: str, split: str) -> list[str]:
    """Return the file with the prompts of a cell that a change of the model made, as a list; nothing without one."""
    return [
        change.asked_prompts(study.paths, model, split)
        for change in (changes_of(study.every_model[model]) if model in study.every_model else ())
        if change.of_prompts
    ]


def placed_requests(study: Study, model: str, split: str) -> list[str]:
    """Return the requests of a cell whose model is changed at tokens that each of them names, as a list."""
    entry = study.every_model.get(model)
    asked = changes_of(entry) if entry is not None and entry.asks_engine else ()
    return [study.paths.of("requests", model=model, split=split) for change in asked if change.at_positions]


def identity_files(study: Study, model: str) -> dict[str, list[str]]:
    """Return the identity file of each change of a model, by the change's name; of others none."""
    asked = {change.name for change in changes_of(study.every_model[model])}
    return {one.name: one.identity_files(study.paths, model) if one.name in asked else [] for one in changes()}


def identity_files_of_all(study: Study) -> dict[str, list[str]]:
    """Return the identity files of the changes of all models, by the change's name."""
    each = [identity_files(study, model) for model in sorted(study.every_model)]
    return {name: [file for files in each for file in files[name]] for name in CHANGES.names()}


def loaded_files(study: Study, batch: str) -> dict[str, list[str]]:
    """Return the files of the changes of a batch's models that its load is given, by the change's name."""
    models = sorted({cell.model for cell in study.generation_batches[batch]} - set(study.probes))
    asked = [(change, model) for model in models for change in changes_of(study.every_model[model])]
    return {
        name: [f for change, model in asked if change.name == name for f in change.loaded_files(study.paths, model)]
        for name in CHANGES.names()
    }


def changing_modules(study: Study, *models: str, code: str = "") -> list[Path]:
    """Return the files of the code behind changes of models, for `code_version`.

    Args:
        code: the attribute of `Change` that names more of it: `load_code` or `words_code`.
    """
    asked = {change.name: change for model in models for change in changes_of(study.every_model[model])}
    more = filter(None, (getattr(change, code, "") for change in asked.values()))
    modules = [importlib.import_module(place.partition(":")[0]) for place in more]
    return [*map(CHANGES.module, asked), *(Path(str(module.__file__)) for module in modules)]


def rendering_params(config: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an entry, its engine and the study that a rendered prompt depends on."""
    engine = config["engine_entries"][entry["engine"]]
    names = ("system_prompt", "template", "template_options", "date")
    return (
        {name: entry[name] for name in names}
        | {name: entry[name] for name in FURTHER if entry.get(name)}
        | {
            "trust_remote_code": engine.get("trust_remote_code", False),
            "max_model_len": engine.get("max_model_len"),
            "determinism": config["determinism"],
            "template_sha256": [content_hash(path) for path in template_file(entry)],
        }
    )


def template_file(entry: Mapping[str, Any]) -> list[str]:
    """Return a model's or judge's own template file, as a list for `input`: empty when it has none."""
    return [] if entry["template"] in ("default", "none") else [entry["template"]]
