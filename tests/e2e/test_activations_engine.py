"""Activations and directions on a tiny random Llama, with the real capture in the engine environment."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from direction_files import random_direction
from direction_study import ENGINE_PYTHON, SIDES, direction_study
from project import ROOT, Project, change_yaml, copy_of
from safetensors import safe_open
from safetensors.numpy import load_file

from refusal_eval.activations.sides import content_sha256
from refusal_eval.activations.tensor_files import read_states, widened
from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader
from refusal_eval.config.load_study import load_study
from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.features.steering.intervention import FittedDirection, write_intervention
from refusal_eval.study.study import Study
from refusal_eval.workflow.activations_stage import gpus

TARGETS = [f"results/small/directions/{name}.safetensors" for name in ("refusal", "chance")]
OF_TWO = "results/small/activations/last_prompt_token/plain/two.safetensors"

# One prompt at a time, without padding: written apart from what it checks.
REFERENCE = """
import json, sys, torch
from transformers import AutoModelForCausalLM
from safetensors.torch import save_file
folder, prompts, out = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
seen, rows, normed = {}, [], []
for number, layer in enumerate(model.model.layers):
    layer.register_forward_hook(lambda m, i, o, n=number: seen.__setitem__(n, o[0] if isinstance(o, tuple) else o))
for ids, first in json.load(open(prompts)):
    with torch.no_grad():
        hidden = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    rows.append(torch.stack([seen[n][0, first:].mean(0) for n in range(len(seen))]))
    normed.append(hidden[-1][0, -1])
save_file({"states": torch.stack(rows), "normed": torch.stack(normed)}, out)
"""


def token_ids(project: Project, split: str) -> dict[str, list[int]]:
    file = read_requests(project.results / "requests" / "plain" / f"{split}.jsonl")
    return {request.prompt_id: request.token_ids for request in file.requests()}


def reference(project: Project, wanted: list[tuple[list[int], int]], folder: Path) -> dict[str, np.ndarray]:
    """Return the mean of the states from a position on, of each list of token ids, and the last one after the norm."""
    (folder / "prompts.json").write_text(json.dumps(wanted))
    command = [str(ENGINE_PYTHON), "-c", REFERENCE, str(project.folder / "model")]
    subprocess.run([*command, str(folder / "prompts.json"), str(folder / "out")], check=True, capture_output=True)
    return load_file(folder / "out")


def furthest(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the largest relative difference of a layer's state."""
    return float((np.linalg.norm(ours - theirs, axis=2) / np.linalg.norm(theirs, axis=2)).max())


