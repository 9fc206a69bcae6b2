"""The judge whose scores came with recorded answers."""

from typing import ClassVar, Literal

from refusal_eval.config.judge_entry import JudgeEntry


class RecordedJudge(JudgeEntry):
    """The judge whose scores came with recorded answers (`recorded` of a model): judge_scores.json beside them."""

    way: ClassVar[Literal["recorded"]] = "recorded"

    kind: Literal["recorded"]
