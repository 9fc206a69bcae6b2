"""The status of a study: what is done, missing, running or failed, why, and where to read on."""

import json
import os
import time
import zlib

import pytest
from config_project import WHOLE_STUDY, Project
from engine_entries import settings_of
from status_logs import SERVER_LOG, record
from store_files import response

from refusal_eval.ask.requests import Ask, read_requests, write_requests
from refusal_eval.ask.store import StoreWriter
from refusal_eval.core.files import write_json, write_jsonl
from refusal_eval.study.batches import Cell, load_names
from refusal_eval.tools.status.status_table import status_table
from refusal_eval.tools.status.study_status import ReportStatus, study_status

STUDY = WHOLE_STUDY | {"splits": ["hub-rows", "file-rows"], "judges": ["words", "reader"]}
CELLS = [(model, split) for model in STUDY["models"] for split in STUDY["splits"]]
PLAIN_CELLS = [Cell("plain", split) for split in STUDY["splits"]]
PLAIN = f"model/hub-engine/plain/{load_names(1)[0]}"  # the engine load of the model `plain`
LONG_AGO = 3600


class Study:
    """A study's files, written by hand."""

    def __init__(self, config):
        self.config, self.report = config, ReportStatus(files=9, missing=0, old=0)
        self.results = f"results/{config['study']}"

    def render(self, cell, judge=None, requests=4, too_long=0, **options):
        """Write a request file."""
        path = f"{self.results}/judge_requests/{judge}/{cell}" if judge else f"{self.results}/requests/{cell}"
        seed = zlib.crc32(path.encode())
        asks = [Ask(f"p{i}", [1, 2], [(0, seed + i)]) for i in range(requests)]
        asks += [Ask(f"long{i}", [1] * 200, [(0, seed)]) for i in range(too_long)]
        engine = {"engine_id": "judge-id" if judge else "model-id", "identity": {"dtype": "bfloat16"}}
        write_requests(f"{path}.jsonl", asks, settings_of(engine, {"max_tokens": 8}), 100, **options)
        return read_requests(f"{path}.jsonl")

    def execute(self, file, count=None):
        """Put the responses to (the first of) a file's requests into the store."""
        with StoreWriter(self.config["store_dir"], file.header["engine_id"], "0") as writer:
            for key in list(file.keys())[:count]:
                writer.append(key, response("SECRET"), "s")
        return writer.path

    def rows(self, path, *states):
        """Write an answers or verdicts file."""
        rows = [{"answer": 'SECRET "state":"failed"', "state": state, "turn": 0} for state in states]
        write_jsonl(f"{self.results}/{path}.jsonl", rows)

    def receipt(self, stage, load, *rejected):
        """Write the receipt of an engine load."""
        rejections = [{"key": key, "status": 400, "message": "it is\x1b[31m refused"} for key in rejected]
        write_json(f"{self.results}/receipts/{stage}/{load}.json", {"rejected": rejections})

    def log(self, name, text, age=0):
        """Write a log of `age` seconds."""
        path = f"{self.results}/logs/{name}.log"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as handle:
            handle.write(text)
        os.utime(path, (time.time() - age,) * 2)
        return path

    def answer(self, model, split):
        """Take one cell to its answers."""
        self.execute(self.render(f"{model}/{split}"))
        self.rows(f"answers/{model}/{split}", "complete", "complete", "complete", "truncated")

    def judge(self, judge, model, split):
        """Take one cell from its answers to its scores (gold: to the judge's card)."""
        if judge == "reader":
            self.execute(self.render(f"{model}/{split}", judge))
        self.rows(f"verdicts/{judge}/{model}/{split}", *["judged"] * 4)
        made = f"judge_cards/{judge}/{split}.json" if model == "gold" else f"scores/{judge}/{model}/{split}.parquet"
        write_json(f"{self.results}/{made}", {})

    def finish(self):
        """Write everything."""
        self.rows("answers/gold/people", *["complete"] * 4)
        for cell in CELLS:
            self.answer(*cell)
        for judge in STUDY["judges"]:
            for cell in [*CELLS, ("gold", "people")]:
                self.judge(judge, *cell)

    def status(self, only=()):
        return study_status(self.config, time.time(), only, lambda: self.report)

    def cell(self, name, judge=None):
        """Return one cell's status."""
        return next(c for c in self.status().cells if f"{c.model}/{c.split}" == name and c.judge == judge)


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Study(Project(tmp_path).load(STUDY))


