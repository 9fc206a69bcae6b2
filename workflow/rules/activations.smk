"""Activations: the residual stream of a model on a split, after decoder layers.

Reads requests/{model}/{split}.jsonl (the token ids); writes activations/{positions}/{model}/{split}.safetensors, which
is computed once and kept in the store.
"""

from refusal_eval.workflow import activations_stage


rule activations:
    """Capture what the store lacks of one cell's activations, in the engine environment."""
    input:
        unpack(lambda wildcards: generation.identity_files(study, wildcards.model)),
        requests=f"{RESULTS}/requests/{{model}}/{{split}}.jsonl",
        answers=read_answers,
        engine=model_engine,
        weights=lambda wildcards: weights_stage.weights_files(study, study.models[wildcards.model].engine),
    output:
        f"{RESULTS}/activations/{{positions}}/{{model}}/{{split}}.safetensors",
    log:
        f"{LOGS}/activations/{{positions}}/{{model}}/{{split}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/activations/{{positions}}/{{model}}/{{split}}.tsv"
    wildcard_constraints:
        model=ASKED_MODELS,
        positions=r"last_prompt_token|answer_mean|prompt_token-\d+",
    priority: 100  # requests of other models may wait for what is made from it
    conda:
        "../../envs/workflow.yaml"
    container:
        ENGINE_IMAGE
    threads: capture_threads
    resources:
        gpu=capture_gpus,
        gpu_model=lambda wildcards, input: cluster.gpu_model(workflow, capture_gpus(wildcards, input)),
        slurm_partition=lambda wildcards, input: cluster.partition(workflow, capture_gpus(wildcards, input)),
        slurm_extra=load_options,
    params:
        layers=lambda wildcards: activations_stage.layers(study, wildcards.positions, wildcards.model, wildcards.split),
        highest=lambda wildcards: activations_stage.highest_layer(study, wildcards.model),
        # Both are run by their paths, in the engine environment; what the store has is not computed again.
        code=lambda wildcards: code_version(
            ROOT / "scripts" / "capture_activations.py",
            *generation.changing_modules(study, wildcards.model, code="load_code"),
            ROOT / "scripts" / "refusal_eval" / "activations" / "capture_program.py",
            ROOT / "scripts" / "refusal_eval" / "engines" / "first_calls.py",
            ROOT / "scripts" / "refusal_eval" / "engines" / "vllm_worker" / "steered_stream.py",
        ),
    message:
        "Capturing activations of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/capture_activations.py"
