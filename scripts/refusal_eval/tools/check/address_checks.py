"""Files at addresses that a study takes rows from: can what is missing be fetched from here?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

from refusal_eval.data.addresses import PASSING
from refusal_eval.study.row_sources import addresses_of
from refusal_eval.tools.check.check import Check, fail, not_applicable, ok, warn
from refusal_eval.tools.check.study_facts import Address, Needs

NAME = "addresses"
SECONDS = 10.0  # for a connection, and for the first bytes
MOST_REDIRECTIONS = 5
AT_ONCE = 8
THERE = (200, 206)  # all of it, or the part that was asked for
GONE = (404, 410)
ELSEWHERE = "fetch the file where it can be had, and name it in a source of `kind: file`"
NETWORK = "is there internet here, a proxy (HTTPS_PROXY)? On a cluster run `make fetch` on the login node"


@dataclass(frozen=True)
class Answer:
    """How an address answered.

    Attributes:
        url: the address; of several under one source the first that does not give its file.
        status: HTTP status; None if there was no answer.
        reason: why there was none.
        page: whether it is a web page, where a file was expected.
    """

    url: str
    status: int | None = None
    reason: str = ""
    page: bool = False


def address_checks(needs: Needs | None, answers: Mapping[Address, Answer], offline: bool) -> Iterator[Check]:
    """Yield whether what is missing of the files at addresses can be fetched; a check for each that cannot.

    Args:
        needs: what the study needs; None if no study was named.
        answers: of the addresses of what is missing; none if nobody asked.
        offline: whether HF_HUB_OFFLINE forbids to ask.
    """
    if needs is None or not needs.in_addresses:
        yield not_applicable(NAME, "the study takes no file from an address" if needs else "no study was named")
    elif not needs.at_addresses:
        yield ok(NAME, "every file that the study takes from an address is here")
    elif offline:
        files = "; ".join(f"{one.url} ({', '.join(one.used_by)})" for one in needs.at_addresses)
        todo = "unset it, or fetch on a machine with internet"
        yield fail(NAME, f"HF_HUB_OFFLINE is set; to be fetched: {files}", todo)
    else:
        yield from _judged(answers)


def _judged(answers: Mapping[Address, Answer]) -> Iterator[Check]:
    good = [address for address, answer in answers.items() if answer.status in THERE and not answer.page]
    if good:
        hosts = ", ".join(dict.fromkeys(str(urlsplit(one.url).hostname) for one in good))
        users = ", ".join(user for one in good for user in one.used_by)
        yield ok(NAME, f"{hosts} {'answers' if ',' not in hosts else 'answer'}; to be fetched: {users}")
    for address, answer in answers.items():
        if address not in good:
            yield _bad(answer, ", ".join(address.used_by))


def _bad(answer: Answer, users: str) -> Check:
    place = f"`source.url` of {users}"
    if answer.status is None:
        return fail(NAME, f"{answer.url} cannot be reached ({answer.reason}); {users}", f"{NETWORK}; or {ELSEWHERE}")
    seen = f"{answer.url} answers with HTTP {answer.status}; {users}"
    if answer.page:
        todo = f"is there a proxy or a sign-in page in between, or is {place} a page about the file?"
        return fail(NAME, f"{answer.url} answers with a web page, not with a file; {users}", todo)
    if answer.status in GONE:
        return fail(NAME, seen, f"it was moved or deleted: correct {place}, or {ELSEWHERE}")
    if answer.status in PASSING or answer.status >= 500:
        return warn(NAME, seen, "the server is in trouble: try again later")
    return fail(NAME, seen, f"the server refuses, or a proxy does: correct {place}, or {ELSEWHERE}")


# --- Reading -------------------------------------------------------------------------------------------------------


def read_answers(addresses: Sequence[Address]) -> dict[Address, Answer]:
    """Return how addresses answer; of each file the first byte is asked for, and no more of it is read."""
    if not addresses:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE, len(addresses))) as pool:
        return dict(zip(addresses, pool.map(lambda one: _answer(one.url), addresses), strict=True))


def _answer(url: str) -> Answer:
    answer = Answer(url)
    for one in addresses_of(url).values():
        answer = _asked(one)
        if answer.status not in THERE or answer.page:
            break
    return answer


def _asked(url: str) -> Answer:
    import httpx

    # GET, because not every server answers to HEAD as it does to GET. Compressed on the way, a range means nothing.
    headers = {"Range": "bytes=0-0", "Accept-Encoding": "identity"}
    try:
        with (
            httpx.Client(timeout=SECONDS, follow_redirects=True, max_redirects=MOST_REDIRECTIONS) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            page = response.headers.get("content-type", "").startswith("text/html")
            return Answer(url, response.status_code, page=page and response.status_code in THERE)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Answer(url, reason=type(error).__name__)
