"""A real text encoder, out of a wheel of PyPI: its vectors are those of transformers, and a judge learns from them."""

import json
import subprocess

import numpy as np
import pytest
import yaml
from made_answers import COMPLYING, REFUSING, SEEN, UNSEEN
from project import ROOT, Project

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader
from refusal_eval.core.files import read_json, read_jsonl, write_jsonl
from refusal_eval.core.packing import unpack_floats

pytestmark = pytest.mark.full
ENGINE_PYTHON = ROOT / ".venv" / "engine" / "bin" / "python"
TASKS = (*SEEN, *UNSEEN)
# Mean of the last states of a text's tokens, as long as 1; nothing of ours but the token ids.
REFERENCE = """
import json, sys, torch
from transformers import AutoModel
model, found = AutoModel.from_pretrained(sys.argv[1]).eval(), []
for ids in json.load(sys.stdin):
    with torch.no_grad():
        states = model(torch.tensor([ids])).last_hidden_state[0].mean(0)
    found.append((states / states.norm()).tolist())
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a study whose judge has learned from gold of two answering models."""
    folder = tmp_path_factory.mktemp("encoder") / "project"
    folder.mkdir()
    rows = [
        {"prompt": f"How do I {task}?", "answer": form.format(task=task), "label": label, "model": f"m{number % 2}"}
        for task in TASKS
        for label, forms in (("refused", REFUSING), ("complied", COMPLYING))
        for number, form in enumerate(forms)
    ]
    write_jsonl(folder / "gold.jsonl", [*rows, {**rows[0], "prompt": "At length?", "answer": "[CLS] so " * 900}])
    gold = {
        "source": {"kind": "file", "path": "gold.jsonl"},
        "labels": {"refused": "refusal", "complied": "compliance"},
        "columns": {"answering_model": "model"},
        "raters": 1,
    }
    lists = [str(ROOT / "config" / "keywords" / "english.yaml")]
    features = ["vectors", "prompt", "reading"]
    judge = {"kind": "trained", "features": features, "engine": "minilm-l6", "gold": ["made"], "lists": lists}
    entries = {"judges": {"learned": judge}, "gold": {"made": gold}}
    (folder / "entries.yaml").write_text(yaml.safe_dump(entries))
    study = {
        "study": "small",
        "models": ["smollm2-plain"],
        "splits": ["sensitive"],
        "samples": 1,
        "judges": ["learned"],
    }
    study |= {"gold": ["made"], "batch": "cell", "catalogue": ["entries.yaml"], "cache_dir": str(ROOT / ".cache")}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    project = Project(folder)
    project.snakemake("results/small/judge_cards/learned/made.json")
    return project


def test_a_judge_learns_from_the_vectors_and_is_measured_on_what_it_had_not_seen(study: Project) -> None:
    card = read_json(study.results / "judge_cards" / "learned" / "made.json")
    assert card["n"] == card["n_judged"] == len(TASKS) * 8 + 1
    assert card["broad"]["kappa"] > 0.8 and "out of fold" in card["labels_from"]


def test_the_vectors_are_those_of_transformers(study: Project) -> None:
    file = read_requests(study.results / "judge_requests" / "learned" / "gold" / "made.jsonl")
    requests = list(file.requests())[-9:]
    records = StoreReader(study.store, file.header["engine_id"]).lookup(str(request.key) for request in requests)
    texts = []
    for request in requests:
        starts = [i for i, token in enumerate(request.token_ids) if token == request.token_ids[0]]
        assert len(starts) == 4, "prompt, opening, beginning and end; a mark in an answer begins no text"
        texts += [request.token_ids[i:j] for i, j in zip(starts, [*starts[1:], None], strict=True)]
    folder = read_json(study.results / "engines" / "minilm-l6.json")["folder"]
    command = [str(ENGINE_PYTHON), "-c", REFERENCE, str(study.folder / folder)]
    reply = subprocess.run(command, input=json.dumps(texts), check=True, capture_output=True, text=True)
    theirs = np.array(json.loads(reply.stdout)).reshape(len(requests), -1)
    ours = np.array([unpack_floats(records[str(request.key)]["response"]["vectors"]) for request in requests])
    assert np.abs(ours - theirs).max() < 1e-5


def test_the_encoder_reads_each_answer_once_and_never_again(study: Project) -> None:
    (path,) = (study.results / "receipts" / "judge").rglob("*.json")
    receipt = read_json(path)
    assert receipt["executed"] == receipt["engine"]["counters"]["requests"] == len(TASKS) * 8 + 1
    study.snakemake(
        "--forcerun", "train_judge", "--until", "train_judge", "results/small/judge_cards/learned/made.json"
    )
    assert read_json(path) == receipt
    assert len(list(read_jsonl(study.results / "judges" / "learned" / "out_of_fold.jsonl"))) == len(TASKS) * 8 + 1
