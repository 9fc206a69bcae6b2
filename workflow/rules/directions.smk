"""Directions: a vector per layer from activations of two sides, and how alike those of a study are.

Reads activations/, prompts/ and, where sides are chosen by c(x), scores/; writes directions/{direction}.safetensors
with its card, directions/{direction}.json, and directions/cosines.csv.
"""

from refusal_eval.features.steering import direction_jobs
from refusal_eval.workflow import activations_stage

DIRECTIONS = sorted(study.listed("directions"))


rule direction:
    """Fit one direction on the activations of its two sides, or take it from the store."""
    input:
        lambda wildcards: direction_jobs.files_read(study, wildcards.direction),
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
        mem_mb=lambda wildcards: activations_stage.megabytes(direction_jobs.side_files(study, wildcards.direction)),
        runtime=120,
    params:
        direction=lambda wildcards: direction_jobs.direction_entry(study, wildcards.direction),
        files=lambda wildcards: direction_jobs.side_files(study, wildcards.direction),
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
