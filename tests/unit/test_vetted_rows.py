"""Which prompts are kept by what a model says of each, and what became of the others."""

import pytest
from pydantic import ValidationError

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_jsonl
from refusal_eval.features.written.vetted_rows import VettedRows

pytestmark = pytest.mark.feature("written")

SAID = {
    "a": {"answer": "Harmless."},
    "b": {"answer": "harmful"},
    "c": {"answer": "It is harmless, I think."},
    "d": {"answer": "I'm sorry, but I can't help with that."},
    "e": {"answer": "harmless", "state": "truncated"},
    "f": {"answer": "", "state": "blocked"},
    "g": {"answer": "", "state": "failed"},
    "h": {"answer": "  \n HARMLESS\nbecause it is"},
}
WANTED = {"a": "kept", "b": "left_out", "c": "unparsable", "d": "refused", "e": "truncated"}
WANTED |= {"f": "blocked", "g": "failed", "h": "kept", "i": "failed"}


def vetted(**keys):
    usual = {"kind": "vetted", "split": "one", "by": "m", "template": "ask.md", "parse": {"first_line": True}}
    return VettedRows.model_validate(usual | {"keep": ["harmless"], "leave_out": ["harmful"]} | keys)


@pytest.fixture
def files(tmp_path):
    """Write prompts, what a model was asked about them and its answers, in another order; of `i` there is none."""
    names = [tmp_path / f"{name}.jsonl" for name in ("prompts", "asked", "answers")]
    prompts = [
        {"id": one, "messages": [{"role": "user", "content": f"{one}?"}], "cluster": f"c{one}", "category": one.upper()}
        | {"source": {"parent": f"p{one}", "kept": {"focus": one}}}
        for one in WANTED
    ]
    write_jsonl(names[0], prompts)
    write_jsonl(names[1], [{"id": f"q{one}", "source": {"parent": one}} for one in SAID])
    answers = [{"prompt_id": f"q{one}", "sample": 0, "turn": 0, "state": "complete"} | SAID[one] for one in SAID]
    write_jsonl(names[2], answers[::-1])
    return [str(name) for name in names]


def test_a_prompt_is_kept_by_one_of_the_words_alone(files):
    rows = vetted().own_rows(*files)
    assert [(row["id"], row["said"], row["parent"], row["focus"]) for row in rows] == [
        ("a", "Harmless.", "pa", "a"),
        ("h", "HARMLESS", "ph", "h"),
    ]
    assert rows[0]["messages"] == [{"role": "user", "content": "a?"}]
    assert (rows[0]["cluster"], rows[0]["category"]) == ("ca", "A")


def test_every_prompt_has_one_fate(files):
    fates = vetted().fates(*files)
    assert [fate.state for fate in fates] == list(WANTED.values())
    assert [fate.category for fate in fates if fate.passed] == ["A", "H"]
    assert {fate.words for fate in fates if fate.state in ("left_out", "truncated")} == {"left out", "cut off"}


def test_no_kept_prompt_is_an_error_that_says_so(files):
    with pytest.raises(UserError, match="`m` said fine of no prompt of `one`"):
        vetted(keep=["fine"]).own_rows(*files)


def test_the_word_may_be_at_a_key_of_json(files):
    write_jsonl(files[2], [
        {"prompt_id": "qa", "sample": 0, "turn": 0, "state": "complete",
         "answer": '{"why": "It is harmful to none.", "verdict": "harmless"}'}])  # fmt: skip
    assert [row["id"] for row in vetted(parse={"json": "verdict"}).own_rows(*files)] == ["a"]


def test_a_word_cannot_keep_and_leave_out():
    with pytest.raises(ValidationError, match="`Harmless` is in `keep` and in `leave_out`"):
        vetted(keep=["Harmless"], leave_out=["harmless!"])
