"""What the rule in workflow/rules/figures.smk asks: which figures a study has, and what each is drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.config.datasets import SCORED_BY_DEFAULT
from refusal_eval.config.figure_entries import MOST_CURVES
from refusal_eval.study.paths import Paths
from refusal_eval.workflow.scoring import protocol_label

ENDINGS = ("svg", "pdf", "png", "csv", "caption.md", "caption.tex")
PREAMBLE = "captions_preamble.tex"  # one for all; as `plots.captions.PREAMBLE`, which is behind matplotlib
# Keys of an entry that are not options of its kind; `plots.plot.Plot` has them by name.
_COMMON = ("name", "kind", "title", "width", "labels", "models", "splits", "judge", "judges", "gold")
_FROM_ROWS = ("histograms", "refusal_kinds")
_FROM_ESTIMATES = ("categories", "tau_sweep", "turns")

_MOST_BY_DEFAULT = 6  # splits with categories that are drawn unasked
_FEWEST_JUDGES = 3  # whose agreement is drawn unasked: that of two is a single number, and stands in the table
_PROBABILITIES = ("llm", "trained", "classifier")
# Category and words of each kind in Snakemake's report; its caption is workflow/report/figure_<kind>.rst.
REPORT = {
    "heatmap": ("Refusal rates", "Refusal rate by model and split"),
    "histograms": ("Refusal rates", "Distribution of c(x)"),
    "tradeoff": ("Refusal rates", "Safety against over-refusal"),
    "refusal_kinds": ("Refusal rates", "Kinds of refusal"),
    "categories": ("Refusal rates", "Refusal rate by category"),
    "tau_sweep": ("Refusal rates", "c(x) over tau"),
    "turns": ("Refusal rates", "Refusal rate by turn"),
    "judge_agreement": ("Judges", "Agreement between judges"),
    "calibration": ("Judges", "Calibration of judges"),
}


class Figures:
    """The figures of a study: those that it names, or those that its models, splits and judges allow.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._results = Paths(config).results
        named = config["figures"]
        self._entries = [self._filled(entry) for entry in (self._default() if named is None else named)]

    def entries(self, wildcards: Any) -> list[dict[str, Any]]:
        """Return the figures with every name and default filled in, see `plots.plot.plot_of`."""
        return self._entries

    def shown(self) -> list[tuple[str, str, str, str]]:
        """Return name, kind, category and words of each figure, for Snakemake's report."""
        return [(entry["name"], entry["kind"], *REPORT[entry["kind"]]) for entry in self._entries]

    def presentation(self, wildcards: Any) -> dict[str, Any]:
        """Return what all figures share: labels, and the numbers of the scoring."""
        sections = {"models": "model_entries", "splits": "split_entries", "judges": "judge_entries"}
        labels = {name: self._labels(section) for name, section in {**sections, "golds": "gold_entries"}.items()}
        scoring = {name: self._config["scoring"][name] for name in ("tau", "band")}
        return {"labels": labels, "scoring": scoring, **protocol_label(self._config)}

    def cells(self, wildcards: Any) -> dict[str, list[list[str]]]:
        """Return the (judge, model, split) of each file in `rows` and in `verdicts`."""
        return {"rows": self._cells(*_FROM_ROWS), "verdicts": self._cells("refusal_kinds")}

    def scores(self, wildcards: Any) -> list[str]:
        """Return the summaries of the cells that figures show."""
        kinds = [kind for kind in REPORT if kind not in ("judge_agreement", "calibration")]
        return [f"{self._results}/scores/{'/'.join(cell)}.json" for cell in self._cells(*kinds)]

    def rows(self, wildcards: Any) -> list[str]:
        """Return the scores per prompt of the cells whose c(x), or whose scored turns, figures show."""
        return [f"{self._results}/scores/{'/'.join(cell)}.csv" for cell in self._cells(*_FROM_ROWS)]

    def verdicts(self, wildcards: Any) -> list[str]:
        """Return the verdicts whose kinds of refusal figures show."""
        return [f"{self._results}/verdicts/{'/'.join(cell)}.jsonl" for cell in self._cells("refusal_kinds")]

    def cards(self, wildcards: Any) -> list[str]:
        """Return the cards of all judges on all gold."""
        judges, gold = sorted(self._config["judges"]), sorted(self._config["gold"])
        return [f"{self._results}/judge_cards/{judge}/{name}.json" for judge in judges for name in gold]

    def estimates(self, wildcards: Any) -> list[str]:
        """Return the estimates that figures show."""
        found = {(judge, model) for judge, model, _ in self._cells(*_FROM_ESTIMATES)}
        return [f"{self._results}/estimates/cells/{judge}/{model}.json" for judge, model in sorted(found)]

    def tradeoff(self, wildcards: Any) -> list[str]:
        """Return the study's trade-off where a figure shows it, as a list."""
        return [f"{self._results}/estimates/tradeoff.json"] if self._has("tradeoff") else []

    def agreement(self, wildcards: Any) -> list[str]:
        """Return the agreement of the study's judges where a figure shows it, as a list."""
        return [f"{self._results}/judge_agreement.json"] if self._has("judge_agreement") else []

    def targets(self, wildcards: Any) -> list[str]:
        """Return the files of all figures, and what their captions need in LaTeX; none without figures."""
        names = [f"{entry['name']}.{end}" for entry in self._entries for end in ENDINGS]
        return [f"{self._results}/figures/{name}" for name in (*names, *([PREAMBLE] if names else []))]

    def others(self) -> list[str]:
        """Return the files of all figures but the SVGs, which the report shows."""
        return [file for file in self.targets(None) if not file.endswith(".svg")]

    def _has(self, kind: str) -> bool:
        return any(entry["kind"] == kind for entry in self._entries)

    def _cells(self, *kinds: str) -> list[list[str]]:
        """Return the (judge, model, split) that figures of these kinds show, sorted."""
        return sorted(
            [judge, model, split]
            for judge, model, split in {
                (judge, model, split)
                for entry in self._entries
                if entry["kind"] in kinds
                for judge in entry["judges"]
                for model in entry["models"]
                for split in entry["splits"]
            }
        )

    def _filled(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return an entry with the study's models, splits, judges and gold where it names none."""
        config, kind = self._config, entry["kind"]
        if kind == "calibration":
            able = [name for name in config["judges"] if self._kind_of(name) != "keyword"]
            judges = entry.get("judges") or able
        elif kind == "judge_agreement":
            judges = entry.get("judges") or config["judges"]
        else:
            judges = [entry.get("judge") or config["primary_judge"]]
        of_cells = kind not in ("judge_agreement", "calibration")
        splits = self._dialogues() if kind == "turns" else config["splits"]
        none: dict[str, Any] = {"models": {}, "splits": {}, "judges": {}, "gold": {}, "categories": {}}
        return {
            "name": entry["name"],
            "kind": kind,
            "title": entry.get("title"),
            "width": entry.get("width"),
            "labels": none | dict(entry.get("labels") or {}),
            "models": list(entry.get("models") or config["models"]) if of_cells else [],
            "splits": list(entry.get("splits") or splits) if of_cells else [],
            "judges": list(judges),
            "gold": list(entry.get("gold") or config["gold"]) if kind == "calibration" else [],
            "options": {key: value for key, value in entry.items() if key not in _COMMON},
        }

    def _default(self) -> list[dict[str, Any]]:
        """Return the figures of a study that names none."""
        config = self._config
        entries: list[dict[str, Any]] = [
            {"name": "refusal_heatmap", "kind": "heatmap"},
            {"name": "c_histograms", "kind": "histograms"},
        ]
        splits = config["split_entries"]
        expected = {split["expectation"] for split in splits.values()}
        if {"comply", "refuse"} <= expected:
            entries.append({"name": "tradeoff", "kind": "tradeoff"})
        primary = config["judge_entries"][config["primary_judge"]]
        if primary["kind"] == "reasoned" and primary.get("form") != "published":  # of a free text no kind is told
            entries.append({"name": "refusal_kinds", "kind": "refusal_kinds", "reading": "broad", "by": None})
        sorted_in = [name for name in config["splits"] if splits[name]["columns"]["category"]]
        if sorted_in and len(sorted_in) <= _MOST_BY_DEFAULT:
            common = {"kind": "categories", "most": 12}
            # Of more models a page has room for the categories of one split.
            apart = len(config["models"]) > MOST_CURVES and len(sorted_in) > 1
            entries += [{"name": f"categories_{split}", "splits": [split], **common} for split in sorted_in if apart]
            entries += [] if apart else [{"name": "categories", "splits": sorted_in, **common}]
        drawable = min(len(config["models"]), len(config["splits"])) <= MOST_CURVES
        if config["samples"] > 1 and config["protocol"] == "default" and drawable:
            entries.append({"name": "tau_sweep", "kind": "tau_sweep", "measure": "mean"})
        dialogues = self._dialogues()
        if dialogues and min(len(config["models"]), len(dialogues)) <= MOST_CURVES:
            entries.append({"name": "turns", "kind": "turns"})
        if len(config["judges"]) >= _FEWEST_JUDGES:
            entries.append({"name": "judges_agree", "kind": "judge_agreement", "split": None})
        able = [name for name in config["judges"] if self._kind_of(name) in _PROBABILITIES]
        if able and config["gold"]:
            entries.append({"name": "calibration", "kind": "calibration", "judges": able})
        return entries

    def _dialogues(self) -> list[str]:
        """Return the splits of which several turns can be scored."""
        entries = self._config["split_entries"]
        found = []
        for name in self._config["splits"]:
            dialogue = entries[name].get("dialogue")
            if dialogue and (dialogue["scored"] or SCORED_BY_DEFAULT[dialogue["mode"]]) != "last":
                found.append(name)
        return found

    def _kind_of(self, judge: str) -> str:
        return str(self._config["judge_entries"][judge]["kind"])

    def _labels(self, section: str) -> dict[str, str]:
        return {name: entry["label"] or name for name, entry in self._config[section].items()}
