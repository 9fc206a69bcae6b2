"""The files of a new study: what they hold, as values and as text. Pure functions."""

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.program.text_templates import render_template
from refusal_eval.tools.new.model_facts import THINK, slug
from refusal_eval.tools.new.model_places import ChosenModel

MAX_TOKENS, MAX_TOKENS_REASONED = 512, 4096
LEAST_LENGTH = 4096  # prompt and answer
LENGTH_NOT_SAID = 4096
KV_ROOM, GIB = 2 * 2**30, 2**30
PLAIN = re.compile(r"[A-Za-z./][A-Za-z0-9_./-]*")
YAML_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
DTYPES = ("float16",)  # all else is served in the default


@dataclass(frozen=True)
class NewStudy:
    """What a user chose."""

    name: str
    models: Sequence[ChosenModel]
    against: Sequence[ChosenModel]
    splits: Sequence[str]
    judges: Sequence[str]
    gold: Sequence[str]
    samples: int
    allow: Sequence[str] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    cpu_memory: int | None = None  # bytes of main memory, where engines run on a CPU
    compares: bool = True  # whether a study has comparisons

    @property
    def places(self) -> list[ChosenModel]:
        """All models, those to compare with last."""
        return [*self.models, *self.against]


@dataclass(frozen=True)
class Reference:
    """The catalogue's model whose way of drawing answers the new ones share."""

    name: str
    sampling: Mapping[str, Any]
    max_model_len: int


def study_text(study: NewStudy, entries_file: str | None, words: Mapping[str, Any]) -> str:
    """Return the study file.

    Args:
        entries_file: name of the file with its own entries; None if there are none.
        words: what is said of splits, judges and gold, by name.
    """
    reference = study.against[0].name if len(study.against) == 1 and study.models and study.compares else None
    values = {"study": study, "entries": entries_file, "words": words, "reference": reference}
    return _render("study.yaml.j2", values)


def entries_text(study: NewStudy, study_file: str, reference: Reference | None, folder: Path) -> str | None:
    """Return the file with the entries that the catalogue lacks; None if it lacks none.

    Args:
        study_file: name of the study file.
        reference: the catalogue's model that the new ones are drawn like.
        folder: the folder of the file: paths below it are written relative to it.
    """
    own = [place for place in study.places if not place.in_catalogue]
    if not own:
        return None
    sampling, source = drawing(own, study, reference)
    engines = {
        place.name: engine_values(place, sampling["max_tokens"], reference, study.cpu_memory, folder)
        for place in own
        if place.weights
    }
    models = {place.name: model_values(place, sampling, engines.get(place.name)) for place in own}
    values = {"study_file": study_file, "engines": engines, "models": models, "drawn": source}
    return _render("entries.yaml.j2", values)


def drawing(own: Sequence[ChosenModel], study: NewStudy, reference: Reference | None) -> tuple[dict[str, Any], str]:
    """Return the sampling that all new models of a study share, and where it is from, in words."""
    said = next((place for place in own if place.facts.sampling), None)
    if reference is not None:
        sampling, source = dict(reference.sampling), f"as `{reference.name}` of the catalogue"
    elif said is not None:
        sampling, source = dict(said.facts.sampling), f"as generation_config.json of {said.word}"
    else:
        sampling, source = {"temperature": 1.0}, "at temperature 1"
    longest = MAX_TOKENS_REASONED if any(place.facts.reasons for place in own) else MAX_TOKENS
    sampling["max_tokens"] = study.max_tokens or sampling.get("max_tokens", longest)
    if study.temperature is not None:
        sampling["temperature"] = study.temperature
        source += ", with the temperature that you gave"
    return dict(sorted(sampling.items(), key=lambda item: item[0] != "max_tokens")), source


def engine_values(
    place: ChosenModel, max_tokens: int, reference: Reference | None, cpu_memory: int | None, folder: Path
) -> dict[str, Any]:
    """Return the keys of an engine's entry."""
    weights = dict(place.weights)
    if "path" in weights:
        inside = os.path.relpath(weights["path"], folder)
        weights["path"] = weights["path"] if inside.startswith("..") else inside
    wanted = max(LEAST_LENGTH, 2 * max_tokens, reference.max_model_len if reference else 0)
    values: dict[str, Any] = {"weights": weights, "max_model_len": min(wanted, place.facts.longest or LENGTH_NOT_SAID)}
    if place.facts.dtype in DTYPES:
        values["dtype"] = place.facts.dtype
    if cpu_memory:
        share = (place.facts.weights * 1.3 + KV_ROOM) / cpu_memory
        values["memory_share"] = min(0.9, max(0.25, math.ceil(share * 20) / 20))
    return values | dict(place.about)


def model_values(place: ChosenModel, sampling: Mapping[str, Any], engine: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the keys of a model's entry."""
    if place.like:
        return {"like": place.like, "label": place.label, "sampling": dict(place.facts.sampling)}
    own = dict(sampling)
    if engine is not None and own["max_tokens"] >= engine["max_model_len"]:
        own["max_tokens"] = engine["max_model_len"] // 2
    values: dict[str, Any] = {"engine": place.engine or place.name, "label": place.label}
    if not place.facts.has_template:
        values["template"] = "none"
    if place.facts.reasons:
        values["reasoning"] = dict(zip(("start", "end"), THINK, strict=True))
    return values | {"sampling": own}


def own_names(places: Sequence[ChosenModel], taken: Mapping[str, str]) -> list[ChosenModel]:
    """Return the places with names and labels that no other has.

    Args:
        taken: the labels of the catalogue's models, by name.
    """
    names, labels, found = (
        set(taken),
        {taken[place.name] for place in places if place.in_catalogue},
        list[ChosenModel](),
    )
    for place in places:
        if not place.in_catalogue:
            name = next(name for name in _numbered(place.name, "-") if name not in names)
            label = next(label for label in _numbered(place.label, " ") if label not in labels)
            place = ChosenModel(**{**vars(place), "name": name, "label": label})
            names.add(name)
            labels.add(label)
        found.append(place)
    return found


def study_name(places: Sequence[ChosenModel]) -> str:
    """Return what to call a study of these models."""
    return slug(places[0].name)


def _numbered(text: str, separator: str) -> list[str]:
    return [text, f"{text}{separator}own", *(f"{text}{separator}{number}" for number in range(2, 100))]


def _render(name: str, values: Mapping[str, Any]) -> str:
    return render_template(Path(__file__).with_name(name), values, {"y": _yaml, "flow": _flow})


def _yaml(value: Any) -> str:
    """Return a value as YAML: plain where that is the same."""
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in YAML_WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


def _flow(value: Any) -> str:
    """Return a mapping or a list on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _yaml(value)
