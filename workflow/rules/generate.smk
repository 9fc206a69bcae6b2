"""Generation: from prompts to answers.

Reads prompts/{split}.jsonl (or what a change of the model made of them) and engines/{engine}.json; writes
requests/{model}/{split}.jsonl (what will be asked, with the key of each request), responses into the store (one engine load per batch of cells) and answers/{model}/{split}.jsonl.
"""

from refusal_eval.workflow import generation
from refusal_eval.workflow.order import longest_first

ASKED_MODELS = any_of([name for name, model in study.every_model.items() if model.asks_engine])

job_priority = longest_first(study)


rule requests:
    """Render one cell's prompts to token ids; decide the key of every request."""
    input:
        unpack(lambda wildcards: generation.identity_files(study, wildcards.model)),
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        asked=lambda wildcards: generation.changed_prompts(study, wildcards.model, wildcards.split),
        engine=model_engine,
        template=lambda wildcards: generation.template_file(config["model_entries"][wildcards.model]),
    output:
        f"{RESULTS}/requests/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/requests/{{model}}/{{split}}.log",
    wildcard_constraints:
        model=ASKED_MODELS,
    priority: job_priority
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        request=lambda wildcards: generation.request_params(study, wildcards.model, wildcards.split),
        code=lambda wildcards: code_version(
            ROOT / "scripts" / "render_requests.py",
            *generation.changing_modules(study, wildcards.model),
            *scoring.protocol_code(study),
        ),
    message:
        "Rendering requests of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/render_requests.py"


rule generate:
    """Execute what the store lacks of one batch's requests, with one engine load."""
    input:
        unpack(lambda wildcards: generation.loaded_files(study, wildcards.batch)),
        requests=lambda wildcards: [study.request_file(cell) for cell in study.generation_batches[wildcards.batch]],
        engine=load_engine,
        weights=load_weights,
    output:
        f"{RESULTS}/receipts/generate/{{batch}}/{{load}}.json",
    log:
        f"{LOGS}/generate/{{batch}}/{{load}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/generate/{{batch}}/{{load}}.tsv"
    wildcard_constraints:
        batch=any_of(execution_stage.batches(study, study.generation_batches, elsewhere=False)),
    priority: job_priority
    conda:
        "../../envs/workflow.yaml"
    container:
        ENGINE_IMAGE
    threads: load_threads
    resources:
        gpu=load_gpus,
        nodes=load_nodes,
        gpu_model=load_gpu_model,
        slurm_partition=load_partition,
        slurm_extra=load_options,
        # Only a person who runs again may take the answers of a gate that nothing passed: `--retries` may not.
        attempt=lambda wildcards, attempt: attempt,
    params:
        # A receipt keeps its name when cells come and go, and may be newer than the requests of one that comes back.
        cells=lambda wildcards: [str(cell) for cell in study.generation_batches[wildcards.batch]],
    message:
        "Generating answers: {wildcards.batch}, load {wildcards.load}"
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
    wildcard_constraints:
        model=ASKED_MODELS,
    priority: job_priority
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        segments=lambda wildcards: generation.segments(study, wildcards.model),
        code=code_version(ROOT / "scripts" / "collect_answers.py"),
    message:
        "Collecting answers of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/collect_answers.py"
