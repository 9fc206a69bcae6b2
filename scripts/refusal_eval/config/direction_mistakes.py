"""Mistakes of the directions of a study: models without activations, and sides that cannot be told apart."""

from collections.abc import Iterator
from typing import Any

from refusal_eval.config.change import changes_of
from refusal_eval.config.direction_entry import LEAST_NEGATIVE, RIDGE, Direction, Separation
from refusal_eval.config.draft import Draft
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import KeyPath
from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest

# Parts of an engine's identity that a capture obeys; anything else was never tried and could give other activations.
CAPTURED = {"weights", "dtype", "trust_remote_code"}
# Arguments that choose among kernels of vLLM for one and the same computation.
KERNELS = {"gdn-prefill-backend"}


def direction_mistakes(draft: Draft) -> Iterator[Mistake]:
    """Yield what is wrong with the directions that a study names, and with its separations."""
    for name, direction in draft.directions.items():
        here: KeyPath = ("directions", name)
        for message in _wrong_with_model(draft, direction.model):
            yield (*here, "model"), message
        yield from _same_sides(here, direction)
        if too_few := _too_few(draft, name):
            yield (*here, "negative"), too_few
    seen = set[str]()
    for place, entry in enumerate(draft.study.separation):
        if not entry:
            continue
        here = ("separation", place)
        if entry.name in seen:
            yield (*here, "name"), f"two have the name `{entry.name}`; their files would be the same"
        seen.add(entry.name)
        for index, model in enumerate(entry.models or ()):
            for message in _wrong_with_model(draft, model, separated=True):
                yield (*here, "models", index), message
        yield from _same_sides(here, entry)
    for where, side in draft.sides():
        for field, message in _wrong_with_side(draft, side):
            yield (*where, field), message


def _same_sides(here: KeyPath, entry: Direction | Separation) -> Iterator[Mistake]:
    if entry.positive is not None and entry.positive == entry.negative:
        yield (*here, "negative"), "is the same as `positive`: two different groups of prompts are needed"


def _too_few(draft: Draft, name: str) -> str | None:
    """Return why a negative side has too few prompts for its covariance, where the config alone says so."""
    direction = draft.catalogue.valid["directions"].get(name)
    split = direction and draft.catalogue.valid["splits"].get(direction.negative.split)
    if not direction or not split or direction.allow_few or direction.fitted not in RIDGE:
        return None
    sizes = [one.size for one in (split.sample, draft.study.prompts_per_split) if one and isinstance(one.size, int)]
    sizes += [rows for rows in (split.expected_rows, split.expected_kept) if rows is not None and not split.dialogue]
    if not sizes or min(sizes) > LEAST_NEGATIVE:  # at least one prompt is held out
        return None
    return (
        f"has at most {min(sizes)} prompts, of which at least one is held out, and `{direction.fitted}` needs "
        f"{LEAST_NEGATIVE} to fit a covariance on; give it more, take `{direction.fitted.replace('rmd', 'md')}`, or "
        "say `allow_few: true`"
    )


def _wrong_with_model(draft: Draft, name: str, separated: bool = False) -> Iterator[str]:
    known = draft.catalogue.written["models"]
    if name not in known:
        if draft.catalogue.complete and name is not None:
            yield f"there is no model `{name}` in the catalogue" + nearest(name, known)
        return
    if draft.all_known("models") and name not in draft.names("models"):
        yield f"`{name}` is not one of the study's `models`{nearest(name, draft.names('models'))}; add it there"
    model = draft.catalogue.typed["models"][name]
    if model is None:
        return
    if getattr(model, "recorded", None):
        yield f"`{name}` has recorded answers; activations are computed, so it must be a model that is asked"
    for change in changes_of(model):
        if not (separated and change.captured):
            message = f"`{name}` has {change.words} (`{change.name}`); activations are those of a model without"
            yield f"{message}, so name that one"
    if separated and getattr(model.intervention, "allow_overlap", False):
        yield f"`{name}` sets `allow_overlap`, which a separation cannot mark; name a model without it"
    engine = draft.engine_of(model)
    if engine is not None:
        yield from _wrong_with_engine(str(model.engine), engine)


def _wrong_with_engine(name: str, engine: Engine) -> Iterator[str]:
    if getattr(engine, "weights", None) is None or engine.device_here() is None:
        yield f"its engine `{name}` of kind `{engine.kind}` has no weights here, and activations are computed from them"
        return
    identity = _identity(engine)
    kernels_only = set(identity.get("args", ())) <= KERNELS
    more = sorted(set(identity) - CAPTURED - ({"args"} if kernels_only else set()))
    if more:
        yield f"its engine `{name}` sets {' and '.join(f'`{key}`' for key in more)}, with which capture was never tried"
    if engine.nodes_used() > 1:
        yield f"its engine `{name}` takes {engine.nodes_used()} machines, and activations are captured on one"


def _identity(engine: Engine) -> dict[str, Any]:
    """Return the identity of an entry; nothing for one that has mistakes of its own."""
    try:
        return engine.identity({})
    except (UserError, AttributeError, TypeError, ValueError):
        return {}


def _wrong_with_side(draft: Draft, side: Any) -> Iterator[tuple[str, str]]:
    """Yield the field and what is wrong with it."""
    known = draft.catalogue.written["splits"]
    if side.split not in known:
        if draft.catalogue.complete:
            yield "split", f"there is no split `{side.split}` in the catalogue" + nearest(side.split, known)
        return
    for name in side.without or ():
        if name not in known and draft.catalogue.complete and isinstance(name, str):
            yield "without", f"there is no split `{name}` in the catalogue" + nearest(name, known)
        elif name == side.split:
            yield "without", f"leaves out all of split `{name}`"
    split = draft.catalogue.valid["splits"][side.split]
    if split is not None and split.dialogue:
        yield "split", f"`{side.split}` asks several turns, and activations are those of one question"
    if split is not None and side.category is not None and split.columns.category is None:
        yield "category", f"split `{side.split}` has no categories: its `columns` name no `category`"
    judges = draft.names("judges")
    if side.judge is not None and draft.all_known("judges") and side.judge not in judges:
        yield "judge", f"`{side.judge}` is not one of the study's `judges`" + nearest(str(side.judge), judges)
