"""AQI's composites in the real DAG: from activations in the store to their table, and what a change reruns."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from direction_study import direction_study
from project import CATALOGUE, Project, copy_of

from refusal_eval.activations.asked import prompt_tokens
from refusal_eval.activations.tensor_files import write_states
from refusal_eval.core.files import read_json, sha256_of_file, write_jsonl

AQI = {"perplexity": 5}
FAR: dict[str, Any] = {"name": "far", "models": ["plain"], "draws": 20, "aqi": AQI}
FAR |= {"positive": {"split": "two"}, "negative": {"split": "extra"}}
MANIFEST = {"manifest": 1, "methods": 1}  # which has the hashes of what was measured
CATEGORIES = ["duty"] * 6 + ["peace"]  # one prompt of `peace` in each split is too few


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a finished study with composites; do not change it."""
    project = direction_study(tmp_path_factory.mktemp("study") / "project", with_weights=False, directions=[])
    folder = project.folder
    facts = {"eos_token_id": 258, "num_hidden_layers": 2, "hidden_size": 8, "architectures": ["LlamaForCausalLM"]}
    (folder / "model" / "config.json").write_text(json.dumps(facts))
    splits = CATALOGUE["datasets"]["own"]["splits"]
    for split in ("two", "extra"):
        rows = [{"prompt": f"{split}: {i}?", "category": category} for i, category in enumerate(CATEGORIES)]
        write_jsonl(folder / f"{split}.jsonl", rows)
        splits = splits | {split: splits[split] | {"columns": {"prompt": "prompt", "category": "category"}}}
    project.catalogue("datasets", "own", splits=splits)
    project.study(separation=[FAR], tables=[], figures=[])
    answer(project)
    project.snakemake()
    return project


def answer(project: Project) -> None:
    """Answer all requests of a study, and write the activations that it asks for."""
    project.snakemake("--until", "requests")
    project.answer_everything("requests")
    rng = np.random.default_rng(0)
    for file in project.request_files("requests"):
        keys = [item.key for item in prompt_tokens(file.header["identity"], file.requests())]
        states = rng.standard_normal((len(keys), 2, 8)).astype(np.float32)
        path = project.store / "activations" / file.header["engine_id"] / f"{file.path.stem}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_states(path, states, "F32", {"keys": keys, "layers": [0, 1]})


@pytest.fixture
def finished(finished_once: Project, tmp_path: Path) -> Project:
    return copy_of(finished_once, tmp_path / "project")


def test_the_table_has_a_row_for_each_axiom_and_overall_and_says_what_is_left_out(finished_once: Project) -> None:
    rows = pd.read_csv(finished_once.results / "separation" / "aqi" / "far.csv").set_index("axiom")
    assert list(rows.index) == ["duty", "peace", "overall"] and (rows["layer"] == 1).all()
    assert rows.loc["peace", "note"] == "left out: 1 + 1 prompts, and each group needs two"
    composites = rows[["aqi_dealign", "aqi_chi_sil", "aqi_ss_xb", "aqi_xb_chi"]]
    assert composites.loc[["duty", "overall"]].notna().all(axis=None) and composites.loc["peace"].isna().all()
    assert sorted(rows.loc[["duty", "overall"], "chi_norm"]) == [0, 100]


def test_the_manifest_has_the_hashes_of_what_was_measured_and_on_what(finished_once: Project) -> None:
    files = read_json(finished_once.results / "manifest.json")["files"]
    names = {"prompts/two.jsonl", "activations/last_prompt_token/plain/extra.safetensors"}
    names |= {"separation/far.csv", "separation/aqi/far.csv"}
    assert {name: files.get(name) for name in names} == {
        name: sha256_of_file(finished_once.results / name) for name in names
    }


def test_another_setting_of_aqi_reruns_its_composites_alone_and_they_rerun_for_nothing_else(finished: Project) -> None:
    assert finished.planned() == {}
    finished.study(separation=[FAR | {"aqi": AQI | {"gamma": 0.3}}])
    assert finished.planned() == MANIFEST | {"aqi": 1}
    finished.study(separation=[FAR | {"draws": 21}])
    assert finished.planned() == MANIFEST | {"separation": 1}
    finished.study(separation=[FAR | {"aqi": None}])
    assert finished.planned() == MANIFEST
    run = finished.snakemake("-n")
    assert "they may hold old numbers: separation/aqi/far.csv" in run.stdout + run.stderr


def test_the_difference_of_two_models_reaches_results_table_and_methods(finished: Project) -> None:
    """Of the last layer in the table, of both in the results; another reference makes no separation again."""
    both = FAR | {"models": ["plain", "terse"], "reference": "plain"}
    finished.study(models=["plain", "terse"], separation=[both])
    answer(finished)
    finished.snakemake()
    results = pd.read_csv(finished.results / "results_table" / "results.csv", keep_default_na=False)
    rows = results[results["parameter"] == "far, layer 1, minus plain"]
    assert set(rows["model"]) == {"terse"} and len(rows) == 6 + 3 * 3
    own = pd.read_csv(finished.results / "separation" / "far.csv")
    values = own[(own["layer"] == 1) & (own["index"] == "silhouette")].set_index("model")["value"]
    (row,) = rows[rows["estimand"] == "separation_silhouette_difference"].to_dict("records")
    assert float(row["value"]) == pytest.approx(values["terse"] - values["plain"], abs=1e-5)
    assert float(row["low"]) < float(row["value"]) < float(row["high"])
    composites = pd.read_csv(finished.results / "separation" / "aqi" / "far.csv").set_index(["model", "axiom"])
    (row,) = rows[(rows["estimand"] == "aqi_dealign_difference") & (rows["category"] == "")].to_dict("records")
    difference = (
        composites.loc[("terse", "overall"), "aqi_dealign"] - composites.loc[("plain", "overall"), "aqi_dealign"]
    )
    assert float(row["value"]) == pytest.approx(difference, abs=1e-5) and row["low"] == ""
    table = (finished.results / "tables" / "separation.md").read_text()
    assert "differences from plain" in table and "| terse | 1 |" in table and "aqi\\_dealign" in table
    assert "Differences from *plain* are on the prompts" in (finished.results / "methods.md").read_text()
    finished.study(separation=[both | {"reference": "terse"}])
    planned = finished.planned()
    assert planned["analysis"] == 1 and not {"separation", "aqi", "activations"} & set(planned)
