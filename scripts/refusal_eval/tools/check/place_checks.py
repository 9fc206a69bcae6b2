"""Disk, hub and Slurm: what a run reaches from here."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from refusal_eval.core.files import size_text
from refusal_eval.tools.check.check import Check, fail, not_applicable, ok, warn
from refusal_eval.tools.check.missing_files import Missing
from refusal_eval.tools.check.study_facts import Needs

GB = 10**9
LOW_RESULTS, LOW_CACHE = GB, 5 * GB
SPARE = 1.05  # what a download needs beside the files themselves
HUB_SECONDS = 10.0
SLURM_PLUGIN = "snakemake-executor-plugin-slurm"
SLURM_SECONDS = 20


# --- Disk ----------------------------------------------------------------------------------------------------------


def results_disk_check(folder: str, free: int, needs: Needs | None) -> Check:
    """Return whether there is room for a study's responses (bytes)."""
    name = "disk for results"
    need = needs.response_bytes if needs else None
    seen = f"{free / GB:.1f} GB free in {folder}"
    if need is not None:
        seen += f", answers take at most {need / GB:.2f} GB"
        if free < need:
            return fail(name, seen, "set `results_dir` and `store_dir` to a larger disk")
    if free < LOW_RESULTS:
        return warn(name, seen, "make room, or set `results_dir` and `store_dir` to a larger disk")
    return ok(name, seen)


def cache_disk_check(folder: str, free: int, needs: Needs | None) -> Check:
    """Return whether there is room for what is still to be fetched (bytes), as far as anything tells its size."""
    name = "disk for downloads"
    seen, todo = f"{free / GB:.1f} GB free in {folder}", "make room, or set `cache_dir` to a larger disk"
    sizes: dict[str, Missing | None] = {what: None for what in (needs.from_hub if needs else ())}
    sizes |= {one.what: one for one in (needs.missing if needs else ())}
    weights = {what: one for what, one in sizes.items() if what.startswith("weights")}
    if weights:
        seen += "; to be fetched: " + ", ".join(f"{what} ({_size(one)})" for what, one in weights.items())
    total = sum(one.size or 0 for one in weights.values() if one)
    if total * SPARE > free:
        return fail(name, f"{seen}; {size_text(total)} in all", todo)
    if free < LOW_CACHE:
        return fail(name, seen, todo) if weights and free < LOW_RESULTS else warn(name, seen, todo)
    return ok(name, seen)


def _size(one: Missing | None) -> str:
    if one is None or one.size is None:
        return "size not known"
    return size_text(one.size) + (", estimated" if one.estimated else "")


def read_free(folder: str) -> int:
    """Return the free bytes of the disk on which a folder lies or would lie."""
    place = Path(folder).absolute()
    return shutil.disk_usage(next(one for one in (place, *place.parents) if one.is_dir())).free


# --- Hub -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hub:
    """How the hub answered: HTTP status, or None with the reason; `asked` is false if nobody asked."""

    endpoint: str
    asked: bool = True
    status: int | None = None
    reason: str = ""


def hub_check(needs: Needs | None, hub: Hub, offline: bool) -> Check:
    """Return whether what is missing can be fetched from the hub."""
    name = "hub"
    if needs is not None and not needs.in_hub:
        return not_applicable(name, "the study needs nothing from it")
    if needs is not None and not needs.from_hub:
        return ok(name, "everything that the study needs from it is here")
    missing = f"; to be fetched: {', '.join(needs.from_hub)}" if needs else ""
    if offline:
        if needs is None:
            return warn(name, "HF_HUB_OFFLINE is set: only what is cached can be used", "unset it to fetch")
        return fail(name, f"HF_HUB_OFFLINE is set{missing}", "unset it, or fetch on a machine with internet")
    if hub.status is not None and hub.status < 500:
        return ok(name, f"{hub.endpoint} answers{missing}")
    what = f"HTTP {hub.status}" if hub.status is not None else hub.reason
    todo = "is there internet here, a proxy (HTTPS_PROXY), a mirror (HF_ENDPOINT)? On a cluster fetch on the login node"
    seen = f"{hub.endpoint} cannot be reached ({what}){missing}"
    return fail(name, seen, todo) if needs else warn(name, seen, todo)


def pins_check(needs: Needs | None) -> Check:
    """Return whether everything that the study takes from elsewhere is pinned."""
    name = "pins"
    if needs is None:
        return not_applicable(name, "no study was named")
    if needs.open_pins:
        seen = f"not known yet: {', '.join(needs.open_pins)}"
        return fail(name, seen, "run `refusal-eval pin ...`, which writes the study's lock file")
    if needs.locked_unused:
        seen = f"{needs.lock} also has what the study does not take: {', '.join(needs.locked_unused)}"
        todo = "is it another study's? `refusal-eval pin ...` writes it anew for this one; until then they do not count"
        return warn(name, seen, todo)
    if not (needs.in_hub or needs.in_addresses):
        return not_applicable(name, "the study takes nothing from the hub or from addresses")
    return ok(name, "each commit and each SHA-256 is known")


