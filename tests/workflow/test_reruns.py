"""Only what is affected reruns: each test changes one thing of a finished study and looks at what Snakemake plans."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import PLAIN, ROOT, Project, change_yaml, make_project, planned_jobs

from refusal_eval.ask.requests import read_requests
from refusal_eval.study.engine_environment import built_for

LISTING = {"listing": 1}
CARD = {"judge_card": 1, "judge_card_figure": 1, "table": 13}
OTHER_CARD = {**CARD, "table": 12}  # rates by category show the primary judge alone
# Of the whole study; and what is there for each judge and model, here of one of two.
AGGREGATES = {rule: 1 for rule in ("results_table", "methods", "manifest")}
AGGREGATES |= {"analysis": 5, "figure": 4, "table": 11, **LISTING}
ESTIMATES = {"estimates": 2}
GPU_RULES = {"generate", "judge"}
LEFT_OUT = (".venv", ".cache", ".git", ".snakemake", "__pycache__")


@pytest.fixture
def fresh(tmp_path: Path) -> Project:
    """Return a study of which nothing has run."""
    return make_project(tmp_path / "project")


def test_files_that_are_deleted_are_made_again_as_they_were(finished: Project) -> None:
    """Tables and figures being there is no reason to leave out what they were made from."""
    names = ["answers/plain/two.jsonl", "answers/gold/people.jsonl", "scores/words/terse/one.parquet"]
    before = {name: (finished.results / name).read_bytes() for name in names}
    for name in names:  # none is made from another
        (finished.results / name).unlink()
    finished.snakemake()
    assert {name: (finished.results / name).read_bytes() for name in names} == before
    assert finished.planned() == {}


def test_a_file_on_the_way_that_is_gone_is_missed_though_all_that_was_made_from_it_is_there(finished: Project) -> None:
    folders = {"judge_cards/words": "judge_card", "judge_requests/label/terse": "judge_requests"}
    folders |= {"judges": "check_judge", "requests/terse": "requests", "engines": "identify_engine"}
    planned: dict[str, int] = {}
    for folder, rule in folders.items():  # what is made last goes first, as files that are gone take those behind along
        assert rule not in planned
        shutil.rmtree(finished.results / folder)
        planned = finished.planned()
        assert rule in planned


def test_what_a_failed_job_should_have_made_again_is_made_by_the_next_run(finished: Project) -> None:
    """Snakemake records a job that failed with its new params: what was made of its older output is not current."""
    finished.catalogue("models", "terse", sampling={"max_tokens": 300, "temperature": 0.7})
    folder = finished.results / "requests" / "terse"
    shutil.rmtree(folder)
    folder.symlink_to("/sys/kernel")  # where nothing can be written, by root either
    assert finished.snakemake("--until", "requests", check=False).returncode != 0
    folder.unlink()
    planned = finished.planned()
    assert planned["requests"] == planned["answers"] == 2 and planned["score"] == 4


def test_nothing_changed_nothing_to_do_even_where_files_are_touched(finished: Project) -> None:
    for name in ("one.jsonl", "rubric.md", "words.yaml", "gold.jsonl"):
        os.utime(finished.folder / name)
    assert finished.planned(*PLAIN) == {}
    run = finished.snakemake()
    assert "Nothing to be done" in run.stdout + run.stderr


def test_a_models_temperature_reruns_that_models_cells(finished: Project) -> None:
    finished.catalogue("models", "terse", sampling={"max_tokens": 300, "temperature": 0.7})
    planned, reported = finished.planned_and_said()
    assert planned == AGGREGATES | ESTIMATES | {
        "requests": 2,
        "generate": 1,
        "answers": 2,
        "cpu_verdicts": 2,
        "judge_requests": 2,
        "judge": 1,
        "llm_verdicts": 2,
        "score": 4,
    }
    assert finished.planned(*PLAIN) == planned
    assert reported and not [message for message in reported if "plain" in message]
    finished.snakemake("--until", "requests")
    assert len(finished.missing("requests")) == (6 + 5) * 3  # all of this model's, none of the other's


def test_results_whose_records_are_not_here_are_not_taken_for_current(finished: Project) -> None:
    def stops() -> bool:
        run = finished.snakemake("-n", check=False)
        reported = run.stdout + run.stderr
        assert run.returncode == 0 or f"were made from {finished.folder} as results/small" in reported, reported
        return run.returncode != 0

    (finished.results / "manifest.json").unlink()
    finished.snakemake()
    results, elsewhere, records = (finished.folder / name for name in ("results", "big", ".snakemake"))
    results.rename(elsewhere)
    finished.study(results_dir="big", store_dir="big/store", scoring={"tau": 0.5})
    assert stops()
    finished.study(results_dir="results", store_dir="results/store", scoring={"tau": 1.0})
    results.symlink_to("big")
    assert not stops() and finished.planned() == {}
    records.rename(finished.folder / "kept")
    assert stops()
    (finished.folder / "kept").rename(records)
    moved = Project(finished.folder.rename(finished.folder.with_name("moved")))
    assert moved.planned() == {}, "records that went along are records"


def test_a_splits_file_reruns_that_split(finished: Project) -> None:
    with open(finished.folder / "two.jsonl", "a") as handle:
        handle.write('{"prompt": "two: one more?"}\n')
    planned, reported = finished.planned_and_said()
    assert {rule: planned[rule] for rule in ("prompts", "requests", "answers", "score")} == {
        "prompts": 1,
        "requests": 2,
        "answers": 2,
        "score": 4,
    }
    assert finished.planned(*PLAIN) == planned
    assert reported and not [message for message in reported if " one" in message]
    finished.snakemake("--until", "requests")
    assert len(finished.missing("requests")) == 2 * 3  # the new prompt of two models, K = 3


def test_more_samples_ask_for_the_new_ones_only(finished: Project) -> None:
    finished.study(samples=5)
    assert finished.ran("--until", "requests")["requests"] == 4
    assert len(finished.missing("requests")) == 2 * (6 + 5) * 2


def test_a_rubric_reruns_that_judges_verdicts_and_what_follows(finished: Project) -> None:
    rubric = finished.folder / "rubric.md"
    rubric.write_text("Another. " + rubric.read_text())
    planned = finished.planned()
    assert planned == AGGREGATES | ESTIMATES | {
        "analysis": 4,  # models are compared under the primary judge
        "figure": 2,  # the others show that one
        "check_judge": 1,
        "judge_requests": 5,
        "judge": 1,
        "llm_verdicts": 5,
        "score": 4,
        **OTHER_CARD,
    }


OLDER = {
    "rubric.md": "Older. {{ prompt }} {{ nonce }} {{ answer }} {{ nonce }} Label:",
    "words.yaml": "refusal_openings: ['older']\n",
    "two.jsonl": '{"prompt": "an older question?"}\n',
    "gold.jsonl": '{"prompt": "older", "answer": "older", "label": "yes"}\n',
}


@pytest.mark.parametrize(
    "rules",  # of two files at a time, of which neither makes the other's rule run
    [
        {"rubric.md": "judge_requests", "words.yaml": "cpu_verdicts"},
        {"two.jsonl": "prompts", "gold.jsonl": "gold"},
    ],
    ids=" ".join,
)
def test_an_older_file_put_in_place_is_noticed(finished: Project, rules: dict[str, str]) -> None:
    for name in rules:
        (finished.folder / name).write_text(OLDER[name])
        os.utime(finished.folder / name, (1_600_000_000, 1_600_000_000))  # as `cp -p` and `rsync -a` keep it
    assert set(rules.values()) <= set(finished.planned())


def test_a_judge_that_is_edited_while_it_judges_stops_the_run(finished: Project) -> None:
    """Its cells would be judged by two wordings, and the manifest would name one."""
    own, text = finished.folder / "own.py", "def judge(messages, answer):\n    return 'refusal'\n"
    own.write_text(text + "\n\nwith open(__file__, 'a') as file:\n    file.write('# edited')\n")
    entry = {"own": {"kind": "python", "file": "own.py"}}
    change_yaml(finished.folder / "catalogue.yaml", lambda data: data | {"judges": data["judges"] | entry})
    finished.study(judges=["words", "label", "own"])
    run = finished.snakemake("--until", "cpu_verdicts", check=False)
    assert run.returncode != 0
    assert "own.py has changed since this run was planned; run again" in run.stdout + run.stderr
    assert not list((finished.results / "verdicts" / "own").rglob("*.jsonl"))
    own.write_text(text)
    assert finished.ran("--until", "cpu_verdicts")["cpu_verdicts"] == 5


def test_a_module_that_a_judge_of_ones_own_imports_reruns_it(finished: Project) -> None:
    (finished.folder / "own.py").write_text("from phrases import judge\n")
    (finished.folder / "phrases.py").write_text("def judge(messages, answer):\n    return 'refusal'\n")
    entry = {"own": {"kind": "python", "file": "own.py"}}
    change_yaml(finished.folder / "catalogue.yaml", lambda data: data | {"judges": data["judges"] | entry})
    finished.study(judges=["words", "label", "own"])
    assert finished.ran("--until", "cpu_verdicts")["cpu_verdicts"] == 5
    assert "cpu_verdicts" not in finished.planned("--until", "cpu_verdicts")
    (finished.folder / "phrases.py").write_text("def judge(messages, answer):\n    return 'compliance'\n")
    assert finished.planned("--until", "cpu_verdicts")["cpu_verdicts"] == 5


def test_a_keyword_list_reruns_that_judges_verdicts_without_any_gpu_job(finished: Project) -> None:
    (finished.folder / "words.yaml").write_text("refusal_openings: ['sure']\n")
    assert finished.planned() == AGGREGATES | ESTIMATES | {"cpu_verdicts": 5, "score": 4, **CARD}


def test_bands_tau_and_level_rerun_scores_and_no_gpu_job(finished: Project) -> None:
    """All at once: test_workflow_params has for each what it decides."""
    finished.study(scoring={"tau": 0.5, "band": 0.2, "level": 0.9})
    planned = finished.planned()
    assert planned["score"] == 8 and not set(planned) & (GPU_RULES | {"answers", "requests", "llm_verdicts"})


def test_a_judges_threshold_reruns_its_verdicts_and_no_gpu_job(finished: Project) -> None:
    finished.catalogue("judges", "label", threshold=0.8)
    planned = finished.planned()
    assert planned == AGGREGATES | ESTIMATES | {
        "analysis": 4,
        "figure": 2,
        "llm_verdicts": 5,
        "score": 4,
        **OTHER_CARD,
    }


def test_the_reasoning_end_mark_reruns_answers_and_no_generation(finished: Project) -> None:
    finished.catalogue("models", "plain", reasoning={"start": "<think>", "end": "</think>"})
    planned = finished.planned()
    assert planned["answers"] == 2 and "requests" not in planned and "generate" not in planned
    finished.snakemake("--until", "judge_requests")
    assert not finished.missing("requests")


@pytest.mark.parametrize(
    "change", [{"batch": "cell"}, {"batch": "model"}, {"shards": 3, "requests_in_flight": 5, "time_limit": 9.5}]
)
def test_another_batching_reruns_no_cell_that_has_its_answers(finished: Project, change: dict) -> None:
    finished.study(**change)
    assert finished.planned() in ({"manifest": 1}, {})


def executed(project: Project, splits: list[str]) -> None:
    """Take the study as far as to the answers of some of its splits, those of each model by a load of its own."""
    project.study(splits=splits, batch="model")
    project.snakemake("--until", "requests")
    project.answer_everything("requests")
    project.snakemake("--until", "answers")


@pytest.mark.full
def test_a_split_taken_out_of_an_unfinished_study_and_put_back_is_executed(fresh: Project) -> None:
    fresh.study(batch="model")
    fresh.snakemake("--until", "requests")  # of both splits, before their loads were killed
    executed(fresh, ["one"])
    fresh.study(splits=["one", "two"])
    planned = fresh.planned("--until", "answers")
    assert planned["generate"] == 2 and planned["answers"] == 2
    executed(fresh, ["one", "two"])
    assert len(list((fresh.results / "answers").rglob("*.jsonl"))) == 4


@pytest.mark.parametrize("shards", [1, pytest.param(3, marks=pytest.mark.full)])
def test_what_a_load_executed_counts_for_no_other_number_of_shards(fresh: Project, shards: int) -> None:
    fresh.study(shards=2)
    fresh.snakemake("--until", "requests")
    fresh.answer_everything("requests")
    fresh.snakemake("--until", "generate")
    for receipt in (fresh.results / "receipts").rglob("1-of-2.json"):
        receipt.unlink()  # as when its job was killed
    fresh.study(shards=shards)
    planned = fresh.planned("--until", "answers")
    assert planned["generate"] == shards and planned["answers"] == 4


def test_a_load_that_waits_while_the_number_of_shards_changes_executes_its_own_part(fresh: Project) -> None:
    """On a cluster a job reads the study again when its turn has come."""
    fresh.study(shards=2)
    fresh.snakemake("--until", "requests")
    fresh.answer_everything("requests")
    receipt = "results/small/receipts/generate/engine/tiny/1-of-2.json"
    fresh.study(shards=1)
    fresh.snakemake(receipt)
    keys = set[str]().union(*(file.keys() for file in fresh.request_files("requests")))
    assert 0 < json.loads((fresh.folder / receipt).read_text())["requests"] < len(keys)


def test_a_new_model_runs_its_own_cells_and_the_aggregates(finished: Project) -> None:
    finished.study(models=["plain", "terse", "third"])
    planned, reported = finished.planned_and_said()
    assert {rule: planned[rule] for rule in ("requests", "answers", "cpu_verdicts", "llm_verdicts", "score")} == {
        "requests": 2,
        "answers": 2,
        "cpu_verdicts": 2,
        "llm_verdicts": 2,
        "score": 4,
    }
    assert all("third" in message for message in reported if message.startswith(("Rendering", "Scoring", "Collecting")))


def test_a_new_split_runs_its_own_cells_and_the_aggregates(finished: Project) -> None:
    finished.study(splits=["one", "two", "extra"])
    planned = finished.planned()
    assert planned["prompts"] == 1 and planned["answers"] == 2 and planned["score"] == 4
    assert finished.planned(*PLAIN) == planned


def test_a_model_taken_away_leaves_the_tables(finished: Project) -> None:
    finished.study(models=["plain"])
    planned = finished.planned(*PLAIN)
    ran = finished.ran()
    assert planned == ran
    # One model is left: nothing to compare it with. The loads of its batch look into the store and start no engine.
    loads = {"generate": 1, "judge": 1}
    assert ran == AGGREGATES | loads | {"analysis": 4, "table": 9}
    assert "terse" not in (finished.results / "tables" / "scores.csv").read_text()


@pytest.mark.full
def test_what_is_taken_away_leaves_the_results_table_also_where_nothing_else_reruns(fresh: Project) -> None:
    fresh.study(splits=["one"], gold=[])  # no cards, no trade-off: each judge's files stay as they are
    fresh.complete()
    table = fresh.results / "results_table" / "results.csv"
    assert "label" in table.read_text() and "terse" in table.read_text()
    fresh.study(judges=["words"])
    assert fresh.planned()["results_table"] == 1
    fresh.study(models=["plain"])
    fresh.snakemake()
    assert "label" not in table.read_text() and "terse" not in table.read_text()


def test_a_changed_title_draws_that_figure_again_and_nothing_else(finished: Project) -> None:
    figures = [{"name": "rates", "kind": "heatmap"}, {"name": "votes", "kind": "histograms"}]
    finished.study(figures=figures)
    finished.snakemake()
    finished.study(figures=[figures[0] | {"title": "Mine."}, figures[1]])
    assert finished.planned() == {"figure": 1}


def test_another_paper_draws_figures_and_typesets_tables_again_and_scores_nothing(finished: Project) -> None:
    finished.study(paper="neurips")
    planned = finished.planned()
    assert planned.pop("figure") == len(list((finished.results / "figures").glob("*.svg")))
    assert set(planned) == {"table", "manifest", "methods"}  # the manifest reads the CSV files of tables


def test_a_family_of_another_name_typesets_the_table_of_comparisons_and_nothing_else(finished: Project) -> None:
    finished.study(comparisons=[{"pairs": "all"}])
    assert finished.planned() == {}
    finished.study(comparisons=[{"pairs": "all", "label": "Mine"}])
    assert finished.ran() == {"table": 1}
    assert "Mine" in (finished.results / "tables" / "comparisons.md").read_text(encoding="utf-8")
    assert finished.planned() == {}


def test_a_changed_label_typesets_tables_and_another_way_of_serving_runs_nothing(finished: Project) -> None:
    """Both at once: where one of them ran a job, both together would."""
    finished.catalogue("models", "plain", label="Another label")
    serving = {"memory_share": 0.5, "start_timeout": 9, "stall_timeout": 9, "args": {"max-num-seqs": 8}}
    finished.catalogue("engines", "tiny", tensor_parallel=4, device="cuda", **serving)
    ran = finished.ran()
    assert ran["table"] == 11  # those of judges and gold do not show it
    assert not set(ran) & (GPU_RULES | {"requests", "answers"})
    assert not set(ran) & {"score", "estimates", "analysis"}
    assert "Another label" in (finished.results / "tables" / "corrected.md").read_text(encoding="utf-8")


def test_a_citation_that_is_added_later_stands_in_the_methods_section(finished: Project) -> None:
    finished.catalogue("gold", "people", citation=["@misc{later2026,\n  title = {Later}\n}"])
    assert finished.ran() == {"manifest": 1, "methods": 1}
    assert "later2026" in (finished.results / "references.bib").read_text(encoding="utf-8")


def test_a_threshold_that_flips_no_label_stands_in_the_methods_section_also_after_a_stopped_run(
    finished: Project,
) -> None:
    finished.catalogue("judges", "label", threshold=0.503)
    finished.snakemake("--until", "llm_verdicts")  # which come out as they were, to the byte
    assert finished.ran() == {"judge_card_figure": 1, "manifest": 1, "methods": 1}
    assert "0.503" in (finished.results / "methods.md").read_text(encoding="utf-8")


def test_a_plan_warns_of_an_engine_that_the_environment_cannot_start(finished: Project) -> None:
    def warnings() -> int:
        run = finished.snakemake("-n")
        return (run.stdout + run.stderr).count("tiny: will not start")

    assert warnings() == 0
    finished.catalogue("engines", "tiny", device="cuda", python=None)
    assert warnings() == (built_for(ROOT) == "cpu")


def test_the_order_of_models_and_splits_changes_no_number(finished: Project) -> None:
    def numbers() -> dict[str, bytes]:
        patterns = ("*.jsonl", "*.csv", "*.parquet")
        files = [path for pattern in patterns for path in finished.results.rglob(pattern)]
        return {str(path): path.read_bytes() for path in files}

    before = numbers()
    finished.study(models=["terse", "plain"], splits=["two", "one"])
    assert not set(finished.ran()) - set(AGGREGATES)
    assert numbers() == before


@pytest.mark.full
def test_what_is_recomputed_from_the_store_is_byte_identical(finished: Project) -> None:
    kinds = ("answers", "verdicts", "scores", "tables", "judge_cards", "figures")

    def content() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for kind in kinds for p in (finished.results / kind).rglob("*") if p.is_file()}

    before = content()
    shutil.rmtree(finished.results)
    shutil.rmtree(finished.folder / ".snakemake")
    finished.snakemake()
    assert not finished.missing("requests")
    assert content() == before


@pytest.mark.parametrize(
    ("batching", "loads"),
    [({}, 2), *(pytest.param(*case, marks=pytest.mark.full) for case in (({"batch": "cell"}, 9), ({"shards": 2}, 4)))],
)
def test_a_second_study_that_asks_the_same_executes_nothing(finished: Project, batching: dict, loads: int) -> None:
    finished.study(study="second", **batching)
    run = finished.snakemake()
    second = finished.folder / "results" / "second"
    receipts = [json.loads(path.read_text()) for path in second.rglob("receipts/**/*.json")]
    assert len(receipts) == loads and all(receipt["executed"] == 0 for receipt in receipts)
    assert "starting the engine" not in run.stderr
    one, two = (finished.results / "tables" / "scores.csv"), second / "tables" / "scores.csv"
    assert one.read_bytes() == two.read_bytes()


def test_other_weights_under_the_same_path_are_another_engine(finished: Project) -> None:
    weights = finished.folder / "model" / "model.safetensors"
    state = weights.stat()
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns + 5_000_000_000))
    finished.snakemake("--until", "requests")
    assert len(finished.missing("requests")) == 2 * (6 + 5) * 3


def test_a_model_that_changes_to_an_engine_that_is_there_already_is_asked_again(fresh: Project) -> None:
    """Its identity file is older than the requests, so that only the engine's name tells."""

    def engines_asked() -> dict[str, str]:
        files = {model: fresh.results / "requests" / model / "one.jsonl" for model in ("plain", "terse")}
        return {model: read_requests(file).header["engine_id"] for model, file in files.items()}

    def add_engine(catalogue: dict[str, Any]) -> dict[str, Any]:
        catalogue["engines"]["half"] = catalogue["engines"]["tiny"] | {"dtype": "float16"}
        return catalogue

    change_yaml(fresh.folder / "catalogue.yaml", add_engine)
    fresh.study(splits=["one"])
    fresh.catalogue("models", "terse", engine="half")
    fresh.snakemake("--until", "requests")
    before = engines_asked()
    assert before["plain"] != before["terse"]
    fresh.catalogue("models", "plain", engine="half")
    fresh.catalogue("models", "terse", engine="tiny")
    fresh.snakemake("--until", "requests")
    assert engines_asked() == {"plain": before["terse"], "terse": before["plain"]}
    fresh.catalogue("models", "plain", engine="tiny")  # and back
    fresh.snakemake("--until", "requests")
    assert engines_asked() == {"plain": before["plain"], "terse": before["plain"]}


