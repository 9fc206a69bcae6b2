"""Small stores to try things on."""

from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.core.files import canonical_json, sha256_of
from refusal_eval.core.packing import pack_floats

KEYS = [sha256_of(i) for i in range(50)]


def response(text):
    """Return an engine's response of two tokens."""
    values = {"text": text, "token_ids": [5, 2], "logprobs": pack_floats([-0.5, -1.0])}
    return values | {"finish_reason": "stop", "stop_reason": None, "prompt_tokens": 3}


def fill(folder, keys, job="job", text="answer"):
    with StoreWriter(folder, "engine", job) as writer:
        writer.describe("s1", {"vllm": "x"})
        for key in keys:
            writer.append(key, response(f"{text} {key}"), "s1")
        return writer.path


def write_file(folder, name, *records):
    """Write a store file by hand; a record is (key, time, text)."""
    (folder / "engine").mkdir(exist_ok=True)
    path = folder / "engine" / f"{name}.jsonl"
    rows = [{"key": key, "response": response(text), "serving": "s", "time": time} for key, time, text in records]
    path.write_text("".join(canonical_json(row) + "\n" for row in rows))
    return path


def text_of(folder, key):
    return StoreReader(folder, "engine").lookup([key])[key]["response"]["text"]
