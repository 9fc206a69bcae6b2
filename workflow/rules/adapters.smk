"""LoRA adapters: at a locked revision, what identifies each, and whether it fits its engine's weights.

Reads the `lora` of `model_entries`. Writes <cache>/hub/, <cache>/adapters/ (a manifest stands for a whole copy) and
adapters/.
"""

from refusal_eval.features.lora import adapter_files
from refusal_eval.workflow import generation


rule fetch_adapter:
    """Fetch a LoRA adapter from the hub."""
    output:
        manifest=f"{CACHE}/adapters/{{adapter}}/adapter.json",
    log:
        f"{LOGS}/fetch_adapter/{{adapter}}.log",
    wildcard_constraints:
        adapter=folder_not_there(generation.fetched_changes(study)),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=240,
    params:
        source=lambda wildcards: study.fetched("models")[wildcards.adapter].model_dump(mode="json"),
    message:
        "Fetching the adapter in {output}"
    script:
        "../../scripts/fetch_adapter.py"


rule identify_adapter:
    """Write down what identifies a model's LoRA adapter, and where its files lie; refuse what cannot be served."""
    input:
        lambda wildcards: adapter_files.adapter_files(study, wildcards.model),
    output:
        f"{RESULTS}/adapters/{{model}}.json",
    log:
        f"{LOGS}/identify_adapter/{{model}}.log",
    priority: 100
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    params:
        adapter=lambda wildcards: adapter_files.identified_adapter(study, wildcards.model),
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
        weights=lambda wildcards: weights_stage.weights_files(study, study.every_model[wildcards.model].engine),
    output:
        f"{RESULTS}/adapters/checked/{{model}}.json",
    log:
        f"{LOGS}/check_adapter/{{model}}.log",
    priority: 100
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    params:
        weights=lambda wildcards: study.engines[study.every_model[wildcards.model].engine].weights.model_dump(
            mode="json"
        ),
        code=code_version(ROOT / "scripts" / "check_adapter.py"),
    message:
        "Checking that the adapter of {wildcards.model} fits its engine"
    script:
        "../../scripts/check_adapter.py"