def workflow_copy(project: Project) -> Path:
    """Return a copy of the workflow, so that its library can be changed."""
    copy = project.folder / "workflow-copy"
    ignored = shutil.ignore_patterns(*LEFT_OUT)
    # `results` of the root alone: the library has a package of that name.
    shutil.copytree(ROOT, copy, ignore=lambda f, names: {*ignored(f, names), *(["results"] if Path(f) == ROOT else [])})
    return copy


def planned_by(copy: Path, project: Project) -> dict[str, int]:
    """Return what a copy of the workflow plans for a study."""
    folder = str(project.folder)
    command = [sys.executable, "-m", "snakemake", "-s", str(copy / "Snakefile"), "--directory", folder]
    command += ["--configfile", f"{folder}/study.yaml", "-n"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=project.folder)
    assert run.returncode == 0, run.stdout + run.stderr
    return planned_jobs(run.stdout + run.stderr)


def test_a_corrected_formula_reruns_estimates_and_another_segment_rule_answers(finished: Project) -> None:
    copy = workflow_copy(finished)
    library = copy / "scripts" / "refusal_eval"
    after = planned_by_changed(copy, library / "stats" / "estimates" / "intervals.py", finished)
    assert after["estimates"] == 4
    assert not set(after) & (GPU_RULES | {"answers", "requests", "llm_verdicts", "cpu_verdicts", "score"})
    after = planned_by_changed(copy, library / "ask" / "answers.py", finished)
    assert after["answers"] == 4
    assert not set(after) & {"requests", "generate"}


