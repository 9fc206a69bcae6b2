"""Pins, hub, addresses, token and Slurm: what a run reaches from here."""

import contextlib
import importlib.metadata
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

from refusal_eval.core.slurm_jobs import NoAnswer, slurm_answer
from refusal_eval.data.addresses import PASSING
from refusal_eval.data.hub import offline, token_is_set
from refusal_eval.program.check_lines import CheckLine, CheckOutcome, fail, not_applicable, ok, warn
from refusal_eval.study.row_sources import addresses_of
from refusal_eval.tools.check.study_needs import NeededSource, Needs

SECONDS = 10.0  # for a connection, and for the first bytes
MOST_REDIRECTIONS = 5
AT_ONCE = 8
THERE = (200, 206)  # all of it, or the part that was asked for
GONE = (404, 410)
ELSEWHERE = "fetch the file where it can be had, and name it in a source of `kind: file`"
NETWORK = "is there internet here, a proxy (HTTPS_PROXY)? On a cluster run `make fetch` on the login node"
OFFLINE = "HF_HUB_OFFLINE is set"
ONLINE = "unset it, or fetch on a machine with internet"
SLURM_PLUGIN = "snakemake-executor-plugin-slurm"


def network_lines(needs: Needs | None, variables: Mapping[str, str]) -> Iterator[CheckLine]:
    """Yield the report's lines on everything that a study fetches."""
    yield "hub", hub(needs, variables)
    if needs is not None:
        yield "pins", pins(needs)
        for outcome in addresses(needs, offline(variables)):
            yield "addresses", outcome
    yield "HF_TOKEN", token(needs, token_is_set(variables))
    for name, engines in needs.variables.items() if needs is not None else ():
        yield name, of_engines(name, engines, variables)


def of_engines(name: str, engines: Sequence[str], variables: Mapping[str, str]) -> CheckOutcome:
    """Return whether a variable is set that engines need; its text is never looked at."""
    users = ", ".join(engines)
    if variables.get(name, ""):
        return ok(f"set, for {users}")
    return fail(f"not set, and {users} cannot be asked without it", "export it where the study runs")


def pins(needs: Needs) -> CheckOutcome:
    """Return whether everything that the study takes from elsewhere is pinned."""
    if needs.open_pins:
        seen = f"not known yet: {', '.join(needs.open_pins)}"
        return fail(seen, "run `refusal-eval pin ...`, which writes the study's lock file")
    if needs.locked_unused:
        seen = f"{needs.lock} also has what the study does not take: {', '.join(needs.locked_unused)}"
        todo = (
            "is it another study's? `refusal-eval pin ...` writes it again for this one; until then they do not count"
        )
        return warn(seen, todo)
    if not needs.takes("hub", "url"):
        return not_applicable("the study takes nothing from the hub or from addresses")
    return ok("each commit and each SHA-256 is known")


def hub(needs: Needs | None, variables: Mapping[str, str]) -> CheckOutcome:
    """Return whether what is missing can be fetched from the hub; without a study, whether anything can."""
    fetched_text, bad, todo = "", warn, "unset it to fetch"
    if needs is not None:
        if not needs.takes("hub"):
            return not_applicable("the study needs nothing from it")
        if not (missing := needs.missing("hub")):
            return ok("everything that the study needs from it is here")
        fetched_text, bad, todo = f"; to be fetched: {', '.join(source.what for source in missing)}", fail, ONLINE
    if offline(variables):
        return bad(f"{OFFLINE}{fetched_text or ': only what is cached can be used'}", todo)
    shown, trouble = ask_hub(variables)
    if not trouble:
        return ok(f"{shown} answers{fetched_text}")
    todo = "is there internet here, a proxy (HTTPS_PROXY), a mirror (HF_ENDPOINT)? On a cluster fetch on the login node"
    return bad(f"{shown} cannot be reached ({trouble}){fetched_text}", todo)


def ask_hub(variables: Mapping[str, str]) -> tuple[str, str]:
    """Return the hub's address as it is shown, and why it does not answer a short question; empty if it does."""
    import httpx

    endpoint = variables.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    parts = urlsplit(endpoint)
    # Of an address with a password only the host is shown.
    shown = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    try:
        status = httpx.head(endpoint, timeout=SECONDS, follow_redirects=False).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return shown, type(error).__name__
    return shown, f"HTTP {status}" if status >= 500 else ""


def addresses(needs: Needs, is_offline: bool) -> Iterator[CheckOutcome]:
    """Yield whether what is missing of the files at addresses can be fetched; one outcome for each that cannot."""
    missing = needs.missing("url")
    if not needs.takes("url"):
        yield not_applicable("the study takes no file from an address")
    elif not missing:
        yield ok("every file that the study takes from an address is here")
    elif is_offline:
        files = "; ".join(f"{source.what} ({', '.join(source.used_by)})" for source in missing)
        yield fail(f"{OFFLINE}; to be fetched: {files}", ONLINE)
    else:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            asked = list(zip(missing, pool.map(address, missing), strict=True))
        if good := [source for source, trouble in asked if trouble is None]:
            hosts = ", ".join(dict.fromkeys(str(urlsplit(one.what).hostname) for one in good))
            users = ", ".join(user for one in good for user in one.used_by)
            yield ok(f"{hosts} {'answers' if ',' not in hosts else 'answer'}; to be fetched: {users}")
        yield from (trouble for _, trouble in asked if trouble is not None)


