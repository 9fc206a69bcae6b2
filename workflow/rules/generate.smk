"""Generation: from prompts to answers.

Reads prompts/{split}.jsonl and engines/{engine}.json; writes requests/{model}/{split}.jsonl (what will be asked, with
the key of each request), responses into the store (one engine load per batch of cells) and answers/{model}/{split}.jsonl.
"""

from refusal_eval.workflow.order import longest_first

job_priority = longest_first(config)


rule requests:
    """Render one cell's prompts to token ids; decide the key of every request."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        engine=generation.engine,
        template=generation.template,
        adapter=generation.adapter,
    output:
        f"{RESULTS}/requests/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/requests/{{model}}/{{split}}.log",
    wildcard_constraints:
        model=any_of(generation.models),
    priority: job_priority
    localrule: True
    params:
        request=generation.request_params,
        code=code_version(ROOT / "scripts" / "render_requests.py"),
    message:
        "Rendering requests of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/render_requests.py"


rule generate:
    """Execute what the store lacks of one batch's requests, with one engine load."""
    input:
        requests=generation.requests,
        engine=execution.engine,
        weights=execution.weights,
        adapters=generation.adapters,
    output:
        f"{RESULTS}/receipts/generate/{{batch}}/{{load}}.json",
    log:
        f"{LOGS}/generate/{{batch}}/{{load}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/generate/{{batch}}/{{load}}.tsv"
    wildcard_constraints:
        batch=any_of(generation.batches),
    priority: job_priority
    threads: execution.threads
    resources:
        gpu=execution.gpus,
        nodes=execution.nodes,
        gpu_model=placement.gpu_model,
        slurm_partition=placement.partition,
        slurm_extra=placement.options,
    message:
        "Generating answers: {wildcards.batch}, load {wildcards.load}"
    script:
        "../../scripts/execute.py"


rule answers:
    """Turn one cell's stored responses into answers; runs again only when the cell's own requests changed."""
    input:
        requests=f"{RESULTS}/requests/{{model}}/{{split}}.jsonl",
        engine=ancient(generation.engine),
        receipts=ancient(generation.receipts),
    output:
        f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/answers/{{model}}/{{split}}.log",
    wildcard_constraints:
        model=any_of(generation.models),
    priority: job_priority
    localrule: True
    params:
        segments=generation.segments,
        code=code_version(ROOT / "scripts" / "collect_answers.py"),
    message:
        "Collecting answers of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/collect_answers.py"
