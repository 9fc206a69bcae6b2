"""The files of a study between its data and what it shows, which the rule `all` asks for too."""

import itertools
from collections.abc import Iterator

from refusal_eval.study.study import Study
from refusal_eval.workflow.activations_stage import uses
from refusal_eval.workflow.generation import identity_files_of_all
from refusal_eval.workflow.scoring import calibrated_on
from refusal_eval.workflow.tables_stage import tables_of


def made_on_the_way(study: Study) -> list[str]:
    """Return these files in alphabetical order, without receipts: answers and verdicts also wait for the requests."""
    return sorted({f"{study.paths.results}/{name}" for name in _names(study)} | _of_models(study))


def _of_models(study: Study) -> set[str]:
    """Return what is known of engines, and of changes of models, before anything is asked."""
    changed = itertools.chain(*identity_files_of_all(study).values())
    return {*map(study.paths.engine, study.engines), *changed}


def _names(study: Study) -> Iterator[str]:
    """Yield the names of the other files within the study's results."""
    for cell in study.batch_of:
        yield f"judge_requests/{cell}.jsonl" if cell.judge else f"requests/{cell}.jsonl"
    for (positions, model, split), _ in uses(study):
        yield f"prompts/{split}.jsonl"
        yield f"requests/{model}/{split}.jsonl"
        yield f"activations/{positions}/{model}/{split}.safetensors"
    for cell in study.direction_cells:
        yield f"verdicts/{cell}.jsonl" if cell.judge else f"answers/{cell}.jsonl"
    for judge, entry in study.engine_judges.items():
        yield f"judges/{judge}.json"
        if entry.learns:
            yield f"judges/{judge}/model.json"
    for judge in study.judges:
        if gold := calibrated_on(study, judge):
            yield f"calibration/{judge}/{gold}.json"
        for gold in study.gold:
            yield f"judge_cards/{judge}/{gold}.json"
    if any("published" in table.needs for table in tables_of(study).values()):
        for cell in study.cells:
            yield f"published/answers/{cell.model}/{cell.split}.jsonl"
            yield f"published/scores/{cell}.json"
