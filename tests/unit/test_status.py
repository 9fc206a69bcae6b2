"""The status of a study: what is done, missing, running or failed, why, and where to read on."""

import json
import os
import time
import zlib

import pytest
from config_project import WHOLE_STUDY
from engine_entries import settings_of
from store_files import response

from refusal_eval.ask.requests import Ask, read_requests, write_requests
from refusal_eval.ask.store import StoreWriter
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json, write_jsonl
from refusal_eval.core.log_text import clean, error_and_cause, progress, server_cause
from refusal_eval.program.snakemake_summary import MadeFiles, summary
from refusal_eval.program.study_file import ROOT
from refusal_eval.study.batches import load_names
from refusal_eval.study.study import Study as TypedStudy
from refusal_eval.tools.status.status_table import status_table
from refusal_eval.tools.status.study_status import ReportStatus, report_status, study_status
from refusal_eval.workflow.activations_stage import uses

STUDY = WHOLE_STUDY | {"splits": ["hub-rows", "file-rows"], "judges": ["words", "reader"]}
STEERED = STUDY | {"models": ["plain", "steered", "control"], "directions": ["refusal", "chance"], "gold": []}
CELLS = [(model, split) for model in STUDY["models"] for split in STUDY["splits"]]
HUB = "plain/hub-rows"
PLAIN = f"model/hub-engine/plain/{load_names(1)[0]}"  # the engine load of the model `plain`
LONG_AGO = 3600
SERVER_LOG = """\
(APIServer pid=1) INFO 11-22 01:00:24 [utils.py:1] RuntimeError: not yet
(EngineCore_0 pid=2) WARNING 11-22 01:00:25 [x.py:3] ImportError: an extension is missing
(EngineCore_0 pid=2) ERROR 11-22 01:00:26 [core.py:718] EngineCore failed to start.
(EngineCore_0 pid=2) ERROR 11-22 01:00:26 [core.py:718] \x1b[31mValueError: No memory for the cache blocks\x1b[0m
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def record(level, message):
    return f"12:00:00 {level} {message}\n"


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
        for model, split in CELLS:
            self.execute(self.render(f"{model}/{split}"))
            self.rows(f"answers/{model}/{split}", "complete", "complete", "complete", "truncated")
        for judge in STUDY["judges"]:
            for cell in [*CELLS, ("gold", "people")]:
                self.judge(judge, *cell)

    def unlink(self, path):
        os.unlink(f"{self.results}/{path}")

    def outdate(self, path):
        os.utime(f"{self.results}/{path}", (1, 1))

    def status(self, only=(), **asked):
        return study_status(self.config, time.time(), only, lambda: self.report, **asked)

    def cell(self, name=HUB, judge=None):
        """Return one cell's status."""
        return next(c for c in self.status().cells if f"{c.model}/{c.split}" == name and c.judge == judge)

    def text(self, every=False):
        return status_table(self.status(), every)


@pytest.fixture
def study(project):
    return Study(project.load(STUDY))


# --- Cells ------------------------------------------------------------------------------------------------------------


