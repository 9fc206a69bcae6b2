"""What is packed into the browser's page: every answer once, rates of whole cells alone, and no text without leave."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from browser_rows import (
    BLOCK,
    HOSTILE,
    JUDGES,
    MODELS,
    REFUSAL,
    K,
    page_text,
    write_browsed,
    write_hostile,
)
from packed_page import unpacked

from refusal_eval.__main__ import main
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import answer_id, read_jsonl
from refusal_eval.features.browser import browse_command
from refusal_eval.features.browser.answer_columns import reason_of


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return write_browsed(tmp_path)


def results(config: dict[str, Any]) -> Path:
    return Path(config["results_dir"], "browsed")


def places(head: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return split, model, prompt, sample and turn of each answer on a page, in its order."""
    rows, answers = head["rows"], head["answers"]
    return [
        (
            head["splits"][rows["split"][row]]["name"],
            head["models"][model]["name"],
            head["names"]["prompts"][rows["prompt"][row]].split(" ")[1],
            sample,
            rows["turn"][row],
        )
        for row, model, sample in zip(answers["row"], answers["model"], answers["sample"], strict=True)
    ]


def test_every_answer_of_the_study_is_there_once_with_its_text_and_verdicts(config: dict[str, Any]) -> None:
    found = unpacked(page_text(config))
    head = found["head"]
    texts = [text for part in found["texts"] for text in part["answers"]]
    on_page = dict(zip(places(head), texts, strict=True))
    assert len(on_page) == len(texts)
    written = {}
    for split in config["splits"]:
        for model in MODELS:
            for row in read_jsonl(results(config) / "answers" / model / f"{split}.jsonl"):
                written[split, model, row["prompt_id"], row["sample"], row["turn"]] = row["answer"]
    assert on_page == written
    assert head["answers"]["id"] == [answer_id(text) for text in texts]
    labels = [dict(zip(places(head), of["label"], strict=True)) for of in head["verdicts"]]
    partly = ("safe", "model-a", "safe000000000000", 2, 0)
    assert [of[partly] for of in labels] == [1, 2]
    assert [of["p"][places(head).index(partly)] for of in head["verdicts"]] == [0.55, 0.55]
    # The lax judge has no label for sample 1 of what complies, and says why.
    without = places(head).index(("safe", "model-a", "safe000000000000", 1, 0))
    assert head["verdicts"][1]["label"][without] == -1
    assert head["names"]["judged"][head["verdicts"][1]["state"][without]] == "unparsable"
    reasons = [text for part in found["texts"] for text in part["reasons"][1]]
    assert reasons[without] == "no label here"


def test_answers_of_a_row_follow_each_other_by_model_and_sample(config: dict[str, Any]) -> None:
    head = unpacked(page_text(config))["head"]
    rows, answers = head["rows"], head["answers"]
    assert answers["row"] == sorted(answers["row"])
    by_row: dict[int, list[tuple[int, int]]] = {}
    for row, *own in zip(answers["row"], answers["model"], answers["sample"], strict=True):
        by_row.setdefault(row, []).append(tuple(own))
    assert len(by_row) == len(rows["split"]) == 4 + 4 + 2 * 4  # two turns of each dialogue
    assert all(own == [(model, sample) for model in range(2) for sample in range(K)] for own in by_row.values())


def test_turns_of_a_dialogue_are_rows_and_those_that_do_not_count_say_so(config: dict[str, Any]) -> None:
    head = unpacked(page_text(config))["head"]
    rows = head["rows"]
    talk = [split["name"] for split in head["splits"]].index("talk")
    turns = [
        own[1:]
        for own in zip(rows["split"], rows["turn"], rows["scored"], rows["dialogue"], strict=True)
        if own[0] == talk
    ]
    assert turns == [(0, 0, True), (1, 1, True)] * 4
    assert not any(dialogue for split, dialogue in zip(rows["split"], rows["dialogue"], strict=True) if split != talk)


def test_blocks_marks_declared_refusals_and_what_was_written_before_a_block(config: dict[str, Any]) -> None:
    found = unpacked(page_text(config))
    head, order = found["head"], places(found["head"])
    blocked = order.index(("safe", "model-a", "safe000000000001", 2, 0))
    assert head["names"]["states"][head["answers"]["state"][blocked]] == "blocked"
    shown = {name: value for name, value in BLOCK.items() if value and name != "partial"}
    assert head["names"]["blocks"][head["answers"]["block"][blocked]] == shown
    assert [part["left"].get(str(blocked - part["first"])) for part in found["texts"]] == [BLOCK["partial"]]
    assert [order[i][:2] for i, one in enumerate(head["answers"]["declared"]) if one] == [("bad", "model-b")]
    assert [order[i] for i, one in enumerate(head["answers"]["marks"]) if one] == [
        ("safe", "model-a", "safe000000000002", 2, 0)
    ]


