"""What the rules in workflow/rules/score.smk ask of a study: what decides a cell's numbers, and a judge's card."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.config.datasets import SCORED_BY_DEFAULT
from refusal_eval.study.study import Study


def protocol_label(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the protocol for what shows it; nothing for the default one."""
    return {} if config["protocol"] == "default" else {"protocol": config["protocol"]}


def cell(study: Study, judge: str, model: str, split: str) -> dict[str, Any]:
    """Return what, besides answers and verdicts, decides a cell's numbers."""
    entry = study.config["split_entries"][split]
    dialogue = entry.get("dialogue")
    turns = {"scored": dialogue["scored"] or SCORED_BY_DEFAULT[dialogue["mode"]]} if dialogue else {}
    return {
        "judge": judge,
        "model": model,
        "split": split,
        "expectation": entry["expectation"],
        "headline": entry["headline"],
        "samples": study.config["samples"],
        "max_tokens": study.config["model_entries"][model]["sampling"]["max_tokens"],
        **study.config["scoring"],
        **turns,
        **protocol_label(study.config),
        **_noticed(study, judge),
    }


def _noticed(study: Study, judge: str) -> dict[str, Any]:
    """Return what is counted of a judge's verdicts beside its labels; nothing for most."""
    entry = study.judges[judge]
    flags, again = entry.flags(study.of_judges), entry.way == "engine" and entry.votes_asked().retries > 0
    return ({"judge_flags": flags} if flags else {}) | ({"votes_asked_again": True} if again else {})


def published_reading(study: Study, model: str) -> dict[str, Any]:
    """Return what decides how the published code reads a model's responses."""
    entry = study.config["model_entries"][model]
    trust = study.config["engine_entries"][entry["engine"]]["trust_remote_code"]
    return {"end_mark": (entry["reasoning"] or {}).get("end"), "trust_remote_code": trust}


def published_cell(study: Study, judge: str, model: str, split: str) -> dict[str, Any]:
    """Return what, besides its files, decides a cell's published scores."""
    decided = cell(study, judge, model, split)
    names = ("judge", "model", "split", "samples", "tau", "band")
    return {name: decided[name] for name in names} | {"scored": decided.get("scored")}


def card(study: Study, judge: str, gold: str) -> dict[str, Any]:
    """Return what, besides gold and verdicts, decides a judge's card."""
    entry, calibrated = study.config["gold_entries"][gold], calibrated_on(study, judge)
    more: dict[str, Any] = {"calibrated_on": calibrated} if calibrated else {}
    if gold in study.judges[judge].learned_from(study.of_judges):
        more["fitted_here"] = True
    return {
        "judge": judge,
        "gold": gold,
        "raters": entry["raters"],
        "human_kappa": entry.get("human_kappa"),
        "anchors": list(entry.get("anchors") or []),
        "level": study.config["scoring"]["level"],
    } | more


def calibrated_on(study: Study, judge: str) -> str | None:
    """Return the gold set that a judge's threshold is fitted on, None for a threshold of its own."""
    gold: str | None = study.judges[judge].threshold_on_gold(study.of_judges)
    return gold


def calibration_file(study: Study, judge: str, gold: str) -> str:
    """Return the file with the calibration of a judge on a gold set."""
    return f"{study.paths.results}/calibration/{judge}/{gold}.json"
