"""A made-up study with everything in its folder up to verdicts: answers that nobody drew, labels that nobody gave.

What comes after verdicts (scores, estimates, tables, figures) can then be made by the real rules without any engine.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

STUDY = "made_up"
EXPECTATIONS = ("refuse", "comply", "varies")
CATEGORIES = 12
PROMPTS_PER_CLUSTER = 2
GOLD_ROWS = 240
KINDS = ("flat", "policy", "safety", "redirect")
SERVING = "0123456789abcdef"
SENTENCE = "This is a made-up answer that is about as long as the answers that models give to short questions. "


@dataclass(frozen=True)
class Size:
    """How large the study is, and how its entries are called.

    Attributes:
        models: number of models.
        splits: number of splits.
        prompts: prompts of each split.
        samples: K.
        judges: number of judges.
        labels: texts that models, splits, judges and categories are called by, in turn; their names without any.
    """

    models: int
    splits: int
    prompts: int
    samples: int
    judges: int = 1
    labels: Sequence[str] = field(default=())

    @property
    def answers(self) -> int:
        """Number of answers."""
        return self.models * self.splits * self.prompts * self.samples

    def name(self, kind: str, number: int) -> str:
        """Return the label of an entry."""
        return f"{self.labels[number % len(self.labels)]} {number + 1}" if self.labels else f"{kind} {number + 1}"


def make_study(folder: Path, size: Size, processes: int = 1) -> Path:
    """Write the study file, its catalogue, and results up to verdicts; return the study file.

    The same size gives the same bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = _names(size)
    _write_yaml(folder / "study.yaml", _study(size, names))
    _write_yaml(folder / "catalogue.yaml", _catalogue(size, names))
    (folder / "words.yaml").write_text("refusal_openings: ['i cannot help']\n", encoding="utf-8")
    (folder / "model").mkdir(exist_ok=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / "model" / name).write_text("{}", encoding="utf-8")  # looked for, never read
    results = folder / "results" / STUDY
    for split in names["splits"]:
        (folder / f"{split}.jsonl").write_text('{"prompt": "?"}\n', encoding="utf-8")
        _write(results / f"prompts/{split}.jsonl", (json.dumps(row) for row in _prompts(size, split)))
    (folder / "gold.jsonl").write_text('{"prompt": "?", "answer": "!", "label": "refusal"}\n', encoding="utf-8")
    _write_gold(results, names["judges"])
    engine = {"engine": "tiny", "engine_id": "0" * 16, "identity": {"dtype": "bfloat16", "weights": {"made_up": True}}}
    (results / "engines").mkdir(parents=True, exist_ok=True)
    (results / "engines" / "tiny.json").write_text(json.dumps(engine), encoding="utf-8")
    write_serving(folder, SERVING)
    work = [
        (results, size, model, split, tuple(names["judges"])) for model in names["models"] for split in names["splits"]
    ]
    with ProcessPoolExecutor(processes) as pool:
        list(pool.map(_write_cell, work))
    return folder / "study.yaml"


def write_serving(folder: Path, *ids: str) -> None:
    """Write what served answers into the store, without their responses."""
    record = {"vllm": "0.0.0", "gpus": ["a made-up GPU"]}
    lines = [json.dumps({"serving_id": name, "serving_record": record}) for name in ids]
    _write(folder / "results/store" / ("0" * 16) / f"{ids[0]}.jsonl", lines)


def _names(size: Size) -> dict[str, list[str]]:
    numbers = {"models": size.models, "splits": size.splits, "judges": size.judges}
    return {kind: [f"{kind[0]}{number:02d}" for number in range(count)] for kind, count in numbers.items()}


def _study(size: Size, names: Mapping[str, list[str]]) -> dict[str, Any]:
    return {
        "study": STUDY,
        **names,
        "samples": size.samples,
        "gold": ["people"],
        "catalogue": ["catalogue.yaml"],
        "batch": "engine",
    }


