"""How much there is to do: from config before the first run, from prompts, and from request files and the store."""

import json
from pathlib import Path

import pytest
from config_project import WHOLE_STUDY
from engine_entries import settings_of
from store_files import response

from refusal_eval.ask.requests import Ask, read_requests, write_requests
from refusal_eval.ask.store import StoreWriter
from refusal_eval.data.prompts import make_prompts
from refusal_eval.study.batches import Cell
from refusal_eval.study.dialogues import asked_turns
from refusal_eval.study.study import Study
from refusal_eval.tools.plan.study_costs import engine_paces
from refusal_eval.tools.plan.workload import ASSUMED, COUNTED, MISSING, CellWork
from refusal_eval.tools.plan.workload_files import ASSUMED_PROMPTS, StudyNow, states_captured, whole_work, work_left
from refusal_eval.weights.engine_size import engine_billions

ENGINE = {"engine": "hub-engine", "engine_id": "id", "identity": {"dtype": "bfloat16"}}


def study(project, **values):
    return project.load(WHOLE_STUDY | {"prompts_per_split": None} | values)


def work(project, in_store=True, asked_k=2, **values):
    """Return the work of a study, all of whose files hold for K = `asked_k`."""
    files = {str(path.relative_to(project.folder)) for path in project.folder.glob("results/large/**/*.jsonl")}
    return work_of(study(project, **values), project.folder, StudyNow(files, asked_k), in_store)


def of_split(project, split, **values):
    """Return the work of a study whose one split has this entry."""
    project.write("own.yaml", {"datasets": {"mine": {"splits": {"mine": split}}}})
    return work(project, splits=["mine"], catalogue=["own.yaml"], gold=[], **values)


def work_of(config, folder, current, in_store=True):
    whole = whole_work(Study(config), folder, current)
    return work_left(Study(config), whole, current) if in_store else whole


def prompts(project, split, count, dialogue=False):
    messages = [{"role": "user", "content": "x" * 40}] * (3 if dialogue else 1)
    row = {"messages": messages, "dialogue": True} if dialogue else {"messages": messages}
    project.write(f"results/large/prompts/{split}.jsonl", "\n".join([json.dumps(row)] * count) + "\n")


def requests(project, kind, name, count, samples, stored, dialogue=None):
    """Write a request file of `count` prompts and put the first `stored` of its requests into the store."""
    asks = [Ask(f"p{n}", [1, len(kind), n], [(s, 10 * n + s) for s in range(samples)]) for n in range(count)]
    path = project.folder / f"results/large/{kind}/{name}.jsonl"
    write_requests(path, asks, settings_of(ENGINE, {"max_tokens": 4, "temperature": 1.0}), 100, dialogue)
    with StoreWriter("results/store", "id", name.replace("/", "-")) as writer:
        for key in list(read_requests(path).keys())[:stored]:
            writer.append(key, response("hi"), "serving")


def test_before_anything_is_fetched_rows_are_counted_where_they_can_be_and_else_assumed(project):
    project.write("rows.csv", "question,answer,label\n" + "q,a,yes\n" * 7)
    found = work(project)
    hub, local = found[Cell("plain", "hub-rows")], found[Cell("plain", "file-rows")]
    assert (hub.requests, hub.known) == (ASSUMED_PROMPTS * 2, ASSUMED)
    assert (local.requests, local.prompts, local.known) == (7 * 2, 7, COUNTED)


@pytest.mark.parametrize(
    ("entry", "study_keys", "prompts", "known"),
    [
        ({}, {}, 40, COUNTED),
        ({}, {"prompts_per_split": {"size": 9}}, 9, COUNTED),
        ({"sample": {"size": 8}}, {"prompts_per_split": {"size": 9}}, 8, COUNTED),
        # Of a filtered split the kept rows count, or at most all.
        ({"where": {"a": "b"}, "expected_kept": 15}, {}, 15, COUNTED),
        ({"where": {"a": "b"}}, {}, 40, ASSUMED),
        # How many turns a column of messages holds is assumed.
        ({"columns": {"messages": "chat"}, "dialogue": {"mode": "cumulative"}}, {}, 40 * 3, ASSUMED),
    ],
)
def test_what_an_entry_tells_of_its_rows(project, entry, study_keys, prompts, known):
    found = of_split(project, _hub_split(expected_rows=40, **entry), **study_keys)[Cell("plain", "mine")]
    assert (found.requests, found.known) == (prompts * 2, known)


def test_a_model_that_reasons_writes_more_and_the_judge_reads_its_answer_only(project):
    entry = {"engine": "hub-engine", "sampling": {"max_tokens": 1500}}
    project.write("own.yaml", {"models": {"talks": entry, "thinks": entry | {"reasoning": {"end": "</think>"}}}})
    found = work(project, models=["talks", "thinks"], catalogue=["own.yaml"])
    assert found[Cell("thinks", "hub-rows")].answer_tokens > found[Cell("talks", "hub-rows")].answer_tokens
    assert found[Cell("thinks", "hub-rows", "reader")] == found[Cell("talks", "hub-rows", "reader")]


