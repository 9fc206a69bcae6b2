"""Where a model that a user names is: in the catalogue, in a folder, or on the hub."""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_eval.config.catalogue import Catalogue
from refusal_eval.config.shapes import COMMIT, REPO, wrong_with_model_folder
from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest
from refusal_eval.data import hub
from refusal_eval.tools.new.model_facts import SMALL_FILES, ModelFacts, facts_of, slug
from refusal_eval.tools.pin.hub_questions import HEAD, licence_tag
from refusal_eval.weights.weight_fetching import weights_names

# Folders of a run that are named alike everywhere: the folder above says which run it was.
NOT_A_NAME = re.compile(r"(checkpoint|step|epoch|global_step)[-_]?\d+|final|best|model|merged|output|hf|weights|latest")
IN_THE_HUBS_CACHE = re.compile(r"models--(.+?)--(.+)")


@dataclass(frozen=True)
class ChosenModel:
    """A model that a user named, and where it is."""

    word: str  # as the user wrote it
    name: str  # of its entry; that of the catalogue, if it has one
    label: str = ""
    in_catalogue: bool = False
    like: str = ""  # the catalogue's model that this is, but for how answers are drawn
    engine: str = ""  # the catalogue's engine, of a model that has no entry of its own there
    weights: Mapping[str, str] = field(default_factory=dict)  # of an engine that the catalogue has not
    about: Mapping[str, Any] = field(default_factory=dict)  # more keys of such an engine
    facts: ModelFacts = field(default_factory=ModelFacts)
    note: str = ""  # what to say of it


def place_of(word: str, catalogue: Catalogue, revision: str | None, cache: str) -> ChosenModel:
    """Return where a model is.

    Args:
        word: a name of the catalogue, a folder, or a repository of the hub.
        catalogue: the shipped entries.
        revision: the commit of a repository, if the user names it; then the hub need not answer.
        cache: folder of what is fetched.

    Raises:
        UserError: if it is nowhere, or cannot be used.
    """
    if word in catalogue.valid["models"]:
        return ChosenModel(word, word, in_catalogue=True)
    if os.path.isdir(folder := os.path.expanduser(word)):
        return _in_folder(word, Path(folder))
    if re.fullmatch(REPO, word) and not os.path.lexists(folder):
        return _known_repository(word, catalogue) or _on_hub(word, revision, cache)
    if os.path.lexists(folder):
        raise UserError(f"{word} is a file; name the folder that holds config.json, tokenizer and *.safetensors")
    if "/" in word:
        raise UserError(f"there is no folder {word}")
    raise UserError(
        f"there is no folder `{word}` here, and no model `{word}` in the catalogue"
        f"{nearest(word, catalogue.valid['models'])}; a repository on the hub is written `owner/name`"
    )


def _in_folder(word: str, folder: Path) -> ChosenModel:
    names = os.listdir(folder)
    if "adapter_config.json" in names and "config.json" not in names:
        raise UserError(
            f"{word} holds a LoRA adapter and no whole model. Write the study for its base model, and add `lora: "
            "{kind: folder, path: ...}` to that model's entry (config/README.md, models)"
        )
    if wrong := list(wrong_with_model_folder(word, names)):
        raise UserError("; ".join(wrong))
    files = {name: (folder / name).read_text("utf-8", "replace") for name in SMALL_FILES if name in names}
    weights = sum((folder / name).stat().st_size for name in names if name.endswith(".safetensors"))
    label, facts = name_of_folder(folder), facts_of(files, weights)
    said = "" if facts.has_template else "it has no chat template, so prompts are sent as they are (`template: none`)"
    return ChosenModel(
        word, slug(label), label, weights={"kind": "folder", "path": str(folder.absolute())}, facts=facts, note=said
    )


