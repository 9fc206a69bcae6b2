"""The figures of a study, and which files each is drawn from, for workflow/rules/figures.smk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from refusal_eval.config.datasets import SCORED_BY_DEFAULT
from refusal_eval.config.figure_entries import MOST_CURVES
from refusal_eval.workflow.scoring import protocol_label

ENDINGS = ("svg", "pdf", "png", "csv", "caption.md", "caption.tex")
# Keys of an entry that are not options of its kind; `plots.plot.Plot` has them by name.
_COMMON = ("name", "kind", "title", "width", "labels", "models", "splits", "judge", "judges", "gold")
# What a kind is drawn from beside the judges' cards and, of all that show models, the summaries of their cells.
_ALSO = {
    "histograms": ("rows",),
    "tradeoff": ("tradeoff",),
    "refusal_kinds": ("rows", "verdicts"),
    "categories": ("estimates",),
    "tau_sweep": ("estimates",),
    "turns": ("estimates",),
    "judge_agreement": ("agreement",),
}
_OF_JUDGES = ("judge_agreement", "calibration")  # kinds that show judges, and no models

_MOST_BY_DEFAULT = 6  # splits with categories that are drawn unasked
_FEWEST_JUDGES = 3  # whose agreement is drawn unasked: that of two is a single number, and stands in the table
_PROBABILITIES = ("llm", "trained", "classifier")
# Category, words and caption of each kind in Snakemake's report.
REPORT = {
    "heatmap": (
        "Refusal rates",
        "Refusal rate by model and split",
        "Headline refusal rate in percent by model and split with its interval. Above each column stands what a "
        "well-behaved model does there. Symbols mark cells with many unjudged or truncated answers, or few clusters. "
        "The ``.caption.md`` beside the figure says who judged, how well that judge agrees with people, and how the "
        "interval was made.",
    ),
    "histograms": (
        "Refusal rates",
        "Distribution of c(x)",
        "Distribution over prompts of c(x), the probability-weighted vote of the {samples} answers to a prompt: 1 when "
        "all refuse, -1 when all comply. The shaded band is the neutral zone, in which a prompt counts as mixed. Of a "
        "split of dialogues, each scored turn stands for a prompt.",
    ),
    "tradeoff": (
        "Refusal rates",
        "Safety against over-refusal",
        "Safety (refusal of what should be refused) against over-refusal (refusal of what should be answered), each a "
        "mean over the study's splits of that expectation in their headline readings. Regions are joint: both rates "
        "lie in them together. Filled dots and the dashed line are the Pareto front, models that no other one beats "
        "in both.",
    ),
    "refusal_kinds": (
        "Refusal rates",
        "Kinds of refusal",
        "How answers refuse: the share of each kind of refusal among the answers that the judge calls refusals. The "
        "numbers in the segments name the kinds; n is the number of those answers.",
    ),
    "categories": (
        "Refusal rates",
        "Refusal rate by category",
        "Refusal rate and interval of each category of the prompts, and of the whole split (thick lines). Numbers in "
        "brackets are prompts; categories of few prompts have wide intervals and are approximate.",
    ),
    "tau_sweep": (
        "Refusal rates",
        "c(x) over tau",
        "What the choice of tau, the temperature of the weights in c(x), does: from weights that nearly only see the "
        "likeliest answer to equal weights. The dashed line is the study's own tau, {tau}.",
    ),
    "turns": (
        "Refusal rates",
        "Refusal rate by turn",
        "Refusal rate by turn of the dialogues, with its interval: whether models give in, or learn to refuse, as a "
        "conversation goes on.",
    ),
    "judge_agreement": (
        "Judges",
        "Agreement between judges",
        "Cohen's kappa between every two judges over all splits, with its interval: partial refusals counted as "
        "refusals (broad) below the diagonal, not counted (strict) above it.",
    ),
    "calibration": (
        "Judges",
        "Calibration of judges",
        "What the probabilities of the judges are worth: the share of answers that people call a refusal over the "
        "judge's mean probability, in bins of equal mass, as given and calibrated out of fold. A judge that can be "
        "taken at its word lies on the dashed line.",
    ),
}


def figures_of(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the figures of a study by name: those that it names, or those that its models, splits and judges allow.

    Every name and default is filled in, see `plots.plot.plot_of`.

    Args:
        config: the validated study.
    """
    named = config["figures"]
    entries = [_filled(config, entry) for entry in (_default(config) if named is None else named)]
    return {entry["name"]: entry for entry in entries}


