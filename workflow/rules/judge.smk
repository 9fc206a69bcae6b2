"""Judging: from answers to verdicts.

Reads answers/{model}/{split}.jsonl; writes verdicts/{judge}/{model}/{split}.jsonl. Judges on CPU read the answers
directly; judges that are language models go the way of generation: requests, one engine load per batch, verdicts.
Gold answers are judged like those of a model named `gold`, and every judge gets a card from them.
"""

from refusal_eval.workflow import judging

MODEL_OR_GOLD = any_of([*study.every_model, GOLD])
SPLIT_OR_GOLD = any_of([*config["split_entries"], *config["gold"]])


rule check_judge:
    """Check that a judge can be asked, before any GPU hour is spent: its labels, and the length of its rubric."""
    input:
        engine=judge_engine,
        rubric=lambda wildcards: asked_judge(wildcards).files(),
        template=judge_template,
        gold=gold_read,
        answers=lambda wildcards: of_refusals_read(wildcards, "answers"),
        verdicts=lambda wildcards: of_refusals_read(wildcards, "verdicts"),
    output:
        f"{RESULTS}/judges/{{judge}}.json",
    log:
        f"{LOGS}/check_judge/{{judge}}.log",
    wildcard_constraints:
        judge=any_of(study.engine_judges),
    priority: 100
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        asked=lambda wildcards: judging.checking(study, wildcards.judge),
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
        said=verdicts_read,
        rubric=lambda wildcards: asked_judge(wildcards).files(),
        template=judge_template,
    output:
        f"{RESULTS}/judge_requests/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/judge_requests/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(study.engine_judges),
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
        asked=lambda wildcards: judging.asked(study, wildcards.judge) | turns_judged(wildcards),
        code=judge_code("render_judge_requests.py"),
    message:
        "Rendering requests to judge {wildcards.judge} about {wildcards.model} on {wildcards.split}"
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
        batch=any_of(execution_stage.batches(study, study.judging_batches, elsewhere=False)),
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
    params:
        # A receipt keeps its name when cells come and go, and may be newer than the requests of one that comes back.
        cells=lambda wildcards: [str(cell) for cell in study.judging_batches[wildcards.batch]],
    message:
        "Judging answers: {wildcards.batch}, load {wildcards.load}"
    script:
        "../../scripts/execute.py"


rule llm_verdicts:
    """Turn a judge's stored responses into the verdicts on one cell."""
    input:
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        requests=f"{RESULTS}/judge_requests/{{judge}}/{{model}}/{{split}}.jsonl",
        engine=ancient(judge_engine),
        judge=f"{RESULTS}/judges/{{judge}}.json",
        said=verdicts_read,
        calibration=calibration_of,
        model=fitted_model,
        unseen=unseen_verdicts,
        receipts=ancient(
            lambda wildcards: paths.receipts(
                "judge", study.batch_of[Cell(wildcards.model, wildcards.split, wildcards.judge)]
            )
        ),
    output:
        f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/verdicts/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(study.engine_judges),
        model=MODEL_OR_GOLD,
        split=SPLIT_OR_GOLD,
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        judge=lambda wildcards: judging.reading(study, wildcards.judge, wildcards.model) | turns_judged(wildcards),
        code=judge_code("collect_verdicts.py"),
    message:
        "Collecting verdicts of {wildcards.judge} on {wildcards.model}, {wildcards.split}"
    script:
        "../../scripts/collect_verdicts.py"


rule cpu_verdicts:
    """Judge one cell's answers by what they say: keyword lists, a fitted judge of words, the user's own function."""
    input:
        prompts=judged_prompts,
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        files=lambda wildcards: judge_of(wildcards).files(),
        model=fitted_model,
        unseen=unseen_verdicts,
        calibration=calibration_of,
    output:
        f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/verdicts/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(study.judges_by("answers")),
        model=MODEL_OR_GOLD,
        split=SPLIT_OR_GOLD,
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        judge=lambda wildcards: (
            judging.judging_answers(study, wildcards.judge, wildcards.model) | turns_judged(wildcards)
        ),
        code=judge_code("judge_on_cpu.py"),
    message:
        "Judging {wildcards.model} on {wildcards.split} by {wildcards.judge}"
    script:
        "../../scripts/judge_on_cpu.py"


rule train_judge:
    """Fit a judge on gold, and judge each gold row by a model that has not seen its like."""
    input:
        gold=lambda wildcards: collect(f"{RESULTS}/gold/{{gold}}.jsonl", gold=judge_of(wildcards).gold_to_fit()),
        # Other gold of the study may have the same prompts.
        others=lambda wildcards: collect(
            f"{RESULTS}/gold/{{gold}}.jsonl",
            gold=[gold for gold in config["gold"] if gold not in judge_of(wildcards).gold_to_fit()],
        ),
        requests=gold_requests,
        receipts=ancient(gold_receipts),
        files=lambda wildcards: judge_of(wildcards).files(),
    output:
        model=f"{RESULTS}/judges/{{judge}}/model.json",
        verdicts=f"{RESULTS}/judges/{{judge}}/out_of_fold.jsonl",
    log:
        f"{LOGS}/train_judge/{{judge}}.log",
    wildcard_constraints:
        judge=any_of(study.fitted_judges),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        judge=lambda wildcards: judging.fitting(study, wildcards.judge),
        code=judge_code("train_judge.py"),
    message:
        "Fitting judge {wildcards.judge}"
    script:
        "../../scripts/train_judge.py"


rule panel_verdicts:
    """Put together what several judges said about one cell's answers."""
    input:
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        verdicts=verdicts_read,
    output:
        f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/verdicts/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(study.judges_by("verdicts")),
        model=MODEL_OR_GOLD,
        split=SPLIT_OR_GOLD,
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        judge=lambda wildcards: judging.combining(study, wildcards.judge),
        code=judge_code("panel_verdicts.py"),
    message:
        "Combining verdicts into panel {wildcards.judge} on {wildcards.model}, {wildcards.split}"
    script:
        "../../scripts/panel_verdicts.py"
