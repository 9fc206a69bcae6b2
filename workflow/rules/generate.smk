"""Generation: from prompts to answers.

Reads prompts/{split}.jsonl and engines/{engine}.json; writes requests/{model}/{split}.jsonl (what will be asked, with
the key of each request), responses into the store (one engine load per batch of cells) and answers/{model}/{split}.jsonl.
"""

from refusal_eval.engines.environment import engine_device, gpus_needed


def request_params(wildcards):
    """What of model and study enters a request."""
    entry = config["model_entries"][wildcards.model]
    return rendering_params(entry) | {
        "sampling": entry["sampling"],
        "samples": config["samples"],
        "seed": config["seed"],
    }


def request_template(wildcards):
    return template_file(config["model_entries"][wildcards.model])


def generation_requests(wildcards):
    return [f"{RESULTS}/requests/{cell.model}/{cell.split}.jsonl" for cell in GENERATION_BATCHES[wildcards.batch]]


def generation_receipts(wildcards):
    return receipts("generate", GENERATION_BATCHES, Cell(wildcards.model, wildcards.split))


def segment_params(wildcards):
    """What decides which part of a response is the answer."""
    entry = config["model_entries"][wildcards.model]
    trust = config["engine_entries"][entry["engine"]]["trust_remote_code"]
    return {"reasoning": entry["reasoning"], "trust_remote_code": trust}


def batch_engine(wildcards):
    """Name of the engine behind a batch: the second part of the batch's name."""
    return wildcards.batch.split("/")[1]


def batch_engine_file(wildcards):
    return engine_file(batch_engine(wildcards))


def batch_weights(wildcards):
    return weights_files(batch_engine(wildcards))


def batch_device(wildcards):
    return engine_device(config["engine_entries"][batch_engine(wildcards)], ROOT)


def execute_threads(wildcards):
    """All threads for a CPU engine, so that two never run at once; a few to feed GPUs."""
    return (workflow.cores or 4) if batch_device(wildcards) == "cpu" else 4


def execute_gpus(wildcards, input):
    """GPUs of one engine load; none when the store already has every response."""
    gpus = gpus_needed(config["engine_entries"][batch_engine(wildcards)], batch_device(wildcards))
    if gpus == 0:
        return 0
    from refusal_eval.execute import anything_missing

    return gpus if anything_missing(input.requests, STORE, int(wildcards.shard), config["shards"]) else 0


rule requests:
    """Render one cell's prompts to token ids; decide the key of every request."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        engine=model_engine,
        template=request_template,
    output:
        f"{RESULTS}/requests/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/requests/{{model}}/{{split}}.log",
    priority: 50
    localrule: True
    params:
        request=request_params,
        code=code_version("scripts/render_requests.py"),
    message:
        "Rendering requests of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/render_requests.py"


rule generate:
    """Execute what the store lacks of one batch's requests, with one engine load."""
    input:
        requests=generation_requests,
        engine=batch_engine_file,
        weights=batch_weights,
    output:
        f"{RESULTS}/receipts/generate/{{batch}}/{{shard}}.json",
    log:
        f"{LOGS}/generate/{{batch}}/{{shard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/generate/{{batch}}/{{shard}}.tsv"
    wildcard_constraints:
        batch=any_of(GENERATION_BATCHES),
    threads: execute_threads
    resources:
        gpu=execute_gpus,
    message:
        "Generating answers: {wildcards.batch}, shard {wildcards.shard}"
    script:
        "../../scripts/execute.py"


rule answers:
    """Turn one cell's stored responses into answers; runs again only when the cell's own requests changed."""
    input:
        requests=f"{RESULTS}/requests/{{model}}/{{split}}.jsonl",
        engine=ancient(model_engine),
        receipts=ancient(generation_receipts),
    output:
        f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/answers/{{model}}/{{split}}.log",
    localrule: True
    params:
        segments=segment_params,
        code=code_version("scripts/collect_answers.py"),
    message:
        "Collecting answers of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/collect_answers.py"
