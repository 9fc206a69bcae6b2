"""Interventions: directions and what a steered model does with them, compiled into the file that its engine reads.

Reads directions/{direction}.safetensors of each with its card and the `intervention` of `model_entries`; writes interventions/{model}.safetensors
and its card, with the hash that is in the key of the model's requests.
"""

from refusal_eval.features.steering.steering_files import steered_models


rule intervention:
    """Compile a model's intervention; refuse one that was made for another model."""
    input:
        direction=lambda wildcards: [
            f"{RESULTS}/directions/{name}.safetensors"
            for name in study.every_model[wildcards.model].intervention.directions
        ],
        direction_card=lambda wildcards: [
            f"{RESULTS}/directions/{name}.json" for name in study.every_model[wildcards.model].intervention.directions
        ],
        engine=model_engine,
    output:
        file=f"{RESULTS}/interventions/{{model}}.safetensors",
        card=f"{RESULTS}/interventions/{{model}}.json",
    log:
        f"{LOGS}/intervention/{{model}}.log",
    wildcard_constraints:
        model=any_of(steered_models(study)),
    priority: 100
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        engine=lambda wildcards: study.every_model[wildcards.model].engine,  # its identity file may be older than the output
        asked=lambda wildcards: study.every_model[wildcards.model].intervention.model_dump(mode="json"),
        code=code_version(ROOT / "scripts" / "compile_intervention.py"),
    message:
        "Compiling the intervention of {wildcards.model}"
    script:
        "../../scripts/compile_intervention.py"
