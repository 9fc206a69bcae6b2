"""An entry with a mistake is reported once, where it stands; whatever names it says nothing more."""

import pytest
from config_project import STUDY

FAR = {"name": "far", "models": ["plain"], "positive": {"split": "hub-rows"}, "negative": {"split": "file-rows"}}
ROWS = {"source": {"kind": "file", "path": "rows.csv"}, "columns": {"prompt": "question"}, "expectation": "comply"}
STEERED = {"models": ["plain", "steered", "control"], "directions": ["refusal", "chance"]}
BROKEN = {"wrong": 1}  # no entry has this key


def split(name, **keys):
    """Return a section of the catalogue with one data set of one split."""
    return {"own": {"splits": {name: ROWS | keys}}}


@pytest.mark.parametrize(
    ("entries", "study"),
    [
        (
            {"engines": {"it": {"like": "hub-engine"} | BROKEN}, "models": {"m": {"like": "plain", "engine": "it"}}},
            {"models": ["m"], "determinism": "strict"},
        ),
        (
            {"models": {"it": {"like": "plain"} | BROKEN}},
            {
                "models": ["plain", "it"],
                "separation": [FAR | {"models": ["it"]}],
                "comparisons": [{"pairs": [["it", "plain"]]}],
                "figures": [{"kind": "heatmap", "name": "h", "models": ["it"], "labels": {"models": {"it": "x"}}}],
            },
        ),
        ({"models": {"it": {"like": "plain"} | BROKEN, "heir": {"like": "it", "wrong": 1}}}, {"models": ["it"]}),
        (
            {"models": {"it": {"like": "scales", "sweep": {"scale": [0.5]}} | BROKEN, "heir": {"like": "it.scale0.5"}}},
            {
                "models": ["plain", "it"],
                "directions": ["refusal"],
                "separation": [FAR | {"models": ["it.scale0.5"]}],
                "comparisons": [{"pairs": [["it.scale0.5", "plain"]]}],
                "allow": ["it.scale0.5"],
            },
        ),
        ({"models": {"it": {"like": "scales"} | BROKEN}}, {"models": ["it.scale0.5"], "directions": ["refusal"]}),
        (
            {"models": {"it": {"like": "steered"} | BROKEN}},
            {
                "models": ["plain", "it"],
                "directions": ["refusal"],
                "figures": [{"kind": "dose_response", "name": "d"}],
            },
        ),
        (
            {
                "datasets": split("it", **BROKEN),
                "directions": {
                    "d": {
                        "model": "plain",
                        "positive": {"split": "it"},
                        "negative": {"split": "file-rows", "without": ["it"]},
                    }
                },
            },
            {"splits": ["it"], "directions": ["d"], "figures": [{"kind": "turns", "name": "t", "splits": ["it"]}]},
        ),
        ({"datasets": split("it", **BROKEN)}, STEERED | {"splits": ["wheel-rows", "it"]}),
        (
            {
                "judges": {
                    "it": {"like": "reader"} | BROKEN,
                    "p": {"kind": "panel", "members": ["it", "own"]},
                    "c": {"kind": "cascade", "first": "it", "then": "writer", "unsure": [0.2, 0.8]},
                },
                "gold": {"g": {"like": "people", "seen_by": ["it"]}},
            },
            {"judges": ["it", "own", "p", "c"], "primary_judge": "it", "gold": ["g"]},
        ),
        (
            {
                "judges": {
                    "it": {"like": "writer"} | BROKEN,
                    "c": {"kind": "cascade", "first": "reader", "then": "it", "unsure": [0.2, 0.8]},
                }
            },
            {"judges": ["reader", "c"], "allow": ["it"]},
        ),
        (
            {"judges": {"it": {"kind": "cascade", "first": "reader", "then": "writer", "unsure": [0, 1]} | BROKEN}},
            {"judges": ["reader", "it"], "allow": ["writer"]},
        ),
        (
            {
                "gold": {"it": {"like": "people"} | BROKEN},
                "judges": {
                    "l": {"like": "learner", "gold": ["it"]},
                    "r": {"like": "reader", "threshold": "calibrated", "calibrated_on": "it", "floor": {"se": 0.5}},
                },
            },
            {"gold": ["it"], "judges": ["reader", "l", "r"], "figures": [{"kind": "calibration", "name": "c"}]},
        ),
        (
            {
                "directions": {
                    "it": {"model": "plain", "positive": {"split": "s"}, "negative": {"split": "file-rows"}} | BROKEN
                },
                "models": {"m": {"like": "steered", "intervention": {"direction": "it"}}},
                "datasets": split("s", enabled=False, reason="Ask."),
            },
            {"models": ["plain", "m"], "directions": ["it"], "allow": ["s"]},
        ),
        ({}, {"separation": [FAR | BROKEN], "figures": [{"kind": "separation", "name": "s", "separation": "far"}]}),
        (
            {},
            {
                "models": "plain",
                "comparisons": [{"against": "plain"}],
                "figures": [{"kind": "heatmap", "name": "h", "models": ["plain"]}],
            },
        ),
    ],
)
def test_what_names_an_entry_with_a_mistake_says_nothing_more(project, entries, study):
    project.write("own.yaml", entries)
    found = project.mistakes(STUDY | study | {"catalogue": ["own.yaml"]})
    own = [line for line in found if "unknown key `wrong`" in line or line.startswith("study.yaml:2: models: must be")]
    assert found == own and found, found


def test_names_that_no_entry_has_are_reported_whatever_else_is_wrong_with_the_entries_that_name_them(project):
    project.write(
        "own.yaml",
        {
            "models": {"m": {"like": "plain", "engine": "hub-engin", "label": 3}},
            "judges": {"c": {"kind": "cascade", "first": "reader", "then": "writr", "unsure": [0.9, 0.2]}},
            "gold": {"g": {"like": "people", "raters": "many", "seen_by": ["own", "wrods"]}},
        },
    )
    found = project.mistakes(STUDY | {"models": ["m"], "catalogue": ["own.yaml"]})
    assert [line.partition(" (")[0].split(": ", 1)[1] for line in found] == [
        "models.m.engine: there is no engine `hub-engin` in the catalogue; did you mean `hub-engine`?",
        "models.m.label: must be text, not 3: put it in quotes",
        "judges.c: `unsure` goes from low to high, not from 0.9 to 0.2",
        "judges.c.then: there is no judge `writr` in the catalogue; did you mean `writer`?",
        "gold.g.raters: must be a whole number, not 'many'",
        "gold.g.seen_by[1]: there is no judge `wrods` in the catalogue; did you mean `words`?",
    ]


def test_a_key_of_the_study_with_a_mistake_leaves_the_checks_of_the_others(project):
    study = STUDY | {"samples": "three", "mixed_model": True, "protocol": "compat", "scoring": {"tau": 2, "band": 0.1}}
    assert [line.split(": ")[1] for line in project.mistakes(study)] == ["samples", "scoring.tau"]


def test_what_an_entry_does_to_its_study_is_told_when_the_entry_is_right(project):
    greedy = {"engine": "hub-engine", "sampling": {"max_tokens": 9, "temperature": 0}}
    for changes, message in (({"label": 3}, "models.m.label: must be text"), ({}, "`samples` must be 1 (it is 3)")):
        project.write("own.yaml", {"models": {"m": greedy | changes}})
        (found,) = project.mistakes(STUDY | {"models": ["m"], "catalogue": ["own.yaml"]})
        assert message in found
