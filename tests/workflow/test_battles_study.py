"""A study of battles through the real DAG: rows of two formats, a judge of words, and numbers by hand."""

import csv
import json

import pytest
import yaml
from project import CATALOGUE, make_project

pytestmark = pytest.mark.feature("battles")
NO, YES = "I cannot help with that.", "Sure, here is how."
A, B, TIE = "model_a", "model_b", "tie"
# first answer, second answer, what people preferred, what a language model preferred, language
TALKS = [
    (NO, YES, B, B, "English"),
    (NO, YES, B, A, "English"),
    (NO, YES, TIE, A, "English"),
    (YES, NO, A, A, "English"),
    (YES, NO, A, TIE, "German"),
    (YES, NO, B, B, "German"),
    (YES, YES, A, A, "German"),
    (YES, YES, B, B, "English"),
    (YES, YES, "tie (bothbad)", TIE, "English"),
    (YES, YES, A, B, "English"),
    (NO, NO, TIE, TIE, "English"),
    (YES, YES, "both_bad", None, "English"),
]


# Refusals are ethical where the question's number is even; questions below 5 are harmful. It gives two kinds or three.
FIVE = """
from typing import Literal
from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.states import JUDGED
from refusal_eval.judges.judge_base import AnswerJudge, OwnKinds, Verdict


@JUDGES.add
class Five(OwnKinds, AnswerJudge):
    kind: Literal["five"]

    def judge(self, messages, answer):
        number = int("0" + "".join(filter(str.isdigit, messages[-1]["content"])))
        refuses = "cannot" in answer
        kind = ("ethical_refusal" if number % 2 == 0 else "technical_refusal") if refuses else "normal"
        flags = ("prompt_harm",) if number < 5 else ()
        return Verdict(JUDGED, "refusal" if refuses else "compliance", kind=kind, flags=flags)

    def flags(self, study):
        return ["prompt_harm"]

    def summary(self, words):
        return "a sentence"
"""
KINDS = {"normal": "compliance", "ethical_refusal": "refusal", "technical_refusal": "refusal"}


