"""The splits that ship: all there, pinned or marked, with what a user must know; and their page in docs/."""

import csv
import re
from collections import defaultdict

import pytest

from refusal_eval.config.references import read_references
from refusal_eval.core.errors import UserError
from refusal_eval.data.prompts import make_prompts
from refusal_eval.data.rows import read_rows
from refusal_eval.data.selection import read_clusters

DEMO = {"alarming_but_safe", "arithmetic", "sensitive", "should_decline"}
DEMO |= {"sums", "harmful_fit", "harmless_fit", "harmful_test", "harmless_test"}
DEMO |= {"trigger_words", "trigger_words_safe", "trigger_words_unsafe", "seed_graphs"}
DEMO |= {"everyday_questions"}
# The nine splits of the Refusal Steering study, their rows, and what a good model does.
NINE = {
    "jailbreakbench": (100, "refuse"),
    "sorrybench": (440, "refuse"),
    "xstest_unsafe": (200, "refuse"),
    "harmbench_sampled": (256, "refuse"),
    "adversarial_unsafe_prompts": (512, "refuse"),
    "ccp_sensitive_sampled": (340, "varies"),
    "deccp_censored": (95, "varies"),
    "xstest_safe": (250, "comply"),
    "general_prompts": (100, "comply"),
}


@pytest.fixture(scope="module")
def splits(shipped):
    return {name: entry for name, entry in shipped.valid["splits"].items() if name not in DEMO}


def test_the_nine_splits_have_their_rows_and_expectations(splits):
    assert {name: (splits[name].expected_rows, splits[name].expectation) for name in NINE} == NINE


def test_a_user_can_read_what_a_split_is_and_on_which_terms(repository, splits):
    for name, split in splits.items():
        assert split.licence and split.description and split.homepage and split.label and split.expected_rows, name
        assert split.citation and set(split.citation) <= set(read_references(repository)), name
        pin = split.source.open_pin
        assert pin is None or (not split.enabled and split.unverified), name
        assert split.where is None or split.expected_kept or split.unverified, name
        if split.source.taken_from == "url":
            assert re.search("/[0-9a-f]{40}/", split.source.url), "a branch can move"
        assert split.enabled or split.reason, name
        assert not split.enabled or not (split.gated or "-NC" in (split.licence_of_origin or split.licence)), name


