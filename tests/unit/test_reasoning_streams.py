"""Responses in the formats of families that cannot run here, read by the real reader with a tokenizer of their tokens.

The streams stand in tests/unit/streams/, written by hand from the published formats; those of harmony stand in
test_reasoning.py.
"""

from pathlib import Path

import pytest
import yaml
from tokenizer_folders import byte_tokenizer
from transformers import AutoTokenizer

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.requests import Request
from refusal_eval.core.packing import pack_floats

FILES = sorted(Path(__file__).with_name("streams").glob("*.yaml"))
READ = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in FILES}
STREAMS = [
    pytest.param(name, one, id=f"{name}: {one['what']}") for name, read in READ.items() for one in read["streams"]
]


def marks_of(repository, name):
    """Return the `reasoning` of the family's model in our catalogue; without one, as a study would have it."""
    if READ[name]["model"] is None:
        return READ[name]["marks"]
    models = {}
    for file in (repository / "config" / "catalogue" / "models").glob("*.yaml"):
        models |= yaml.safe_load(file.read_text(encoding="utf-8"))["models"]
    return models[READ[name]["model"]]["reasoning"]


@pytest.fixture(scope="module")
def families(repository, tmp_path_factory):
    """Return the reader and the tokenizer of every family."""
    found = {}
    for name, read in READ.items():
        folder = byte_tokenizer(
            tmp_path_factory.mktemp(name), special=read["special"], tokens=read["tokens"], ends=read["ends"]
        )
        found[name] = (
            AnswerReader(str(folder), marks_of(repository, name), False),
            AutoTokenizer.from_pretrained(folder),
        )
    return found


@pytest.mark.parametrize(("name", "stream"), STREAMS)
def test_only_what_follows_the_reasoning_is_the_answer_and_weighs(families, name, stream):
    reader, tokenizer = families[name]
    prompt, ids = (tokenizer(stream[key], add_special_tokens=False)["input_ids"] for key in ("prompt", "response"))
    answer = stream.get("answer", "")
    weighs = len(tokenizer(answer, add_special_tokens=False)["input_ids"])
    logprobs = [-9.0] * (len(ids) - weighs) + [-0.5] * weighs
    text = tokenizer.decode(ids, skip_special_tokens=True)
    response = {"text": text, "finish_reason": "length", "stop_reason": None, "token_ids": ids}
    if not stream.get("cut"):
        end = tokenizer.convert_tokens_to_ids(READ[name]["ends"])
        response |= {"finish_reason": "stop", "stop_reason": end, "token_ids": [*ids, end]}
        logprobs.append(-9.0)
    row = reader.fields(Request("id", 0, 0, "k" * 64, 1, prompt), response | {"logprobs": pack_floats(logprobs)})
    assert (row["state"], row["answer"]) == (stream["state"], answer)
    assert (row["answer_tokens"], row["answer_logprob"]) == (weighs, -0.5 if weighs else None)
    assert row["reasoning_tokens"] == len(ids) - weighs
