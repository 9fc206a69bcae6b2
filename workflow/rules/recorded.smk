"""Answers that were drawn elsewhere: folders in the published library's layout, of models with `recorded`.

Reads prompts/ and those folders; writes answers/ and published/answers/ of such models, and verdicts/ of judges of kind
`recorded`. All that follows (other judges, scores, tables, figures) is as for answers of an engine.
"""

from refusal_eval.workflow.recorded_stage import Recordings

recordings = quick_to_ask(Recordings(config))


rule recorded_answers:
    """Read one cell's answers out of a folder."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        recorded=recordings.answers,
    output:
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        published=f"{RESULTS}/published/answers/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/answers/{{model}}/{{split}}.log",
    wildcard_constraints:
        model=any_of(recordings.models),
    localrule: True
    params:
        reading=recordings.reading,
        code=code_version(ROOT / "scripts" / "recorded_answers.py"),
    message:
        "Reading recorded answers of {wildcards.model} on {wildcards.split}"
    script:
        "../../scripts/recorded_answers.py"


rule recorded_verdicts:
    """Read the verdicts that came with one cell's answers."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        recorded=recordings.answers,
        judged=recordings.verdicts,
    output:
        f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/verdicts/{{judge}}/{{model}}/{{split}}.log",
    wildcard_constraints:
        judge=any_of(recordings.judges),
        model=any_of(recordings.models),
    localrule: True
    params:
        sha256=recordings.judged,
        code=code_version(ROOT / "scripts" / "recorded_verdicts.py"),
    message:
        "Reading recorded verdicts on {wildcards.model}, {wildcards.split}"
    script:
        "../../scripts/recorded_verdicts.py"
