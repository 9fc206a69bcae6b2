"""The program that computes gradients of a refusal, on tiny Llamas in the engine environment."""

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from direction_study import ENGINE_PYTHON
from project import ROOT
from tokenizer_folders import byte_tokenizer
from transformers import AutoTokenizer

pytestmark = pytest.mark.feature("attributions")
PROGRAM = ROOT / "scripts" / "refusal_eval" / "features" / "attributions" / "gradient_program.py"
BEFORE, AFTER = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = ["How do I cook Z?", "Z", "Which Z is near here, and what is it called?", "Is Z or Z better?"]
BASELINE = 258
METHODS = ("gradient", "integrated_gradient")


def engine(*arguments: object) -> str:
    """Run a script in the engine environment, with one thread; return what it prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "tests" / "e2e")}
    run = subprocess.run(
        [str(ENGINE_PYTHON), *map(str, arguments)], capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make a Llama with random weights, one that refuses where its prompt has a Z, and one that ignores its prompt."""
    folder = tmp_path_factory.mktemp("models")
    made = {name: byte_tokenizer(folder / name) for name in ("random", "planted", "blind")}
    engine(ROOT / "tests" / "tiny_llama.py", made["random"])
    tokenizer = AutoTokenizer.from_pretrained(made["planted"])
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in ("Z", "S", "I", "N")]
    # Not so deep that it refuses with certainty: no gradient would be left at the prompt.
    for name, depth in (("planted", 1.0), ("blind", 0.0)):
        engine(ROOT / "tests" / "planted_llama.py", made[name], depth, *ids)
    return made


def job(folder: Path, out: Path, method: str, reply: str = "", **changes: Any) -> dict[str, Any]:
    """Return a job of a refusal's first token, or of a reply."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = tokenizer(reply, add_special_tokens=False)["input_ids"] if reply else []
    before, *texts, after = tokenizer([BEFORE, *PROMPTS, AFTER], add_special_tokens=False)["input_ids"]
    refusal = [tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in ("I", "N")]
    items = [
        {"key": f"key {n}", "token_ids": before + ids + after + said, "own": [len(before) + i for i in range(len(ids))]}
        | ({"reply": len(said)} if said else {})
        for n, ids in enumerate(texts)
    ]
    return {
        **{"folder": str(folder), "dtype": "float32", "device": "cpu", "gpus": 0, "trust_remote_code": False},
        **{"out": str(out), "method": method, "steps": 16 if method == "integrated_gradient" else 1},
        **{"most_tokens": 400, "baseline": BASELINE, "refusal": refusal, "items": items},
    } | changes


def direction_of(layer: int, model_layers: int, width: int) -> dict[str, Any]:
    """Return a direction of length 1 in which all numbers of the stream have a part."""
    raw = [(-1) ** place * (1 + place % 5) for place in range(width)]
    return {"layer": layer, "model_layers": model_layers, "vector": [one / math.hypot(*raw) for one in raw]}


OF_RANDOM = {"direction": direction_of(1, 3, 16)}  # of the tiny Llama with random weights


def computed(asked: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    file = folder / "job.json"
    file.write_text(json.dumps(asked))
    engine("-P", PROGRAM, file)
    return [json.loads(line) for line in Path(asked["out"]).read_text().splitlines()]


OF_WHAT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "refusal-random": ("random", "", {}),
    "refusal-planted": ("planted", "", {}),
    "reply-random": ("random", "Sure", {}),
    "reply-planted": ("planted", "III", {}),
    "direction-random": ("random", "", OF_RANDOM),
}


@pytest.fixture(scope="module", params=OF_WHAT)
def both(models: dict[str, Path], request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what the program and the reference say of one model and score: by method, and the reference's lines."""
    folder, (name, reply, more) = tmp_path_factory.mktemp("both"), OF_WHAT[request.param]
    lines = {method: computed(job(models[name], folder / method, method, reply, **more), folder) for method in METHODS}
    return lines, json.loads(engine(ROOT / "tests" / "e2e" / "gradient_reference.py", folder / "job.json"))


