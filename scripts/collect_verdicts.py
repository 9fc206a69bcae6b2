"""Turn a judge's stored responses into the verdicts on one cell."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.requests import Request, read_requests
from refusal_eval.ask.store import BRING_BACK, StoreReader, rejections
from refusal_eval.ask.turns import Chain, walk
from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl, write_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import CUT, JUDGE_FAILED, VERDICT_STATES, told_states
from refusal_eval.judges.follow_ups import following
from refusal_eval.judges.judge_base import EngineJudge, Verdict, read_safely, readable, verdict_row
from refusal_eval.judges.votes import combined
from refusal_eval.stats.calibration.applied import calibrated_row

Place = tuple[str, int, int]
ReadVote = Callable[[Request, Mapping[str, Any]], Verdict]


def main(
    answers_path: str,
    request_path: str,
    receipts: list[str],
    store_dir: str,
    engine: Mapping[str, Any],
    checked: Mapping[str, Any],
    judge: EngineJudge,
    trust_remote_code: bool,
    output: str,
    calibration: Mapping[str, Any] | None = None,
    fitted: str | None = None,
    unseen_path: str | None = None,
) -> None:
    """Write one verdict per answer that could be read, in the order of the answers; calibrated, if that is given.

    Args:
        fitted: the model of a judge that learns.
        unseen_path: the verdicts of such a judge on the very gold that it was fitted on, each from a model that had not
            seen the like of that row: on its own gold they are its verdicts.

    Raises:
        UserError: if a response is missing that was executed.
    """
    file = read_requests(request_path)
    store, rejected = StoreReader(store_dir, file.header["engine_id"]), rejections(receipts)
    answers = {(row["prompt_id"], row["sample"], row["turn"]): row for row in readable(read_jsonl(answers_path))}
    texts = {place: answer["answer"] for place, answer in answers.items()}
    read = vote_reader(judge, checked, engine["tokenizer_folder"], trust_remote_code, texts, fitted)
    said = {row["prompt_id"]: row for row in read_jsonl(unseen_path)} if unseen_path else {}
    votes: dict[Place, list[Verdict]] = defaultdict(list)
    first: dict[Place, Request] = {}
    retried = 0
    for chain in walk(following(file, engine["tokenizer_folder"]), store):
        request = first_request(chain)
        place = _place(request)
        first.setdefault(place, request)
        votes[place].append(vote_of(chain, read, rejected))
        retried += len(chain.answered) > 1
    rows = []
    for place, answer in answers.items():
        unseen = said.get(answer["prompt_id"])
        row = dict(unseen) if unseen else verdict_row(answer, combined(votes[place]))
        row["key"] = first[place].key
        if calibration:
            row = calibrated_row(row, calibration)
        if first[place].cut:
            row["raw"][CUT] = first[place].cut
        rows.append(row)
    write_jsonl(output, rows)
    LOG.info("%d verdicts: %s", len(rows), told_states(rows, VERDICT_STATES))
    if retried:
        LOG.info("%d votes could not be read and were asked again", retried)


def vote_reader(
    judge: EngineJudge,
    checked: Mapping[str, Any],
    tokenizer_folder: str,
    trust_remote_code: bool,
    answers: Mapping[Place, str] | None = None,
    fitted: str | None = None,
) -> ReadVote:
    """Return what turns a request and its response into a vote; the judge's own reasoning is taken off its text.

    The tokenizer is read only for judges that reason.

    Args:
        answers: the judged answers, for a judge that reads them beside the response.
        fitted: the model of a judge that learns.
    """
    asked, read = judge.votes_asked(), judge.reader(checked, fitted)
    reader = AnswerReader(tokenizer_folder, asked.reasoning, trust_remote_code)

    def vote(request: Request, response: Mapping[str, Any]) -> Verdict:
        text = {"text": reader.fields(request, response)["answer"] or ""} if asked.written else {}
        return read({**response, **text}, answers[_place(request)] if answers else "")

    return lambda request, response: read_safely(lambda whole: vote(request, whole), response)


def _place(request: Request) -> Place:
    return request.prompt_id, request.sample, request.turn


def first_request(chain: Chain) -> Any:
    """Return the first request of a vote."""
    return chain.answered[0][0] if chain.answered else chain.next


def vote_of(chain: Chain, read: ReadVote, rejected: Mapping[str, str]) -> Verdict:
    """Return what one vote says after its last try."""
    waiting = chain.next
    if waiting is not None and waiting.key is None and not chain.answered:
        return Verdict(JUDGE_FAILED, raw={"error": "the prompt does not fit the judge's max_model_len"})
    if waiting is not None and waiting.key is not None:
        if waiting.key in rejected:
            return Verdict(JUDGE_FAILED, raw={"error": rejected[waiting.key]})
        raise UserError(
            "a verdict's response is not in the store, although it was executed (was the store moved or pruned?). "
            f"{BRING_BACK}"
        )
    request, record = chain.answered[-1]
    verdict = read(request, record["response"])
    if len(chain.answered) == 1:
        return verdict
    raw = {**verdict.raw, "tries": len(chain.answered)}
    return Verdict(verdict.state, verdict.label, verdict.p_refusal, verdict.kind, verdict.flags, raw)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, asked = snakemake.input, snakemake.params.judge
    main(
        files.answers,
        files.requests,
        files.receipts,
        snakemake.config["store_dir"],
        read_json(files.engine),
        read_json(files.judge),
        JUDGES.entry(asked["entry"]),
        asked["trust_remote_code"],
        snakemake.output[0],
        next(map(read_json, files.calibration), None),
        next(iter(files.model), None),
        next(iter(files.unseen), None),
    )
