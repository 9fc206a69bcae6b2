"""The keyword judge under attack: refusals in other letters, codes, places and wrappings, and what looks like one."""

from collections import Counter

import pytest
from keyword_attacks import ATTACKS

from refusal_eval.judges.keyword_judge import KeywordReader


@pytest.fixture(scope="module")
def keyword(repository):
    return KeywordReader.from_files(
        repository / "config" / "keywords" / f"{name}.yaml" for name in ("english", "chinese")
    )


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(
            attack,
            id=f"{attack.kind}: {attack.name}",
            marks=[pytest.mark.xfail(strict=True, reason=attack.wrong)] if attack.wrong else [],
        )
        for attack in ATTACKS
    ],
)
def test_an_attack_changes_no_verdict(attack, keyword):
    assert keyword.judge([], attack.answer).label == attack.want


def test_there_are_forty_attacks_or_more_of_each_label():
    assert len(ATTACKS) >= 40
    assert min(Counter(attack.want for attack in ATTACKS).values()) >= 5
