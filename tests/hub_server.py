"""A hub on loopback: the routes that huggingface_hub and datasets ask for, with the real shape of errors.

with HubServer() as hub:
    sha = hub.add("dataset", "org/name", {"data/test.jsonl": b"..."})
    # HF_ENDPOINT=hub.address
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import unquote, urlsplit


@dataclass
class Repo:
    """A repository: the files of every commit, the newest commit, whether it is gated."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    newest: str = ""
    gated: bool = False


class HubServer:
    """Serves repositories until the `with` block ends.

    `requests` lists what was asked, as "METHOD path". `faults[name]` counts down answers of 503 for a repository.
    Files of 1,000 bytes and more are listed as large files, with their SHA-256; those in `mislisted` with a wrong one.
    """

    def __init__(self) -> None:
        self.repos: dict[tuple[str, str], Repo] = {}
        self.requests: list[str] = []
        self.faults: dict[str, int] = {}
        self.mislisted: set[str] = set()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def address(self) -> str:
        """What HF_ENDPOINT must say."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def add(self, kind: str, name: str, files: dict[str, bytes], gated: bool = False) -> str:
        """Add a commit to a repository (`kind` is dataset or model) and return its hash."""
        repo = self.repos.setdefault((f"{kind}s", name), Repo())
        sha = hashlib.sha1(repr((kind, name, sorted(files.items()), len(repo.commits))).encode()).hexdigest()
        repo.commits[sha], repo.newest, repo.gated = dict(files), sha, gated
        return sha

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
                if parts[0] == "api" and len(parts) >= 4:
                    self.api(parts[1], "/".join(parts[2:4]), parts[4:])
                elif "resolve" in parts:
                    kind = parts.pop(0) if parts[0] == "datasets" else "models"
                    self.file(kind, "/".join(parts[:2]), parts[3], "/".join(parts[4:]))
                else:
                    self.fail(404, "EntryNotFound")

            def api(self, kind: str, name: str, rest: list[str]) -> None:
                repo = hub.repos.get((kind, name))
                if repo is None:
                    self.fail(401, "RepoNotFound")
                    return
                revision = rest[1] if len(rest) > 1 else "main"
                sha = repo.newest if revision == "main" else revision
                if sha not in repo.commits:
                    self.fail(404, "RevisionNotFound")
                elif rest[:1] == ["tree"]:
                    self.answer(
                        json.dumps(tree(repo.commits[sha], hub.mislisted)).encode(),
                        {"Content-Type": "application/json"},
                    )
                else:
                    info = {"id": name, "sha": sha, "private": False, "gated": "manual" if repo.gated else False}
                    info |= {"disabled": False, "tags": [], "downloads": 0, "likes": 0}
                    info["siblings"] = [{"rfilename": file} for file in sorted(repo.commits[sha])]
                    self.answer(json.dumps(info).encode(), {"Content-Type": "application/json"})

            def file(self, kind: str, name: str, revision: str, file: str) -> None:
                repo = hub.repos.get((kind, name))
                if repo is None:
                    self.fail(401, "RepoNotFound")
                    return
                sha = repo.newest if revision == "main" else revision
                if repo.gated:
                    self.fail(403, "GatedRepo")
                elif sha not in repo.commits:
                    self.fail(404, "RevisionNotFound")
                elif file not in repo.commits[sha]:
                    self.fail(404, "EntryNotFound", {"X-Repo-Commit": sha})
                else:
                    body = repo.commits[sha][file]
                    headers = {"ETag": f'"{oid(body)}"', "X-Repo-Commit": sha, "Accept-Ranges": "bytes"}
                    self.answer(body, headers)

            def answer(self, body: bytes, headers: dict[str, str]) -> None:
                self.send_response(200)
                for key, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def fail(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                for key, value in {**(headers or {}), "X-Error-Code": code, "Content-Length": "0"}.items():
                    if value:
                        self.send_header(key, value)
                self.end_headers()

        return Handler


def tree(files: dict[str, bytes], mislisted: set[str]) -> list[dict[str, object]]:
    """Return a commit's listing as the hub gives it."""
    folders = {"/".join(name.split("/")[:depth]) for name in files for depth in range(1, name.count("/") + 1)}
    listed: list[dict[str, object]] = [
        {"type": "directory", "oid": "0" * 40, "size": 0, "path": name} for name in folders
    ]
    for name, body in files.items():
        entry: dict[str, object] = {"type": "file", "oid": oid(body), "size": len(body), "path": name}
        if len(body) >= 1000:
            digest = "0" * 64 if name in mislisted else hashlib.sha256(body).hexdigest()
            entry["lfs"] = {"oid": digest, "size": len(body), "pointerSize": 130}
        listed.append(entry)
    return sorted(listed, key=lambda entry: str(entry["path"]))


def oid(body: bytes) -> str:
    """Return git's name of a file's content."""
    return hashlib.sha1(f"blob {len(body)}\0".encode() + body).hexdigest()
