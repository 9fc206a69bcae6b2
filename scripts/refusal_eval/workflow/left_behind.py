"""Which models a run up to a rule leaves out, as they are made of what comes behind that rule (`--until answers`)."""

from __future__ import annotations

from collections.abc import Collection

from refusal_eval.config.change import changes_of
from refusal_eval.study.study import Study

# Rules that answers, and those that verdicts, pass on their way to what a change is made from.
OF_ANSWERS = frozenset({"requests", "generate", "answers"})
OF_VERDICTS = frozenset({"judge_requests", "judge", "llm_verdicts", "cpu_verdicts", "panel_verdicts", "score"})


def left_behind(study: Study, until: Collection[str]) -> list[str]:
    """Return the models that a run up to these rules does not ask, in the study's order.

    A model is made from another one's answers or verdicts where its change is (`Change.made_from`): then the run ends
    before there is anything to make it from.
    """
    found = []
    for name, model in study.models.items():
        made_of = {source for change in changes_of(model) for source in change.made_from(getattr(model, change.name))}
        captures = [capture for capture in study.captures if (capture.use, capture.name) in made_of]
        judged = any(part.judge for capture in captures for part in capture.parts)
        answered = judged or any(capture.positions == "answer_mean" for capture in captures)
        if (answered and OF_ANSWERS & set(until)) or (judged and OF_VERDICTS & set(until)):
            found.append(name)
    return found


def about_left_behind(until: Collection[str], models: Collection[str]) -> str:
    """Return what the user reads of models that are left out."""
    count = len(models)
    return (
        f"--until {' '.join(sorted(until))} leaves out {count} model{'s' if count > 1 else ''} that "
        f"{'are' if count > 1 else 'is'} made from verdicts or answers of another: {', '.join(models)}. Run without it "
        "to ask them too."
    )
