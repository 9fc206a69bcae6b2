"""Render a judge's prompts for the answers of one cell and write the verdict requests."""

from array import array
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from refusal_eval.ask.keys import EnginePrompt, is_messages
from refusal_eval.ask.render import Renderer, renderer_of
from refusal_eval.ask.requests import Ask, RequestSettings, write_requests
from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_json, read_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import place_of
from refusal_eval.judges.conversations import fitted, read_conversations
from refusal_eval.judges.follow_ups import vote_seed
from refusal_eval.judges.judge_base import EngineJudge, as_asked
from refusal_eval.judges.structured import most_tokens_of
from refusal_eval.judges.verdict_judges import DEFERRING, DeferringJudge


def main(
    prompts_path: str,
    answers_path: str,
    engine: Mapping[str, Any],
    checked: Mapping[str, Any],
    asked: Mapping[str, Any],
    output: str,
    said_paths: Sequence[str] = (),
) -> None:
    """Write the requests of each vote on each answer that can be judged and counts, and that no other judge settles.

    Equal answers to a prompt share their requests. An answer that is too long for the judge is cut. `said_paths` have
    the verdicts of the judges that a deferring judge reads, in their order.
    """
    # Answers are data: control tokens in them must not speak to the judge.
    reading, folder = asked["rendering"], engine["tokenizer_folder"]
    renderer = renderer_of(folder, reading, untrusted=True)
    judge: EngineJudge = as_asked(JUDGES.entry(asked["entry"]), folder)
    sampling, votes = judge.request_sampling(checked), judge.votes_asked()
    if sampling["max_tokens"] > 1:
        sampling = {**sampling, "stop_token_ids": renderer.stop_token_ids()}
    longest, by_chance = reading["max_model_len"], sampling["temperature"] > 0
    room = None if longest is None else longest - sampling["max_tokens"]
    asks, cut, settled = [], 0, 0
    deferring: DeferringJudge | None = JUDGES.entry(asked[DEFERRING]) if DEFERRING in asked else None
    said = [{place_of(row): row for row in read_jsonl(path)} for path in said_paths]
    scored = asked.get("scored", "all")
    for answer, messages in read_conversations(read_jsonl(prompts_path), read_jsonl(answers_path), scored):
        if deferring and deferring.settled([one.get(place_of(answer)) for one in said]):
            settled += 1
            continue

        def prompt_of(text: str, messages: Any = messages, answer: Any = answer) -> EnginePrompt:
            try:
                if isinstance(renderer, Renderer):
                    return judge.token_ids(renderer, messages, text)
                return renderer.prompt(judge.messages(messages, text))
            except UserError as error:
                place = f"prompt {answer['prompt_id']}, sample {answer['sample']}, turn {answer['turn']}"
                raise UserError(f"{answers_path}, {place}: {error}") from error

        # Where not even a part fits, the whole prompt is written: it is longer than `room` and so gets no key. Of
        # messages the engine says how long they are.
        part = None if room is None else fitted(prompt_of, answer["answer"], room, _length)
        prompt, left_out = part or (prompt_of(answer["answer"]), 0)
        seeds = [vote_seed(asked["seed"], prompt, vote) if by_chance else None for vote in range(votes.votes)]
        samples = [(answer["sample"], seed) for seed in seeds]
        packed: Any = list if is_messages(prompt) else partial(array, "i")
        asks.append(Ask(answer["prompt_id"], packed(prompt), samples, answer["turn"], cut=left_out))
        cut += left_out > 0
    retries: dict[str, Any] | None = None
    if votes.retries:  # how votes that cannot be read are asked again (see `judges.follow_ups`)
        read = {name: reading[name] for name in ("trust_remote_code", "max_model_len")}
        retries = {"count": votes.retries, "reasoning": votes.reasoning, "kind": judge.kind, **read}
        retries |= {"form": votes.form} if votes.form else {}
    settings = RequestSettings(engine["engine_id"], engine["identity"], sampling, reading["determinism"])
    counts = write_requests(output, asks, settings, reading["max_model_len"], retries=retries)
    LOG.info("%d verdict requests", counts["requests"])
    if deferring:
        LOG.info("%s", deferring.settled_text(settled))
    if cut:
        LOG.warning("%d answers are too long for the judge: it sees their head and tail", cut)
    if counts["too_long"]:
        LOG.warning("%d prompts are too long for the judge and will be in state judge_failed", counts["too_long"])


def _length(prompt: EnginePrompt) -> int:
    return most_tokens_of(prompt) if is_messages(prompt) else len(prompt)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, asked = snakemake.input, snakemake.params.asked
    hashes = [*asked["files_sha256"], *asked["rendering"]["template_sha256"]]
    with as_planned([*files.rubric, *files.template], hashes):
        engine, checked = read_json(files.engine), read_json(files.judge)
        main(files.prompts, files.answers, engine, checked, asked, snakemake.output[0], files.said)
