"""The neutral row: what it may say, what is refused, and how files of such rows are read."""

import json

import pyarrow
import pyarrow.parquet
import pytest
from project import ROOT

from refusal_eval.config.log_reader import reader_of
from refusal_eval.core.errors import UserError
from refusal_eval.core.states import ANSWER_STATES, BLOCKERS, LABELS
from refusal_eval.features.recorded_logs.neutral_row import NeutralRow, neutral_row
from refusal_eval.features.recorded_logs.table_reader import LABEL, USUAL

pytestmark = pytest.mark.feature("recorded_logs")
LEAST = {"prompt": "How do I kill a process?", "answer": "Use kill."}
FULL = {
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    "model": "acme/open",
    "split": "greetings",
    "prompt_id": "p0",
    "sample": 2,
    "turn": 0,
    "answer": "",
    "reasoning": "Hm.",
    "finish_reason": "content_filter",
    "blocked": {"by": "classifier", "category": "cyber"},
    "answer_logprob": -0.5,
    "labels": [{"by": "theirs", "label": "refusal", "probability": 0.9, "reason": "It declines."}],
    "category": "code",
    "cluster": "pair-1",
    "expectation": "comply",
}


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path):
    return reader_of(path).read(path, {})


def test_a_prompt_and_an_answer_are_enough(tmp_path):
    [row] = read(written(tmp_path / "a.jsonl", LEAST)).rows
    assert row == LEAST | {"source": {"file": "a.jsonl", "line": 1}}


def test_all_that_a_row_says_is_kept_from_jsonl_and_from_parquet(tmp_path):
    rows = [FULL, FULL | {"sample": 1, "labels": None}]
    from_lines = read(written(tmp_path / "a.jsonl", *rows)).rows
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    from_parquet = read(tmp_path / "a.parquet").rows
    for found in (from_lines, from_parquet):
        assert [{key: value for key, value in row.items() if key != "source"} for row in found] == [
            FULL,
            {key: value for key, value in FULL.items() if key != "labels"} | {"sample": 1},
        ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"answer": None}, "has no `answer`"),
        ({"prompt": None}, "it needs either `prompt` or `messages`"),
        ({"messages": [{"role": "user", "content": "x"}]}, "it needs either `prompt` or `messages`"),
        ({"prompt": None, "messages": [{"role": "assistant", "content": "x"}]}, "must end with one of the user"),
        ({"anwser": "x"}, "did you mean `answer`?"),
        ({"state": "done"}, "`state` is 'done'"),
        ({"sample": -1}, "`sample` is -1"),
        ({"answer_logprob": 0.5}, "`answer_logprob` is 0.5"),
        ({"answer": 3}, "`answer` is 3"),
        ({"answer": "\ud83d"}, "half of a surrogate pair"),
        ({"blocked": {"by": "classifier"}, "state": "complete"}, "`blocked`, but its `state` is `complete`"),
        ({"labels": [{"by": "a", "label": "refusal"}] * 2}, "two labels of `a`"),
        ({"labels": [{"by": "a"}]}, "none of `label`, `probability` and `reason`"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place_and_field(change, said):
    with pytest.raises(UserError) as error:
        neutral_row(LEAST | change, "a.jsonl, line 7")
    assert str(error.value).startswith("a.jsonl, line 7: ") and said in str(error.value)
    assert "\n" not in str(error.value)


def test_bad_files_are_refused_with_file_and_line(tmp_path):
    cut = tmp_path / "cut.jsonl"
    cut.write_text(json.dumps(LEAST) + "\n\n" + json.dumps(LEAST)[:20])
    with pytest.raises(UserError, match=r"cut\.jsonl, line 3: is not valid JSON"):
        read(cut)
    long = written(tmp_path / "long.jsonl", LEAST, LEAST | {"answer": "x" * 10_000_000})
    with pytest.raises(UserError, match=r"long\.jsonl, line 2: is longer than 8\.0 MB"):
        read(long)
    twice = tmp_path / "twice.jsonl"
    twice.write_text(json.dumps(LEAST) + '\n{"prompt": "a", "answer": "b", "answer": "c"}\n')
    with pytest.raises(UserError, match=r'twice\.jsonl, line 2: the key "answer" stands twice'):
        read(twice)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UserError, match=r"empty\.jsonl is empty"):
        read(tmp_path / "empty.jsonl")
    with pytest.raises(UserError, match="there is no file"):
        read(tmp_path / "absent.jsonl")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    with pytest.raises(UserError, match="no file of answers that can be read"):
        read(tmp_path / "picture.png")
    large = tmp_path / "large.jsonl"
    with open(large, "wb") as handle:
        handle.write(json.dumps(LEAST).encode() + b"\n")
        handle.truncate(2_100_000_000)
    with pytest.raises(UserError, match=r"large\.jsonl has 2\.1 GB"):
        read(large)


def test_states_and_labels_are_those_of_answers_and_verdicts():
    fields = NeutralRow.model_json_schema()
    assert fields["properties"]["state"]["anyOf"][0]["enum"] == list(ANSWER_STATES)
    assert fields["$defs"]["NeutralLabel"]["properties"]["label"]["anyOf"][0]["enum"] == list(LABELS)
    assert fields["$defs"]["NeutralBlock"]["properties"]["by"]["anyOf"][0]["enum"] == list(BLOCKERS)


def test_the_page_explains_every_field_and_the_readers_that_there_are():
    page = (ROOT / "docs" / "how-to" / "judge_answers.md").read_text(encoding="utf-8")
    table = page.partition("## The neutral row")[2]
    assert [field for field in NeutralRow.model_fields if f"`{field}`" not in table] == []
    columns = page.partition("| **tables**")[2].partition("\n")[0]
    assert [field for field in (*USUAL, LABEL) if f"`{field}`" not in columns] == []
