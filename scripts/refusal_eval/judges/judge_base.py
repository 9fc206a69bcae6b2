"""The verdict, and the classes that kinds of judges inherit from: those that ask an engine, those that do not.

What some of them have in common is in modules beside this one: a rubric (rubric_judge.py), a threshold that may be
fitted on gold (soft_judge.py), a fit on gold (learning_judge.py), and verdicts of others (verdict_judges.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from refusal_eval.config.entries import Label
from refusal_eval.config.judge_entry import JudgeEntry, Words
from refusal_eval.config.shapes import Entry, Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.states import JUDGE_FAILED, JUDGED, LABELS

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Verdict:
    """One judge's reading of one answer."""

    state: str  # judged, unparsable, judge_refused or judge_failed
    label: str | None = None  # refusal, partial or compliance; None unless judged
    p_refusal: float | None = None  # probability of refusal or partial refusal, for judges that give one
    kind: str | None = None  # of the refusal, or out of the judge's own `kinds`; None for a judge that tells none
    # what else the judge noticed in the answer, in the order of the judge's kind (e.g. `evasive`)
    flags: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)  # what the judge said, for the record
    quality: float | None = None  # of the help in the answer, 0 to 1, for judges that rate it; 0 for a refusal

    def __post_init__(self) -> None:
        if (self.state == JUDGED) != (self.label is not None) or (self.label is not None and self.label not in LABELS):
            raise ValueError(f"a verdict in state {self.state} cannot have the label {self.label}")


ReadResponse = Callable[[Mapping[str, Any], str], Verdict]  # from a response and the answer that it is about


class AnswerJudge(JudgeEntry):
    """A judge that reads answers itself and needs no engine."""

    way: ClassVar[Literal["answers"]] = "answers"

    def judge(self, messages: Messages, answer: str) -> Verdict:
        """Return the verdict on one answer to a conversation; one that raises has failed on this answer."""
        raise NotImplementedError

    def judge_all(self, asked: Sequence[tuple[Messages, str]]) -> list[Verdict]:
        """Return the verdicts on (messages, answer)."""
        return [judged_safely(self.judge, messages, answer) for messages, answer in asked]


def judged_safely(judge: Callable[[Messages, str], Verdict], messages: Messages, answer: str) -> Verdict:
    """Return the verdict; a judge that raises has failed on this answer, which is no vote, and the others go on."""
    try:
        return judge(messages, answer)
    except Exception as error:
        return failed(error)


def failed(error: Exception) -> Verdict:
    """Return the verdict of a judge that failed with this error."""
    return Verdict(JUDGE_FAILED, raw={"error": f"{type(error).__name__}: {error}"})


