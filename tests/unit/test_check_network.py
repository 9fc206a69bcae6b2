"""`refusal-eval check` on what is fetched, and where from: hub, addresses, token, pins, Slurm, and a study's needs."""

import contextlib
import dataclasses
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from hub_server import HubServer
from test_check_machine import reported

from refusal_eval.__main__ import main
from refusal_eval.config.load_study import load_study
from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import row_source
from refusal_eval.tools.check import network_checks as checks
from refusal_eval.tools.check.study_needs import NeededSource, Needs, study_needs
from refusal_eval.weights.engine_file import weight_source

WEIGHTS = NeededSource("weights org/m", "hub", here=False)
NEEDS = Needs(sources=(WEIGHTS,))
FETCHED, NO_HUB = Needs(sources=(dataclasses.replace(WEIGHTS, here=True),)), Needs()
NOWHERE = {"HF_ENDPOINT": "http://127.0.0.1:9"}
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HF_HUB_OFFLINE")

# ---------------------------------------------------------------- hub, token, pins


@pytest.mark.parametrize(
    ("needs", "trouble", "variables", "state", "words"),
    [
        (NEEDS, "", {}, "ok", ["https://hub answers; to be fetched: weights org/m"]),
        (NEEDS, "ConnectError", {}, "fail", ["ConnectError", "HF_ENDPOINT", "login node"]),
        (NEEDS, "HTTP 503", {}, "fail", ["HTTP 503"]),
        (NEEDS, "", {"HF_HUB_OFFLINE": "1"}, "fail", ["HF_HUB_OFFLINE"]),
        (None, "", {"HF_HUB_OFFLINE": "1"}, "warn", ["only what is cached"]),
        (FETCHED, "ConnectError", {}, "ok", []),
        (NO_HUB, "ConnectError", {}, "not applicable", []),
        (None, "ConnectError", {}, "warn", []),
    ],
)
def test_what_is_missing_can_be_fetched_from_the_hub(needs, trouble, variables, state, words, monkeypatch):
    monkeypatch.setattr(checks, "ask_hub", lambda variables: ("https://hub", trouble))
    reported(checks.hub(needs, variables), state, *words)


def test_the_hub_is_asked_where_the_variable_says_and_no_password_of_its_address_is_reported():
    with HubServer() as hub:
        shown, trouble = checks.ask_hub({"HF_ENDPOINT": hub.address.replace("http://", "http://me:PASSWORD@")})
        assert hub.requests == ["HEAD /"] and "PASSWORD" not in shown + trouble
    assert checks.ask_hub(NOWHERE) == (NOWHERE["HF_ENDPOINT"], "ConnectError")


def test_the_token_is_never_reported_and_without_one_what_is_gated_cannot_be_fetched(tmp_path):
    assert checks.token_is_set({"HF_TOKEN": "hf_SECRET", "HF_HOME": str(tmp_path)})
    assert not checks.token_is_set({"HF_HOME": str(tmp_path)})
    (tmp_path / "token").write_text("hf_SECRET")
    assert checks.token_is_set({"HF_HOME": str(tmp_path)})
    reported(checks.token(NEEDS, True), "ok", "set")
    reported(checks.token(NEEDS, False), "warn", "gated")
    reported(checks.token(FETCHED, False), "not applicable")
    gated = dataclasses.replace(WEIGHTS, gated=True, terms="https://hub/org/m")
    unknown = dataclasses.replace(WEIGHTS, what="weights org/open", gated=None)
    both = Needs(sources=(gated, unknown))
    reported(checks.token(both, False), "fail", "gated: weights org/m", "https://hub/org/m", "HF_TOKEN")
    reported(checks.token(both, True), "ok")
    reported(checks.token(Needs(sources=(unknown,)), False), "warn")


def test_an_open_pin_is_reported_with_the_command():
    reported(checks.pins(NO_HUB), "not applicable")
    reported(checks.pins(NEEDS), "ok")
    reported(checks.pins(Needs(open_pins=("model org/m",))), "fail", "not known yet: model org/m", "refusal-eval pin")


# ---------------------------------------------------------------- Slurm

NODES = frozenset({"gpu01", "gpu02"})


