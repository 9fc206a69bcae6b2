"""The tokens of answers with their log-probabilities, out of the store."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.store import StoreReader
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.core.packing import unpack_floats
from refusal_eval.study.study import Study
from refusal_eval.workflow.generation import segments

# By the key of the request: texts of the tokens, and their log-probabilities in hundredths of a nat.
TokenTexts = Mapping[str, tuple[list[str], list[int]]]


def stored_tokens(study: Study, answers: Mapping[tuple[str, ...], Path]) -> TokenTexts:
    """Return the tokens of a study's answers, by key; of engines that return none there are none.

    Args:
        answers: the answers files by model and split.

    Raises:
        UserError: if a tokenizer is no longer where the engine's file says.
    """
    found: dict[str, tuple[list[str], list[int]]] = {}
    for model in study.asked_models:
        engine = Path(study.paths.of("engines", engine=str(study.models[model].engine)))
        paths = [path for (of, _), path in answers.items() if of == model and path.is_file()]
        if paths and engine.is_file() and (folder := read_json(engine)["tokenizer_folder"]):
            if not Path(folder).is_dir():
                raise UserError(f"{folder}: the tokenizer of model {model} is not there; run the study again first")
            tokenizer = Renderer(folder, template="none", trust_remote_code=segments(study, model)["trust_remote_code"])
            keys = [row["key"] for path in paths for row in read_jsonl(path) if row.get("key")]
            found |= _tokens(StoreReader(study.paths.store, read_json(engine)["engine_id"]), tokenizer, keys)
    return found


def _tokens(store: StoreReader, tokenizer: Renderer, keys: Iterable[str]) -> dict[str, tuple[list[str], list[int]]]:
    texts: dict[int, str] = {}
    found = {}
    for key, record in store.lookup(keys).items():
        response = record["response"]
        if response["token_ids"] and response["logprobs"]:
            for token in set(response["token_ids"]).difference(texts):
                texts[token] = _text(tokenizer, token)
            hundredths = [round(100 * float(value)) for value in unpack_floats(response["logprobs"])]
            found[key] = [texts[token] for token in response["token_ids"]], hundredths
    return found


def _text(tokenizer: Renderer, token: int) -> str:
    """Return what a token adds to a text; its name where that is nothing, as of the one that ends an answer."""
    text, name = tokenizer.decode([token]), str(tokenizer.tokenizer.convert_ids_to_tokens(token))
    blank = name.startswith("\u2581") and not text.startswith(" ")  # which decoders drop at the beginning of a text
    return f" {text}" if blank else text or name