def _catalogue(size: Size, names: Mapping[str, list[str]]) -> dict[str, Any]:
    engine = {"weights": {"kind": "folder", "path": "model"}, "max_model_len": 4096, "device": "cpu"}
    models = {
        model: {"engine": "tiny", "label": size.name("Model", number), "sampling": {"max_tokens": 512}}
        for number, model in enumerate(names["models"])
    }
    splits = {
        split: {
            "source": {"kind": "file", "path": f"{split}.jsonl"},
            "columns": {"prompt": "prompt"},
            "expectation": EXPECTATIONS[number % len(EXPECTATIONS)],
            "label": size.name("Split", number),
        }
        for number, split in enumerate(names["splits"])
    }
    judges = {
        judge: {"kind": "keyword", "lists": ["words.yaml"], "label": size.name("Judge", number)}
        for number, judge in enumerate(names["judges"])
    }
    source = {"kind": "file", "path": "gold.jsonl"}
    gold = {"source": source, "labels": {"refusal": "refusal", "compliance": "compliance"}, "raters": 2}
    return {
        "engines": {"tiny": engine},
        "models": models,
        "datasets": {"made_up": {"splits": splits}},
        "judges": judges,
        "gold": {"people": gold | {"label": size.name("People", 0)}},
    }


def _prompts(size: Size, split: str) -> Iterator[dict[str, Any]]:
    rng = random.Random(split)
    for number in range(size.prompts):
        yield {
            "id": f"{rng.getrandbits(64):016x}",
            "messages": [
                {"role": "user", "content": f"A made-up question of {split}, number {number} ({rng.random()})?"}
            ],
            "category": size.name("topic", number % CATEGORIES),
            "cluster": f"{split}-{number // PROMPTS_PER_CLUSTER}",
            "source": {"file": f"{split}.jsonl", "id": None, "row": number + 1},
        }


def _write_cell(work: tuple[Path, Size, str, str, tuple[str, ...]]) -> None:
    """Write answers and verdicts of one model on one split; each judge sees them a little differently."""
    results, size, model, split, judges = work
    rng = random.Random(f"{model}/{split}")
    rate = rng.random()
    answers: list[str] = []
    verdicts: dict[str, list[str]] = {judge: [] for judge in judges}
    for prompt in _prompts(size, split):
        of_prompt = min(1.0, max(0.0, rng.gauss(rate, 0.25)))
        for sample in range(size.samples):
            length = rng.randrange(3, 9)
            key = f'"prompt_id":"{prompt["id"]}","sample":{sample},"turn":0'
            answers.append(
                f'{{"answer":"{SENTENCE * length}","answer_logprob":{-rng.random() * 2},"answer_tokens":{20 * length},'
                f'"finish_reason":"stop","key":"{rng.getrandbits(256):064x}","reasoning":null,"reasoning_logprob":null,'
                f'"reasoning_tokens":0,"serving":"{SERVING}","state":"complete",{key}}}'
            )
            truth = rng.random() < of_prompt
            for judge in judges:
                refuses = truth != (rng.random() < 0.05)
                label = rng.choice(("refusal", "refusal", "partial")) if refuses else "compliance"
                kind = f'"{rng.choice(KINDS)}"' if refuses else "null"
                verdicts[judge].append(
                    f'{{"flags":[],"key":null,"kind":{kind},"label":"{label}","p_refusal":null,'
                    f'"raw":{{"phrase":"","rule":""}},"state":"judged",{key}}}'
                )
    _write(results / f"answers/{model}/{split}.jsonl", answers)
    for judge in judges:
        _write(results / f"verdicts/{judge}/{model}/{split}.jsonl", verdicts[judge])


def _write_gold(results: Path, judges: Sequence[str]) -> None:
    rng = random.Random("gold")
    ids = [f"{rng.getrandbits(64):016x}" for _ in range(GOLD_ROWS)]
    labels = [rng.choice(("refusal", "compliance")) for _ in ids]
    rows = [
        {
            "id": name,
            "messages": [{"role": "user", "content": "A made-up question?"}],
            "answer": SENTENCE,
            "label": label,
            "cluster": name,
            "answering_model": f"answerer {number % 3}",
            "expectation": None,
        }
        for number, (name, label) in enumerate(zip(ids, labels, strict=True))
    ]
    _write(results / "gold/people.jsonl", map(json.dumps, rows))
    for judge in judges:
        verdicts = []
        for name, label in zip(ids, labels, strict=True):
            said = label if rng.random() < 0.9 else "compliance" if label == "refusal" else "refusal"
            state: dict[str, Any] = {
                "key": None,
                "kind": None,
                "p_refusal": None,
                "raw": {},
                "flags": [],
                "state": "judged",
            }
            verdicts.append(json.dumps({"prompt_id": name, "sample": 0, "turn": 0, "label": said, **state}))
        _write(results / f"verdicts/{judge}/gold/people.jsonl", verdicts)


def _write(path: Path, lines: Iterator[str] | Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as handle:
        handle.writelines(f"{line}\n" for line in lines)


def _write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True), encoding="utf-8")
