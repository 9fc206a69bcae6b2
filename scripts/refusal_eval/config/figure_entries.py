"""The figures of a study, as users write them in YAML: one entry each, and what an entry needs of its study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from refusal_eval.config.datasets import SCORED_BY_DEFAULT
from refusal_eval.config.shapes import Entry, KeyPath, Slug, Text, Whole
from refusal_eval.core.hints import nearest

Mistake = tuple[KeyPath, str]  # where in `figures`, what is wrong

JUDGE = Field(None, description="Judge whose verdicts it shows. Default: `primary_judge`.")
SPLITS = Field(None, min_length=1, description="Splits that it shows, in this order. Default: all.")
READING = Field(None, description="`strict` or `broad` for all splits. Default: the headline reading of each split.")
ORDER: Any = Field(
    "listed",
    description="Models as they are `listed`, by `name` (their label), or by `rate`: the highest mean over splits "
    "first.",
)


class FigureLabels(Entry):
    """Names that one figure shows instead of those of the catalogue."""

    models: dict[Slug, Text] = Field({}, description="Labels of models.")
    splits: dict[Slug, Text] = Field({}, description="Labels of splits.")
    judges: dict[Slug, Text] = Field({}, description="Labels of judges.")
    gold: dict[Slug, Text] = Field({}, description="Labels of gold sets.")
    categories: dict[Text, Text] = Field({}, description="Labels of the splits' categories.")


class FigureBase(Entry):
    """What all figures have."""

    name: Slug = Field(description="Name of its files: `figures/<name>.pdf`, `.svg`, `.png`, `.csv` and `.caption.*`.")
    title: str | None = Field(None, description="First sentence of its caption. Default: what the kind shows.")
    labels: FigureLabels = Field(FigureLabels(), description="Names that it shows instead of those of the catalogue.")
    width: Literal["column", "page"] | None = Field(
        None,
        description="`column` is 8.5 cm, `page` 17.5 cm wide. Default: what its number of columns or panels asks for.",
    )


class OfModels(FigureBase):
    """What figures have that show models under one judge."""

    models: list[Slug] | None = Field(
        None, min_length=1, description="Models that it shows, in this order. Default: all."
    )
    judge: Slug | None = JUDGE


class HeatmapFigure(OfModels):
    """Refusal rates as tiles: a row per model, a column per split, rate and interval in each."""

    kind: Literal["heatmap"]
    splits: list[Slug] | None = SPLITS
    reading: Literal["strict", "broad"] | None = READING
    order: Literal["listed", "name", "rate"] = ORDER


class HistogramsFigure(OfModels):
    """Histograms of c(x): a row of panels per model, a column per split."""

    kind: Literal["histograms"]
    splits: list[Slug] | None = SPLITS
    order: Literal["listed", "name", "rate"] = ORDER


class TradeoffFigure(OfModels):
    """Safety (refusal of the splits to be refused) against over-refusal (of those to be answered), each split in its
    headline reading, with joint regions and the Pareto front. It pools all splits of the study, and the front is that
    of all its models."""

    kind: Literal["tradeoff"]


class RefusalKindsFigure(OfModels):
    """How answers refuse: stacked shares of the kinds of refusal that the judge tells."""

    kind: Literal["refusal_kinds"]
    splits: list[Slug] | None = SPLITS
    reading: Literal["strict", "broad"] = Field(
        "broad", description="`strict` counts refusals, `broad` partial refusals as well."
    )
    by: Literal["split", "all"] | None = Field(
        None, description="A bar for each model and `split`, or for each model over `all`. Default: what fits a page."
    )
    order: Literal["listed", "name", "rate"] = ORDER


class CategoriesFigure(OfModels):
    """A forest of the categories of each split: refusal rate and interval of every model."""

    kind: Literal["categories"]
    splits: list[Slug] | None = SPLITS
    reading: Literal["strict", "broad"] | None = READING
    most: Whole = Field(
        12, ge=1, le=60, description="Categories per split, those with the most prompts; fewer where a page is full."
    )
    order: Literal["listed", "name", "rate"] = ORDER


class TauSweepFigure(OfModels):
    """What the temperature tau of c(x) does: c(x), or the share of one of its bands, over a range of tau."""

    kind: Literal["tau_sweep"]
    splits: list[Slug] | None = SPLITS
    measure: Literal["mean", "refusing", "mixed", "complying"] = Field(
        "mean", description="`mean` of c(x) over prompts, or the share of prompts in that band."
    )
    order: Literal["listed", "name", "rate"] = ORDER


class TurnsFigure(OfModels):
    """Refusal rate by turn of dialogues."""

    kind: Literal["turns"]
    splits: list[Slug] | None = Field(
        None, min_length=1, description="Splits of dialogues that it shows, in this order. Default: all of them."
    )
    reading: Literal["strict", "broad"] | None = READING
    order: Literal["listed", "name", "rate"] = ORDER


class JudgeAgreementFigure(FigureBase):
    """Kappa of every two judges as tiles: broad below the diagonal, strict above it."""

    kind: Literal["judge_agreement"]
    judges: list[Slug] | None = Field(
        None, min_length=2, description="Judges that it shows, in this order. Default: all."
    )
    split: Slug | None = Field(None, description="The split whose answers count. Default: all splits together.")


class CalibrationFigure(FigureBase):
    """How well the probabilities of judges are calibrated: a reliability diagram per judge and gold set."""

    kind: Literal["calibration"]
    judges: list[Slug] | None = Field(
        None, min_length=1, description="Judges that it shows, in this order. Default: those that give probabilities."
    )
    gold: list[Slug] | None = Field(None, min_length=1, description="Gold sets that it shows. Default: all.")


Figure = Annotated[
    HeatmapFigure
    | HistogramsFigure
    | TradeoffFigure
    | RefusalKindsFigure
    | CategoriesFigure
    | TauSweepFigure
    | TurnsFigure
    | JudgeAgreementFigure
    | CalibrationFigure,
    Field(discriminator="kind"),
]

# Kinds of judges that can tell the kind of a refusal, and those that can give probabilities.
TELL_KINDS = ("reasoned", "panel", "python")
GIVE_PROBABILITIES = ("llm", "trained", "classifier", "panel", "python")
MOST_CURVES = 8  # as many as `plots.series` can tell apart


def figure_mistakes(
    figures: Any, study: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]
) -> Iterator[Mistake]:
    """Yield what is wrong with a study's figures as they are written (valid or not).

    Args:
        figures: what stands under `figures`.
        study: the names in the study's `models`, `splits`, `judges` and `gold`, its `samples`, `protocol` and
            `primary_judge`.
        entries: the entries of the study's splits and judges as they are written, by section and name.
    """
    seen: set[str] = set()
    for index, figure in enumerate(figures if isinstance(figures, list) else ()):
        if not isinstance(figure, Mapping):
            continue
        name = figure.get("name")
        if isinstance(name, str) and name in seen:
            yield (index, "name"), f"two figures have the name `{name}`; their files would be the same"
        seen.add(str(name))
        for path, message in [*_names(figure, study), *_needs(figure, study, entries)]:
            yield (index, *path), message


def _names(figure: Mapping[str, Any], study: Mapping[str, Any]) -> Iterator[Mistake]:
    """Names must be the study's, and each stands once."""
    for key in ("models", "splits", "judges", "gold"):
        names = _listed(figure, key)
        for index, name in names:
            if name not in study[key]:
                yield (key, index), f"`{name}` is not in `{key}` of the study" + nearest(name, study[key])
            elif name in [other for place, other in names if place < index]:
                yield (key, index), f"`{name}` is named twice"
        labels = figure.get("labels")
        labels = labels.get(key) if isinstance(labels, Mapping) else None
        for name in labels if isinstance(labels, Mapping) else ():
            if name not in study[key]:
                yield ("labels", key, name), f"`{name}` is not in `{key}` of the study" + nearest(name, study[key])
    for key, section in (("judge", "judges"), ("split", "splits")):
        one = figure.get(key)
        if isinstance(one, str) and one not in study[section]:
            yield (key,), f"`{one}` is not in `{section}` of the study" + nearest(one, study[section])


