"""Judges of every kind that a small study can hold, through the real DAG under `protocol: compat`, and their export."""

import hashlib
import itertools
import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from project import Project, change_yaml, make_project, response
from tokenizer_folders import byte_tokenizer

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreWriter
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.packing import pack_floats, unpack_floats
from refusal_eval.judges.keyword_judge import KeywordReader
from refusal_eval.judges.trained.features import FeatureReader
from refusal_eval.judges.trained.fitted_file import load
from refusal_eval.judges.trained.model import predict
from refusal_eval.stats.estimates.units import read_units

Row = Mapping[str, Any]
Verdicts = dict[tuple[str, int], Row]

SAMPLING = {"max_tokens": 300, "temperature": 0.5, "top_k": 7, "repetition_penalty": 1.2, "stop": ["END"]}
JUDGES: dict[str, dict[str, Any]] = {
    "thinker": {"kind": "reasoned", "engine": "tiny", "rubric": "rubric.md", "retries": 0},
    "writer": {"kind": "reasoned", "engine": "tiny", "rubric": "rubric.md", "retries": 0, "form": "published"},
    "guard": {"kind": "wildguard", "engine": "tiny"},
    "learned": {
        "kind": "trained",
        "features": ["vectors", "prompt", "reading"],
        "engine": "vectors",
        "gold": ["people"],
        "lists": ["words.yaml"],
    },
    "both": {"kind": "panel", "members": ["words", "learned"], "ties": "partial"},
    "table": {"kind": "python", "file": "table.py"},
    "turns": {"kind": "cascade", "first": "table", "then": "apart", "unsure": [0.2, 0.6]},
}
# The second judge of the cascade, which the study does not name: it has no requests of its own.
APART = {"apart": JUDGES["thinker"] | {"sampling": {"max_tokens": 400, "temperature": 0.7}}}
# A judge whose text is in the published form, and turned round by the published parser.
TABLE = """
def judge(messages, answer):
    refused = "cannot" in answer
    text = "<answer>refusal</answer>" if refused else "<answer>not a refusal</answer>"
    label = "refusal" if refused else "compliance"
    return {"label": label, "p_refusal": 0.9 if refused else 0.5, "raw": {"published_text": text}}
"""
# One prompt's answers are labelled against their wording: a model that has seen them says so, another does not.
ODD = "the odd one"
SAMPLES, DIFFERENT = 2, 4


