"""What the rules in workflow/rules/judge.smk ask of a study: what decides what judges are asked, and their verdicts."""

from typing import Any

from refusal_eval.judges.verdict_judges import DEFERRING, DeferringJudge
from refusal_eval.study.batches import GOLD
from refusal_eval.study.study import Study
from refusal_eval.workflow.generation import rendering_params
from refusal_eval.workflow.rule_files import content_hash
from refusal_eval.workflow.whole_study import scored_turns


def asked(study: Study, judge: str) -> dict[str, Any]:
    """Return what decides what a judge asks its engine."""
    entry, own = study.engine_judges[judge], study.every_judge[judge]
    params = {
        "entry": entry.asking(),
        "rendering": rendering_params(study.config, entry.rendering() | {"engine": entry.engine}),
        "files_sha256": [content_hash(path) for path in entry.files()],
        **({DEFERRING: own.dividing()} if isinstance(own, DeferringJudge) else {}),
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
    return asked(study, judge) | ({"models": sorted(study.view.read_by(judge))} if own else {})


def reading(study: Study, judge: str, model: str) -> dict[str, Any]:
    """Return what turns the responses of a judge's engine into verdicts on a model's answers, or on gold."""
    own, asked_for, gold = study.every_judge[judge], study.engine_judges[judge], model == GOLD
    trust = getattr(study.engines[asked_for.engine], "trust_remote_code", False)
    # Lists that say something else of these answers alone leave the fitted model as it was, to the byte.
    lists = {"sha256": [content_hash(path) for path in asked_for.files()]} if asked_for.gold_to_fit() else {}
    deferring = {DEFERRING: own.deciding_on(study.view, gold)} if isinstance(own, DeferringJudge) else {}
    return {"entry": asked_for.deciding_on(study.view, gold), "trust_remote_code": trust, **lists, **deferring}


def fitting(study: Study, judge: str) -> dict[str, Any]:
    """Return what decides the fit of a judge on gold: its settings, what is said of that gold, and other gold.

    Other gold may have its prompts; some that was taken away and comes back may be older than the fit.
    """
    others = sorted(set(study.gold) - set(study.judges[judge].gold_to_fit()))
    about = {
        name: {key: getattr(entry, key) for key in ("label", "written_to_label", "labelled_by_model")}
        for name, entry in study.gold.items()
    }
    return deciding(study, judge) | {"others": others, "about": about}


def deciding(study: Study, judge: str) -> dict[str, Any]:
    """Return the settings that decide the verdicts of a judge without an engine, and the content of its files."""
    entry = study.every_judge[judge]
    return {"entry": entry.deciding(), "sha256": [content_hash(path) for path in entry.files()]}


def judging_answers(study: Study, judge: str, model: str) -> dict[str, Any]:
    """Return what decides the verdicts of a judge without an engine on a model's answers, or on gold."""
    return deciding(study, judge) | {"entry": study.every_judge[judge].deciding_on(study.view, model == GOLD)}


def combining(study: Study, judge: str) -> dict[str, Any]:
    """Return what decides the verdicts of a judge that combines others', and the flags that these can raise."""
    entry = study.judges[judge]
    flags = {name: study.judges[name].flags(study.view) for name in entry.reads()}
    return {"entry": entry.deciding(), "flags": flags}