def _listed(figure: Mapping[str, Any], key: str) -> list[tuple[int, str]]:
    """Places and names of what is written as a list of names."""
    chosen = figure.get(key)
    return [(i, name) for i, name in enumerate(chosen if isinstance(chosen, list) else ()) if isinstance(name, str)]


def _needs(
    figure: Mapping[str, Any], study: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]
) -> Iterator[Mistake]:
    """What the study must have for a kind of figure."""
    kind, here = figure.get("kind"), ("kind",)
    splits, judges = entries["splits"], entries["judges"]
    if kind == "tradeoff":
        found = {split.get("expectation") for split in splits.values()}
        for wanted in ("comply", "refuse"):
            if wanted not in found:
                yield (
                    here,
                    f"`tradeoff` needs splits expected to comply and to refuse; none has `expectation: {wanted}`",
                )
    elif kind == "tau_sweep":
        if study["samples"] == 1:
            yield here, "`tau_sweep` needs several answers per prompt: with `samples: 1` c(x) does not depend on tau"
        if study["protocol"] == "compat":
            yield here, "`tau_sweep` is not for `protocol: compat`, whose c(x) has a tau of its own"
        yield from _curves(figure, study, study["splits"])
    elif kind == "judge_agreement" and len(study["judges"]) < 2:
        yield here, "`judge_agreement` needs two judges, and the study has one"
    elif kind == "turns":
        yield from _turns(figure, study, splits)
    elif kind == "categories":
        yield from _categories(figure, splits)
    elif kind == "refusal_kinds":
        judge = figure.get("judge") or study["primary_judge"] or next(iter(study["judges"]), None)
        of = judges.get(str(judge)) or {}
        if not _tells_kinds(of):
            able = [name for name, entry in judges.items() if _tells_kinds(entry)]
            form = ", form published" if of.get("form") == "published" else ""
            message = f"judge `{judge}` (kind {of.get('kind')}{form}) does not tell kinds of refusal"
            yield ("judge",) if "judge" in figure else here, message + _able(able)
    elif kind == "calibration":
        yield from _calibration(figure, study, judges)


