"""Judges: what every kind of them has in its catalogue entry, and what the rest of the workflow asks a kind.

A kind of judge is one class in a module of judges/: the schema of its entries, what it needs of its study, what it is
asked, and how a verdict comes about. `JUDGES` (kinds.py) names the kinds that ship.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.kinds import JUDGES, OfKind
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Entry, Number
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.states import LABELS

Certainty = Literal["always", "perhaps", "never"]
Way = Literal["engine", "answers", "verdicts", "recorded"]


class Floor(Entry):
    """The least agreement with people that a study asks of a judge. Lower ends of the intervals are compared, over all
    answering models together (the headline of a judge card is the worst of them, and no floor asks of it); below one, a
    run ends with an error when everything else is made."""

    se: Number | None = Field(None, ge=0, le=1, description="Sensitivity: share of people's refusals that it finds.")
    sp: Number | None = Field(None, ge=0, le=1, description="Specificity: share of the rest that it leaves alone.")
    kappa: Number | None = Field(None, ge=-1, le=1, description="Cohen's kappa with people.")
    coverage: Number | None = Field(
        None,
        ge=0,
        le=1,
        description="Share of the gold answers that it must label; the other measures are over these alone.",
    )
    on: Literal["comply", "refuse", "all"] = Field(
        "all", description="The gold prompts that count, by what is expected there; needs `expectation` in the gold."
    )
    reading: Literal["broad", "strict"] = Field("broad", description="Which reading of the labels is compared.")

    @model_validator(mode="before")
    @classmethod
    def _on_is_a_key(cls, value: Any) -> Any:
        """Read the key `on`, which without quotes is `true` in YAML."""
        return {"on" if key is True else key: one for key, one in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _asks_something(self) -> Floor:
        if (self.se, self.sp, self.kappa, self.coverage) == (None, None, None, None):
            raise ValueError("name at least one of `se`, `sp`, `kappa` and `coverage`")
        return self


class GoldLabels(NamedTuple):
    """A gold set as tables call it, and whose labels it has where no person labelled it."""

    label: str
    written_to_label: bool = False
    labelled_by_model: str | None = None


@dataclass(frozen=True)
class Words:
    """What the methods section lends to the sentence about a judge; texts of users come out clean."""

    cite: Callable[..., str]  # a citation of keys of references.bib
    quoted: Callable[[str], str]  # a user's text on one line
    listed: Callable[[Sequence[str]], str]  # texts as `a, b and c`
    label: Callable[[str, str], str]  # how tables call an entry, e.g. of `gold_entries`
    weights: Callable[[str], str]  # what an engine's weights are
    sampling: Callable[[Mapping[str, Any]], str]  # how texts are drawn
    written: Collection[str] = ()  # gold whose author wrote its answers to their labels
    by_model: Mapping[str, str] = field(default_factory=dict)  # gold that a model labelled, and which

    def about_gold(self, gold: str) -> GoldLabels:
        """Return whose labels a gold set of the study has."""
        return GoldLabels(self.label("gold_entries", gold), gold in self.written, self.by_model.get(gold))

    def labels_of(self, golds: Iterable[GoldLabels]) -> str:
        """Return whose labels gold sets have, such as `people's labels of the answers in XSTest`."""
        texts: dict[str, list[str]] = {}
        for gold in golds:
            text = "people's labels of the answers in {}"
            text = "the labels that the author of {} intended" if gold.written_to_label else text
            text = (
                f"the labels that {self.quoted(gold.labelled_by_model)} gave in {{}}"
                if gold.labelled_by_model
                else text
            )
            texts.setdefault(text, []).append(gold.label)
        return self.listed([text.format(self.listed(names)) for text, names in texts.items()])


class JudgeEntry(Entry):
    """What all judges have. A kind inherits from one of the classes in judges/judge_base.py, which say how it judges.

    Attributes:
        way: what it makes verdicts of: the responses of an `engine`, the `answers` themselves, the `verdicts` of other
            judges, or what was `recorded` with answers that were drawn elsewhere.
        gives_probabilities: whether its verdicts have a probability of refusal.
        engine_needs: what its engine must be able to do, see `Capability`.
    """

    way: ClassVar[Way]
    gives_probabilities: ClassVar[Certainty] = "never"
    engine_needs: ClassVar[tuple[str, ...]] = ()

    kind: str
    label: str | None = Field(None, description="Name in tables and figures. Default: the entry's name.")
    floor: Floor | None = Field(None, description="Least agreement with people, checked at the end of every run.")

    asked_prompt: bool = Field(
        False,
        description="Judge answers to the prompt as the model was asked it, where a change of the model changes "
        "prompts (`transform`). Default: to the prompt of the split.",
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if not hasattr(cls, "way"):
            raise TypeError(f"{cls.__name__} must derive from AnswerJudge or EngineJudge (judges/judge_base.py)")

    def deciding(self) -> dict[str, Any]:
        """Return the part of the entry that can change a verdict: all but its label and floor."""
        came_later = set() if self.asked_prompt else {"asked_prompt"}
        return self.model_dump(mode="json", exclude={"label", "floor"} | came_later)

    def deciding_on(self, study: StudyView, gold: bool) -> dict[str, Any]:
        """Return the same as it is on gold, or on answers of models: a threshold fitted on gold is not used on gold."""
        return self.deciding()

    def files(self) -> list[str]:
        """Return the user's files whose content decides its verdicts."""
        return []

    def mistakes(self, name: str, study: StudyView) -> Iterator[Mistake]:
        """Yield what its study lacks for it, and what is wrong with its files."""
        if self.asked_prompt and self.way not in ("engine", "answers"):
            yield ("asked_prompt",), f"a judge of kind `{self.kind}` reads no prompts; leave it out"
        if self.floor is not None and not study.gold:
            yield ("floor",), "a floor needs gold to be measured on; name some in `gold` of the study"
        elif self.floor is not None and study.written >= set(study.gold):
            why = "labels of an author (`written_to_label`) or of a model (`labelled_by_model`) are not people's"
            yield ("floor",), f"a floor needs gold that people labelled: {why}"

    def reads(self) -> list[str]:
        """Return the judges of the study whose verdicts its own are made of."""
        return []

    def reads_model(self, model: Any) -> bool:
        """Tell whether it judges the answers of a model, given its entry; on gold every judge is asked."""
        return True

    def second(self) -> str | None:
        """Return the judge of the catalogue that is asked on its behalf, which the study need not name."""
        return None

    def by_messages(self) -> JudgeEntry:
        """Return the judge as it asks an engine that takes messages: itself, if its kind knows no way of its own."""
        return self

    def for_engine(self, engine: Engine | None) -> JudgeEntry:
        """Return the judge as it asks this engine."""
        by_messages = engine is not None and "takes_token_ids" not in engine.able()
        return self.by_messages() if by_messages else self

    def how_asked(self) -> str:
        """Return how its engine is asked, for the methods section and its cards; empty where token ids say it."""
        return ""

    def sends_form(self) -> bool:
        """Tell whether it holds its engine's replies to a form."""
        return "structured_outputs" in self.engine_needs

    def own_label(self, name: str) -> str:
        """Return its name in tables and figures."""
        return self.label or name

    def flags(self, study: StudyView) -> list[str]:
        """Return the flags that it can raise, sorted, as far as that is known before it does."""
        return []

    def named_kinds(self, study: StudyView) -> dict[str, str]:
        """Return its own label set: each kind of answer with the label it counts as; empty where it has none."""
        return {}

    def tells_kinds(self, study: StudyView) -> Certainty:
        """Return whether its verdicts name the kind of a refusal, or of every answer."""
        return "always" if self.named_kinds(study) else "never"

    def gold_to_fit(self) -> list[str]:
        """Return the gold that it is fitted on before it judges (see judges/learning_judge.py)."""
        return []

    def gold_behind(self, study: StudyView) -> set[str]:
        """Return the gold that its verdicts were fitted on, with that behind the judges that it reads."""
        return set(self.gold_to_fit()).union(*(study.judges[name].gold_behind(study) for name in self.reads()))

    def labels_given(self) -> tuple[str, ...]:
        """Return the labels that its verdicts can have."""
        return LABELS

    def only_listed(self) -> str | None:
        """Return why it cannot choose prompts in a study that does not list it; None if it can."""
        if self.way == "recorded":
            return "reads verdicts that came with recorded answers"
        if self.reads() or self.second() is not None:
            return "is made of the verdicts of other judges"
        return "is fitted on gold" if self.gold_to_fit() else None

    def threshold_on_gold(self, study: StudyView) -> str | None:
        """Return the gold that its threshold is fitted on; None for a threshold of its own."""
        return None

    def own_threshold(self) -> float | None:
        """Return the threshold that the entry names and the judge uses."""
        return None

    def plan_assumes(self) -> str | None:
        """Return what a plan assumes of it, as one sentence."""
        return None

    def summary(self, words: Words) -> str:
        """Return what it is, for the methods section, behind "The judge X gives the headline numbers: "."""
        return f"a judge of kind {words.quoted(self.kind)}"


Judge = Annotated[JudgeEntry, OfKind(JUDGES)]
