"""Files at an address: from a server on loopback, whole or not at all."""

import contextlib
import hashlib
import json
import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from hub_server import HubServer

from refusal_eval.core.errors import UserError
from refusal_eval.data import addresses, network
from refusal_eval.data.addresses import read_addresses
from refusal_eval.data.hub import locked_files
from refusal_eval.data.rows import read_rows
from refusal_eval.study.row_sources import addresses_of, row_source

LOG = logging.getLogger("test")
BODY = b"p,q\n\xc3\xa9,1\n" * 5000


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(network, "WAIT_SECONDS", 0.01)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with HubServer() as server:
        server.files = dict.fromkeys([f"/0123/{name}.csv" for name in ("rows", "answers_gpt", "answers_llama")], BODY)
        yield server


def fetch(server, folder, path="/0123/rows.csv", **change):
    source = {"kind": "url", "url": server.address + path, "sha256": hashlib.sha256(BODY).hexdigest(), **change}
    target = folder / "out" / "rows.csv"
    row_source(source).fetch(target, str(folder / "cache"), LOG, None)
    return target


def test_a_file_comes_as_it_is(server, tmp_path):
    target = fetch(server, tmp_path)
    assert target.read_bytes() == BODY
    assert read_rows(target)[0] == {"p": "\u00e9", "q": "1"}
    assert [path.name for path in target.parent.iterdir()] == ["rows.csv"]


@pytest.mark.parametrize("faults", [[503, 429], ["cut"], ["cut", 500], [302]])
def test_faults_that_pass_are_tried_again_and_redirections_followed(server, tmp_path, faults):
    server.answers["/0123/rows.csv"] = list(faults)
    assert fetch(server, tmp_path).read_bytes() == BODY
    assert len(server.requests) == len(faults) + 1


@pytest.mark.parametrize(
    ("answers", "change", "message", "asked"),
    [
        ([404], {}, r"/0123/rows.csv: there is no such file \(status 404\)", 1),
        ([403], {}, r"the server refused \(status 403\)", 1),
        ([503] * 3, {}, r"cannot fetch http://127.*status 503\). Is there internet here\?", 3),
        (["cut"] * 3, {}, r"cannot fetch http://127.*\(RemoteProtocolError", 3),
        (
            [],
            {"sha256": "0" * 64},
            "is not the file that was locked: its SHA-256 is [0-9a-f]{64}, expected is 0{64}",
            1,
        ),
    ],
)
def test_what_cannot_be_fetched_is_reported_and_leaves_no_file(server, tmp_path, answers, change, message, asked):
    server.answers["/0123/rows.csv"] = answers
    with pytest.raises(UserError, match=message) as reported:
        fetch(server, tmp_path, **change)
    assert "\n" not in str(reported.value)
    assert len(server.requests) == asked
    assert not list((tmp_path / "out").iterdir())


def test_offline_nothing_is_asked(server, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="not in the cache, and HF_HUB_OFFLINE is set: fetch it once on a machine with"):
        fetch(server, tmp_path)
    assert server.requests == []


def test_a_server_that_is_not_there_is_reported(server, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/rows.csv"
        with pytest.raises(UserError, match=r"cannot fetch .*\(ConnectError.*Is there internet here"):
            fetch(server, tmp_path, url=url)


# ---------------------------------------------------------------- several files under one entry

SEVERAL = "/0123/answers_{gpt,llama}.csv"


@pytest.fixture
def trickle():
    """An address that sends a few bytes at a time, without end and without a length."""
    sending = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while not sending.wait(0.005):
                    self.wfile.write(b"x" * 100)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/rows.csv"
    sending.set()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("change", "locked", "said"),
    [
        ({"GRACE_SECONDS": 0.2, "LEAST_RATE": 10**9}, None, "comes too slowly: .* run again later"),
        ({}, 5000, "is not the file that was locked: it is larger than the 5.0 kB"),
        ({"LARGEST": 4000}, None, "holds more than 4.0 kB"),
        ({"CHUNK": 1000, "KEPT_FREE": 2**60}, None, "are left free in .*; set cache_dir to a larger disk"),
    ],
)
def test_a_download_without_end_ends(server, trickle, tmp_path, monkeypatch, change, locked, said):
    for name, value in change.items():
        monkeypatch.setattr(addresses, name, value)
    with pytest.raises(UserError, match=said):
        read_addresses([trickle], LOG, [tmp_path / "rows.csv"], locked)
    assert list(tmp_path.iterdir()) == []


def test_a_file_larger_than_the_locked_one_is_not_downloaded(server, tmp_path):
    lock = tmp_path / "study.lock.yaml"
    url = server.address + "/0123/rows.csv"
    for size, right in ((len(BODY) - 1, False), (len(BODY), True)):
        lock.write_text(f"urls: [{{url: '{url}', sha256: {hashlib.sha256(BODY).hexdigest()}, size: {size}}}]\n")
        source = {"kind": "url", "url": url, "sha256": hashlib.sha256(BODY).hexdigest()}
        locked = locked_files({"lock": str(lock)}, "dataset", source)
        with contextlib.nullcontext() if right else pytest.raises(UserError, match=r"larger than the .* lock says"):
            row_source(source).fetch(tmp_path / "out" / "rows.csv", str(tmp_path / "cache"), LOG, locked)