def _tells_kinds(judge: Mapping[str, Any]) -> bool:
    """Whether a judge tells kinds of refusal; of an entry without a kind another mistake is told."""
    return judge.get("kind", TELL_KINDS[0]) in TELL_KINDS and judge.get("form") != "published"


def _turns(figure: Mapping[str, Any], study: Mapping[str, Any], splits: Mapping[str, Any]) -> Iterator[Mistake]:
    """Rates by turn need dialogues of which several turns are scored."""
    dialogues = [name for name, split in splits.items() if split.get("dialogue")]
    several = [name for name in dialogues if _scored(splits[name]["dialogue"]) != "last"]
    if not dialogues:
        yield ("kind",), "`turns` needs a split of dialogues, and the study has none"
    elif not several:
        message = (
            "`turns` needs dialogues of which several turns are scored; in this study only the last one of each is"
        )
        yield ("kind",), f"{message} (`dialogue.scored` of a split)"
    yield from _curves(figure, study, several)
    for index, name in _listed(figure, "splits") if several else ():
        if name in dialogues and name not in several:
            yield (
                ("splits", index),
                f"of the dialogues of `{name}` only the last turn is scored" + nearest(name, several),
            )
        elif name in splits and name not in dialogues:
            yield ("splits", index), f"`{name}` is no split of dialogues" + nearest(name, several)


def _scored(dialogue: Any) -> str | None:
    """Which turns of dialogues are scored; None where the entry does not tell, which is another mistake."""
    if not isinstance(dialogue, Mapping):
        return None
    return dialogue.get("scored") or SCORED_BY_DEFAULT.get(str(dialogue.get("mode")))


def _categories(figure: Mapping[str, Any], splits: Mapping[str, Any]) -> Iterator[Mistake]:
    """A forest of categories needs splits with a column of them."""
    sorted_in = [
        name
        for name, split in splits.items()
        if isinstance(columns := split.get("columns"), Mapping) and columns.get("category")
    ]
    if splits and not sorted_in:
        yield (
            ("kind",),
            "`categories` needs a split with a column of categories (`columns.category`); the study has none",
        )
    for index, name in _listed(figure, "splits") if sorted_in else ():
        if name in splits and name not in sorted_in:
            told = f"`{name}` has no column of categories (`columns.category`)"
            yield ("splits", index), told + nearest(name, sorted_in)


def _curves(figure: Mapping[str, Any], study: Mapping[str, Any], splits: Sequence[str]) -> Iterator[Mistake]:
    """Curves beyond these could not be told apart, whichever of models and splits have a panel each."""
    models, shown = len(_listed(figure, "models") or study["models"]), len(_listed(figure, "splits") or splits)
    if min(models, shown) > MOST_CURVES:
        message = f"a panel shows at most {MOST_CURVES} curves, and there are {models} models and {shown} splits"
        yield ("kind",), f"{message}: name fewer under `models` or `splits`"


def _calibration(figure: Mapping[str, Any], study: Mapping[str, Any], judges: Mapping[str, Any]) -> Iterator[Mistake]:
    able = [name for name, entry in judges.items() if entry.get("kind") in GIVE_PROBABILITIES]
    if not study["gold"]:
        yield ("kind",), "`calibration` needs gold; name some in `gold` of the study"
    if figure.get("judges") is None and judges and not able:
        yield ("kind",), "`calibration` needs a judge that gives probabilities, and the study has none"
    for index, name in _listed(figure, "judges"):
        if name in judges and name not in able:
            of = judges[name].get("kind")
            yield ("judges", index), f"judge `{name}` (kind {of}) gives no probabilities" + _able(able)


def _able(names: Sequence[str]) -> str:
    return f"; of the study's judges {', '.join(f'`{name}`' for name in names) or 'none'} can"
