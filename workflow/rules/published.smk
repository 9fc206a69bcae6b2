"""What the published code makes of a study's responses, where the study shows it or scores by it.

Reads requests/, the store, prompts/, answers/ and verdicts/; writes published/answers/{model}/{split}.jsonl and
published/scores/{judge}/{model}/{split}.json.
"""

from refusal_eval.features.published import published_stage


rule published_answers:
    """Take one cell's stored responses as the published code would; for `protocol: compat` and `protocol_effects`."""
    input:
        requests=f"{RESULTS}/requests/{{model}}/{{split}}.jsonl",
        engine=ancient(model_engine),
        # Only which of them have a response: all of these have to be in the store, and to be seen from here.
        answers=ancient(f"{RESULTS}/answers/{{model}}/{{split}}.jsonl"),
    output:
        f"{RESULTS}/published/answers/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/published_answers/{{model}}/{{split}}.log",
    wildcard_constraints:
        model=ASKED_MODELS,
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        published=lambda wildcards: published_stage.published_reading(study, wildcards.model),
        code=code_version(ROOT / "scripts" / "published_answers.py"),
    message:
        "Reading responses of {wildcards.model} on {wildcards.split} as the published code does"
    script:
        "../../scripts/published_answers.py"


rule published_scores:
    """Score one (judge, model, split) as the published code does, and tell what each of its choices does."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        verdicts=f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
        published=f"{RESULTS}/published/answers/{{model}}/{{split}}.jsonl",
        recorded=recorded_votes,
    output:
        f"{RESULTS}/published/scores/{{judge}}/{{model}}/{{split}}.json",
    log:
        f"{LOGS}/published_scores/{{judge}}/{{model}}/{{split}}.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        cell=lambda wildcards: published_stage.published_cell(study, *cell_of(wildcards)),
        recorded=lambda wildcards: [content_hash(path) for path in recorded_votes(wildcards)],
        code=code_version(ROOT / "scripts" / "published_scores.py"),
    message:
        "Scoring {wildcards.model} on {wildcards.split} by {wildcards.judge} as the published code does"
    script:
        "../../scripts/published_scores.py"
