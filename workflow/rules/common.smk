"""The validated study, the folders, and the functions that rules of more than one stage use."""

import re

from snakemake.exceptions import WorkflowError

from refusal_eval.code_version import code_version as library_version
from refusal_eval.config import ConfigError, load_study
from refusal_eval.plan import GOLD, Cell, batch_of, cpu_judges, generation_batches, judging_batches, llm_judges
from refusal_eval.study_folder import record_study, refuse_other_study

if len(workflow.overwrite_configfiles) > 1:
    raise WorkflowError("Give one --configfile: a study file is whole by itself and is never merged with another.")
STUDY_FILE = str(next(iter(workflow.overwrite_configfiles), ROOT / "config" / "config.yaml"))

try:
    validated = load_study(config, STUDY_FILE, str(ROOT))
    refuse_other_study(validated, STUDY_FILE)
except ConfigError as error:
    raise WorkflowError(str(error))
config.clear()
config.update(validated)

RESULTS = f"{config['results_dir']}/{config['study']}"
STORE = config["store_dir"]
CACHE = config["cache_dir"]
LOGS = f"{RESULTS}/logs"
GENERATION_BATCHES = generation_batches(config)
JUDGING_BATCHES = judging_batches(config)
CELLS = [Cell(model, split) for model in config["models"] for split in config["splits"]]


def any_of(names):
    """A wildcard constraint that matches exactly these names (nothing at all when there are none)."""
    return "|".join(re.escape(name) for name in names) or "(?!)"


def code_version(script):
    """Hash of the library modules that a script imports: Snakemake does not see imported code change."""
    return library_version(str(ROOT / script))


def engine_file(name):
    return f"{RESULTS}/engines/{name}.json"


def model_engine(wildcards):
    """Identity file of a model's engine."""
    return engine_file(config["model_entries"][wildcards.model]["engine"])


def judge_engine(wildcards):
    """Identity file of a judge's engine."""
    return engine_file(config["judge_entries"][wildcards.judge]["engine"])


def template_file(entry):
    """A model's or judge's own template file, as a list for `input`."""
    return [] if entry["template"] in ("default", "none") else [entry["template"]]


def rendering_params(entry):
    """What decides how messages become token ids."""
    engine = config["engine_entries"][entry["engine"]]
    names = ("system_prompt", "template", "template_options", "date")
    return {name: entry[name] for name in names} | {
        "trust_remote_code": engine["trust_remote_code"],
        "max_model_len": engine["max_model_len"],
        "determinism": config["determinism"],
    }


def receipts(stage, batches, cell):
    """Receipts of all shards of the batch that holds a cell."""
    batch = batch_of(batches, cell)
    return [f"{RESULTS}/receipts/{stage}/{batch}/{shard}.json" for shard in range(config["shards"])]


def begin_study():
    """Create the folders, private unless told otherwise, and note which file this study comes from."""
    record_study(config, STUDY_FILE)