@pytest.mark.parametrize(
    ("slurm", "state", "words", "login"),
    [
        (checks.Slurm(("sinfo", "squeue", "sbatch"), None), "not applicable", [], False),
        (checks.Slurm(("sbatch",), "2.8"), "warn", ["sbatch not found", "module"], False),
        (checks.Slurm((), "2.8"), "warn", ["does not answer"], False),
        (checks.Slurm((), None, nodes=NODES, host="login1"), "fail", ["not installed", "make setup"], True),
        (checks.Slurm((), "2.8", nodes=NODES, host="login1"), "ok", ["2 nodes", "login node"], True),
        (checks.Slurm((), "2.8", nodes=NODES, host="gpu01"), "ok", ["a node that runs jobs"], False),
        (checks.Slurm((), "2.8", job="77", nodes=NODES, host="login1"), "ok", ["inside job 77"], False),
    ],
)
def test_slurm_and_a_login_node_that_runs_no_jobs(slurm, state, words, login):
    reported(slurm.outcome(), state, *words)
    assert slurm.on_login_node is login


# ---------------------------------------------------------------- files at addresses


class Server(ThreadingHTTPServer):
    """Answers with the status that the path begins with; `/302/...` leads to the rest; notes what it was asked."""

    daemon_threads = True

    def __init__(self):
        self.asked = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        _, status, *rest = self.path.split("/")
        self.server.asked.append((self.path, self.headers.get("Range")))
        self.send_response(int(status))
        if status == "302":
            self.send_header("Location", "/" + "/".join(rest))
        self.send_header("Content-Type", "text/html; charset=utf-8" if "page" in self.path else "text/csv")
        body = b"" if status == "302" else b"x" * 10**6
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):  # nobody reads on
            self.wfile.write(body)


