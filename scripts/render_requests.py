"""Render the prompts of one cell, as its engine takes them, and write its requests, with the key of each."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.ask.keys import EnginePrompt, sample_seed
from refusal_eval.ask.render import Renderer, renderer_of
from refusal_eval.ask.requests import Ask, RequestSettings, write_requests
from refusal_eval.config.change import Change
from refusal_eval.config.kinds import CHANGES, PROTOCOLS
from refusal_eval.config.protocol import DEFAULT, Protocol
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_json, read_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.rubric import ChatMessages
from refusal_eval.study.dialogues import asked_turns, conversation, is_dialogue


def later_turns(request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how the later turns of this cell's dialogues are rendered (see `turns.Turns`); None without dialogues."""
    if request.get("dialogue") is None:
        return None
    names = ("template", "template_options", "system_prompt", "date", "trust_remote_code")
    seed = None if request["sampling"].get("temperature") == 0 else request["seed"]
    rendering = {name: request[name] for name in names}
    if request.get("template_sha256"):
        # Of a template file that writes only answers in another way, nothing else in the request file changes.
        rendering["template_sha256"] = request["template_sha256"]
    return {"rendering": rendering, "reasoning": request["dialogue"]["reasoning"], "seed": seed}


def probed(rows: Sequence[Mapping[str, Any]]) -> list[ChatMessages]:
    """Return the conversations whose rendering is probed: of a dialogue that of its last turn."""
    found: list[ChatMessages] = []
    for row in rows:
        turns = asked_turns(row)
        found.append(conversation(row, turns[-1], dict.fromkeys(turns, "reply")))
    return found


def main(
    prompts_path: str,
    engine: Mapping[str, Any],
    request: Mapping[str, Any],
    output: str,
    described: Mapping[str, Mapping[str, Any]] | None = None,
    asked_path: str | None = None,
) -> None:
    """Write the requests of one cell: K per prompt, each with a seed of its own; of dialogues the first turn.

    Args:
        engine: identity file of the model's engine.
        request: the settings of model and study that enter a request (see `workflow.generation.request_params`).
        described: identity file of each change of the model, by its name.
        asked_path: the prompts as they are asked, where a change of the model changes them.
    """
    renderer = renderer_of(engine["tokenizer_folder"], request)
    stop_ids = renderer.stop_token_ids()
    sampling = {**request["sampling"], "stop_token_ids": stop_ids}
    greedy = sampling.get("temperature") == 0
    asks = []
    rows = list(read_jsonl(prompts_path))
    identities, placed = dict[str, Any](), list[tuple[Change, Mapping[str, Any]]]()
    for name, content in (described or {}).items():
        change: Change = CHANGES.get(name)()
        change.check_prompts(rows, content, request)
        identities[name] = change.identity(content)
        placed += [(change, content)] if change.at_positions else []
    if asked_path is not None:  # with the ids of the split's own, on which the checks above depend
        rows = list(read_jsonl(asked_path))
    protocol: Protocol = PROTOCOLS.get(request.get("protocol", DEFAULT))()
    notes = dict[str, int]()
    if isinstance(renderer, Renderer):
        notes |= dict.fromkeys(renderer.probe(probed(rows)), len(rows))
    for row in rows:
        turn, positions = asked_turns(row)[0], list[int]()
        try:
            messages = conversation(row, turn, {})
            if protocol.renders and isinstance(renderer, Renderer):
                renderer.check_all_rendered(messages)
                longest = request["max_model_len"] - sampling["max_tokens"]
                prompt: EnginePrompt = protocol.token_ids(renderer, messages, longest)
            else:
                prompt = renderer.prompt(messages)
                if isinstance(renderer, Renderer) and (note := renderer.mark_note(messages)):
                    notes[note] = notes.get(note, 0) + 1
                for change, content in placed:
                    assert isinstance(renderer, Renderer)  # engines that can do it take token ids
                    positions = change.positions(renderer, messages, row, content)
        except UserError as error:
            source = row["source"]
            raise UserError(f"prompt {row['id']} ({source['file']}, row {source['row']}): {error}") from error
        seeds = [
            None if greedy else sample_seed(request["seed"], row["id"], k, turn) for k in range(request["samples"])
        ]
        script = {"messages": row["messages"], "dialogue": True} if is_dialogue(row) else None
        asks.append(Ask(row["id"], prompt, list(enumerate(seeds)), turn, script, positions=positions))
    settings = RequestSettings(
        engine_id=engine["engine_id"],
        identity=engine["identity"],
        sampling=sampling,
        determinism=request["determinism"],
        changes=identities,
    )
    for note, count in notes.items():
        LOG.warning("%s (%d of %d prompts)", note, count, len(rows))
    how = later_turns(request)
    counts = write_requests(output, asks, settings, request["max_model_len"], how, notes=list(notes))
    LOG.info("%d requests for %d prompts; stop tokens %s", counts["requests"], len(asks), stop_ids)
    if counts["too_long"]:
        LOG.warning(
            "%d requests do not fit: prompt and max_tokens %d exceed max_model_len %d; they will be in state too_long",
            counts["too_long"],
            sampling["max_tokens"],
            request["max_model_len"],
        )


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    changed = {name: list(snakemake.input.get(name, [])) for name in CHANGES.names()}
    engine = read_json(snakemake.input.engine)
    files, request = snakemake.input, snakemake.params.request
    with as_planned(files.template, request["template_sha256"]):
        described = {name: request[name] for name in changed if name in request}
        described |= {name: read_json(paths[0]) for name, paths in changed.items() if paths}
        main(files.prompts, engine, request, snakemake.output[0], described, next(iter(files.asked), None))