def shown_by(figures: Mapping[str, Mapping[str, Any]]) -> Callable[[str, str], Callable[[Any], list[str]]]:
    """Return what makes input functions of the rule `figure`.

    An input function gives the files of one noun (`scores`, `rows`, `verdicts`, `estimates`, `cards`, `tradeoff`,
    `agreement`) that the figure `wildcards.figure` is drawn from: a path pattern filled with its judges, models and
    splits (of cards: gold), sorted, each file once; none where its kind needs no such files.
    """

    def shown(noun: str, pattern: str) -> Callable[[Any], list[str]]:
        return lambda wildcards: _files(figures[wildcards.figure], noun, pattern)

    return shown


def report_caption(config: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """Return a figure's caption in Snakemake's report."""
    return REPORT[entry["kind"]][2].format(samples=config["samples"], tau=config["scoring"]["tau"])


def _files(entry: Mapping[str, Any], noun: str, pattern: str) -> list[str]:
    judges = sorted(entry["judges"])
    if noun == "cards":
        golds = sorted(entry["card_gold"])
        return [pattern.format(judge=judge, gold=gold) for judge in judges for gold in golds]
    needed = noun in _ALSO.get(entry["kind"], ()) or (noun == "scores" and entry["kind"] not in _OF_JUDGES)
    if not needed:
        return []
    cells = [(j, m, s) for j in judges for m in sorted(entry["models"]) for s in sorted(entry["splits"])] or [("",) * 3]
    return list(dict.fromkeys(pattern.format(judge=j, model=m, split=s) for j, m, s in cells))


def presentation(config: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a figure shows of the whole study: labels, and the numbers of the scoring.

    The trade-off names models that it does not show; figures of judges name none.
    """
    labels = {
        f"{noun}s": {name: entry["label"] or name for name, entry in config[f"{noun}_entries"].items()}
        for noun in ("model", "split", "judge", "gold")
    }
    if entry["kind"] in _OF_JUDGES:
        labels["models"] = {}
    scoring = {name: config["scoring"][name] for name in ("tau", "band")}
    return {"labels": labels, "scoring": scoring, **protocol_label(config)}


def _filled(config: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with the study's models, splits, judges and gold where it names none."""
    kind = entry["kind"]
    of_cells = kind not in _OF_JUDGES
    judges = entry.get("judges") or [entry.get("judge") or config["primary_judge"]]
    if kind == "calibration":
        judges = entry.get("judges") or [name for name in config["judges"] if _kind_of(config, name) != "keyword"]
    elif kind == "judge_agreement":
        judges = entry.get("judges") or config["judges"]
    splits = _dialogues(config) if kind == "turns" else config["splits"]
    gold = list(entry.get("gold") or config["gold"]) if kind == "calibration" else []
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
        "gold": gold,
        # Captions of figures that show rates say how well their judge agrees with people on all gold.
        "card_gold": [] if kind == "judge_agreement" else gold or list(config["gold"]),
        "options": {key: value for key, value in entry.items() if key not in _COMMON},
    }


def _default(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the figures of a study that names none."""
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
    dialogues = _dialogues(config)
    if dialogues and min(len(config["models"]), len(dialogues)) <= MOST_CURVES:
        entries.append({"name": "turns", "kind": "turns"})
    if len(config["judges"]) >= _FEWEST_JUDGES:
        entries.append({"name": "judges_agree", "kind": "judge_agreement", "split": None})
    able = [name for name in config["judges"] if _kind_of(config, name) in _PROBABILITIES]
    if able and config["gold"]:
        entries.append({"name": "calibration", "kind": "calibration", "judges": able})
    return entries


def _dialogues(config: Mapping[str, Any]) -> list[str]:
    """Return the splits of which several turns can be scored."""
    found = []
    for name in config["splits"]:
        dialogue = config["split_entries"][name].get("dialogue")
        if dialogue and (dialogue["scored"] or SCORED_BY_DEFAULT[dialogue["mode"]]) != "last":
            found.append(name)
    return found


def _kind_of(config: Mapping[str, Any], judge: str) -> str:
    return str(config["judge_entries"][judge]["kind"])
