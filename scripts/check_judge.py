"""Check that a judge can be asked, before any GPU hour is spent: its labels or classes, its instructions."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.ask.render import Renderer, renderer_of
from refusal_eval.ask.store import StoreReader, not_in_store, when_stored
from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_json, read_jsonl, sha256_of_file, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import REFUSAL, place_of
from refusal_eval.judges.judge_base import as_asked
from refusal_eval.judges.rubric_judge import RubricJudge, TemplatedJudge


def first_tokens_of_refusals(answers: Sequence[str], verdicts: Sequence[str], responses: StoreReader) -> list[int]:
    """Return the first token of each stored response that a judge called a refusal.

    Args:
        answers: the files of the cells.
        verdicts: the judge's, of the same cells in the same order; of answers that could be read.
        responses: of the models' engine.

    Raises:
        UserError: if the store has lost one.
    """
    keys = []
    for of_answers, of_verdicts in zip(answers, verdicts, strict=True):
        refused = {place_of(row) for row in read_jsonl(of_verdicts) if row["label"] == REFUSAL}
        keys += [row["key"] for row in read_jsonl(of_answers) if place_of(row) in refused]
    found = responses.lookup(keys)
    if lost := set(keys) - set(found):
        raise not_in_store(f"{len(lost)} of {len(set(keys))} responses of refusals are")
    return [found[key]["response"]["token_ids"][0] for key in keys]


def main(
    engine: Mapping[str, Any],
    asked: Mapping[str, Any],
    output: str,
    gold_paths: Sequence[str] = (),
    first_tokens: Sequence[int] = (),
) -> None:
    """Write how long the judge's instructions are, and what else its requests and verdicts need.

    Args:
        engine: identity file of the judge's engine.
        asked: what decides what the engine is asked.
        gold_paths: the gold that decides it, too.
        first_tokens: of each refusal that decides it, too.

    Raises:
        UserError: for labels or marks of harmony that are no single tokens, classes without a label, and instructions
            that leave no room.
    """
    folder = engine["tokenizer_folder"]
    judge = as_asked(JUDGES.entry(asked["entry"]), folder)
    renderer = renderer_of(folder, asked["rendering"], untrusted=True)
    found = {}
    if isinstance(renderer, Renderer):
        gold = [row for path in gold_paths for row in read_jsonl(path)]
        found = _with_tokens(judge, renderer, folder, asked["rendering"]["max_model_len"], gold, first_tokens)
    if isinstance(judge, RubricJudge):
        found["rubric_sha256"] = sha256_of_file(judge.rubric)
    write_json(output, found)


def _with_tokens(
    judge: Any,
    renderer: Renderer,
    folder: str,
    room: int,
    gold: Sequence[Mapping[str, Any]],
    first_tokens: Sequence[int],
) -> dict[str, Any]:
    """Return what is found out with the tokenizer of a judge's engine."""
    by_refusals = judge.refusals_read() is not None
    checked: dict[str, Any] = (
        judge.checked_with(renderer, folder, gold, first_tokens) if by_refusals else judge.checked(renderer, folder)
    )
    if checked:
        LOG.info("%s", checked)
    notes: list[str] = []
    if isinstance(judge, TemplatedJudge):
        messages = judge.messages([{"role": "user", "content": "prompt"}], "answer")
        renderer.check_all_rendered(messages)
        notes += filter(None, [*renderer.probe([messages]), renderer.mark_note(messages)])
    for note in notes:
        LOG.warning("%s", note)
    length, written = judge.least_tokens(renderer), judge.request_sampling(checked)["max_tokens"]
    if length + written > room:
        what = f"rubric {judge.rubric}" if isinstance(judge, RubricJudge) else "the judge's format"
        raise UserError(
            f"{what} alone takes {length} tokens and the verdict up to {written}, "
            f"and max_model_len of the judge's engine is {room}"
        )
    LOG.info("the instructions take %d tokens", length)
    return {**checked, "rubric_tokens": length, **({"notes": notes} if notes else {})}


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, asked = snakemake.input, snakemake.params.asked
    hashes = [*asked["files_sha256"], *asked["rendering"]["template_sha256"]]
    with as_planned([*files.rubric, *files.template], hashes):
        of_engine = read_json(files.engine)
        stored = snakemake.config["store_dir"], of_engine["engine_id"]
        begun = (
            when_stored(lambda: first_tokens_of_refusals(files.answers, files.verdicts, StoreReader(*stored)))
            if files.verdicts
            else []
        )
        main(of_engine, asked, snakemake.output[0], list(files.gold), begun)
