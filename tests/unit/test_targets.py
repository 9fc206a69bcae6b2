"""Published figures of a study: what is wrong with their file, and which number of the study is put beside each."""

import pytest
from config_project import STUDY, WHOLE_STUDY

from refusal_eval.stats.estimates.estimate import Estimate

pytestmark = pytest.mark.feature("targets")
HEADER = "model,split,number,value,source,category,judge,reading,parameter,unit,note\n"
WITH = STUDY | {"targets": "figures.csv"}


def mistakes(project, *lines, header=HEADER):
    project.write("figures.csv", header + "".join(f"{line}\n" for line in lines))
    return project.mistakes(WITH)


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("plain,hub-rows,refusal_rate,0.27,A paper", None),
        ("plain,hub-rows,refusal_rate,27.4,A paper,,,,,percent", None),
        ("GPT 4,hub-rows,refusal_rate,0.27,A paper", None),
        ("plain,,accuracy on MMLU,46.57,A paper,,,,,percent,no benchmark of this study", None),
        ("plain,file-rows,refusal_rate,0.27,A paper", None),  # a split of the catalogue
        ("plain,hub-rows,refusal_rat,0.27,A paper", "did you mean `refusal_rate`? If it is another quantity, say in"),
        ("plain,hub-rows,refusal_rat,0.27,A paper,,,,,,Something", "did you mean `refusal_rate`?"),
        ("plain,hub-rows,usefulness,0.27,A paper", "there is no number `usefulness` in the data dictionary"),
        ("plain,hub-row,refusal_rate,0.27,A paper", "there is no split `hub-row`; did you mean `hub-rows`?"),
        ("plane,hub-rows,refusal_rate,0.27,A paper", "there is no model `plane`; did you mean `plain`?"),
        ("plain,hub-rows,refusal_rate,0.27,A paper,,word", "there is no judge `word`; did you mean `words`?"),
        ("plain,hub-rows,refusal_rate,0.27,A paper,,,strikt", "there is no reading `strikt`; did you mean `strict`?"),
        (
            "plain,hub-rows,refusal_rate,27.4,A paper",
            "`value` is 27.4, and a share is between 0 and 1; write `percent`",
        ),
        ("plain,hub-rows,refusal_rate,127,A paper,,,,,percent", "`value` is 127, and a share is between 0 and 100"),
        ("plain,hub-rows,refusal_rate,-0.1,A paper", "a share is between 0 and 1"),
        (
            "plain,hub-rows,usefulness,46.57,A paper,,,,,,Something",
            "write `percent` under `unit` if it is one, or its own",
        ),
        ("plain,hub-rows,refusal_rate,27%,A paper", "`value` is '27%', which is not a number such as 0.27 or 27.4"),
        ("plain,hub-rows,refusal_rate,nan,A paper", "`value` is 'nan', which is not a number"),
        ("plain,hub-rows,c_mean,0.3,A paper,,,,,percent", "`unit` is percent, and `c_mean` is no share"),
        ("plain,hub-rows,refusal_rate,0.3,A paper,,,,,points", "`unit` is 'points', and `refusal_rate` is a share"),
        ("plain,hub-rows,refusal_rate,0.27,", "`source` is empty: say where it is published"),
        ("plain,hub-rows,refusal_rate,0.27,A paper,,,,,,,,", "has 13 fields, and the header 11"),
    ],
)
def test_what_is_wrong_with_a_row_is_said_with_its_line(project, line, reported):
    fields = line.split(",")
    line = ",".join([*fields, *[""] * (11 - len(fields))])
    found = mistakes(project, "plain,hub-rows,c_mean,0.3,Another,,,,,,", line)
    if reported is None:
        assert found == []
    else:
        (said,) = found
        assert "targets: figures.csv:3: " in said and reported in said, said


