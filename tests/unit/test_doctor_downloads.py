"""`refusal-eval check` on what is fetched: addresses, unfinished downloads, stale lock entries."""

import contextlib
import dataclasses
import fcntl
import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from program import refusal_eval

from refusal_eval.config.load_study import load_study
from refusal_eval.study.row_sources import fetched_path
from refusal_eval.tools.check import address_checks, leftovers, place_checks
from refusal_eval.tools.check.address_checks import Answer
from refusal_eval.tools.check.all_checks import study_needs
from refusal_eval.tools.check.study_facts import Address, Needs

ROWS = Address("https://example.org/0123/rows.csv", ("split one", "split two"))
GOLD = Address("https://example.org/0123/{a,b}.csv", ("gold people",))
NEEDS = Needs((), (), 0, "results", ".cache", None, 1, at_addresses=(ROWS, GOLD), in_addresses=2)
NETWORK = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HF_HUB_OFFLINE")
DAY = 24 * 60 * 60


def checks(answers, needs=NEEDS, offline=False):
    return [(one.state, f"{one.seen} -> {one.todo}") for one in address_checks.address_checks(needs, answers, offline)]


# ---------------------------------------------------------------- files at addresses: what is told


def test_addresses_that_answer_are_told_with_what_takes_them():
    ((state, text),) = checks({ROWS: Answer(ROWS.url, 206), GOLD: Answer("https://example.org/0123/b.csv", 200)})
    assert state == "ok" and "example.org answers; to be fetched: split one, split two, gold people" in text


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        ({"reason": "ConnectError"}, "fail", ["cannot be reached (ConnectError)", "HTTPS_PROXY", "kind: file"]),
        ({"status": 404}, "fail", ["HTTP 404", "moved or deleted", "`source.url` of split one, split two"]),
        ({"status": 410}, "fail", ["moved or deleted"]),
        ({"status": 403}, "fail", ["HTTP 403", "refuses", "`source.url`"]),
        ({"status": 503}, "warn", ["HTTP 503", "try again later"]),
        ({"status": 429}, "warn", ["try again later"]),
        ({"status": 200, "page": True}, "fail", ["a web page, not with a file", "proxy"]),
    ],
)
def test_what_an_address_does_not_give_is_told_with_what_to_do(answer, state, words):
    good, bad = checks({GOLD: Answer("https://example.org/0123/b.csv", 200), ROWS: Answer(ROWS.url, **answer)})
    assert good[0] == "ok" and "gold people" in good[1] and "split one" not in good[1]
    assert bad[0] == state and ROWS.url in bad[1] and "split one, split two" in bad[1]
    for word in words:
        assert word in bad[1]


def test_offline_nothing_can_be_fetched_and_what_is_here_is_enough():
    ((state, text),) = checks({}, offline=True)
    assert state == "fail" and "HF_HUB_OFFLINE" in text and ROWS.url in text and "gold people" in text
    here = dataclasses.replace(NEEDS, at_addresses=())
    for offline in (True, False):
        assert [state for state, _ in checks({}, here, offline)] == ["ok"]
    assert [state for state, _ in checks({}, dataclasses.replace(here, in_addresses=0))] == ["not applicable"]
    assert [state for state, _ in checks({}, None)] == ["not applicable"]


# ---------------------------------------------------------------- files at addresses: asking


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
    for name in NETWORK:
        monkeypatch.delenv(name, raising=False)
    with Server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


def at(server, *paths):
    return [Address(f"http://127.0.0.1:{server.server_port}{path}", ("split s",)) for path in paths]


def test_each_address_is_asked_for_its_first_byte(server):
    asked = at(server, "/200/a.csv", "/302/200/b.csv", "/404/c.csv", "/200/page.csv", "/200/{d,e}.csv")
    found = address_checks.read_answers(asked)
    assert [(one.status, one.page) for one in found.values()] == [
        (200, False),
        (200, False),
        (404, False),
        (200, True),
        (200, False),
    ]
    assert {path for path, _ in server.asked} >= {"/200/a.csv", "/200/b.csv", "/200/d.csv", "/200/e.csv"}
    assert {part for _, part in server.asked} == {"bytes=0-0"}


def test_of_several_files_the_one_that_is_missing_is_named(server):
    (address,) = at(server, "/{200,404}/rows.csv")
    assert address_checks.read_answers([address])[address] == Answer(address.url.replace("{200,404}", "404"), 404)


def test_a_server_that_is_not_there_or_leads_in_circles_is_a_reason(server, monkeypatch):
    monkeypatch.setattr(address_checks, "SECONDS", 0.5)
    (circle,) = at(server, "/302" * 9 + "/200/a.csv")
    nowhere = Address("http://127.0.0.1:9/rows.csv", ())
    found = address_checks.read_answers([circle, nowhere])
    assert (found[nowhere].status, found[nowhere].reason) == (None, "ConnectError")
    assert (found[circle].status, found[circle].reason) == (None, "TooManyRedirects")


# ---------------------------------------------------------------- the study


def study(repository, folder, url, **keys):
    """Write a study with a split and gold at addresses; return its file."""
    split = {"source": {"kind": "url", "url": url, "sha256": "0" * 64}, "expectation": "comply"}
    catalogue = {"datasets": {"d": {"splits": {"s": split}}}}
    (folder / "c.yaml").write_text(yaml.safe_dump(catalogue))
    content = {"study": "x", "models": ["smollm2-plain"], "splits": ["s"], "samples": 1, "judges": ["keyword"]}
    content |= {"catalogue": ["c.yaml"], "cache_dir": str(folder / "cache"), **keys}
    (folder / "x.yaml").write_text(yaml.safe_dump(content))
    return folder / "x.yaml"


