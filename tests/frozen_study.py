"""A made-up study with every number and every kind of figure, for results that one version keeps of another."""

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from flagged_study import MODELS, STUDY, change_lines, make_flagged
from rule_jobs import planned, run

from refusal_eval.stats.agreement.measures import UNSEEN
from refusal_eval.stats.estimates.estimate import Estimate

DIALOGUES = "talks"
TURNS = 3
WITH_PROBABILITY, WITH_VOTES = "j01", "votes"
FLAGS = ("degenerate", "evasive", "propaganda")
KINDS = ("heatmap", "histograms", "tradeoff", "categories", "tau_sweep", "turns", "judge_agreement")
SENTENCE = "This is a made-up answer. "
NAMES = ("prompt_id", "sample", "turn")


def make_frozen(folder: Path) -> Path:
    """Write the study up to its verdicts; return its study file. The same bytes every time."""
    study = make_flagged(folder)
    results = folder / "results" / STUDY
    for path in sorted((results / "verdicts" / WITH_PROBABILITY).rglob("*.jsonl")):
        change_lines(path, _with_probability)
    _write_votes(results)
    for model in MODELS:
        _write_dialogue_cell(results, model)
    _write(results / f"prompts/{DIALOGUES}.jsonl", _dialogues())
    (folder / f"{DIALOGUES}.jsonl").write_text('{"question": "?"}\n', encoding="utf-8")
    (folder / "rubric.md").write_text("Judge.\n<a-{{ nonce }}>{{ prompt }}\n{{ answer }}</a-{{ nonce }}>\nLabel:")
    _write_agreement_of_people(folder)
    _ask_for_everything(folder, study)
    return study


def made_frozen(folder: Path) -> Path:
    """Return the folder of such a study whose jobs have run."""
    study = make_frozen(folder)
    list(run(planned(study, folder, {}), folder, 2))
    return folder


def _ask_for_everything(folder: Path, study: Path) -> None:
    catalogue = yaml.safe_load((folder / "catalogue.yaml").read_text(encoding="utf-8"))
    reads = {"engine": "tiny", "rubric": "rubric.md"}
    labels = {"refusal": "A", "partial": "B", "compliance": "C"}
    catalogue["judges"][WITH_PROBABILITY] = {"kind": "llm", **reads, "labels": labels, "label": "Judge 2"}
    catalogue["judges"][WITH_VOTES] = {"kind": "reasoned", **reads, "votes": 3, "label": "Judge 3"}
    catalogue["datasets"]["made_up"]["splits"][DIALOGUES] = {
        "source": {"kind": "file", "path": f"{DIALOGUES}.jsonl"},
        "columns": {"turns": ["question"]},
        "dialogue": {"mode": "cumulative"},
        "expectation": "refuse",
        "label": "Talks",
    }
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue), encoding="utf-8")
    asked = yaml.safe_load(study.read_text(encoding="utf-8"))
    asked["splits"].append(DIALOGUES)
    asked["judges"].append(WITH_VOTES)
    asked["figures"] = [{"kind": kind, "name": kind} for kind in KINDS]
    asked["figures"].append({"kind": "refusal_kinds", "name": "refusal_kinds", "judge": WITH_VOTES})
    asked["figures"].append({"kind": "calibration", "name": "calibration", "judges": [WITH_PROBABILITY]})
    study.write_text(yaml.safe_dump(asked), encoding="utf-8")


def _drawn(*names: object) -> random.Random:
    return random.Random(" ".join(map(str, names)))


