"""Prompts of dialogues: scripts with given replies and without, asked as a whole or turn by turn."""

import json
import random

import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.data.prompts import content_id, make_prompts
from refusal_eval.study.dialogues import asked_turns

NONE = {"prompt": None, "messages": None, "category": None, "cluster": None, "id": None}
CHAT = {**NONE, "messages": "chat"}
TURNS = {**NONE, "turns": ["first", "second", "third"]}
WHO = {"s": "system", "u": "user", "a": "assistant"}


def chat(*texts):
    """Return messages; the letter before a number is the role: s system, u user, a assistant."""
    return [{"role": WHO[text[0]], "content": text} for text in texts]


def texts(prompt):
    return [message["content"] for message in prompt["messages"]]


def prompts_of(*scripts, mode, columns=CHAT, **options):
    return make_prompts([{"chat": script} for script in scripts], columns, "f", mode=mode, **options)[0]


def test_a_cumulative_prompt_is_the_whole_script():
    script = chat("s", "u0", "a0", "u1", "u2")
    (prompt,) = prompts_of(script, mode="cumulative")
    identity = content_id(script)
    source = {"file": "f", "row": 1, "id": None}
    assert prompt == {
        "id": identity, "messages": script, "dialogue": True, "category": None, "cluster": identity, "source": source,
    }  # fmt: skip
    assert asked_turns(prompt) == [1, 2]


def test_independent_prompts_keep_the_first_turn_and_drop_the_other_replies():
    prompts = prompts_of(chat("s", "u0", "a0", "u1", "a1", "u2"), mode="independent")
    assert [texts(prompt) for prompt in prompts] == [["s", "u0", "a0", last] for last in ("u1", "u2")]
    # With a given first reply there is nothing to ask before: they are questions with a history, as in other splits.
    assert not any("dialogue" in prompt for prompt in prompts)
    assert [prompt["id"] for prompt in prompts] == [content_id(prompt["messages"]) for prompt in prompts]
    assert [prompt["source"] for prompt in prompts] == [
        {"file": "f", "row": 1, "id": None, "turn": turn} for turn in (1, 2)
    ]
    prompts = prompts_of(chat("u0", "u1", "a1", "u2"), mode="independent")
    assert [texts(prompt) for prompt in prompts] == [["u0", "u1"], ["u0", "u2"]]
    assert all(prompt["dialogue"] is True and asked_turns(prompt) == [0, 1] for prompt in prompts)


def test_prompts_of_one_script_share_its_cluster_and_category():
    scripts = [chat("u0", "u1", "u2"), chat("u0", "u3")]
    prompts = prompts_of(*scripts, mode="independent")
    assert [prompt["cluster"] for prompt in prompts] == [content_id(scripts[i]) for i in (0, 0, 1)]
    rows = [{"chat": scripts[0], "subject": "knots", "kind": "k"}]
    named = make_prompts(rows, {**CHAT, "cluster": "subject", "category": "kind"}, "f", mode="independent")[0]
    assert [(prompt["cluster"], prompt["category"]) for prompt in named] == [("knots", "k")] * 2


def test_the_same_question_of_two_scripts_is_kept_once_and_reported():
    rows = [{"chat": chat("u0", "u1", "u2")}, {"chat": chat("u0", "u2")}]
    prompts, notes = make_prompts(rows, CHAT, "f", mode="independent")
    assert [texts(prompt) for prompt in prompts] == [["u0", "u1"], ["u0", "u2"]]
    assert notes == [
        "f: 2 rows, 2 different prompts",
        "f: 1 duplicate prompts dropped, the first of each kept: row 2 turn 1 = row 1 turn 2",
        "f: of these, 1 had another category, cluster or right answer than the row kept: rows 2 turn 1",
    ]