# --- Cells ------------------------------------------------------------------------------------------------------------


def test_an_empty_study_waits_for_everything_and_nothing_failed(study, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    status = study.status()
    assert status.state == "incomplete" and status.troubles == []
    assert {(cell.state, cell.note) for cell in status.cells if cell.step == "answers"} == {("waiting", "not rendered")}
    assert {cell.note for cell in status.cells if cell.step == "verdicts" and cell.model != "gold"} == {
        "waits for answers"
    }
    assert status.report is None
    assert "0 of 4 cells done, 4 waiting" in status_table(status)
    assert sorted(tmp_path.rglob("*")) == before, "status writes nothing"


def test_a_finished_study_is_done_in_a_line_for_each_model(study):
    study.finish()
    status = study.status()
    assert status.state == "done" and status.troubles == []
    assert all(cell.state == "done" and cell.current for cell in status.cells)
    text = status_table(status)
    assert "plain: 2 of 2 splits done (6 complete, 2 truncated)" in text
    assert "gold: 1 of 1 gold set done (4 judged)" in text
    assert "Everything is done." in text and "file-rows" not in text
    assert text.count("file-rows") < status_table(status, every=True).count("file-rows")


def test_a_half_done_store_is_counted_request_by_request(study):
    study.execute(study.render("plain/hub-rows", requests=5, too_long=2), count=3)
    study.render("plain/file-rows")
    cell = study.cell("plain/hub-rows")
    assert (cell.requests, cell.stored, cell.missing, cell.rejected, cell.too_long) == (7, 3, 2, 0, 2)
    assert (cell.state, cell.note, cell.rendered, cell.current) == ("waiting", "not executed", True, False)
    assert study.cell("plain/file-rows").missing == 4
    assert study.cell("thinker/hub-rows").rendered is False
    text = status_table(study.status())
    assert "2 too long" in text and "11 asked, 3 with a response, 6 missing, 2 too long" in text


def test_requests_of_two_cells_with_one_key_count_in_both(study):
    first = study.render("plain/hub-rows")
    write_jsonl(f"{study.results}/requests/plain/file-rows.jsonl", map(json.loads, first.path.read_text().splitlines()))
    study.execute(first)
    assert study.cell("plain/file-rows").stored == study.cell("plain/hub-rows").stored == 4


def test_all_in_the_store_waits_for_the_batch_or_for_its_collection(study):
    study.execute(study.render("plain/hub-rows"))
    study.render("plain/file-rows")
    assert study.cell("plain/hub-rows").note == "all in the store, waits for its batch"
    study.receipt("generate", PLAIN)
    assert study.cell("plain/hub-rows").note == "answers not collected"
    assert study.cell("plain/file-rows").note == "new since the last engine load"


def test_answers_older_than_their_requests_are_not_done_and_nothing_after_them(study):
    study.finish()
    os.utime(f"{study.results}/answers/plain/hub-rows.jsonl", (1, 1))
    assert study.status().state == "incomplete"
    assert "old answers" in study.cell("plain/hub-rows").note
    assert study.cell("plain/hub-rows", "words").note == "waits for answers"
    assert study.cell("plain/file-rows", "words").state == "done"


def test_the_states_of_answers_are_counted_and_those_without_a_response_shown(study):
    study.finish()
    study.rows("answers/plain/hub-rows", "complete", "too_long", "failed", "failed")
    for judge in STUDY["judges"]:
        study.judge(judge, "plain", "hub-rows")
    cell = study.cell("plain/hub-rows")
    assert cell.states == {"complete": 1, "too_long": 1, "failed": 2}
    assert (cell.state, cell.stored, cell.too_long) == ("done", 1, 1)
    assert "done; 1 complete, 1 too_long, 2 failed" in status_table(study.status())


def test_verdicts_without_scores_are_not_done(study):
    study.finish()
    os.unlink(f"{study.results}/scores/words/plain/hub-rows.parquet")
    os.utime(f"{study.results}/judge_cards/reader/people.json", (1, 1))
    assert study.cell("plain/hub-rows", "words").note == "scores not made"
    card = study.cell("gold/people", "reader")
    assert (card.note, card.scored, card.state) == ("judge's card older than the verdicts", False, "waiting")
    assert study.status().state == "incomplete"


def test_a_study_whose_report_is_missing_or_outdated_in_part_is_not_done(study):
    study.finish()
    study.report = ReportStatus(files=9, missing=2, old=3)
    status = study.status()
    assert all(cell.state == "done" for cell in status.cells) and status.state == "incomplete"
    assert "7 of 9 files are there, 3 of them are outdated" in status_table(status)


def test_dialogues_are_counted_by_conversation_until_their_answers_are_there(study):
    file = study.render("plain/hub-rows", dialogue={"rendering": {}, "reasoning": None, "seed": 0})
    study.execute(file)
    cell = study.cell("plain/hub-rows")
    assert (cell.unit, cell.requests, cell.stored) == ("conversations", 4, 4)
    assert cell.note == "not executed", "first turns say nothing about later ones"
    assert "conversations, turns unknown" in status_table(study.status())
    study.rows("answers/plain/hub-rows", *["complete"] * 12)
    assert study.cell("plain/hub-rows").states == {"complete": 12}


def test_a_request_file_of_another_kind_is_a_failure_with_its_path(study):
    study.render("plain/hub-rows").path.write_text("{}\n")
    status = study.status()
    assert status.state == "failed" and study.cell("plain/hub-rows").state == "failed"
    assert "requests/plain/hub-rows.jsonl is not a request file" in status.troubles[0].message


def test_only_the_cells_that_are_asked_for(study):
    study.finish()
    os.unlink(f"{study.results}/answers/thinker/hub-rows.jsonl")
    status = study.status(["plain/hub-rows"])
    assert {(cell.model, cell.split) for cell in status.cells} == {("plain", "hub-rows")}
    assert (status.state, status.report, len(status.cells)) == ("done", None, 3)


# --- Engine loads -----------------------------------------------------------------------------------------------------


def test_a_failed_engine_is_told_with_its_cause_and_both_logs(study):
    file = study.render("plain/hub-rows")
    study.execute(file, count=1)
    message = f"the engine died while starting (exit code 1). Its last lines, from x.log:\n    {SERVER_LOG}"
    log = study.log(f"generate/{PLAIN}", record("INFO", "starting") + record("ERROR", message), LONG_AGO)
    server_log = study.log(f"generate/{PLAIN}.server", SERVER_LOG, LONG_AGO)
    status = study.status()
    (trouble,) = status.troubles
    assert (trouble.state, trouble.message) == ("failed", "the engine died while starting (exit code 1)")
    assert trouble.cause == "ValueError: No memory for the cache blocks"
    assert (trouble.log, trouble.server_log) == (log, server_log)
    cell = study.cell("plain/hub-rows")
    assert (cell.state, cell.note, cell.missing, cell.trouble) == ("failed", "engine load failed", 3, trouble.job)
    assert status.state == "failed"
    text = status_table(status)
    assert "engine load failed [1]" in text and f"server log: {server_log}" in text


COUNTED = "12 of 40 requests, 3 tokens/s, about 9 s left"
COMMAND = "starting the engine: /opt/python -m vllm --model x"


@pytest.mark.parametrize(
    ("lines", "age", "state", "message", "note"),
    [
        ([COUNTED, "by cell: plain/hub-rows 3/4"], 0, "running", COUNTED, "running"),
        ([COMMAND], 0, "starting", "starting the engine", "engine is starting"),
        # A server that logs keeps a quiet job running.
        (["the engine is healthy"], LONG_AGO, "running", "the engine is healthy", "running"),
        # Its first answers take long.
        (["the engine is healthy", "0 of 640 requests, 210 tokens/s"], 0, "running", "0 of 640 requests", "running"),
        ([COUNTED], 2 * LONG_AGO, "stopped", "12 of 40 requests", "engine load stopped"),
        (
            ["ERROR the time limit is reached with 7 requests left"],
            0,
            "stopped",
            "7 requests left",
            "engine load stopped",
        ),
    ],
)
def test_how_far_a_load_is_without_having_failed(study, lines, age, state, message, note):
    study.render("plain/hub-rows")
    records = [("" if line.startswith("ERROR") else "INFO ") + line for line in lines]
    study.log(f"generate/{PLAIN}", "".join(f"12:00:00 {line}\n" for line in records), age)
    if age == LONG_AGO:
        study.log(f"generate/{PLAIN}.server", "Avg generation throughput\n")
    status = study.status()
    (trouble,) = status.troubles
    assert trouble.state == state and message in trouble.message
    assert study.cell("plain/hub-rows").note == note and status.state == "incomplete"


def test_rejected_requests_are_not_missing_and_their_receipt_is_named(study):
    file = study.render("plain/hub-rows", requests=5)
    study.execute(file, count=3)
    study.receipt("generate", PLAIN, list(file.keys())[3], "f" * 64)
    cell = study.cell("plain/hub-rows")
    assert (cell.stored, cell.rejected, cell.missing) == (3, 1, 1)
    (trouble,) = study.status().troubles
    assert (trouble.state, trouble.message) == ("rejected", "the engine rejected 2 requests")
    assert trouble.cause == "HTTP 400: it is refused" and trouble.log.endswith(f"{PLAIN}.json")
    assert study.status().state == "incomplete", "a rejected request is no failure"
    assert "1 rejected" in status_table(study.status())


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"rejected": [{}]}', '{"rejected": ["x"]}', "\xff"])
def test_a_damaged_receipt_is_a_failure_even_where_answers_are_there(study, content):
    study.finish()
    study.receipt("generate", PLAIN)
    path = f"{study.results}/receipts/generate/{PLAIN}.json"
    with open(path, "w", encoding="latin-1") as handle:
        handle.write(content)
    status = study.status()
    (trouble,) = status.troubles
    assert trouble.log == path and "delete it and run again" in trouble.message
    assert status.state == "failed"


