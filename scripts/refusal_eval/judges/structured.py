"""Judges on an engine that takes messages: it renders them itself, and holds the reply to a JSON schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from refusal_eval.config.kinds import ENGINES
from refusal_eval.config.problems import Mistake, one_of
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.states import UNPARSABLE
from refusal_eval.judges.judge_base import EngineJudge, Verdict
from refusal_eval.judges.rubric_judge import TemplatedJudge

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer

LABEL = "label"
MOST_RAW = 600  # characters of a reply without a verdict that are kept
# How many bytes of a text make a token at the least, as a limit in tokens is kept without a tokenizer: about 4 in
# English, 2 and less in base64, digits and scripts that the tokenizer has seldom seen.
BYTES_A_TOKEN = 2
_NO_TEMPLATE = "{engine} takes messages and renders them itself; leave it out"
_NO_PROBABILITY = (
    "{engine} takes messages: the judge gives a label and no probability. Leave it out, or name an engine that gives "
    "the probabilities of labels (of kind {soft})"
)


class OnMessages(TemplatedJudge):
    """What judges have in common that ask an engine which takes messages: of `kind`, but without tokens.

    `EngineJudge.by_messages` of a kind makes them; they are no kind of their own.

    Attributes:
        useless: the fields of the kind that mean nothing there, each with what a user is to do.
    """

    engine_needs: ClassVar[tuple[str, ...]] = ("writes_text", "takes_messages", "structured_outputs")
    useless: ClassVar[Mapping[str, str]] = dict.fromkeys(("template", "template_options", "date"), _NO_TEMPLATE)

    @classmethod
    def of(cls, judge: EngineJudge, **other: Any) -> Self:
        """Return a judge as it asks such an engine.

        Args:
            other: the fields that it has another value of there.
        """
        values = {name: getattr(judge, name) for name in type(judge).model_fields}
        return cast("Self", cls.model_construct(set(judge.model_fields_set), **values | other))

    def by_messages(self) -> Any:
        """Return itself."""
        return self

    def how_asked(self) -> str:
        """Return how its engine is asked, for the methods section and its cards."""
        return "hosted, verdict held to a schema"

    def mistakes(self, name: str, study: StudyView) -> Iterator[Mistake]:
        """Yield also the fields that mean nothing there."""
        yield from super().mistakes(name, study)
        for key, message in self.useless.items():
            if key in self.model_fields_set:
                words = {"engine": f"engine `{self.engine}`", "soft": one_of(kinds_that("label_probabilities"))}
                yield (key,), message.format(**words)

    def checked(self, renderer: Renderer, tokenizer_folder: str) -> dict[str, Any]:
        """Return nothing: the engine's tokenizer is not ours."""
        return {}


def kinds_that(*able: str) -> list[str]:
    """Return the kinds of engines that can do all of this, as a message names them."""
    kinds: dict[str, Any] = {kind: ENGINES.get(kind) for kind in ENGINES.names()}
    return [f"`{kind}`" for kind, cls in kinds.items() if cls.capabilities.issuperset(able)]


NO_TOKENS: Mapping[str, str] = {
    **OnMessages.useless,
    "prefill": "{engine} takes messages and writes the whole reply itself; leave it out",
    **dict.fromkeys(("threshold", "calibrated_on", "mass_floor"), _NO_PROBABILITY),
}
NO_MARKS: Mapping[str, str] = {
    **OnMessages.useless,
    "reasoning": "{engine} holds the whole reply to a form, and its reasoning stands apart from it; leave it out",
}


def label_schema(labels: Iterable[str]) -> dict[str, Any]:
    """Return the JSON schema of a verdict that is one of these labels."""
    return closed_schema({LABEL: {"type": "string", "enum": [*labels]}})


def closed_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with all of these properties, in their order, and no others."""
    whole = {"type": "object", "properties": dict(properties), "required": list(properties)}
    return whole | {"additionalProperties": False}


def label_said(response: Mapping[str, Any], labels: Collection[str], verdict: Callable[[str], Verdict]) -> Verdict:
    """Return the verdict for the label that a response names; unparsable for anything but the form."""
    text = str(response["text"])
    said = in_form(text)
    if not isinstance(said, dict) or said.keys() != {LABEL} or said[LABEL] not in list(labels):
        return Verdict(UNPARSABLE, raw={"text": text[:MOST_RAW]})
    return verdict(said[LABEL])


def in_form(text: str) -> Any:
    """Return the JSON value that a text is; None where it is none, or names a key twice."""
    try:
        return json.loads(text.strip(), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def most_tokens_of(messages: Sequence[Mapping[str, str]]) -> int:
    """Return how many tokens the texts of messages take at most, of an engine whose tokenizer is not ours."""
    return sum(len(message["content"].encode("utf-8", "surrogatepass")) for message in messages) // BYTES_A_TOKEN
