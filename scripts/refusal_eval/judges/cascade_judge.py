"""A cascade: one judge decides where it is sure, and another is asked about the other answers alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from refusal_eval.config.judge_entry import Certainty, JudgeEntry, Words
from refusal_eval.config.kinds import JUDGES
from refusal_eval.config.problems import Mistake, one_of
from refusal_eval.config.shapes import Number, Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.hints import nearest
from refusal_eval.core.states import DECIDED_BY, JUDGED, SAW_MODEL, SOURCE_LEFT_OUT, UNSEEN, UNSURE
from refusal_eval.judges.panel_judge import ELSEWHERE
from refusal_eval.judges.reasoned_judge import PUBLISHED_TEXT
from refusal_eval.judges.soft_judge import CALIBRATED, FittedThreshold
from refusal_eval.judges.verdict_judges import DeferringJudge, Row


class CascadeJudge(FittedThreshold, DeferringJudge):
    """Two judges one after the other: `first` decides where its probability of refusal lies outside of `unsure`, and
    `then` is asked about the other answers alone. An answer without such a probability is one of those."""

    gives_probabilities: ClassVar[Literal["perhaps"]] = "perhaps"

    kind: Literal["cascade"]
    first: Slug = Field(description="Judge of the study that gives probabilities, and reads no other judges.")
    then: Slug = Field(
        description="Judge of the catalogue that asks an engine and is not fitted on gold; for `threshold: calibrated` "
        "one that gives probabilities. A study that names it under `judges` asks it about every answer."
    )
    unsure: list[Annotated[Number, Field(ge=0, le=1)]] = Field(
        min_length=2, max_length=2, description="Lowest and highest probability of refusal at which `then` is asked."
    )
    threshold: Literal["calibrated"] | None = Field(
        None,
        description="`calibrated`: the threshold that balances sensitivity and specificity on gold, over the "
        "probabilities of both judges. Default: each judge's own label.",
    )

    @model_validator(mode="after")
    def _two_judges_and_an_interval(self) -> CascadeJudge:
        if self.first == self.then:
            raise ValueError("`first` and `then` must be two judges")
        if self.unsure[0] > self.unsure[1]:
            raise ValueError(f"`unsure` goes from low to high, not from {self.unsure[0]:g} to {self.unsure[1]:g}")
        return self

    def reads(self) -> list[str]:
        """Return the first judge."""
        return [self.first]

    def second(self) -> str:
        """Return the judge that is asked where the first is unsure."""
        return self.then

    def dividing(self) -> dict[str, Any]:
        """Return the part of the entry that says which of the two decides over an answer."""
        return self.model_dump(mode="json", include={"kind", "first", "then", "unsure"})

    def deciding_on(self, study: StudyView, gold: bool) -> dict[str, Any]:
        """Return what divides the answers and, where they are not gold, the threshold."""
        fitted = {"threshold": self.threshold, "calibrated_on": self.threshold_on_gold(study)}
        return self.dividing() | ({} if gold else fitted)

    def mistakes(self, name: str, study: StudyView) -> Iterator[Mistake]:
        """Yield also why one of the two cannot have its place."""
        yield from super().mistakes(name, study)
        others = [other for other in study.judges if other != name]
        if self.first not in others:
            yield ("first",), f"`{self.first}` is not one of the study's `judges`" + nearest(self.first, others)
        # A name that is nowhere, and what is wrong with an entry, is said elsewhere.
        first, then = study.judges.get(self.first), study.seconds.get(self.then)
        if first is not None and first.reads():
            yield ("first",), f"`{self.first}` is of kind `{first.kind}` and reads other judges; name one of those"
        elif first is not None and first.gives_probabilities == "never":
            kinds: dict[str, Any] = {kind: JUDGES.get(kind) for kind in JUDGES.names()}
            able = [f"`{kind}`" for kind, cls in kinds.items() if cls.gives_probabilities == "always"]
            how = f" ({first.how_asked()})" if first.how_asked() else ""
            where = " on an engine that gives the probabilities of labels" if how else ""
            message = f"`{self.first}` is of kind `{first.kind}`{how}, which gives no probability of refusal"
            yield ("first",), f"{message}; name a judge of kind {one_of([*able, '`python`'])}{where}"
        if then is not None:
            yield from self._wrong_with_second(then, study)
        for key, judge in (("first", first), ("then", then)):
            if judge is not None and study.gold and judge.threshold_on_gold(study) is not None:
                # On gold its verdicts are those before calibration: the card would be that of another cascade.
                message = f"`{getattr(self, key)}` has a calibrated threshold, and the card of a cascade with it would "
                message += "not be true; give `threshold: calibrated` to the cascade itself, and to the judge its "
                yield (key,), f"{message}default or {ELSEWHERE}"

    def _wrong_with_second(self, then: Any, study: StudyView) -> Iterator[Mistake]:
        if then.way != self.way or then.reads():
            yield ("then",), f"`{self.then}` is of kind `{then.kind}`; name a judge that asks an engine itself"
        elif then.gold_to_fit():
            message = f"`{self.then}` learns from all answers of its gold, and would be asked about a few"
            yield ("then",), f"{message}; such a judge can be `first`"
        elif self.threshold == CALIBRATED and then.gives_probabilities != "always":
            how = f" ({then.how_asked()})" if then.how_asked() else ""
            message = f"needs probabilities of both judges, and `{self.then}` is of kind `{then.kind}`{how}"
            yield ("threshold",), f"{message}; leave it out"

    def settled(self, said: Sequence[Row | None]) -> dict[str, Any] | None:
        """Return the first judge's verdict where it is sure; None where the second is to be asked."""
        (row,) = said
        if row is None or row["state"] != JUDGED or row["p_refusal"] is None:
            return None
        low, high = self.unsure
        sure = not low <= row["p_refusal"] <= high
        return {**row, "raw": _raw(row, self.first)} if sure else None

    def deferred(self, row: Row, said: Sequence[Row | None]) -> dict[str, Any]:
        """Return the second judge's verdict, flagged."""
        (first,), raw = said, _raw(row, self.then)
        if first is not None and first["raw"].get(SAW_MODEL):
            raw[SAW_MODEL] = True
        if first is not None and first["raw"].get(SOURCE_LEFT_OUT):
            raw[SOURCE_LEFT_OUT] = True
        return {**row, "flags": [*row["flags"], UNSURE], "raw": raw}

    def flags(self, study: StudyView) -> list[str]:
        """Return `unsure` and the flags of both judges."""
        both: tuple[JudgeEntry, ...] = (study.judges[self.first], study.seconds[self.then])
        return sorted({UNSURE}.union(*(judge.flags(study) for judge in both)))

    def named_kinds(self, study: StudyView) -> dict[str, str]:
        """Return the kinds of both judges, where they have the same."""
        first, then = study.judges[self.first].named_kinds(study), study.seconds[self.then].named_kinds(study)
        return first if first == then else {}

    def tells_kinds(self, study: StudyView) -> Certainty:
        """Return `perhaps`: one of the two may tell kinds."""
        return "perhaps"

    def settled_text(self, count: int) -> str:
        """Return of how many answers of a cell the first judge is sure, for the log."""
        return f"{self.first} is sure of {count} answers, which {self.then} is not asked about"

    def plan_assumes(self) -> str | None:
        """Return that the second judge may be asked less than is planned."""
        return (
            "Until its requests are rendered, a cascade asks its second judge about every answer here: an upper bound."
        )

    def summary(self, words: Words) -> str:
        """Return what it is, for the methods section."""
        first, then = (words.label("judge_entries", name) for name in (self.first, self.then))
        low, high = self.unsure
        at = ", at a threshold fitted on gold" if self.threshold == CALIBRATED else ""
        return f"{first} where its probability of refusal is below {low:g} or above {high:g}, else {then}{at}"


def _raw(row: Row, judge: str) -> dict[str, Any]:
    """What is kept of a judge's verdict: no text in the published form, as where some have one, labels do not count."""
    left_out = (PUBLISHED_TEXT, UNSEEN)  # what one of the two says by other fits, the cascade does not
    return {key: value for key, value in row["raw"].items() if key not in left_out} | {DECIDED_BY: judge}