def shards(project: Project) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(project.store.rglob("activations/**/*.safetensors"))}


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a study whose directions are fitted; do not change it."""
    project = direction_study(tmp_path_factory.mktemp("study") / "project")
    # Prompts of different lengths, so that batches are padded.
    rows = [{"prompt": "long " * (3 * number) + f"question {number}?"} for number in range(20)]
    (project.folder / "two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    project.snakemake(*TARGETS)
    return project


@pytest.fixture
def fitted(fitted_once: Project, tmp_path: Path) -> Project:
    return copy_of(fitted_once, tmp_path / "project")


def test_captured_is_what_an_independent_run_of_the_model_has_after_each_layer(
    fitted_once: Project, tmp_path: Path
) -> None:
    file = read_states(fitted_once.folder / OF_TWO)
    ids = token_ids(fitted_once, "two")
    assert file.metadata["prompts"] == list(ids) and file.metadata["layers"] == [0, 1, 2]
    assert len({len(prompt) for prompt in ids.values()}) > 10
    theirs = reference(fitted_once, [(prompt, -1) for prompt in ids.values()], tmp_path)
    ours = widened(file.bits, file.kind)
    assert furthest(ours, theirs["states"]) < 1e-5
    apart = np.linalg.norm(ours[:, -1] - theirs["normed"], axis=1) / np.linalg.norm(ours[:, -1], axis=1)
    assert apart.min() > 0.01, "the last layer is before the final norm"


@pytest.mark.full
def test_the_mean_over_answers_is_that_of_their_own_tokens(fitted: Project, tmp_path: Path) -> None:
    entry = {**SIDES, "positions": "answer_mean", "layers": [2]}
    change_yaml(fitted.folder / "catalogue.yaml", lambda data: data | {"directions": {"answers": entry}})
    fitted.study(directions=["answers"])
    fitted.snakemake("--until", "requests")
    fitted.answer_everything("requests")
    fitted.snakemake("results/small/directions/answers.safetensors")
    file = read_states(fitted.results / "activations" / "answer_mean" / "plain" / "two.safetensors")
    prompts, wanted = token_ids(fitted, "two"), []
    responses = StoreReader(fitted.store, file.metadata["engine_id"])
    answers = {(row["prompt_id"], row["sample"]): row for row in read_jsonl(fitted.results / "answers/plain/two.jsonl")}
    places = list(zip(file.metadata["prompts"], file.metadata["samples"], strict=True))
    assert sorted(places) == sorted(answers) and len(places) == 60
    for place in places:
        key = answers[place]["key"]
        written = responses.lookup([key])[key]["response"]["token_ids"][:-1]  # without the token that ended it
        wanted.append((prompts[place[0]] + written, len(prompts[place[0]])))
    theirs = reference(fitted, wanted, tmp_path)["states"][:, 2:]
    assert file.metadata["layers"] == [2] and furthest(widened(file.bits, file.kind), theirs) < 1e-5


def test_a_direction_is_the_difference_of_the_means_of_what_was_not_held_out(fitted_once: Project) -> None:
    with safe_open(str(fitted_once.folder / TARGETS[0]), "numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        said = json.loads(file.metadata()["refusal_eval"])
    np.testing.assert_allclose(tensors["direction"], tensors["mean_positive"] - tensors["mean_negative"], atol=1e-5)
    prompts = [row for split in ("two", "extra") for row in read_jsonl(fitted_once.results / f"prompts/{split}.jsonl")]
    assert said.pop("prompts") == sorted(content_sha256(prompt["messages"]) for prompt in prompts)
    assert sorted(said.pop("ranking")) == [0, 1, 2]
    assert said == {
        "version": 1,
        "direction": "refusal",
        "method": "md",
        "layers": [0, 1, 2],
        "width": 16,
        "model_layers": 3,
        "architecture": "LlamaForCausalLM",
        "model": "plain",
        "positions": "last_prompt_token",
        "dtype": "float32",
    }
    card = read_json(fitted_once.results / "directions" / "refusal.json")
    assert card["n"] == {"positive": 20, "negative": 4} and len(card["layers"]) == 3


def test_what_was_deleted_is_read_from_the_store_to_the_byte(fitted: Project) -> None:
    before = shards(fitted)
    kept = {name: (fitted.folder / name).read_bytes() for name in (OF_TWO, *TARGETS)}
    for name in kept:
        (fitted.folder / name).unlink()
    fitted.snakemake(*TARGETS)
    assert shards(fitted) == before
    modes = {path.stat().st_mode for path in fitted.store.rglob("*.safetensors")}
    assert modes == {(fitted.folder / TARGETS[0]).stat().st_mode}, "the store follows the umask, as results do"
    assert kept == {name: (fitted.folder / name).read_bytes() for name in kept}


def test_a_gpu_is_asked_for_only_where_the_store_lacks_something(
    fitted: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted.catalogue("engines", "tiny", device="cuda", tensor_parallel=2)
    monkeypatch.chdir(fitted.folder)
    study = Study(load_study(yaml.safe_load(Path("study.yaml").read_text()), "study.yaml", str(ROOT)))

    def asked(split: str) -> int:
        requests = str(fitted.results / "requests" / "plain" / f"{split}.jsonl")
        return gpus(study, "last_prompt_token", "plain", split, ROOT, requests, None)

    assert asked("two") == asked("extra") == 0
    assert asked("one") == 2, "it is not rendered yet"
    next(fitted.store.rglob("activations/**/*.safetensors")).unlink()
    assert sorted([asked("two"), asked("extra")]) == [0, 2]


@pytest.mark.full
def test_a_killed_capture_keeps_its_batches_and_goes_on_with_the_rest(fitted_once: Project, tmp_path: Path) -> None:
    project = direction_study(tmp_path / "project")
    rows = [{"prompt": f"{number}: " + "why " * 100 + "?"} for number in range(150)]
    (project.folder / "two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    project.snakemake("--until", "requests")
    log = project.results / "logs/activations/last_prompt_token/plain/two.capture.log"
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--configfile", "study.yaml"]
    run = subprocess.Popen(
        [*command, "--cores", "2", OF_TWO],
        cwd=project.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not shards(project) and run.poll() is None:
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    time.sleep(15)  # the guard ends the program
    first = shards(project)
    assert first and not (project.folder / OF_TWO).exists() and log.exists()
    kept = sum(len(read_states(path).metadata["keys"]) for path in project.store.rglob("activations/**/*.safetensors"))
    assert 0 < kept < 150
    project.snakemake("--unlock", OF_TWO)
    again = project.snakemake(OF_TWO)
    assert f"150 prompts, 3 layers; the store lacks {150 - kept}" in again.stderr
    assert {name: content for name, content in shards(project).items() if name in first} == first


@pytest.mark.full
def test_the_workflow_captures_a_steered_model_under_its_intervention(tmp_path: Path) -> None:
    project = direction_study(tmp_path / "project")
    (project.folder / "more.jsonl").write_text("".join(json.dumps({"prompt": f"more: {n}?"}) + "\n" for n in range(6)))
    added = {"steered": "refusal", "control": "chance"}
    change_yaml(
        project.folder / "catalogue.yaml",
        lambda data: (
            data
            | {
                "datasets": data["datasets"]
                | {
                    "new": {
                        "splits": {"more": {"source": {"kind": "file", "path": "more.jsonl"}, "expectation": "comply"}}
                    }
                },
                "models": data["models"]
                | {
                    name: {
                        "like": "plain",
                        "intervention": {"direction": direction, "mode": "add", "layers": [1], "scale": 0.5},
                    }
                    for name, direction in added.items()
                },
            }
        ),
    )
    sides = {"positive": {"split": "one"}, "negative": {"split": "more"}}
    separation = [{"name": "apart", "models": ["plain", "steered"], **sides}]
    project.study(models=["plain", *added], splits=["one", "more"], separation=separation)
    project.snakemake("results/small/separation/apart.csv")
    folder = project.results / "activations" / "last_prompt_token"
    for split in ("one", "more"):
        plain, steered = (read_states(folder / model / f"{split}.safetensors") for model in ("plain", "steered"))
        assert plain.metadata["prompts"] == steered.metadata["prompts"]
        before, after = widened(plain.bits, plain.kind), widened(steered.bits, steered.kind)
        direction = load_file(project.results / "directions" / "refusal.safetensors")["direction"]
        np.testing.assert_array_equal(after[:, 0], before[:, 0])
        np.testing.assert_allclose(after[:, 1] - before[:, 1], 0.5 * direction[[1]].repeat(len(after), 0), atol=1e-5)
        assert np.abs(after[:, 2] - before[:, 2]).max() > 0.01
    # A rerun has nothing to do; another scale captures the steered model again, and the plain one not.
    assert "Nothing to be done" in project.snakemake("results/small/separation/apart.csv").stderr
    for name in added:
        change = {"direction": added[name], "mode": "add", "layers": [1], "scale": 1.0}
        project.catalogue("models", name, intervention=change)
    planned, said = project.planned_and_said("results/small/separation/apart.csv")
    assert planned["activations"] == 2 and not [text for text in said if "of plain" in text]


# Nothing is kept of a model whose steered layer does not run.
SILENT = """
import json, runpy, sys
program, given = runpy.run_path(sys.argv[1]), json.load(sys.stdin)
with program["Capture"](given["job"]) as capture:
    print(capture.states(given["items"]).shape)
    capture._decoder.config.num_hidden_layers = 2
    capture.states(given["items"])