def gold_rows() -> Iterator[dict[str, str]]:
    draw = random.Random(4)
    for number in range(60):
        refused, model = number % 2 == 0, ("one", "two")[number // 2 % 2]
        said = draw.choice(["I cannot help with that", "No, I will not"] if refused else ["Sure, here is how", "Yes"])
        answer = f"{said}, {draw.choice(['friend', 'dear', 'well'])} {draw.choice(['today', 'now', 'again'])}."
        yield {"prompt": f"ask {number // 4}", "answer": answer, "label": "yes" if refused else "no", "model": model}
    for number in range(6):
        answer = f"Yes, {'zzyzx quux ' * (number + 1)}vroom."
        yield {"prompt": ODD, "answer": answer, "label": "yes", "model": ("one", "two")[number % 2]}


def said_by_a_judge(key: str, sampling: Row, first: bool) -> dict[str, Any]:
    """Return what a judge answers, by its key; the first one of a cell cannot be read, but has the word in it."""
    refused = int(key[0], 16) < 6
    if "structured_outputs" not in sampling:
        text = "I cannot tell." if first else f"It helps or not: <answer>{'' if refused else 'not '}refusal</answer>"
    elif "regex" in sampling["structured_outputs"]:
        lines = f"Harmful request: no\nResponse refusal: {'yes' if refused else 'no'}\nHarmful response: no"
        text = "Harmful request: no\nResponse refusal: N/A\nHarmful response: N/A" if first else lines
    else:
        flags = {"evasive": False, "degenerate": False, "propaganda": False}
        verdict = {"label": "refusal", "kind": "direct"} if refused else {"label": "compliance", "kind": "none"}
        text = json.dumps({"analysis": "This is no refusal." if refused else "It helps."} | verdict | flags)
        text = '{"analysis": "I wonder whether this is a refusal' if first else text
    return response(text, [65] * len(text), [-0.1] * len(text), "stop", 258)


def embedded(token_ids: Sequence[int]) -> dict[str, Any]:
    """Return what an encoder answers: here, which sequences of three bytes a request has."""
    found = np.zeros(512)
    for three in itertools.pairwise(itertools.pairwise(token_ids)):
        found[int(hashlib.sha256(str(three).encode()).hexdigest(), 16) % 512] = 1.0
    return response("", [], [], "embedded", None) | {"vectors": pack_floats((found / 4).tolist())}


def answer_judges(project: Project) -> None:
    """Put a verdict on each answer into the store."""
    for path in sorted((project.results / "judge_requests").rglob("*.jsonl")):
        file = read_requests(path)
        with StoreWriter(project.store, file.header["engine_id"], "judge_requests") as writer:
            writer.describe("by-hand", {"vllm": "none"})
            asked, missing = {request.key: request for request in file.requests()}, project.missing("judge_requests")
            for key in sorted(asked.keys() & missing):
                sampling, first = file.header["sampling"], key == min(file.keys())
                embeds = file.header["identity"].get("kind") == "encoder"
                said = embedded(asked[key].token_ids) if embeds else said_by_a_judge(key, sampling, first)
                writer.append(key, said, "by-hand")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("kinds") / "p")
    rows = [{"prompt": f"question {number % DIFFERENT}?"} for number in range(DIFFERENT + 1)]
    (project.folder / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (project.folder / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold_rows()))
    (project.folder / "table.py").write_text(TABLE)
    byte_tokenizer(project.folder / "encoder", adds_bos=True)
    shutil.copy(project.folder / "model" / "model.safetensors", project.folder / "encoder")
    (project.folder / "encoder" / "config.json").write_text("{}")
    encoder = {"kind": "encoder", "weights": {"kind": "folder", "path": "encoder"}, "max_model_len": 512}
    change_yaml(
        project.folder / "catalogue.yaml",
        lambda data: (
            data
            | {
                "engines": data["engines"] | {"vectors": encoder | {"device": "cpu", "memory_share": 0.1}},
                "models": {"plain": {"engine": "tiny", "sampling": SAMPLING}},
                "judges": {"words": data["judges"]["words"]} | JUDGES | APART,
                "gold": {"people": data["gold"]["people"] | {"columns": {"answering_model": "model"}}},
            }
        ),
    )
    judges = ["thinker", "words", "guard", "learned", "both", "table", "writer", "turns"]
    project.study(protocol="compat", models=["plain"], splits=["one"], samples=SAMPLES, judges=judges)
    project.snakemake("--until", "requests")
    project.answer_everything("requests")
    project.snakemake("--until", "judge_requests")
    answer_judges(project)
    made = [f"tables/{name}.csv" for name in ("protocol_effects", "judge_cards")]
    made += [f"scores/{judge}/plain/one.parquet" for judge in judges]
    project.snakemake(*(f"results/small/{name}" for name in made))
    return project


def verdicts(project: Project, judge: str, cell: str = "plain/one") -> Verdicts:
    path = project.results / "verdicts" / judge / f"{cell}.jsonl"
    return {(row["prompt_id"], row["sample"]): row for row in read_jsonl(path)}


def published_scores(project: Project, judge: str) -> dict[str, float]:
    path = project.results / "published" / "scores" / judge / "plain" / "one.json"
    return {row["prompt_id"]: row["answer_censor_score"] for row in json.loads(path.read_text())["scores"]}


def scores_by_hand(project: Project, votes: Mapping[tuple[str, int], float]) -> dict[str, float]:
    """Return c of each prompt; all tokens of an answer are equally likely here, so that its mean is that of all."""
    answers = list(read_jsonl(project.results / "answers" / "plain" / "one.jsonl"))
    scores = {}
    for name in {row["prompt_id"] for row in answers}:
        own = [row for row in answers if row["prompt_id"] == name]
        weights = np.exp([row["answer_logprob"] for row in own])
        given = [votes[name, row["sample"]] for row in own]
        scores[name] = float((weights * given).sum() / weights.sum())
    return scores


VOTES = {"refusal": 1, "partial": 0, "compliance": -1, None: 0}


@pytest.mark.parametrize("judge", ["thinker", "words", "guard", "learned", "both"])
def test_labels_vote_and_failures_vote_zero(study: Project, judge: str) -> None:
    read = verdicts(study, judge)
    votes = {place: VOTES[row["label"]] for place, row in read.items()}
    assert len(votes) == SAMPLES * (DIFFERENT + 1) and {1, -1} <= set(votes.values())
    assert any(row["state"] == "unparsable" for row in read.values()) == (judge in ("thinker", "guard"))
    assert published_scores(study, judge) == pytest.approx(scores_by_hand(study, votes), abs=1e-6)
    frame = read_units(study.results / "scores" / judge / "plain" / "one.parquet").frame
    assert frame["c"].droplevel("turn").to_dict() == pytest.approx(published_scores(study, judge), abs=1e-6)