def needs_of(repository, file):
    return study_needs(load_study(yaml.safe_load(file.read_text()), str(file), str(repository)), repository)


def test_what_a_study_takes_from_addresses(repository, tmp_path):
    url = "https://example.org/0123/rows.csv"
    file = study(repository, tmp_path, url)
    needs = needs_of(repository, file)
    assert needs.at_addresses == (Address(url, ("split s",)),) and needs.in_addresses == 1
    rows = Path(fetched_path({"kind": "url", "url": url, "sha256": "0" * 64}, needs.cache))
    rows.parent.mkdir(parents=True)
    rows.write_text("prompt\n")
    assert needs_of(repository, file).at_addresses == ()


def test_two_files_of_one_repository_are_both_looked_for(repository, tmp_path):
    hub = {"kind": "hub", "repo": "org/rows", "revision": "a" * 40}
    splits = {f"s{n}": {"source": hub | {"file": f"{n}.csv"}, "expectation": "comply"} for n in (1, 2)}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"datasets": {"e": {"splits": splits}}}))
    file = study(repository, tmp_path, "https://example.org/r.csv", splits=["s1", "s2"], catalogue=["own.yaml"])
    config = load_study(yaml.safe_load(file.read_text()), str(file), str(repository))
    second = Path(fetched_path(config["split_entries"]["s2"]["source"], str(tmp_path / "cache")))
    second.parent.mkdir(parents=True)
    second.write_text("prompt\n")
    assert study_needs(config, repository).from_hub == ("data set org/rows",), "the first is not here"


def test_a_lock_with_more_than_the_study_takes_is_told(repository, tmp_path):
    url = "https://example.org/0123/rows.csv"
    file = study(repository, tmp_path, url)
    locked = {"sha256": "0" * 64, "size": 9, "pinned_by": "entry"}
    urls = [{"url": url, **locked}, {"url": "https://example.org/gone.csv", **locked}]
    (tmp_path / "x.lock.yaml").write_text(yaml.safe_dump({"lock_version": 1, "urls": urls}))
    check = place_checks.pins_check(needs_of(repository, file))
    assert check.state == "warn" and "refusal-eval pin" in check.todo
    assert f"{tmp_path}/x.lock.yaml also has what the study does not take: https://example.org/gone.csv" in check.seen
    (tmp_path / "x.lock.yaml").write_text(yaml.safe_dump({"lock_version": 1, "urls": urls[:1]}))
    assert place_checks.pins_check(needs_of(repository, file)).state == "ok"


# ---------------------------------------------------------------- unfinished downloads


@pytest.fixture
def cache(tmp_path):
    """A cache with a stale and a fresh download of two commits, one that a job writes, and what the library left."""
    blobs = tmp_path / "ca che" / "hub" / "models--org--large--model" / "blobs"
    blobs.mkdir(parents=True)
    old = time.time() - 9 * DAY
    for name, size, when in [
        ("a" * 64 + ".partial", 3_000_000, old),
        ("b" * 64 + ".partial", 5, time.time() - DAY),
        ("c" * 64 + ".partial", 7, old),
        ("d" * 64 + ".1234abcd.incomplete", 1_000_000, old - DAY),
        ("e" * 64, 11, old),
    ]:
        (blobs / name).write_bytes(b"x" * size)
        os.utime(blobs / name, (when, when))
    with open(blobs / ("c" * 64 + ".partial"), "r+b") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield tmp_path / "ca che"


def test_downloads_that_nobody_goes_on_with_are_told_with_size_and_command(cache):
    found = leftovers.read_leftovers(str(cache))
    assert [one.size for one in found] == [3_000_000, 1_000_000], "neither the fresh one nor the one a job writes"
    check = leftovers.leftovers_check(str(cache), found)
    assert check.state == "warn" and "2 files, 4.0 MB, of model org/large--model" in check.seen
    assert "not written to for 9 days" in check.seen and "`make fetch` goes on with" in check.todo


def test_the_command_removes_what_was_told_and_nothing_else(cache):
    command = leftovers.removal(str(cache))
    assert command in leftovers.leftovers_check(str(cache), leftovers.read_leftovers(str(cache))).todo
    before = {path.name[0] for path in cache.rglob("*") if path.is_file()}
    os.utime(next(cache.rglob("c*.partial")))  # a job that writes touches its file
    subprocess.run(["sh", "-c", command], check=True)
    assert before - {path.name[0] for path in cache.rglob("*") if path.is_file()} == {"a", "d"}


def test_a_cache_without_leftovers(tmp_path):
    assert leftovers.read_leftovers(str(tmp_path / "nowhere")) == []
    assert leftovers.leftovers_check(".cache", []).state == "ok"


# ---------------------------------------------------------------- the program


def test_the_program_looks_at_addresses_and_leftovers(repository, server, cache, tmp_path):
    url = f"http://127.0.0.1:{server.server_port}/404/rows.csv"
    file = study(repository, tmp_path, url, cache_dir=str(cache))
    done = refusal_eval("check", str(file), cwd=repository)
    assert done.returncode == 1, done.stderr
    assert "FAIL  addresses" in done.stdout and f"{url} answers with HTTP 404; split s" in done.stdout
    assert "WARN  unfinished downloads" in done.stdout