"""


def test_a_steered_layer_that_does_not_run_stops_the_capture(tmp_path: Path) -> None:
    subprocess.run(
        [str(ENGINE_PYTHON), str(ROOT / "tests" / "tiny_llama.py"), str(tmp_path / "model")],
        check=True,
        capture_output=True,
    )
    random_direction(tmp_path / "one.safetensors", range(3), 0, **{"model_layers": 3, "width": 16})
    asked = {"layers": [2], "direction": "one", "gate": None, "offset": "none", "towards": "negative", "scale": 0.5}
    file = tmp_path / "compiled.safetensors"
    fitted = FittedDirection.of_file(tmp_path / "one.safetensors")
    card = write_intervention(file, "m", [fitted], asked | {"mode": "add"})
    job = {"folder": str(tmp_path / "model"), "dtype": "float32", "device": "cpu", "gpus": 0, "layers": [0, 1]}
    job |= {"trust_remote_code": False, "model_layers": 3}
    job["intervention"] = {"file": str(file), "sha256": card["sha256"]}
    program = ROOT / "scripts" / "refusal_eval" / "activations" / "capture_program.py"
    run = subprocess.run(
        [str(ENGINE_PYTHON), "-c", SILENT, str(program)],
        input=json.dumps({"job": job, "items": [{"token_ids": [5, 7, 9], "first": None}]}),
        capture_output=True,
        text=True,
    )
    assert run.stdout.strip() == "torch.Size([1, 2, 16])", run.stderr
    assert run.returncode == 1 and "the hooks of the layers [2] did not fire" in run.stderr


# Captured under each intervention, and by hooks of the reference's own, one prompt at a time: how far they are apart,
# how far the captured states of each layer are from those of the plain model, at least, and from the last case's, at
# most.
STEERED = """
import json, runpy, sys, torch
from transformers import AutoModelForCausalLM
program, reference = (runpy.run_path(path) for path in sys.argv[1:])
given = json.load(sys.stdin)
model = AutoModelForCausalLM.from_pretrained(given["job"]["folder"], dtype=torch.float32).eval()
def apart(ours, theirs):
    return (ours - theirs).norm(dim=-1) / theirs.norm(dim=-1)