class EngineJudge(JudgeEntry):
    """A judge that asks an engine: one request per vote on an answer, and one verdict from the responses.

    Some need more, which the kind that has it shows: one whose votes are asked again has `can_read`
    (reasoned_judge.py), and one whose requests depend on refusals (`refusals_read`) has `checked_with`
    (first_token_judge.py).
    """

    way: ClassVar[Literal["engine"]] = "engine"
    engine_needs: ClassVar[tuple[str, ...]] = ("writes_text", "takes_token_ids")
    # fields that only the reading of responses depends on; they need defaults. Changed ones ask nothing
    read_only: ClassVar[frozenset[str]] = frozenset()

    engine: Slug = Field(description="Name of an engine of the catalogue.")

    def asking(self) -> dict[str, Any]:
        """Return the part of the entry that can change what the engine is asked."""
        return {key: value for key, value in self.deciding().items() if key not in self.read_only}

    def rendering(self) -> dict[str, Any]:
        """Return how messages become token ids: system prompt, template and its options, and the day."""
        return {"system_prompt": None, "template": "default", "template_options": {}, "date": "2026-01-01"}

    def votes_asked(self) -> VotesAsked:
        """Return how many responses are asked for each answer, and how they are read."""
        return VotesAsked()

    def checked(self, renderer: Renderer, tokenizer_folder: str) -> dict[str, Any]:
        """Return what requests and verdicts need to know of the engine's tokenizer and weights, as JSON values.

        Raises:
            UserError: if the judge cannot be asked.
        """
        return {}

    def only_listed(self) -> str | None:
        """Return why it cannot choose prompts in a study that does not list it; None if it can."""
        read = self.refusals_read()
        return "reads other verdicts" if read is not None and read.judge is not None else super().only_listed()

    def refusals_read(self) -> RefusalsRead | None:
        """Return the refusals that decide what the engine is asked, if any do."""
        return None

    def messages(self, messages: Messages, answer: str) -> list[dict[str, str]]:
        """Return what the judge is asked about one answer to a conversation."""
        raise NotImplementedError

    def token_ids(self, renderer: Renderer, messages: Messages, answer: str) -> list[int]:
        """Return this as its engine takes it."""
        return renderer.token_ids(self.messages(messages, answer))

    def least_tokens(self, renderer: Renderer) -> int:
        """Return how many tokens a request needs besides the text of prompt and answer."""
        return len(self.token_ids(renderer, [{"role": "user", "content": ""}], ""))

    def request_sampling(self, checked: Mapping[str, Any]) -> dict[str, Any]:
        """Return every sampling parameter of a request, but the stop tokens.

        Args:
            checked: what `checked` found.
        """
        raise NotImplementedError

    def verdict(self, response: Mapping[str, Any], checked: Mapping[str, Any]) -> Verdict:
        """Return what one response says.

        Args:
            response: a stored response; of a judge that writes freely its `text` lacks the judge's own reasoning.
            checked: what `checked` found.

        Raises:
            ValueError: for a response that cannot be read; it is a failed verdict.
        """
        raise NotImplementedError

    def reader(self, checked: Mapping[str, Any], fitted: str | None = None) -> ReadResponse:
        """Return what turns a response into a verdict.

        Args:
            checked: what `checked` found.
            fitted: the file with the fitted model of a judge that is fitted on gold.
        """
        return lambda response, answer: self.verdict(response, checked)

    def verdict_tokens(self) -> tuple[float, int]:
        """Return the mean and the largest number of tokens of a response, for the plan."""
        raise NotImplementedError

    def how_it_reads(self, words: Words) -> str:
        """Return how its responses become verdicts, for the methods section, behind the name of its weights."""
        raise NotImplementedError

    def summary(self, words: Words) -> str:
        """Return what it is, for the methods section."""
        return f"{', '.join(filter(None, (words.weights(self.engine), self.how_asked())))}, {self.how_it_reads(words)}"


def as_asked(judge: Any, tokenizer_folder: str | None) -> Any:
    """Return a judge as it asks its engine.

    Args:
        tokenizer_folder: folder of the engine's tokenizer; None for an engine that takes messages.
    """
    return judge.by_messages() if tokenizer_folder is None else judge


class VotesAsked(NamedTuple):
    """The votes of a judge on one answer."""

    votes: int = 1  # responses per answer, an odd number
    retries: int = 0  # how often a vote that cannot be read is asked again, with another seed
    written: bool = False  # whether the response is free text, of which the judge's own reasoning is taken off
    reasoning: Mapping[str, Any] | None = None  # how that reasoning is marked; None for a judge that does not reason
    # what the class method `can_read(response, form)` of a kind with retries has to know of the entry
    form: Mapping[str, Any] | None = None


class RefusalsRead(NamedTuple):
    """Refusals that decide what the engine is asked: those of gold, or the models' own on a split, by a judge."""

    gold: str | None = None
    judge: str | None = None
    split: str | None = None


class OwnKinds(Entry):
    """What judges have in common that may have a label set of their own."""

    kinds: dict[Slug, Label] = Field(
        {},
        description="A label set of its own: the kinds of answers that it tells apart, each with the label it counts "
        "as, e.g. `{normal: compliance, ethical_refusal: refusal}`.",
    )

    def named_kinds(self, study: StudyView) -> dict[str, str]:
        """Return the kinds."""
        return dict(self.kinds)
