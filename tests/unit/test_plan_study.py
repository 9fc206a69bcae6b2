"""What a study will cost, on which terms it stands, and what disk it takes, as a user reads it before the first run."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml
from config_project import COMMIT, STUDY, WHOLE_STUDY, changed

from refusal_eval.__main__ import main
from refusal_eval.ask.requests import Ask, RequestSettings, write_requests
from refusal_eval.study.batches import Cell
from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import row_source
from refusal_eval.study.study import Study
from refusal_eval.tools.plan import plan_command, workload_files
from refusal_eval.tools.plan.disk_use import NEED, assumed_shape, device_of, disk_needs, disks
from refusal_eval.tools.plan.plan_page import duplicate_counts, plan_page
from refusal_eval.tools.plan.study_costs import plan_study
from refusal_eval.tools.plan.study_terms import gates, licences, open_pins, terms_of
from refusal_eval.tools.plan.workload import MISSING, CellWork
from refusal_eval.weights.engine_file import weight_source


@pytest.fixture(autouse=True)
def no_token(tmp_path, monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no-token"))


@pytest.fixture
def program(project, capsys):
    """Return a function that runs `plan` on the project's study and returns exit code and text."""

    def run(*arguments):
        code = main(["plan", "study.yaml", *arguments])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def hub(repo, revision="0" * 40, **more):
    return {"kind": "hub", "repo": repo, "revision": revision, **more}


@pytest.fixture
def plan(project, program):
    """Return the same for a study of two engines on GPUs."""
    engines = {
        name: {
            "weights": hub(f"owner/{name}"),
            "max_model_len": 4096,
            "device": "cuda",
            "tensor_parallel": gpus,
        }
        for name, gpus in {"s-8b": 1, "l-70b": 4}.items()
    }
    models = {name: {"engine": name, "sampling": {"max_tokens": 1000}} for name in engines}
    judge = {"kind": "llm", "engine": "s-8b", "rubric": "rubric.md", "labels": {"refusal": "A", "compliance": "C"}}
    source = hub("owner/data", split="test")
    splits = {f"s{n}": {"source": source, "expectation": "comply", "expected_rows": 200 + n} for n in range(3)}
    catalogue = {"engines": engines, "models": models, "judges": {"j": judge}, "datasets": {"d": {"splits": splits}}}
    project.write("own.yaml", catalogue)
    study = {"study": "planned", "models": [*models], "splits": [*splits], "samples": 5, "judges": ["j"]}
    project.write("study.yaml", study | {"catalogue": ["own.yaml"]})
    return program


def flat(text):
    return " ".join(text.split())


