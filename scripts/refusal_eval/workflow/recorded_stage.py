"""What the rules in workflow/rules/recorded.smk ask of a study: folders with answers and verdicts from elsewhere."""

from typing import Any

from refusal_eval.core.recorded_files import ANSWERS, JUDGE_SCORES, split_folder
from refusal_eval.study.study import Study
from refusal_eval.workflow.content import content_hash


def recorded_file(study: Study, model: str, split: str, name: str) -> str:
    """Return a file of a cell's recorded answers."""
    return str(split_folder(str(study.models[model].recorded), split) / name)


def reading(study: Study, model: str, split: str) -> dict[str, Any]:
    """Return what decides how a cell's answers are read."""
    reasoning = study.config["model_entries"][model]["reasoning"]
    how = {"model": model, "reasoning": reasoning, "samples": study.config["samples"]}
    return how | {"sha256": content_hash(recorded_file(study, model, split, ANSWERS))}


def vote_files(study: Study, judge: str, model: str, split: str) -> list[str]:
    """Return the files behind a cell's votes if its judge came with its answers; else none."""
    if study.judges[judge].way != "recorded":
        return []
    return [recorded_file(study, model, split, name) for name in (ANSWERS, JUDGE_SCORES)]
