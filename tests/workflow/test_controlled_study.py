"""Splits of kind `controlled` through the real DAG: what waits for what, what runs again, and what becomes of rows."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from project import ROOT, Project, change_yaml, make_project

from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.core.files import read_json, read_jsonl, write_jsonl
from refusal_eval.features import FEATURES
from refusal_eval.features.controlled.search_store import SearchStore

pytestmark = pytest.mark.feature("controlled", "judged")
ITEMS = "results/small/controlled/made/items.json"
SOURCE: dict[str, Any] = {"kind": "controlled", "seeds": "one", "by": "third", "target": "plain", "samples": 2}
SOURCE |= {"refusals": {"split": "two", "judge": "words"}, "steps": 6, "candidates": 8}


def controlled_study(folder: Path, **changes: Any) -> Project:
    """Write a study of prompts that `third` writes for `plain`; it evaluates neither, nor what they are made of."""
    project = make_project(folder)
    splits = {"made": {"source": SOURCE | changes, "expectation": "comply", "where": {"state": ["written", "cut"]}}}
    change_yaml(
        folder / "catalogue.yaml",
        lambda data: data | {"datasets": data["datasets"] | {"mine": {"splits": splits}}},
    )
    project.study(models=["terse"], splits=["made"], judges=["words"], gold=[], samples=2, figures=[])
    return project


def find_everything(project: Project) -> int:
    """Put a made-up text for each item into the store, of all states in turn; return how many."""
    file = read_json(project.results / "controlled" / "made" / "items.json")
    store = SearchStore(project.store, file["target"])
    keys = store.missing(item["key"] for item in file["items"])
    states = {item["key"]: ("written", "cut", "same", "empty")[n % 4] for n, item in enumerate(file["items"])}
    numbers = {"tokens": 4, "ce": 0.25, "seed_ce": 1.5, "logp": -2.0}
    lines = [
        {"key": key, "text": f"Text {key[:6]}?" if states[key] != "empty" else "", "state": states[key]} | numbers
        for key in keys
    ]
    write_jsonl(store.folder / f"{len(store.lines)}.jsonl", lines)
    return len(lines)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Run a study to its end: its answers and its texts are put into the store by hand."""
    project = controlled_study(tmp_path_factory.mktemp("controlled"), shards=3)
    if "generated" in FEATURES:
        project.study(splits=["one", "made"], generated=[{"split": "made", "seeds": "one"}])
    project.snakemake("--", "results/small/requests/plain/two.jsonl", "results/small/requests/terse/one.jsonl")
    project.answer_everything("requests")
    project.snakemake("--", ITEMS)
    assert find_everything(project) == 12
    project.snakemake("--", "results/small/requests/terse/made.jsonl")
    project.answer_everything("requests")
    project.snakemake()
    return project


def test_rows_are_seeds_times_samples_whatever_became_of_them(made: Project) -> None:
    rows = list(read_jsonl(made.results / "controlled" / "made" / "rows.jsonl"))
    seeds = [prompt["id"] for prompt in read_jsonl(made.results / "prompts" / "one.jsonl")]
    assert [(row["parent"], row["sample"]) for row in rows] == [(seed, n) for seed in seeds for n in "01"]
    assert [row["state"] for row in rows].count("empty") == 3
    prompts = list(read_jsonl(made.results / "prompts" / "made.jsonl"))
    kept = [row for row in rows if row["state"] in ("written", "cut")]
    assert [prompt["messages"] for prompt in prompts] == [row["messages"] for row in kept]
    assert {prompt["source"]["parent"] for prompt in prompts} <= set(seeds)
    assert prompts[0]["cluster"] == prompts[0]["source"]["parent"] and prompts[0]["source"]["kept"]["ce"] == "0.2500"