def test_what_a_release_corrects_is_noticed_where_an_archive_keeps_older_times(finished: Project) -> None:
    copy = workflow_copy(finished)
    report = Path("refusal_eval/report")

    def planned_with_older(names: tuple[str | Path, ...]) -> dict[str, int]:
        for name in names:
            with open(copy / "scripts" / name, "a") as file:
                file.write("CORRECTED = True\n" if str(name).endswith(".py") else "# Corrected.\n")
            os.utime(copy / "scripts" / name, (1_600_000_000, 1_600_000_000))
        return planned_by(copy, finished)

    tradeoff = report.parent / "features" / "tradeoff"
    words = tradeoff / "notes/tradeoff/models.j2", tradeoff / "methods.j2"
    planned = planned_with_older(("make_captions_preamble.py", *words))
    assert planned == {"captions_preamble": 1, "table": 1, "methods": 1}
    for dictionary in (report / "results/dictionary.yaml", tradeoff / "dictionary.yaml"):
        assert planned_with_older((dictionary,))["results_table"] == 1


def planned_by_changed(copy: Path, source: Path, project: Project) -> dict[str, int]:
    """Return what a copy of the workflow plans while one of its modules computes otherwise."""
    text = source.read_text()
    source.write_text(text.replace("\n    return ", "\n    _ = None\n    return ", 1))
    planned = planned_by(copy, project)
    source.write_text(text)
    return planned