def test_how_a_load_ended_does_not_matter_once_its_answers_are_there(study):
    study.finish()
    study.log(f"generate/{PLAIN}", record("ERROR", "an old error"), LONG_AGO)
    assert study.status().state == "done"


def test_of_several_shards_the_failed_one_is_told(study):
    study.config["shards"] = 2
    study.render("plain/hub-rows")
    first, second = (f"model/hub-engine/plain/{load}" for load in load_names(2))
    study.receipt("generate", first)
    study.log(f"generate/{second}", record("ERROR", "no GPU"), LONG_AGO)
    assert study.cell("plain/hub-rows").trouble == ("generate", second)


# --- Other rules ------------------------------------------------------------------------------------------------------


def test_a_failed_rule_is_told_once_and_its_cells_refer_to_it(study):
    study.log("prompts/hub-rows", record("ERROR", "rows.csv, line 3: no column `prompt`"))
    status = study.status()
    (trouble,) = status.troubles
    assert (trouble.rule, trouble.name, trouble.message) == (
        "prompts",
        "hub-rows",
        "rows.csv, line 3: no column `prompt`",
    )
    assert trouble.log == f"{study.results}/logs/prompts/hub-rows.log"
    for model in STUDY["models"]:
        assert study.cell(f"{model}/hub-rows").state == "failed"
        assert study.cell(f"{model}/file-rows").state == "waiting"