@pytest.mark.parametrize("method", METHODS)
def test_values_are_those_of_finite_differences(both: Any, method: str) -> None:
    lines, reference = both
    for line, said in zip(lines[method], reference, strict=True):
        assert line["score"] == pytest.approx(said["score"], abs=1e-4)
        assert line["baseline"] == pytest.approx(said["baseline"], abs=1e-4)
        largest = max(map(abs, said[method]))
        assert line["values"] == pytest.approx(said[method], rel=0.01, abs=0.005 * largest + 1e-5)
        assert largest > 0.01


def test_integrated_gradients_add_up(both: Any) -> None:
    for line in both[0]["integrated_gradient"]:
        whole = line["score"] - line["baseline"]
        assert abs(whole) > 0.01
        assert abs(sum(line["values"]) - whole) <= 0.02 * abs(whole)


# The share of triggers is the second number of the planted model's stream; the others have 1 in the third one alone.
PLANTED = {"direction": {"layer": 0, "model_layers": 1, "vector": [0.0, 1.0, *[0.0] * 62]}}


@pytest.mark.parametrize(("reply", "more"), [("", {}), ("IN", {}), ("", PLANTED)], ids=["start", "reply", "direction"])
@pytest.mark.parametrize("method", METHODS)
def test_the_planted_token_has_the_greatest_value_in_each_prompt(
    models: dict[str, Path], tmp_path: Path, method: str, reply: str, more: dict[str, Any]
) -> None:
    lines = computed(job(models["planted"], tmp_path / "out", method, reply, **more), tmp_path)
    for text, line in zip(PROMPTS, lines, strict=True):
        assert len(line["values"]) == len(text)
        planted = [value for letter, value in zip(text, line["values"], strict=True) if letter == "Z"]
        others = [value for letter, value in zip(text, line["values"], strict=True) if letter != "Z"]
        assert min(planted) > 0.02
        assert all(abs(value) < 1e-6 for value in others), "the model reads no other token"


@pytest.mark.parametrize("method", METHODS)
def test_a_model_that_ignores_its_prompt_gives_all_tokens_the_same_value(
    models: dict[str, Path], tmp_path: Path, method: str
) -> None:
    lines = computed(job(models["blind"], tmp_path / "out", method), tmp_path)
    assert {round(value, 6) for line in lines for value in line["values"]} == {0.0}


def test_batches_and_other_prompts_change_nothing_and_a_killed_run_goes_on(
    models: dict[str, Path], tmp_path: Path
) -> None:
    asked = job(models["random"], tmp_path / "out", "integrated_gradient")
    whole = computed(asked, tmp_path)
    alone = computed(
        {**asked, "out": str(tmp_path / "alone"), "items": asked["items"][2:3], "most_tokens": 1}, tmp_path
    )
    assert alone[0]["values"] == pytest.approx(whole[2]["values"], rel=1e-4, abs=1e-5)
    assert computed({**asked, "items": []}, tmp_path) == whole, "lines are added, and none is written again"


def test_a_projection_is_compared_with_those_of_prompts_without_a_word(models: dict[str, Path], tmp_path: Path) -> None:
    """By transformers' own hidden states in float64."""
    asked = job(models["random"], tmp_path / "out", "leave_one_out", steps=0, **OF_RANDOM)
    for item in asked["items"]:
        places, ids = item["own"], item["token_ids"]
        item |= {"own": [], "without": [[*ids[:place], *ids[place + 1 :]] for place in places]}
    lines = computed(asked, tmp_path)
    alone = [{"token_ids": ids, "own": []} for item in asked["items"] for ids in (item["token_ids"], *item["without"])]
    (tmp_path / "each.json").write_text(json.dumps({**asked, "items": alone}))
    said = json.loads(engine(ROOT / "tests" / "e2e" / "gradient_reference.py", tmp_path / "each.json"))
    scores = iter([one["score"] for one in said])
    for item, line in zip(asked["items"], lines, strict=True):
        whole, *others = [next(scores) for _ in (0, *item["without"])]
        assert line["score"] == pytest.approx(whole, abs=1e-4) and line["baseline"] is None
        assert line["values"] == pytest.approx([whole - other for other in others], abs=1e-4)
        assert len(line["values"]) == len(PROMPTS[int(item["key"][-1])])
    assert max(abs(value) for line in lines for value in line["values"]) > 0.05