@pytest.mark.parametrize("name", NINE)
def test_the_nine_splits_are_read_from_the_columns_of_their_data_set(splits, name):
    """Its card names three columns: `_id`, `prompt`, `subject`. Others, or another length, are refused."""
    split = splits[name]
    source, columns = split.source, split.columns.model_dump()
    assert (source.repo, source.split) == ("MultiverseComputingCAI/llm-refusal-evaluation", name)
    assert (columns["prompt"], columns["category"], columns["id"]) == ("prompt", "subject", "_id")
    assert {column for column in columns.values() if column} == {"_id", "prompt", "subject"}
    rows = [{"_id": number, "prompt": f"p{number}", "subject": f"s{number // 5}"} for number in range(NINE[name][0])]
    made, _ = make_prompts(rows, columns, name, expected_rows=split.expected_rows)
    assert len(made) == NINE[name][0]
    assert (made[7]["source"]["id"], made[7]["messages"][0]["content"], made[7]["category"]) == ("7", "p7", "s1")
    by_subject = name in ("ccp_sensitive_sampled", "sorrybench")
    assert len({prompt["cluster"] for prompt in made}) == (len(made) // 5 if by_subject else len(made))
    with pytest.raises(UserError, match=f"has {len(rows) - 1} rows, but expected_rows says {len(rows)}"):
        make_prompts(rows[1:], columns, name, expected_rows=split.expected_rows)
    with pytest.raises(UserError, match="subject"):
        make_prompts([{"_id": 1, "prompt": "p"}] * len(rows), columns, name, expected_rows=split.expected_rows)


def test_labels_and_references_are_each_others_own(repository, shipped, splits):
    labels = [split.label for split in splits.values()]
    assert len(set(labels)) == len(labels)
    entries = [*splits.values(), *shipped.valid["gold"].values()]
    cited = {key for entry in entries for key in entry.citation}
    references = read_references(repository)
    assert set(references) == cited, "each reference is of a split or of gold"
    for key, text in references.items():
        assert text.count("{") == text.count("}") and re.search(r"\b(title|author|year) = ", text), key


def test_the_pairs_of_xstest_are_of_a_safe_and_an_unsafe_prompt(repository):
    file = repository / "config" / "catalogue" / "datasets" / "xstest_pairs.csv"
    clusters = read_clusters(read_rows(file), file.name)
    assert list(clusters) == [str(number) for number in range(1, 451)]
    members = {name: [int(one) for one, of in clusters.items() if of == name] for name in clusters.values()}
    assert len(members) == 250
    pairs = [both for both in members.values() if len(both) == 2]
    assert len(pairs) == 200 and all(unsafe - safe == 25 for safe, unsafe in pairs)
    alone = sorted(one for group in members.values() if len(group) == 1 for one in group)
    assert alone == [*range(251, 276), *range(376, 401)]
    # Ids and cluster names only: no prompt is copied into the repository.
    with open(file, encoding="utf-8") as handle:
        assert all(cell.isdigit() for row in list(csv.reader(handle))[1:] for cell in row)


def test_ms_xsb_becomes_chats_of_a_scene_and_twenty_questions(splits):
    row = {"id": "7", "scenario": "s"} | {f"prompt{number}": f"q{number}" for number in range(1, 21)}
    for name, prompts, turns in (("ms_xsb", 1, 21), ("ms_xsb_independent", 20, 2), ("ms_xsb_questions", 20, 1)):
        split = splits[name]
        columns, dialogue = split.columns.model_dump(), split.dialogue
        made, _ = make_prompts([row], columns, "f", mode=dialogue.mode, scored=dialogue.scored)
        assert (len(made), len(made[0]["messages"])) == (prompts, turns)
        assert {prompt["cluster"] for prompt in made} == {"7"}
        assert splits[name].source.encoding == "gb18030"


def test_the_page_tells_prompts_of_a_split_whose_rows_give_several(repository):
    page = (repository / "docs" / "reference" / "splits.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("| [`ms_xsb_independent`]")]
    assert "| 30 (independent: 20 prompts each) |" in line and "600 questions" in page


def test_each_of_44_categories_has_two_seeds_whose_relations_are_between_their_entities(repository):
    rows = read_rows(repository / "config" / "prompts" / "seed_graphs.jsonl")
    parts = defaultdict(set)
    for row in rows:
        parts[row["category"]].add(row["part"])
        assert len(row["entities"]) >= 2 and len(row["relations"]) >= 2, row
        for subject, relation, target in row["relations"]:
            assert {subject, target} <= set(row["entities"]) and relation, row
    assert len(parts) == 44 and all(part == {"a", "b"} for part in parts.values())
    for key in ("id", "prompt"):
        assert len({row[key] for row in rows}) == 88


def test_pairs_of_questions_share_a_trigger_word_that_is_in_each_of_them_once(repository):
    pairs = defaultdict(dict)
    for row in read_rows(repository / "config" / "prompts" / "trigger_words.jsonl"):
        assert len(re.findall(rf"\b{row['focus']}\b", row["prompt"])) == 1, row
        pairs[row["pair"]][row["side"]] = row
    assert len(pairs) == 48 and all(set(pair) == {"safe", "unsafe"} for pair in pairs.values())
    for pair in pairs.values():
        one, other = (pair[side]["focus"].lower() for side in ("safe", "unsafe"))
        assert one.startswith(other) or other.startswith(one), pair
        assert pair["safe"]["category"] == pair["unsafe"]["category"]
    assert len({row["prompt"] for pair in pairs.values() for row in pair.values()}) == 96
