"""What a figure of a study is drawn from, and what it says of it, for workflow/rules/figures.smk."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from snakemake.io import expand

from refusal_eval.study.study import Study
from refusal_eval.workflow.scoring import protocol_label
from refusal_eval.workflow.whole_study import labels_of, shown_splits, sources_of

ENDINGS = ("svg", "pdf", "png", "csv", "caption.md", "caption.tex")


def files(study: Study, noun: str, pattern: str) -> Callable[[Any], list[str]]:
    """Return an input function: the files of one noun that the figure `wildcards.figure` is drawn from.

    They are a path pattern filled with its judges, models, splits and gold, sorted; none where its kind does not need
    the noun.
    """

    def needed(wildcards: Any) -> list[str]:
        figure = study.figures[wildcards.figure]
        if noun not in figure.needs:
            return []
        shown = asdict(figure.shown(study.view))
        return list(expand(pattern, **{key.removesuffix("s"): sorted(found) for key, found in shown.items()}))

    return needed


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
        "labels": labels,
        "scoring": {name: getattr(study.settings.scoring, name) for name in ("tau", "band", "level")},
        "splits": [
            {**split, "source": sources[split["name"]]}
            for split in shown_splits(study)
            if split["name"] in shown.splits
        ],
        **protocol_label(study),
    }


def report(study: Study, name: str) -> dict[str, str]:
    """Return category, name and caption of a figure in Snakemake's report."""
    category, title, caption = study.figures[name].report
    caption = caption.format(samples=study.settings.samples, tau=study.settings.scoring.tau)
    return {"category": category, "name": title, "caption": caption}
