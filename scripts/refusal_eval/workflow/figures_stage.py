"""What a figure of a study is drawn from, and what it says of it, for workflow/rules/figures.smk."""

from dataclasses import asdict
from typing import Any

from refusal_eval.study.files import FIGURE_ENDINGS, needed_files
from refusal_eval.study.study import Study
from refusal_eval.workflow.scoring import named_protocol
from refusal_eval.workflow.whole_study import labels_of, shown_splits, sources_of

ENDINGS = FIGURE_ENDINGS


def files(study: Study, name: str) -> dict[str, list[str]]:
    """Return the files that a figure is drawn from, by noun: those of its judges, models, splits and gold."""
    figure = study.figures[name]
    shown = asdict(figure.shown(study.view))
    further = shown.pop("further")
    names = {key.removesuffix("s"): list(found) for key, found in shown.items()}
    return needed_files(study, figure.needs, **names, **further)


def params(study: Study, name: str) -> dict[str, Any]:
    """Return what a figure is, and what it shows of the whole study: labels, and the numbers of the scoring.

    The trade-off names models that it does not show; figures of judges name none.
    """
    figure = study.figures[name]
    shown = figure.shown(study.view)
    labels, sources = labels_of(study), sources_of(study)
    if not shown.models:
        labels["models"] = {}
    return {
        "figure": figure.model_dump(mode="json"),
        "shown": asdict(shown),
        "paper": asdict(study.paper),
        "labels": labels,
        "scoring": {name: getattr(study.settings.scoring, name) for name in ("tau", "band", "level")},
        "splits": [
            {**split, "source": sources[split["name"]]}
            for split in shown_splits(study)
            if split["name"] in shown.splits
        ],
        **named_protocol(study),
    }
