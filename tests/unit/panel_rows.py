"""Panels of judges, for the tests of judges among each other."""

import numpy as np
import pandas as pd

from refusal_eval.features.judge_pairs.pair_agreement import UNIT, JudgeVotes


def panel_of(
    labels: list[list[int]], clusters: list[str] | None = None, split: str = "s", samples: int = 1
) -> JudgeVotes:
    """A panel with an answer per row, so many of each prompt, and a judge per column."""
    names = tuple("abcdefgh"[: len(labels[0])]) if labels else ("a", "b")
    answers = [(split, "m", f"p{i // samples:03d}", i % samples, 0) for i in range(len(labels))]
    units = pd.DataFrame(answers, columns=UNIT)
    return JudgeVotes(
        names,
        units.assign(cluster=clusters or units["prompt_id"].tolist()),
        np.array(labels, dtype=np.int8).reshape(len(labels), len(names)),
    )