def _hub_split(**keys):
    source = {"kind": "hub", "repo": "owner/data", "revision": "0" * 40, "split": "test"}
    return {"source": source, "expectation": "comply", **keys}


def test_prompts_that_are_there_are_counted(project):
    prompts(project, "hub-rows", 5)
    found = work(project)
    generated, judged = found[Cell("plain", "hub-rows")], found[Cell("plain", "hub-rows", "reader")]
    assert (generated.requests, generated.prompts, generated.tokens_per_prompt) == (10, 5, 10.0)
    assert judged.requests == judged.prompts == 10 and judged.tokens_per_prompt > 64  # the answer is read, too
    assert Cell("plain", "hub-rows", "words") not in found, "a keyword list needs no engine"


def test_every_turn_of_a_dialogue_is_a_request(project):
    prompts(project, "talk-rows", 4, dialogue=True)
    found = work(project, splits=["talk-rows"])
    assert found[Cell("plain", "talk-rows")].requests == 4 * 3 * 2
    assert found[Cell("plain", "talk-rows", "reader")].requests == 4 * 3 * 2


def test_what_the_store_has_is_left_out(project):
    requests(project, "requests", "plain/hub-rows", count=5, samples=2, stored=7)
    found = work(project)[Cell("plain", "hub-rows")]
    assert (found.requests, found.prompts, found.known, found.stored) == (3, 2, MISSING, 7)
    assert work(project, in_store=False)[Cell("plain", "hub-rows")].known == ASSUMED


def test_requests_that_the_engine_rejected_are_no_work(project):
    requests(project, "requests", "plain/hub-rows", count=5, samples=2, stored=7)
    own, cell = study(project), Cell("plain", "hub-rows")
    lost = list(read_requests(project.folder / "results/large/requests/plain/hub-rows.jsonl").keys())[7:]
    rejected = [{"key": key, "status": 400, "message": "no"} for key in lost[:2]]
    (receipt,) = Study(own).paths.receipts("generate", Study(own).batch_of[cell])
    project.write(receipt, json.dumps({"rejected": rejected}))
    found = work(project)[cell]
    assert (found.requests, found.prompts, found.stored, found.rejected) == (1, 1, 7, 2)


def test_verdict_requests_count_once_all_answers_are_there(project):
    requests(project, "judge_requests", "reader/plain/hub-rows", count=5, samples=1, stored=4)
    cell = Cell("plain", "hub-rows", "reader")
    assert work(project)[cell].known == ASSUMED, "answers that are still to come will be judged"
    requests(project, "requests", "plain/hub-rows", count=5, samples=2, stored=10)
    assert work(project)[cell] == CellWork(1, 1, work(project)[cell].tokens_per_prompt, 1.0, 1, MISSING, stored=4)


def test_a_model_whose_answers_are_recorded_has_nothing_to_execute(project):
    project.write("answers_of_others/file-rows/answers.json", json.dumps([{"prompt": "q", "answers": ["a"]}]))
    config = study(project, models=["plain"], splits=["file-rows"], judges=["reader"], gold=[], comparisons=[])
    config["model_entries"]["plain"]["recorded"] = "answers_of_others"
    config["engine_entries"] = {"reader-engine": config["engine_entries"]["wheel-engine"]}
    assert work_of(config, project.folder, StudyNow())[Cell("plain", "file-rows")].requests == 0


def test_captures_read_prompts_or_answers_and_those_that_hold_are_not_made_again(project):
    far = {"name": "far", "models": ["plain"], "positive": {"split": "hub-rows"}, "negative": {"split": "file-rows"}}
    values = {"directions": ["refusal"], "separation": [far | {"positions": "answer_mean"}]}
    own = Study(study(project, **values))
    before = states_captured(own, project.folder, StudyNow())
    prompt, answers = before["last_prompt_token", "plain", "hub-rows"], before["answer_mean", "plain", "hub-rows"]
    assert (prompt.requests, prompt.stored, answers.requests) == (ASSUMED_PROMPTS, 0, 2 * ASSUMED_PROMPTS)
    assert answers.tokens_per_prompt == prompt.tokens_per_prompt + 64
    files = {
        f"results/large/activations/{kind}/plain/hub-rows.safetensors" for kind in ("last_prompt_token", "answer_mean")
    }
    for samples, left in ((2, 0), (1, 2 * ASSUMED_PROMPTS)):
        found = states_captured(own, project.folder, StudyNow(files, samples))
        assert [found[kind, "plain", "hub-rows"].requests for kind in ("last_prompt_token", "answer_mean")] == [0, left]
        assert found["last_prompt_token", "plain", "file-rows"].requests > 0


# ---------------------------------------------------------------- dialogues


def talks(**keys):
    return _hub_split(expected_rows=30, columns={"turns": [f"t{n}" for n in range(21)]}, **keys)