def test_an_empty_study_waits_for_everything_and_nothing_failed(study, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    status = study.status()
    assert (status.state, status.troubles, status.report) == ("incomplete", [], None)
    assert {(cell.state, cell.note) for cell in status.cells if cell.step == "answers"} == {("waiting", "not rendered")}
    assert {cell.note for cell in status.cells if cell.judge and cell.model != "gold"} == {"waits for answers"}
    assert "0 of 4 cells done, 4 waiting" in status_table(status)
    assert sorted(tmp_path.rglob("*")) == before, "status writes nothing"


def test_a_finished_study_is_done_in_a_line_for_each_model_unless_its_report_is_not(study):
    study.finish()
    status = study.status()
    assert (status.state, status.troubles) == ("done", [])
    assert all(cell.state == "done" and cell.current for cell in status.cells)
    text = status_table(status)
    assert "plain: 2 of 2 splits done (6 complete, 2 truncated)" in text
    assert "gold: 1 of 1 gold set done (4 judged)" in text
    assert "Everything is done." in text and "file-rows" not in text
    assert text.count("file-rows") < status_table(status, every=True).count("file-rows")
    study.report = ReportStatus(files=9, missing=2, old=3)
    assert study.status().state == "incomplete"
    assert "7 of 9 files are there, 3 of them are outdated" in study.text()
    study.report = ReportStatus(files=9, missing=0, old=0, left=["figures/main.pdf", "tables/old.csv"])
    assert study.status().state == "done"
    assert "may hold old numbers: figures/main.pdf, tables/old.csv" in " ".join(study.text().split())
    study.report = ReportStatus(0, 0, 0, "the study cannot be planned: its records are elsewhere")
    assert study.status().state == "incomplete" and "plain: 2 of 2 splits done" in study.text()
    assert "the study cannot be planned: its records are elsewhere" in study.text()


@pytest.mark.parametrize(
    ("change", "path", "receipt", "judge", "note"),
    [
        ("unlink", "answers/{}.jsonl", False, None, "all in the store, waits for its batch"),
        ("unlink", "answers/{}.jsonl", True, None, "answers not collected"),
        ("outdate", "answers/{}.jsonl", False, None, "all in the store, waits for its batch, old answers"),
        ("outdate", "answers/{}.jsonl", False, "words", "waits for answers"),
        ("outdate", "judge_requests/reader/{}.jsonl", False, "reader", "not rendered"),
        ("outdate", "verdicts/words/{}.jsonl", False, "words", "verdicts older than the answers"),
        ("unlink", "scores/words/{}.parquet", False, "words", "scores not made"),
        ("outdate", "scores/words/{}.parquet", False, "words", "scores older than the verdicts"),
    ],
)
def test_what_a_cell_waits_for(study, change, path, receipt, judge, note):
    study.finish()
    getattr(study, change)(path.format(HUB))
    if receipt:
        study.receipt("generate", PLAIN)
    cell, status = study.cell(judge=judge), study.status()
    assert (cell.state, cell.note, status.state, status.troubles) == ("waiting", note, "incomplete", [])
    assert note in status_table(status, every=True) and study.cell("plain/file-rows", "words").state == "done"


@pytest.mark.parametrize(
    "path",
    [
        f"answers/{HUB}.jsonl",
        f"judge_requests/reader/{HUB}.jsonl",
        f"verdicts/words/{HUB}.jsonl",
        f"scores/words/{HUB}.parquet",
        "judge_cards/reader/people.json",
    ],
)
def test_a_file_whose_time_is_out_of_order_is_done_if_snakemake_would_leave_it(study, path):
    """Such as one that was copied, or restored from a backup."""
    study.finish()
    asked = []

    def current():
        asked.append(1)
        return [f"{study.results}/{path}"]

    assert study.status(current_of=current).state == "done" and not asked
    study.outdate(path)
    assert study.status().state == "incomplete"
    assert study.status(current_of=current).state == "done" and len(asked) == 1


def test_a_receipt_older_than_requests_is_of_an_earlier_load_unless_snakemake_would_leave_it(study):
    file = study.render(HUB)
    study.receipt("generate", PLAIN, *file.keys())
    study.outdate(f"receipts/generate/{PLAIN}.json")
    assert (study.cell().rejected, study.cell().note, study.status().troubles) == (0, "not executed", [])
    study.execute(file)
    status = study.status(current_of=lambda: [f"{study.results}/receipts/generate/{PLAIN}.json"])
    assert status.cells[0].note == "answers not collected"


def test_a_finished_study_is_not_done_while_snakemake_would_make_files_of_its_cells_again(study, monkeypatch):
    study.finish()
    answers, table = f"{study.results}/answers/{HUB}.jsonl", f"{study.results}/tables/scores.csv"
    write_json(table, {})
    made = [MadeFiles(answers, "answers", False), MadeFiles(f"{study.results}/gold/people.jsonl", "gold", False)]
    monkeypatch.setattr(
        "refusal_eval.tools.status.study_status.summary", lambda *_: [*made, MadeFiles(table, "tables", True)]
    )
    study.report = report_status(study.config, None, None)
    assert (study.report.files, study.report.old, study.report.remade) == (1, 0, 1)
    assert study.status().state == "incomplete"
    assert "1 file of prompts, requests, answers, verdicts or scores would be made again" in study.text()


def test_why_snakemake_cannot_plan_a_study_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text("study: nothing-else\n")
    with pytest.raises(UserError, match=r"the study cannot be planned: (.|\n)*models: this key is missing"):
        summary(tmp_path / "study.yaml", ROOT)


def test_a_card_and_requests_count_as_well(study):
    study.finish()
    study.outdate("judge_cards/reader/people.json")
    card = study.cell("gold/people", "reader")
    assert (card.note, card.scored, card.state) == ("judge's card older than the verdicts", False, "waiting")
    study.render(HUB, requests=6)
    study.receipt("generate", PLAIN)
    assert study.cell().note == "new since the last engine load, old answers"
    study.render(HUB).path.write_text("{}\n")
    (trouble,) = study.status().troubles
    assert f"requests/{HUB}.jsonl is not a request file" in trouble.message and study.cell().state == "failed"


def test_a_half_done_store_is_counted_request_by_request(study):
    study.execute(study.render(HUB, requests=5, too_long=2), count=3)
    file = study.render("plain/file-rows")
    cell = study.cell()
    assert (cell.requests, cell.stored, cell.missing, cell.rejected, cell.too_long) == (7, 3, 2, 0, 2)
    assert (cell.state, cell.note, cell.rendered, cell.current) == ("waiting", "not executed", True, False)
    assert study.cell("plain/file-rows").missing == 4
    assert study.cell("thinker/hub-rows").rendered is False
    assert "2 too long" in study.text() and "11 asked, 3 with a response, 6 missing, 2 too long" in study.text()
    # A request of two cells counts in both.
    file.path.write_bytes(read_requests(f"{study.results}/requests/{HUB}.jsonl").path.read_bytes())
    assert study.cell("plain/file-rows").stored == study.cell().stored == 3


def test_the_states_of_answers_are_counted_and_those_without_a_response_shown(study):
    study.finish()
    study.rows(f"answers/{HUB}", "complete", "too_long", "failed", "failed")
    for judge in STUDY["judges"]:
        study.judge(judge, "plain", "hub-rows")
    cell = study.cell()
    assert cell.states == {"complete": 1, "too_long": 1, "failed": 2}
    assert (cell.state, cell.stored, cell.too_long) == ("done", 1, 1)
    assert "done; 1 complete, 1 too_long, 2 failed" in study.text()


def test_dialogues_are_counted_by_conversation_until_their_answers_are_there(study):
    study.execute(study.render(HUB, dialogue={"rendering": {}, "reasoning": None, "seed": 0}))
    cell = study.cell()
    assert (cell.unit, cell.requests, cell.stored) == ("conversations", 4, 4)
    assert cell.note == "not executed", "first turns say nothing about later ones"
    assert "conversations, turns unknown" in study.text()
    study.rows(f"answers/{HUB}", *["complete"] * 12)
    assert study.cell().states == {"complete": 12}


def test_directions_are_counted_and_one_that_failed_is_what_the_steered_model_waits_for(project):
    study = Study(project.load(STEERED))
    write_json(f"{study.results}/directions/refusal.safetensors", {})
    study.log("direction/chance", record("ERROR", "direction chance: both sides have the same mean"))
    assert "Directions: 1 of 2 fitted (not yet: chance [1])" in study.text()
    (trouble,) = study.status().troubles
    assert study.cell("control/hub-rows").trouble == trouble.job == ("direction", "chance")
    assert study.cell("steered/hub-rows").state == "waiting"
    write_json(f"{study.results}/directions/chance.safetensors", {})
    assert study.status().troubles == [] and "Directions: 2 of 2 fitted\n" in study.text()


@pytest.mark.parametrize(
    ("log", "age", "state", "cell", "words"),
    [
        (record("ERROR", "the capture ended with exit code 1"), 0, "failed", "failed", "ended with exit code 1"),
        (record("ERROR", "the time limit is reached; what was captured is kept"), 0, "stopped", "waiting", "is kept"),
        (record("INFO", "12 of 30 prompts"), 0, "running", "waiting", "12 of 30 prompts"),
        (record("INFO", "12 of 30 prompts"), LONG_AGO, "stopped", "waiting", "without its file (killed?)"),
    ],
)
def test_a_direction_and_its_steered_model_wait_for_a_capture(project, log, age, state, cell, words):
    study = Study(project.load(STEERED))
    write_json(f"{study.results}/directions/chance.safetensors", {})
    name = "/".join(next(uses(TypedStudy(study.config)))[0])
    study.log(f"activations/{name}", log, age)
    for only in ((), ("steered/hub-rows",)):
        (trouble,) = study.status(only).troubles
        assert trouble.job == ("activations", name) and trouble.state == state and words in trouble.message
        assert study.status(only).state == ("failed" if state == "failed" else "incomplete")
    waiting = study.cell("steered/hub-rows")
    assert (waiting.state, waiting.trouble) == (cell, trouble.job) and f"activations {state}" in waiting.note
    assert "Directions: 1 of 2 fitted (not yet: refusal [1])" in study.text()
    assert study.status().as_json()["open_directions"] == {"refusal": f"activations {name}"}
    write_json(f"{study.results}/activations/{name}.safetensors", {})
    assert study.status().troubles == []


def test_only_the_cells_that_are_asked_for(study):
    study.finish()
    study.unlink("answers/thinker/hub-rows.jsonl")
    status = study.status([HUB])
    assert {(cell.model, cell.split) for cell in status.cells} == {("plain", "hub-rows")}
    assert (status.state, status.report, len(status.cells)) == ("done", None, 3)


# --- Engine loads -----------------------------------------------------------------------------------------------------


def test_a_failed_engine_is_reported_with_its_cause_and_both_logs(study):
    study.execute(study.render(HUB), count=1)
    message = f"the engine died while starting (exit code 1). Its last lines, from x.log:\n    {SERVER_LOG}"
    log = study.log(f"generate/{PLAIN}", record("INFO", "starting") + record("ERROR", message), LONG_AGO)
    server_log = study.log(f"generate/{PLAIN}.server", SERVER_LOG, LONG_AGO)
    (trouble,) = study.status().troubles
    assert (trouble.state, trouble.message) == ("failed", "the engine died while starting (exit code 1)")
    assert trouble.cause == "ValueError: No memory for the cache blocks"
    assert (trouble.log, trouble.server_log) == (log, server_log)
    cell = study.cell()
    assert (cell.state, cell.note, cell.missing, cell.trouble) == ("failed", "engine load failed", 3, trouble.job)
    assert study.status().state == "failed"
    assert "engine load failed [1]" in study.text() and f"server log: {server_log}" in study.text()
    value = json.loads(json.dumps(study.status().as_json()))
    assert (value["cells"][0]["missing"], value["cells"][0]["trouble"]) == (3, f"generate {PLAIN}")
    assert value["troubles"][0]["message"] == trouble.message and value["state"] == "failed"


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
        (["ERROR the time limit is reached with 7 requests left"], 0, "stopped", "7 requests", "engine load stopped"),
    ],
)
def test_how_far_a_load_is_without_having_failed(study, lines, age, state, message, note):
    study.render(HUB)
    records = [("" if line.startswith("ERROR") else "INFO ") + line for line in lines]
    study.log(f"generate/{PLAIN}", "".join(f"12:00:00 {line}\n" for line in records), age)
    if age == LONG_AGO:
        study.log(f"generate/{PLAIN}.server", "Avg generation throughput\n")
    (trouble,) = study.status().troubles
    assert trouble.state == state and message in trouble.message
    assert study.cell().note == note and study.status().state == "incomplete"


