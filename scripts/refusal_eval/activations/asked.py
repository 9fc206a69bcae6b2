"""Which states are wanted of a cell, and the key of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.ask.requests import Request, RequestFile, RequestSettings
from refusal_eval.ask.store import StoreReader, not_in_store
from refusal_eval.core.canonical import KEY_VERSION, plain
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, sha256_of

CAPTURE_VERSION = 2  # of what is captured; another one makes all stored activations unreachable


@dataclass(frozen=True)
class Asked:
    """States that are wanted: those of one prompt, or of one prompt with one of its answers."""

    key: str
    prompt_id: str
    sample: int | None  # None where no answer is read
    token_ids: Sequence[int]
    first: int | None  # the first position of the mean; None for the last position alone


def activation_key(identity: Mapping[str, Any], token_ids: Sequence[int], first: int | None) -> str:
    """Return the key of one prompt's states: SHA-256 (64 hex digits) of all that they are computed from.

    Args:
        identity: the engine's identity, with its weights and number format, and what of the model is changed.
        token_ids: the prompt's tokens, followed by those of an answer if its states are averaged.
        first: the first position of that mean; None for the last position alone.
    """
    body = {"key_version": KEY_VERSION, "capture_version": CAPTURE_VERSION, "engine": plain(identity)}
    body |= {"token_ids": list(token_ids), "positions": "last" if first is None else {"mean_from": first}}
    return sha256_of(body)


def asked_states(file: RequestFile, positions: str, answers: str | Path | None, store_dir: str | Path) -> list[Asked]:
    """Return what is wanted of a cell: one token of each prompt, or with `answers` the mean over each answer.

    Args:
        file: the cell's requests.
        positions: of a direction or separation.
        answers: its answers, which say which part of a response is the answer; None for a token of the prompts.
        store_dir: the store, for the tokens of responses.

    Raises:
        UserError: if responses are no longer in the store, or a prompt has no token at the position.
    """
    settings = RequestSettings.of_header(file.header)
    identity = {**settings.identity, **settings.changes}
    if answers is None:
        place = -1 if positions == "last_prompt_token" else int(positions.removeprefix("prompt_token"))
        return prompt_tokens(identity, file.requests(), place)
    rows = [row for row in read_jsonl(answers) if row.get("answer_tokens") and row["key"] is not None]
    records = StoreReader(store_dir, file.header["engine_id"]).lookup({row["key"] for row in rows})
    if lost := sum(row["key"] not in records for row in rows):
        raise not_in_store(f"{lost} of {len(rows)} responses are")
    tokens = {key: record["response"]["token_ids"] for key, record in records.items()}
    return answer_means(identity, file.requests(), rows, tokens)


def prompt_tokens(identity: Mapping[str, Any], requests: Iterable[Request], place: int = -1) -> list[Asked]:
    """Return what is wanted at one token of each prompt; prompts that are too long for the model are left out.

    No token sees those behind it, so the state is that of the last token of a prompt that ends there.

    Args:
        identity: as of `activation_key`.
        place: the token, counted from the end; -1 is the last one.

    Raises:
        UserError: for a prompt that is too short.
    """
    found: dict[str, Asked] = {}
    for request in requests:
        if request.prompt_id not in found and request.key is not None:
            ids = request.token_ids
            if len(ids) < -place:
                raise UserError(
                    f"prompt {request.prompt_id} has {len(ids)} tokens, so there is no `prompt_token{place}`: take a "
                    "position nearer to the end"
                )
            ids = ids[: len(ids) + place + 1]
            found[request.prompt_id] = Asked(activation_key(identity, ids, None), request.prompt_id, None, ids, None)
    return list(found.values())


def answer_means(
    identity: Mapping[str, Any],
    requests: Iterable[Request],
    answers: Iterable[Mapping[str, Any]],
    responses: Mapping[str, Sequence[int]],
) -> list[Asked]:
    """Return what is wanted over the tokens of each answer, without its reasoning and the token that ended it.

    Args:
        identity: as of `activation_key`.
        answers: the cell's answers that have tokens.
        responses: the token ids of responses, by key.
    """
    prompts = {(request.prompt_id, request.sample): request.token_ids for request in requests}
    found = []
    for row in sorted(answers, key=lambda row: (row["prompt_id"], row["sample"])):
        prompt, response = prompts[row["prompt_id"], row["sample"]], responses[row["key"]]
        begin = row["reasoning_tokens"] or 0
        ids = [*prompt, *response[: begin + row["answer_tokens"]]]
        key = activation_key(identity, ids, len(prompt) + begin)
        found.append(Asked(key, row["prompt_id"], row["sample"], ids, len(prompt) + begin))
    return found
