"""What a judge needs of the study it is in."""

import pytest

from refusal_eval.config.judge_checks import judge_mistakes

WORDS, LABEL = {"kind": "keyword"}, {"kind": "llm", "threshold": 0.5}


def told(judges, gold=("people",)):
    return [(name, path, message) for name, path, message in judge_mistakes(judges, list(gold))]


def test_a_sound_study_has_no_mistakes():
    panel = {"kind": "panel", "members": ["words", "label"]}
    learner = {"kind": "trained", "gold": ["people"], "floor": {"se": 0.8}}
    calibrated = {"kind": "llm", "threshold": "calibrated"}
    assert told({"words": WORDS, "label": LABEL, "panel": panel, "learner": learner, "soft": calibrated}) == []


@pytest.mark.parametrize(
    ("judges", "gold", "path", "words"),
    [
        ({"p": {"kind": "panel", "members": ["words", "lable"]}}, "g", ("members", 1), "did you mean `label`?"),
        ({"p": {"kind": "panel", "members": ["p", "words"]}}, "g", ("members", 0), "`p` is not one of"),
        (
            {"p": {"kind": "panel", "members": ["q", "words"]}, "q": {"kind": "panel"}},
            "g",
            ("members", 0),
            "a panel itself",
        ),
        (
            {"p": {"kind": "panel", "members": ["soft", "words"]}, "soft": {"kind": "llm", "threshold": "calibrated"}},
            "g",
            ("members", 0),
            "would not be true",
        ),
        ({"t": {"kind": "trained", "gold": ["peple"]}}, ["people"], ("gold", 0), "did you mean `people`?"),
        ({"s": {"kind": "llm", "threshold": "calibrated"}}, [], ("threshold",), "needs gold"),
        (
            {"s": {"kind": "llm", "threshold": "calibrated", "calibrated_on": "x"}},
            ["people"],
            ("calibrated_on",),
            "`x` is not in `gold`",
        ),
        ({"k": {"kind": "keyword", "floor": {"se": 0.9}}}, [], ("floor",), "needs gold to be measured on"),
    ],
)
def test_what_a_judge_lacks_is_told_where_it_stands(judges, gold, path, words):
    ((_, where, message),) = told({"words": WORDS, "label": LABEL, **judges}, gold)
    assert where == path and words in message
