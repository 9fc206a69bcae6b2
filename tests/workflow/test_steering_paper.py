"""The paper's study of steering as its user runs it, the files unchanged: planned, and rendered by the real rules.

Neither its data sets nor its tokenizers can be had here, so that a hub on loopback has others at the locked commits:
questions of our own, as many as the study expects, and byte-level tokenizers with ChatML, the form of Qwen's template,
for gpt-oss with harmony's tokens. A random direction takes the place of the one that is fitted on activations.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from direction_files import random_direction
from forked_snakemake import run_snakemake
from hub_server import HubServer, Repo
from project import ROOT, planned_jobs
from tokenizer_folders import byte_tokenizer

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import RequestFile, read_requests
from refusal_eval.config.load_study import load_study
from refusal_eval.core.files import read_json, write_json, write_jsonl
from refusal_eval.data.prompts import content_id
from refusal_eval.features.comparisons.comparisons_analysis import ComparisonsAnalysis
from refusal_eval.study.study import Study

STUDY = ROOT / "config" / "studies" / "steering_paper.yaml"
MODEL, STEERED, JUDGE, SPLIT = (
    "qwen3-4b-instruct-paper",
    "qwen3-4b-instruct-wrmd.alpha-0.5",
    "gpt-oss-20b",
    "jailbreakbench",
)
DIRECTION = "qwen3-4b-instruct-wrmd"
QWEN = {"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 36, "hidden_size": 2560, "eos_token_id": 258}
HARMONY = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>", "<|endoftext|>"]
LAYERS = tuple(range(36))
ANSWER = "I can't help with that."
RENDERING = ("fetch_rows", "prompts", "fetch_tokenizer", "identify_engine", "intervention", "requests")
JUDGING = ("check_judge", "judge_requests")


def snakemake(folder: Path, *arguments: str) -> str:
    """Run the study in a folder; return what Snakemake says."""
    command = ["-s", str(ROOT / "Snakefile"), "--directory", str(folder), "--configfile", str(STUDY), "--cores", "2"]
    run = run_snakemake([*command, *arguments], folder, {**os.environ, "NO_COLOR": "1"})
    said = run.stdout + run.stderr
    assert run.returncode == 0, said[-6000:]
    return said


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return load_study(yaml.safe_load(STUDY.read_text(encoding="utf-8")), "config/studies/steering_paper.yaml")


def questions(count: int) -> list[str]:
    return [f"What do people say for and against law number {number}?" for number in range(count)]


@pytest.fixture(scope="module")
def hub(config: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubServer]:
    """Return a hub with the rows of one split, and the tokenizers of one model and one judge."""
    folder, split = tmp_path_factory.mktemp("hub"), config["split_entries"][SPLIT]
    rows = [
        {"prompt": text, "subject": "law", "_id": str(n)} for n, text in enumerate(questions(split["expected_rows"]))
    ]
    card = {"configs": [{"config_name": "default", "data_files": [{"split": SPLIT, "path": "rows.jsonl"}]}]}
    repos = {
        ("datasets", split["source"]["repo"], split["source"]["revision"]): {
            "README.md": f"---\n{yaml.safe_dump(card)}---\n".encode(),
            "rows.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode(),
        }
    }
    for name, marks, facts in (("qwen3-4b-instruct", [], QWEN), (JUDGE, HARMONY, {"eos_token_id": 258})):
        weights = config["engine_entries"][name]["weights"]
        own = byte_tokenizer(folder / name, special=marks)
        (own / "config.json").write_text(json.dumps(facts))
        files = {path.name: path.read_bytes() for path in own.iterdir()}
        repos["models", weights["repo"], weights["revision"]] = files
    with HubServer() as server, pytest.MonkeyPatch.context() as patch:
        for (kind, repo, commit), files in repos.items():
            server.repos[kind, repo] = Repo({commit: files}, commit)
        patch.setenv("HF_ENDPOINT", server.address)
        patch.setenv("HF_HOME", str(folder / "home"))
        patch.delenv("HF_TOKEN", raising=False)
        yield server


@pytest.fixture(scope="module")
def results(hub: HubServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the study's results: the requests of one split to a model and its steered self, and one judge's."""
    folder = tmp_path_factory.mktemp("study")
    results = folder / "results" / "steering_paper"
    facts: dict[str, Any] = {"model_layers": 36, "width": 2560, "architecture": "Qwen3ForCausalLM", "model": MODEL}
    random_direction(results / "directions" / f"{DIRECTION}.safetensors", LAYERS, neutral=True, **facts)
    write_json(results / "directions" / f"{DIRECTION}.json", {"n": {"positive": 900, "negative": 400}})
    answers = [
        {"prompt_id": content_id([{"role": "user", "content": text}]), "sample": 0, "turn": 0}
        | {"state": "complete", "answer": f"{ANSWER} ({number})"}
        for number, text in enumerate(questions(100))
    ]
    path = results / "answers" / MODEL / f"{SPLIT}.jsonl"
    path.parent.mkdir(parents=True)
    write_jsonl(path, answers)
    targets = [results / "requests" / model / f"{SPLIT}.jsonl" for model in (MODEL, STEERED)]
    targets += [results / "judge_requests" / JUDGE / MODEL / f"{SPLIT}.jsonl"]
    names = [str(path.relative_to(folder)) for path in targets]
    snakemake(folder, *names, "--allowed-rules", *RENDERING, *JUDGING)
    return results