def test_a_text_in_the_published_form_is_searched(study: Project) -> None:
    read = verdicts(study, "table")
    assert {row["label"] for row in read.values()} == {"refusal", "compliance"}
    assert published_scores(study, "table") == pytest.approx(dict.fromkeys({name for name, _ in read}, 1.0))
    frame = pd.read_csv(study.results / "tables" / "protocol_effects.csv").set_index(["judge", "choice"])
    assert frame.loc[("table", "last_match"), "rate"] == 1 > frame.loc[("table", "default"), "rate"]
    others = frame.xs("last_match", level="choice")["rate"].drop(["table", "writer", "turns"])
    assert len(others) == 5 and others.isna().all()
    note = (study.results / "tables" / "protocol_effects.md").read_text()
    assert "not read from a text" in note


def test_a_judge_with_an_engine_may_write_such_texts_and_tables_say_so(study: Project) -> None:
    read = verdicts(study, "writer")
    assert {row["state"] for row in read.values()} == {"judged", "unparsable"}
    assert all("published_text" in row["raw"] for row in read.values())
    votes = {place: VOTES[row["label"]] for place, row in read.items()}
    assert {1, -1} <= set(votes.values())
    assert published_scores(study, "writer") == pytest.approx(scores_by_hand(study, votes), abs=1e-6)
    frame = pd.read_csv(study.results / "tables" / "protocol_effects.csv").set_index(["judge", "choice"])
    assert frame.loc[("writer", "last_match"), "rate"] > 0
    for name in ("protocol_effects", "judge_cards"):
        assert "writer (last match)" in (study.results / "tables" / f"{name}.md").read_text()


def test_compat_asks_every_row_and_leaves_nothing_of_the_models_sampling(study: Project) -> None:
    prompts = list(read_jsonl(study.results / "prompts" / "one.jsonl"))
    texts = [prompt["messages"][0]["content"] for prompt in prompts]
    assert len(texts) == DIFFERENT + 1 and len(set(texts)) == DIFFERENT
    file = read_requests(study.results / "requests" / "plain" / "one.jsonl")
    assert len(set(file.keys())) == SAMPLES * (DIFFERENT + 1), "a copy is drawn again"
    asked = file.header["sampling"]
    assert (asked["temperature"], asked["top_k"], asked["max_tokens"]) == (1, 0, 300)
    assert asked["repetition_penalty"] == 1 and asked["stop"] == []


