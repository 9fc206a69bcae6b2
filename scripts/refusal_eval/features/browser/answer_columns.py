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
from refusal_eval.core.states import LABELS, place_of
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.languages import language_of
from refusal_eval.study.dialogues import is_dialogue, scored_turns

Row = Mapping[str, Any]
PART = 2_000_000  # characters of texts in one part
BLOCK_FIELDS = ("by", "stage", "category", "severity", "code")
AS_THEY_ARE = ("analysis", "text", "reason", "rationale", "error")  # fields of `raw` that are sentences
LONGEST_VALUE = 300  # characters of another field of `raw`


@dataclass
class Names:
    """Texts that come again and again, each once, in the order in which they came."""

    known: dict[str | None, int] = field(default_factory=dict)

    def place(self, name: str | None) -> int:
        """Return the place of a text; -1 for None."""
        return -1 if name is None else self.known.setdefault(name, len(self.known))


@dataclass
class Columns:
    """What the page knows of rows, answers and verdicts; an answer has the same place in all of its columns."""

    rows: dict[str, list[Any]]
    answers: dict[str, list[Any]]
    verdicts: list[dict[str, list[Any]]]
    prompts: list[Any]  # messages, or nothing where no text is shown
    texts: list[tuple[str, str | None, list[str], str | None]]  # answer, reasoning, reasons, what a block left
    names: dict[str, list[Any]]


@dataclass(frozen=True)
class Cell:
    """The files of one (model, split); verdicts by judge, in the order of the study. Files may be missing."""

    model: str
    answers: Path
    verdicts: Sequence[Path]


def columns_of(splits: Iterable[tuple[str, str, Path, Sequence[Cell]]], judges: int, labels_only: bool) -> Columns:
    """Return the columns of a study.

    Args:
        splits: name, scored turns (`dialogues.scored_turns`), prompts and cells of each split, cells in the order of
            the models.
        judges: their number.
        labels_only: leaves out all that prompts, answers and judges say.
    """
    categories, languages, states, kinds, blocks, judged = (Names() for _ in range(6))
    rows: dict[str, list[Any]] = {name: [] for name in ROWS}
    answers: dict[str, list[Any]] = {name: [] for name in ANSWERS if not (labels_only and name == "id")}
    verdicts: list[dict[str, list[Any]]] = [{name: [] for name in VERDICTS} for _ in range(judges)]
    prompts: list[Any] = []
    ids: list[str] = []
    texts: list[tuple[str, str | None, list[str], str | None]] = []
    for place, (_, scored, path, cells) in enumerate(splits):
        found = _cell_rows(cells)
        for prompt in read_jsonl(path):
            turns = sorted(found.get(prompt["id"], {0: []}))
            counting, language = scored_turns(prompt, scored), language_of(prompt)
            for turn in turns:
                row = len(rows["split"])
                values = (place, len(prompts), turn, int(is_dialogue(prompt)), int(turn in counting))
                values += (categories.place(prompt.get("category")), languages.place(language))
                _append(rows, values)
                for model, answer, said in found.get(prompt["id"], {}).get(turn, ()):
                    block = answer.get("blocked") or {}
                    shown = {name: block[name] for name in BLOCK_FIELDS if block.get(name)}
                    by = blocks.place(json.dumps(shown, sort_keys=True) if answer["state"] == "blocked" else None)
                    logprob = answer.get("answer_logprob")
                    own = (row, model, answer["sample"], states.place(answer["state"]), by)
                    own += (None if logprob is None else round(logprob, 3), answer.get("answer_tokens"))
                    own += (int(bool(answer.get("declared"))), answer.get("marks") or 0)
                    _append(answers, own if labels_only else (*own, answer_id(answer["answer"])[:10]))
                    for column, verdict in zip(verdicts, said, strict=True):
                        _append(column, _verdict(verdict, kinds, judged))
                    if not labels_only:
                        reasons = [reason_of(verdict) for verdict in said]
                        texts.append((answer["answer"], answer.get("reasoning"), reasons, block.get("partial")))
            prompts.append(None if labels_only else [[m["role"], m["content"]] for m in prompt["messages"]])
            ids.append(prompt["id"])
    names: dict[str, list[Any]] = {"categories": list(categories.known), "languages": list(languages.known)}
    names |= {"states": list(states.known), "kinds": list(kinds.known), "judged": list(judged.known)}
    names |= {"prompts": ids}
    names["blocks"] = [json.loads(str(block)) for block in blocks.known]
    return Columns(rows, answers, verdicts, prompts, texts, names)


ROWS = ("split", "prompt", "turn", "dialogue", "scored", "category", "language")
ANSWERS = ("row", "model", "sample", "state", "block", "logprob", "tokens", "declared", "marks", "id")
VERDICTS = ("label", "p", "kind", "state")


def _append(columns: Mapping[str, list[Any]], values: Iterable[Any]) -> None:
    for column, value in zip(columns.values(), values, strict=False):
        column.append(value)


def _cell_rows(cells: Sequence[Cell]) -> dict[str, dict[int, list[tuple[int, Row, list[Row | None]]]]]:
    """Return the answers to a split by prompt and turn, each with its model's place and what the judges said of it."""
    found: dict[str, dict[int, list[tuple[int, Row, list[Row | None]]]]] = {}
    for model, cell in enumerate(cells):
        said = [{place_of(row): row for row in read_jsonl(path)} if path.is_file() else {} for path in cell.verdicts]
        own = sorted(read_jsonl(cell.answers), key=place_of) if cell.answers.is_file() else ()
        for answer in own:
            verdicts = [of.get(place_of(answer)) for of in said]
            turns = found.setdefault(answer["prompt_id"], {})
            turns.setdefault(answer["turn"], []).append((model, answer, verdicts))
    return found


def _verdict(verdict: Row | None, kinds: Names, states: Names) -> tuple[int, float | None, int, int]:
    """Return the columns of a verdict; a label counts only where the judge judged."""
    if verdict is None:
        return -1, None, -1, -1
    label = LABELS.index(verdict["label"]) if verdict.get("label") in LABELS else -1
    p = verdict.get("p_refusal")
    rounded = None if p is None else round(p, 3)
    return label, rounded, kinds.place(verdict.get("kind")), states.place(verdict["state"])


def reason_of(verdict: Row | None) -> str:
    """Return what a judge says beside its label, a field a line; sentences come without the field's name."""
    raw: Mapping[str, Any] = (verdict or {}).get("raw") or {}
    lines = [str(raw[name]) for name in AS_THEY_ARE if raw.get(name)]
    for name, value in raw.items():
        if name not in AS_THEY_ARE and value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f"{name}: {text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + ' ...'}")
    return "\n".join(lines)


def parts_of(columns: Columns) -> Iterator[dict[str, Any]]:
    """Yield the texts of answers in parts, each with the place of its first answer."""
    first, size = 0, 0
    for number, (answer, reasoning, reasons, left) in enumerate(columns.texts, 1):
        size += len(answer) + len(reasoning or "") + sum(map(len, reasons)) + len(left or "")
        if size >= PART or number == len(columns.texts):
            own = columns.texts[first:number]
            part: dict[str, Any] = {"first": first, "answers": [text[0] for text in own]}
            part["reasoning"] = {place: text[1] for place, text in enumerate(own) if text[1]}
            part["reasons"] = [[text[2][judge] for text in own] for judge in range(len(columns.verdicts))]
            part["left"] = {place: text[3] for place, text in enumerate(own) if text[3]}
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
