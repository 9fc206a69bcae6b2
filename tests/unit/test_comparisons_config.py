"""Families of comparisons in a study file: what may stand there, and what is reported about mistakes."""

import pytest
from config_project import STUDY

TWO = STUDY | {"models": ["plain", "thinker"], "judges": ["words", "own"], "splits": ["hub-rows", "file-rows"]}


@pytest.mark.parametrize(
    "family",
    [
        {"pairs": "all"},
        {
            "pairs": [["thinker", "plain"]],
            "label": "Thinking",
            "splits": ["hub-rows"],
            "judge": "own",
            "scope": "splits",
        },
        {"against": "plain", "models": ["plain", "thinker"], "scope": "pooled"},
        {"judges": "all"},
        {"judges": [["words", "own"]], "models": ["plain"]},
    ],
)
def test_what_may_be_asked(project, family):
    (found,) = project.load(TWO | {"comparisons": [family]})["comparisons"]
    assert {key: found[key] for key in family} == family


def test_nothing_said_is_kept_apart_from_an_empty_list(project):
    assert project.load(TWO)["comparisons"] is None
    assert project.load(TWO | {"comparisons": []})["comparisons"] == []


@pytest.mark.parametrize(
    ("family", "reported"),
    [
        (
            {"against": "plane"},
            "comparisons[0].against: `plane` is not one of `models` of the study; did you mean `plain`? "
            "(allowed: plain, thinker)",
        ),
        (
            {"pairs": [["plain", "thinkr"]]},
            "comparisons[0].pairs[0][1]: `thinkr` is not one of `models` of the study; did you mean `thinker`? "
            "(allowed: plain, thinker)",
        ),
        (
            {"pairs": "all", "splits": ["hub-row"]},
            "comparisons[0].splits[0]: `hub-row` is not one of `splits` of the study; did you mean `hub-rows`? "
            "(allowed: file-rows, hub-rows)",
        ),
        (
            {"pairs": "all", "judge": "reader"},
            "comparisons[0].judge: `reader` is not one of `judges` of the study (allowed: own, words)",
        ),
        ({"judges": [["words", "words"]]}, "comparisons[0].judges[0]: `words` cannot be compared with itself"),
        (
            {"pairs": [["plain"]]},
            "comparisons[0].pairs[0]: a pair is two names, `[first, second]`, not 1",
        ),
        (
            {"pairs": [["plain", "thinker"], ["thinker", "plain"]]},
            "comparisons[0]: `pairs` names plain and thinker twice",
        ),
        ({"pairs": "all", "models": ["plain", "plain", "thinker"]}, "comparisons[0]: `models` names `plain` twice"),
        ({"pairs": "all", "splits": ["hub-rows"] * 2}, "comparisons[0]: `splits` names `hub-rows` twice"),
        ({"pairs": []}, "comparisons[0]: `pairs` must not be empty"),
        ({}, "comparisons[0]: name exactly one of `pairs`, `against` and `judges`"),
        ({"pairs": "all", "against": "plain"}, "comparisons[0]: name exactly one of `pairs`, `against` and `judges`"),
        (
            {"judges": "all", "judge": "own"},
            "comparisons[0]: `judge` is for comparisons of models; `judges` names those that are compared",
        ),
        (
            {"pairs": [["plain", "thinker"]], "models": ["plain"]},
            "comparisons[0]: `pairs` names its models itself; leave `models` out",
        ),
        (
            {"against": "plain", "models": ["plain"]},
            "comparisons[0].against: there is no other model to compare with `plain`",
        ),
        ({"pairs": "every"}, "comparisons[0].pairs: must be `all` or a list, not 'every': write [every]"),
        ({"pair": "all"}, "comparisons[0].pair: unknown key `pair`; did you mean `pairs`?"),
        ({"pairs": "all", "scope": "split"}, "comparisons[0].scope: 'split' is not allowed; did you mean `splits`?"),
        ("all", "comparisons[0]: must be a mapping of keys to values, not 'all'"),
    ],
)
def test_mistakes_are_reported_once_with_their_place(project, family, reported):
    (found,) = project.mistakes(TWO | {"comparisons": [family]})
    place, message = found.split(": ", 1)
    assert place.startswith("study.yaml:") and place.removeprefix("study.yaml:").isdigit()
    assert message.startswith(reported)


@pytest.mark.parametrize(
    ("key", "value", "reported"),
    [
        ("equivalence_margin", 0, "equivalence_margin: must be more than 0"),
        ("equivalence_margin", 5, "equivalence_margin: must be less than 1"),
        ("p_values", "middle", "p_values: 'middle' is not allowed"),
        ("multiple_comparisons", "fdr", "multiple_comparisons: 'fdr' is not allowed; did you mean `fdr_b"),
    ],
)
def test_mistakes_of_how_comparisons_are_tested(project, key, value, reported):
    (found,) = project.mistakes(TWO | {key: value})
    assert reported in found


def test_one_model_has_nothing_to_be_compared_with(project):
    (found,) = project.mistakes(STUDY | {"comparisons": [{"pairs": "all"}]})
    assert found.endswith("comparisons[0].pairs: there is one model only: nothing to compare it with")
    (found,) = project.mistakes(STUDY | {"comparisons": [{"judges": "all"}]})
    assert found.endswith("comparisons[0].judges: there is one judge only: nothing to compare it with")
