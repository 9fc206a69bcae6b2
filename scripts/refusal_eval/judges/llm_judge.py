"""A language model as a judge that names a label: read by label probability, or by a reply that is held to a form."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.config.judge_entry import Words
from refusal_eval.config.shapes import Entry, Number, Slug, Text
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.states import JUDGED, LABELS
from refusal_eval.judges.judge_base import Verdict
from refusal_eval.judges.named_tokens import sampling_of, shares_of, tokens_of
from refusal_eval.judges.rubric_judge import RubricJudge
from refusal_eval.judges.soft_judge import SoftJudge, verdict_of_shares
from refusal_eval.judges.structured import NO_TOKENS, OnMessages, label_said, label_schema

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer


# Of a reply that is one label; a model that reasons first, where nobody sees it, needs most of them for that.
MOST_TOKENS = 512

Tokens = Text | Annotated[dict[Slug, Text], Field(min_length=1)]


class LabelTokens(Entry):
    """The one-token labels a label-probability judge chooses from. A label may have several kinds of answers, each with
    a token of its own: `refusal: {ethical_refusal: B, technical_refusal: C}`."""

    refusal: Tokens = Field(description="Label of a refusal, or of each kind of refusal.")
    partial: Tokens | None = Field(None, description="Label of a partial refusal. Leave it out for a two-label judge.")
    compliance: Tokens = Field(description="Label of compliance, or of each kind of answer that counts as compliance.")

    @model_validator(mode="after")
    def _all_differ(self) -> LabelTokens:
        tokens, names = [token for *_, token in self._rows()], [name for _, name, _ in self._rows()]
        if len(set(tokens)) < len(tokens):
            raise ValueError(f"the labels must differ from each other, not {', '.join(map(repr, tokens))}")
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"the kind `{twice[0]}` stands under two labels")
        return self

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield each label, kind (the label itself where it has none) and token."""
        for label in LABELS:
            tokens = getattr(self, label) or {}
            for name, token in ({label: tokens} if isinstance(tokens, str) else tokens).items():
                yield label, name, token

    def texts(self) -> dict[str, str]:
        """Return the token of each label or kind."""
        return {name: token for _, name, token in self._rows()}

    def kinds(self) -> dict[str, str]:
        """Return the label of each kind; nothing where no label has kinds."""
        kinds = {name: label for label, name, _ in self._rows()}
        return {} if all(name == label for name, label in kinds.items()) else kinds


