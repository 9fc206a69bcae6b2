"""Which rows of a source are prompts (`where`), and which belong together by a file of clusters."""

import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.data.prompts import make_prompts
from refusal_eval.data.selection import read_clusters

COLUMNS = {"prompt": "prompt", "category": None, "cluster": None, "id": "id"}
ROWS = [
    {"prompt": "a", "id": 1, "label": "safe", "level": 1, "checked": True},
    {"prompt": "b", "id": 2, "label": "unsafe", "level": 2, "checked": False},
    {"prompt": "c", "id": 3, "label": "safe", "level": 2, "checked": True},
    {"prompt": "d", "id": 4, "label": None, "level": 3, "checked": True},
]


def kept(where, **options):
    prompts, _ = make_prompts(ROWS, COLUMNS, "f", where=where, **options)
    return [prompt["source"]["row"] for prompt in prompts]


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ({"label": "safe"}, [1, 3]),
        ({"label": ["safe", "unsafe"]}, [1, 2, 3]),
        ({"level": 2}, [2, 3]),
        ({"level": "2"}, [2, 3]),
        ({"checked": True, "label": "safe"}, [1, 3]),
        ({"label": "safe", "level": 2}, [3]),
        ({"label": ""}, [4]),
        ({"label": ["unsafe", ""]}, [2, 4]),
        ({"label": "", "level": 3}, [4]),
        (None, [1, 2, 3, 4]),
    ],
)
def test_rows_keep_their_numbers_in_the_source(where, rows):
    assert kept(where) == rows


@pytest.mark.parametrize(
    ("where", "options", "message"),
    [
        ({"lable": "safe"}, {}, r"f: has no column `lable`; did you mean `label`"),
        (
            {"label": "saef"},
            {},
            r"f: no row has `saef` in column `label`; did you mean `safe`\? "
            r"\(its values, with rows: `safe` \(2\), `unsafe` \(1\), empty \(1\)\)",
        ),
        ({"level": ""}, {}, r"f: no row is empty in column `level` \(its values, with rows: `2` \(2\), `1` \(1\), `3`"),
        ({"label": "None"}, {}, "f: no row has `None` in column `label`"),
        ({"label": ""}, {"expected_kept": 3}, "f: 1 rows have `label` empty, but expected_kept says 3"),
        ({"label": ["safe", "harmless"]}, {}, "no row has `harmless` in column `label`"),
        ({"label": "unsafe", "level": 3}, {}, "f: no row has `label` unsafe and `level` 3 at once"),
        ({"label": "safe"}, {"expected_kept": 3}, "f: 2 rows have `label` safe, but expected_kept says 3"),
        ({"label": "safe"}, {"expected_rows": 2}, "f: has 4 rows, but expected_rows says 2"),
    ],
)
def test_a_filter_that_would_leave_rows_out_by_mistake_is_reported(where, options, message):
    with pytest.raises(UserError, match=message):
        kept(where, **options)


@pytest.mark.parametrize(("cells", "wanted"), [(["1.0", "2.0"], 1.0), ([1.0, None], 1), (["1", "2"], 1.0)])
def test_a_number_is_found_as_the_source_writes_it(cells, wanted):
    rows = [{"prompt": str(number), "id": number, "level": cell} for number, cell in enumerate(cells)]
    prompts, _ = make_prompts(rows, COLUMNS, "f", where={"level": wanted})
    assert [prompt["source"]["row"] for prompt in prompts] == [1]


def test_rows_are_counted_before_and_after_the_filter():
    _, notes = make_prompts(ROWS, COLUMNS, "f", where={"label": "safe"}, expected_rows=4, expected_kept=2)
    assert notes == ["f: 2 of 4 rows have `label` safe, 2 left out", "f: 2 rows, 2 different prompts"]


def test_further_columns_are_kept_with_the_prompt_and_decide_nothing():
    plain, _ = make_prompts(ROWS, COLUMNS, "f")
    more, _ = make_prompts(ROWS, COLUMNS | {"keep": ["label", "level"]}, "f")
    assert more[0]["source"] == {"file": "f", "row": 1, "id": "1", "kept": {"label": "safe", "level": "1"}}
    assert more[3]["source"]["kept"] == {"label": None, "level": "3"}
    assert [prompt["id"] for prompt in more] == [prompt["id"] for prompt in plain]
    assert all("kept" not in prompt["source"] for prompt in plain)
    with pytest.raises(UserError, match="f: has no column `levl`"):
        make_prompts(ROWS, COLUMNS | {"keep": ["levl"]}, "f")


# ---------------------------------------------------------------- clusters by id

PAIRS = {"1": "p", "2": "p", "3": "q", "4": "r"}


def test_a_file_of_clusters_names_rows_by_their_ids_also_those_that_are_filtered_out():
    prompts, notes = make_prompts(ROWS, COLUMNS, "f", where={"label": "safe"}, clusters=PAIRS)
    assert [prompt["cluster"] for prompt in prompts] == ["p", "q"]
    assert notes[-1] == "f: 2 clusters in 2 prompts"


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        ({"1": "p", "2": "p"}, r"f: its file of clusters lacks 2 ids: 3 \(row 3\), 4 \(row 4\)"),
        ({**PAIRS, "9": "z"}, "f: its file of clusters names rows that are not there: the id 9"),
    ],
)
def test_a_file_of_clusters_that_does_not_fit_is_reported(clusters, message):
    with pytest.raises(UserError, match=message):
        make_prompts(ROWS, COLUMNS, "f", clusters=clusters)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "1", "cluster": "a"}, {"id": "1", "cluster": "b"}], "c.csv, row 2: the id `1` stands twice"),
        ([{"id": "1", "cluster": ""}], "c.csv, row 1: `id` and `cluster` must not be empty"),
        ([{"id": "1", "pair": "a"}], "c.csv: has no column `cluster`"),
    ],
)
def test_a_bad_file_of_clusters_is_reported(rows, message):
    with pytest.raises(UserError, match=message):
        read_clusters(rows, "c.csv")
