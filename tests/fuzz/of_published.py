"""What the published library writes: its results and its configs."""

import json
from pathlib import Path
from typing import Any

import yaml
from fuzz.mutations import as_json, as_yaml
from fuzz.targets import file_of, is_finite, is_text, target

from refusal_eval.config.yaml_source import Source
from refusal_eval.data.prompts import content_id
from refusal_eval.features.published.published_config import Shipped, ShippedEngine, imported
from refusal_eval.features.published.published_results import read_results
from refusal_eval.recorded.recorded_rows import recorded_cell, recorded_verdicts

PROMPTS = [
    {"id": content_id(text), "messages": [{"role": "user", "content": text}], "cluster": text}
    for text in ("One?", "Two?")
]
ANSWERS: list[Any] = [
    {
        "prompt": text,
        "answers": [
            {"text": "<think>Hm.</think>No.", "thinking_prob": 0.5, "answer_prob": 0.25, "full_prob": 0.4},
            {"text": "Sure.", "thinking_prob": -1, "answer_prob": 0.75, "full_prob": 0.7},
        ],
    }
    for text in ("One?", "Two?")
]
JUDGED: list[Any] = [{"prompt": text, "judge_scores": [1, -1]} for text in ("One?", "Two?")]
MARKS = {"start": "<think>", "end": "</think>"}


@target("published results: answers", [ANSWERS], as_json)
def published_answers(data: bytes, folder: Path) -> None:
    path = file_of(folder, "one/answers.json", data)
    read_results(folder, ["one"])
    cell = recorded_cell(PROMPTS, path, MARKS, 2)
    assert len(cell.answers) == 4
    for row in cell.answers:
        assert is_text(row["answer"]) and (row["reasoning"] is None or is_text(row["reasoning"]))
        assert row["answer_logprob"] is None or (is_finite(row["answer_logprob"]) and row["answer_logprob"] <= 0)
    json.dumps([cell.answers, cell.published], allow_nan=False, ensure_ascii=False).encode()


@target("published results: verdicts", [JUDGED], as_json)
def published_verdicts(data: bytes, folder: Path) -> None:
    recorded = file_of(folder, "one/answers.json", as_json(ANSWERS))
    judged = file_of(folder, "one/judge_scores.json", data)
    answers = recorded_cell(PROMPTS, recorded, MARKS, 2).answers
    rows = recorded_verdicts(PROMPTS, answers, recorded, judged)
    assert all(type(row["raw"].get("judge_score", 0)) is not bool for row in rows)
    assert all(-1 <= row["raw"].get("judge_score", 0) <= 1 for row in rows)
    json.dumps(rows, allow_nan=False, ensure_ascii=False).encode()


CONFIG = {
    "dataset_splits": ["jailbreakbench", "xstest_safe"],
    "model": {
        "name_or_path": "Owner/Model-Thinking",
        "max_model_len": 16384,
        "max_new_tokens": 4096,
        "thinking-string": "<think>",
        "num_return_sequences": 7,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
    },
    "judge_model": {"name_or_path": "openai/gpt-oss-20b", "max_model_len": 24576, "max_new_tokens": 8192},
    "gpu_memory_utilization": 0.85,
    "tensor_parallel_size": "auto",
    "output_dir": "outputs/model",
}
SHIPPED = Shipped(
    ["jailbreakbench", "xstest_safe"], ["keyword", "gpt-oss-20b"], {"Owner/Known": ShippedEngine("known-engine", 4)}
)


@target("published config", [CONFIG], as_yaml)
def published_config(data: bytes, folder: Path) -> None:
    source = Source(str(file_of(folder, "theirs.yaml", data)))
    if source.readable:
        result = imported(source.data, "theirs", SHIPPED, gpus=4)
        yaml.safe_dump([result.study, result.catalogue], allow_unicode=True).encode()
