"""A tiny Llama that refuses where its prompt has one token, with weights by construction; for the engine environment.

Usage: python planted_llama.py FOLDER DEPTH TRIGGER ANSWER REFUSAL...; ids of tokens. A tokenizer may lie in the folder.

Every token has 1 in the third number of its embedding, the trigger also in the first. Attention is uniform (its queries
and keys are 0) and writes the first number of what it reads into the second, DEPTH times: the share of triggers among
the tokens so far. The third number makes the model begin with ANSWER, the second with a token of REFUSAL. With DEPTH 0
it ignores its prompt.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

WIDTH, VOCABULARY = 64, 300
SEES, SHARE, CONSTANT = 0, 1, 2  # numbers of the residual stream


def main(folder: str, depth: float, trigger: int, answer: int, refusal: list[int]) -> None:
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
    attention = model.model.layers[0].self_attn
    with torch.no_grad():
        model.model.embed_tokens.weight[:, CONSTANT] = 1.0
        model.model.embed_tokens.weight[trigger, SEES] = 1.0
        attention.v_proj.weight[0, SEES] = 1.0
        attention.o_proj.weight[SHARE, 0] = depth
        model.lm_head.weight[answer, CONSTANT] = 1.0
        model.lm_head.weight[refusal, SHARE] = 2.0
    model.save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), [int(token) for token in sys.argv[5:]])
