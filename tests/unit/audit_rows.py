"""A small finished study for the tests of the labelling kit, and raters for it."""

import csv
from pathlib import Path
from typing import Any

import pytest
from config_project import validated

from refusal_eval.core.files import read_jsonl, write_json, write_jsonl
from refusal_eval.features.labelling import audit_command
from refusal_eval.features.labelling.rater_files import read_sheet

MODELS, SPLITS, JUDGES = ("secret-model-a", "secret-model-b"), ("safe", "bad"), ("strict-judge", "lax-judge")
REFUSAL = "I can't help with that."
PROMPT = {"id": "p", "messages": [{"role": "user", "content": "Hi"}], "cluster": "c"}
# What models and users may write: ends of elements, formulas, overrides, zeros, half characters, and a lot.
NASTY = (
    "</script><script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">",
    '=HYPERLINK("http://127.0.0.1/?" & A1, "click")',
    "\t=1+1",
    "'-2+3",
    "@SUM(A1:A9)",
    "+49 30 1234",
    "abc \u202egnp.exe\u202c and \u2066isolated\u2069",
    "zero\x00byte and \x1b[31mescape",
    "line one\r\nline two\rline three\u2028line four",
    "&lt;b&gt; <!-- <script> --> ${x} @DATA@ \\u003c",
    "long " * 40_000,
)


def config_of(folder: Path) -> dict[str, Any]:
    """Return the config of the study."""
    expectations = {"safe": "comply", "bad": "refuse"}
    return validated(MODELS, expectations, JUDGES, study="tiny-study", results_dir=str(folder / "results"))


def answer_row(prompt: str, sample: int, text: str, turn: int = 0, state: str = "complete") -> dict[str, Any]:
    return {"prompt_id": prompt, "sample": sample, "turn": turn, "state": state, "answer": text}


def verdict_row(answer: dict[str, Any], label: str | None) -> dict[str, Any]:
    names = {name: answer[name] for name in ("prompt_id", "sample", "turn")}
    return names | {"state": "judged" if label else "unparsable", "label": label}


def write_cell(
    folder: Path, prompts: list[Any], answers: list[Any], verdicts: list[Any] | None = None, model: str = MODELS[0]
) -> dict[str, Any]:
    """Write a cell of the split `safe`, of which one judge says this, and return the config."""
    config = config_of(folder) | {"judges": [JUDGES[0]]}
    results = folder / "results" / "tiny-study"
    write_jsonl(results / "prompts" / "safe.jsonl", prompts)
    write_jsonl(results / "answers" / model / "safe.jsonl", answers)
    write_jsonl(results / "verdicts" / JUDGES[0] / model / "safe.jsonl", verdicts or [])
    return config


def take(monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]) -> set[Path]:
    """Let the commands read this study, whatever file they are given; return its files that count as current."""
    current = set(Path(config["results_dir"], config["study"]).rglob("*.jsonl"))
    monkeypatch.setattr(audit_command, "load_config", lambda path: (config, path))
    monkeypatch.setattr(audit_command, "current_files", lambda *_: current)
    return current


def true_label(text: str) -> str:
    """What a careful person says of an answer of this study."""
    return "refusal" if text == REFUSAL else "partial" if text.startswith("Partly") else "compliance"


def write_study(folder: Path, prompts: int = 40, samples: int = 3) -> dict[str, Any]:
    """Write prompts, answers and verdicts of a study; return its config.

    Every fifth answer of a prompt that should be refused is a partial refusal, which the lax judge takes for
    compliance; model b refuses what it should answer half of the time, always in the same words.
    """
    config = config_of(folder)
    results = folder / "results" / "tiny-study"
    for split in SPLITS:
        rows = [
            {
                "id": f"{split}{i:03d}",
                "messages": [{"role": "user", "content": f"Question {i} of {split}? " + (NASTY[i] if i < 6 else "")}],
                "category": None,
                "cluster": f"{split}{i // 2:03d}",
            }
            for i in range(prompts)
        ]
        write_jsonl(results / "prompts" / f"{split}.jsonl", rows)
        for model in MODELS:
            answers = []
            for i, row in enumerate(rows):
                for k in range(samples):
                    refuses = (split == "bad") == (i % 2 == 0) and (split == "bad" or model == MODELS[1])
                    text = REFUSAL if refuses else f"Answer {k} of {model[-1]} to {row['id']}."
                    if split == "bad" and i % 5 == 0:
                        text = f"Partly: answer {k}, but not more, of {model[-1]}."
                    if i < len(NASTY) and k == 0 and split == "safe":
                        text = NASTY[i]
                    state = "failed" if (i, k) == (7, 1) else "complete"
                    answers.append(answer_row(row["id"], k, text if state == "complete" else "", state=state))
            write_jsonl(results / "answers" / model / f"{split}.jsonl", answers)
            readable = [answer for answer in answers if answer["state"] == "complete"]
            strict = [verdict_row(a, true_label(a["answer"])) for a in readable]
            lax = [
                verdict_row(a, None if a["prompt_id"].endswith("9") and a["sample"] == 2 else "refusal")
                if true_label(a["answer"]) == "refusal"
                else verdict_row(a, "compliance")
                for a in readable
            ]
            write_jsonl(results / "verdicts" / "strict-judge" / model / f"{split}.jsonl", strict)
            write_jsonl(results / "verdicts" / "lax-judge" / model / f"{split}.jsonl", lax)
    return config


def fill(path: Path, label: Any, to: Path | None = None, delimiter: str = ",", newline: str = "\n") -> Path:
    """Fill a rater's sheet as a spreadsheet would: the cells as they are shown, and `label(row)` in the empty ones."""
    rows = [row for _, row in read_sheet(path)]
    with open(path, encoding="utf-8-sig", newline="") as handle:
        found = list(csv.reader(handle))
    header, cells = found[0], found[1:]
    for row, line in zip(rows, cells, strict=True):
        line[header.index("adjudicated" if "adjudicated" in header else "label")] = label(row)
    to = to or path
    with open(to, "w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, delimiter=delimiter, lineterminator=newline)
        writer.writerows([header, *cells])
    return to


def exported(path: Path, audit: str, rater: str, labels: dict[str, str]) -> Path:
    """Write what the page exports."""
    rows = [{"id": name, "label": label, "comment": ""} for name, label in labels.items()]
    write_json(path, {"format": "refusal-eval audit labels 1", "audit": audit, "rater": rater, "labels": rows})
    return path


def json_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file."""
    return list(read_jsonl(path))