@pytest.mark.feature("generated")
def test_yields_add_up_and_the_prompts_are_compared_with_their_seeds(made: Project) -> None:
    with (made.results / "tables" / "generated.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    of = {(row["estimand"], row["split"], row["parameter"]): float(row["value"]) for row in rows if not row["judge"]}
    assert of == {
        ("step_rows_out", "one", ""): 6,
        ("step_rows_in", "made", ""): 12,
        ("step_rows_lost", "made", "empty"): 3,
        ("step_rows_lost", "made", "filtered"): 3,  # the same as their seeds, which `where` leaves out
        ("step_rows_out", "made", ""): 6,
    }
    assert {row["model"] for row in rows if row["estimand"] == "step_rows_in"} == {"third"}

    def rates(split: str) -> dict[str, float]:
        found: dict[str, list[bool]] = {}
        for row in read_jsonl(made.results / "verdicts" / "words" / "terse" / f"{split}.jsonl"):
            found.setdefault(row["prompt_id"], []).append(row["label"] == "refusal")
        return {prompt: sum(own) / len(own) for prompt, own in found.items()}

    of_seeds, of_made = rates("one"), rates("made")
    prompts = list(read_jsonl(made.results / "prompts" / "made.jsonl"))
    gaps = [of_made[prompt["id"]] - of_seeds[prompt["source"]["parent"]] for prompt in prompts]
    (row,) = (row for row in rows if row["estimand"] == "generated_difference")
    assert float(row["value"]) == pytest.approx(sum(gaps) / len(gaps), abs=1e-6) and row["n_prompts"] == "6"
    assert any(gaps) and float(row["low"]) <= float(row["value"]) <= float(row["high"])


def test_the_refusals_are_those_of_the_target_as_the_judge_reads_them(made: Project) -> None:
    items = read_json(made.results / "controlled" / "made" / "items.json")["items"]
    assert {item["refusal"] for item in items} == {"I cannot help wi"}  # 16 tokens, which are bytes here
    assert items[0]["context"].startswith("<|im_start|>system\nThird.<|im_end|>") and "Third" not in items[0]["before"]


def test_the_plan_counts_the_search(made: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from refusal_eval.tools.plan.study_costs import plan_study

    fresh = controlled_study(tmp_path / "project", shards=3)
    # Six tokens; eight candidates and a gradient like three of them; each behind the text with six tokens of the
    # template and sixteen of the refusal.
    each = 6 * (8 + 3) * (1 + 6 + 16)
    for project, missing in ((fresh, 12), (made, 0)):
        monkeypatch.chdir(project.folder)
        file = project.folder / "study.yaml"
        plan = plan_study(load_study(study_values(str(file)), str(file), str(ROOT)), file, ROOT, None)
        (row,) = plan.batches[plan.batches["stage"] == "searches"].to_dict("records")
        pace = plan.paces["tiny"]
        assert (row["name"], row["engine"], row["batches"], row["tokens_in"]) == ("made", "tiny", 3, missing * each)
        hours = 3 * (pace.start_seconds + 4 * each / pace.read_rate) / 3600 if missing else 0
        assert row["device_hours"] == pytest.approx(hours, rel=1e-12) and row["loads"] == (3 if missing else 0)
        assert plan.engines["device_hours"].sum() == pytest.approx(plan.batches["device_hours"].sum())


def test_nothing_runs_again_in_a_finished_study(made: Project) -> None:
    assert made.planned() == {}


def test_another_weight_searches_again_and_more_samples_search_for_these_alone(made: Project, tmp_path: Path) -> None:
    file = read_json(made.results / "controlled" / "made" / "items.json")
    known = SearchStore(made.store, file["target"])
    assert known.missing(item["key"] for item in file["items"]) == []
    original = (made.folder / "catalogue.yaml").read_text()
    try:
        for change, new in (({"w2": 3.0}, 12), ({"samples": 3}, 6), ({"shards": 1}, 0)):
            data = {"splits": {"made": {"source": SOURCE | {"shards": 3} | change, "expectation": "comply"}}}
            change_yaml(
                made.folder / "catalogue.yaml",
                lambda known, data=data: known | {"datasets": known["datasets"] | {"mine": data}},
            )
            assert "search_prompts" in made.planned()
            made.snakemake("--", ITEMS)
            items = read_json(made.results / "controlled" / "made" / "items.json")["items"]
            assert len(known.missing(item["key"] for item in items)) == new, change
            (made.folder / "catalogue.yaml").write_text(original)
    finally:
        (made.folder / "catalogue.yaml").write_text(original)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"by": "fourth"}, "there is no model `fourth`"),
        ({"target": "prefilled"}, "`prefilled` has a `prefill`, which the search does not know"),
        ({"by": "other"}, "`other` and `plain` have different tokenizers, and the tokens of one are compared"),
        ({"seeds": "nowhere"}, "nowhere"),
        ({"refusals": {"split": "two", "judge": "labels"}}, "there is no judge `labels` in the catalogue"),
        ({"refusals": {"split": "tow", "judge": "words"}}, "there is no split `tow`"),
        ({"instruction": "Say it again."}, "must have {prompt} in it"),
        ({"seeds": "made"}, "the splits are made of each other in a circle"),
    ],
)
def test_mistakes_are_found_before_anything_runs(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    from tokenizer_folders import byte_tokenizer

    project = controlled_study(tmp_path, **change)
    other = byte_tokenizer(tmp_path / "other", special=["<extra>"])
    (other / "config.json").write_text(json.dumps({"eos_token_id": 258}))
    (other / "model.safetensors").write_bytes((tmp_path / "model" / "model.safetensors").read_bytes())
    engines = {"engines": {"other": {"weights": {"kind": "folder", "path": "other"}, "max_model_len": 4096}}}
    models = {
        "other": {"engine": "other", "sampling": {"max_tokens": 30}},
        "prefilled": {"engine": "tiny", "sampling": {"max_tokens": 30}, "prefill": "No"},
    }
    engines["engines"]["other"] |= {"device": "cpu", "memory_share": 0.1}
    change_yaml(
        tmp_path / "catalogue.yaml",
        lambda data: data | {"engines": data["engines"] | engines["engines"], "models": data["models"] | models},
    )
    run = project.snakemake("-n", check=False)
    said = " ".join((run.stdout + run.stderr).split())
    assert run.returncode != 0 and message in said, said[-2000:]