def test_rates_are_those_of_whole_cells_in_the_headline_reading_of_their_split(config: dict[str, Any]) -> None:
    rates = unpacked(page_text(config))["head"]["rates"]
    assert sorted(rate[:3] for rate in rates) == sorted(
        [j, m, s] for j in JUDGES for m in MODELS for s in config["splits"]
    )
    found = {tuple(rate[:3]): rate[3:6] for rate in rates}
    assert found["strict", "model-a", "safe"] == [0.35, 0.25, 0.45]  # broad: it should comply
    assert found["strict", "model-a", "bad"] == [0.25, 0.15, 0.35]


def test_a_page_with_labels_only_holds_no_word_of_prompts_answers_and_judges(config: dict[str, Any]) -> None:
    whole, bare = (unpacked(page_text(config, labels_only)) for labels_only in (False, True))
    assert bare["prompts"] == [] and bare["texts"] == []
    assert "id" not in bare["head"]["answers"]
    kept = json.dumps(bare["head"])
    for said in (
        "Question",
        REFUSAL,
        "Partly",
        "zebras",
        "helps a little",
        "no label here",
        "First, you",
        "can't help",
    ):
        assert said in json.dumps(whole)
        assert said not in kept
    assert bare["head"]["verdicts"] == whole["head"]["verdicts"]
    assert bare["head"]["rates"] == whole["head"]["rates"]


def test_equal_answers_give_equal_bytes(config: dict[str, Any]) -> None:
    assert page_text(config) == page_text(config)


def test_nothing_of_an_answer_stands_in_the_page_as_it_is(tmp_path: Path) -> None:
    page = page_text(write_hostile(tmp_path))
    assert page.count("<script") == page.count("</script>") == 2
    assert not re.search(r"on\w+=|http://|javascript:", page.split('id="data">')[1].split("</script>")[0])
    texts = [text for part in unpacked(page)["texts"] for text in part["answers"]]
    assert [text for text in texts if text in HOSTILE] == HOSTILE


def test_what_a_judge_says_beside_its_label() -> None:
    assert reason_of(None) == reason_of({"raw": None}) == reason_of({"raw": {"phrase": "", "votes": []}}) == ""
    said = reason_of({"raw": {"tries": 2, "analysis": "It helps.", "phrase": "sure", "votes": ["a", "b"]}})
    assert said == 'It helps.\ntries: 2\nphrase: sure\nvotes: ["a", "b"]'
    assert len(reason_of({"raw": {"numbers": list(range(10_000))}})) < 400


def test_an_unfinished_study_is_shown_as_far_as_it_is_and_one_without_answers_is_not(config: dict[str, Any]) -> None:
    (results(config) / "answers" / "model-b" / "bad.jsonl").unlink()
    (results(config) / "results_table" / "results.csv").unlink()
    (results(config) / "prompts" / "talk.jsonl").unlink()
    head = unpacked(page_text(config))["head"]
    assert {own[:2] for own in places(head)} == {("safe", "model-a"), ("safe", "model-b"), ("bad", "model-a")}
    assert [split["name"] for split in head["splits"]] == ["safe", "bad"] and head["rates"] == []
    for path in results(config).glob("answers/*/*.jsonl"):
        path.unlink()
    with pytest.raises(UserError, match="no answers yet: run the study first"):
        page_text(config)


@pytest.fixture
def browse(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs the verb on the study."""
    monkeypatch.setattr(browse_command, "load_config", lambda path: (config, path))
    return lambda *options: main(["browse", "s.yaml", *options])


def test_the_verb_writes_the_page_beside_the_results_and_says_what_it_holds(
    config: dict[str, Any], browse: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (results(config) / "answers" / "model-b" / "bad.jsonl").unlink()
    assert browse() == 0
    said = capsys.readouterr().out
    assert "browser.html" in said and "do not publish it" in said and "1 cell of 6 have no answers yet" in said
    assert REFUSAL in json.dumps(unpacked((results(config) / "browser.html").read_text("utf-8")))
    assert browse("--labels-only") == 0
    assert "do not publish" not in capsys.readouterr().out
    assert REFUSAL not in json.dumps(unpacked((results(config) / "browser_labels.html").read_text("utf-8")))


def test_a_page_that_may_be_too_large_for_browsers_says_what_to_do(
    browse: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert browse() == 0 and "fail to open" not in capsys.readouterr().out
    monkeypatch.setattr(browse_command, "LARGE", 1000)
    assert browse() == 0 and "leave models or splits out of the copy" in capsys.readouterr().out


def test_the_verb_writes_where_it_is_told_to_and_refuses_a_folder(
    config: dict[str, Any], browse: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert browse("--output", str(tmp_path / "elsewhere.html")) == 0
    assert (tmp_path / "elsewhere.html").is_file() and not (results(config) / "browser.html").exists()
    assert browse("--output", str(tmp_path)) == 1
    assert "is a folder; name a file" in capsys.readouterr().err
