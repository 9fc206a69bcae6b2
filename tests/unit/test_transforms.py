"""What a model with a transform is asked in place of a prompt, and rows that were made from other prompts."""

from pathlib import Path

import pytest
import yaml

from refusal_eval.config.load_study import load_study
from refusal_eval.core.errors import UserError
from refusal_eval.data.prompts import make_prompts
from refusal_eval.features.transforms.transform_kind import TRANSFORMS
from refusal_eval.features.transforms.transformed import transformed

ROOT = Path(__file__).parents[2]


def prompt(*texts, name="a" * 16, kept=None, **more):
    """Return a prompt of turns that begin with the user's; `kept` are the columns of its row."""
    messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    return {"id": name, "messages": messages, "source": {"kept": kept or {}, "row": 1} | more}


def asked(own, read=(), **entry):
    """Return the messages that are asked, as role and text, and why the prompt kept its own."""
    (row,), _ = transformed([own], TRANSFORMS.entry(entry), read)
    assert row["id"] == own["id"] and row["source"] == own["source"]
    return [(message["role"], message["content"]) for message in row["messages"]], row.get("untransformed")


def test_a_text_is_appended_to_every_turn_of_the_user_and_to_no_reply():
    found = asked(prompt("One?", "Yes.", "Two?", kept={"w": "x"}), kind="append", text=" Not {w}, {{sic}}.")
    assert found == ([("user", "One? Not x, {sic}."), ("assistant", "Yes."), ("user", "Two? Not x, {sic}.")], None)


@pytest.mark.parametrize("cells", [{}, {"w": None}, {"w": "  "}])
@pytest.mark.parametrize("kind", ["append", "system"])
def test_a_prompt_with_an_empty_cell_keeps_its_own_text(kind, cells):
    assert asked(prompt("One?", kept=cells), kind=kind, text="Not {w}.") == ([("user", "One?")], "no_field")


def test_a_system_text_comes_before_the_prompts_own_system_message():
    own = prompt("One?")
    own["messages"].insert(0, {"role": "system", "content": "A scene."})
    assert asked(own, kind="system", text="Beware.")[0] == [("system", "Beware.\n\nA scene."), ("user", "One?")]


def test_a_rewording_takes_the_place_of_the_last_turn_unless_it_failed_or_changes_nothing():
    def rows(text, state):
        return [[prompt(text, name="b" * 16, kept={"state": state}, parent="a" * 16)]]

    own, how = prompt("One?", "Yes.", "Two?"), {"kind": "written", "split": "s"}
    assert asked(own, rows("Zwei?", "written"), **how) == (
        [("user", "One?"), ("assistant", "Yes."), ("user", "Zwei?")],
        None,
    )
    assert asked(own, rows("I cannot.", "refused"), **how)[1] == "not_written"
    assert asked(own, rows(" Two? \n", "written"), **how) == (
        [("user", "One?"), ("assistant", "Yes."), ("user", "Two?")],
        "same",
    )
    assert asked(own, [[]], **how)[1] == "not_written"
    twice = [[*rows("Zwei?", "written")[0], *rows("Deux?", "written")[0]]]
    with pytest.raises(UserError, match="two rewritings of the prompt aaaa"):
        asked(own, twice, **how)


def test_rows_of_other_prompts_are_all_kept_in_the_clusters_of_these():
    rows = [{"text": "Same?", "of": parent} for parent in ("a" * 16, "b" * 16, "a" * 16)]
    prompts, _ = make_prompts(rows, {"prompt": "text", "parent": "of"}, "rows")
    assert (
        [row["cluster"] for row in prompts] == [row["source"]["parent"] for row in prompts] == [r["of"] for r in rows]
    )
    assert len({row["id"] for row in prompts}) == 3
    with pytest.raises(UserError, match="row 1: column `of` is '17', and must hold the `id` of a prompt"):
        make_prompts([{"text": "x", "of": "17"}], {"prompt": "text", "parent": "of"}, "rows")


def test_the_study_of_defences_is_valid_and_its_texts_are_the_same_for_all_prompts(monkeypatch):
    monkeypatch.chdir(ROOT)
    file = "config/studies/defences.yaml"
    config = load_study(yaml.safe_load(Path(file).read_text(encoding="utf-8")), file)
    changed = [entry["transform"] for entry in config["model_entries"].values() if entry["transform"]]
    assert len(changed) == 4 and not any(TRANSFORMS.entry(transform).fields() for transform in changed)
