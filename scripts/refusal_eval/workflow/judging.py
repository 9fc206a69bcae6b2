"""What the rules in workflow/rules/judge.smk ask of a study: what decides what judges are asked, and their verdicts."""

from typing import Any

from refusal_eval.study.batches import GOLD
from refusal_eval.study.study import Study
from refusal_eval.workflow.generation import rendering_params
from refusal_eval.workflow.rule_files import content_hash
from refusal_eval.workflow.whole_study import scored_turns


def asked(study: Study, judge: str) -> dict[str, Any]:
    """Return what decides what a judge asks its engine."""
    entry = study.engine_judges[judge]
    params = {
        "entry": entry.asking(),
        "rendering": rendering_params(study.config, entry.rendering() | {"engine": entry.engine}),
        "files_sha256": [content_hash(path) for path in entry.files()],
        **_after(study, judge),
    }
    return params | ({"seed": study.settings.seed} if entry.votes_asked().written else {})


def turns(study: Study, model: str, split: str) -> dict[str, str]:
    """Return which turns of a cell are judged; nothing where all are."""
    scored = None if model == GOLD else scored_turns(study, split)
    return {} if scored in (None, "all") else {"scored": str(scored)}


def checking(study: Study, judge: str) -> dict[str, Any]:
    """Return what decides what is found out about a judge before it is asked.

    Beside what it asks these are the models whose refusals it reads: of one that was taken away no file tells.
    """
    read = study.engine_judges[judge].refusals_read()
    own = read is not None and read.judge is not None
    return asked(study, judge) | ({"models": sorted(study.settings.models)} if own else {})


def reading(study: Study, judge: str, model: str) -> dict[str, Any]:
    """Return what turns the responses of a judge's engine into verdicts on a model's answers, or on gold.

    On gold a calibrated judge has a threshold of its own: it is what the calibration is fitted on. Elsewhere the gold
    is named, as the calibration on another set may lie there from an earlier run, older than these verdicts.
    """
    entry, after = study.engine_judges[judge], _after(study, judge)
    if after and model != GOLD:
        own = study.judges[judge]
        after["cascade"] |= {"threshold": own.threshold, "calibrated_on": own.threshold_on_gold(study.view)}
    trust = getattr(study.engines[entry.engine], "trust_remote_code", False)
    if (gold := entry.threshold_on_gold(study.view)) is not None:
        on_gold = {"threshold": entry.used_threshold(), "calibrated_on": None}
        entry = entry.model_copy(update=on_gold if model == GOLD else {"calibrated_on": gold})
    # Lists that say something else of these answers alone leave the fitted model as it was, to the byte.
    lists = {"sha256": [content_hash(path) for path in entry.files()]} if entry.learned_from(study.view) else {}
    return {"entry": entry.deciding(), "trust_remote_code": trust, **lists, **after}


def _after(study: Study, judge: str) -> dict[str, Any]:
    """Return what decides which answers a second judge is asked about; nothing for a judge that is no cascade."""
    cascade = study.judges[judge]
    return {"cascade": cascade.dividing()} if cascade.second() else {}


def fitting(study: Study, judge: str) -> dict[str, Any]:
    """Return what decides the fit of a judge that learns: its settings, and other gold, which may have its prompts.

    Gold that was taken away and comes back may be older than the fit.
    """
    return deciding(study, judge) | {"others": sorted(set(study.gold) - set(study.judges[judge].gold))}


def deciding(study: Study, judge: str) -> dict[str, Any]:
    """Return the settings that decide the verdicts of a judge without an engine, and the content of its files."""
    entry = study.judges[judge]
    return {"entry": entry.deciding(), "sha256": [content_hash(path) for path in entry.files()]}


def panel(study: Study, judge: str) -> dict[str, Any]:
    """Return the keys of a panel's entry that decide its verdicts, and the flags that each of its members can raise."""
    entry = study.judges[judge]
    flags = {member: study.judges[member].flags(study.view) for member in entry.members}
    return {"entry": entry.deciding(), "flags": flags}
