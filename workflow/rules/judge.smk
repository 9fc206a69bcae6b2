"""Judging: from answers to verdicts.

Reads answers/{model}/{split}.jsonl; writes verdicts/{judge}/{model}/{split}.jsonl. Judges on CPU read the answers
directly; judges that are language models go the way of generation: requests, one engine load per batch, verdicts.
Gold answers are judged like those of a model named `gold`, and every judge gets a card from them.
"""

from refusal_eval.workflow import judging

MODEL_OR_GOLD = any_of([*config["models"], GOLD])
SPLIT_OR_GOLD = any_of([*config["splits"], *config["gold"]])


rule check_judge:
    """Check that a judge can be asked, before any GPU hour is spent: its labels, and the length of its rubric."""
    input:
        engine=judge_engine,
        rubric=lambda wildcards: judge_of(wildcards).files(),
        template=judge_template,
    output:
        f"{RESULTS}/judges/{{judge}}.json",
    log:
        f"{LOGS}/check_judge/{{judge}}.log",
    wildcard_constraints:
        judge=any_of(llm_judges(config)),
    priority: 100
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        asked=lambda wildcards: judging.asked(study, wildcards.judge),
        code=judge_code("check_judge.py"),
    message:
        "Checking judge {wildcards.judge}"
    script:
        "../../scripts/check_judge.py"


rule judge_requests:
    """Render a judge's prompts for one cell's answers."""
    input:
        prompts=judged_prompts,
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        engine=judge_engine,
        judge=f"{RESULTS}/judges/{{judge}}.json",
        rubric=lambda wildcards: judge_of(wildcards).files(),
        template=judge_template,
    output:
        f"{RESULTS}/judge_requests/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/judge_requests/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(llm_judges(config)),
        model=MODEL_OR_GOLD,
        split=SPLIT_OR_GOLD,
    priority: job_priority
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        asked=lambda wildcards: judging.asked(study, wildcards.judge),
        code=judge_code("render_judge_requests.py"),
    message:
        "Rendering what {wildcards.judge} is asked about {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/render_judge_requests.py"


rule judge:
    """Execute what the store lacks of one batch's verdict requests, with one engine load."""
    input:
        requests=lambda wildcards: [
            f"{RESULTS}/judge_requests/{cell.judge}/{cell.model}/{cell.split}.jsonl"
            for cell in study.judging_batches[wildcards.batch]
        ],
        engine=load_engine,
        weights=load_weights,
    output:
        f"{RESULTS}/receipts/judge/{{batch}}/{{load}}.json",
    log:
        f"{LOGS}/judge/{{batch}}/{{load}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/judge/{{batch}}/{{load}}.tsv"
    wildcard_constraints:
        batch=any_of(study.judging_batches),
    priority: job_priority
    conda:
        "../../envs/workflow.yaml"
    container:
        ENGINE_IMAGE
    threads: load_threads