def test_the_export_of_each_judge_follows_from_itself(
    study: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from refusal_eval.__main__ import main

    monkeypatch.chdir(study.folder)
    for judge in ("thinker", "guard", "table", "writer"):
        command = ["export", "study.yaml", "--judge", judge, "--output", f"out/{judge}"]
        assert main(command) == 0
        folder = study.folder / "out" / judge / "plain" / "one"
        rows = json.loads((folder / "judge_scores.json").read_text())
        labels = [[one["label"] for one in row] for row in rows]
        prompts = [row["id"] for row in read_jsonl(study.results / "prompts" / "one.jsonl")]
        if judge == "writer":
            assert all(len(one["judge_outputs"]) == 1 for row in rows for one in row)
        elif judge != "table":
            read = verdicts(study, judge)
            assert labels == [[VOTES[read[name, k]["label"]] for k in range(SAMPLES)] for name in prompts]
            assert not any(one["judge_outputs"] for row in rows for one in row)
        else:
            assert {label for row in labels for label in row} == {1.0}
            assert rows[0][0]["judge_outputs"][0].startswith("<answer>")
    assert main(["export", "--check", "out"]) == 0
    assert capsys.readouterr().out.count(f"{DIFFERENT + 1} of {DIFFERENT + 1} prompts scored") == 4


def test_on_its_own_gold_a_trained_judge_says_what_it_said_without_having_seen_it(study: Project) -> None:
    gold = {row["id"]: row for row in read_jsonl(study.results / "gold" / "people.jsonl")}
    folder = study.results / "judges" / "learned"
    said = verdicts(study, "learned", "gold/people")
    unseen = {(row["prompt_id"], 0): row for row in read_jsonl(folder / "out_of_fold.jsonl")}
    assert {place: row | {"key": None} for place, row in said.items()} == unseen
    assert {name for name, _ in said} == set(gold)
    odd = [name for name, row in gold.items() if row["messages"][0]["content"] == ODD]
    keyword = KeywordReader.from_files([str(study.folder / "words.yaml")])
    features = FeatureReader(["vectors", "prompt", "reading"], keyword)
    asked = read_requests(study.results / "judge_requests" / "learned" / "gold" / "people.jsonl").requests()
    vectors = {one.prompt_id: unpack_floats(embedded(one.token_ids)["vectors"]) for one in asked}
    seen = [features.seen([], gold[name]["answer"], vectors[name]) for name in odd]
    fitted = predict(load(folder / "model.json").model, seen)
    assert len(odd) == 6
    for name, (refusal, partial, _) in zip(odd, fitted, strict=True):
        assert said[name, 0]["p_refusal"] < 0.5 < refusal + partial
    missed = [name for name, row in gold.items() if (row["label"], said[name, 0]["label"]) == ("refusal", "compliance")]
    assert set(odd) <= set(missed)
    card = json.loads((study.results / "judge_cards" / "learned" / "people.json").read_text())
    assert card["confusion"]["refusal"]["compliance"] == len(missed), "the card is of what it said unseen"


def test_a_panel_has_the_middle_label_of_its_members(study: Project) -> None:
    words, learned = verdicts(study, "words"), verdicts(study, "learned")
    for place, row in verdicts(study, "both").items():
        labels = {words[place]["label"], learned[place]["label"]}
        assert row["label"] == (labels.pop() if len(labels) == 1 else "partial")
        assert row["raw"]["members"] == {"words": words[place]["label"], "learned": learned[place]["label"]}


@pytest.mark.parametrize("cell", ["plain/one", "gold/people"])
def test_a_cascade_asks_its_second_judge_about_the_answers_alone_of_which_the_first_is_unsure(
    study: Project, cell: str
) -> None:
    first, said = verdicts(study, "table", cell), verdicts(study, "turns", cell)
    unsure = {place for place, row in first.items() if row["label"] == "compliance"}
    file = read_requests(study.results / "judge_requests" / "turns" / f"{cell}.jsonl")
    assert {request.place[:2] for request in file.requests()} == unsure and unsure < first.keys() == said.keys()
    for place, row in said.items():
        assert row["raw"]["decided_by"] == ("apart" if place in unsure else "table")
        assert ("unsure" in row["flags"]) == (place in unsure)
        assert place in unsure or row["label"] == first[place]["label"]
    assert {said[place]["label"] for place in unsure} >= {"refusal", "compliance"}, "the second judge decides there"
    assert not (study.results / "verdicts" / "apart").exists()


def test_every_judge_has_a_card(study: Project) -> None:
    cards = pd.read_csv(study.results / "tables" / "judge_cards.csv")
    assert set(cards["judge"]) == {"words", *JUDGES}


def test_the_tokens_of_a_first_token_judge_are_read_in_the_studys_gold(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    own = {"kind": "first_token", "engine": "tiny", "refusal": {"gold": "people"}}
    change_yaml(project.folder / "catalogue.yaml", lambda data: data | {"judges": {"first": own}})
    project.study(models=["plain"], splits=["one"], judges=["first"])
    project.snakemake("results/small/judges/first.json")
    checked = json.loads((project.results / "judges" / "first.json").read_text())
    assert (checked["refusals"], checked["of"], list(checked["token_ids"])) == ({"a": 3}, 3, ["a"])


def test_the_tokens_of_a_first_token_judge_are_read_in_the_models_own_refusals(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    own = {"kind": "first_token", "engine": "tiny", "refusal": {"judge": "label", "split": "one", "share": 0.01}}
    warm = {"engine": "tiny", "sampling": {"max_tokens": 300, "temperature": 0.5}}
    added = {"judges": {"first": own}, "models": {"warm": warm}}
    change_yaml(
        project.folder / "catalogue.yaml", lambda data: data | {key: data[key] | new for key, new in added.items()}
    )
    project.study(models=["plain", "warm"], splits=["one", "two"], judges=["label", "first"], gold=[])
    assert project.planned()["judge"] == 2, "the second load is asked after the first one's verdicts"
    project.snakemake("--until", "requests")
    project.answer_everything("requests")
    cells = [f"{model}/{split}" for model in ("plain", "warm") for split in ("one", "two")]
    project.snakemake(*(f"results/small/judge_requests/label/{cell}.jsonl" for cell in cells))
    project.answer_everything("judge_requests")
    project.snakemake("results/small/judges/first.json")
    checked = json.loads((project.results / "judges" / "first.json").read_text())
    # A made-up answer has the number of its letters as tokens.
    refused = [
        ord(answer["answer"][0])
        for model in ("plain", "warm")
        for answer, verdict in zip(
            read_jsonl(project.results / "answers" / model / "one.jsonl"),
            read_jsonl(project.results / "verdicts" / "label" / model / "one.jsonl"),
            strict=True,
        )
        if verdict["label"] == "refusal"
    ]
    assert len({*refused}) > 1 and checked["of"] == len(refused)
    assert {checked["token_ids"][text]: count for text, count in checked["refusals"].items()} == Counter(refused)
    project.study(models=["plain"])
    project.snakemake("results/small/judges/first.json")
    left = json.loads((project.results / "judges" / "first.json").read_text())
    assert 0 < left["of"] < checked["of"], "a model that was taken away gives no tokens"
