"""Turn a judge's stored responses into the verdicts on one cell."""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, cast

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.requests import Request, read_requests
from refusal_eval.ask.store import StoreReader, not_in_store, rejections, when_stored
from refusal_eval.ask.turns import Chain, walk
from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.files import as_planned, read_json, read_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import CUT, JUDGE_FAILED, place_of
from refusal_eval.judges.cascade_judge import CascadeJudge
from refusal_eval.judges.follow_ups import following
from refusal_eval.judges.judge_base import EngineJudge, Verdict
from refusal_eval.judges.verdict_files import read_safely, readable, verdict_row, write_verdicts
from refusal_eval.judges.votes import combined
from refusal_eval.stats.calibration.applied import calibrated_row

Place = tuple[str, int, int]
ReadVote = Callable[[Request, Mapping[str, Any]], Verdict]


def main(
    files: Any,
    store_dir: str,
    judge: EngineJudge,
    trust_remote_code: bool,
    output: str,
    cascade: CascadeJudge | None = None,
    some_turns: bool = False,
) -> None:
    """Write one verdict per answer that was to be judged, in the order of the answers; calibrated, if asked for.

    Args:
        files: `answers`, `requests` and `receipts`; what `engine` and `judge` are (identity, what was checked); and of
            each none or one: `calibration`, the fitted `model` of a judge that learns, and its `unseen` verdicts on
            gold rows with a prompt that it was fitted on, each from a model that had not seen the like of that row:
            they are its verdicts there. In a cascade `first` are the verdicts of its first judge.
        trust_remote_code: whether its tokenizer may bring code along.
        cascade: the cascade whose second judge it is.
        some_turns: whether only some turns count, and have requests.

    Raises:
        UserError: if a response is missing that was executed.
    """
    file, tokenizer_folder = read_requests(files.requests), read_json(files.engine)["tokenizer_folder"]
    store, rejected = StoreReader(store_dir, file.header["engine_id"]), rejections(files.receipts)
    answers = {place_of(row): row for row in readable(read_jsonl(files.answers))}
    texts = {place: answer["answer"] for place, answer in answers.items()}
    fitted, calibration = next(iter(files.model), None), next(map(read_json, files.calibration), None)
    read = vote_reader(judge, read_json(files.judge), tokenizer_folder, trust_remote_code, texts, fitted)
    out_of_fold = {row["prompt_id"]: row for path in files.unseen for row in read_jsonl(path)}
    by_first = {place_of(row): row for path in files.first for row in read_jsonl(path)}
    votes: dict[Place, list[Verdict]] = defaultdict(list)
    first: dict[Place, Request] = {}
    retried = 0
    for chain in walk(following(file, tokenizer_folder), store):
        place = chain.first.place
        first.setdefault(place, chain.first)
        votes[place].append(vote_of(chain, read, rejected))
        retried += len(chain.answered) > 1
    rows = []
    for place, answer in answers.items():
        row = cascade.by_first(by_first.get(place)) if cascade else None
        if row is None and some_turns and place not in first:
            continue
        if row is None:
            unseen = out_of_fold.get(answer["prompt_id"])
            row = dict(unseen) if unseen else verdict_row(answer, combined(votes[place]))
            row["key"] = first[place].key
            if first[place].cut:
                row["raw"][CUT] = first[place].cut
            if cascade:
                row = cascade.by_second(row, by_first.get(place))
        rows.append(calibrated_row(row, calibration) if calibration else row)
    write_verdicts(output, rows)
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
    asked, learned = judge.votes_asked(), cast(Any, judge)
    read = learned.reader(checked, fitted) if fitted is not None else None
    reader = AnswerReader(tokenizer_folder, asked.reasoning, trust_remote_code)

    def vote(request: Request, response: Mapping[str, Any]) -> Verdict:
        text = {"text": reader.fields(request, response)["answer"] or ""} if asked.written else {}
        if read is None:
            return judge.verdict({**response, **text}, checked)
        return read({**response, **text}, answers[request.place] if answers else "")  # type: ignore[no-any-return]

    return lambda request, response: read_safely(functools.partial(vote, request), response)


def vote_of(chain: Chain, read: ReadVote, rejected: Mapping[str, str]) -> Verdict:
    """Return what one vote says after its last try."""
    waiting = chain.next
    if waiting is not None and waiting.key is None and not chain.answered:
        return Verdict(JUDGE_FAILED, raw={"error": "the prompt does not fit the judge's max_model_len"})
    if waiting is not None and waiting.key is not None:
        if waiting.key in rejected:
            return Verdict(JUDGE_FAILED, raw={"error": rejected[waiting.key]})
        raise not_in_store("a verdict's response is")
    request, record = chain.answered[-1]
    verdict = read(request, record["response"])
    if len(chain.answered) == 1:
        return verdict
    return dataclasses.replace(verdict, raw={**verdict.raw, "tries": len(chain.answered)})


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    asked, store_dir = snakemake.params.judge, snakemake.config["store_dir"]
    judge, cascade = JUDGES.entry(asked["entry"]), JUDGES.entry(asked["cascade"]) if "cascade" in asked else None
    files, trust, out = snakemake.input, asked["trust_remote_code"], snakemake.output[0]
    with as_planned(judge.files() if "sha256" in asked else [], asked.get("sha256", [])):
        when_stored(lambda: main(files, store_dir, judge, trust, out, cascade, "scored" in asked))
