"""What a study will cost, as a user reads it before the first run."""

import dataclasses
import json
import re
from types import SimpleNamespace

import pytest
import yaml
from config_project import COMMIT, Project

from refusal_eval.__main__ import main
from refusal_eval.tools.plan import plan_command
from refusal_eval.tools.plan import plan_page as page
from refusal_eval.tools.plan.study_costs import Cost

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
        code = main(["plan", "study.yaml", *arguments])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def numbers(text, name):
    """Return the words behind a name at the beginning of a line."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(f"{name} ")]
    return line.split()[1:]


def test_counts_requests_batches_loads_and_the_least_time(plan):
    code, text = plan("--gpus", "8")
    assert code == 0
    assert "2 models on 3 splits (603 prompts), K = 5" in text and "takes up to 4 GPUs. Costs are estimates." in text
    #               cells requests store to execute batches loads
    assert numbers(text, "answers")[:6] == ["6", "6,030", "?", "6,030", "2", "2"]
    assert numbers(text, "verdicts")[:4] == ["6", "6,030", "?", "6,030"]
    assert numbers(text, "l-70b")[:4] == ["4", "GPUs", "140", "GB"]
    assert re.search(
        r"On 8 GPUs: \d\.\d h at least: the longest load of l-70b \(`shards` in the study splits it\)", text
    )
    assert "A GPU is like an A100" in text and "None of this was measured on a GPU" in text


def test_every_batch_has_its_requests_tokens_and_hours(plan):
    _, text = plan("--gpus", "8", "--json")
    found = json.loads(text)
    assert found["requests"] == {"generate": 6030, "judge": 6030} and not found["counted_in_store"]
    batches = {(batch["stage"], batch["name"]): batch for batch in found["batches"]}
    large, small = (batches["generate", f"model/{name}/{name}"] for name in ("l-70b", "s-8b"))
    assert large["requests"] == small["requests"] == 3015
    assert large["device_hours"] > 4 * small["device_hours"] > 0
    assert numbers(plan("--all")[1], "model/l-70b/l-70b")[:4] == ["generate", "3", "3,015", "1"]
    assert "BATCHES" not in plan()[1]


def test_too_few_gpus_and_mistakes_of_the_study_are_told(plan, tmp_path):
    code, text = plan("--gpus", "2")
    assert code == 1 and "engine `l-70b` takes 4 GPUs" in text
    assert "takes up to 4 GPUs" in plan()[1] and "On 4 GPUs: " in plan()[1]
    (tmp_path / "study.yaml").write_text("study: planned\n")
    code, text = plan()
    assert code == 1 and "models" in text


def test_nothing_is_written(plan, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    plan("--gpus", "8")
    plan("--json", "--all")
    assert sorted(tmp_path.rglob("*")) == before


def test_tokens_and_device_hours_come_with_an_upper_bound(plan):
    found = json.loads(plan("--json")[1])
    answers = found["work"]["generate"]
    assert answers["tokens_out"] == 6030 * 600 and answers["most_tokens_out"] == 6030 * 1000
    assert answers["tokens_in"] == 2 * 603 * 60, "the samples of a prompt share its reading"
    hours = [(cost["device_hours"], cost["most_device_hours"]) for cost in found["engines"].values()]
    assert all(0 < usual < most for usual, most in hours)
    assert sum(usual for usual, _ in hours) == pytest.approx(sum(batch["device_hours"] for batch in found["batches"]))


def test_a_judge_that_writes_costs_its_text_and_reads_longer_answers_at_most(plan, tmp_path):
    before = json.loads(plan("--json")[1])["work"]["judge"]
    own = yaml.safe_load((tmp_path / "own.yaml").read_text())
    own["judges"]["j"] = {"kind": "reasoned", "engine": "s-8b", "rubric": "rubric.md", "votes": 3}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(own))
    found = json.loads(plan("--json")[1])
    after = found["work"]["judge"]
    assert (before["tokens_out"], before["requests"]) == (6030, 6030)
    assert (after["tokens_out"], after["requests"]) == (3 * 6030 * 250, 3 * 6030)
    assert after["tokens_in"] == before["tokens_in"], "the votes on an answer share its reading"
    assert after["most_tokens_out"] == 3 * 6030 * 512
    assert "A written verdict takes 250 tokens" in found["assumptions"]


def flat(text):
    return " ".join(text.split())


def test_where_there_is_a_store_the_page_says_how_to_find_out_what_it_has(plan, tmp_path):
    """A copy of a study under another name has all its responses in the store, and no requests yet."""
    command = ".venv/workflow/bin/snakemake --cores all --configfile study.yaml --until requests"
    assert "shows once requests are rendered." in flat(plan()[1]) and command not in flat(plan()[1])
    (tmp_path / "results" / "store").mkdir(parents=True)
    assert f"`{command}` does that without an engine" in flat(plan()[1])


def test_requests_of_an_earlier_run_that_no_longer_hold_are_told(plan, tmp_path):
    assert "CHANGED" not in plan()[1]
    for file in ("requests/s-8b/s0", "requests/s-8b/s1", "judge_requests/j/s-8b/s0"):
        path = tmp_path / "results" / "planned" / f"{file}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    code, text = plan()
    assert code == 0 and "renders the requests of 3 cells again, and those of before are not counted" in flat(text)
    assert numbers(text, "answers")[:4] == ["6", "6,030", "?", "6,030"]
    assert "all of them looked up" not in text and "no engine will be started" not in text
    found = json.loads(plan("--json")[1])["work"]
    assert (found["generate"]["outdated"], found["judge"]["outdated"]) == (2, 1)


# ---------------------------------------------------------------- terms, pins, disk


@pytest.fixture
def terms(tmp_path, monkeypatch, capsys):
    """Return a function that plans a study whose entries are open, gated, not free and not verified."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no-token"))
    project = Project(tmp_path)
    page = "https://example.org/terms"
    engines = {
        "e": {"weights": {"kind": "hub", "repo": "owner/model-8B", "revision": None}, "max_model_len": 4096}
        | {"device": "cuda", "weights_gb": 16, "licence": "Own terms", "gated": True, "terms": page}
        | {"unverified": ["its size"]}
    }
    models = {"m": {"engine": "e", "sampling": {"max_tokens": 1000}, "unverified": ["its template"]}}
    source = {"kind": "hub", "repo": "owner/data", "revision": COMMIT, "split": "test"}
    split = {"source": source, "expectation": "comply", "expected_rows": 200, "licence": "CC-BY-NC-4.0"}
    project.write("own.yaml", {"engines": engines, "models": models, "datasets": {"d": {"splits": {"s": split}}}})
    study = {"study": "planned", "models": ["m"], "splits": ["s"], "samples": 2, "judges": ["words"]}
    project.write("study.yaml", study | {"catalogue": ["own.yaml"]})

    def run(*arguments):
        # The shipped catalogue of this repository counts, not the project's.
        project.write("own.yaml", yaml.safe_load((tmp_path / "own.yaml").read_text()) | {"judges": judges})
        code = main(["plan", "study.yaml", *arguments])
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    judges = {"words": {"kind": "keyword", "lists": ["words.yaml"]}}
    return run