@pytest.fixture
def server(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    with Server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


def at(server, *paths):
    """Return needs of files at paths of the server, each taken by a split of its own."""
    urls = [f"http://127.0.0.1:{server.server_port}{path}" for path in paths]
    return Needs(sources=tuple(NeededSource(url, "url", False, used_by=(f"split {n}",)) for n, url in enumerate(urls)))


def test_each_address_is_asked_for_its_first_byte(server):
    (outcome,) = checks.addresses(at(server, "/200/a.csv", "/302/200/b.csv", "/206/{d,e}.csv"), False)
    reported(outcome, "ok", "127.0.0.1 answers; to be fetched: split 0, split 1, split 2")
    paths = {path for path, _ in server.asked}
    assert paths == {"/200/a.csv", "/302/200/b.csv", "/200/b.csv", "/206/d.csv", "/206/e.csv"}
    assert {part for _, part in server.asked} == {"bytes=0-0"}


@pytest.mark.parametrize(
    ("path", "state", "words"),
    [
        ("/404/c.csv", "fail", ["/404/c.csv answers with HTTP 404", "moved or deleted", "`source.url` of split 1"]),
        ("/{200,404}/c.csv", "fail", ["/404/c.csv answers with HTTP 404"]),
        ("/410/c.csv", "fail", ["moved or deleted"]),
        ("/403/c.csv", "fail", ["HTTP 403", "refuses", "`source.url`"]),
        ("/503/c.csv", "warn", ["HTTP 503", "try again later"]),
        ("/429/c.csv", "warn", ["try again later"]),
        ("/200/page.csv", "fail", ["a web page, not with a file", "proxy"]),
        ("/302" * 9 + "/200/a.csv", "fail", ["TooManyRedirects"]),
    ],
)
def test_what_an_address_does_not_give_is_reported_with_what_to_do(server, path, state, words):
    good, bad = checks.addresses(at(server, "/200/a.csv", path), False)
    reported(good, "ok", "to be fetched: split 0")
    reported(bad, state, "split 1", *words)
    assert "split 1" not in good.seen and "split 0" not in bad.seen


def test_a_server_that_is_not_there_is_a_reason(server):
    (outcome,) = checks.addresses(Needs(sources=(NeededSource("http://127.0.0.1:9/r.csv", "url", False),)), False)
    reported(outcome, "fail", "http://127.0.0.1:9/r.csv cannot be reached (ConnectError)", "HTTPS_PROXY", "kind: file")


def test_offline_nothing_can_be_fetched_and_what_is_here_is_enough(server):
    needs = at(server, "/200/a.csv")
    (outcome,) = checks.addresses(needs, True)
    reported(outcome, "fail", "HF_HUB_OFFLINE", needs.sources[0].what, "split 0")
    here = Needs(sources=(dataclasses.replace(needs.sources[0], here=True),))
    for needs, state in ((here, "ok"), (Needs(), "not applicable")):
        for offline in (True, False):
            reported(next(checks.addresses(needs, offline)), state)


# ---------------------------------------------------------------- what a study needs


def study(repository, folder, catalogue, **keys):
    """Write a study of one model, with this catalogue; return its file and what it needs."""
    content = {"study": "x", "models": ["smollm2-plain"], "splits": ["sensitive"], "samples": 2, "judges": ["keyword"]}
    content |= {"catalogue": ["c.yaml"], "cache_dir": str(folder / "cache"), **keys}
    (folder / "c.yaml").write_text(yaml.safe_dump(catalogue))
    (folder / "x.yaml").write_text(yaml.safe_dump(content))
    config = load_study(content, str(folder / "x.yaml"), str(repository), open_pins=True)
    return config, study_needs(config, folder / "x.yaml")


def here(path):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("prompt\n")


HUB_ROWS = {"kind": "hub", "repo": "org/prompts", "revision": "a" * 40}
MODELS = {"m": {"engine": "big", "sampling": {"max_tokens": 100}}}


def engines(revision="b" * 40, **entry):
    weights = {"kind": "hub", "repo": "org/model", "revision": revision}
    return {"big": {"weights": weights, "max_model_len": 4096, "device": "cuda", **entry}}


def splits(**sources):
    """Return a catalogue's data set with a split for each of these sources."""
    made = {name: {"source": source, "expectation": "comply"} for name, source in sources.items()}
    return {"d": {"splits": made}}


def test_what_a_study_needs(repository, tmp_path):
    datasets = splits(s=HUB_ROWS | {"split": "train"})
    datasets["d"]["splits"]["s"]["expected_rows"] = 50
    catalogue = {"engines": engines(tensor_parallel=2, data_parallel=2), "models": MODELS, "datasets": datasets}
    config, needs = study(repository, tmp_path, catalogue, models=["m"], splits=["s", "sensitive"])
    (engine,) = needs.engines
    assert (engine.gpus, engine.sharing, engine.device, engine.weights) == (4, 2, "cuda", None)
    assert [source.what for source in needs.missing("hub")] == ["data set org/prompts", "weights org/model"]
    disk = needs.disk.set_index("what")
    assert disk.loc["responses", "most"] == (50 + 32) * 2 * (330 + 100 * 16)
    assert needs.open_pins == ()
    here(weight_source(config["engine_entries"]["big"]["weights"]).copy_file(Paths(config).cache))
    open_engines = catalogue | {"engines": engines(None)}
    _, needs = study(repository, tmp_path, open_engines, models=["m"], splits=["s"])
    assert needs.open_pins == ("model org/model",)


def test_a_study_whose_responses_are_in_the_store_needs_no_room_for_them(repository, tmp_path, monkeypatch):
    catalogue = {"engines": engines(), "models": MODELS}
    stored = {"requests": 0, "stored": 64}
    done = lambda study, whole, current: {cell: dataclasses.replace(work, **stored) for cell, work in whole.items()}  # noqa: E731
    monkeypatch.setattr("refusal_eval.tools.plan.study_costs.work_left", done)
    disk = study(repository, tmp_path, catalogue, models=["m"])[1].disk.set_index("what")
    assert disk.loc["responses", "most"] == 0 < disk.loc["results", "most"]


@pytest.mark.parametrize(
    ("entry", "size", "gated"),
    [
        ({"weights_gb": 12.5}, 12_500_000_000, False),
        ({"parameters": 70}, 140_000_000_000, False),
        ({"parameters": 70, "quantization": "fp8"}, 70_000_000_000, False),
        ({"gated": True, "terms": "https://example.org/terms"}, None, True),
        ({"gated": None}, None, None),
    ],
)
def test_what_the_catalogue_knows_of_weights_that_are_not_here(entry, size, gated, repository, tmp_path):
    catalogue = {"engines": engines(**entry), "models": MODELS}
    _, needs = study(repository, tmp_path, catalogue, models=["m"])
    assert (needs.engines[0].weights, needs.engines[0].estimated) == (size, size is not None)
    (missing,) = needs.missing("hub")
    assert (missing.what, missing.size, missing.gated) == ("weights org/model", size, gated)
    blobs = tmp_path / "cache" / "hub" / "models--org--model" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "abc.partial").write_bytes(b"x" * 1_000_000)
    (left,) = study(repository, tmp_path, catalogue, models=["m"])[1].missing("hub")
    assert left.size is None if size is None else 900_000 < size - left.size < 1_100_000, "what is here is not fetched"
    left_over = study(repository, tmp_path, catalogue, models=["m"])[1].disk.set_index("what")
    assert left_over.loc["weights", "most"] == (left.size or 0)


