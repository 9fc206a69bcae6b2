"""What moderates the cost of a refusal: its length, how close it is to the question, and the question's topic."""

from collections.abc import Mapping, Sequence

import numpy as np

from refusal_eval.features.battles.battle_rows import (
    SENSITIVE,
    SIMILAR_TO_ANSWER,
    SIMILAR_TO_PROMPT,
    BattleRows,
    NameArray,
)
from refusal_eval.features.battles.log_odds import LENGTH, coefficients, doublings
from refusal_eval.stats.estimates.estimate import NumberInterval
from refusal_eval.stats.estimates.intervals import Floats

# By moderator its estimand, and how much of it one unit of the coefficient is: 0.1 of a cosine, from 0 to 1.
MODERATORS = {
    LENGTH: ("battle_log_odds_by_length", 1.0),
    SIMILAR_TO_PROMPT: ("battle_log_odds_by_prompt", 0.1),
    SIMILAR_TO_ANSWER: ("battle_log_odds_by_answer", 0.1),
    SENSITIVE: ("battle_log_odds_by_sensitivity", 1.0),
}
Moderated = dict[tuple[str, str], NumberInterval | None]  # by moderator and class


def moderated_log_odds(
    battles: BattleRows, classes: NameArray, base: str, compared: Sequence[str], level: float
) -> tuple[Moderated, NameArray]:
    """Return by how much each moderator moves the log-odds of each class, and the places of the battles that tell it.

    The controlled regression of `log_odds` with, for each moderator m, the difference between both answers in m, and
    for each class their difference in m times being of the class, m less its mean. The former is the effect of m on
    answers of the baseline; the latter how much more m adds to those of the class. A moderator that both answers share,
    such as the topic, has only the latter. Battles of which nobody says whether the question is sensitive are left out,
    unless nobody says it of any.

    Args:
        classes: of both answers, battles x 2.
        base: the baseline.
        compared: the classes beside it.
    """
    asked = battles.moderators.get(SENSITIVE)
    keep = np.ones(len(battles), dtype=bool) if asked is None else ~np.isnan(asked[:, 0])
    battles, classes = battles.kept(keep), classes[keep]
    columns: dict[tuple[str, str], Floats] = {("", name): _difference(classes == name) for name in compared}
    for moderator, values in _values(battles).items():
        unit = MODERATORS[moderator][1]
        centred = (values - values.mean()) / unit
        own = _difference(centred)
        if own.any():
            columns[moderator, base] = own
        columns |= {(moderator, name): _difference(centred * (classes == name)) for name in compared}
    found = coefficients(battles, columns, True, level)
    return {key: number for key, number in found.items() if key[0]}, np.nonzero(keep)[0]


def _values(battles: BattleRows) -> Mapping[str, Floats]:
    return {LENGTH: doublings(battles), **battles.moderators}


def _difference(values: Floats) -> Floats:
    numbers = values.astype(float)
    return np.asarray(numbers[:, 0] - numbers[:, 1])