def name_of_folder(folder: Path) -> str:
    """Return what to call the model of a folder: `final` and `checkpoint-500` alone say nothing."""
    parts = folder.resolve().parts
    for part in reversed(parts):
        if found := IN_THE_HUBS_CACHE.fullmatch(part):
            return found[2]
    last = parts[-1]
    return "-".join(parts[-2:]) if NOT_A_NAME.fullmatch(last.lower()) and len(parts) > 2 else last


def _known_repository(repo: str, catalogue: Catalogue) -> ChosenModel | None:
    """Return the catalogue's model with the weights of a repository, or its engine."""
    if names := catalogue.models_of(repo):
        more = f"; it also has {', '.join(names[1:])}" if names[1:] else ""
        return ChosenModel(repo, names[0], in_catalogue=True, note=f"the catalogue has {repo} as `{names[0]}`{more}")
    if engines := catalogue.engines_of(repo):
        name, label = slug(repo.partition("/")[2]), repo.partition("/")[2]
        return ChosenModel(repo, name, label, engine=engines[0], note=f"the catalogue has its engine `{engines[0]}`")
    return None


def _on_hub(repo: str, revision: str | None, cache: str) -> ChosenModel:
    """Return a repository at a commit, with what its small files say.

    Raises:
        UserError: if the hub does not answer and no commit is given, if the repository or the commit is not there, and
            if it has no weights that can be loaded.
    """
    label = repo.partition("/")[2]
    if revision and not re.fullmatch(COMMIT, revision):
        raise UserError(
            f"--revision {revision}: must be a full commit hash (40 hex digits); branches and tags can move"
        )
    log = logging.getLogger("new")
    asked = hub.Repository("model", repo, revision or HEAD, cache, log)
    try:
        info, facts = _asked(asked)
    except hub.Unreachable as error:
        if revision is None:
            raise UserError(f"{error}. {_by_hand(repo)}") from error
        note = "the hub does not answer, so nothing is known of it but the commit"
        return ChosenModel(repo, slug(label), label, weights=_weights(repo, revision), note=note)
    except UserError as error:
        raise UserError(f"{error}. {_by_hand(repo)}" if "gated" in str(error) else str(error)) from error
    about: dict[str, Any] = {"licence": licence_tag(info), "weights_gb": round(facts.weights / 1e9, 2) or None}
    about |= {"gated": True, "terms": asked.page} if info.gated else {}
    note = f"pinned at {str(info.sha)[:12]}, licence: {about['licence'] or 'none stated'}"
    return ChosenModel(
        *(repo, slug(label), label),
        weights=_weights(repo, str(info.sha)),
        about={key: value for key, value in about.items() if value is not None},
        facts=facts,
        note=note + ("" if facts.has_template else "; it has no chat template, so prompts are sent as they are"),
    )


def _asked(asked: hub.Repository) -> tuple[Any, ModelFacts]:
    if hub.offline():
        raise hub.Unreachable(f"{asked}: HF_HUB_OFFLINE is set, so the hub is not asked")
    library = hub.library()
    api = library.HfApi()
    info = hub.ask_hub(asked, lambda: api.repo_info(asked.repo, repo_type="model", revision=asked.revision, timeout=30))
    if info.gated:
        hub.ask_hub(asked, lambda: api.auth_check(asked.repo, repo_type="model"))
    at = hub.Repository("model", asked.repo, str(info.sha), asked.cache, asked.log)
    listed = hub.listed_files(at)
    weights = sum(listed[name].size for name in weights_names(listed, str(at)) if name.endswith(".safetensors"))
    small = [name for name in SMALL_FILES if name in listed]
    folder = hub.snapshot(at, small, listed)
    return info, facts_of({name: (folder / name).read_text("utf-8", "replace") for name in small}, weights)


def _weights(repo: str, revision: str) -> dict[str, str]:
    return {"kind": "hub", "repo": repo, "revision": revision}


def _by_hand(repo: str) -> str:
    return (
        f"If you know its commit, write the study all the same with `--revision SHA` (the files page of {repo} lists "
        "commits), or name a folder that holds the model"
    )
