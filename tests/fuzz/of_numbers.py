"""What numbers and pages are made of: answers and verdicts, a fitted judge, and text that is shown."""

import contextlib
import re
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.mutations import as_json, as_jsonl
from fuzz.targets import file_of, is_finite, target
from score_cell import main as score_cell

from refusal_eval.ask.answers import blank
from refusal_eval.core.right_answers import is_right, right_answer
from refusal_eval.core.states import LABELS
from refusal_eval.judges.trained.features import SeenAnswer
from refusal_eval.judges.trained.fitted_file import load
from refusal_eval.judges.trained.model import Examples, fit, predict, verdict
from refusal_eval.report.paper.display import clean
from refusal_eval.report.paper.latex_text import latex_escaped
from refusal_eval.report.paper.markup import markdown_escaped

PROMPTS: list[Any] = [
    {"id": name, "messages": [{"role": "user", "content": name}], "category": "x", "cluster": name, "source": {}}
    for name in ("a", "b")
]
PLACES = [{"prompt_id": name, "sample": sample, "turn": 0} for name in ("a", "b") for sample in (0, 1)]
ANSWERS: list[Any] = [
    place | {"key": None, "serving": None} | blank("complete", "stop") | {"answer": "No.", "answer_logprob": -0.5}
    for place in PLACES
]
VERDICTS: list[Any] = [
    place
    | {
        "state": "judged",
        "label": label,
        "p_refusal": 0.75,
        "kind": None,
        "flags": [],
        "raw": {"rule": "x"},
        "key": None,
    }
    for place, label in zip(PLACES, ("refusal", "partial", "compliance", "refusal"), strict=True)
]
CELL = {
    "judge": "j",
    "model": "m",
    "split": "s",
    "expectation": "comply",
    "samples": 2,
    "max_tokens": 300,
    "headline": "broad",
    "level": 0.95,
    "tau": 1.0,
    "band": 0.1,
}


def _scored(folder: Path, **given: bytes) -> None:
    rows = {"prompts": as_jsonl(PROMPTS), "answers": as_jsonl(ANSWERS), "verdicts": as_jsonl(VERDICTS)} | given
    paths = {name: str(file_of(folder, f"{name}.jsonl", data)) for name, data in rows.items()}
    score_cell(paths, CELL, str(folder / "scores.parquet"))


@target("scores: answers", [ANSWERS], as_jsonl)
def scored_answers(data: bytes, folder: Path) -> None:
    _scored(folder, answers=data)


@target("scores: verdicts", [VERDICTS], as_jsonl)
def scored_verdicts(data: bytes, folder: Path) -> None:
    _scored(folder, verdicts=data)


def _fitted(folder: Path) -> list[Any]:
    """Return a fitted judge as its file has it."""
    rng = np.random.default_rng(1)
    rows = [(place, label) for place, label in enumerate(LABELS) for _ in range(3)]
    gold = [
        {"seen": SeenAnswer(frozenset(), tuple(rng.normal(size=4) + place)), "label": label, "cluster": number}
        for number, (place, label) in enumerate(rows)
    ]
    return [{"features": ["words", "reading"], "model": fit(Examples.of(gold)).model_dump(), "gold": {}}]


@target("judge: trained", _fitted, as_json)
def fitted_judge(data: bytes, folder: Path) -> None:
    model = load(file_of(folder, "judge.json", data)).model
    said = verdict(predict(model, [SeenAnswer(frozenset(), (0.0,) * 4)])[0])
    assert said.label in LABELS and is_finite(said.p_refusal) and 0 <= float(said.p_refusal or 0) <= 1


SAID = ["So 1{,}270 + 7 = **1,277.50**.", "\u2212\u0663.5 = x\u00b2", "Answer: (B), as option C is wrong.", "A"]


@target("right answers", [text.encode() for text in SAID])
def right_answers(data: bytes, folder: Path) -> None:
    text = data.decode(errors="replace")
    for match, right in (("number", "1277.5"), ("choice", "B")):
        assert is_right(text, right, match) in (True, False)
        with contextlib.suppress(ValueError):  # of a cell that holds none
            assert is_right(text, right_answer(text, match), match) in (True, False)


TEXTS = [
    "plain text, 中文 and é".encode(),
    b"<b>x</b> [a](http://b.example) *c* | d\n# e www.f.example",
    b"\\input{/etc/passwd} $x_1$ ^^41 % {}",
    "\u202eabc\u202c \x1b[31m \x00 \ufeff".encode(),
]
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _harmless(text: str) -> None:
    assert not HIDDEN.search(text), f"a character that nobody sees: {unicodedata.name(HIDDEN.search(text)[0], '?')}"  # type: ignore[index]


@target("text in Markdown", TEXTS)
def markdown(data: bytes, folder: Path) -> None:
    text = markdown_escaped(clean(data.decode(errors="replace")))
    _harmless(text)
    assert "<" not in text.replace("<!-- -->", "").replace("<br>", "")


@target("text in LaTeX", TEXTS)
def latex(data: bytes, folder: Path) -> None:
    text = latex_escaped(clean(data.decode(errors="replace")))
    _harmless(text)
    assert "^^" not in text
