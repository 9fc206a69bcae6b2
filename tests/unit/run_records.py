"""Snakemake's records of the files that a study's run made, without the run."""

import json
from pathlib import Path
from types import SimpleNamespace

from snakemake.persistence.file import FilePersistence

from refusal_eval.study.batches import GOLD, llm_judges
from refusal_eval.study.paths import Paths
from refusal_eval.workflow.data_stage import Data
from refusal_eval.workflow.generation import Generation
from refusal_eval.workflow.judging import Judging
from refusal_eval.workflow.weights_stage import Weights

FOLDER = ".snakemake/metadata"


def write_record(file, params, inputs=()):
    """Write what Snakemake keeps of a file in the current folder; `inputs`: paths, or checksums by path."""
    snakemake = FilePersistence.__new__(FilePersistence)
    snakemake._max_len = None
    kept = sorted(snakemake._serialize_param_builtin(value) for value in ("code", params))
    Path(FOLDER).mkdir(parents=True, exist_ok=True)
    path = Path(snakemake._record_path(FOLDER, file))
    path.parent.mkdir(parents=True, exist_ok=True)
    checksums = inputs if isinstance(inputs, dict) else {}
    record = {"params": kept, "input": sorted(inputs), "input_checksums": checksums, "incomplete": False}
    path.write_text(json.dumps(record))


def record_run(config, root):
    """Write the records that a run of this study would leave for prompts, gold, requests, answers and what is asked."""
    paths, data, weights = Paths(config), Data(config, root), Weights(config)
    generation, judging = Generation(config), Judging(config)

    def record(name, params, inputs=(), **wildcards):
        file = name if name.endswith(".json") else path(name)
        write_record(file, params(SimpleNamespace(**wildcards)), inputs)

    def path(name):
        return f"{paths.results}/{name}.jsonl"

    for engine in config["engine_entries"]:
        record(paths.engine(engine), weights.identified_entry, engine=engine)
    for split in config["splits"]:
        record(f"prompts/{split}", data.split_reading, split=split)
    for gold in config["gold"]:
        record(f"gold/{gold}", data.gold_reading, gold=gold)
    for model, split in [(model, split) for model in config["models"] for split in config["splits"]]:
        cell, entry = {"model": model, "split": split}, config["model_entries"][model]
        adapters = [paths.adapter(model)] if entry["lora"] else []
        for adapter in adapters:
            record(adapter, weights.identified_adapter, model=model)
        asked = [path(f"prompts/{split}"), paths.engine(entry["engine"]), *adapters]
        record(f"requests/{model}/{split}", generation.request_params, asked, **cell)
        record(f"answers/{model}/{split}", generation.segments, [path(f"requests/{model}/{split}")], **cell)
    for judge in llm_judges(config):
        engine = paths.engine(config["judge_entries"][judge]["engine"])
        for cell in [
            *(f"{m}/{s}" for m in config["models"] for s in config["splits"]),
            *(f"{GOLD}/{g}" for g in config["gold"]),
        ]:
            record(f"judge_requests/{judge}/{cell}", judging.reading, [path(f"answers/{cell}"), engine], judge=judge)