def token_check(needs: Needs | None, present: bool) -> Check:
    """Return whether there is a token of the hub; its text is never looked at."""
    name = "HF_TOKEN"
    if present:
        return ok(name, "set")
    if needs is not None and not needs.from_hub:
        return not_applicable(name, "not set, and nothing has to be fetched from the hub")
    if gated := [one for one in (needs.missing if needs else ()) if one.gated]:
        pages = dict.fromkeys(one.terms for one in gated if one.terms)
        where = f"at {', '.join(pages)}" if pages else "on their pages"
        todo = f"ask for access {where}, then set HF_TOKEN to a token that may read them"
        return fail(name, f"not set, and gated: {', '.join(one.what for one in gated)}", todo)
    return warn(name, "not set", "gated repositories need one: set HF_TOKEN to a token that may read them")


def read_hub(variables: Mapping[str, str], ask: bool) -> Hub:
    """Return how the hub answers a short question."""
    endpoint = variables.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    parts = urlsplit(endpoint)
    # Of an address with a password only the host is told.
    shown = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    if not ask:
        return Hub(shown, asked=False)
    import httpx

    try:
        return Hub(shown, status=httpx.head(endpoint, timeout=HUB_SECONDS, follow_redirects=False).status_code)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Hub(shown, reason=type(error).__name__)


def has_token(variables: Mapping[str, str]) -> bool:
    """Tell whether the hub's client would find a token: a variable, or the file of `hf auth login`."""
    if any(variables.get(name) for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")):
        return True
    home = Path(variables.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    file = Path(variables.get("HF_TOKEN_PATH") or home / "token")
    try:
        return file.stat().st_size > 0
    except OSError:
        return False


# --- Slurm ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slurm:
    """What there is of Slurm here.

    Attributes:
        missing: programs of sinfo, squeue, sbatch that are not there.
        plugin: version of Snakemake's executor plugin; None if it is not installed.
        job: number of the job that this runs in; None outside of jobs.
        nodes: the nodes that jobs run on; None if Slurm does not answer.
        host: this machine's short name.
    """

    missing: tuple[str, ...]
    plugin: str | None
    job: str | None = None
    nodes: frozenset[str] | None = None
    host: str = ""

    @property
    def present(self) -> bool:
        """Whether one of the programs is there."""
        return len(self.missing) < 3

    @property
    def on_login_node(self) -> bool:
        """Whether jobs are submitted from here and do not run here."""
        return self.present and self.job is None and self.nodes is not None and self.host not in self.nodes


def slurm_check(slurm: Slurm) -> Check:
    """Return whether jobs can be submitted to Slurm from here."""
    name = "Slurm"
    if not slurm.present:
        return not_applicable(name, "not on this machine")
    if slurm.missing:
        return warn(name, f"{', '.join(slurm.missing)} not found", "to submit jobs, load the cluster's module of Slurm")
    if slurm.nodes is None:
        todo = "to submit jobs, see why `sinfo` fails; runs on this machine alone do not need it"
        return warn(name, "its programs are here, and sinfo does not answer", todo)
    if slurm.job is not None:
        return ok(name, f"inside job {slurm.job}")
    if slurm.plugin is None:
        return fail(name, f"there, but {SLURM_PLUGIN} is not installed", "run `make setup`, to submit jobs")
    where = "a login node" if slurm.on_login_node else "a node that runs jobs"
    return ok(name, f"{len(slurm.nodes)} nodes, this is {where}; {SLURM_PLUGIN} {slurm.plugin}")


def read_slurm(variables: Mapping[str, str]) -> Slurm:
    """Return what there is of Slurm here."""
    missing = tuple(program for program in ("sinfo", "squeue", "sbatch") if shutil.which(program) is None)
    try:
        plugin: str | None = importlib.metadata.version(SLURM_PLUGIN)
    except importlib.metadata.PackageNotFoundError:
        plugin = None
    host = socket.gethostname().split(".")[0]
    nodes = _nodes() if "sinfo" not in missing else None
    return Slurm(missing, plugin, variables.get("SLURM_JOB_ID"), nodes, host)


def _nodes() -> frozenset[str] | None:
    try:
        reply = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--format=%N"],
            capture_output=True,
            text=True,
            timeout=SLURM_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return frozenset(reply.stdout.split()) if reply.returncode == 0 else None


def is_offline(variables: Mapping[str, str]) -> bool:
    """Tell whether the hub's client is told not to ask."""
    return variables.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def working_folder(path: str) -> str:
    """Return a path as it is shown: relative where it lies below the working folder."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
