"""Judging: from answers to verdicts.

Reads answers/{model}/{split}.jsonl; writes verdicts/{judge}/{model}/{split}.jsonl. Judges on CPU read the answers
directly; judges that are language models go the way of generation: requests, one engine load per batch, verdicts.
Gold answers are judged like those of a model named `gold`, and every judge gets a card from them.
"""

MODEL_OR_GOLD = any_of([*config["models"], GOLD])
SPLIT_OR_GOLD = any_of([*config["splits"], *config["gold"]])


def judged_prompts(wildcards):
    folder = "gold" if wildcards.model == GOLD else "prompts"
    return f"{RESULTS}/{folder}/{wildcards.split}.jsonl"


def judge_rubric(wildcards):
    return config["judge_entries"][wildcards.judge]["rubric"]


def judge_template(wildcards):
    return template_file(config["judge_entries"][wildcards.judge])


def reading_params(wildcards):
    """What decides what a judge is asked."""
    entry = config["judge_entries"][wildcards.judge]
    return rendering_params(entry) | {"labels": entry["labels"], "rubric": entry["rubric"]}


def decision_params(wildcards):
    """What turns label probabilities into a verdict."""
    entry = config["judge_entries"][wildcards.judge]
    return {"threshold": entry["threshold"], "mass_floor": entry["mass_floor"]}


def cpu_judge_params(wildcards):
    entry = config["judge_entries"][wildcards.judge]
    return {key: value for key, value in entry.items() if key != "label"}


def cpu_judge_files(wildcards):
    entry = config["judge_entries"][wildcards.judge]
    return entry["lists"] if entry["kind"] == "keyword" else [entry["file"]]


def judging_requests(wildcards):
    cells = JUDGING_BATCHES[wildcards.batch]
    return [f"{RESULTS}/judge_requests/{cell.judge}/{cell.model}/{cell.split}.jsonl" for cell in cells]


def judging_receipts(wildcards):
    return receipts("judge", JUDGING_BATCHES, Cell(wildcards.model, wildcards.split, wildcards.judge))


rule check_judge:
    """Check that a judge's labels are single tokens that can follow its prompt, before any GPU hour is spent."""
    input:
        engine=judge_engine,
        rubric=judge_rubric,
        template=judge_template,
    output:
        f"{RESULTS}/judges/{{judge}}.json",
    log:
        f"{LOGS}/check_judge/{{judge}}.log",
    wildcard_constraints:
        judge=any_of(llm_judges(config)),
    priority: 100
    localrule: True
    params:
        reading=reading_params,
        code=code_version("scripts/check_judge.py"),
    message:
        "Checking the labels of judge {wildcards.judge}"
    script:
        "../../scripts/check_judge.py"


rule judge_requests:
    """Render a judge's prompts for one cell's answers."""
    input:
        prompts=judged_prompts,
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        engine=judge_engine,
        judge=f"{RESULTS}/judges/{{judge}}.json",
        rubric=judge_rubric,
        template=judge_template,
    output:
        f"{RESULTS}/judge_requests/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/judge_requests/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(llm_judges(config)),
        model=MODEL_OR_GOLD,
        split=SPLIT_OR_GOLD,
    priority: 50
    localrule: True
    params:
        reading=reading_params,
        code=code_version("scripts/render_judge_requests.py"),
    message:
        "Rendering what {wildcards.judge} is asked about {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/render_judge_requests.py"


rule judge:
    """Execute what the store lacks of one batch's verdict requests, with one engine load."""
    input:
        requests=judging_requests,
        engine=batch_engine_file,
        weights=batch_weights,
    output:
        f"{RESULTS}/receipts/judge/{{batch}}/{{shard}}.json",
    log:
        f"{LOGS}/judge/{{batch}}/{{shard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/judge/{{batch}}/{{shard}}.tsv"
    wildcard_constraints:
        batch=any_of(JUDGING_BATCHES),
    threads: execute_threads
    resources:
        gpu=execute_gpus,
    message:
        "Judging answers: {wildcards.batch}, shard {wildcards.shard}"
    script:
        "../../scripts/execute.py"


rule llm_verdicts:
    """Turn a judge's stored responses into the verdicts on one cell."""
    input:
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        requests=f"{RESULTS}/judge_requests/{{judge}}/{{model}}/{{split}}.jsonl",
        judge=f"{RESULTS}/judges/{{judge}}.json",
        receipts=ancient(judging_receipts),
    output:
        f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/verdicts/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(llm_judges(config)),
        model=MODEL_OR_GOLD,
        split=SPLIT_OR_GOLD,
    localrule: True
    params:
        decision=decision_params,
        code=code_version("scripts/collect_verdicts.py"),
    message:
        "Collecting verdicts of {wildcards.judge} on {wildcards.model}, {wildcards.split}"
    script:
        "../../scripts/collect_verdicts.py"


rule cpu_verdicts:
    """Judge one cell's answers by keyword lists or by the user's own function."""
    input:
        prompts=judged_prompts,
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        files=cpu_judge_files,
    output:
        f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/verdicts/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(cpu_judges(config)),
        model=MODEL_OR_GOLD,
        split=SPLIT_OR_GOLD,
    localrule: True
    params:
        judge=cpu_judge_params,
        code=code_version("scripts/judge_on_cpu.py"),
    message:
        "Judging {wildcards.model} on {wildcards.split} by {wildcards.judge}"
    script:
        "../../scripts/judge_on_cpu.py"
