"""The figures of a study, and which files each is drawn from, for workflow/rules/figures.smk."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from snakemake.io import expand

from refusal_eval.config.figure_entry import Figure
from refusal_eval.config.kinds import FIGURES
from refusal_eval.study.study import Study
from refusal_eval.workflow.scoring import protocol_label
from refusal_eval.workflow.whole_study import labels_of

ENDINGS = ("svg", "pdf", "png", "csv", "caption.md", "caption.tex")


class Figures:
    """The figures of a study: those that it names, or those that its models, splits and judges allow.

    Attributes:
        entries: by name.
        shown: what each shows.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        named = study.settings.figures
        if named is None:
            kinds: Any = FIGURES.classes()
            named = [figure for kind in kinds for figure in kind.unasked(study.of_figures)]
        self.entries: dict[str, Figure] = {figure.name: figure for figure in named}
        self.shown = {name: figure.shown(study.of_figures) for name, figure in self.entries.items()}

    def files(self, noun: str, pattern: str) -> Callable[[Any], list[str]]:
        """Return an input function: the files of one noun that the figure `wildcards.figure` is drawn from.

        They are a path pattern filled with its judges, models, splits and gold, sorted; none where its kind does not
        need the noun.
        """

        def needed(wildcards: Any) -> list[str]:
            if noun not in self.entries[wildcards.figure].needs:
                return []
            shown = self.shown[wildcards.figure]
            names = {key.removesuffix("s"): sorted(found) for key, found in asdict(shown).items()}
            return list(expand(pattern, **names))

        return needed

    def params(self, wildcards: Any) -> dict[str, Any]:
        """Return what a figure is, and what it shows of the whole study: labels, and the numbers of the scoring.

        The trade-off names models that it does not show; figures of judges name none.
        """
        shown = self.shown[wildcards.figure]
        labels = labels_of(self._study)
        if not shown.models:
            labels["models"] = {}
        return {
            "figure": self.entries[wildcards.figure].model_dump(mode="json"),
            "shown": asdict(shown),
            "labels": labels,
            "scoring": {name: getattr(self._study.settings.scoring, name) for name in ("tau", "band")},
            **protocol_label(self._study),
        }

    def report(self, wildcards: Any) -> dict[str, str]:
        """Return category, name and caption of a figure in Snakemake's report."""
        category, name, caption = self.entries[wildcards.figure].report
        caption = caption.format(samples=self._study.settings.samples, tau=self._study.settings.scoring.tau)
        return {"category": category, "name": name, "caption": caption}
