"""What a study's protocol and its further tables change, through the real DAG, the store filled by hand."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from program import in_process
from project import CATALOGUE, copy_of, make_project

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import read_requests
from refusal_eval.stats.estimates.units import read_units


def first_requests(project):
    file = read_requests(project.results / "requests" / "plain" / "one.jsonl")
    return file.header, next(file.requests())


@pytest.fixture(scope="module")
def default(finished_once, tmp_path_factory):
    project = copy_of(finished_once, tmp_path_factory.mktemp("default") / "p")
    project.study(tables=["protocol_effects"])
    project.snakemake()
    return project


@pytest.fixture(scope="module")
def compat(tmp_path_factory):
    project = make_project(tmp_path_factory.mktemp("compat") / "p")
    sampling = {"max_tokens": 300, "temperature": 0.5, "top_p": 0.9, "top_k": 7}
    project.catalogue("models", "plain", **(CATALOGUE["models"]["plain"] | {"sampling": sampling}))
    project.study(protocol="compat", splits=["one"])
    project.complete()
    return project


def effects(project):
    frame = pd.read_csv(project.results / "tables" / "protocol_effects.csv")
    return frame.set_index(["judge", "model", "split", "choice"])


def test_the_table_tells_what_each_choice_does_to_each_cell(default):
    frame = effects(default)
    assert set(frame.index.get_level_values("judge")) == {"words", "label"}
    assert len(frame) == 2 * 2 * 2 * 9
    votes = pd.read_csv(default.results / "tables" / "votes.csv").set_index(["judge", "model", "split", "measure"])
    ours = frame.xs("default", level="choice")
    for cell, row in ours.iterrows():
        assert row["c"] == pytest.approx(votes.loc[(*cell, "c@3 mean"), "value"], abs=2e-6)
    assert (default.results / "tables" / "protocol_effects.tex").exists()


def test_such_a_study_is_verified_without_its_store(default):
    away = default.store.rename(default.store.with_name("away"))
    try:
        file = str(default.folder / "study.yaml")
        done = in_process("verify", file, "--directory", str(default.folder), "--cores", "1", cwd=default.folder)
    finally:
        shutil.rmtree(default.store, ignore_errors=True)
        away.rename(default.store)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_being_asked_for_nothing_of_it_runs(default):
    default.study(tables=[])
    try:
        assert default.planned() == {}
        assert "results/small/tables/protocol_effects" not in default.snakemake("-n", "--summary").stdout
    finally:
        default.study(tables=["protocol_effects"])


def test_the_table_runs_no_engine_and_no_other_job(default):
    for path in (default.results / "published").rglob("*.json*"):
        path.unlink()
    (default.results / "tables" / "protocol_effects.csv").unlink()
    assert default.planned() == {"published_answers": 4, "published_scores": 8, "table": 1}


def test_compat_asks_at_temperature_one_and_strips_the_prompt(compat, default):
    header, request = first_requests(compat)
    ours, own = first_requests(default)
    assert {name: header["sampling"][name] for name in ("temperature", "top_p", "top_k")} == {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
    }
    assert header["sampling"]["max_tokens"] == 300
    assert request.token_ids != own.token_ids and request.key != own.key
    decode = Renderer(compat.folder / "model", template="none").decode
    text = decode(request.token_ids)
    assert text == text.strip() != decode(own.token_ids) and decode(own.token_ids).strip() == text
    assert ours["sampling"]["temperature"] == 1.0


def test_compat_scores_carry_the_published_c(compat):
    cell = json.loads((compat.results / "published" / "scores" / "words" / "plain" / "one.json").read_text())
    rows = read_units(compat.results / "scores" / "words" / "plain" / "one.parquet").frame.droplevel("turn")
    for score in cell["scores"]:
        assert rows.loc[score["prompt_id"], "c"] == pytest.approx(score["answer_censor_score"], abs=1e-6)
    share = effects(compat).loc[("words", "plain", "one", "compat"), "refusing"]
    assert 100 * share == pytest.approx(cell["metrics"]["rejection_pct"], abs=1e-3)


def test_compat_says_so_in_tables_figures_and_manifest(compat, default):
    for name in ("refusal", "scores", "states", "votes", "judges", "protocol_effects"):
        assert "Protocol: compat" in (compat.results / "tables" / f"{name}.md").read_text()
        frame = pd.read_csv(compat.results / "tables" / f"{name}.csv")
        assert (frame["protocol"] == "compat").all()
        assert "rotocol" not in (default.results / "tables" / "refusal.md").read_text()
    assert json.loads((compat.results / "manifest.json").read_text())["study"]["protocol"] == "compat"
    units = read_units(compat.results / "scores" / "words" / "plain" / "one.parquet")
    assert units.facts["protocol"] == "compat"
    svg = (compat.results / "figures" / "refusal_heatmap.svg").read_text()
    assert "Protocol compat" in svg


def test_a_finished_study_is_exported_and_its_export_follows_from_itself(compat, monkeypatch, capsys):
    from refusal_eval.__main__ import main

    monkeypatch.chdir(compat.folder)
    assert main(["export", "study.yaml", "--output", "out"]) == 0
    assert main(["export", "--check", "out"]) == 0
    assert capsys.readouterr().out.count("of 6 prompts scored") == 2
    files = {path.name for path in Path("out/plain/one").iterdir()}
    assert files == {"answers.json", "judge_scores.json", "censor_scores.json", "censor_scores_metrics.json"}
    compat.study(protocol="compat", splits=["one"], samples=2)
    assert main(["export", "study.yaml", "--output", "out2"]) == 1
    assert "is not of the study as it is now" in capsys.readouterr().err and not Path("out2").exists()
    compat.study(protocol="compat", splits=["one"])
