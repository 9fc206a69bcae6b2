"""Refusal tokens with the real engine: q, the replies behind each token and every look-up, against transformers."""

import csv
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
from project import ROOT, Project, change_yaml
from real import real_project

from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.study.engine_environment import ENGINE_FOLDER

pytestmark = [pytest.mark.full, pytest.mark.feature("refusal_tokens")]
REFERENCE = Path(__file__).with_name("token_reference.py")
SPLITS = {"safe": "comply", "decline": "refuse"}
TOKENS = ("[refuse]", "[respond]")
BRANCHES = ("refuse", "respond")
LENGTH = 12
THRESHOLDS, TEMPERATURES = [0.0, 0.3, 0.6, 1.0], [1.0, 2.0]
# Made-up: what is read is that the words of each reply decide, and not what a refusal is.
JUDGE = """\
def judge(messages, answer):
    return ("refusal", "compliance", "partial")[len(answer.split()) % 3]
"""


def label_of(answer: str) -> str:
    return {0: "refusal", 1: "compliance", 2: "partial"}[len(answer.split()) % 3]


def reference(given: dict[str, Any]) -> Any:
    command = [str(ROOT / ENGINE_FOLDER / "bin" / "python"), str(REFERENCE)]
    run = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1]) if "plant" not in given else None


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a finished study of a model with planted tokens, as it is and behind each of them, and of a plain one."""
    folder = tmp_path_factory.mktemp("tokens") / "project"
    project = real_project(folder, determinism="seeded")
    project.snakemake("results/small/engines/smollm2-135m.json")
    weights = ROOT / read_json(project.results / "engines" / "smollm2-135m.json")["folder"]
    reference({"plant": str(weights), "into": str(folder / "planted")})
    (folder / "by_words.py").write_text(JUDGE)
    greedy = {"max_tokens": LENGTH, "temperature": 0}
    small = {"like": "smollm2-135m", "memory_share": 0.1}
    planted = {"weights": {"kind": "folder", "path": "planted"}, "dtype": "float32"}
    tokens = {"refuse": TOKENS[0], "respond": TOKENS[1]}
    first = {"kind": "first_token", "engine": "planted", "refusal": [TOKENS[0]], "compliance": [TOKENS[1]]}
    change_yaml(
        folder / "catalogue.yaml",
        lambda data: {
            **data,
            "engines": {"smollm2-135m": small, "planted": {"like": "smollm2-135m", **planted}},
            "models": {
                "trained": {"engine": "planted", "sampling": greedy, "refusal_tokens": tokens},
                "bare": {"engine": "planted", "sampling": greedy},
                "plain": {"like": "smollm2-plain", "sampling": greedy},
            },
            "judges": {
                "words": {"kind": "python", "file": "by_words.py"},
                "first": {**first, "mass_floor": 0.0},
            },
        },
    )
    project.study(
        models=["trained", "bare", "plain"],
        judges=["words", "first"],
        samples=1,
        refusal_tokens={"thresholds": THRESHOLDS, "temperatures": TEMPERATURES},
    )
    project.snakemake()
    return project


@pytest.fixture(scope="module")
def expected(project: Project) -> dict[str, list[dict[str, Any]]]:
    """Return of each split its prompts, with what transformers makes of them."""
    rows = {split: list(read_jsonl(project.results / "prompts" / f"{split}.jsonl")) for split in SPLITS}
    chats = [row["messages"] for own in rows.values() for row in own]
    asked = {"folder": str(project.folder / "planted"), "chats": chats, "tokens": TOKENS, "length": LENGTH}
    found = iter(reference(asked))
    return {split: [row | next(found) for row in own] for split, own in rows.items()}


def results(project: Project, **wanted: str) -> list[dict[str, str]]:
    with (project.results / "results_table" / "results.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if all(row[key] == value for key, value in wanted.items())]


def of_prompt(path: Path) -> dict[str, dict[str, Any]]:
    return {row["prompt_id"]: row for row in read_jsonl(path)}


def share(logprobs: list[float], temperature: float = 1.0) -> float:
    weights = [math.exp(value / temperature) for value in logprobs]
    return weights[0] / sum(weights)


def test_the_probabilities_of_both_tokens_are_those_at_the_beginning_of_a_reply(
    project: Project, expected: dict[str, list[dict[str, Any]]]
) -> None:
    for split, prompts in expected.items():
        stored = of_prompt(project.results / "token_probabilities" / "trained" / f"{split}.jsonl")
        assert len(stored) == len(prompts) >= 4
        for row in prompts:
            logprobs = stored[row["id"]]["logprobs"]
            assert [logprobs[name] for name in BRANCHES] == pytest.approx(row["logprobs"], abs=2e-4)
    every = [share(row["logprobs"]) for prompts in expected.values() for row in prompts]
    assert len({round(q, 3) for q in every}) > 4, "prompts differ in q, or nothing is tested below"


def test_each_branch_answers_as_transformers_does_behind_its_token_and_the_token_is_no_part_of_the_answer(
    project: Project, expected: dict[str, list[dict[str, Any]]]
) -> None:
    differ = 0
    for split, prompts in expected.items():
        for place, branch in enumerate(BRANCHES):
            answers = of_prompt(project.results / "answers" / f"trained.{branch}" / f"{split}.jsonl")
            for row in prompts:
                own, reply = answers[row["id"]], row["replies"][place]
                assert own["answer"].strip() == reply["text"].strip()
                assert own["answer_logprob"] == pytest.approx(sum(reply["logprobs"]) / len(reply["logprobs"]), abs=2e-4)
        differ += sum(row["replies"][0]["text"] != row["replies"][1]["text"] for row in prompts)
    assert differ >= 4, "the token decides what follows"


def test_the_judge_of_first_tokens_says_q_of_its_own_model_and_nothing_of_others(
    project: Project, expected: dict[str, list[dict[str, Any]]]
) -> None:
    for split, prompts in expected.items():
        verdicts = of_prompt(project.results / "verdicts" / "first" / "bare" / f"{split}.jsonl")
        for row in prompts:
            q = share(row["logprobs"])
            assert verdicts[row["id"]]["p_refusal"] == pytest.approx(q, abs=2e-4)
            if abs(q - 0.5) > 1e-3:
                assert verdicts[row["id"]]["label"] == ("refusal" if q > 0.5 else "compliance")
    of_others = {row["model"] for row in results(project, judge="first", estimand="refusal_rate")} - {"bare"}
    assert not of_others, "a model that it does not read has no rate by it"


def looked_up(prompts: list[dict[str, Any]], choice: str) -> list[tuple[int, str]]:
    """Return the branch that a choice takes for each prompt, and the label of its answer."""
    found = []
    for row in prompts:
        p = row["logprobs"]
        if choice == "arg-max":
            takes = p[0] >= p[1]
        else:
            raw, rest = choice.startswith("raw"), dict(part.split("=") for part in choice.split(", ") if "=" in part)
            q = math.exp(p[0]) if raw else share(p, float(rest["T"]))
            takes = q >= float(rest["t"])
        branch = 0 if takes else 1
        found.append((branch, label_of(row["replies"][branch]["text"])))
    return found


def test_every_rate_is_that_of_the_answers_looked_up_by_hand(
    project: Project, expected: dict[str, list[dict[str, Any]]]
) -> None:
    kinds = {f"t={t:g}, T={T:g}" for t in THRESHOLDS for T in TEMPERATURES} | {"arg-max"}
    kinds |= {f"raw, t={t:g}, T=1" for t in THRESHOLDS}
    counted = {"strict": ("refusal",), "broad": ("refusal", "partial")}
    for split, prompts in expected.items():
        assert {r["parameter"] for r in results(project, estimand="refusal_token_rate", split=split)} == kinds
        for choice in kinds:
            taken = looked_up(prompts, choice)
            for reading, labels in counted.items():
                (row,) = results(
                    project,
                    **{"estimand": "refusal_token_rate", "split": split, "parameter": choice, "category": ""},
                    **{"reading": reading, "judge": "words", "model": "trained"},
                )
                hand = sum(label in labels for _, label in taken) / len(taken)
                assert float(row["value"]) == pytest.approx(hand, abs=1e-6), (split, choice, reading)
            (row,) = results(
                project, estimand="refusal_token_share", split=split, parameter=choice, category="", model="trained"
            )
            assert float(row["value"]) == pytest.approx(sum(b == 0 for b, _ in taken) / len(taken), abs=1e-6)


def test_f1_and_the_area_under_the_curve_are_those_counted_by_hand(
    project: Project, expected: dict[str, list[dict[str, Any]]]
) -> None:
    for choice in ("t=0.3, T=1", "t=0.6, T=2", "arg-max"):
        refused = {
            split: [label == "refusal" for _, label in looked_up(prompts, choice)]
            for split, prompts in expected.items()
        }
        tp, fn, fp = sum(refused["decline"]), refused["decline"].count(False), sum(refused["safe"])
        (row,) = results(
            project,
            **{"estimand": "refusal_token_f1", "reading": "strict", "parameter": choice, "category": ""},
            judge="words",
        )
        assert float(row["value"]) == pytest.approx(2 * tp / (2 * tp + fp + fn), abs=1e-6)
    q = {split: [share(row["logprobs"]) for row in prompts] for split, prompts in expected.items()}
    pairs = [(one > other) + 0.5 * (one == other) for one in q["decline"] for other in q["safe"]]
    (row,) = results(project, estimand="refusal_token_auroc", parameter="share", category="")
    assert float(row["value"]) == pytest.approx(sum(pairs) / len(pairs), abs=1e-6)
