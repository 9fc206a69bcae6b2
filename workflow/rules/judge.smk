"""Judging: from answers to verdicts.

Reads answers/{model}/{split}.jsonl; writes verdicts/{judge}/{model}/{split}.jsonl. Judges on CPU read the answers
directly; judges that are language models go the way of generation: requests, one engine load per batch, verdicts.
Gold answers are judged like those of a model named `gold`, and every judge gets a card from them.
"""

MODEL_OR_GOLD = any_of([*config["models"], GOLD])
SPLIT_OR_GOLD = any_of([*config["splits"], *config["gold"]])


rule check_judge:
    """Check that a judge can be asked, before any GPU hour is spent: its labels, and the length of its rubric."""
    input:
        engine=judging.engine,
        rubric=judging.rubric,
        template=judging.template,
    output:
        f"{RESULTS}/judges/{{judge}}.json",
    log:
        f"{LOGS}/check_judge/{{judge}}.log",
    wildcard_constraints:
        judge=any_of(llm_judges(config)),
    priority: 100
    localrule: True
    params:
        reading=judging.reading,
        code=code_version(ROOT / "scripts" / "check_judge.py"),
    message:
        "Checking judge {wildcards.judge}"
    script:
        "../../scripts/check_judge.py"


rule judge_requests:
    """Render a judge's prompts for one cell's answers."""
    input:
        prompts=judging.prompts,
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        engine=judging.engine,
        judge=f"{RESULTS}/judges/{{judge}}.json",
        rubric=judging.rubric,
        template=judging.template,
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
    params:
        reading=judging.reading,
        code=code_version(ROOT / "scripts" / "render_judge_requests.py"),
    message:
        "Rendering what {wildcards.judge} is asked about {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/render_judge_requests.py"


rule judge:
    """Execute what the store lacks of one batch's verdict requests, with one engine load."""
    input:
        requests=judging.requests,
        engine=execution.engine,
        weights=execution.weights,
    output:
        f"{RESULTS}/receipts/judge/{{batch}}/{{load}}.json",
    log:
        f"{LOGS}/judge/{{batch}}/{{load}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/judge/{{batch}}/{{load}}.tsv"
    wildcard_constraints:
        batch=any_of(judging.batches),
    priority: job_priority
    threads: execution.threads
    resources:
        gpu=execution.gpus,
        nodes=execution.nodes,
        gpu_model=placement.gpu_model,
        slurm_partition=placement.partition,
        slurm_extra=placement.options,
    message:
        "Judging answers: {wildcards.batch}, load {wildcards.load}"
    script:
        "../../scripts/execute.py"


rule llm_verdicts:
    """Turn a judge's stored responses into the verdicts on one cell."""
    input:
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        requests=f"{RESULTS}/judge_requests/{{judge}}/{{model}}/{{split}}.jsonl",
        engine=ancient(judging.engine),
        judge=f"{RESULTS}/judges/{{judge}}.json",
        calibration=judging.calibration,
        receipts=ancient(judging.receipts),
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
        decision=judging.decision,
        code=code_version(ROOT / "scripts" / "collect_verdicts.py"),
    message:
        "Collecting verdicts of {wildcards.judge} on {wildcards.model}, {wildcards.split}"
    script:
        "../../scripts/collect_verdicts.py"


rule cpu_verdicts:
    """Judge one cell's answers by keyword lists or by the user's own function."""
    input:
        prompts=judging.prompts,
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        files=judging.cpu_judge_files,
        model=judging.trained_model,
        unseen=judging.unseen,
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
        judge=judging.cpu_judge,
        code=code_version(ROOT / "scripts" / "judge_on_cpu.py"),
    message:
        "Judging {wildcards.model} on {wildcards.split} by {wildcards.judge}"
    script:
        "../../scripts/judge_on_cpu.py"


rule train_judge:
    """Fit a judge on gold, and judge each gold row by a model that has not seen its like."""
    input:
        gold=judging.training_gold,
        files=judging.cpu_judge_files,
    output:
        model=f"{RESULTS}/judges/{{judge}}/model.npz",
        verdicts=f"{RESULTS}/judges/{{judge}}/out_of_fold.jsonl",
    log:
        f"{LOGS}/train_judge/{{judge}}.log",
    wildcard_constraints:
        judge=any_of(trained_judges(config)),
    localrule: True
    threads: 1
    params:
        judge=judging.cpu_judge,
        code=code_version(ROOT / "scripts" / "train_judge.py"),
    message:
        "Fitting judge {wildcards.judge}"
    script:
        "../../scripts/train_judge.py"


rule panel_verdicts:
    """Put together what several judges said about one cell's answers."""
    input:
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        verdicts=judging.members,
    output:
        f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/verdicts/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(panel_judges(config)),
        model=MODEL_OR_GOLD,
        split=SPLIT_OR_GOLD,
    localrule: True
    params:
        panel=judging.panel,
        code=code_version(ROOT / "scripts" / "panel_verdicts.py"),
    message:
        "Putting together the verdicts of {wildcards.judge} on {wildcards.model}, {wildcards.split}"
    script:
        "../../scripts/panel_verdicts.py"