def test_rejected_requests_are_not_missing_and_their_receipt_is_named(study):
    file = study.render(HUB, requests=5)
    study.execute(file, count=3)
    study.receipt("generate", PLAIN, list(file.keys())[3], "f" * 64)
    cell = study.cell()
    assert (cell.stored, cell.rejected, cell.missing) == (3, 1, 1)
    (trouble,) = study.status().troubles
    assert (trouble.state, trouble.message) == ("rejected", "the engine rejected 2 requests")
    assert trouble.cause == "HTTP 400: it is refused" and trouble.log.endswith(f"{PLAIN}.json")
    assert study.status().state == "incomplete", "a rejected request is no failure"
    assert "1 rejected" in study.text()


def test_an_answer_that_was_rejected_once_and_paid_for_later_is_said_with_what_to_delete(study):
    study.finish()
    file = study.render(HUB, requests=5, too_long=1)
    keys = list(file.keys())
    rows = [{"key": key, "state": "failed", "turn": 0} for key in [*keys[3:], None]]
    write_jsonl(f"{study.results}/answers/{HUB}.jsonl", [{"key": keys[0], "state": "complete", "turn": 0}, *rows])
    assert study.cell().answered_since == 1 and "got a response" in study.text()  # of `finish` are four of them
    study.execute(file)
    assert (study.cell().answered_since, study.cell().state) == (2, "done")
    text = study.text()
    assert "2 answers in state failed, once rejected, got a response later. To take them, delete and run again:" in text
    assert f"\n  {study.results}/answers/{HUB}.jsonl\n" in text


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"rejected": [{}]}', '{"rejected": ["x"]}', "\xff"])
def test_a_damaged_receipt_is_a_failure_even_where_answers_are_there(study, content):
    study.finish()
    study.receipt("generate", PLAIN)
    path = f"{study.results}/receipts/generate/{PLAIN}.json"
    with open(path, "w", encoding="latin-1") as handle:
        handle.write(content)
    (trouble,) = study.status().troubles
    assert trouble.log == path and "delete it and run again" in trouble.message
    assert study.status().state == "failed"


