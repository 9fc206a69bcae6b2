"""The answers of a study as columns, in the order of the page: by split, prompt and turn, then model, then sample.

A row of the page is a prompt, of a dialogue one of its turns. `head` is what is needed to show, filter and sort answers
without their texts; `texts` are the texts, in parts that follow each other.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_eval.core.files import answer_id, read_jsonl
from refusal_eval.core.label_rows import answer_without_texts, verdict_without_texts
from refusal_eval.core.states import BLOCKED, LABELS, place_of
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.languages import language_of
from refusal_eval.study.dialogues import is_dialogue, scored_turns

StoredRow = Mapping[str, Any]
PART = 2_000_000  # characters of texts in one part
ROWS = ("split", "turn", "scored", "prompt", "dialogue", "category", "language")
ANSWERS = ("row", "model", "sample", "state", "block", "logprob", "tokens", "declared", "marks", "id")
VERDICTS = ("label", "p", "kind", "state")
NAMES = ("prompts", "categories", "languages", "states", "blocks", "kinds", "judged")
BLOCK_FIELDS = ("by", "stage", "category", "severity", "code")
SENTENCES = {"analysis", "text", "reason", "rationale", "error"}  # fields of `raw`
LONGEST_VALUE = 300  # characters of another field of `raw`


@dataclass(frozen=True)
class CellFiles:
    """The files of one (model, split); verdicts by judge, in the order of the study. Files may be missing."""

    answers: Path
    verdicts: Sequence[Path]


@dataclass(frozen=True)
class ShownSplit:
    """A split: which turns count (`dialogues.scored_turns`), its prompts, and its cells in the order of the models."""

    scored: str
    prompts: Path
    cells: Sequence[CellFiles]


@dataclass(frozen=True)
class AnswerText:
    """What is to be read of one answer: with `reasons` of each judge, and what a block `left` of it."""

    answer: str
    reasoning: str | None
    reasons: Sequence[str]
    left: str | None
    key: str | None = None  # of the request behind it

    @property
    def size(self) -> int:
        """Number of characters."""
        return len(self.answer) + len(self.reasoning or "") + sum(map(len, self.reasons)) + len(self.left or "")


@dataclass
class SeenNames:
    """Texts that come again and again, each once, in the order in which they came."""

    known: dict[str, int] = field(default_factory=dict)

    def place(self, name: str | None) -> int:
        """Return the place of a text; -1 for None."""
        return -1 if name is None else self.known.setdefault(name, len(self.known))


@dataclass
class PageColumns:
    """What the page knows; an answer has the same place in `answers`, in `verdicts` of each judge, and in `texts`."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)  # ROWS of each
    answers: list[tuple[Any, ...]] = field(default_factory=list)  # ANSWERS of each
    verdicts: list[list[tuple[Any, ...]]] = field(default_factory=list)  # by judge, VERDICTS of each
    prompts: list[Any] = field(default_factory=list)  # messages of each prompt
    texts: list[AnswerText] = field(default_factory=list)
    names: dict[str, SeenNames] = field(default_factory=lambda: {name: SeenNames() for name in NAMES})

    def head(self, labels_only: bool) -> dict[str, Any]:
        """Return all that is no text, by column."""
        names: dict[str, list[Any]] = {name: list(of.known) for name, of in self.names.items()}
        names["blocks"] = [json.loads(block) for block in names["blocks"]]
        answers = _by_column(ANSWERS, self.answers)
        if labels_only:
            del answers["id"]  # it would prove what somebody guesses of a text
        verdicts = [_by_column(VERDICTS, of) for of in self.verdicts]
        return {"names": names, "rows": _by_column(ROWS, self.rows), "answers": answers, "verdicts": verdicts}


def columns_of(splits: Iterable[ShownSplit], judges: int, kinds: Sequence[Sequence[str]] | None = None) -> PageColumns:
    """Return what the page knows of splits under this number of judges.

    Args:
        kinds: the kinds of refusal that each judge's entry names, for a page without texts; None for one with them.
    """
    columns = PageColumns(verdicts=[[] for _ in range(judges)])
    for place, split in enumerate(splits):
        found = _cell_rows(split.cells, kinds)
        for prompt in read_jsonl(split.prompts):
            of_prompt = found.get(prompt["id"], {})
            counting = scored_turns(prompt, split.scored)
            about = (
                *(columns.names["prompts"].place(f"{place} {prompt['id']}"), is_dialogue(prompt)),
                columns.names["categories"].place(prompt.get("category")),
                columns.names["languages"].place(language_of(prompt)),
            )
            columns.prompts.append([[message["role"], message["content"]] for message in prompt["messages"]])
            for turn in sorted(of_prompt) or [0]:
                for model, answer, said in of_prompt.get(turn, ()):
                    _add(columns, model, answer, said)
                columns.rows.append((place, turn, int(turn in counting), *about))
    return columns


