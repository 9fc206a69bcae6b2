"""A hub on loopback: the routes that huggingface_hub and datasets ask for, with the real shape of errors.

with HubServer() as hub:
    sha = hub.add("dataset", "org/name", {"data/test.jsonl": b"..."})
    # HF_ENDPOINT=hub.address
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import unquote, urlsplit

LARGE = 1000  # bytes from which on a file is listed as a large one, with its SHA-256


@dataclass
class Repo:
    """A repository: the files of every commit, the newest commit, whether it is gated, its licence tag."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    newest: str = ""
    gated: bool = False
    licence: str | None = None


class HubServer:
    """Serves repositories, and `files` at addresses, until the `with` block ends.

    `requests` lists what was asked, as "METHOD path", and `ranges` the files that were asked for from a byte on.
    `answers[path]` lists statuses to answer with before the file (302 leads to the same file elsewhere), or "cut".
    `faults[name]` counts down answers of 503 for a repository; `cuts[file]` lists after how many bytes the connection
    breaks, answer by answer; `range_faults` counts down answers of 503 to requests from a byte on; `served` replaces
    what files hold (`org/name/file`) in answers, not in listings. With `elsewhere` large files come from another host,
    as the hub's do, which notes in `told_tokens` what they sent. Gated repositories open to the tokens in `tokens`.
    Files of 1,000 bytes and more are listed as large files, with their SHA-256; those in `mislisted` with a wrong one,
    the one that it names.
    """

    def __init__(self) -> None:
        self.repos: dict[tuple[str, str], Repo] = {}
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.ranges: list[tuple[str, int]] = []
        self.answers: dict[str, list[int | str]] = {}
        self.faults: dict[str, int] = {}
        self.cuts: dict[str, list[int]] = {}
        self.range_faults = 0
        self.elsewhere = False
        self.reported_tokens: list[str] = []
        self.served: dict[str, bytes] = {}
        self.mislisted: dict[str, str] = {}
        self.tokens: set[str] = set()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def address(self) -> str:
        """What HF_ENDPOINT must say."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def add(
        self, kind: str, name: str, files: dict[str, bytes], gated: bool = False, licence: str | None = None
    ) -> str:
        """Add a commit to a repository (`kind` is dataset or model) and return its hash."""
        repo = self.repos.setdefault((f"{kind}s", name), Repo())
        sha = hashlib.sha1(repr((kind, name, sorted(files.items()), len(repo.commits))).encode()).hexdigest()
        repo.commits[sha], repo.newest, repo.gated, repo.licence = dict(files), sha, gated, licence
        return sha

    def rewrite(self, kind: str, name: str, sha: str, files: dict[str, bytes] | None = None) -> None:
        """Rewrite a repository's history: take a commit away, or put other files under its hash."""
        repo = self.repos[f"{kind}s", name]
        if files is None:
            del repo.commits[sha]
            repo.newest = list(repo.commits)[-1]
        else:
            repo.commits[sha] = dict(files)

    def __enter__(self) -> HubServer:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                path = unquote(urlsplit(self.path).path)
                hub.requests.append(f"{self.command} {path}")
                for name, left in hub.faults.items():
                    if left > 0 and name in path:
                        hub.faults[name] -= 1
                        self.fail(503, "")
                        return
                parts = path.strip("/").split("/")
                planned = hub.answers[path].pop(0) if hub.answers.get(path) else None
                if planned == "cut":
                    hub.cuts.setdefault(parts[-1], []).append(1000)
                if isinstance(planned, int):
                    self.fail(planned, "", {"Location": "/moved" + path} if planned == 302 else None)
                elif path.removeprefix("/moved") in hub.files:
                    path = path.removeprefix("/moved")
                    if path.startswith("/elsewhere/") and "Authorization" in self.headers:
                        hub.reported_tokens.append(self.headers["Authorization"])
                    self.answer(hub.files[path], {}, parts[-1])
                elif parts[0] == "api" and len(parts) >= 4:
                    self.api(parts[1], "/".join(parts[2:4]), parts[4:])
                elif "resolve" in parts:
                    kind = parts.pop(0) if parts[0] == "datasets" else "models"
                    self.file(kind, "/".join(parts[:2]), parts[3], "/".join(parts[4:]))
                else:
                    self.fail(404, "EntryNotFound")

            def may_read(self, repo: Repo) -> bool:
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                return not repo.gated or token in hub.tokens

            def api(self, kind: str, name: str, rest: list[str]) -> None:
                repo = hub.repos.get((kind, name))
                if repo is None:
                    self.fail(401, "RepoNotFound")
                    return
                revision = rest[1] if len(rest) > 1 else "main"
                sha = repo.newest if revision == "main" else revision
                if rest[:1] == ["auth-check"]:
                    self.json({}) if self.may_read(repo) else self.fail(403, "GatedRepo")
                elif sha not in repo.commits:
                    self.fail(404, "RevisionNotFound")
                elif rest[:1] == ["tree"]:
                    self.json(tree(repo.commits[sha], hub.mislisted))
                elif rest[:1] == ["commits"]:
                    self.json(history(repo, sha))
                else:
                    tags = [f"license:{repo.licence}"] if repo.licence else []
                    info = {"id": name, "sha": sha, "private": False, "gated": "manual" if repo.gated else False}
                    info |= {"disabled": False, "tags": tags, "downloads": 0, "likes": 0}
                    info["siblings"] = [{"rfilename": file} for file in sorted(repo.commits[sha])]
                    self.json(info)

            def file(self, kind: str, name: str, revision: str, file: str) -> None:
                repo = hub.repos.get((kind, name))
                if repo is None:
                    self.fail(401, "RepoNotFound")
                    return
                sha = repo.newest if revision == "main" else revision
                if not self.may_read(repo):
                    self.fail(403, "GatedRepo")
                elif sha not in repo.commits:
                    self.fail(404, "RevisionNotFound")
                elif file not in repo.commits[sha]:
                    self.fail(404, "EntryNotFound", {"X-Repo-Commit": sha})
                else:
                    body = hub.served.get(f"{name}/{file}", repo.commits[sha][file])
                    name_of = hashlib.sha256(body).hexdigest() if len(body) >= LARGE else oid(body)
                    if hub.elsewhere and len(body) >= LARGE:
                        self.redirect(body, name_of, sha, file)
                        return
                    self.answer(body, {"ETag": f'"{name_of}"', "X-Repo-Commit": sha, "Accept-Ranges": "bytes"}, file)

            def redirect(self, body: bytes, digest: str, sha: str, file: str) -> None:
                path = f"/elsewhere/{digest}/{file}"
                hub.files[path] = body
                self.send_response(302)
                self.send_header("Location", f"http://localhost:{hub.server.server_port}{path}")
                self.send_header("X-Repo-Commit", sha)
                self.send_header("X-Linked-Etag", f'"{digest}"')
                self.send_header("X-Linked-Size", str(len(body)))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def json(self, value: object) -> None:
                self.answer(json.dumps(value).encode(), {"Content-Type": "application/json"})

            def answer(self, body: bytes, headers: dict[str, str], file: str = "") -> None:
                asked = self.headers.get("Range", "")
                start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and file else 0
                if start and hub.range_faults:
                    hub.range_faults -= 1
                    self.fail(503, "")
                    return
                if start:
                    hub.ranges.append((file, start))
                    headers = {**headers, "Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}
                self.send_response(206 if start else 200)
                for key, value in {**headers, "Content-Length": str(len(body) - start)}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command == "GET":
                    cut = hub.cuts[file].pop(0) if hub.cuts.get(file) else None
                    self.wfile.write(body[start : None if cut is None else start + cut])
                    if cut is not None:
                        self.close_connection = True

            def fail(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                for key, value in {**(headers or {}), "X-Error-Code": code, "Content-Length": "0"}.items():
                    if value:
                        self.send_header(key, value)
                self.end_headers()

        return Handler


def tree(files: dict[str, bytes], mislisted: Mapping[str, str]) -> list[dict[str, object]]:
    """Return a commit's listing as the hub gives it."""
    folders = {"/".join(name.split("/")[:depth]) for name in files for depth in range(1, name.count("/") + 1)}
    listed: list[dict[str, object]] = [
        {"type": "directory", "oid": "0" * 40, "size": 0, "path": name} for name in folders
    ]
    for name, body in files.items():
        entry: dict[str, object] = {"type": "file", "oid": oid(body), "size": len(body), "path": name}
        if len(body) >= LARGE:
            digest = mislisted.get(name, hashlib.sha256(body).hexdigest())
            entry["lfs"] = {"oid": digest, "size": len(body), "pointerSize": 130}
        listed.append(entry)
    return sorted(listed, key=lambda entry: str(entry["path"]))


def history(repo: Repo, sha: str) -> list[dict[str, object]]:
    """Return a commit and those before it as the hub lists them, the newest first; one is made a day."""
    commits = list(repo.commits)
    days = range(commits.index(sha), -1, -1)
    authors = [{"user": "someone"}]
    return [
        {
            "id": commits[day],
            "title": "x",
            "message": "",
            "authors": authors,
            "date": f"2026-01-{day + 1:02d}T12:00:00.000Z",
        }
        for day in days
    ]


def oid(body: bytes) -> str:
    """Return git's name of a file's content."""
    return hashlib.sha1(f"blob {len(body)}\0".encode() + body).hexdigest()