def test_of_several_shards_the_failed_one_is_reported(study):
    study.config["shards"] = 2
    study.render(HUB)
    first, second = (f"model/hub-engine/plain/{load}" for load in load_names(2))
    study.receipt("generate", first)
    study.log(f"generate/{second}", record("ERROR", "no GPU"), LONG_AGO)
    assert study.cell().trouble == ("generate", second)


# --- Other rules ------------------------------------------------------------------------------------------------------


def test_a_failed_rule_is_reported_once_and_its_cells_refer_to_it(study):
    log = study.log("prompts/hub-rows", record("ERROR", "rows.csv, line 3: no column `prompt`"))
    (trouble,) = study.status().troubles
    assert (trouble.job, trouble.message) == (("prompts", "hub-rows"), "rows.csv, line 3: no column `prompt`")
    assert trouble.log == log
    for model in STUDY["models"]:
        cell = study.cell(f"{model}/hub-rows")
        assert (cell.state, cell.note, cell.trouble) == ("failed", "not rendered: prompts failed", trouble.job)
        assert study.cell(f"{model}/file-rows").state == "waiting"


@pytest.mark.parametrize(
    ("log", "cells"),
    [
        ("fetch_rows/{rows}/rows.parquet", {"plain/hub-rows", "thinker/hub-rows"}),
        ("fetch_weights/{weights}", {"plain/hub-rows", "plain/file-rows"}),
        ("identify_engine/folder-engine", {"thinker/hub-rows", "thinker/file-rows"}),
    ],
)
def test_what_cannot_be_fetched_or_identified_fails_the_cells_that_need_it(study, log, cells):
    typed = TypedStudy(study.config)
    rows, weights = typed.splits["hub-rows"].source, typed.engines["hub-engine"].weights
    name = rows.copy_file("").rsplit("/", 1)[-1]
    log = log.replace("rows.parquet", name).format(rows=rows.copy_id, weights=weights.copy_id)
    study.log(log, record("ERROR", "no network"))
    failed = {f"{c.model}/{c.split}" for c in study.status().cells if c.state == "failed" and c.step == "answers"}
    assert failed == cells and study.status().state == "failed"