def test_the_layers_that_the_paper_never_steers_take_no_part(config: dict[str, Any]) -> None:
    entries = config["direction_entries"]
    assert len(entries) == 6
    assert all(entry["layers"] is None for entry in entries.values())
    steered = [entry["intervention"] for entry in config["model_entries"].values() if entry["intervention"]]
    assert len(steered) == 9 and all(asked["layers"]["drop_deepest"] == 0.05 for asked in steered)
    assert all(asked["layers"]["by"] == "correlation" for asked in steered)


def test_the_directions_are_fitted_on_the_extended_set_of_prompts_at_hand(config: dict[str, Any]) -> None:
    for entry in config["direction_entries"].values():
        assert [part["split"] for part in entry["negative"]] == [
            *("ccp_sensitive", "code_instructions", "gsm8k_train", "sums", "user_instructions")
        ]
        assert entry["positive"]["split"] == entry["neutral"]["split"] == "ccp_sensitive"
        assert entry["neutral"]["within"] == 0.15 and entry["positive"]["without"] == ["ccp_sensitive_sampled"]


def rendered(path: Path) -> tuple[RequestFile, list[list[int]]]:
    file = read_requests(path)
    return file, [list(request.token_ids) for request in file.requests()]


def tokenizer(results: Path, engine: str) -> Renderer:
    folder = read_json(results / "engines" / f"{engine}.json")["tokenizer_folder"]
    return Renderer(results.parents[1] / folder, template="none")


def test_the_whole_study_is_planned_without_a_network(tmp_path: Path) -> None:
    planned = planned_jobs(snakemake(tmp_path, "-n"))
    # Three plain models, two steps of each along its direction and one along its control.
    models, steered, splits, fitted = 12, 9, 4, 5
    assert (planned["direction"], planned["intervention"]) == (6, steered)
    # The plain models also answer the splits that their directions are fitted on, and are captured on them.
    assert planned["requests"] == planned["answers"] == models * splits + 3 * fitted
    assert planned["activations"] == 3 * fitted
    assert planned["generate"] == models


def test_a_run_until_answers_leaves_no_steered_model_out(tmp_path: Path) -> None:
    planned = planned_jobs(snakemake(tmp_path, "-n", "--until", "answers"))
    # As many as in the whole study; what directions need on the way to the steered ones is among the jobs.
    assert planned["answers"] == 12 * 4 + 3 * 5 and (planned["direction"], planned["intervention"]) == (6, 9)
    assert "table" not in planned


def test_each_plain_model_is_compared_with_its_own_steered_ones_alone(config: dict[str, Any]) -> None:
    families = ComparisonsAnalysis(Study(config)).params()["families"]
    assert [len(family["pairs"]) * len(family["scopes"]) for family in families] == [3 * 4] * 3
    for family in families:
        engines = {config["model_entries"][model]["engine"] for pair in family["pairs"] for model in pair}
        assert len(engines) == 1


def test_the_requests_are_those_of_the_study_and_steering_changes_their_keys_alone(results: Path) -> None:
    plain, ids = rendered(results / "requests" / MODEL / f"{SPLIT}.jsonl")
    steered, steered_ids = rendered(results / "requests" / STEERED / f"{SPLIT}.jsonl")
    texts = [f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n" for text in questions(100)]
    decode = tokenizer(results, "qwen3-4b-instruct").tokenizer.decode
    assert [decode(one) for one in ids] == [text for text in texts for _ in range(5)]
    asked = {"max_tokens": 8192, "temperature": 0.6, "top_p": 0.95, "top_k": 20}
    assert asked.items() <= plain.header["sampling"].items()
    assert len(set(plain.keys())) == 500 and set(plain.keys()).isdisjoint(steered.keys())
    card = read_json(results / "interventions" / f"{STEERED}.json")
    assert (card["mode"], card["asked"]["scale"]) == ("add", {"alpha": -0.5, "by": "quantile"})
    assert card["asked"]["layers"] == {"best": 4, "by": "correlation", "drop_deepest": 0.05}
    assert card["layers"] == [29, 30, 31, 32] and steered_ids == ids  # of 36 those from 33 on are never steered
    assert steered.header == {**plain.header, "intervention": {"sha256": card["sha256"], "version": 1}}


def test_the_judge_is_asked_about_each_answer_with_the_rubric(results: Path) -> None:
    file, ids = rendered(results / "judge_requests" / JUDGE / MODEL / f"{SPLIT}.jsonl")
    rubric = (ROOT / "config" / "rubrics" / "refusal_reasoned.md").read_text(encoding="utf-8")
    instructions = rubric.partition("-#}")[2].partition("<request")[0].strip()
    decode = tokenizer(results, JUDGE).tokenizer.decode
    for number, (question, text) in enumerate(zip(questions(100), map(decode, ids), strict=True)):
        assert instructions in text and text.endswith("<|im_start|>assistant\n")
        assert question in text and f"{ANSWER} ({number})" in text
    sampling = file.header["sampling"]
    assert (sampling["max_tokens"], sampling["temperature"]) == (8192, 0.6) and "structured_outputs" in sampling