@pytest.mark.parametrize(
    ("split", "answers", "verdicts"),
    [
        (talks(dialogue={"mode": "cumulative"}), 30 * 21, 30 * 21),
        (talks(dialogue={"mode": "cumulative", "scored": "after_first"}), 30 * 21, 30 * 20),
        (talks(dialogue={"mode": "independent"}), 600 * 2, 600),
        (talks(dialogue={"mode": "independent", "scored": "all"}), 600 * 2, 600 * 2),
        (talks(dialogue={"mode": "independent"}, sample={"size": 50}), 50 * 2, 50),
    ],
)
def test_separate_turns_are_prompts_of_two_turns_before_any_sample_is_taken(project, split, answers, verdicts):
    found = of_split(project, split, samples=5)
    generated = found[Cell("plain", "mine")]
    assert (generated.requests, generated.known) == (5 * answers, COUNTED)
    assert found[Cell("plain", "mine", "reader")].requests == 5 * verdicts


def test_each_turn_of_a_hosted_dialogue_pays_for_what_was_said_before_it(project):
    engine, entry = (
        {"kind": "chat", "address": "https://host", "served": "big"},
        {"engine": "far", "sampling": {"max_tokens": 4000}},
    )
    models = {"talks": entry, "thinks": entry | {"reasoning": {"end": "</think>"}}}
    project.write("own.yaml", {"engines": {"far": engine}, "models": models})
    prompts(project, "talk-rows", 4, dialogue=True)
    plugins = [str(Path(__file__).parents[1] / "plugins" / "chat_engine.py")]
    values = {"models": [*models], "splits": ["talk-rows"], "catalogue": ["own.yaml"], "plugins": plugins}
    for cells in ("none rendered", "all rendered"):
        found = work(project, **values, comparisons=[])
        # The mean of three turns: 10 tokens of the question, and one more question with the answer to it.
        assert {found[Cell(name, "talk-rows")].tokens_per_prompt for name in models} == {10 + 10 + 600.0}, cells
        for name in models:
            requests(project, "requests", f"{name}/talk-rows", count=4, samples=2, stored=0, dialogue={"seed": 0})


def test_a_plan_of_separate_turns_is_what_the_prompts_will_be(project):
    columns = {"turns": [f"t{n}" for n in range(4)]}
    rows = [{name: f"{name} of {row}" for name in columns["turns"]} for row in range(3)]
    made, _ = make_prompts(rows, columns, "f", mode="independent", scored="last")
    split = _hub_split(expected_rows=3, columns=columns, dialogue={"mode": "independent"})
    found = of_split(project, split, models=["plain"], comparisons=[])
    (generated,) = [one for cell, one in found.items() if cell.judge is None]
    assert generated.requests == 2 * sum(len(asked_turns(prompt)) for prompt in made)


# ---------------------------------------------------------------- engines


def test_a_size_is_reported_by_name_by_files_or_not_at_all(tmp_path):
    entry = {"weights": {"kind": "folder", "path": "own/model"}, "dtype": "bfloat16", "quantization": None}
    weights = tmp_path / "model.safetensors"
    with open(weights, "wb") as handle:
        handle.truncate(6 * 10**9)  # a file with a hole: it takes no space
    assert engine_billions(entry, [str(weights)], "cuda", 1) == ((3.0, 3.0), "by its files")
    assert engine_billions(entry, [], "cuda", 2) == ((16.0, 16.0), "assumed")
    said = entry | {"parameters": 21, "active_parameters": 3.6}
    assert engine_billions(said, [str(weights)], "cuda", 1) == ((21, 3.6), "by its entry")
    hub = entry | {"weights": {"kind": "hub", "repo": "owner/M-30B-A3B"}}
    assert engine_billions(hub, [], "cuda", 1) == ((30.0, 3.0), "by its name")
    manifest = tmp_path / "weights.json"
    sizes = {"a.safetensors": 4 * 10**9, "config.json": 9}
    files = {name: {"size": size, "sha256": "0" * 64} for name, size in sizes.items()}
    manifest.write_text(json.dumps({"source": {}, "folder": "model", "files": files}))
    assert engine_billions(entry, [str(manifest)], "cuda", 1) == ((2.0, 2.0), "by its files")


def test_an_engine_takes_its_parallel_devices(project):
    project.write("own.yaml", {"engines": {"wide": _engine(tensor_parallel=2, data_parallel=2, device="cuda")}})
    project.write("models.yaml", {"models": {"wide": {"engine": "wide", "sampling": {"max_tokens": 9}}}})
    config = project.load(
        WHOLE_STUDY | {"models": ["wide"], "catalogue": ["own.yaml", "models.yaml"], "comparisons": []}
    )
    pace = engine_paces(Study(config), project.folder)["wide"]
    assert (pace.devices, pace.weights, pace.size) == (4, 14e9, "7B by its name")


def _engine(**keys):
    weights = {"kind": "hub", "repo": "owner/model-7B", "revision": "0" * 40}
    return {"weights": weights, "max_model_len": 2048, **keys}
