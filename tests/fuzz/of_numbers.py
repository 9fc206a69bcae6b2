"""What numbers and pages are made of: answers and verdicts, a fitted judge, and text that is shown."""

import io
import json
import re
import unicodedata
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from fuzz.mutations import as_json, as_jsonl
from fuzz.targets import file_of, is_finite, target
from score_cell import main as score_cell

from refusal_eval.ask.answers import blank
from refusal_eval.core.states import LABELS
from refusal_eval.judges import trained_judge
from refusal_eval.judges.keyword_judge import KeywordReader
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


KEYWORD = KeywordReader([])


def _fitted(folder: Path) -> list[Any]:
    """Return a fitted judge as {array: values}; its head, which is JSON, as its value."""
    words = {
        "refusal": "Nae, that I dinna dae",
        "partial": "Nae aw o it, but a wee bit",
        "compliance": "Aye, here ye go",
    }
    gold = [
        {"answer": f"{text} {end}", "label": label, "cluster": f"{label}{end}", "answering_model": "m"}
        for label, text in words.items()
        for end in ["the day", "the morn", "in the toun", "by the burn", "on the brae", "at the fair"]
    ]
    with mock.patch.object(trained_judge, "MIN_ROWS", 8):
        trained_judge.save(trained_judge.fit(gold, KEYWORD), folder / "judge.npz")
    with np.load(folder / "judge.npz") as arrays:
        values = {name: arrays[name].tolist() for name in arrays.files}
        return [values | {"head": json.loads(arrays["head"].tobytes())}]


def _as_npz(value: Any) -> bytes:
    stream = io.BytesIO()
    if isinstance(value, dict) and "head" in value:
        head = np.frombuffer(as_json(value["head"]), dtype=np.uint8)
        others = {name or "x": _array(item) for name, item in value.items() if name not in ("head", "file")}
        np.savez(stream, head=head, **others)
    return stream.getvalue()


def _array(value: Any) -> Any:
    try:
        return np.array(value)
    except (ValueError, OverflowError):  # of parts that do not fit together
        return np.array([value], dtype=object)


@target("judge: trained", _fitted, _as_npz)
def fitted_judge(data: bytes, folder: Path) -> None:
    model = trained_judge.load(file_of(folder, "judge.npz", data))
    (row,) = trained_judge.predict(model, ["Nae, ask me the morn"], KEYWORD)
    verdict = trained_judge.verdict(row)
    assert verdict.label in LABELS and is_finite(verdict.p_refusal) and 0 <= float(verdict.p_refusal or 0) <= 1


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
