"""Tiny models of several families, and what plain transformers answers with them; for the engine environment.

Usage: python eager_reference.py FOLDER, with a list of cases on standard input; prints a JSON list of lists. A case is
{"family", "prompts", "tokens", "alpha", "spans", "layers"}; `spans` of a prompt are first and last place of its runs.
An answer is {"token_ids", "logprobs"}.

Nothing of the engine is used here. Without spans it is transformers' own `generate`. With spans a hook before each
attention changes the mask that it is given, and the whole text is read again for each token, without a cache. Alpha 0
masks the keys as transformers masks what lies ahead.
"""

import json
import math
import sys
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

LAYERS, VOCABULARY, WINDOW = 4, 300, 8
SHAPE = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS}
SHAPE |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
SHAPE |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
FAMILIES = {
    "llama": lambda: LlamaConfig(**SHAPE),
    "qwen2": lambda: Qwen2Config(**SHAPE),
    "qwen3": lambda: Qwen3Config(**SHAPE, head_dim=8),
    "mistral": lambda: MistralConfig(**SHAPE, sliding_window=WINDOW),
    "gemma": lambda: GemmaConfig(**SHAPE, head_dim=8),
    "gemma2": lambda: Gemma2Config(**SHAPE, head_dim=8, sliding_window=WINDOW),
    "gemma3": lambda: Gemma3TextConfig(**SHAPE, head_dim=8, sliding_window=WINDOW),
}


def make(folder: Path) -> None:
    """Save a model of each family, with random weights of a size at which layers and heads differ clearly."""
    for name, config in FAMILIES.items():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config())
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(folder / name)


def generated(model, prompt, tokens):
    ids = torch.tensor([prompt])
    how = {"do_sample": False, "max_new_tokens": tokens, "eos_token_id": None, "pad_token_id": 0}
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), output_logits=True, return_dict_in_generate=True, **how
    )
    answer = out.sequences[0, len(prompt) :].tolist()
    values = [float(row[0].float().log_softmax(-1)[token]) for row, token in zip(out.logits, answer, strict=True)]
    return {"token_ids": answer, "logprobs": values}


def changed(model, prompt, tokens, alpha, spans, layers):
    def before(module, args, kwargs):
        mask = kwargs["attention_mask"]
        length = mask.shape[-1]
        query = torch.arange(length)[:, None]
        added = torch.zeros(length, length)
        for first, last in spans:
            later = (query > last).expand(length, length)[:, first : last + 1]
            added[:, first : last + 1][later] = math.log(alpha) if alpha else torch.finfo(torch.float32).min / 2
        return args, {**kwargs, "attention_mask": (mask + added).clamp(min=torch.finfo(torch.float32).min)}

    named = [module for name, module in model.named_modules() if name.endswith("self_attn")]
    assert [module.layer_idx for module in named] == list(range(LAYERS))
    hooks = [
        module.register_forward_pre_hook(before, with_kwargs=True)
        for module in named
        if layers is None or module.layer_idx in layers
    ]
    ids, values = list(prompt), []
    with torch.inference_mode():
        for _ in range(tokens):
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].float()
            ids.append(int(logits.argmax()))
            values.append(float(logits.log_softmax(-1)[ids[-1]]))
    for hook in hooks:
        hook.remove()
    return {"token_ids": ids[len(prompt) :], "logprobs": values}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    if not folder.is_dir():
        make(folder)
    found = []
    for case in json.load(sys.stdin):
        model = AutoModelForCausalLM.from_pretrained(folder / case["family"], attn_implementation="eager").eval()
        prompts = case["prompts"]
        found.append(
            [
                changed(model, prompt, case["tokens"], case["alpha"], case["spans"][number], case["layers"])
                if case.get("spans")
                else generated(model, prompt, case["tokens"])
                for number, prompt in enumerate(prompts)
            ]
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