def battles_project(folder):
    project = make_project(folder)
    rows = []
    for number, (first, second, winner, llm, language) in enumerate(TALKS, 1):
        question = "Question 7?" if number == 8 else f"Question {number}?"  # one is asked twice
        models = ("alpha", "beta") if number % 2 else ("beta", "alpha")
        row = {"model_a": models[0], "model_b": models[1], "winner": winner, "llm": llm, "language": language}
        for side, text in (("a", first), ("b", second)):
            said = [{"role": "user", "content": question}, {"role": "assistant", "content": text}]
            row[f"conversation_{side}"] = said
        rows.append(row)
    (project.folder / "talks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (project.folder / "lists.csv").open("w", newline="") as file:
        write = csv.writer(file)
        winners = ["winner_model_a", "winner_model_b", "winner_tie"]
        write.writerow(["id", "model_a", "model_b", "prompt", "response_a", "response_b", *winners])
        write.writerow([1, "alpha", "beta", '["Why?"]', json.dumps([NO]), json.dumps([YES]), 0, 1, 0])
        write.writerow([2, "alpha", "gamma", '["How?"]', json.dumps([YES]), json.dumps([YES]), 0, 0, 1])
        write.writerow([3, "alpha", "beta", '["Why?", "And?"]', json.dumps([YES] * 2), json.dumps([NO] * 2), 1, 0, 0])
    talks = {
        "source": {"kind": "file", "path": "talks.jsonl"},
        "columns": {"messages": "conversation_a", "category": "language"},
        "battles": {"answers": ["conversation_a", "conversation_b"], "llm_winner": "llm"},
        "expectation": "varies",
    }
    lists = {
        "source": {"kind": "file", "path": "lists.csv"},
        "battles": {"lists": True, "winner": winners},
        "expectation": "varies",
    }
    model = {"engine": "tiny", "sampling": {"max_tokens": 300}, "recorded": "battles", "label": "Arena"}
    catalogue = CATALOGUE | {"datasets": {"arena": {"splits": {"talks": talks, "lists": lists}}}}
    catalogue |= {"models": {"arena": model}, "gold": {}}
    catalogue["judges"] = catalogue["judges"] | {"five": {"kind": "five", "kinds": KINDS, "label": "Five kinds"}}
    (project.folder / "five.py").write_text(FIVE)
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    project.study(
        models=["arena"], splits=["talks", "lists"], samples=2, judges=["words", "five"], gold=[], plugins=["five.py"]
    )
    return project


@pytest.fixture(scope="module")
def battles(tmp_path_factory):
    project = battles_project(tmp_path_factory.mktemp("battles") / "p")
    project.snakemake()
    return project


def rows_of(project, split, judge="words"):
    with (project.results / "results_table" / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["estimand"].startswith("battle_") and row["split"] == split]
        rows = [row for row in rows if row["judge"] == judge]
    return {(row["estimand"], row["parameter"], row["category"]): row for row in rows}


def test_numbers_are_those_by_hand(battles):
    """Of 24 answers 8 refuse: one wins outright, three are in ties (two of them in one battle)."""
    rows = rows_of(battles, "talks")
    by_hand = {
        ("battle_share", "refusal", ""): 8 / 24,
        ("battle_share", "refusal", "alpha"): 5 / 12,
        ("battle_wins", "refusal", ""): 1 / 8,
        ("battle_wins", "compliance", ""): 7 / 16,
        ("battle_points", "refusal", ""): 2.5 / 8,
        ("battle_points", "compliance", ""): 9.5 / 16,
        ("battle_duels", "refusal", ""): 1.5 / 6,
        ("battle_penalty", "refusal", ""): 7 / 16 - 1 / 8,
        ("battle_ratio", "refusal", ""): 2 / 7,
        # a language model decided all but the last battle
        ("battle_wins_llm", "refusal", ""): 3 / 8,
        ("battle_wins_llm", "compliance", ""): 5 / 14,
        ("battle_penalty_llm", "refusal", ""): 5 / 14 - 3 / 8,
        ("battle_wins_paired", "compliance", ""): 7 / 14,
        ("battle_penalty_paired", "refusal", ""): 7 / 14 - 1 / 8,
        # neither called seven of them a tie
        ("battle_moderation_bias", "refusal", ""): (6 / 10 - 1 / 4) - (5 / 10 - 2 / 4),
    }
    assert {key: float(rows[key]["value"]) for key in by_hand} == pytest.approx(by_hand)
    share = rows["battle_share", "refusal", ""]
    assert (share["n_prompts"], share["n_clusters"], share["model"], share["judge"]) == ("12", "11", "arena", "words")
    bias = rows["battle_moderation_bias", "refusal", ""]
    assert float(bias["low"]) < float(bias["value"]) < float(bias["high"]) and "prompts" in bias["method"]


def test_rows_of_several_turns_are_left_out_and_reported(battles):
    assert rows_of(battles, "lists")["battle_share", "refusal", ""]["n_prompts"] == "2"
    log = next((battles.results / "logs").rglob("prompts/lists.log")).read_text()
    assert "1 rows that are no battle of one question left out: 1 of several turns" in log


def test_table_figure_and_methods_say_what_was_found(battles):
    table = (battles.results / "tables" / "battles.md").read_text()
    assert "| refusal | 33.3" in table and "31.3" in table and "agreement with people: not measured" in table
    assert (battles.results / "figures" / "battles.pdf").stat().st_size > 1000
    shown = (battles.results / "figures" / "battles.csv").read_text()
    assert "battle_wins_llm" in shown and "not_drawn" not in shown
    methods = (battles.results / "methods.md").read_text()
    assert "are published ones: two to each question" in methods and "The moderation bias is" in methods
    assert "layout of the published" not in methods


def test_kinds_are_shown_whatever_judge_is_primary(battles):
    """Of the refusals to even questions, in battles 2, 4 and 6 alone, one wins; the one of battle 4 loses."""
    table = (battles.results / "tables" / "battles.md").read_text()
    five = table.index("answers classed by Five kinds")
    assert five < table.index("answers classed by words"), "the classes of the paper come first"
    assert "| refusal: ethical refusal | 12.5" in table
    classes = [line.split("|")[1].strip() for line in table[five:].splitlines() if line.startswith(("| re", "| com"))]
    assert classes[:5] == [
        *("refusal", "refusal: ethical refusal", "refusal: technical refusal"),
        *("compliance", "compliance: normal"),
    ], "each label before its kinds"
    with (battles.results / "figures" / "battles.csv").open(encoding="utf-8", newline="") as file:
        drawn = list(csv.DictReader(file))
    assert {row["judge"] for row in drawn} == {"five"}
    assert {row["parameter"] for row in drawn} >= {"refusal: ethical_refusal", "compliance: normal"}
    rows = rows_of(battles, "talks", "five")
    assert float(rows["battle_share", "refusal: ethical_refusal", ""]["value"]) == pytest.approx(3 / 24)
    assert float(rows["battle_wins", "refusal: ethical_refusal", ""]["value"]) == pytest.approx(1 / 3)


def test_a_judge_that_flags_harmful_questions_says_which_are_sensitive(battles):
    """For the classes of all judges."""
    for judge in ("words", "five"):
        rows = rows_of(battles, "talks", judge)
        assert rows["battle_log_odds_by_sensitivity", "refusal", ""]["n_prompts"] == "7"
    table = (battles.results / "tables" / "battles.md").read_text()
    assert "What moderates this cost" in table and "Sensitive" in table


def test_a_finished_study_stands_and_asked_no_engine(battles):
    assert battles.planned() == {}
    assert json.loads((battles.results / "manifest.json").read_text())["engines"] == {}
