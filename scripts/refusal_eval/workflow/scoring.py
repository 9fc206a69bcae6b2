"""What the rules in workflow/rules/score.smk ask of a study: what decides a cell's numbers, and a judge's card."""

from pathlib import Path
from typing import Any

from refusal_eval.config.change import changes_of
from refusal_eval.config.kinds import PROTOCOLS
from refusal_eval.config.protocol import DEFAULT
from refusal_eval.study.study import Study


def named_protocol(study: Study) -> dict[str, str]:
    """Return the protocol for what shows it; nothing for the default one."""
    protocol = study.protocol.name
    return {} if protocol == DEFAULT else {"protocol": protocol}


def protocol_code(study: Study) -> list[Path]:
    """Return the module of the study's protocol, for `code_version`; nothing for the default one."""
    return [PROTOCOLS.module(name) for name in named_protocol(study).values()]


def cell(study: Study, judge: str, model: str, split: str) -> dict[str, Any]:
    """Return what, besides answers and verdicts, decides a cell's numbers."""
    entry = study.settings.split_entries[split]
    asked = study.models[model]
    fitted = any(change.fitted_prompts(change.value_in(asked)) for change in changes_of(asked))
    turns = {"scored": entry.dialogue.scored_turns, "by_turn": entry.dialogue.by_turn} if entry.dialogue else {}
    return {
        "judge": judge,
        "model": model,
        "split": split,
        "expectation": entry.expectation,
        "headline": entry.headline,
        "samples": study.settings.samples,
        "max_tokens": asked.longest,
        **study.settings.scoring.model_dump(),
        **turns,
        **({"match": entry.match} if entry.match else {}),
        **({"fitted_prompts": True} if fitted else {}),
        **named_protocol(study),
        **_noticed(study, judge),
    }


def _noticed(study: Study, judge: str) -> dict[str, Any]:
    """Return what is counted of a judge's verdicts beside its labels; nothing for most."""
    entry, asks = study.judges[judge], study.engine_judges.get(judge)
    kinds = [list(row) for row in entry.named_kinds(study.view).items()]
    again = asks is not None and asks.votes_asked().retries > 0
    found = {"judge_flags": entry.flags(study.view), "kinds": kinds, "votes_asked_again": again}
    return {name: value for name, value in found.items() if value}


def card(study: Study, judge: str, gold: str) -> dict[str, Any]:
    """Return what, besides gold and verdicts, decides a judge's card."""
    entry, calibrated = study.gold[gold], calibrated_on(study, judge)
    more: dict[str, Any] = {"calibrated_on": calibrated} if calibrated else {}
    own = study.judges[judge]
    if gold in own.gold_behind(study.view):
        more["fitted_here"] = True
    if calibrated is None and own.own_threshold() is None and own.gives_probabilities != "never":
        more["own_labels"] = True
    if own.how_asked():
        more["how_asked"] = own.how_asked()
    more |= entry.whose
    if saw(study, judge, gold):
        more["seen"] = True
    of_judge = own.named_kinds(study.view)
    if of_judge and entry.kinds and of_judge.keys() >= set(entry.kinds.values()):
        more["kinds"] = list(of_judge)
    if flags := sorted(set(entry.flags) & set(own.flags(study.view))):
        more["flags"] = flags
    return {
        "judge": judge,
        "gold": gold,
        "raters": entry.raters,
        "human_kappa": entry.human_kappa.model_dump() if entry.human_kappa else None,
        "anchors": [anchor.published() for anchor in entry.anchors],
        "level": study.settings.scoring.level,
    } | more


def saw(study: Study, judge: str, gold: str) -> bool:
    """Tell whether a judge, or one whose verdicts it passes on, was chosen or tuned on a gold set.

    An entry that differs from such a judge in name, label and floor alone is the same judge.
    """
    entry, named = study.judges[judge], study.gold[gold].seen_by
    seen = [study.judges[name].deciding() for name in named if name in study.judges]
    if judge in named or entry.second() in named or entry.deciding() in seen:
        return True
    return any(saw(study, other, gold) for other in entry.reads() if other in study.judges)


def calibrated_on(study: Study, judge: str) -> str | None:
    """Return the gold set that a judge's threshold is fitted on, None for a threshold of its own."""
    gold: str | None = study.judges[judge].threshold_on_gold(study.view)
    return gold