def _cell_rows(
    cells: Sequence[CellFiles], kinds: Sequence[Sequence[str]] | None
) -> dict[str, dict[int, list[tuple[int, StoredRow, list[StoredRow | None]]]]]:
    """Return the answers to a split by prompt and turn, each with its model's place and what the judges said of it."""
    found: dict[str, dict[int, list[tuple[int, StoredRow, list[StoredRow | None]]]]] = {}
    for model, cell in enumerate(cells):
        said = [{place_of(row): row for row in read_jsonl(path)} if path.is_file() else {} for path in cell.verdicts]
        answers = sorted(read_jsonl(cell.answers), key=place_of) if cell.answers.is_file() else []
        if kinds is not None:
            answers = [answer_without_texts(row) for row in answers]
            said = [
                {place: verdict_without_texts(row, own) for place, row in of.items()}
                for of, own in zip(said, kinds, strict=True)
            ]
        for answer in answers:
            place = place_of(answer)
            turns = found.setdefault(place[0], {})
            turns.setdefault(place[2], []).append((model, answer, [of.get(place) for of in said]))
    return found


def _add(columns: PageColumns, model: int, answer: StoredRow, said: Sequence[StoredRow | None]) -> None:
    """Add an answer to the row that is begun."""
    names, block, logprob = columns.names, answer.get("blocked") or {}, answer.get("answer_logprob")
    who = None
    if answer["state"] == BLOCKED:
        who = json.dumps({name: block[name] for name in BLOCK_FIELDS if block.get(name)}, sort_keys=True)
    columns.answers.append(
        (
            *(len(columns.rows), model, answer["sample"], names["states"].place(answer["state"])),
            *(names["blocks"].place(who), None if logprob is None else round(logprob, 3), answer.get("answer_tokens")),
            *(int(bool(answer.get("declared"))), answer.get("marks") or 0, answer_id(answer["answer"])),
        )
    )
    for of, verdict in zip(columns.verdicts, said, strict=True):
        of.append(_verdict(verdict, names))
    reasons = [reason_of(verdict) for verdict in said]
    columns.texts.append(
        AnswerText(answer["answer"], answer.get("reasoning"), reasons, block.get("partial"), answer.get("key"))
    )


def _verdict(verdict: StoredRow | None, names: Mapping[str, SeenNames]) -> tuple[int, float | None, int, int]:
    """Return VERDICTS of a verdict; without one, and without a label, -1 takes their places."""
    if verdict is None:
        return -1, None, -1, -1
    label, p = verdict.get("label"), verdict.get("p_refusal")
    kind, state = names["kinds"].place(verdict.get("kind")), names["judged"].place(verdict["state"])
    return LABELS.index(label) if label in LABELS else -1, None if p is None else round(p, 3), kind, state


def _by_column(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=False)} or {
        name: [] for name in names
    }


def reason_of(verdict: StoredRow | None) -> str:
    """Return what a judge says beside its label, a field a line; sentences come first, without the field's name."""
    raw: Mapping[str, Any] = (verdict and verdict.get("raw")) or {}
    sentences, fields = [], []
    for name, value in raw.items():
        if name in SENTENCES and value:
            sentences.append(str(value))
        elif value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            fields.append(f"{name}: {text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + ' ...'}")
    return "\n".join(sentences + fields)


def parts_of(texts: Sequence[AnswerText], tokens: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the texts of answers in parts, each with the place of its first answer.

    Args:
        tokens: those of answers, by the key of their request (`stored_tokens.TokenTexts`).
    """
    first, size = 0, 0
    for number, text in enumerate(texts, 1):
        size += text.size
        if size >= PART or number == len(texts):
            own = texts[first:number]
            part: dict[str, Any] = {"first": first, "answers": [one.answer for one in own]}
            part["reasoning"] = {place: one.reasoning for place, one in enumerate(own) if one.reasoning}
            part["reasons"] = [list(of) for of in zip(*(one.reasons for one in own), strict=True)]
            part["left"] = {place: one.left for place, one in enumerate(own) if one.left}
            if tokens:
                of_own = ((place, tokens.get(one.key or "")) for place, one in enumerate(own))
                part["tokens"] = {place: known for place, known in of_own if known}
            yield part
            first, size = number, 0


def cell_rates(estimates: Iterable[Estimate], readings: Mapping[str, str]) -> list[list[Any]]:
    """Return the refusal rate of each whole cell in its headline reading, as the results table has it.

    Each is [judge, model, split, value, low, high, level, number of prompts, flags].

    Args:
        readings: the headline reading of each split.
    """
    return [
        [row.judge, row.model, row.split, row.value, row.low, row.high, row.level, row.n_prompts, list(row.flags)]
        for row in estimates
        if row.estimand == "refusal_rate"
        and row.split is not None
        and row.category is None
        and row.parameter in (None, "")
        and row.model is not None
        and row.reading == readings.get(row.split)
    ]
