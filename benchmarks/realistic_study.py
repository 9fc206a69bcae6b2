"""A made-up study that looks like a real one: names, expectations, categories, dialogues, judges and marks.

It has what every kind of figure is drawn from but steered models, activations and battles (`drawn_studies.py` makes up
rows of these).
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import yaml
from made_up_study import STUDY, Size, make_study

MODELS = (
    *("Llama-3.1-8B-Instruct", "Qwen2.5-7B-Instruct", "Mistral-7B-Instruct-v0.3", "Gemma-2-9B-it"),
    *("OLMo-2-1124-7B-Instruct", "Phi-4", "Llama-3.1-8B, tuned on support chats", "Qwen2.5-7B, abliterated"),
    *("Llama-3.3-70B-Instruct", "Qwen2.5-32B-Instruct", "Mistral-Small-24B", "Gemma-3-27B-it", "Command R 7B"),
    *("Falcon3-10B-Instruct", "Yi-1.5-9B-Chat", "DeepSeek-R1-Distill-Qwen-7B", "Aya Expanse 8B", "SmolLM2-1.7B"),
    *("Granite-3.1-8B-Instruct", "InternLM3-8B-Instruct"),
)
# label, expectation; the last one is of dialogues
SPLITS = (
    *(("HarmBench", "refuse"), ("XSTest, safe", "comply"), ("StrongREJECT", "refuse"), ("OR-Bench, hard", "comply")),
    *(("Sensitive topics", "varies"), ("JailbreakBench, harmful", "refuse"), ("JailbreakBench, benign", "comply")),
    *(("XSTest, unsafe", "refuse"), ("Crescendo dialogues", "refuse")),
)
CATEGORIES = ("Chemical and biological", "Cybercrime", "Fraud", "Harassment", "Misinformation", "Privacy")
KINDS = ("direct", "alternative", "lecture", "redirection", "vagueness", "softening", "official_line")
JUDGES = ("Keyword lists", "Llama-Guard-3-8B", "Qwen2.5-14B, reasoned")
KEYWORD, PROBABLE, REASONED = "j00", "j01", "j02"
RATES = {"refuse": 0.8, "comply": 0.12, "varies": 0.4}
TURNS = 4


def make_realistic(folder: Path, models: int, splits: int, prompts: int = 60, samples: int = 3) -> Path:
    """Write a study up to its verdicts and return its study file. The same bytes for the same size."""
    study = make_study(folder, Size(models, splits, prompts, samples, len(JUDGES)), processes=2)
    results = folder / "results" / STUDY
    shown = [*SPLITS[: splits - 1], SPLITS[-1]]
    names = [f"s{number:02d}" for number in range(splits)]
    for split, (_, expectation) in zip(names, shown, strict=True):
        path, talks = results / f"prompts/{split}.jsonl", split == names[-1]
        rows = [_prompt(number, json.loads(line), talks) for number, line in enumerate(_lines(path))]
        _write(path, rows)
        source = {"prompt": "?", "question": "?", "topic": "?"}
        (folder / f"{split}.jsonl").write_text(json.dumps(source) + "\n", encoding="utf-8")
        for number in range(models):
            _write_cell(results, number, split, rows, samples, RATES[expectation])
    for judge in (PROBABLE, REASONED):
        path = results / f"verdicts/{judge}/gold/people.jsonl"
        _write(path, [_read_by(judge, json.loads(line)) for line in _lines(path)])
    (folder / "rubric.md").write_text("Judge.\n<a-{{ nonce }}>{{ prompt }}\n{{ answer }}</a-{{ nonce }}>\nLabel:")
    _describe(folder, study, models, shown)
    return study


def _describe(folder: Path, study: Path, models: int, splits: list[tuple[str, str]]) -> None:
    """Name what the catalogue has, and ask for a figure of every kind that the study allows."""
    catalogue = yaml.safe_load((folder / "catalogue.yaml").read_text(encoding="utf-8"))
    for entry, label in zip(catalogue["models"].values(), MODELS[:models], strict=True):
        entry["label"] = label
    entries = catalogue["datasets"]["made_up"]["splits"]
    for entry, (label, expectation) in zip(entries.values(), splits, strict=True):
        entry |= {"label": label, "expectation": expectation}
        entry["columns"]["category"] = "topic"
    talks = list(entries)[-1]
    entries[talks]["columns"] = {"turns": ["question"], "category": "topic"}
    entries[talks]["dialogue"] = {"mode": "cumulative"}
    reads = {"engine": "tiny", "rubric": "rubric.md"}
    labels = {"refusal": "A", "partial": "B", "compliance": "C"}
    catalogue["judges"][PROBABLE] = {"kind": "llm", **reads, "labels": labels}
    catalogue["judges"][REASONED] = {"kind": "reasoned", **reads}
    for judge, label in zip((KEYWORD, PROBABLE, REASONED), JUDGES, strict=True):
        catalogue["judges"][judge]["label"] = label
    catalogue["gold"]["people"]["label"] = "XSTest, human labels"
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue, sort_keys=False), encoding="utf-8")
    asked = yaml.safe_load(study.read_text(encoding="utf-8"))
    few = models <= 8 or len(splits) <= 8
    kinds = ["heatmap", "histograms", "tradeoff", "tau_sweep", "turns", "judge_agreement"]
    asked["figures"] = [{"kind": kind, "name": kind} for kind in kinds if few or kind != "tau_sweep"] + [
        {"kind": "categories", "name": "categories", "splits": list(entries)[:3] if models <= 8 else list(entries)[:1]},
        {"kind": "refusal_kinds", "name": "refusal_kinds", "judge": REASONED},
        {"kind": "calibration", "name": "calibration", "judges": [PROBABLE]},
    ]
    if few:
        asked["figures"].append({"kind": "threshold", "name": "threshold", "judge": PROBABLE})
    study.write_text(yaml.safe_dump(asked, sort_keys=False), encoding="utf-8")


def _prompt(number: int, row: dict[str, Any], talks: bool) -> dict[str, Any]:
    """Give a prompt a topic and, of dialogues, turns."""
    row["category"] = CATEGORIES[number % 3 if number % 4 else number % len(CATEGORIES)]
    row["cluster"] = row["id"]
    if talks:
        row["messages"] = [{"role": "user", "content": f"Turn {turn} of {row['id']}?"} for turn in range(TURNS)]
        row["dialogue"] = "cumulative"
    return row


def _write_cell(
    results: Path, model: int, split: str, prompts: list[dict[str, Any]], samples: int, rate: float
) -> None:
    """Write answers and verdicts of one model on one split: models differ in how cautious they are."""
    name = f"m{model:02d}"
    path = results / f"answers/{name}/{split}.jsonl"
    rng = random.Random(f"{name} {split}")
    caution = random.Random(f"caution {model}").gauss(0, 0.35) + rng.gauss(0, 0.1)
    first = json.loads(_lines(path)[0])
    answers: list[dict[str, Any]] = []
    verdicts: dict[str, list[dict[str, Any]]] = {judge: [] for judge in (KEYWORD, PROBABLE, REASONED)}
    cut = 0.6 if model % 5 == 2 and split == "s00" else 0.02
    for prompt in prompts:
        turns = TURNS if "dialogue" in prompt else 1
        mean = min(1.0, max(0.0, rng.gauss(rate + caution * (1.2 - rate), 0.3)))
        for sample in range(samples):
            for turn in range(turns):
                place = {"prompt_id": prompt["id"], "sample": sample, "turn": turn}
                own = {"answer_logprob": -2 * rng.random(), "key": f"{rng.getrandbits(256):064x}"}
                own |= {"state": "truncated" if rng.random() < cut else "complete"}
                answers.append(first | place | own)
                refuses = rng.random() < mean * (1 - 0.12 * turn)
                label = rng.choices(("refusal", "partial"), (5, 1))[0] if refuses else "compliance"
                said: dict[str, Any] = {"flags": [], "key": None, "kind": None, "p_refusal": None, "raw": {}}
                said |= {"state": "judged"}
                for judge, rows in verdicts.items():
                    wrong = rng.random() < {KEYWORD: 0.06, PROBABLE: 0.04, REASONED: 0.02}[judge]
                    read = ("compliance" if refuses else "refusal") if wrong else label
                    rows.append(_read_by(judge, place | said | {"label": read}))
    _write(path, answers)
    for judge, rows in verdicts.items():
        _write(results / f"verdicts/{judge}/{name}/{split}.jsonl", rows)


def _read_by(judge: str, row: dict[str, Any]) -> dict[str, Any]:
    """Give a verdict what verdicts of this judge have besides labels."""
    rng = random.Random(f"{judge} {row['prompt_id']} {row['sample']} {row['turn']} {row['label']}")
    refuses = row["label"] != "compliance"
    if judge == PROBABLE:
        p = rng.betavariate(6, 1.2) if refuses else rng.betavariate(1, 7)
        return row | {"p_refusal": round(p, 4)}
    if judge == REASONED:
        kind = rng.choices(KINDS, (30, 22, 14, 12, 9, 7, 6))[0] if refuses else None
        return row | {"kind": kind, "raw": {"each": [{"tries": 1}]}}
    return row | {"raw": {"phrase": "", "rule": ""}}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
