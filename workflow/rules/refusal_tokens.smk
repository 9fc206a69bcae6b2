"""Refusal tokens: how probable each token is at the beginning of a model's reply.

Reads prompts/ and engines/; writes token_requests/{model}/{split}.jsonl, which the loads of the model's branches execute
with the requests for their answers, and token_probabilities/{model}/{split}.jsonl.
"""

from refusal_eval.features.refusal_tokens import token_stage
from refusal_eval.features.refusal_tokens.token_files import token_families

TOKEN_FAMILIES = any_of(token_families(study))


rule token_requests:
    """Render the prompts without a branch's token; decide which token each text is, and the key of every request."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        engine=lambda wildcards: paths.of("engines", engine=token_stage.engine_of_family(study, wildcards.model)),
        template=lambda wildcards: generation.template_file(
            config["model_entries"][token_stage.first_branch(study, wildcards.model)]
        ),
    output:
        f"{RESULTS}/token_requests/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/token_requests/{{model}}/{{split}}.log",
    wildcard_constraints:
        model=TOKEN_FAMILIES,
    priority: job_priority
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        request=lambda wildcards: token_stage.request_params(study, wildcards.model, wildcards.split),
        code=code_version(ROOT / "scripts" / "render_token_requests.py"),
    message:
        "Rendering requests for the tokens of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/render_token_requests.py"


rule token_probabilities:
    """Collect the probabilities of a model's refusal tokens behind each prompt."""
    input:
        requests=f"{RESULTS}/token_requests/{{model}}/{{split}}.jsonl",
        receipts=ancient(generation_receipts),
    output:
        f"{RESULTS}/token_probabilities/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/token_probabilities/{{model}}/{{split}}.log",
    wildcard_constraints:
        model=TOKEN_FAMILIES,
    priority: job_priority
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        tokens=lambda wildcards: list(token_stage.tokens_of_family(study, wildcards.model)),
        code=code_version(ROOT / "scripts" / "collect_token_probabilities.py"),
    message:
        "Collecting the tokens of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/collect_token_probabilities.py"
