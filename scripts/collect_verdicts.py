"""Turn a judge's stored responses into the verdicts on one cell."""

from typing import Any

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader, rejections, when_stored
from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.files import as_planned, read_json, read_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import place_of
from refusal_eval.judges.cell_verdicts import asked_answers, verdict_rows, vote_reader
from refusal_eval.judges.follow_ups import stored_votes
from refusal_eval.judges.judge_base import EngineJudge, as_asked
from refusal_eval.judges.verdict_files import write_verdicts
from refusal_eval.judges.verdict_judges import DEFERRING, DeferringJudge
from refusal_eval.stats.calibration.applied import calibrated_row


def main(
    files: Any,
    store_dir: str,
    judge: EngineJudge,
    trust_remote_code: bool,
    output: str,
    deferring: DeferringJudge | None = None,
    some_turns: bool = False,
) -> None:
    """Write one verdict per answer that was to be judged, in the order of the answers; calibrated, if asked for.

    Args:
        files: `answers`, `requests` and `receipts`; what `engine` and `judge` are (identity, what was checked); of each
            none or one: `calibration`, the fitted `model` of the judge, and its `unseen` verdicts on gold (see
            `verdict_rows`); and `said`, the verdicts of the judges that `deferring` reads.
        trust_remote_code: whether its tokenizer may bring code along.
        deferring: the judge on whose behalf this one is asked.
        some_turns: whether only some turns count, and have requests.

    Raises:
        UserError: if a response is missing that was executed.
    """
    file, folder = read_requests(files.requests), read_json(files.engine)["tokenizer_folder"]
    store, rejected = StoreReader(store_dir, file.header["engine_id"]), rejections(files.receipts)
    answers = {place_of(row): row for row in read_jsonl(files.answers)}
    unseen = {row["prompt_id"]: row for path in files.unseen for row in read_jsonl(path)}
    said = [{place_of(row): row for row in read_jsonl(path)} for path in files.said]
    checked, calibration = read_json(files.judge), next(map(read_json, files.calibration), None)
    judge = as_asked(judge, folder)

    written = AnswerReader(folder, judge.votes_asked().reasoning, trust_remote_code)
    read = vote_reader(judge, checked, written, answers, next(iter(files.model), None))
    asked = asked_answers(stored_votes(file, folder, store), read, rejected)
    rows = verdict_rows(answers, asked, unseen, said, deferring, some_turns)
    if calibration:
        rows = [calibrated_row(row, calibration) for row in rows]
    write_verdicts(output, rows)
    if retried := sum(one.retried for one in asked.values()):
        LOG.info("%d votes could not be read and were asked again", retried)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    asked, store_dir = snakemake.params.judge, snakemake.config["store_dir"]
    judge, deferring = JUDGES.entry(asked["entry"]), JUDGES.entry(asked[DEFERRING]) if DEFERRING in asked else None
    files, trust, out = snakemake.input, asked["trust_remote_code"], snakemake.output[0]
    with as_planned(judge.files() if "sha256" in asked else [], asked.get("sha256", [])):
        when_stored(lambda: main(files, store_dir, judge, trust, out, deferring, "scored" in asked))
