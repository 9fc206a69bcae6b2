"""A study's numbers, made anew in another folder from its stored answers and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.files import read_json
from refusal_eval.tools.verify.file_differences import Difference
from refusal_eval.tools.verify.independent_rate import headline_rate
from refusal_eval.tools.verify.rule_jobs import Job

Cell = tuple[str, str, str]  # judge, model, split
# The first two tell of the run that made them (versions, machine), the third fails where a judge is worse than asked.
NOT_COMPARED = ("manifest", "methods", "judge_floor")
PICTURES = (".pdf", ".svg", ".png")
_TOLERANCE = 1e-12  # between two ways to add up the same shares


def cells_of(config: Mapping[str, Any]) -> list[Cell]:
    """Return all (judge, model, split) of a study, sorted."""
    return sorted((j, m, s) for j in config["judges"] for m in config["models"] for s in config["splits"])


def only_numbers(levels: Sequence[Sequence[Job]]) -> list[list[Job]]:
    """Return the jobs that write something else than pictures."""
    kept = [[job for job in level if any(not out.endswith(PICTURES) for out in job.outputs)] for level in levels]
    return [level for level in kept if level]


def link_inputs(levels: Sequence[Sequence[Job]], stored: Path, made: Path) -> None:
    """Put links into `made` for what jobs read there and none of them writes: to the same files of `stored`."""
    jobs = [job for level in levels for job in level]
    written = {path for job in jobs for path in job.outputs}
    for path in {path for job in jobs for path in job.inputs} - written:
        if Path(path).is_relative_to(made):
            source = stored / Path(path).relative_to(made)
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).symlink_to(source.resolve())


def compared_files(levels: Sequence[Sequence[Job]], made: Path) -> list[str]:
    """Return the names within the study of all files that jobs write, without pictures, scores first."""
    paths = [Path(path) for level in levels for job in level for path in job.outputs]
    names = [path.relative_to(made).as_posix() for path in paths if path.suffix not in PICTURES]
    return sorted(names, key=lambda name: (not name.startswith("scores/"), name))


def other_rates(config: Mapping[str, Any], stored: Path) -> Iterator[Difference]:
    """Yield the cells whose stored headline rate is not what `independent.headline_rate` makes of the stored files."""
    for judge, model, split in cells_of(config):
        name = f"scores/{judge}/{model}/{split}.json"
        if config["split_entries"][split].get("dialogue") or not (stored / name).is_file():
            continue
        score = read_json(stored / name)
        answers, verdicts = (
            stored / f"answers/{model}/{split}.jsonl",
            stored / f"verdicts/{judge}/{model}/{split}.jsonl",
        )
        rate = headline_rate(answers, verdicts, score["samples"], score["headline"])
        known = score[score["headline"]]["rate"]
        if (rate is None) != (known is None) or (
            rate is not None and not math.isclose(rate, known, abs_tol=_TOLERANCE)
        ):
            yield Difference(name, f"the headline rate is {known}, and a second way to compute it gives {rate}")
