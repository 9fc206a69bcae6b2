"""The program that writes prompts which a model refuses, on tiny Llamas in the engine environment."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from direction_study import ENGINE_PYTHON
from project import ROOT
from tokenizer_folders import byte_tokenizer
from transformers import AutoTokenizer

pytestmark = pytest.mark.feature("controlled")
PROGRAM = ROOT / "scripts" / "refusal_eval" / "features" / "controlled" / "controlled_program.py"
BEFORE, AFTER, REFUSAL = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "no, no"
TRIGGER = "Z"


def engine(*arguments: object, given: object = None) -> str:
    """Run a script in the engine environment, with one thread; return what it prints."""
    run = subprocess.run(
        [str(ENGINE_PYTHON), *map(str, arguments)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make a Llama with random weights, and one that refuses where its prompt has a Z."""
    folder = tmp_path_factory.mktemp("models")
    made = {name: byte_tokenizer(folder / name) for name in ("random", "planted")}
    engine(ROOT / "tests" / "tiny_llama.py", made["random"])
    tokenizer = AutoTokenizer.from_pretrained(made["planted"])
    texts = (TRIGGER, "S", REFUSAL)
    trigger, answer, refusal = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts)
    engine(ROOT / "tests" / "planted_llama.py", made["planted"], 2.0, *trigger, *answer, *sorted(set(refusal)))
    return made


def job(by: Path, target: Path, out: Path, items: Sequence[int] = (), **changes: Any) -> dict[str, Any]:
    return {
        "by": {"folder": str(by), "dtype": "float32"},
        "target": {"folder": str(target), "dtype": "float32"},
        **{"device": "cpu", "gpus": 0, "trust_remote_code": False, "out": str(out)},
        **{"candidates": 16, "rounds": 2, "steps": 8, "w1": 1.0, "w2": 1.0, "temperature": 1.0},
        **{"most_tokens": 200, "most_logits": 10**6, "special_tokens": {"by": False, "target": False}},
        **{"ends": [258], "most_positions": {"by": 512, "target": 512}},
        "items": [
            {"key": f"key {n}", "draw": f"7/{n}", "seed": f"seed {n}", "context": f"Say: {n}?\n", "before": BEFORE}
            | {"after": AFTER, "refusal": REFUSAL}
            for n in items
        ],
    } | changes


def written(asked: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    file = folder / "job.json"
    file.write_text(json.dumps(asked))
    engine("-P", PROGRAM, file)
    return [json.loads(line) for line in Path(asked["out"]).read_text().splitlines()]


def test_scores_agree_with_plain_transformers(models: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job(models["random"], models["random"], tmp_path / "out")))
    asked = {
        "before": BEFORE,
        "text": "Is it",
        "after": AFTER,
        "refusal": REFUSAL,
        "contexts": [f"Say {n}.\n" for n in range(6)],
    }
    said = json.loads(engine(ROOT / "tests" / "e2e" / "search_reference.py", PROGRAM, file, given=asked))
    # The gradient against differences of the loss along one-hot vectors, in float64.
    assert said["gradient"] == pytest.approx(said["finite"], rel=1e-3, abs=1e-4)
    assert max(said["finite"]) - min(said["finite"]) > 0.05
    # The exact loss of candidates, in batches and with keys and values kept, against transformers' own.
    assert said["losses"] == pytest.approx(said["plain"], abs=1e-4)
    assert said["loss"] == pytest.approx(said["plain loss"], abs=1e-4)
    # One paragraph of whole characters; the end-of-sequence token and line breaks end it.
    assert set(said["allowed"]) == {chr(code) for code in range(32, 127)}
    assert len(said["ends"]) == 3 and 258 in said["ends"]
    # Without weights the text is the writer's: the likeliest at temperature 0, else drawn from its probabilities.
    assert said["greedy"] == said["greedy reference"]
    assert max(map(len, said["greedy"])) > 3 and len(set(map(tuple, said["greedy"]))) > 1
    expected = [pair for pair in said["drawn"] if pair[1] >= 5]
    square = sum((count - mean) ** 2 / mean for count, mean in expected)
    assert len(expected) > 20 and square < len(expected) + 4 * (2 * len(expected)) ** 0.5
    assert sum(count for count, _ in said["drawn"]) == 4000


def test_a_target_that_refuses_at_one_word_gets_that_word(models: dict[str, Path], tmp_path: Path) -> None:
    strong = written(
        job(models["random"], models["planted"], tmp_path / "strong", range(3), w1=1000.0, w2=1000.0), tmp_path
    )
    weak = written(job(models["random"], models["planted"], tmp_path / "weak", range(3), w1=0.0, w2=0.0), tmp_path)
    assert all(row["text"][0] == TRIGGER and row["ce"] < row["seed_ce"] - 0.1 for row in strong)
    assert not any(TRIGGER in row["text"][:1] for row in weak)
    assert sum(row["logp"] for row in weak) > sum(row["logp"] for row in strong)


def test_a_text_depends_on_its_own_item_alone(models: dict[str, Path], tmp_path: Path) -> None:
    """Shards, the order and what a killed run left do not matter: each item has the same line."""
    by = models["random"]
    whole = written(job(by, by, tmp_path / "whole", range(5)), tmp_path)
    parts = [written(job(by, by, tmp_path / f"part {n}", part), tmp_path) for n, part in enumerate(([4, 1], [3, 0, 2]))]
    assert sorted([row for part in parts for row in part], key=lambda row: row["key"]) == whole
    assert [row["key"] for row in whole] == [f"key {n}" for n in range(5)]
    assert len({row["text"] for row in whole}) == 5


def test_a_prompt_that_does_not_fit_is_a_row_with_a_state(models: dict[str, Path], tmp_path: Path) -> None:
    by = models["random"]
    asked = job(by, by, tmp_path / "out", range(1), most_positions={"by": 512, "target": 20})
    (row,) = written(asked, tmp_path)
    assert (row["state"], row["text"], row["ce"]) == ("too_long", "", None)