def test_an_adapter_that_cannot_be_identified_fails_the_cells_of_its_model(project):
    study = Study(project.load(STUDY | {"models": ["plain", "tuned-here"]}))
    study.log("identify_adapter/tuned-here", record("ERROR", "rank 512 cannot be served"))
    failed = {c.model for c in study.status().cells if c.state == "failed"}
    assert failed == {"tuned-here"} and "identify_adapter failed" in study.cell("tuned-here/hub-rows").note


def test_an_error_is_over_once_the_output_was_made_and_reported_by_its_last_line_until_then(study):
    study.finish()
    trace = "uncaught error\nTraceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'prompt_id'"
    for name in (f"generate/{PLAIN}", f"score/words/{HUB}", f"verdicts/words/{HUB}"):
        study.log(name, record("ERROR", trace), LONG_AGO)
    assert study.status().state == "done"
    study.unlink(f"scores/words/{HUB}.parquet")
    assert [trouble.rule for trouble in study.status().troubles] == ["score"]
    study.unlink(f"verdicts/words/{HUB}.jsonl")
    trouble = next(trouble for trouble in study.status().troubles if trouble.rule == "verdicts")
    assert (trouble.message, trouble.cause) == ("uncaught error", "KeyError: 'prompt_id'")
    assert study.cell(judge="words").note == "not judged: verdicts failed"


