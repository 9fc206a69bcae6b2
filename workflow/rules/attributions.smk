"""Attributions: how much each word of a prompt contributes to a refusal.

Reads prompts/ and engines/; writes attribution_requests/{attribution}.jsonl, which the load of the model's answers executes
with the requests for these, and attributions/{attribution}.jsonl and .csv.
"""

from refusal_eval.features.attributions import attribution_stage
from refusal_eval.features.attributions.attribution_files import attributions_of

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
    output:
        f"{RESULTS}/attribution_requests/{{attribution}}.jsonl",
    log:
        f"{LOGS}/attribution_requests/{{attribution}}.log",
    wildcard_constraints:
        attribution=any_of(ATTRIBUTIONS),
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
        receipts=ancient(lambda wildcards: attribution_stage.receipts(study, wildcards.attribution)),
    output:
        rows=f"{RESULTS}/attributions/{{attribution}}.jsonl",
        table=f"{RESULTS}/attributions/{{attribution}}.csv",
    log:
        f"{LOGS}/attribution_values/{{attribution}}.log",
    wildcard_constraints:
        attribution=any_of(ATTRIBUTIONS),
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
