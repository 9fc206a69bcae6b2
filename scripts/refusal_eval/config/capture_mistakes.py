"""Mistakes of what is made from activations: models without them, and sides that cannot be told apart."""

from collections.abc import Iterator, Mapping

from refusal_eval.config.activation_use import activation_uses
from refusal_eval.config.capture_entry import Side, parts_with_places
from refusal_eval.config.change import changes_of
from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.problems import Mistake, dotted
from refusal_eval.config.shapes import KeyPath
from refusal_eval.core.hints import nearest

# Parts of an engine's identity that a capture obeys; anything else was never tried and could give other activations.
CAPTURED = {"weights", "dtype", "trust_remote_code"}
# Arguments that choose among kernels of vLLM for one and the same computation.
KERNELS = {"gdn-prefill-backend"}


def capture_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong with the models and the sides of all that is made from activations."""
    for use in activation_uses():
        for asked in use.checked(study):
            for place, model in asked.models.items():
                for message in _wrong_with_model(study, model, use.of_changed):
                    yield (*asked.place, *place), message
            for place, message in _repeated(asked.sides):
                yield (*asked.place, *place), message
    for where, side in study.sides():
        for field, message in _wrong_with_side(study, side):
            yield (*where, field), message


def _repeated(sides: Mapping[str, Side | list[Side]]) -> Iterator[Mistake]:
    """Yield the groups of prompts that are on two sides, or twice on one."""
    first: list[tuple[KeyPath, Side]] = []
    for place, part in parts_with_places(sides):
        same = next((where for where, other in first if other == part), None)
        if same is not None and same[0] == place[0]:
            yield place, f"is the same as `{dotted(same)}`; leave one of both out"
        elif same is not None:
            yield place, f"is the same as `{dotted(same)}`: two different groups of prompts are needed"
        first.append((place, part))


def _wrong_with_model(study: CheckedStudy, name: str, changed: bool) -> Iterator[str]:
    """Yield why activations of a model cannot be captured.

    Args:
        changed: whether a changed model's may be.
    """
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
        if not (changed and change.captured):
            message = f"`{name}` has {change.words} (`{change.key}`); activations are those of a model without"
            yield f"{message}, so name that one"
        elif why := change.not_captured(change.value_in(model)):
            yield f"`{name}` {why}"
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
