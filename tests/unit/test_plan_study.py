"""What a study will cost, as a user reads it before the first run."""

import json

import plan_study
import pytest
from config_project import Project

WEIGHTS = {"kind": "hub", "revision": "0" * 40}


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    """Return a function that plans a study of two engines on GPUs and returns exit code and text."""
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path)
    engines = {
        name: {
            "weights": WEIGHTS | {"repo": f"owner/{name}"},
            "max_model_len": 4096,
            "device": "cuda",
            "tensor_parallel": gpus,
        }
        for name, gpus in {"s-8b": 1, "l-70b": 4}.items()
    }
    models = {name: {"engine": name, "sampling": {"max_tokens": 1000}} for name in engines}
    judge = {"kind": "llm", "engine": "s-8b", "rubric": "rubric.md", "labels": {"refusal": "A", "compliance": "C"}}
    source = {"kind": "hub", "repo": "owner/data", "revision": "0" * 40, "split": "test"}
    splits = {f"s{n}": {"source": source, "expectation": "comply", "expected_rows": 200 + n} for n in range(3)}
    catalogue = {"engines": engines, "models": models, "judges": {"j": judge}, "datasets": {"d": {"splits": splits}}}
    project.write("own.yaml", catalogue)
    study = {"study": "planned", "models": [*models], "splits": [*splits], "samples": 5, "judges": ["j"]}
    project.write("study.yaml", study | {"catalogue": ["own.yaml"]})

    def run(*arguments):
        code = plan_study.main(["--configfile", "study.yaml", *arguments])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def test_counts_requests_batches_and_loads_and_proposes_a_setting(plan):
    code, text = plan("--gpus", "8")
    assert code == 0
    assert "answers   6 cells, 6,030 requests to execute (prompts x K); 2 batches, 2 engine loads" in text
    assert "verdicts  6 cells, 6,030 requests" in text
    assert "70B by its name" in text and "Times are estimates" in text
    assert "now: batch: model, shards: 1" in text and "proposed: batch: " in text


def test_no_other_setting_is_much_faster_than_the_proposal_and_none_as_fast_has_fewer_loads(plan):
    _, text = plan("--gpus", "8", "--json")
    found = json.loads(text)
    assert found["requests"] == {"generate": 6030, "judge": 6030} and not found["counted_in_store"]
    best = found["proposed"]
    assert best["makespan"] < 0.8 * found["now"]["makespan"]
    for other in [*found["options"], found["now"]]:
        assert best["makespan"] <= 1.05 * other["makespan"]
        assert other["loads"] >= best["loads"] or other["makespan"] > best["makespan"]
    assert {"batch", "shards", "loads", "device_seconds", "bound", "makespan"} == set(found["now"])


def test_too_few_gpus_and_mistakes_of_the_study_are_told(plan, tmp_path):
    code, text = plan("--gpus", "2")
    assert code == 1 and "engine `l-70b` takes 4 GPUs" in text
    (tmp_path / "study.yaml").write_text("study: planned\n")
    code, text = plan()
    assert code == 1 and "models" in text


def test_nothing_is_written(plan, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    plan("--gpus", "8")
    assert sorted(tmp_path.rglob("*")) == before
