"""The shipped gold: what a study can take, what it has to ask for, and that the forms fit the sources."""

import pytest

from refusal_eval.data.gold import make_gold
from refusal_eval.data.rows import read_rows
from refusal_eval.data.selection import read_clusters
from refusal_eval.study.row_sources import addresses_of


@pytest.fixture(scope="module")
def gold(shipped):
    return shipped.valid["gold"]


def made(entry, rows, clusters=None):
    """Return gold of a few rows in the form of an entry's source."""
    options = {"left_out": entry.left_out, "expectations": entry.expectations, "clusters": clusters}
    options["expectation"] = entry.expectation
    answers = {model: columns.model_dump() for model, columns in entry.answers.items()}
    return make_gold(rows, entry.columns.model_dump(), entry.labels, "rows", None, answers, **options)[0]


def test_what_is_gated_or_not_free_is_off(gold):
    assert {name for name, entry in gold.items() if not entry.enabled} == {
        "xstest-response",
        "wildguardtest",
        "do-not-answer-strict",
    }
    assert {name for name, entry in gold.items() if entry.gated} == {"xstest-response", "wildguardtest"}
    assert all(entry.licence for entry in gold.values())


def test_the_completions_of_xstest_are_five_files_and_their_pairs_are_known(gold, repository):
    entry = gold["xstest-completions"]
    assert len(addresses_of(entry.source.url)) == 5
    pairs = read_clusters(read_rows(repository / "config" / "catalogue" / "xstest_gold_pairs.csv"), "pairs")
    assert len(pairs) == 450 and len(set(pairs.values())) == 250
    # One cluster of two prompts with the same answer of two models: the form of the files, in words of our own.
    (twin,) = {name for name, cluster in pairs.items() if cluster == pairs["v2-1"] and name != "v2-1"}
    rows = [
        {"id": name, "type": kind, "prompt": f"{kind}?", "completion": "No.", "final_label": label, "part": model}
        for name, kind, label in (
            ("v2-1", "homonyms", "2_full_refusal"),
            (twin, "contrast_homonyms", "3_partial_refusal"),
        )
        for model in ("gpt4", "llama2orig")
    ]
    found = made(entry, rows, {name: pairs[name] for name in ("v2-1", twin)})
    assert len(found) == 4 and len({row["cluster"] for row in found}) == 1
    assert [(row["answering_model"], row["label"], row["expectation"]) for row in found] == [
        ("gpt4", "refusal", "comply"),
        ("llama2orig", "refusal", "comply"),
        ("gpt4", "partial", "refuse"),
        ("llama2orig", "partial", "refuse"),
    ]


def test_only_clear_actions_of_do_not_answer_count(gold):
    entry = gold["do-not-answer-strict"]
    row = {"question": "How?", "specific_harms": "h"}
    actions = (0, 5, 3, None, 0.0, 4)
    for (answer, label), action in zip(
        ((columns.answer, columns.label) for columns in entry.answers.values()), actions, strict=True
    ):
        row |= {answer: f"answer of {answer}", label: action}
    found = made(entry, [row])
    assert [(one["answering_model"], one["label"]) for one in found] == [
        ("GPT-4", "refusal"),
        ("ChatGPT", "compliance"),
        ("Llama-2-7B-chat", "refusal"),
    ]
    assert {one["expectation"] for one in found} == {"refuse"}


def test_rows_of_wildguardtest_without_a_label_are_left_out(gold):
    rows = [
        {"prompt": "a", "response": None, "response_refusal_label": None, "prompt_harm_label": "harmful"},
        {"prompt": "b", "response": "No.", "response_refusal_label": "refusal", "prompt_harm_label": None},
        {"prompt": "c", "response": "Yes.", "response_refusal_label": "compliance", "prompt_harm_label": "unharmful"},
    ]
    found = made(gold["wildguardtest"], rows)
    assert [(row["label"], row["expectation"]) for row in found] == [("refusal", None), ("compliance", "comply")]


def test_made_up_answers_name_no_rater_and_the_judge_that_was_chosen_on_them(gold):
    entry = gold["made-up-answers"]
    assert entry.written_to_label and entry.raters is None and entry.seen_by == ["keyword"]
    assert {name for name, one in gold.items() if one.written_to_label} == {"made-up-answers"}
