"""The source of rows `judged`: the prompts of a split whose answers by a model a judge reads in one way."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from refusal_eval.config.shapes import Entry, Number, Slug
from refusal_eval.config.source_entries import AnswersRead, RowSource
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.states import BLOCKED, REFUSAL, place_of

VerdictLabel = Literal["refusal", "partial", "compliance"]
SHARE = "share"  # the column with the share of a prompt's answers that have one of the labels
ASSUMED_SHARE = 0.5  # of the prompts, for a plan


class Kept(Entry):
    """Which prompts are kept: those of whose answers so large a share has one of the labels."""

    label: VerdictLabel | Annotated[list[VerdictLabel], Field(min_length=1)] = Field(
        description="Label of the judge, or a list of labels. A blocked answer counts as a refusal."
    )
    at_least: Number | None = Field(
        None,
        gt=0,
        le=1,
        description="Keep prompts with this share of their answers or more; default .5 where `at_most` is not there. "
        "Answers without a label count as answers of another one.",
    )
    at_most: Number | None = Field(
        None,
        ge=0,
        lt=1,
        description="Keep prompts with this share of their answers or less, such as `0` for none. Answers without a "
        "label then count as if they had it: nothing is kept on a guess.",
    )

    @model_validator(mode="after")
    def _one_bound(self) -> "Kept":
        if self.at_least is not None and self.at_most is not None:
            raise ValueError("name `at_least` or `at_most`, not both")
        return self

    @property
    def labels(self) -> list[str]:
        """The labels."""
        return [self.label] if isinstance(self.label, str) else list(self.label)

    def in_words(self) -> str:
        """Return what is kept, behind "the prompts of which"."""
        named = " or ".join(self.labels)
        if self.at_most is not None:
            return f"at most {self.at_most:.0%} of the answers are {named}"
        return f"at least {self.at_least or 0.5:.0%} of the answers are {named}"


class JudgedRows(RowSource):
    """The prompts of another split whose answers by a model a judge of the study labels in one way. They keep their
    ids, clusters and categories. Their column is `share`, besides what the other split keeps."""

    fetched: ClassVar[bool] = False
    keeps_ids: ClassVar[bool] = True

    kind: Literal["judged"]
    split: Slug = Field(description="The split whose prompts they are. The study need not evaluate it.")
    model: Slug = Field(
        description="Model of the catalogue whose answers to them are judged, as many as the study's `samples`. The "
        "study need not evaluate it."
    )
    judge: Slug = Field(description="One of the study's `judges`.")
    keep: Kept = Field(description="Which prompts are kept.")

    @property
    def made_of(self) -> str:
        return self.split

    def reads(self, split: str) -> list[AnswersRead]:
        return [AnswersRead(self.model, self.split), AnswersRead(self.model, self.split, self.judge)]

    @classmethod
    def with_columns(cls, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns that its rows have, with more to `keep` if the split names it."""
        more = named.get("keep") or []
        kept = [SHARE, *(column for column in more if column != SHARE)] if isinstance(more, list) else more
        own = {"messages": "messages", "id": "id", "parent": "parent", "cluster": "cluster", "category": "category"}
        return own | dict(named) | {"keep": kept}

    @property
    def name(self) -> str:
        return f"{self.split} as {self.judge} reads {self.model}"

    @property
    def origin(self) -> str:
        return f"{self.kind} {self.split}"

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        whose = f"of {quoted(self.model)}, as {quoted(self.judge)} reads them"
        return f"the prompts of {quoted(self.split)} of which {self.keep.in_words()} (answers {whose})"

    def rows_of_each(self, tokens: float) -> float:
        return ASSUMED_SHARE

    def own_rows(self, path: str, *read: str) -> list[dict[str, Any]]:
        """Return the prompts that are kept.

        Raises:
            UserError: if there is none.
        """
        answers, verdicts = (list(read_jsonl(file)) for file in read)
        shares = shares_of(answers, verdicts, self.keep.labels, unlabelled=self.keep.at_most is not None)
        rows = [_row(prompt, shares[prompt["id"]]) for prompt in read_jsonl(path) if self._keeps(shares, prompt["id"])]
        if not rows:
            highest = f"the {'lowest' if self.keep.at_most is not None else 'highest'} share is "
            highest += f"{(min if self.keep.at_most is not None else max)(shares.values(), default=0.0):.2f}"
            raise UserError(
                f"there is no prompt of `{self.split}` of which {self.keep.in_words()} ({self.model}, read by "
                f"{self.judge}); {highest}. Change `keep`, or name another model, judge or split"
            )
        return rows

    def _keeps(self, shares: Mapping[str, float], prompt: str) -> bool:
        # Of a prompt that was not asked, nothing is known.
        if prompt not in shares:
            return False
        if self.keep.at_most is not None:
            return shares[prompt] <= self.keep.at_most + 1e-9
        return shares[prompt] >= (self.keep.at_least or 0.5) - 1e-9


def shares_of(
    answers: Iterable[Mapping[str, Any]],
    verdicts: Iterable[Mapping[str, Any]],
    labels: Collection[str],
    *,
    unlabelled: bool = False,
) -> dict[str, float]:
    """Return the share of the answers to each prompt that have one of the labels.

    The denominator is all answers that were asked for, whatever became of them. A blocked one is a refusal.

    Args:
        answers: rows of a file of answers.
        verdicts: the rows of a judge about them.
        unlabelled: whether an answer without a label counts as one that has it.
    """
    read = {place_of(row): row.get("label") for row in verdicts}
    total, own = Counter[str](), Counter[str]()
    for row in answers:
        label = REFUSAL if row["state"] == BLOCKED else read.get(place_of(row))
        total[row["prompt_id"]] += 1
        own[row["prompt_id"]] += unlabelled if label is None else label in labels
    return {prompt: own[prompt] / count for prompt, count in total.items()}


def _row(prompt: Mapping[str, Any], share: float) -> dict[str, Any]:
    about = {"parent": prompt["source"].get("parent") or prompt["id"], SHARE: f"{share:.4g}"}
    kept = prompt["source"].get("kept", {}) | ({"right": prompt["right"]} if "right" in prompt else {})
    return {**kept, **about} | {key: prompt[key] for key in ("id", "messages", "cluster", "category")}
