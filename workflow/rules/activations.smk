"""Activations and directions: from requests to a vector per layer.

Reads requests/{model}/{split}.jsonl (the token ids); writes activations/{positions}/{model}/{split}.safetensors (the
residual stream after decoder layers, computed once and kept in the store) and directions/{direction}.safetensors with
its card, directions/{direction}.json; directions/cosines.csv compares them; separation/{separation}.csv, and
separation/aqi/{separation}.csv where a study asks for it.
"""

from refusal_eval.workflow import activations_stage

DIRECTIONS = sorted(study.directions)
SEPARATIONS = sorted(entry.name for entry in study.settings.separation)
WITH_AQI = sorted(entry.name for entry in study.settings.separation if entry.aqi is not None)
FROM_ACTIVATIONS = [
    *collect(f"{RESULTS}/directions/{{direction}}.{{ending}}", direction=DIRECTIONS, ending=["safetensors", "json"]),
    *([f"{RESULTS}/directions/cosines.csv"] if len(DIRECTIONS) > 1 else []),
    *collect(f"{RESULTS}/separation/{{separation}}.csv", separation=SEPARATIONS),
    *collect(f"{RESULTS}/separation/aqi/{{separation}}.csv", separation=WITH_AQI),
]


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
    priority: 100  # steered models wait for it
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


rule direction:
    """Fit one direction on the activations of its two sides, or take it from the store."""
    input:
        lambda wildcards: [
            file
            for files in activations_stage.side_files(study, wildcards.direction).values()
            for file in files.values()
        ],
    output:
        f"{RESULTS}/directions/{{direction}}.safetensors",
        f"{RESULTS}/directions/{{direction}}.json",
    log:
        f"{LOGS}/direction/{{direction}}.log",
    wildcard_constraints:
        direction=any_of(DIRECTIONS),
    priority: 100
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=lambda wildcards: activations_stage.megabytes(activations_stage.side_files(study, wildcards.direction)),
        runtime=120,
    params:
        direction=lambda wildcards: activations_stage.direction_entry(study, wildcards.direction),
        files=lambda wildcards: activations_stage.side_files(study, wildcards.direction),
        code=code_version(ROOT / "scripts" / "fit_direction.py"),
    message:
        "Fitting the direction {wildcards.direction}"
    script:
        "../../scripts/fit_direction.py"


rule direction_cosines:
    """Compare the directions of the study with each other, layer by layer."""
    input:
        collect(f"{RESULTS}/directions/{{direction}}.safetensors", direction=DIRECTIONS),
    output:
        f"{RESULTS}/directions/cosines.csv",
    log:
        f"{LOGS}/direction_cosines.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        directions=DIRECTIONS,  # one that comes back may be older than the table
        code=code_version(ROOT / "scripts" / "compare_directions.py"),
    message:
        "Comparing directions"
    script:
        "../../scripts/compare_directions.py"


rule separation:
    """Measure how far apart two groups of prompts lie in the activations of models, layer by layer."""
    input:
        files_of_separation,
    output:
        f"{RESULTS}/separation/{{separation}}.csv",
    log:
        f"{LOGS}/separation/{{separation}}.log",
    wildcard_constraints:
        separation=any_of(SEPARATIONS),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=lambda wildcards: activations_stage.megabytes(
            *activations_stage.separation_files(study, wildcards.separation).values()
        ),
        runtime=240,
    params:
        separation=lambda wildcards: activations_stage.separation_params(study, wildcards.separation),
        files=lambda wildcards: activations_stage.separation_files(study, wildcards.separation),
        code=code_version(ROOT / "scripts" / "measure_separation.py"),
    message:
        "Measuring the separation {wildcards.separation}"
    script:
        "../../scripts/measure_separation.py"


rule aqi:
    """Compute AQI's composites of two groups of prompts in the activations of models."""
    input:
        files_of_separation,
    output:
        f"{RESULTS}/separation/aqi/{{separation}}.csv",
    log:
        f"{LOGS}/separation/aqi/{{separation}}.log",
    wildcard_constraints:
        separation=any_of(WITH_AQI),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=lambda wildcards: activations_stage.megabytes(
            *activations_stage.separation_files(study, wildcards.separation).values()
        ),
        runtime=720,
    params:
        aqi=lambda wildcards: activations_stage.aqi_params(study, wildcards.separation),
        files=lambda wildcards: activations_stage.separation_files(study, wildcards.separation),
        code=code_version(ROOT / "scripts" / "measure_aqi.py"),
    message:
        "Computing AQI's composites of {wildcards.separation}"
    script:
        "../../scripts/measure_aqi.py"