def _with_probability(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    low, high = (0.5, 1.0) if row["label"] in ("refusal", "partial") else (0.0, 0.5)
    p = round(_drawn("p", row["prompt_id"], row["sample"]).triangular(low, high), 4)
    return {**row, "p_refusal": p if row["state"] == "judged" else None}


def _write_votes(results: Path) -> None:
    """Write a third judge's verdicts beside those of the first, which it often follows."""
    for path in sorted((results / "verdicts" / "j00").rglob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        other = results / "verdicts" / WITH_VOTES / path.relative_to(results / "verdicts" / "j00")
        _write(other, (_voted(row) for row in rows))


def _voted(row: Mapping[str, Any]) -> dict[str, Any]:
    draw = _drawn("vote", *(row[name] for name in NAMES))
    label = (row["label"] if draw.random() < 0.9 else None) or draw.choice(("refusal", "partial", "compliance"))
    flags = [flag for flag in FLAGS if draw.random() < 0.1]
    each = [{"tries": 1 + (draw.random() < 0.05)} for _ in range(3)]
    return {**row, "label": label, "state": "judged", "flags": flags, "raw": {"each": each}}


def _dialogues() -> Iterator[dict[str, Any]]:
    for number in range(40):
        texts = [{"role": "user", "content": f"Turn {turn} of talk {number}?"} for turn in range(TURNS)]
        yield {
            "id": f"{_drawn('talk', number).getrandbits(64):016x}",
            "messages": texts,
            "dialogue": "cumulative",
            "category": f"topic {number % 3}",
            "cluster": f"talk {number}",
            "source": {"file": f"{DIALOGUES}.jsonl", "id": None, "row": number + 1},
        }


def _write_dialogue_cell(results: Path, model: str) -> None:
    answers: list[dict[str, Any]] = []
    verdicts: dict[str, list[dict[str, Any]]] = {judge: [] for judge in ("j00", WITH_PROBABILITY, WITH_VOTES)}
    for prompt in _dialogues():
        for sample in range(3):
            for turn in range(TURNS):
                place = dict(zip(NAMES, (prompt["id"], sample, turn), strict=True))
                draw = _drawn(model, *place.values())
                answers.append(place | _answer(draw))
                for rows in verdicts.values():
                    rows.append(place | _verdict(draw, rate=(1 + MODELS.index(model) + turn) / 8))
                verdicts[WITH_PROBABILITY][-1] = _with_probability(0, verdicts[WITH_PROBABILITY][-1])
                verdicts[WITH_VOTES][-1] = _voted(verdicts[WITH_VOTES][-1])
    _write(results / f"answers/{model}/{DIALOGUES}.jsonl", answers)
    for judge, rows in verdicts.items():
        _write(results / f"verdicts/{judge}/{model}/{DIALOGUES}.jsonl", rows)


def _answer(draw: random.Random) -> dict[str, Any]:
    length = draw.randrange(3, 9)
    return {
        "answer": SENTENCE * length,
        "answer_logprob": -2 * draw.random(),
        "answer_tokens": 6 * length,
        "finish_reason": "stop",
        "key": f"{draw.getrandbits(256):064x}",
        "reasoning": None,
        "reasoning_logprob": None,
        "reasoning_tokens": 0,
        "serving": "0123456789abcdef",
        "state": "complete",
    }


def _verdict(draw: random.Random, rate: float) -> dict[str, Any]:
    refuses = draw.random() < rate
    label = draw.choice(("refusal", "refusal", "partial")) if refuses else "compliance"
    kind = draw.choice(("flat", "policy")) if refuses else None
    said = {"flags": [], "key": None, "kind": kind, "label": label, "p_refusal": None, "state": "judged"}
    return said | {"raw": {"phrase": "", "rule": ""}}


def _write_agreement_of_people(folder: Path) -> None:
    """Write what `refusal-eval audit read` leaves beside labels: how far two people agree."""
    of_readings = [{"reading": "strict"}, {"reading": "broad"}, {"parameter": "three_class"}]
    kappas = [Estimate("human_kappa", 0.75, 0.5, 0.875, 0.95, UNSEEN, **names) for names in of_readings]
    rows = [kappa.row() | {"n_prompts": 60, "n_clusters": 40} for kappa in kappas]
    whole = {key: {"kappa": 0.75, "interval": [0.5, 0.875]} for key in ("strict", "broad", "three_class")}
    (folder / "agreement.json").write_text(json.dumps(whole | {"estimates": rows}), encoding="utf-8")


def _write(path: Path, rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