def test_what_is_wrong_with_the_file(project):
    (said,) = mistakes(project, header="model,split,nummer,value,source,number\n")
    assert "figures.csv:1: there is no column `nummer`; did you mean `number`?" in said
    (said,) = mistakes(project, header="model,split,number,value\n")
    assert "figures.csv:1: the column `source` is missing" in said
    (said,) = mistakes(project, header="")
    assert "figures.csv:1: is empty" in said
    row = "plain,hub-rows,refusal_rate,0.27,A paper,,,,,,"
    (said,) = mistakes(project, row, row)
    assert "figures.csv:3: the same number of the same source stands in line 2" in said
    project.write("figures.csv", "")
    (said,) = project.mistakes(STUDY | {"targets": "figure.csv"})
    assert "figure.csv" in said and "figures.csv" in said
    assert "a file that ends in .csv" in project.mistakes(STUDY | {"targets": "figures.txt"})[0]


def test_a_row_over_several_lines_has_the_line_of_its_beginning(project):
    note = '"two\nlines"'
    found = mistakes(project, f"plain,hub-rows,c_mean,0.3,A paper,,,,,,{note}", "plain,hub-rows,c_mean,x,A paper,,,,,,")
    assert len(found) == 1 and "figures.csv:4: " in found[0]


ASKED = {"primary_judge": "words", "tau": 1.0, "splits": [{"name": "one", "reading": "broad"}]}


def own(results, line, asked=ASKED):
    from refusal_eval.features.targets.target_rows import read_targets
    from refusal_eval.features.targets.targets_table import paired

    found, wrong = read_targets(HEADER + line + "," * (10 - line.count(",")))
    assert wrong == []
    ((_, estimate, several),) = paired(found, results, asked)
    return (estimate and estimate.value, list(several))


def rows(estimand, *numbers, **about):
    """Return rows of a results table: each of `numbers` is a value and what differs of the names."""
    return [
        Estimate(estimand, value, **{"judge": "words", "model": "m 1", "split": "one"} | about | names)
        for value, names in numbers
    ]


def test_the_number_put_beside_is_that_of_the_same_quantity_and_no_other():
    every = rows(
        "refusal_rate",
        (0.1, {"reading": "strict"}),
        (0.2, {"reading": "broad"}),
        (0.3, {"reading": "broad", "category": "a"}),
        (0.4, {"reading": "broad", "judge": "other"}),
        (0.5, {"reading": "broad", "pool": "comply", "split": None}),
        (0.6, {"reading": "broad", "model": "m 2"}),
        (0.7, {"reading": "broad", "split": "two"}),
    )
    assert own(every, "m 1,one,refusal_rate,0.9,S") == (0.2, []), "the split's headline, under the primary judge"
    assert own(every, "m 1,one,refusal_rate,0.9,S,,,strict") == (0.1, [])
    assert own(every, "m 1,one,refusal_rate,0.9,S,a") == (0.3, [])
    assert own(every, "m 1,one,refusal_rate,0.9,S,,other") == (0.4, [])
    assert own(every, "M 3,one,refusal_rate,0.9,S") == (None, []), "published only"
    assert own(every, "m 1,,refusal_rate,0.9,S") == (None, []), "a pool is no split"
    assert own(every, "m 1,one,refusal_rate_at_most,0.9,S") == (None, [])
    assert own(every, "m 1,one,word,0.9,S,,,,,,Another quantity") == (None, [])


def test_of_several_numbers_the_file_names_one():
    shares = rows("kind_share", (0.1, {"parameter": "direct"}), (0.2, {"parameter": "indirect"}))
    assert own(shares, "m 1,one,kind_share,0.9,S") == (None, ["direct", "indirect"])
    assert own(shares, "m 1,one,kind_share,0.9,S,,,,indirect") == (0.2, [])
    c = rows("c_positive", (0.1, {"parameter": 0.5}), (0.2, {"parameter": 1.0}), (0.3, {"parameter": "inf"}))
    assert own(c, "m 1,one,c_positive,0.9,S") == (0.2, []), "of c(x), that at the study's tau"
    assert own(c, "m 1,one,c_positive,0.9,S", ASKED | {"tau": 0.5}) == (0.1, [])
    assert own(rows("majority@5", (0.4, {"reading": "broad"})), "m 1,one,majority@K,0.9,S") == (0.4, [])


def test_a_study_with_targets_has_their_table_and_others_do_not(project):
    from refusal_eval.study.study import Study

    with_targets, without = WHOLE_STUDY, {key: value for key, value in WHOLE_STUDY.items() if key != "targets"}
    assert "targets" in Study(project.load(with_targets)).tables
    assert "targets" not in Study(project.load(without)).tables