def test_an_uncaught_error_is_told_by_its_last_line(study):
    study.answer("plain", "hub-rows")
    trace = "uncaught error\nTraceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'prompt_id'"
    study.log("verdicts/words/plain/hub-rows", record("ERROR", trace))
    (trouble,) = study.status().troubles
    assert (trouble.message, trouble.cause) == ("uncaught error", "KeyError: 'prompt_id'")
    cell = study.cell("plain/hub-rows", "words")
    assert (cell.state, cell.note) == ("failed", "not judged: verdicts failed")


def test_an_error_whose_output_was_made_since_is_over(study):
    study.finish()
    study.log("score/words/plain/hub-rows", record("ERROR", "no verdicts"))
    assert study.status().state == "done"
    os.unlink(f"{study.results}/scores/words/plain/hub-rows.parquet")
    assert study.status().troubles[0].rule == "score"
    study.log("tables", record("ERROR", "no scores"))
    assert {trouble.rule for trouble in study.status().troubles} == {"score", "tables"}


def test_of_logs_those_of_the_study_and_of_rules_of_ones_own_are_told(study):
    study.log("requests/plain/bundled-rows", record("ERROR", "a cell that left the study"))
    study.log("summary", record("INFO", "fine"))
    assert study.status().troubles == []
    study.log("export/plain", record("ERROR", "no disk"))
    assert [(t.rule, t.name) for t in study.status().troubles] == [("export", "plain")]


