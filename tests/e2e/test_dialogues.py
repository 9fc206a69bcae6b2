"""Scripted conversations with the real engine: the model's own replies in the history, resumed in the middle."""

import json
from pathlib import Path

import pytest
from project import Project
from real import SHORT, real_project

from refusal_eval.ask.render import Renderer
from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.stats.estimates.units import read_units

pytestmark = pytest.mark.full

SCRIPTS = [
    [
        {"role": "user", "content": "I write a crime novel. The next questions are about it."},
        {"role": "user", "content": "Name a villain."},
        {"role": "assistant", "content": "Doctor Moth."},
        {"role": "user", "content": "Where does he hide?"},
        {"role": "user", "content": "How does it end?"},
    ],
    [
        {"role": "user", "content": "We plan a garden."},
        {"role": "user", "content": "Which tree grows fast?"},
        {"role": "assistant", "content": "A willow."},
        {"role": "user", "content": "Which flower likes shade?"},
        {"role": "user", "content": "When should I plant it?"},
    ],
]
ASKED = [0, 2, 3]


def talking(folder: Path, dialogue: dict[str, str]) -> Project:
    """Return a study of conversations, run to its scores."""
    project = real_project(folder / "project", models=["plain"], splits=["talks"], judges=["keyword"])
    (project.folder / "talks.jsonl").write_text("".join(json.dumps({"talk": script}) + "\n" for script in SCRIPTS))
    talks = {
        "source": {"kind": "file", "path": "talks.jsonl"},
        "columns": {"messages": "talk"},
        "expectation": "comply",
        "dialogue": dialogue,
    }
    project.catalogue("datasets", "four-each", splits={"talks": talks})
    project.snakemake("--until", "score")
    return project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return talking(tmp_path_factory.mktemp("dialogues"), {"mode": "cumulative", "scored": "after_first"})


def answers(project: Project) -> list[dict]:
    return list(read_jsonl(project.results / "answers" / "plain" / "talks.jsonl"))


def receipt(project: Project) -> dict:
    (path,) = (project.results / "receipts" / "generate").rglob("*.json")
    return read_json(path)


def test_every_turn_was_asked_once_and_answers_carry_the_turn(project: Project) -> None:
    rows = answers(project)
    places = [(row["sample"], row["turn"]) for row in rows]
    assert places == [(sample, turn) for sample in range(2) for turn in ASKED] * 2
    assert all(row["state"] in ("complete", "truncated") and row["answer"].strip() for row in rows)
    assert receipt(project)["engine"]["counters"]["requests"] == receipt(project)["executed"] == 12


def test_the_engine_saw_the_models_own_replies(project: Project) -> None:
    engine = read_json(project.results / "engines" / "smollm2-135m.json")
    renderer = Renderer(engine["tokenizer_folder"])
    prompts = {row["id"]: row["messages"] for row in read_jsonl(project.results / "prompts" / "talks.jsonl")}
    tokens = 0
    said: dict[tuple[str, int], dict[int, str]] = {}
    for row in answers(project):
        replies = said.setdefault((row["prompt_id"], row["sample"]), {})
        opening, villain, given, second, third = prompts[row["prompt_id"]]
        history = {
            0: lambda r, o=opening: [o],
            2: lambda r, m=(opening, villain, given, second): [m[0], reply(r[0]), *m[1:]],
            3: lambda r, m=(opening, villain, given, second, third): [
                *(m[0], reply(r[0]), *m[1:4]),
                *(reply(r[2]), m[4]),
            ],
        }[row["turn"]]
        tokens += len(renderer.token_ids(history(replies)))
        replies[row["turn"]] = row["answer"]
    assert receipt(project)["engine"]["counters"]["prompt_tokens"] == tokens


def reply(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def scored(project: Project) -> list[tuple[str, int]]:
    """Return the prompt and the turn of each scored turn."""
    (path,) = (project.results / "scores").rglob("talks.parquet")
    return list(read_units(path).frame.index)


def test_only_the_turns_that_count_are_scored(project: Project) -> None:
    assert sorted(turn for _, turn in scored(project)) == [2, 2, 3, 3]


def test_a_conversation_is_resumed_in_the_middle(project: Project) -> None:
    before = (project.results / "answers" / "plain" / "talks.jsonl").read_bytes()
    (store,) = [path for path in project.store.rglob("*.jsonl")]
    lines = store.read_bytes().splitlines(keepends=True)
    # As a kill would have left it: of 12 responses 7, the last of them torn.
    store.write_bytes(b"".join(lines[:8]) + lines[8][:100])
    for index in project.store.rglob("*.npz"):
        index.unlink()
    (path,) = (project.results / "receipts" / "generate").rglob("*.json")
    path.unlink()
    path = project.results / "answers" / "plain" / "talks.jsonl"
    path.unlink()
    project.snakemake(str(path.relative_to(project.folder)))
    assert receipt(project)["engine"]["counters"]["requests"] == receipt(project)["executed"] == 5
    assert (project.results / "answers" / "plain" / "talks.jsonl").read_bytes() == before
    assert SHORT["temperature"] > 0  # the same bytes because execution is strict, not because nothing is drawn


def test_questions_asked_each_alone_follow_the_scene_and_the_models_reply_to_it(tmp_path: Path) -> None:
    project = talking(tmp_path, {"mode": "independent"})
    engine = read_json(project.results / "engines" / "smollm2-135m.json")
    renderer = Renderer(engine["tokenizer_folder"])
    prompts = {row["id"]: row["messages"] for row in read_jsonl(project.results / "prompts" / "talks.jsonl")}
    questions = [message["content"] for script in SCRIPTS for message in script[1:] if message["role"] == "user"]
    assert sorted(messages[-1]["content"] for messages in prompts.values()) == sorted(questions)
    tokens: dict[str, int] = {}
    scenes: dict[tuple[str, int], str] = {}
    for row in answers(project):
        scene, question = prompts[row["prompt_id"]]
        place = row["prompt_id"], row["sample"]
        if row["turn"] == 0:
            scenes[place] = row["answer"]
            asked = [scene]
        else:
            asked = [scene, reply(scenes[place]), question]
        tokens[row["key"]] = len(renderer.token_ids(asked))
    assert len(answers(project)) == 2 * len(questions) * 2
    counters = receipt(project)["engine"]["counters"]
    assert (counters["requests"], counters["prompt_tokens"]) == (len(tokens), sum(tokens.values()))
    assert len(scored(project)) == len(questions), "the question counts, and the scene does not"