def test_of_logs_those_of_the_study_and_of_rules_of_ones_own_are_reported(study):
    study.log("requests/plain/bundled-rows", record("ERROR", "a cell that left the study"))
    study.log("summary", record("INFO", "fine"))
    assert study.status().troubles == []
    study.log("export/plain", record("ERROR", "no disk"))
    study.log("tables", record("ERROR", "no scores"))
    assert [trouble.job for trouble in study.status().troubles] == [("export", "plain"), ("tables", "")]


@pytest.mark.parametrize(
    "log",
    [
        *(
            "figures/tau",
            "tables/battles",
            "analysis/battles",
            "analysis/mixed_model",
            "judge_floor",
            "separation/far",
            "direction_cosines",
        ),
        *("separation/aqi/far", "fetch_adapter/0123", "identify_adapter/plain", "intervention/plain"),
        *("activations/answer_mean/plain/hub-rows", "calibration/in-turn/people", "estimates/words/tuned"),
        # Of names that the study has, and of jobs that it does not have for them.
        *("judge_requests/words/plain/hub-rows", "calibration/words/people", "published_answers/plain/hub-rows"),
        "train_judge/reader",
    ],
)
def test_a_failed_figure_that_left_the_study_is_not_reported(study, log):
    """Nor any other job that has."""
    study.log(log, record("ERROR", "it failed"))
    assert study.status().troubles == []


@pytest.mark.parametrize(
    "log", ["figures/tau_sweep", "tables/scores", "analysis/judge_agreement", "analysis/variance", "judge_floor"]
)
def test_a_failed_job_that_is_no_cells_is_reported_while_the_study_has_it(study, log):
    study.config["judge_entries"]["reader"]["floor"] = {"se": 0.5}
    study.log(log, record("ERROR", "it failed"))
    assert [(trouble.rule, trouble.state) for trouble in study.status().troubles] == [(log.split("/")[0], "failed")]


# --- The table --------------------------------------------------------------------------------------------------------


def test_nothing_of_prompts_and_answers_is_shown_and_lines_are_not_too_long(study):
    study.finish()
    study.unlink(f"answers/{HUB}.jsonl")
    study.log(f"generate/{PLAIN}", record("ERROR", "long " * 500), LONG_AGO)
    text = study.text(every=True)
    assert max(map(len, text.splitlines())) <= 120
    assert "SECRET" not in text + json.dumps(study.status().as_json())


