"""Attributions: how much each word of a prompt contributes to a refusal.

Reads prompts/ and engines/; writes attribution_requests/{attribution}.jsonl, which the load of the model's answers executes
with the requests for these, and attributions/{attribution}.jsonl and .csv. Methods that take gradients have
gradients/{attribution}/items.json in place of requests, and receipts of the jobs that compute them.
"""

from refusal_eval.features.attributions import attribution_stage
from refusal_eval.features.attributions.attribution_files import asking, attributions_of, computing

ATTRIBUTIONS = attributions_of(study)


rule attribution_requests:
    """Render each prompt, whole and without each word; decide which tokens begin a refusal, and the key of every request."""
    input:
        prompts=lambda wildcards: paths.of("prompts", split=ATTRIBUTIONS[wildcards.attribution].split),
        engine=lambda wildcards: paths.of(
            "engines", engine=study.models[ATTRIBUTIONS[wildcards.attribution].model].engine_name
        ),
        template=lambda wildcards: generation.template_file(
            config["model_entries"][ATTRIBUTIONS[wildcards.attribution].model]
        ),
        gold=lambda wildcards: attribution_stage.gold_files(study, wildcards.attribution),
        answers=lambda wildcards: attribution_stage.answers(study, wildcards.attribution),
    output:
        f"{RESULTS}/attribution_requests/{{attribution}}.jsonl",
    log:
        f"{LOGS}/attribution_requests/{{attribution}}.log",
    wildcard_constraints:
        attribution=any_of(asking(study)),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        request=lambda wildcards: attribution_stage.request_params(study, wildcards.attribution),
        code=code_version(ROOT / "scripts" / "render_attribution_requests.py"),
    message:
        "Rendering requests for attribution {wildcards.attribution}"
    script:
        "../../scripts/render_attribution_requests.py"


rule attribution_values:
    """Turn what the model answered into a value for each word."""
    input:
        requests=f"{RESULTS}/attribution_requests/{{attribution}}.jsonl",
        prompts=lambda wildcards: paths.of("prompts", split=ATTRIBUTIONS[wildcards.attribution].split),
        answers=lambda wildcards: attribution_stage.answers(study, wildcards.attribution),
        receipts=ancient(lambda wildcards: attribution_stage.receipts(study, wildcards.attribution)),
    output:
        rows=f"{RESULTS}/attributions/{{attribution}}.jsonl",
        table=f"{RESULTS}/attributions/{{attribution}}.csv",
    log:
        f"{LOGS}/attribution_values/{{attribution}}.log",
    wildcard_constraints:
        attribution=any_of(asking(study)),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        how=lambda wildcards: attribution_stage.value_params(study, wildcards.attribution),
        code=code_version(ROOT / "scripts" / "collect_attributions.py"),
    message:
        "Collecting the values of attribution {wildcards.attribution}"
    script:
        "../../scripts/collect_attributions.py"


rule gradient_items:
    """Render each prompt; find its own tokens and those of each word, and make the key of its gradients."""
    input:
        prompts=lambda wildcards: paths.of("prompts", split=ATTRIBUTIONS[wildcards.attribution].split),
        engine=lambda wildcards: paths.of("engines", engine=attribution_stage.engine_name(study, wildcards.attribution)),
        template=lambda wildcards: generation.template_file(
            config["model_entries"][ATTRIBUTIONS[wildcards.attribution].model]
        ),
        gold=lambda wildcards: attribution_stage.gold_files(study, wildcards.attribution),
        answers=lambda wildcards: attribution_stage.answers(study, wildcards.attribution),
        direction=lambda wildcards: attribution_stage.directions(study, wildcards.attribution),
    output:
        f"{RESULTS}/gradients/{{attribution}}/items.json",
    log:
        f"{LOGS}/gradient_items/{{attribution}}.log",
    wildcard_constraints:
        attribution=any_of(computing(study)),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        asked=lambda wildcards: attribution_stage.gradient_params(study, wildcards.attribution),
        code=code_version(ROOT / "scripts" / "make_gradient_items.py"),
    message:
        "Preparing the gradients of attribution {wildcards.attribution}"
    script:
        "../../scripts/make_gradient_items.py"


rule gradients:
    """Compute the gradients that the store lacks, in the engine environment."""
    input:
        items_file=f"{RESULTS}/gradients/{{attribution}}/items.json",
        engine=lambda wildcards: paths.of("engines", engine=attribution_stage.engine_name(study, wildcards.attribution)),
        weights=lambda wildcards: weights_stage.weights_files(
            study, attribution_stage.engine_name(study, wildcards.attribution)
        ),
    output:
        f"{RESULTS}/gradients/{{attribution}}/receipts/{{load}}.json",
    log:
        f"{LOGS}/gradients/{{attribution}}/{{load}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/gradients/{{attribution}}/{{load}}.tsv"
    wildcard_constraints:
        attribution=any_of(computing(study)),
    conda:
        "../../envs/workflow.yaml"
    container:
        ENGINE_IMAGE
    threads: lambda wildcards: threads_of(attribution_stage.engine_name(study, wildcards.attribution))
    resources:
        gpu=lambda wildcards, input: attribution_stage.gpus(study, wildcards.attribution, ROOT, input.items_file),
        gpu_model=lambda wildcards, input: cluster.gpu_model(
            workflow, attribution_stage.gpus(study, wildcards.attribution, ROOT, input.items_file)
        ),
        slurm_partition=lambda wildcards, input: cluster.partition(
            workflow, attribution_stage.gpus(study, wildcards.attribution, ROOT, input.items_file)
        ),
        slurm_extra=load_options,
    params:
        # Run by their paths, in the engine environment; what the store has is not computed again.
        code=code_version(
            ROOT / "scripts" / "compute_gradients.py",
            ROOT / "scripts" / "refusal_eval" / "features" / "attributions" / "gradient_program.py",
            ROOT / "scripts" / "refusal_eval" / "activations" / "capture_program.py",
            ROOT / "scripts" / "refusal_eval" / "engines" / "first_calls.py",
        ),
    message:
        "Computing the gradients of attribution {wildcards.attribution}"
    script:
        "../../scripts/compute_gradients.py"


rule gradient_values:
    """Sum the gradients over the tokens of each word."""
    input:
        items_file=f"{RESULTS}/gradients/{{attribution}}/items.json",
        prompts=lambda wildcards: paths.of("prompts", split=ATTRIBUTIONS[wildcards.attribution].split),
        receipts=lambda wildcards: attribution_stage.gradient_receipts(study, wildcards.attribution),
    output:
        rows=f"{RESULTS}/attributions/{{attribution}}.jsonl",
        table=f"{RESULTS}/attributions/{{attribution}}.csv",
    log:
        f"{LOGS}/attribution_values/{{attribution}}.log",
    wildcard_constraints:
        attribution=any_of(computing(study)),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        how=lambda wildcards: attribution_stage.value_params(study, wildcards.attribution),
        code=code_version(ROOT / "scripts" / "collect_gradients.py"),
    message:
        "Summing the gradients of attribution {wildcards.attribution}"
    script:
        "../../scripts/collect_gradients.py"
