"""Answers that were drawn elsewhere, of models with `recorded`: folders in the published library's layout, and files.

Reads prompts/ and those folders or files; writes answers/ and published/answers/ of such models, and verdicts/ of judges of kind
`recorded`. All that follows (other judges, scores, tables, figures) is as for answers of an engine.
"""


rule recorded_answers:
    """Read one cell's answers out of a folder."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        recorded=recorded(ANSWERS),
    output:
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        published=f"{RESULTS}/published/answers/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/answers/{{model}}/{{split}}.log",
    wildcard_constraints:
        model=any_of(set(study.recorded_models) - set(study.models_in_files)),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        reading=lambda wildcards: generation.recorded_reading(study, wildcards.model, wildcards.split),
        code=code_version(ROOT / "scripts" / "recorded_answers.py", *data_stage.row_readers(study)),
    message:
        "Reading recorded answers of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/recorded_answers.py"


rule recorded_verdicts:
    """Read the verdicts that came with one cell's answers."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        recorded=recorded(ANSWERS),
        judged=recorded(JUDGE_SCORES),
    output:
        f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/verdicts/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(study.judges_by("recorded")),
        model=any_of(set(study.recorded_models) - set(study.models_in_files)),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        sha256=lambda wildcards: [content_hash(path) for path in recorded_votes(wildcards)],
        code=code_version(ROOT / "scripts" / "recorded_verdicts.py"),
    message:
        "Reading recorded verdicts on {wildcards.model}, {wildcards.split}"
    script:
        "../../scripts/recorded_verdicts.py"


rule logged_answers:
    """Read one cell's answers out of a log, a table or neutral rows."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        recorded=lambda wildcards: generation.logged_files(study, wildcards.model),
    output:
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        published=f"{RESULTS}/published/answers/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/answers/{{model}}/{{split}}.log",
    wildcard_constraints:
        model=any_of(study.models_in_files),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        reading=lambda wildcards: generation.logged_reading(study, wildcards.model, wildcards.split),
        code=code_version(ROOT / "scripts" / "logged_answers.py", *generation.log_readers(study)),
    message:
        "Reading recorded answers of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/logged_answers.py"


rule logged_verdicts:
    """Read the labels that came with one cell's answers in such a file."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        recorded=lambda wildcards: generation.logged_files(study, wildcards.model),
    output:
        f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/verdicts/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(study.judges_by("recorded")),
        model=any_of(study.models_in_files),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        reading=lambda wildcards: generation.logged_labels(study, wildcards.judge, wildcards.model, wildcards.split),
        code=code_version(ROOT / "scripts" / "logged_verdicts.py", *generation.log_readers(study)),
    message:
        "Reading recorded verdicts on {wildcards.model}, {wildcards.split}"
    script:
        "../../scripts/logged_verdicts.py"


rule gold_labels:
    """Find the labels that came with answers for the same answers in gold."""
    input:
        gold=f"{RESULTS}/gold/{{split}}.jsonl",
        gold_answers=f"{RESULTS}/answers/{GOLD}/{{split}}.jsonl",
        prompts=[f"{RESULTS}/prompts/{split}.jsonl" for _, split in generation.labelled_cells(study)],
        answers=[f"{RESULTS}/answers/{model}/{split}.jsonl" for model, split in generation.labelled_cells(study)],
        verdicts=[
            f"{RESULTS}/verdicts/{{judge}}/{model}/{split}.jsonl" for model, split in generation.labelled_cells(study)
        ],
    output:
        f"{RESULTS}/verdicts/{{judge}}/{GOLD}/{{split}}.jsonl",
    log:
        f"{LOGS}/verdicts/{{judge}}/{GOLD}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(study.judges_by("recorded")),
        split=any_of(GOLD_SETS),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        names=[generation.names_of_answering(study, model) for model, _ in generation.labelled_cells(study)],
        code=code_version(ROOT / "scripts" / "gold_labels.py"),
    message:
        "Finding the labels of {wildcards.judge} for answers of {wildcards.split}"
    script:
        "../../scripts/gold_labels.py"