def numbers(text, name):
    """Return the words behind a name at the beginning of a line."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(f"{name} ")]
    return line.split()[1:]


# ---------------------------------------------------------------- requests, tokens, hours


def test_counts_requests_batches_loads_and_the_least_time(plan):
    code, text = plan("--gpus", "8")
    assert code == 0
    assert "2 models on 3 splits (603 prompts), K = 5" in text and "takes up to 4 GPUs. Costs are estimates." in text
    #               cells requests store to execute batches loads
    assert numbers(text, "answers")[:6] == ["6", "6,030", "?", "6,030", "2", "2"]
    assert numbers(text, "verdicts")[:4] == ["6", "6,030", "?", "6,030"]
    assert numbers(text, "l-70b")[:4] == ["4", "GPUs", "140", "GB"]
    assert re.search(
        r"On 8 GPUs: \d\.\d h at least: the longest load of l-70b \(`shards` in the study splits it\)", text
    )
    assert "A GPU is like an A100" in text and "We have measured none of this on a GPU" in text


def test_every_batch_has_its_requests_tokens_and_hours_with_an_upper_bound(plan, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    found = json.loads(plan("--gpus", "8", "--json")[1])
    assert found["requests"] == {"generate": 6030, "judge": 6030} and not found["counted_in_store"]
    batches = {(batch["stage"], batch["name"]): batch for batch in found["batches"]}
    large, small = (batches["generate", f"model/{name}/{name}"] for name in ("l-70b", "s-8b"))
    assert large["requests"] == small["requests"] == 3015
    assert large["device_hours"] > 4 * small["device_hours"] > 0
    answers = found["work"]["generate"]
    assert answers["tokens_out"] == 6030 * 600 and answers["most_tokens_out"] == 6030 * 1000
    assert answers["tokens_in"] == 2 * 603 * 60, "the samples of a prompt share its reading"
    hours = [(cost["device_hours"], cost["most_device_hours"]) for cost in found["engines"].values()]
    assert all(0 < usual < most for usual, most in hours)
    assert sum(usual for usual, _ in hours) == pytest.approx(sum(batch["device_hours"] for batch in found["batches"]))
    assert numbers(plan("--all")[1], "model/l-70b/l-70b")[:4] == ["generate", "3", "3,015", "1"]
    assert "BATCHES" not in plan()[1]
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"


def test_too_few_gpus_and_mistakes_of_the_study_are_reported(plan, tmp_path):
    code, text = plan("--gpus", "2")
    assert code == 1 and "engine `l-70b` takes 4 GPUs" in text
    assert "takes up to 4 GPUs" in plan()[1] and "On 4 GPUs: " in plan()[1]
    (tmp_path / "study.yaml").write_text("study: planned\n")
    code, text = plan()
    assert code == 1 and "models" in text


def test_a_judge_that_writes_costs_its_text_and_reads_longer_answers_at_most(plan, tmp_path):
    before = json.loads(plan("--json")[1])["work"]["judge"]
    own = yaml.safe_load((tmp_path / "own.yaml").read_text())
    own["judges"]["j"] = {"kind": "reasoned", "engine": "s-8b", "rubric": "rubric.md", "votes": 3}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(own))
    found = json.loads(plan("--json")[1])
    after = found["work"]["judge"]
    assert (before["tokens_out"], before["requests"]) == (6030, 6030)
    assert (after["tokens_out"], after["requests"]) == (3 * 6030 * 250, 3 * 6030)
    assert after["tokens_in"] == before["tokens_in"], "the votes on an answer share its reading"
    assert after["most_tokens_out"] == 3 * 6030 * 512
    assert "A written verdict takes 250 tokens" in found["assumptions"]


def test_where_there_is_a_store_the_page_says_how_to_find_out_what_it_has(plan, tmp_path):
    """A copy of a study under another name has all its responses in the store, and no requests yet."""
    command = ".venv/workflow/bin/snakemake --cores all --configfile study.yaml --until requests"
    assert "shows once requests are rendered." in flat(plan()[1]) and command not in flat(plan()[1])
    (tmp_path / "results" / "store").mkdir(parents=True)
    assert f"`{command}` does that without an engine" in flat(plan()[1])


def test_requests_of_an_earlier_run_that_no_longer_hold_are_reported(plan, tmp_path, monkeypatch):
    assert "CHANGED" not in plan()[1]
    monkeypatch.setattr(workload_files, "summary", lambda *_: [])  # Snakemake would make each file again
    for file in ("requests/s-8b/s0", "requests/s-8b/s1", "judge_requests/j/s-8b/s0"):
        path = tmp_path / "results" / "planned" / f"{file}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    code, text = plan()
    assert code == 0 and "renders the requests of 3 cells again, and those of before are not counted" in flat(text)
    assert numbers(text, "answers")[:4] == ["6", "6,030", "?", "6,030"]
    assert "all of them looked up" not in text and "no engine will be started" not in text
    found = json.loads(plan("--json")[1])["work"]
    assert (found["generate"]["outdated"], found["judge"]["outdated"]) == (2, 1)


@pytest.mark.parametrize(("stored", "known", "reported"), [(-2, MISSING, True), (0, MISSING, False), (-2, None, False)])
def test_requests_that_share_a_response_are_reported(plan, project, stored, known, reported):
    config = project.load(yaml.safe_load((project.folder / "study.yaml").read_text()))
    found = plan_study(config, project.folder / "study.yaml", project.folder, None)
    for cell, work in found.whole.items():
        if known and cell.judge:
            found.work[cell] = CellWork(0, 0, 1.0, 1.0, 1, known, stored=work.requests + stored)
            stored = 0
    assert duplicate_counts(found) == ({"verdicts": 2} if reported else {})
    text = flat(plan_page(found, plan_command.plan_values(found), "study.yaml", False))
    assert ("2 of the requests for verdicts are not sent" in text) == reported


def test_rejected_requests_of_a_finished_study_are_shown_and_start_no_engine(plan, project):
    config = project.load(yaml.safe_load((project.folder / "study.yaml").read_text()))
    found = plan_study(config, project.folder / "study.yaml", project.folder, None)
    for number, (cell, work) in enumerate(found.whole.items()):
        left = 2 if number == 0 else 0
        stored = work.requests - left
        found.work[cell] = CellWork(0, 0, 1.0, 1.0, 1, MISSING, stored=stored, rejected=left)
    assert duplicate_counts(found) == {}
    page = plan_page(found, plan_command.plan_values(found), "study.yaml", False)
    #                                   cells requests store rejected to execute
    assert numbers(page, "answers")[:5] == ["6", "6,030", "6,028", "2", "0"]
    assert "rejected count as failed, and are sent again only when" in flat(page)
    assert "The store has every other response: no engine will be started." in page


@pytest.fixture
def recorded(project):
    """Write a study of answers that exist, on the rows of a file that are chosen by `where`."""
    project.write("theirs/s/answers.json", "[]")
    rows = "".join(f"Über {n};{kind}\n" for n, kind in enumerate("abbab"))
    (project.folder / "own.csv").write_text(f"frage,art\n{rows}".replace(";", ","), encoding="latin-1")
    source = {"kind": "file", "path": "own.csv", "encoding": "latin-1"}
    split = {"source": source, "expectation": "comply", "columns": {"prompt": "frage"}, "where": {"art": "b"}}
    engine = {"weights": hub("owner/model", None), "max_model_len": 4096}
    catalogue = {
        "engines": {"absent": engine},
        "models": {"theirs": {"engine": "absent", "sampling": {"max_tokens": 100}, "recorded": "theirs"}},
        "judges": {"words": {"kind": "keyword", "lists": ["words.yaml"]}},
        "datasets": {"d": {"splits": {"s": split}}},
    }
    project.write("own.yaml", catalogue)
    study = {"study": "planned", "models": ["theirs"], "splits": ["s"], "samples": 1, "judges": ["words"]}
    project.write("study.yaml", study | {"catalogue": ["own.yaml"]})


@pytest.mark.usefixtures("recorded")
def test_a_study_without_an_engine_has_a_plan_and_prompts_are_counted_as_they_are_read(program):
    code, text = program()
    assert code == 0 and "No engine runs." in text and "(3 prompts)" in text
    assert "ENGINES" not in text and "The store has" not in text and "all of them looked up" not in text


@pytest.mark.parametrize("with_judge", [True, False])
def test_each_answer_of_a_hosted_model_pays_for_its_prompt_before_and_after_rendering(
    plan, project, monkeypatch, with_judge
):
    own = yaml.safe_load((project.folder / "own.yaml").read_text())
    own["engines"]["far"] = {"kind": "chat", "address": "https://host", "served": "big"}
    own["models"]["hosted"] = {"engine": "far", "sampling": {"max_tokens": 1000}}
    study = yaml.safe_load((project.folder / "study.yaml").read_text())
    study |= {"plugins": [str(Path(__file__).parents[1] / "plugins" / "chat_engine.py")]}
    study |= {"models": ["hosted"], "splits": ["s0"], "judges": ["j"] if with_judge else ["words"]}
    own["judges"]["words"] = {"kind": "keyword", "lists": ["words.yaml"]}
    project.write("own.yaml", own)
    project.write("study.yaml", study)
    takes = "up to 1 GPU or no device here." if with_judge else "no device here."
    code, text = plan()
    assert code == 0 and f"An engine load takes {takes}" in flat(text)
    assert numbers(text, "far")[-2:] == ["0.00", "0.00"], "no time of our devices"
    once = "once for its K answers, by a server of another party for each of them."
    assert (once if with_judge else "is read once for each of its K answers.") in flat(text)
    assert json.loads(plan("--json")[1])["work"]["generate"]["tokens_in"] == 200 * 5 * 60
    file = project.folder / "results" / "planned" / "requests" / "hosted" / "s0.jsonl"
    asks = [Ask(f"p{n}", [{"role": "user", "content": f"{n:>400}"}], [(k, k) for k in range(5)]) for n in range(200)]
    file.parent.mkdir(parents=True)
    write_requests(file, asks, RequestSettings("far", {"kind": "chat"}, {"max_tokens": 1000}), None)
    current = workload_files.StudyNow({"results/planned/requests/hosted/s0.jsonl"}, 5)
    monkeypatch.setattr("refusal_eval.tools.plan.study_costs.current_files", lambda *_: current)
    found = json.loads(plan("--json")[1])["work"]["generate"]
    assert (found["requests"], found["tokens_in"]) == (1000, 1000 * 100)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"rejected": null}', '{"rejected": [{}]}'])
def test_a_damaged_receipt_is_told_and_ends_no_plan(plan, project, monkeypatch, caplog, content):
    config = project.load(yaml.safe_load((project.folder / "study.yaml").read_text()))
    file = project.folder / "results" / "planned" / "requests" / "s-8b" / "s0.jsonl"
    file.parent.mkdir(parents=True)
    asks = [Ask("p0", [{"role": "user", "content": "Why?"}], [(0, 0)])]
    write_requests(file, asks, RequestSettings("far", {"kind": "chat"}, {"max_tokens": 1000}), None)
    batch = Study(config).batch_of[Cell("s-8b", "s0")]
    for receipt in Paths(config).receipts("generate", batch):
        project.write(receipt, content)
    current = workload_files.StudyNow({"results/planned/requests/s-8b/s0.jsonl"}, 5)
    monkeypatch.setattr("refusal_eval.tools.plan.study_costs.current_files", lambda *_: current)
    code, text = plan()
    assert code == 0 and numbers(text, "answers")[3] == "6,030"
    assert "what the store has of s-8b/s0 is not counted" in caplog.text and "0-of-1.json" in caplog.text


# ---------------------------------------------------------------- disk

NEEDS = pd.DataFrame(
    [("weights", "cache", "cache_dir", 100e9, 100e9, ""), ("responses", "store", "store_dir", 10e9, 60e9, "")],
    columns=NEED,
)


@pytest.mark.parametrize(
    ("free", "verdict"), [(200, "enough"), (150, "tight"), (116, "tight"), (115, "too small"), (0, "too small")]
)
def test_there_is_room_for_what_is_expected_and_a_warning_for_what_may_be(free, verdict):
    (disk,) = disks(NEEDS, lambda folder: free * 10**9, lambda folder: "one")
    assert (disk["expected"], disk["most"], disk["verdict"]) == (110e9, 160e9, verdict)


def test_folders_on_two_disks_are_told_apart_and_the_one_that_is_full_is_named(tmp_path):
    found = disks(NEEDS, {"cache": 50 * 10**9, "store": 10**12}.__getitem__, lambda folder: folder)
    assert [(disk["folders"], disk["key"], disk["verdict"]) for disk in found] == [
        (["cache"], "cache_dir", "too small"),
        (["store"], "store_dir", "enough"),
    ]
    assert device_of(str(tmp_path / "not" / "there")) == device_of(str(tmp_path))


@pytest.mark.usefixtures("entries")
def test_what_a_disk_lacks_is_reported_with_the_key_to_change(program, monkeypatch):
    (disk,) = json.loads(program("--json")[1])["disk"]["disks"]
    between = 1.05 * (disk["expected"] + disk["most"]) / 2
    for free, reported in {
        15e9: "TOO SMALL: 16 GB needed, 15 GB free on the disk of {}: make room, or set `cache_dir` to a larger disk.",
        between: "Tight: 16 GB needed, 17 GB free on the disk of {}, and 16 GB needed if answers are long.",
    }.items():
        monkeypatch.setattr(plan_command, "read_free", lambda folder, free=free: int(free))
        assert reported.format(", ".join(disk["folders"])) in flat(program()[1])


def needs(project, config):
    plan = plan_study(config, project.folder / "study.yaml", project.folder, None)
    return disk_needs(plan).set_index("what").transpose()


def test_weights_that_two_engines_share_are_fetched_once_and_what_is_here_is_not_fetched(project):
    engine = {"weights": hub("owner/x-8B", COMMIT), "max_model_len": 2048}
    engines = {"one": engine | {"weights_gb": 16.5}, "two": engine | {"weights_gb": 16.5, "max_model_len": 1024}}
    models = {name: {"engine": name, "sampling": {"max_tokens": 64}} for name in engines}
    project.write("own.yaml", {"engines": engines, "models": models})
    config = project.load(WHOLE_STUDY | {"models": [*models], "catalogue": ["own.yaml"], "judges": ["words"]})
    assert needs(project, config)["weights"].expected == 16.5e9
    weights = weight_source(config["engine_entries"]["one"]["weights"])
    project.write(weights.copy_file(Paths(config).cache), '{"files": {}}')
    found = needs(project, config)["weights"]
    assert found.expected == 0 and found.detail == "1 here already"


def test_rows_are_to_be_fetched_until_they_are_here(project):
    config = project.load(WHOLE_STUDY)
    before = needs(project, config)["rows"]
    assert before.detail == "2 to fetch" and before.expected > 0  # of the hub and of a wheel; files are here
    for name in ("hub-rows", "wheel-rows"):
        project.write(row_source(config["split_entries"][name]["source"]).copy_file(config["cache_dir"]), "x")
    after = needs(project, changed(config, ("samples",), 3))["rows"]
    assert (after.detail, after.expected) == ("all here already", 0)


def test_results_that_are_there_need_no_more_disk(project):
    config = project.load(WHOLE_STUDY)
    before = needs(project, config)["results"]
    project.write(f"{Paths(config).results}/answers/plain/hub-rows.jsonl", "x" * 1000)
    assert needs(project, config)["results"].expected == before.expected - 1000
    project.write(f"{Paths(config).results}/verdicts/words/plain/hub-rows.jsonl", "x" * int(before.most))
    assert needs(project, config)["results"].most == 0


def test_longer_answers_and_more_samples_take_more_store(project):
    config = project.load(WHOLE_STUDY)
    few, many = (needs(project, changed(config, ("samples",), samples))["responses"] for samples in (2, 4))
    assert 1.8 * few.expected < many.expected < 2.2 * few.expected
    longer = changed(config, ("model_entries", "plain", "sampling", "max_tokens"), 2000)
    assert needs(project, longer)["responses"].most > 3 * few.most > 0


# ---------------------------------------------------------------- terms and pins

PAGE = "https://example.org/terms"


@pytest.fixture
def entries(project, program):
    """Write a study whose entries are open, gated, not free and not verified."""
    engine = {"weights": hub("owner/model-8B", None), "max_model_len": 4096, "device": "cuda", "weights_gb": 16}
    engine |= {"licence": "Own terms", "gated": True, "terms": PAGE, "unverified": ["its size"]}
    models = {"m": {"engine": "e", "sampling": {"max_tokens": 1000}, "unverified": ["its template"]}}
    split = {"source": hub("owner/data", COMMIT, split="test"), "expectation": "comply", "expected_rows": 200}
    datasets = {"d": {"splits": {"s": split | {"licence": "CC-BY-NC-4.0"}}}}
    # The shipped catalogue of this repository counts, not the project's.
    judges = {"words": {"kind": "keyword", "lists": ["words.yaml"]}}
    project.write("own.yaml", {"engines": {"e": engine}, "models": models, "datasets": datasets, "judges": judges})
    study = {"study": "planned", "models": ["m"], "splits": ["s"], "samples": 2, "judges": ["words"]}
    project.write("study.yaml", study | {"catalogue": ["own.yaml"]})


@pytest.mark.usefixtures("entries")
def test_the_page_tells_open_pins_gates_licences_and_what_nobody_verified(program, monkeypatch, tmp_path):
    code, text = program()
    assert code == 0
    for reported in (
        "NOT PINNED YET: run `refusal-eval pin study.yaml`",
        "the commit of owner/model-8B (e)",
        f"GATED: owner/model-8B (m). Ask for access at {PAGE}",
        "(no token is set here)",
        "models Own terms: m",
        "splits CC-BY-NC-4.0: s",
        "NOT FOR COMMERCIAL USE: s (CC-BY-NC-4.0)",
        "Engines that nobody has seen work with the real vLLM: e;",
        "engine e: its size",
        "model m: its template",
        "weights 16 GB 16 GB .cache 1 to fetch",
    ):
        assert reported in flat(text), reported
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    page, values = program()[1], program("--json")[1]
    assert "(a token is set here)" in flat(page) and "hf_secret" not in page + values
    found = json.loads(values)
    assert found["never_verified"] == ["e"] and found["unverified"]["its size"] == ["engine e"]
    locked = {"repo": "owner/model-8B", "commit": COMMIT, "date": "2026-01-01", "pinned_by": "lock", "gated": True}
    locked |= {"licence": {"hub": None, "entry": None, "agrees": None}, "files": {"config.json": f"2 git:{COMMIT}"}}
    (tmp_path / "study.lock.yaml").write_text(yaml.safe_dump({"lock_version": 1, "models": [locked]}))
    code, text = program()
    assert code == 0 and "NOT PINNED" not in text and "study.lock.yaml" in text


@pytest.mark.parametrize(
    ("licence", "origin", "found"),
    [
        ("CC-BY-NC-4.0", None, True),
        (None, "CC-BY-NC-SA-4.0", True),
        ("for non-commercial research", None, True),
        ("MIT", None, False),
        ("Llama 3.1 Community License", "CC-BY-4.0", False),
        ("CNC licence", None, False),
    ],
)
def test_what_is_not_for_commercial_use_is_seen_by_its_licence(project, licence, origin, found):
    config = project.load(STUDY)
    config["split_entries"]["hub-rows"] |= {"licence": licence, "licence_of_origin": origin}
    assert [one["non_commercial"] for one in terms_of(Study(config))] == [False, found]


def test_gates_and_licences_of_several_entries():
    def one(name="m", **keys):
        reported = {"section": "models", "name": name, "source": "owner/m", "licence": "MIT", "origin": None}
        return reported | {"gated": False, "page": None, "here": False} | keys

    (here,) = gates([one(gated=True, page=PAGE, here=True)], False)
    assert f"it is here already. Its terms hold: {PAGE}" in here and "HF_TOKEN" not in here
    assert [*gates([one(gated=None)], False)] == ["Not known whether gated: owner/m (m)."]
    assert [*gates([one(), one(gated=None, here=True)], False)] == []
    made = {"section": "splits", "licence": "none stated"}
    several = [one(), one("n"), one("s", origin="MIT", **made), one("t", origin="NC", **made)]
    assert [flat(text) for text in licences(several)] == [
        "models MIT: m, n",
        "splits none stated; what it was made from, MIT: s",
        "splits none stated; what it was made from, NC: t",
    ]


def test_models_judges_with_an_engine_adapters_and_gold_have_terms(project):
    study = WHOLE_STUDY | {"models": ["plain", "thinker", "tuned"], "comparisons": []}
    found = {(one["section"], one["name"]): one for one in terms_of(Study(project.load(study)))}
    assert ("judges", "reader") in found and ("judges", "words") not in found
    assert found["models", "plain"]["source"] == "owner/model" and not found["models", "plain"]["here"]
    assert found["models", "thinker"]["here"], "a folder of the user's own"
    assert {name for section, name in found if section == "gold"} == {"people"}
    adapter = found["models", "tuned (adapter)"]
    assert (adapter["source"], adapter["licence"]) == ("owner/adapter", "none stated")


def test_every_kind_of_open_pin_is_found_once(project):
    config = project.load(WHOLE_STUDY | {"models": ["plain", "tuned"], "splits": ["hub-rows", "url-rows"]})
    open_ = {
        ("engines", "hub-engine", "revision"): ("engine_entries", "hub-engine", "weights", "revision"),
        ("models", "tuned", "revision"): ("model_entries", "tuned", "lora", "revision"),
        ("splits", "hub-rows", "revision"): ("split_entries", "hub-rows", "source", "revision"),
        ("splits", "url-rows", "sha256"): ("split_entries", "url-rows", "source", "sha256"),
    }
    assert open_pins(Study(config)) == []
    for path in open_.values():
        config = changed(config, path, None)
        if path[0] == "split_entries":
            config = changed(config, (*path[:2], "unverified"), ["its hash"])
    plan = plan_study(config, project.folder / "study.yaml", project.folder, None)
    values = plan_command.plan_values(plan)
    assert [(pin["section"], pin["name"], pin["key"]) for pin in values["open_pins"]] == list(open_)
    values["open_pins"].append(values["open_pins"][-1] | {"name": "another"})
    text = plan_page(plan, values, "my.yaml", False)
    assert "refusal-eval pin my.yaml" in text
    assert "the SHA-256 of https://example.org/0123/rows.csv (url-rows, another)\n" in text, (
        "one source is reported once"
    )


# ---------------------------------------------------------------- the paper's study


def test_the_plan_of_the_papers_study_fits_on_a_page_and_tells_what_matters(repository, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(repository)  # the command changes to another folder
    study = repository / "config" / "studies" / "paper.yaml"
    assert main(["plan", str(study), "--directory", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    assert len(page.splitlines()) <= 80 and max(map(len, page.splitlines())) <= 120
    assert numbers(page, "answers")[:4] == ["54", "68,790", "?", "68,790"]
    for what in (
        "6 models on 9 splits (2,293 prompts), K = 5",
        "the commit of MultiverseComputingCAI/Qwen3-Next-80B-A3B-Thinking-Uncensored",
        "NOT FOR COMMERCIAL USE: ccp_sensitive_sampled",
        "GATED: google/gemma-3-4b-it",
        "real vLLM: all ",
        "with which sampling the paper's numbers were made",
        "weights 5",
        "to fetch",
    ):
        assert what in flat(page), what


def test_a_judge_of_words_needs_no_engine_and_one_of_vectors_has_its_encoder_planned(
    repository, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(repository)  # the command changes to another folder
    assert main(["plan", str(repository / "config" / "config.yaml"), "--directory", str(tmp_path)]) == 0
    assert "minilm-l6" not in capsys.readouterr().out
    study = yaml.safe_load((repository / "config" / "config.yaml").read_text())
    study |= {"study": "vectors", "judges": ["keyword", "encoded"], "gold": ["made-up-answers"]}
    lists = str(repository / "config" / "keywords" / "english.yaml")
    encoded = {"like": "trained-english", "gold": ["made-up-answers"], "lists": [lists]}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"judges": {"encoded": encoded}}))
    (tmp_path / "vectors.yaml").write_text(yaml.safe_dump(study | {"catalogue": ["own.yaml"]}))
    assert main(["plan", str(tmp_path / "vectors.yaml"), "--directory", str(tmp_path)]) == 0
    assert numbers(capsys.readouterr().out, "minilm-l6")[:3] == ["CPU", "90", "MB"]


def test_depth_and_width_are_assumed_by_the_number_of_parameters():
    known = {0.135: (30, 576), 4.0: (36, 2560), 8.0: (32, 4096), 70.0: (80, 8192)}
    for billions, (depth, width) in known.items():
        layers, wide = assumed_shape(billions)
        assert 0.5 < layers * wide / (depth * width) < 1.25


def test_the_studies_of_steering_are_planned_with_their_directions_and_controls(
    repository, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(repository)  # the command changes to another folder
    for name, said, captures, engine, loads, low, high in (
        ("steering", "9 models on 3 splits (72 prompts), K = 1", 4, "qwen2.5-coder-1.5b", 9 + 4, 0.01, 0.05),
        (
            "steering_paper",
            "12 models on 4 splits (604 prompts), K = 5",
            15,
            "qwen3-next-80b-thinking-paper",
            9,
            0.8,
            3,
        ),
    ):
        study = str(repository / "config" / "studies" / f"{name}.yaml")
        assert main(["plan", study, "--directory", str(tmp_path), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        own = [batch for batch in found["batches"] if batch["stage"] == "activations"]
        assert len(own) == captures and all(batch["device_hours"] > 0 for batch in own)
        assert found["engines"][engine]["loads"] == loads
        assert main(["plan", study, "--directory", str(tmp_path)]) == 0
        page = flat(capsys.readouterr().out)
        assert said in page and f"Activations: {captures} captures, each a load of its engine" in page
        # The models are not here: their depth and width are assumed, and the disk is of the right order all the same.
        disk = [need for need in found["disk"]["needs"] if need["what"] == "activations"]
        assert len(disk) == 2 and all(low < need["expected"] / 1e9 < high for need in disk)
        assert all("assumed by size" in need["detail"] for need in disk)
