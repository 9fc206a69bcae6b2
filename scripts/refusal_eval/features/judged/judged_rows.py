"""The source of rows `judged`: the prompts of a split whose answers by a model a judge reads so, or the best."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from refusal_eval.config.shapes import Entry, Number, Slug, Whole
from refusal_eval.config.source_entries import AnswersRead, Fate, RowSource
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.states import BLOCKED, REFUSAL, place_of
from refusal_eval.data.prompts import content_id

SHARE = "share"  # the column with the share of a prompt's answers that have one of the labels
CHANCE = "p_refusal"  # the column with the mean probability of a refusal over a prompt's answers
ASSUMED_SHARE = 0.5  # of the prompts, for a plan
FATES = {"kept": "kept", "left_out": "left out", "outdone": "not among the best"}


class Kept(Entry):
    """Which prompts are kept: those of whose answers so large a share has one of the labels, and of these the best."""

    label: Slug | Annotated[list[Slug], Field(min_length=1)] | None = Field(
        None,
        description="Label of the judge (`refusal`, `partial` or `compliance`), or a list of labels. A blocked answer "
        "counts as a refusal.",
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

    best: Whole | None = Field(
        None,
        ge=1,
        description="Keep so many prompts of those that were made from one prompt (see `of`): the ones with the "
        "highest probability of a refusal, as the judge gives it, on average over their answers. With `label` these "
        "are sought among the prompts that it leaves. A prompt of whose answers none has a probability is left out.",
    )
    of: Literal["parent", "cluster", "split"] = Field(
        "parent",
        description="Among which prompts `best` counts: those made from one prompt, those of one cluster, or all.",
    )

    @model_validator(mode="after")
    def _one_bound(self) -> "Kept":
        if self.at_least is not None and self.at_most is not None:
            raise ValueError("name `at_least` or `at_most`, not both")
        if self.label is None and self.best is None:
            raise ValueError("name `label` or `best`")
        if self.label is None and (self.at_least is not None or self.at_most is not None):
            raise ValueError("`at_least` and `at_most` are shares of answers with a `label`; name one")
        if self.best is None and self.of != "parent":
            raise ValueError("`of` belongs to `best`; leave it out")
        return self

    @property
    def labels(self) -> list[str]:
        """The labels."""
        return [self.label] if isinstance(self.label, str) else list(self.label or ())

    def in_words(self) -> str:
        """Return what is kept, behind "the prompts of which"."""
        words = []
        if self.labels:
            named = " or ".join(self.labels)
            most = f"at most {self.at_most:.0%}" if self.at_most is not None else f"at least {self.at_least or 0.5:.0%}"
            words.append(f"{most} of the answers are {named}")
        if self.best is not None:
            among = {"parent": " of each prompt that they were made from", "cluster": " of each cluster", "split": ""}
            words.append(f"a refusal is most probable ({self.best}{among[self.of]})")
        return " and ".join(words)

    def param(self) -> dict[str, Any]:
        """Return it as a rule's param, without what came later and is not used."""
        return self.model_dump(mode="json", exclude=set() if self.best is not None else {"best", "of"})


