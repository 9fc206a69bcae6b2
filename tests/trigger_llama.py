"""A Llama of one layer, with weights by construction, that refuses where its prompt holds one token; for the engine.

Usage: python trigger_llama.py FOLDER TRIGGER REFUSES ANSWERS DEPTH; ids of tokens. A tokenizer may lie in the folder.

Every token has 1 in the first number of its embedding, the trigger also in the second. Attention is uniform (its
queries and keys are 0) and writes the second number of what it reads, DEPTH times: the share of triggers among the
tokens so far. The first number makes the model begin with ANSWERS, the second with REFUSES. DEPTH 0 is a model that
ignores its prompt.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

WIDTH, VOCABULARY = 64, 300


def main(folder: str, trigger: int, refuses: int, answers: int, depth: float) -> None:
    """Save the model, in float32."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        eos_token_id=258,
        pad_token_id=None,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    for name, parameter in model.named_parameters():
        torch.nn.init.constant_(parameter, 1.0 if "norm" in name else 0.0)
    layer = model.model.layers[0]
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 1.0
        model.model.embed_tokens.weight[trigger, 1] = 1.0
        layer.self_attn.v_proj.weight[0, 1] = 1.0
        layer.self_attn.o_proj.weight[1, 0] = depth
        model.lm_head.weight[answers, 0] = 1.0
        model.lm_head.weight[refuses, 1] = 2.0
    model.save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5]))