def address(source: NeededSource) -> CheckOutcome | None:
    """Return the fault of the first file at an address that cannot be fetched; None if all can.

    Only the first byte of each file is requested.
    """
    import httpx

    users = ", ".join(source.used_by)
    place = f"`source.url` of {users}"
    # GET, because not every server answers to HEAD as it does to GET. Compressed on the way, a range means nothing.
    headers = {"Range": "bytes=0-0", "Accept-Encoding": "identity"}
    for url in addresses_of(source.what).values():
        try:
            with (
                httpx.Client(timeout=SECONDS, follow_redirects=True, max_redirects=MOST_REDIRECTIONS) as client,
                client.stream("GET", url, headers=headers) as response,
            ):
                status, content = response.status_code, response.headers.get("content-type", "")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return fail(f"{url} cannot be reached ({type(error).__name__}); {users}", f"{NETWORK}; or {ELSEWHERE}")
        seen = f"{url} answers with HTTP {status}; {users}"
        if status in GONE:
            return fail(seen, f"it was moved or deleted: correct {place}, or {ELSEWHERE}")
        if status in PASSING or status >= 500:
            return warn(seen, "the server is in trouble: try again later")
        if status not in THERE:
            return fail(seen, f"the server refuses, or a proxy does: correct {place}, or {ELSEWHERE}")
        if content.startswith("text/html"):
            todo = f"is there a proxy or a sign-in page in between, or is {place} a page about the file?"
            return fail(f"{url} answers with a web page, not with a file; {users}", todo)
    return None


def token(needs: Needs | None, present: bool) -> CheckOutcome:
    """Return whether there is a token of the hub; its text is never looked at."""
    if present:
        return ok("set")
    missing = needs.missing("hub") if needs else []
    if needs is not None and not missing:
        return not_applicable("not set, and nothing has to be fetched from the hub")
    if gated := [source for source in missing if source.gated]:
        pages = dict.fromkeys(source.terms for source in gated if source.terms)
        where = f"at {', '.join(pages)}" if pages else "on their pages"
        todo = f"ask for access {where}, then set HF_TOKEN to a token that may read them"
        return fail(f"not set, and gated: {', '.join(source.what for source in gated)}", todo)
    return warn("not set", "gated repositories need one: set HF_TOKEN to a token that may read them")


@dataclass(frozen=True)
class Slurm:
    """What there is of Slurm here."""

    missing: tuple[str, ...]  # programs of sinfo, squeue, sbatch that are not there
    plugin: str | None  # version of Snakemake's executor plugin; None if it is not installed
    job: str | None = None  # number of the job that this runs in; None outside of jobs
    nodes: frozenset[str] | None = None  # the nodes that jobs run on; None if Slurm does not answer
    host: str = ""  # this machine's short name

    @property
    def on_login_node(self) -> bool:
        """Whether jobs start from this machine but do not run on it."""
        return self.job is None and self.nodes is not None and self.host not in self.nodes

    def outcome(self) -> CheckOutcome:
        """Return whether jobs can be submitted from here."""
        if len(self.missing) == 3:
            return not_applicable("not on this machine")
        if self.missing:
            return warn(f"{', '.join(self.missing)} not found", "to submit jobs, load the cluster's module of Slurm")
        if self.nodes is None:
            todo = "to submit jobs, see why `sinfo` fails; runs on this machine alone do not need it"
            return warn("its programs are here, and sinfo does not answer", todo)
        if self.job is not None:
            return ok(f"inside job {self.job}")
        if self.plugin is None:
            return fail(f"there, but {SLURM_PLUGIN} is not installed", "run `make setup`, to submit jobs")
        where = "a login node" if self.on_login_node else "a node that runs jobs"
        return ok(f"{len(self.nodes)} nodes, this is {where}; {SLURM_PLUGIN} {self.plugin}")


def read_slurm(variables: Mapping[str, str]) -> Slurm:
    """Return what there is of Slurm here."""
    missing = tuple(program for program in ("sinfo", "squeue", "sbatch") if shutil.which(program) is None)
    found = importlib.metadata.distributions(name=SLURM_PLUGIN)
    plugin, nodes = next((one.version for one in found), None), None
    with contextlib.suppress(NoAnswer):
        nodes = frozenset(slurm_answer("sinfo", "--noheader", "--Node", "--format=%N").split())
    return Slurm(missing, plugin, variables.get("SLURM_JOB_ID"), nodes, socket.gethostname().split(".")[0])