def test_what_the_lock_says_of_another_file_at_the_address_does_not_count(tmp_path):
    lock, source = tmp_path / "study.lock.yaml", {"kind": "url", "url": "https://a.test/rows.csv", "sha256": "1" * 64}
    lock.write_text(f"urls: [{{url: '{source['url']}', sha256: {'0' * 64}, size: 1}}]\n")
    assert locked_files({"lock": str(lock)}, "dataset", source) is None


def test_https_never_leads_to_plain_http(monkeypatch):
    client, asked = httpx.Client, []

    def answer(request):
        asked.append(str(request.url))
        return httpx.Response(302, headers={"Location": "http://plain.test/rows.csv"})

    monkeypatch.setattr(httpx, "Client", lambda **options: client(transport=httpx.MockTransport(answer), **options))
    with pytest.raises(UserError, match=r"https://a\.test/rows\.csv leads to http://plain\.test.* which is not https"):
        read_addresses(["https://a.test/rows.csv"], LOG)
    assert asked == ["https://a.test/rows.csv"]


def test_rows_of_several_files_tell_which_they_come_from(server, tmp_path):
    target = fetch(server, tmp_path, SEVERAL, sha256=hashlib.sha256(BODY * 2).hexdigest())
    rows = read_rows(target.rename(target.with_name("rows.jsonl")))
    assert server.requests == ["GET /0123/answers_gpt.csv", "GET /0123/answers_llama.csv"]
    assert rows[0] == {"p": "\u00e9", "q": "1", "part": "gpt"} and rows[-1]["part"] == "llama"
    assert len(rows) == 2 * (BODY.count(b"\n") - 1)
    assert [path.name for path in target.parent.iterdir()] == ["rows.jsonl"]


def fetch_lines(server, folder, *lines):
    """Fetch several JSONL files, of which each has one of these lines."""
    server.files = {f"/0123/{name}.jsonl": line for name, line in zip("ab", lines, strict=True)}
    url, sha256 = f"{server.address}/0123/{{a,b}}.jsonl", hashlib.sha256(b"".join(lines)).hexdigest()
    target = folder / "out" / "rows.jsonl"
    row_source({"kind": "url", "url": url, "sha256": sha256}).fetch(target, str(folder / "cache"), LOG, None)
    return read_rows(target)


def test_values_that_json_lacks_are_treated_as_those_of_one_file(server, tmp_path):
    rows = fetch_lines(server, tmp_path, b'{"p": "a", "n": NaN}\n', b'{"p": "b", "n": 2}\n')
    assert rows == [{"p": "a", "n": None, "part": "a"}, {"p": "b", "n": 2, "part": "b"}]
    with pytest.raises(UserError, match=r"/0123/b.jsonl, row 1: holds \\ud83d alone"):
        fetch_lines(server, tmp_path, b'{"p": "a"}\n', b'{"p": "\\ud83d"}\n')


def test_two_places_in_an_address_are_two_columns_and_every_combination(server, tmp_path):
    for name in ("m/p_x", "m/p_y", "n/p_x", "n/p_y"):
        server.files[f"/0123/{name}.jsonl"] = json.dumps({"p": name}).encode() + b"\n"
    url = f"{server.address}/0123/{{m,n}}/p_{{x,y}}.jsonl"
    sha256, _ = read_addresses(list(addresses_of(url).values()), LOG)
    target = tmp_path / "out.jsonl"
    row_source({"kind": "url", "url": url, "sha256": sha256}).fetch(target, str(tmp_path / "cache"), LOG, None)
    rows = [(row["p"], row["part"], row["part_2"]) for row in read_rows(target)]
    assert rows == [(f"{a}/p_{b}", a, b) for a in ("m", "n") for b in ("x", "y")]


def test_one_changed_file_of_several_leaves_nothing_behind(server, tmp_path):
    with pytest.raises(UserError, match=r"answers_gpt.csv.*answers_llama.csv are not the files that were locked"):
        fetch(server, tmp_path, SEVERAL)
    assert list((tmp_path / "out").iterdir()) == []


def test_the_pin_of_several_files_is_found_as_it_is_checked(server, tmp_path):
    url = server.address + SEVERAL
    server.answers["/0123/answers_llama.csv"] = [503, "cut"]
    sha256, size = read_addresses(list(addresses_of(url).values()), LOG)
    assert (sha256, size) == (hashlib.sha256(BODY * 2).hexdigest(), 2 * len(BODY))
    assert fetch(server, tmp_path, SEVERAL, sha256=sha256).is_file()
