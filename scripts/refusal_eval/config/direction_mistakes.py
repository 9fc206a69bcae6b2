"""Mistakes of the directions of a study: models without activations, and sides that cannot be told apart."""

from collections.abc import Iterator

from refusal_eval.config.change import changes_of
from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.direction_entry import LEAST_NEGATIVE, RIDGE, Direction, Separation, Side
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import KeyPath
from refusal_eval.core.hints import nearest

# Parts of an engine's identity that a capture obeys; anything else was never tried and could give other activations.
CAPTURED = {"weights", "dtype", "trust_remote_code"}
# Arguments that choose among kernels of vLLM for one and the same computation.
KERNELS = {"gdn-prefill-backend"}


def direction_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong with the directions that a study names, and with its separations."""
    for name, direction in study.directions.items():
        here: KeyPath = ("directions", name)
        for message in _wrong_with_model(study, direction.model):
            yield (*here, "model"), message
        yield from _same_sides(here, direction)
        if too_few := _too_few(study, direction):
            yield (*here, "negative"), too_few
    seen = set[str]()
    for place, entry in study.separation.items():
        here = ("separation", place)
        if entry.name in seen:
            yield (*here, "name"), f"two have the name `{entry.name}`; their files would be the same"
        seen.add(entry.name)
        for index, model in enumerate(entry.models):
            for message in _wrong_with_model(study, model, separated=True):
                yield (*here, "models", index), message
        yield from _same_sides(here, entry)
    for where, side in study.sides():
        for field, message in _wrong_with_side(study, side):
            yield (*where, field), message


def _same_sides(here: KeyPath, entry: Direction | Separation) -> Iterator[Mistake]:
    if entry.positive == entry.negative:
        yield (*here, "negative"), "is the same as `positive`: two different groups of prompts are needed"


def _too_few(study: CheckedStudy, direction: Direction) -> str | None:
    """Return why a negative side has too few prompts for its covariance, where the config alone says so."""
    split = study.catalogue.valid["splits"].get(direction.negative.split)
    if split is None or direction.allow_few or direction.fitted not in RIDGE:
        return None
    sizes = [one.size for one in (split.sample, study.settings.prompts_per_split) if one]
    sizes += [rows for rows in (split.expected_rows, split.expected_kept) if rows is not None and not split.dialogue]
    if not sizes or min(sizes) > LEAST_NEGATIVE:  # at least one prompt is held out
        return None
    return (
        f"has at most {min(sizes)} prompts, of which at least one is held out, and `{direction.fitted}` needs "
        f"{LEAST_NEGATIVE} to fit a covariance on; give it more, take `{direction.fitted.replace('rmd', 'md')}`, or "
        "say `allow_few: true`"
    )


def _wrong_with_model(study: CheckedStudy, name: str, separated: bool = False) -> Iterator[str]:
    if unknown := study.catalogue.lacks("model", name):
        yield unknown
    if name not in study.catalogue.written["models"]:
        return
    if study.all_known("models") and name not in study.names("models"):
        yield f"`{name}` is not one of the study's `models`{nearest(name, study.names('models'))}; add it there"
    model = study.catalogue.valid["models"].get(name)
    if model is None:
        return
    if model.recorded:
        yield f"`{name}` has recorded answers; activations are computed, so it must be a model that is asked"
    for change in changes_of(model):
        if not (separated and change.captured):
            message = f"`{name}` has {change.words} (`{change.name}`); activations are those of a model without"
            yield f"{message}, so name that one"
    if separated and model.intervention is not None and model.intervention.allow_overlap:
        yield f"`{name}` sets `allow_overlap`, which a separation cannot mark; name a model without it"
    engine = study.engine_of(model)
    if engine is not None:
        yield from _wrong_with_engine(model.engine, engine)


def _wrong_with_engine(name: str, engine: Engine) -> Iterator[str]:
    if getattr(engine, "weights", None) is None or engine.device_here() is None:
        yield f"its engine `{name}` of kind `{engine.kind}` has no weights here, and activations are computed from them"
        return
    identity = engine.identity({})
    kernels_only = set(identity.get("args", ())) <= KERNELS
    more = sorted(set(identity) - CAPTURED - ({"args"} if kernels_only else set()))
    if more:
        yield f"its engine `{name}` sets {' and '.join(f'`{key}`' for key in more)}, with which capture was never tried"
    if engine.nodes_used() > 1:
        yield f"its engine `{name}` takes {engine.nodes_used()} machines, and activations are captured on one"


def _wrong_with_side(study: CheckedStudy, side: Side) -> Iterator[tuple[str, str]]:
    """Yield the field and what is wrong with it."""
    if unknown := study.catalogue.lacks("split", side.split):
        yield "split", unknown
        return
    for name in side.without or ():
        if unknown := study.catalogue.lacks("split", name):
            yield "without", unknown
        elif name == side.split:
            yield "without", f"leaves out all of split `{name}`"
    split = study.catalogue.valid["splits"].get(side.split)
    if split is not None and split.dialogue:
        yield "split", f"`{side.split}` asks several turns, and activations are those of one question"
    if split is not None and side.category is not None and split.columns.category is None:
        yield "category", f"split `{side.split}` has no categories: its `columns` name no `category`"
    judges = study.names("judges")
    if side.judge is not None and study.all_known("judges") and side.judge not in judges:
        yield "judge", f"`{side.judge}` is not one of the study's `judges`" + nearest(side.judge, judges)