# --- The table --------------------------------------------------------------------------------------------------------


def test_nothing_of_prompts_and_answers_is_shown_and_lines_are_not_too_long(study):
    study.finish()
    os.unlink(f"{study.results}/answers/plain/hub-rows.jsonl")
    study.log(f"generate/{PLAIN}", record("ERROR", "long " * 500), LONG_AGO)
    status = study.status()
    text = status_table(status, every=True)
    assert max(map(len, text.splitlines())) <= 120
    assert "SECRET" not in text + json.dumps(status.as_json())


def test_many_cells_that_are_alike_share_a_line(study):
    study.config["splits"] = [f"split-{i:02}" for i in range(30)]
    study.config["comparisons"] = []
    study.config["split_entries"] = {name: study.config["split_entries"]["hub-rows"] for name in study.config["splits"]}
    for split in study.config["splits"]:
        study.render(f"plain/{split}")
    study.execute(read_requests(f"{study.results}/requests/plain/split-07.jsonl"), count=2)
    (load,) = load_names(1)
    study.log(f"generate/model/hub-engine/plain/{load}", record("ERROR", "no GPU"), LONG_AGO)
    lines = status_table(study.status()).splitlines()
    assert [line.split() for line in lines if "split-" in line] == [
        ["split-07", "4", "2", "2", "engine", "load", "failed", "[1]"]
    ]
    assert any(line.split()[:5] == ["29", "splits", "116", "0", "116"] for line in lines)
    assert len(lines) < 40
    assert sum("split-" in line for line in status_table(study.status(), every=True).splitlines()) > 60


def test_the_json_holds_plain_values(study):
    study.render("plain/hub-rows")
    study.log(f"generate/{PLAIN}", record("ERROR", "no GPU"), LONG_AGO)
    value = json.loads(json.dumps(study.status().as_json()))
    cell = value["cells"][0]
    assert (cell["model"], cell["missing"], cell["trouble"]) == ("plain", 4, f"generate {PLAIN}")
    assert value["troubles"][0]["message"] == "no GPU" and value["state"] == "failed"