def test_engines_of_every_kind_are_looked_at(repository, tmp_path):
    """One that classifies takes a GPU like others, without any that are spread over several."""
    weights = {"kind": "hub", "repo": "org/classes-1B", "revision": "b" * 40}
    entry = {"kind": "transformers", "weights": weights, "max_model_len": 512, "device": "cuda"}
    (tmp_path / "form.jinja").write_text("{{ messages[1].content }}")
    judge = {"kind": "classifier", "engine": "c", "template": "form.jinja"}
    judge |= {"labels": {"0": "compliance", "1": "refusal"}}
    catalogue = {"engines": {"c": entry}, "judges": {"j": judge}}
    _, needs = study(repository, tmp_path, catalogue, judges=["j"])
    assert {one.name: (one.gpus, one.sharing) for one in needs.engines}["c"] == (1, 1)


URL = "https://example.org/0123/rows.csv"
AT_URL = {"kind": "url", "url": URL, "sha256": "0" * 64}


def test_what_a_study_takes_from_addresses_until_it_is_here(repository, tmp_path):
    catalogue = {"datasets": splits(s=AT_URL)}
    config, needs = study(repository, tmp_path, catalogue, splits=["s"])
    assert [(one.what, one.used_by) for one in needs.missing("url")] == [(URL, ("split s",))]
    here(row_source(AT_URL).copy_file(config["cache_dir"]))
    assert study(repository, tmp_path, catalogue, splits=["s"])[1].missing("url") == []


def test_two_files_of_one_repository_are_both_looked_for(repository, tmp_path):
    catalogue = {"datasets": splits(s1=HUB_ROWS | {"file": "1.csv"}, s2=HUB_ROWS | {"file": "2.csv"})}
    config, _ = study(repository, tmp_path, catalogue, splits=["s1", "s2"])
    here(row_source(config["split_entries"]["s2"]["source"]).copy_file(config["cache_dir"]))
    (missing,) = study(repository, tmp_path, catalogue, splits=["s1", "s2"])[1].missing("hub")
    assert missing.what == "data set org/prompts", "the first is not here"


def test_a_lock_with_more_than_the_study_takes_is_reported(repository, tmp_path):
    locked = {"sha256": "0" * 64, "size": 9, "pinned_by": "entry"}
    urls = [{"url": URL, **locked}, {"url": "https://example.org/gone.csv", **locked}]
    for count, state in ((2, "warn"), (1, "ok")):
        lock = {"lock_version": 1, "urls": urls[:count]}
        (tmp_path / "x.lock.yaml").write_text(yaml.safe_dump(lock))
        outcome = checks.pins(study(repository, tmp_path, {"datasets": splits(s=AT_URL)}, splits=["s"])[1])
        reported(outcome, state)
        gone = f"{tmp_path}/x.lock.yaml also has what the study does not take: https://example.org/gone.csv"
        assert (gone in outcome.seen and "refusal-eval pin" in outcome.todo) is (state == "warn")


def test_the_program_looks_at_addresses(repository, server, tmp_path, monkeypatch, capsys):
    url = f"http://127.0.0.1:{server.server_port}/404/rows.csv"
    study(repository, tmp_path, {"datasets": splits(s=AT_URL | {"url": url})}, splits=["s"])
    monkeypatch.chdir(repository)
    assert main(["check", str(tmp_path / "x.yaml")]) == 1
    reported = capsys.readouterr().out
    assert "FAIL  addresses" in reported and f"{url} answers with HTTP 404; split s" in reported
