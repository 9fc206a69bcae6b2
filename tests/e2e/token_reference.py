"""A small model with planted refusal tokens, and what transformers makes of it; for the engine environment.

Independent of the project: none of our code is imported. Standard input is JSON. With {"plant": FOLDER, "into":
FOLDER} a copy of the model is written, two of whose unused special tokens are called `[refuse]` and `[respond]` and
look to the model like `I` and `The`. With {"folder", "chats": [messages], "tokens": [texts], "length"} printed is, for
each chat, the log-probability of each token at the beginning of a reply, the most probable token there, and the greedy
reply behind each token: its text and the log-probabilities of its tokens.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

PLANTED = {"<gh_stars>": ("[refuse]", "I"), "<issue_start>": ("[respond]", "The")}
EMBEDDING = "model.embed_tokens.weight"


def plant(source: Path, target: Path) -> None:
    """Write a copy of the model with the tokens."""
    shutil.copytree(source, target)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        text = (target / name).read_text(encoding="utf-8")
        for unused, (token, _) in PLANTED.items():
            text = text.replace(unused, token)
        (target / name).write_text(text, encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(str(target))
    weights = load_file(str(target / "model.safetensors"))
    rows = weights[EMBEDDING].clone()
    for token, like in PLANTED.values():
        (place,) = tokenizer.encode(like, add_special_tokens=False)
        rows[tokenizer.convert_tokens_to_ids(token)] = weights[EMBEDDING][place] * 1.01
    save_file(weights | {EMBEDDING: rows}, str(target / "model.safetensors"), {"format": "pt"})


def ask(model: Any, tokenizer: Any, chat: list[dict[str, str]], tokens: list[str], length: int) -> dict[str, Any]:
    """Return the log-probabilities of the tokens behind one chat, and the reply behind each."""
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    prompt = tokenizer.encode(text, add_special_tokens=False)
    first = torch.log_softmax(model(torch.tensor([prompt])).logits[0, -1].double(), -1)
    ids = [tokenizer.convert_tokens_to_ids(token) for token in tokens]
    replies = []
    for token in ids:
        reply: list[int] = []
        logprobs: list[float] = []
        given, past = [*prompt, token], None
        while len(reply) < length and (not reply or reply[-1] != tokenizer.eos_token_id):
            found = model(torch.tensor([given]), past_key_values=past, use_cache=True)
            logits, past = found.logits[0, -1].double(), found.past_key_values
            reply.append(int(logits.argmax()))
            logprobs.append(float(torch.log_softmax(logits, -1)[reply[-1]]))
            given = reply[-1:]
        replies.append({"text": tokenizer.decode(reply, skip_special_tokens=True), "logprobs": logprobs})
    return {"logprobs": [float(first[token]) for token in ids], "best": int(first.argmax()), "replies": replies}


def main() -> None:
    """Answer what standard input asks."""
    given = json.load(sys.stdin)
    if "plant" in given:
        plant(Path(given["plant"]), Path(given["into"]))
        return
    tokenizer = AutoTokenizer.from_pretrained(given["folder"])
    model = AutoModelForCausalLM.from_pretrained(given["folder"], dtype=torch.float32, local_files_only=True).eval()
    with torch.inference_mode():
        found = [ask(model, tokenizer, chat, given["tokens"], given["length"]) for chat in given["chats"]]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