def test_many_cells_that_are_alike_share_a_line(study):
    study.config["splits"] = [f"split-{i:02}" for i in range(30)]
    study.config["comparisons"] = []
    study.config["split_entries"] = {name: study.config["split_entries"]["hub-rows"] for name in study.config["splits"]}
    for split in study.config["splits"]:
        study.render(f"plain/{split}")
    study.execute(read_requests(f"{study.results}/requests/plain/split-07.jsonl"), count=2)
    study.log(f"generate/{PLAIN}", record("ERROR", "no GPU"), LONG_AGO)
    lines = [line.split() for line in study.text().splitlines()]
    own = [line for line in lines if line and line[0].startswith("split-")]
    assert own == [["split-07", "4", "2", "2", "engine", "load", "failed", "[1]"]]
    assert any(line[:5] == ["29", "splits", "116", "0", "116"] for line in lines)
    assert len(lines) < 40
    assert sum("split-" in line for line in study.text(every=True).splitlines()) > 60


# --- Logs -------------------------------------------------------------------------------------------------------------


def test_text_of_servers_is_one_printable_line_of_limited_length():
    assert clean("a\x1b[31mb\x1b[0m\x1b]0;title\x07\x00c\r\n\u202ed\u2028e\x9b") == "ab c d e"
    assert len(clean("x" * 999)) == 200 and clean("x" * 999).endswith("...")
    assert clean("\x1b" * 500 + "y" * 5) == "y" * 5 or len(clean("\x1b" * 500)) <= 200


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (SERVER_LOG, "ValueError: No memory for the cache blocks"),
        ("api_server.py: error: unrecognized arguments: --x", "api_server.py: error: unrecognized arguments: --x"),
        (
            "(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
            "  Value error, no such model [type=value_error, input_value=SECRET, input_type=str]",
            "Value error, no such model",
        ),
        ("ERROR 11-22 01:00:26 [a.py:1] torch.OutOfMemoryError: CUDA", "torch.OutOfMemoryError: CUDA"),
        ("RuntimeError: failed. See root cause above.", "RuntimeError: failed. See root cause above."),
        ("all is well", None),
    ],
)
def test_the_cause_in_a_servers_log(text, cause):
    assert server_cause(text) == cause


UNCAUGHT = "12:00:00 ERROR uncaught error\n"
MAY_PASS = "1 requests failed for a reason that may pass. 2 responses"
TOO_LITTLE = "too little memory: this engine takes 3 GiB"


@pytest.mark.parametrize(
    ("log", "server_log", "reported"),
    [
        (record("ERROR", TOO_LITTLE), SERVER_LOG, (TOO_LITTLE, None)),  # that of an earlier start is not blamed
        (
            f"{UNCAUGHT}Traceback (most recent call last):\n  File\nKeyboardInterrupt\n",
            "",
            ("uncaught error", "KeyboardInterrupt"),
        ),
        (f"{UNCAUGHT}  | Traceback\n  | ValueError: no\n  +----\n", "", ("uncaught error", "ValueError: no")),
        (f"{UNCAUGHT}Traceback\n  File\nStopIteration\n", "", ("uncaught error", "StopIteration")),
        # Failed requests are reported with the last of them.
        (
            record("WARNING", "a request of plain/one failed: HTTP 500: no")
            + record("INFO", "3 of 9 requests, 1 tokens/s")
            + record("ERROR", MAY_PASS),
            "",
            (MAY_PASS, "HTTP 500: no"),
        ),
        (record("ERROR", "odd") + record("INFO", "going on") * 9, "", None),  # the job survived it
        ("", "", None),
    ],
)
def test_the_error_that_a_log_ends_with_and_its_cause(log, server_log, reported):
    assert error_and_cause(log, server_log) == reported


def test_progress_is_the_last_line_of_progress_or_the_last_line():
    counted, waiting = "5 of 9 requests, 1 tokens/s", "waiting for the engine since 30 s"
    assert progress(record("INFO", counted) + record("INFO", "a/b: all 5 requests done")) == counted
    assert progress(record("INFO", waiting)) == waiting and progress("") == ""