@pytest.mark.full
def test_a_gpu_engine_asks_for_its_gpus_only_when_something_is_missing(
    finished: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("REFUSAL_EVAL_LOCKS", str(finished.folder / "locks"))
    stub = finished.folder / "stub.sh"
    stub.write_text("#!/bin/sh\necho this is no engine\nexit 3\n")
    stub.chmod(0o755)
    finished.catalogue("engines", "tiny", device="cuda", tensor_parallel=2, python="stub.sh")
    (receipt,) = (finished.results / "receipts" / "generate").rglob("*.json")
    receipt.unlink()
    shutil.rmtree(finished.results / "answers" / "plain")
    shutil.rmtree(finished.results / "verdicts")
    shutil.rmtree(finished.results / "scores")
    shutil.rmtree(finished.results / "tables")
    finished.snakemake("--resources", "gpu=8")
    assert json.loads(receipt.read_text())["gpus"] == 0
    # The requests of new samples appear in the same run: the GPUs must be asked for all the same.
    finished.study(samples=5)
    run = finished.snakemake("--resources", "gpu=8", check=False)
    assert run.returncode != 0
    assert "the engine died while starting (exit code 3)" in run.stderr and "this is no engine" in run.stderr
    # Snakemake caps silently what a job asks for; a job that got too few GPUs stops.
    run = finished.snakemake("--resources", "gpu=1", check=False)
    assert "this job got 1 GPUs and needs 2" in run.stderr


def test_an_engine_that_never_gets_healthy_ends_in_time(finished: Project) -> None:
    stub = finished.folder / "stub.sh"
    stub.write_text("#!/bin/sh\necho loading for ever\nexec sleep 600\n")
    stub.chmod(0o755)
    finished.catalogue("engines", "tiny", python="stub.sh", start_timeout=2)
    finished.study(samples=5)
    run = finished.snakemake(check=False)
    assert (
        "was not healthy after 2 s, which is what `start_timeout` allows" in run.stderr
        and "loading for ever" in run.stderr
    )
    assert not list((finished.results / "receipts" / "generate").rglob("*.json"))


def test_the_validated_study_lies_beside_its_results(finished: Project) -> None:
    kept = yaml.safe_load((finished.results / "config.yaml").read_text())
    assert kept["study"] == "small" and kept["split_entries"]["one"]["expectation"] == "comply"
    # Whole by itself: the demo's description, models and lengths did not leak in.
    demo = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    assert demo["description"] and kept["description"] == ""
    assert not [name for name in demo["models"] + demo["splits"] if name in json.dumps(kept)]
    assert oct(finished.results.stat().st_mode & 0o777) == "0o700"
    assert oct((finished.folder / "results" / "store").stat().st_mode & 0o777) == "0o700"


def test_a_run_that_was_interrupted_behind_its_requests_leaves_no_old_answers(finished: Project) -> None:
    finished.study(samples=4)
    finished.snakemake("--until", "requests")
    # The batch has to run, and so have all its cells, although none of their requests is made in this run.
    planned = finished.planned()
    assert {rule: planned.get(rule) for rule in ("requests", "generate", "answers", "cpu_verdicts", "score")} == {
        "requests": None,
        "generate": 1,
        "answers": 4,
        "cpu_verdicts": 4,
        "score": 8,
    }


def test_a_cells_own_reason_counts_beside_a_new_split_of_its_batch(finished: Project) -> None:
    finished.catalogue("models", "plain", reasoning={"end": "</think>"})
    finished.catalogue("judges", "label", threshold=0.6)
    finished.study(splits=["one", "two", "extra"])
    planned = finished.planned()
    assert planned["requests"] == 2  # of the new split
    assert planned["answers"] == 2 + 2  # of the new split, and of the model that is read in another way
    assert planned["llm_verdicts"] == 6 + 1  # all cells, and gold