plain, last, told = None, None, []
for asked, compiled in given["cases"]:
    with program["Capture"](given["job"] | {"intervention": compiled}) as capture:
        ours = capture.states(given["items"])
    plain, last = (ours, ours) if plain is None else (plain, last)
    seen, handles, rows, found = {}, [], [], reference["changes"](asked, given["directions"])
    for n, layer in enumerate(model.model.layers):
        if n in found:
            handles.append(layer.register_forward_hook(reference["hook"](found[n])))
        handles.append(layer.register_forward_hook(lambda m, i, o, n=n: seen.__setitem__(n, o)))
    for item in given["items"]:
        with torch.no_grad():
            model(torch.tensor([item["token_ids"]]))
        rows.append(torch.stack([seen[n][0, -1 if item["first"] is None else item["first"] :].mean(0) for n in seen]))
    for handle in handles:
        handle.remove()
    least, most = apart(ours, plain).min(0).values.tolist(), float(apart(ours, last).max())
    told.append([float(apart(ours, torch.stack(rows)).max()), least, most])
    last = ours
print(json.dumps(told))
"""


def test_captured_of_a_steered_model_is_the_stream_that_its_formula_gives(tmp_path: Path) -> None:
    subprocess.run(
        [str(ENGINE_PYTHON), str(ROOT / "tests" / "tiny_llama.py"), str(tmp_path / "model")],
        check=True,
        capture_output=True,
    )
    directions = {name: tmp_path / f"{name}.safetensors" for name in ("one", "other")}
    for seed, path in enumerate(directions.values()):
        random_direction(path, range(3), seed, **{"model_layers": 3, "width": 16})
    neutral = {"layers": [1], "direction": "one", "gate": None, "offset": "none", "towards": "negative", "scale": 0.5}
    cases: list[Any] = [[None, None]]
    for mode, more in (
        ("add", {}),
        ("ablate", {"offset": "midpoint", "scale": 1.0}),
        ("gated", {"gate": -1.0}),
        ("gated", {"gate": 0.0}),
        ("pull", {"towards": "positive"}),
        ("constellation", {"direction": ["one", "other"], "gate": -1.0}),
    ):
        asked, file = neutral | {"mode": mode} | more, tmp_path / f"{len(cases)}.safetensors"
        names = asked["direction"] if mode == "constellation" else [asked["direction"]]
        card = write_intervention(file, "m", [FittedDirection.of_file(directions[name]) for name in names], asked)
        cases.append([asked, {"file": str(file), "sha256": card["sha256"]}])
    job = {"folder": str(tmp_path / "model"), "dtype": "float32", "device": "cpu", "gpus": 0}
    job |= {"trust_remote_code": False, "layers": [0, 1, 2], "model_layers": 3}
    items = [{"token_ids": list(range(10, 19)), "first": None}, {"token_ids": [5, 7, 9, 11], "first": 2}]
    paths = {name: str(path) for name, path in directions.items()}
    run = subprocess.run(
        [
            *(str(ENGINE_PYTHON), "-c", STEERED),
            str(ROOT / "scripts" / "refusal_eval" / "activations" / "capture_program.py"),
            str(ROOT / "tests" / "e2e" / "steering_reference.py"),
        ],
        input=json.dumps({"job": job, "items": items, "cases": cases, "directions": paths}),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    for (asked, _), (apart, moved, other) in zip(cases, json.loads(run.stdout), strict=True):
        assert apart < 1e-5, asked
        assert moved[0] == 0, "layers before the steered one"
        assert asked is None or other > 0.01, "no two cases are the same: a gate of 0 passes some tokens and not others"
        assert asked is None or asked["gate"] == 0 or min(moved[1:]) > 0.01, "layers from the steered one on"


VISION = """
import sys, runpy
from transformers import Gemma3Config, Gemma3ForConditionalGeneration
sizes = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4)
text = dict(sizes, vocab_size=64, num_key_value_heads=2, head_dim=4)
model = Gemma3ForConditionalGeneration(
    Gemma3Config(text_config=text, vision_config=dict(sizes, image_size=28, patch_size=14))
)
program = runpy.run_path(sys.argv[1])
model.save_pretrained(sys.argv[2])
job = {"folder": sys.argv[2], "dtype": "float32", "gpus": 0, "device": "cpu", "trust_remote_code": False}
loaded, missing = program["load_model"](job)
decoder, layers = program["text_decoder"](loaded, 2)
program["refuse_made_up"](loaded, decoder, missing)
print(type(decoder).__name__, [type(layer).__name__ for layer in layers])
program["text_decoder"](model, 3)
"""


def test_layers_are_those_of_the_text_model_and_a_model_without_them_is_refused(tmp_path: Path) -> None:
    program = ROOT / "scripts" / "refusal_eval" / "activations" / "capture_program.py"
    run = subprocess.run(
        [str(ENGINE_PYTHON), "-c", VISION, str(program), str(tmp_path / "model")], capture_output=True, text=True
    )
    assert run.stdout.strip() == "Gemma3TextModel ['Gemma3DecoderLayer', 'Gemma3DecoderLayer']", run.stderr
    assert run.returncode == 1 and "its decoder layers cannot be found (0 lists of 3 layers" in run.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": [0, 3]}, "model plain has 3 layers, 0 to 2: there is no layer 3"),
        ({"negative": {"split": "two", "category": None}}, "is the same as `positive`"),
        ({"hold_out": 0.9}, "prompts to fit on, and needs 2"),
    ],
)
def test_what_cannot_be_a_direction_is_reported_in_one_sentence(fitted: Project, change: dict, message: str) -> None:
    fitted.catalogue("directions", "refusal", **change)
    run = fitted.snakemake(TARGETS[0], check=False)
    assert run.returncode != 0 and message in run.stdout + run.stderr
    assert "Traceback" not in run.stdout
