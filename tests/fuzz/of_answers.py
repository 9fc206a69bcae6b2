"""Files of answers that other tools wrote, read into neutral rows."""

import json
from pathlib import Path
from typing import Any

from answer_files import INSPECT, PLAIN, lm_eval_samples
from fuzz.mutations import as_json, as_jsonl
from fuzz.targets import file_of, is_text, target

from refusal_eval.config.log_reader import messages_of, reader_of
from refusal_eval.core.states import LABELS
from refusal_eval.features.recorded_logs.neutral_row import FIELDS


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _log() -> dict[str, Any]:
    log: dict[str, Any] = json.loads((INSPECT / "acme_careful.json").read_text(encoding="utf-8"))
    bulky = ("events", "events_data")
    kept = [{key: one for key, one in sample.items() if key not in bulky} for sample in log["samples"][:6]]
    return log | {"samples": kept}


NEUTRAL: list[Any] = [
    {
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
        **{"answer": "", "blocked": {"by": "filter"}, "sample": 0, "answer_logprob": -0.5},
        "labels": [{"by": "a", "label": "refusal", "probability": 0.9}],
    },
    {"prompt": "Hi", "answer": "Hello", "expectation": "comply", "finish_reason": "stop"},
]


def _checked(file: Path) -> None:
    content = reader_of(file).read(file, {})
    for row in content.rows:
        assert row.keys() <= FIELDS and is_text(row["answer"]) and messages_of(row)[-1]["role"] == "user"
        assert all(label.get("label") in (None, *LABELS) for label in row.get("labels", ()))
        assert row["source"]["file"] == file.name
    assert all(is_text(sentence) for sentence in content.lost)


@target("answers: neutral rows", [NEUTRAL], as_jsonl)
def neutral(data: bytes, folder: Path) -> None:
    _checked(file_of(folder, "a.jsonl", data))


@target("answers: table", lambda _: [_lines(PLAIN / "answers.jsonl")], as_jsonl)
def table(data: bytes, folder: Path) -> None:
    _checked(file_of(folder, "a.jsonl", data))


@target("answers: log of inspect", lambda _: [_log()], as_json)
def inspect(data: bytes, folder: Path) -> None:
    _checked(file_of(folder, "a.json", data))


@target("answers: packed log of inspect", lambda _: [(INSPECT / "acme_faulty_failed_samples.eval").read_bytes()])
def packed(data: bytes, folder: Path) -> None:
    _checked(file_of(folder, "a.eval", data))


@target("answers: samples of lm-evaluation-harness", lambda _: [_lines(lm_eval_samples("acme__open"))], as_jsonl)
def harness(data: bytes, folder: Path) -> None:
    _checked(file_of(folder, "a.jsonl", data))
