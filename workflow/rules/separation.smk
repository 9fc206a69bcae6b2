"""Separation: how far apart two groups of prompts lie in the activations of models.

Reads activations/, prompts/ and, where groups are chosen by c(x), scores/; writes separation/{separation}.csv, and
separation/aqi/{separation}.csv where a study asks for it.
"""

from refusal_eval.features.separation import separation_jobs
from refusal_eval.workflow import activations_stage


rule separation:
    """Measure how far apart two groups of prompts lie in the activations of models, layer by layer."""
    input:
        lambda wildcards: separation_jobs.files_read(study, wildcards.separation),
    output:
        f"{RESULTS}/separation/{{separation}}.csv",
    log:
        f"{LOGS}/separation/{{separation}}.log",
    wildcard_constraints:
        separation=any_of(separation_jobs.separation_names(study)),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=lambda wildcards: activations_stage.megabytes(
            *separation_jobs.separation_files(study, wildcards.separation).values()
        ),
        runtime=240,
    params:
        separation=lambda wildcards: separation_jobs.separation_params(study, wildcards.separation),
        files=lambda wildcards: separation_jobs.separation_files(study, wildcards.separation),
        code=code_version(ROOT / "scripts" / "measure_separation.py"),
    message:
        "Measuring the separation {wildcards.separation}"
    script:
        "../../scripts/measure_separation.py"


rule aqi:
    """Compute AQI's composites of two groups of prompts in the activations of models."""
    input:
        lambda wildcards: separation_jobs.files_read(study, wildcards.separation),
    output:
        f"{RESULTS}/separation/aqi/{{separation}}.csv",
    log:
        f"{LOGS}/separation/aqi/{{separation}}.log",
    wildcard_constraints:
        separation=any_of(separation_jobs.separation_names(study, aqi=True)),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=lambda wildcards: activations_stage.megabytes(
            *separation_jobs.separation_files(study, wildcards.separation).values()
        ),
        runtime=720,
    params:
        aqi=lambda wildcards: separation_jobs.aqi_params(study, wildcards.separation),
        files=lambda wildcards: separation_jobs.separation_files(study, wildcards.separation),
        code=code_version(ROOT / "scripts" / "measure_aqi.py"),
    message:
        "Computing AQI's composites of {wildcards.separation}"
    script:
        "../../scripts/measure_aqi.py"
