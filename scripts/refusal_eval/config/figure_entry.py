"""Figures: what every kind of them has in its entry in a study, and what the rest of the workflow asks a kind.

A kind of figure is one class in a module of plots/ or of its feature: the schema of its entries, what it shows and is
drawn from, what it needs of its study, and the drawing. `FIGURES` (kinds.py) finds the kinds that ship.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from refusal_eval.config.feature_keys import MODEL_KEYS
from refusal_eval.config.kinds import FIGURES, OfKind
from refusal_eval.config.paper_format import FigureWidth
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Entry, Slug, Text
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.hints import nearest

SPLITS = Field(None, min_length=1, description="Splits that it shows, in this order. Default: all.")
READING = Field(None, description="`strict` or `broad` for all splits. Default: the headline reading of each split.")
MOST_CURVES = 8  # as many as `plots.curves` can tell apart


@dataclass(frozen=True)
class Shown:
    """What a figure shows, each in its order, once the study has filled in what its entry leaves open.

    `gold` is that on which the judges' cards are read, `curves` are those among the models (`FeatureKeys.curves`).
    """

    judges: list[str]
    models: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    gold: list[str] = field(default_factory=list)
    curves: dict[str, dict[str, float]] = field(default_factory=dict)
    further: dict[str, list[str]] = field(default_factory=dict)  # names for the wildcards of its kind


class FigureLabels(Entry):
    """Names that one figure shows instead of those of the catalogue."""

    models: dict[Slug, Text] = Field({}, description="Labels of models.")
    splits: dict[Slug, Text] = Field({}, description="Labels of splits.")
    judges: dict[Slug, Text] = Field({}, description="Labels of judges.")
    gold: dict[Slug, Text] = Field({}, description="Labels of gold sets.")
    categories: dict[Text, Text] = Field({}, description="Labels of the splits' categories.")


class Figure(Entry):
    """What all figures have. A kind says what it shows, and overrides what is otherwise for it.

    Attributes:
        report: its section in Snakemake's report (`config.report_sections`), and its name there.
        needs: what it is drawn from: nouns of the table of files (study/files.py), and names of analyses.
        wildcards: those in these files besides judge, model, split and gold; `Shown.further` fills them.
        keys: lists of a study, besides models, splits and judges, that it asks for what it shows.
    """

    report: ClassVar[tuple[str, str]]
    needs: ClassVar[tuple[str, ...]]
    wildcards: ClassVar[tuple[str, ...]] = ()
    keys: ClassVar[tuple[str, ...]] = ()

    kind: str
    name: Slug = Field(
        description="Name of its files: `figures/<name>.pdf`, `.svg`, `.png`, `.csv`, `.tex` and `.caption*`."
    )
    title: str | None = Field(None, description="First sentence of its caption. Default: what the kind shows.")
    labels: FigureLabels = Field(FigureLabels(), description="Names that it shows instead of those of the catalogue.")
    width: FigureWidth | None = Field(
        None,
        description="`column` or `page`, whose widths `paper` of the study sets; a length such as `13.9cm`; or the "
        "format of another paper, for the width of its text. Default: `column` or `page`, whichever its number of "
        "columns or panels needs.",
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return the figures of this kind in a study that names none."""
        return []

    def shown(self, study: StudyView) -> Shown:
        """Return what it shows."""
        raise NotImplementedError

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield what the study lacks for it; names are checked for all kinds (`name_mistakes`)."""
        yield from ()

    def draw(self, data: Any) -> Any:
        """Return it drawn, with its data and its caption (`plots.figure_data.Drawn`).

        Args:
            data: what it is drawn from (`plots.figure_data.FigureData`).

        Raises:
            UserError: if it cannot be drawn; a page with this reason then stands in its place.
        """
        raise NotImplementedError


class OfModels(Figure):
    """What figures have that show models under one judge."""

    models: list[Slug] | None = Field(
        None, min_length=1, description="Models that it shows, in this order. Default: all."
    )
    judge: Slug | None = Field(None, description="Judge whose verdicts it shows. Default: `primary_judge`.")

    def splits_of(self, study: StudyView) -> list[str]:
        """Return the splits that it shows."""
        return list(getattr(self, "splits", None) or study.splits)

    def shown(self, study: StudyView) -> Shown:
        """Return what it shows. Captions say how well the judge agrees with people on all gold."""
        judge = self.judge or study.primary_judge
        models = list(self.models or study.read_by(judge))
        return Shown([judge], models, self.splits_of(study), list(study.gold), curves_among(models, study))


class Ordered(OfModels):
    """What figures have that show models in an order of their own."""

    order: Literal["listed", "name", "rate"] = Field(
        "listed",
        description="Models as they are `listed`, by `name` (their label), or by `rate`: the highest mean over splits "
        "first.",
    )


AnyFigure = Annotated[Figure, OfKind(FIGURES)]


def curves_among(models: Sequence[str], study: StudyView) -> dict[str, dict[str, float]]:
    """Return the dose-response curves among these models, see `FeatureKeys.curves`."""
    entries = study.entries.get("models", {})
    found = {name: entries[name] for name in models if name in entries}
    curves: dict[str, dict[str, float]] = {}
    for name in MODEL_KEYS.names():
        curves |= MODEL_KEYS.get(name).curves(found, study.entries)
    return curves


def name_mistakes(figure: Figure, names: Mapping[str, Sequence[str]]) -> Iterator[Mistake]:
    """Yield names in an entry that are not the study's or stand twice.

    Args:
        names: those of the study's `models`, `splits`, `judges` and `gold`; a list that is none is left out.
    """
    for key, known in names.items():
        chosen = getattr(figure, key, None) or []
        for index, name in enumerate(chosen):
            if name not in known:
                yield (key, index), f"`{name}` is not in `{key}` of the study" + nearest(name, known)
            elif name in chosen[:index]:
                yield (key, index), f"`{name}` is named twice"
        for name in getattr(figure.labels, key):
            if name not in known:
                yield ("labels", key, name), f"`{name}` is not in `{key}` of the study" + nearest(name, known)
    for key in ("judge", "split"):
        one, listed = getattr(figure, key, None), names.get(f"{key}s")
        if one is not None and listed is not None and one not in listed:
            yield (key,), f"`{one}` is not in `{key}s` of the study" + nearest(one, listed)


def too_many_curves(shown: Shown) -> Iterator[Mistake]:
    """Yield that curves could not be told apart, whichever of models and splits have a panel each."""
    models, splits = len(shown.models), len(shown.splits)
    if min(models, splits) > MOST_CURVES:
        message = f"a panel shows at most {MOST_CURVES} curves, and there are {models} models and {splits} splits"
        yield ("kind",), f"{message}: name fewer under `models` or `splits`"


def able_judges(names: Sequence[str]) -> str:
    """Return the end of a message about a judge that cannot do something: which can."""
    return f"; of the study's judges {', '.join(f'`{name}`' for name in names) or 'none'} can"