def test_a_study_with_an_open_commit_is_planned_and_says_what_to_do(terms):
    code, text = terms()
    assert code == 0
    assert "NOT PINNED YET: run `refusal-eval pin study.yaml`" in text and "the commit of owner/model-8B (e)" in text


def test_with_a_lock_file_nothing_is_open(terms, tmp_path):
    locked = {"repo": "owner/model-8B", "commit": COMMIT, "date": "2026-01-01", "pinned_by": "lock", "gated": True}
    locked |= {"licence": {"hub": None, "entry": None, "agrees": None}, "files": {"config.json": f"2 git:{COMMIT}"}}
    (tmp_path / "study.lock.yaml").write_text(yaml.safe_dump({"lock_version": 1, "models": [locked]}))
    code, text = terms()
    assert code == 0 and "NOT PINNED" not in text and "study.lock.yaml" in text


def test_gates_tell_where_to_ask_and_whether_a_token_is_set_and_never_the_token(terms, monkeypatch):
    _, text = terms()
    assert "GATED: owner/model-8B (m). Ask for access at https://example.org/terms" in text
    assert "(no token is set here)" in text
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    for arguments in ([], ["--json"]):
        assert "hf_secret" not in terms(*arguments)[1]
    assert "(a token is set here)" in terms()[1]


def test_licences_are_told_and_what_is_not_for_commercial_use(terms):
    _, text = terms()
    assert "models Own terms: m" in text and "splits CC-BY-NC-4.0: s" in text
    assert "NOT FOR COMMERCIAL USE: s (CC-BY-NC-4.0)" in text


def test_what_nobody_verified_is_told(terms):
    _, text = terms()
    assert "Engines that nobody has seen work with the real vLLM: e;" in text
    assert "engine e: its size" in text and "model m: its template" in text
    found = json.loads(terms("--json")[1])
    assert found["never_verified"] == ["e"] and found["unverified"]["its size"] == ["engine e"]


def test_a_disk_that_is_too_small_is_told_with_the_key_to_change(terms, monkeypatch):
    monkeypatch.setattr(plan_command, "read_free", lambda folder: 10**12)
    _, text = terms()
    assert "TOO SMALL" not in text and "weights 16 GB in .cache 1 to fetch" in text
    monkeypatch.setattr(plan_command, "read_free", lambda folder: 15 * 10**9)
    _, text = terms()
    assert "TOO SMALL: 16 GB needed, 15 GB free" in text and "Set `cache_dir` to a larger disk" in text
    found = json.loads(terms("--json")[1])["disk"]
    assert [disk["verdict"] for disk in found["disks"]] == ["too small"]


# ---------------------------------------------------------------- the paper's study


def test_the_plan_of_the_papers_study_fits_on_a_page_and_tells_what_matters(repository, tmp_path, capsys):
    study = repository / "config" / "paper.yaml"
    assert main(["plan", str(study), "--directory", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    assert len(page.splitlines()) <= 80 and max(map(len, page.splitlines())) <= 120
    assert numbers(page, "answers")[:4] == ["54", "68,790", "?", "68,790"]
    text = " ".join(page.split())
    for what in (
        "6 models on 9 splits (2,293 prompts), K = 5",
        "the commit of MultiverseComputingCAI/Qwen3-Next-80B-A3B-Thinking-Uncensored",
        "NOT FOR COMMERCIAL USE: ccp_sensitive_sampled",
        "GATED: google/gemma-3-4b-it",
        "real vLLM: all ",
        "with which sampling the paper's numbers were made",
        "weights 5",
        "to fetch",
    ):
        assert what in text, what


@pytest.mark.parametrize(("stored", "looked_into", "told"), [(679, 1, True), (681, 1, False), (0, 0, False)])
def test_requests_that_share_a_response_are_told(stored, looked_into, told):
    nothing = {field.name: 0 for field in dataclasses.fields(Cost)}
    judging = Cost(**nothing | {"cells": 1, "stored": stored, "looked_into": looked_into})
    costs = {"generate": Cost(**nothing), "judge": judging}
    plan = SimpleNamespace(of_stage=costs.__getitem__, requests=lambda stage: 681 if stage == "judge" else 0)
    assert ("2 of the requests for verdicts are not sent" in " ".join(page.shared_lines(plan))) == told
