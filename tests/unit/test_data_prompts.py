"""Prompts: ids by content, duplicates once, samples that grow, and bad rows named."""

import json
import random

import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.data.prompts import make_prompts
from refusal_eval.study.row_sources import row_source

PROMPT = {"prompt": "prompt", "messages": None, "category": None, "cluster": None, "id": None}
CHAT = {**PROMPT, "prompt": None, "messages": "chat"}


def rows_of(*texts):
    return [{"prompt": text} for text in texts]


def ids(rows, **options):
    return [prompt["id"] for prompt in make_prompts(rows, PROMPT, "f", **options)[0]]


def test_a_prompt_is_what_the_row_says_and_its_id_never_changes():
    columns = {**PROMPT, "category": "kind", "cluster": "subject", "id": "key"}
    rows = [{"prompt": " Hé\n", "kind": "a", "subject": 7, "key": 41}, {"prompt": "x", "kind": "", "subject": None}]
    prompts, _ = make_prompts(rows, columns, "org/name")
    first = {"id": "6614c0aa193654e4", "messages": [{"role": "user", "content": " Hé\n"}]}
    first |= {"category": "a", "cluster": "7", "source": {"file": "org/name", "row": 1, "id": "41"}}
    second = {"id": "7c5139ff349b5009", "messages": [{"role": "user", "content": "x"}]}
    second |= {"category": None, "cluster": second["id"], "source": {"file": "org/name", "row": 2, "id": None}}
    assert prompts == [first, second]


def test_texts_are_not_normalised():
    assert len(set(ids(rows_of("\u00e9", "e\u0301", "é ", "É")))) == 4


def test_a_chat_may_be_a_list_or_json_text_and_one_question_of_it_is_the_prompt():
    chat = [{"role": "system", "content": ""}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    chat += [{"role": "user", "content": "c", "id": "me", "tool_calls": None, "images": []}]
    chat[1] |= {"temperature": 0.7, "usage": {"tokens": 3}, "token_counter": 3, "message_id": "m"}
    question = [{"content": "a", "role": "user"}]
    prompts, _ = make_prompts([{"chat": chat}, {"chat": json.dumps(chat)}, {"chat": question}], CHAT, "f")
    assert [prompt["id"] for prompt in prompts[1:]] == ids(rows_of("a"))
    assert [message["role"] for message in prompts[0]["messages"]] == ["system", "user", "assistant", "user"]
    assert prompts[0]["messages"][-1] == {"role": "user", "content": "c"}


@pytest.mark.parametrize(
    ("chat", "message"),
    [
        ([], "must be a list of messages, not an empty one"),
        (None, "must be a list of messages, not null"),
        ("hello", "is text, but not a JSON list of messages"),
        ('[{"role": "user", "content": "a", "content": "b"}]', r'the key "content" stands twice in one object'),
        ([{"role": "user"}], "message 1 must be an object with `role` and `content`"),
        ([{"role": "tool", "content": "a"}], r"message 1 has the role `tool` \(allowed: system, user, assistant\)"),
        ([{"role": "user", "content": None}], "message 1 has a content that is null"),
        ([{"role": "user", "content": [{"type": "text"}]}], "message 1 has a content that is a list"),
        ([{"role": "user", "content": " "}], "message 1 is empty"),
        ([{"role": "user", "content": "\u200b\ufeff"}], "message 1 is empty"),
        *(
            ([{"role": "user", "content": "a", field: value}], f"message 1 has the field `{field}`, which is neither")
            for field, value in {
                "tool_calls": [{"id": "1", "function": {"name": "multiply"}}],
                "function_call": {"name": "multiply", "arguments": "{}"},
                "reasoning_content": "Hm.",
                "name": "me",
                "images": ["a.png"],
                "prefix": True,
            }.items()
        ),
        ([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}], "must end with a message of the user"),
    ],
)
def test_bad_chats_are_reported(chat, message):
    good = {"chat": [{"role": "user", "content": "x"}]}
    with pytest.raises(UserError, match="f, row 2: column `chat`.*" + message):
        make_prompts([good, {"chat": chat}], CHAT, "f")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "is empty"),
        (" \n\t", "is empty"),
        ("\u200b", "is empty"),
        ("\u2800\ufe0f", "is empty"),
        (None, "holds null; a prompt must be a string"),
        (5, "holds a number"),
        (["a"], "holds a list"),
        ("a\udc00", r"holds \\udc00 alone"),
    ],
)
def test_bad_prompts_are_reported_with_file_and_row(value, message):
    with pytest.raises(UserError, match=r"p\.jsonl, row 3: column `prompt`.*" + message):
        make_prompts([*rows_of("a", "b"), {"prompt": value}], PROMPT, "p.jsonl")