def test_columns_of_turns_are_a_script_without_replies():
    rows = [
        {"first": "u0", "second": "u1", "third": "u2"},
        {"first": "u3", "second": " ", "third": None},
        {"first": "u4", "second": "u5"},
    ]
    prompts, _ = make_prompts(rows, TURNS, "f", mode="cumulative")
    assert [texts(prompt) for prompt in prompts] == [["u0", "u1", "u2"], ["u3"], ["u4", "u5"]]
    assert [asked_turns(prompt) for prompt in prompts] == [[0, 1, 2], [0], [0, 1]]
    same = prompts_of(*(chat(*texts(prompt)) for prompt in prompts), mode="cumulative")
    assert [prompt["id"] for prompt in same] == [prompt["id"] for prompt in prompts]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (("a", "", "c"), "row 2: column `second` is empty"),
        (("", "", ""), "row 2: column `first` is empty"),
        ((None, "b", None), "row 2: column `first` holds null"),
        (("a", 3, ""), "row 2: column `second` holds a number"),
    ],
)
def test_an_empty_cell_before_a_turn_is_reported_with_row_and_column(cells, message):
    rows = [dict(zip(TURNS["turns"], row, strict=True)) for row in (("u0", "u1", "u2"), cells)]
    with pytest.raises(UserError, match=message):
        make_prompts(rows, TURNS, "f", mode="cumulative")


def test_a_column_of_turns_that_a_row_lacks_or_all_do_is_reported():
    rows = [{"first": "a", "third": "b"}, {"first": "u0", "second": "u1", "third": "u2"}]
    with pytest.raises(UserError, match="row 1: column `second` is missing in this row"):
        make_prompts(rows, TURNS, "f", mode="cumulative")
    with pytest.raises(UserError, match="f: has no column `second`"):
        make_prompts(rows[:1], TURNS, "f", mode="cumulative")


@pytest.mark.parametrize("mode", ["cumulative", "independent"])
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (chat("u0", "a0"), "must end with a message of the user"),
        (chat("u0", "s", "u1"), "row 2, message 2 is a system message; in a dialogue only the first"),
        (chat("a", "u0"), "row 2, message 1 is a reply that follows no turn of the user"),
        (chat("s", "a", "u0"), "row 2, message 2 is a reply that follows no turn of the user"),
        (chat("u0", "a0", "a1", "u1"), "row 2, message 3 is a reply that follows another reply"),
        ([*chat("u0"), {"role": "assistant", "content": " "}, *chat("u1")], "row 2, message 2 is an empty reply"),
        (chat("s"), "must end with a message of the user"),
    ],
)
def test_messages_that_are_no_script_are_reported(mode, script, message):
    with pytest.raises(UserError, match=message):
        prompts_of(chat("u0"), script, mode=mode)


def test_a_row_of_which_no_turn_would_count_is_reported_before_anything_is_asked():
    scripts = [chat("u0", "u1"), chat("u0")]
    with pytest.raises(UserError, match="f, row 2: has one turn, and `scored: after_first` counts only later ones"):
        prompts_of(*scripts, mode="cumulative", scored="after_first")
    assert len(prompts_of(*scripts, mode="cumulative", scored="last")) == 2
    # In mode `independent` a question without a history is a prompt of its own, which always counts.
    assert len(prompts_of(*scripts, mode="independent", scored="after_first")) == 2
    # A first turn whose reply is given is no obstacle.
    assert len(prompts_of(chat("u0", "a0", "u1"), mode="cumulative", scored="after_first")) == 1


def test_any_script_gives_every_later_turn_once():
    rng = random.Random(2)
    for _ in range(200):
        letters = ["s"] * rng.randrange(2)
        turns = rng.randrange(1, 6)
        for turn in range(turns):
            letters += [f"u{turn}"] + [f"a{turn}"] * (turn < turns - 1 and rng.random() < 0.5)
        script = chat(*letters)
        prompts = prompts_of(json.dumps(script), mode="independent")
        assert [texts(prompt)[-1] for prompt in prompts] == [f"u{turn}" for turn in range(min(1, turns - 1), turns)]
        given = "a0" in letters
        for prompt in prompts:
            assert texts(prompt)[:-1] == letters[: letters.index("u0") + 1 + given][: None if turns > 1 else -1]
            assert bool(prompt.get("dialogue")) == (turns > 1 and not given)
        if turns == 1:
            assert prompts == prompts_of(script, mode=None), "a single question stays as it is"
        (whole,) = prompts_of(script, mode="cumulative")
        assert asked_turns(whole) == [turn for turn in range(turns) if f"a{turn}" not in letters]