class LlmJudge(RubricJudge, SoftJudge):
    """A language model that reads a rubric; its verdict is the probability of the label tokens. On an engine that takes
    messages it is the label in its reply, which is held to a JSON schema, and no probability."""

    engine_needs: ClassVar[tuple[str, ...]] = ("writes_text", "takes_token_ids", "label_probabilities")
    read_only: ClassVar[frozenset[str]] = SoftJudge.read_only | {"mass_floor"}

    kind: Literal["llm"]
    labels: LabelTokens = Field(
        description="Label tokens; each must be one token that can follow the prompt. On an engine that takes "
        "messages: texts of any length."
    )
    prefill: str | None = Field(
        None,
        description="Text with which the judge's reply is made to begin, control tokens included, e.g. "
        "`<|channel|>final<|message|>` for gpt-oss, whose reply would else begin with its reasoning.",
    )
    mass_floor: Number = Field(
        0.5, ge=0, le=1, description="Least probability on all labels together; below it the verdict is `unparsable`."
    )

    def by_messages(self) -> LlmByMessages:
        """Return the judge as it asks an engine that takes messages."""
        return LlmByMessages.of(self)

    def named_kinds(self, study: StudyView) -> dict[str, str]:
        """Return the kinds under its labels."""
        return self.labels.kinds()

    def labels_given(self) -> tuple[str, ...]:
        """Return the labels that have a token."""
        return tuple(label for label in LABELS if getattr(self.labels, label) is not None)

    def rendering(self) -> dict[str, Any]:
        """Return how messages become token ids; a `prefill` follows them."""
        return super().rendering() | {"prefill": self.prefill}

    def checked(self, renderer: Renderer, tokenizer_folder: str) -> dict[str, Any]:
        """Return the token id of each label, as it would follow the rendered prompt.

        Raises:
            UserError: if a label is not exactly one token there, changes the prompt's own tokens, or equals another's.
        """
        asked = self.messages([{"role": "user", "content": "Hello"}], "Hello!")
        hint = " Choose a single letter or a short word of this tokenizer."
        return {"label_token_ids": tokens_of(renderer, asked, self.labels.texts(), hint)}

    def request_sampling(self, checked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the sampling parameters: one greedy token, and the log-probability of each label."""
        return sampling_of(list(checked["label_token_ids"].values()))

    def verdict(self, response: Mapping[str, Any], checked: Mapping[str, Any]) -> Verdict:
        """Return the verdict that the labels' probabilities at the first token give."""
        labels, kinds = list(checked["label_token_ids"]), self.labels.kinds()
        return label_verdict(response, labels, self.used_threshold(), self.mass_floor, kinds)

    def verdict_tokens(self) -> tuple[float, int]:
        """Return one token."""
        return 1.0, 1

    def how_it_reads(self, words: Words) -> str:
        """Return how its responses become verdicts, for the methods section."""
        rubric, at = words.quoted(self.rubric.rsplit("/", 1)[-1]), self.read_at()
        return f"which reads the rubric {rubric} and whose probability of the label is the verdict, at {at}"


class LlmByMessages(OnMessages, LlmJudge):
    """The same on an engine that takes messages."""

    gives_probabilities: ClassVar[Literal["never"]] = "never"  # type: ignore[assignment]
    useless: ClassVar[Mapping[str, str]] = NO_TOKENS

    def own_threshold(self) -> None:
        """Return None: there is nothing to compare with one."""

    def threshold_on_gold(self, study: StudyView) -> None:
        """Return None, likewise."""

    def request_sampling(self, checked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the sampling parameters: a greedy reply in the form of a label."""
        # As text, because request files sort their keys, and the order of the schema's is that of the reply's.
        form = {"json": json.dumps(label_schema(self.labels.texts().values()))}
        return {**NEUTRAL_SAMPLING, "max_tokens": MOST_TOKENS, "temperature": 0.0, "structured_outputs": form}

    def verdict(self, response: Mapping[str, Any], checked: Mapping[str, Any]) -> Verdict:
        """Return the verdict of the label that the reply names."""
        names, kinds = {text: name for name, text in self.labels.texts().items()}, self.labels.kinds()

        def of_label(text: str) -> Verdict:
            name = names[text]
            return Verdict(JUDGED, kinds.get(name, name), kind=name if kinds else None, raw={"text": text})

        return label_said(response, names, of_label)

    def verdict_tokens(self) -> tuple[float, int]:
        """Return the length of a reply that names a label."""
        return 8.0, MOST_TOKENS

    def how_it_reads(self, words: Words) -> str:
        """Return how its responses become verdicts, for the methods section."""
        return f"which reads the rubric {words.quoted(self.rubric.rsplit('/', 1)[-1])} and names a label"


def label_verdict(
    response: Mapping[str, Any],
    labels: list[str],
    threshold: float,
    mass_floor: float,
    kinds: Mapping[str, str] | None = None,
) -> Verdict:
    """Return the verdict that the labels' probabilities at the first token give (see `verdict_of_shares`).

    Args:
        response: a stored response with `named_logprobs` in the order of `labels`.
        labels: the labels asked for, or the kinds, in that order.
        threshold: the least p_refusal of a refusal or partial refusal.
        mass_floor: the least probability on all labels together.
        kinds: the label of each kind.

    Raises:
        ValueError: if there is not one log-probability for each label.
    """
    shares = shares_of(response, labels)
    probabilities = {label: round(share, 9) for label, share in shares.items()}
    raw = {"mass": round(math.fsum(shares.values()), 9), "probabilities": probabilities, "text": response["text"]}
    return verdict_of_shares(shares, threshold, mass_floor, raw, kinds)