def test_a_row_without_the_column_and_a_column_in_no_row():
    with pytest.raises(UserError, match=r"f, row 2: column `prompt` is missing in this row; did you mean `promt`"):
        make_prompts([{"prompt": "a"}, {"promt": "b"}], PROMPT, "f")
    with pytest.raises(UserError, match="f: has no column `categry`; did you mean `category`"):
        make_prompts([{"prompt": "a", "category": "b"}], {**PROMPT, "category": "categry"}, "f")
    prompts, _ = make_prompts([{"prompt": "a", "set": "s"}, {"prompt": "b"}], {**PROMPT, "cluster": "set"}, "f")
    assert [prompt["cluster"] for prompt in prompts] == ["s", prompts[1]["id"]]


def test_duplicates_are_kept_once_and_reported():
    rows = [{"prompt": "a", "c": "1"}, {"prompt": "b", "c": "1"}, {"prompt": "a", "c": "2"}, {"prompt": "b", "c": "1"}]
    prompts, notes = make_prompts(rows, {**PROMPT, "category": "c"}, "f", expected_rows=4)
    assert [(prompt["source"]["row"], prompt["category"]) for prompt in prompts] == [(1, "1"), (2, "1")]
    assert notes == [
        "f: 4 rows, 2 different prompts",
        "f: 2 duplicate rows dropped, the first of each kept: row 3 = row 1, row 4 = row 2",
        "f: of these, 1 had another category, cluster or right answer than the row kept: rows 3",
    ]


def test_a_column_of_clusters_that_holds_none_is_an_error():
    """Its prompts would count as independent without a word."""
    for cell in (None, "", b"a"):
        rows = [{"prompt": "a", "set": cell}, {"prompt": "b", "set": cell}]
        with pytest.raises(UserError, match=r"f: column `set` is empty, or holds nothing that is text, in every row"):
            make_prompts(rows, {**PROMPT, "cluster": "set"}, "f")


def test_under_compat_duplicates_are_prompts_of_their_own_in_one_cluster():
    rows = rows_of("a", "b", "a", "a")
    once, _ = make_prompts(rows, PROMPT, "f")
    prompts, notes = make_prompts(rows, PROMPT, "f", copies=True)
    assert [prompt["source"]["row"] for prompt in prompts] == [1, 2, 3, 4]
    assert len({prompt["id"] for prompt in prompts}) == 4 and prompts[:2] == once
    assert {prompt["cluster"] for prompt in prompts} == {prompts[0]["id"], prompts[1]["id"]}
    assert notes == ["f: 4 rows, 2 different prompts", "f: 2 duplicate rows kept, as the published code does"]
    assert [p["id"] for p in make_prompts(rows[::-1], PROMPT, "f", copies=True)[0]].count(prompts[2]["id"]) == 1


def test_the_number_of_rows_is_checked():
    with pytest.raises(UserError, match="f: has 2 rows, but expected_rows says 3"):
        make_prompts(rows_of("a", "a"), PROMPT, "f", expected_rows=3)


def test_samples_grow_and_do_not_depend_on_the_order_of_rows():
    texts = [f"prompt {i}" for i in range(200)]
    shuffled = random.Random(3).sample(texts, len(texts))
    draw = [{"size": size, "seed": 5} for size in (10, 40, 200, 1000)]
    chosen = [ids(rows_of(*texts), samples=[sample]) for sample in draw]
    assert [len(sample) for sample in chosen] == [10, 40, 200, 200]
    assert set(chosen[0]) < set(chosen[1]) < set(chosen[2])
    assert set(ids(rows_of(*shuffled), samples=draw[:1])) == set(chosen[0])
    assert set(ids(rows_of(*texts), samples=[{"size": 10, "seed": 6}])) != set(chosen[0])
    # In the order of the source, and the study's sample is taken of the split's.
    everything = ids(rows_of(*texts))
    assert chosen[1] == [identity for identity in everything if identity in set(chosen[1])]
    assert ids(rows_of(*texts), samples=[draw[1], None, draw[0]]) == chosen[0]


def sampled(clusters, *samples):
    """Return the clusters of the prompts that a sample keeps, of a split with these clusters, and the last note."""
    rows = [{"prompt": f"{clusters} {i}", "pair": cluster} for i, cluster in enumerate(clusters)]
    prompts, notes = make_prompts(rows, {**PROMPT, "cluster": "pair"}, "f", samples=samples)
    return [prompt["cluster"] for prompt in prompts], notes[-1]


def test_a_sample_of_two_splits_keeps_both_twins_of_a_contrast_pair():
    pairs = [f"pair {i}" for i in range(24)]
    for samples in ([{"size": 8, "seed": 0}], [None, {"size": 8, "seed": 0}], [{"size": 12, "seed": 3}] * 2):
        harmful, _ = sampled(pairs, *samples)
        harmless, _ = sampled(pairs[::-1], *samples)
        assert set(harmful) == set(harmless) and len(harmful) == samples[-1]["size"]