class JudgedRows(RowSource):
    """The prompts of another split whose answers by a model a judge labels in one way. They keep their ids (unless
    they are asked `anew`), clusters and categories. Their column is `share` and, if named in `columns.keep`,
    `p_refusal`, besides what the other split keeps."""

    fetched: ClassVar[bool] = False
    have_ids: ClassVar[bool] = True
    later: ClassVar[tuple[str, ...]] = (*RowSource.later, "anew")
    own_columns: ClassVar[tuple[str, ...]] = (SHARE,)

    kind: Literal["judged"]
    split: Slug = Field(description="The split whose prompts they are. The study need not evaluate it.")
    model: Slug = Field(
        description="Model of the catalogue whose answers to them are judged, as many as the study's `samples`. The "
        "study need not evaluate it."
    )
    judge: Slug = Field(
        description="Judge of the catalogue. One that is not among the study's `judges` only chooses prompts, and is "
        "in no table."
    )
    keep: Kept = Field(description="Which prompts are kept.")
    anew: bool = Field(
        False,
        description="Give the prompts ids of their own, so that every model answers them with other draws than those "
        "by which they were chosen. Without it the model refuses them as often as `keep` says by construction.",
    )

    @property
    def keeps_ids(self) -> bool:
        return not self.anew

    @property
    def made_of(self) -> str:
        return self.split

    def reads(self, split: str) -> list[AnswersRead]:
        return [AnswersRead(self.model, self.split), AnswersRead(self.model, self.split, self.judge)]

    def param(self) -> dict[str, Any]:
        """Return it as a rule's param."""
        return super().param() | {"keep": self.keep.param()}

    @property
    def name(self) -> str:
        return f"{self.split} as {self.judge} reads {self.model}"

    @property
    def origin(self) -> str:
        return f"{self.kind} {self.split}"

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        whose = f"of {quoted(self.model)}, as {quoted(self.judge)} reads them"
        anew = "; they are answered anew" if self.anew else ""
        return f"the prompts of {quoted(self.split)} of which {self.keep.in_words()} (answers {whose}{anew})"

    def rows_of_each(self, tokens: float) -> float:
        return ASSUMED_SHARE

    def own_rows(self, path: str, *read: str) -> list[dict[str, Any]]:
        """Return the prompts that are kept.

        Raises:
            UserError: if there is none.
        """
        shares, chances, kept = self._labelled(path, *read)
        if self.keep.best is not None:
            if kept and not any(prompt["id"] in chances for prompt in kept):
                raise UserError(
                    f"no verdict of `{self.judge}` on the answers of `{self.model}` to `{self.split}` has a probability"
                )
            kept = best_of(kept, chances, self.keep.best, self.keep.of)
        share_of = shares if self.keep.labels else {}
        rows = [_row(prompt, share_of.get(prompt["id"]), chances.get(prompt["id"])) for prompt in kept]
        if self.anew:
            rows = [row | {"id": content_id([row["id"], "anew"]), "parent": row["id"]} for row in rows]
        if not rows:
            highest = f"the {'lowest' if self.keep.at_most is not None else 'highest'} share is "
            highest += f"{(min if self.keep.at_most is not None else max)(shares.values(), default=0.0):.2f}"
            raise UserError(
                f"there is no prompt of `{self.split}` of which {self.keep.in_words()} ({self.model}, read by "
                f"{self.judge}); {highest}. Change `keep`, or name another model, judge or split"
            )
        return rows

    def fates(self, path: str, *read: str) -> list[Fate]:
        """Return what became of every prompt that it chooses from."""
        _, chances, labelled = self._labelled(path, *read)
        best = labelled if self.keep.best is None else best_of(labelled, chances, self.keep.best, self.keep.of)
        states = dict.fromkeys((prompt["id"] for prompt in labelled), "outdone")
        states |= dict.fromkeys((prompt["id"] for prompt in best), "kept")
        found = [(states.get(prompt["id"], "left_out"), prompt["category"]) for prompt in read_jsonl(path)]
        return [Fate(state, FATES[state], state == "kept", category) for state, category in found]

    def _labelled(self, path: str, *read: str) -> tuple[dict[str, float], dict[str, float], list[Mapping[str, Any]]]:
        """Return the share and the chance of each prompt, and the prompts whose answers are labelled so."""
        answers, verdicts = (list(read_jsonl(file)) for file in read)
        shares = shares_of(answers, verdicts, self.keep.labels, unlabelled=self.keep.at_most is not None)
        kept = [prompt for prompt in read_jsonl(path) if self._keeps(shares, prompt["id"])]
        return shares, chances_of(answers, verdicts), kept

    def _keeps(self, shares: Mapping[str, float], prompt: str) -> bool:
        # Of a prompt that was not asked, nothing is known.
        if prompt not in shares:
            return False
        if not self.keep.labels:
            return True
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


def chances_of(answers: Iterable[Mapping[str, Any]], verdicts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean probability of a refusal over the answers to each prompt that have one; a blocked one has 1.

    Args:
        answers: rows of a file of answers.
        verdicts: the rows of a judge about them.
    """
    read = {place_of(row): row.get("p_refusal") for row in verdicts}
    found: dict[str, list[float]] = {}
    for row in answers:
        chance = 1.0 if row["state"] == BLOCKED else read.get(place_of(row))
        if chance is not None:
            found.setdefault(row["prompt_id"], []).append(chance)
    return {prompt: math.fsum(own) / len(own) for prompt, own in found.items()}


def best_of(
    prompts: Iterable[Mapping[str, Any]], chances: Mapping[str, float], count: int, of: str
) -> list[Mapping[str, Any]]:
    """Return so many prompts of each group with the highest chances, in their order; of equal ones the first.

    Args:
        prompts: rows of a file of prompts.
        chances: of prompts, by id; one without is left out.
        of: what a group is: `parent`, `cluster` or `split`.
    """
    groups: dict[str, list[tuple[float, int, Mapping[str, Any]]]] = {}
    for place, prompt in enumerate(prompts):
        if prompt["id"] in chances:
            parent = prompt["source"].get("parent") or prompt["id"]
            group = {"parent": parent, "cluster": prompt["cluster"], "split": ""}[of]
            groups.setdefault(group, []).append((-chances[prompt["id"]], place, prompt))
    first = [one for own in groups.values() for one in sorted(own, key=lambda one: one[:2])[:count]]
    return [prompt for _, _, prompt in sorted(first, key=lambda one: one[1])]


def _row(prompt: Mapping[str, Any], share: float | None, chance: float | None) -> dict[str, Any]:
    about = {"parent": prompt["source"].get("parent") or prompt["id"], SHARE: "" if share is None else f"{share:.4g}"}
    about[CHANCE] = "" if chance is None else f"{chance:.6g}"
    kept = prompt["source"].get("kept", {}) | ({"right": prompt["right"]} if "right" in prompt else {})
    return {**kept, **about} | {key: prompt[key] for key in ("id", "messages", "cluster", "category")}