def test_a_sample_keeps_clusters_whole_and_a_larger_one_contains_it():
    clusters = [f"subject {i}" for i in range(30) for _ in range(1 + i % 4)]
    random.Random(1).shuffle(clusters)
    smaller = set()
    for size in range(4, 74):
        kept, note = sampled(clusters, {"size": size, "seed": 2})
        assert all(kept.count(cluster) == clusters.count(cluster) for cluster in kept)
        assert size - 4 < len(kept) <= size and smaller <= set(kept)
        assert len(kept) == 73 or f"a sample of {len(kept)} of 73 prompts" in note
        smaller = set(kept)


def test_a_sample_of_unequal_clusters_is_at_least_half_full():
    clusters = [f"subject {i}" for i, count in enumerate([3, 5, 30, 35, 40, 45, 20, 10, 4, 44]) for _ in range(count)]
    for seed in range(30):
        kept, _ = sampled(clusters, {"size": 48, "seed": seed})
        assert 24 <= len(kept) <= 48 and all(kept.count(cluster) == clusters.count(cluster) for cluster in kept)


def test_clusters_larger_than_the_sample_are_left_out_and_a_split_of_such_alone_is_cut_and_says_so():
    clusters = ["large"] * 20 + [f"small {i}" for i in range(30)]
    assert all("large" not in sampled(clusters, {"size": 10, "seed": seed})[0] for seed in range(20))
    kept, note = sampled(["a"] * 20 + ["b"] * 20, {"size": 10, "seed": 0})
    assert len(kept) == 10 and len(set(kept)) == 1 and "no cluster is as small" in note


def test_prompts_without_clusters_are_drawn_by_seed_and_id_alone():
    everything = ids(rows_of(*(f"prompt {i}" for i in range(50))))
    ranked = sorted(everything, key=lambda identity: sha256_of([7, identity]))
    drawn = ids(rows_of(*(f"prompt {i}" for i in range(50))), samples=[{"size": 9, "seed": 7}])
    assert set(drawn) == set(ranked[:9])


HUB = {"kind": "hub", "repo": "a/b", "revision": "0" * 40, "config": None, "split": "test"}
HUB_FILE = {**HUB, "split": None, "file": "data/x.csv"}
WHEEL = {"kind": "wheel", "package": "p", "version": "1", "file": "x/y.csv", "sha256": "0" * 64, "skip_lines": 1}
URL = {"kind": "url", "url": "https://example.org/x.csv", "sha256": "0" * 64, "skip_lines": 0, "encoding": None}


@pytest.mark.parametrize(
    ("source", "name", "cached"),
    [
        (HUB, "a/b", "rows.jsonl"),
        (HUB_FILE, "a/b/data/x.csv", "x.csv"),
        (WHEEL, "p==1/x/y.csv", "y.csv"),
        (URL, "https://example.org/x.csv", "x.csv"),
        (URL | {"url": "https://example.org/{x,y}.csv"}, "https://example.org/{x,y}.csv", "rows.jsonl"),
        ({"kind": "file", "path": "data/x.csv"}, "data/x.csv", None),
        ({"kind": "file", "path": "/home/me/x.csv"}, "x.csv", None),
        ({"kind": "bundled", "file": "x.jsonl"}, "x.jsonl", None),
    ],
)
def test_sources_are_named_without_paths_of_this_machine_and_lie_in_the_cache_by_their_id(source, name, cached):
    found = row_source(source)
    assert found.name == name and found.fetched == (cached is not None)
    assert cached is None or found.copy_file("c") == f"c/rows/{found.copy_id}/{cached}"


def test_the_id_of_a_source_is_frozen():
    assert row_source(HUB).copy_id == "5b8f2d3ef5c47ac8" != row_source({**HUB, "split": "train"}).copy_id
    assert row_source(HUB_FILE).copy_id == "062c491c11069312"
    read_otherwise = row_source({**WHEEL, "encoding": "gb18030", "skip_lines": 0})
    assert row_source(WHEEL).copy_id == read_otherwise.copy_id == "dd4422a0aa396138"
    assert row_source(URL).copy_id == "de81ef427164ce5c"


def test_a_param_has_no_key_that_came_later_and_is_not_used():
    later = {"file": None, "sha256": None, "skip_lines": 0, "encoding": None}
    assert row_source(HUB | later).param() == HUB
    file = {**HUB_FILE, "skip_lines": 2, "encoding": "cp1252"}
    assert row_source(file | {"sha256": None}).param() == file
    local = {"kind": "file", "path": "x.csv", "skip_lines": 0}
    assert row_source(local | {"encoding": None}).param() == local
