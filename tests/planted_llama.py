"""A tiny Llama that refuses where its prompt has one word, by construction; for the engine environment.

Usage: python planted_llama.py FOLDER TRIGGER REFUSAL...; token ids, with the tokenizer in the folder.

Its one layer attends to all positions alike. The embedding of the trigger alone has a first component, which attention
copies to the second: its size is the trigger's share of the text. The head makes the refusal's tokens likely by it.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

WIDTH, VOCABULARY, STRENGTH = 16, 300, 12.0


def main(folder: str, trigger: int, refusal: list[int]) -> None:
    """Save the model, in float32."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=512,
        eos_token_id=258,
        pad_token_id=None,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        layer = model.model.layers[0]
        for norm in (layer.input_layernorm, layer.post_attention_layernorm, model.model.norm):
            norm.weight.fill_(1.0)
        model.model.embed_tokens.weight[:, 2] = 1.0
        model.model.embed_tokens.weight[trigger, 0] = 1.0
        layer.self_attn.v_proj.weight[0, 0] = 1.0
        layer.self_attn.o_proj.weight[1, 0] = 1.0
        model.lm_head.weight[refusal, 1] = STRENGTH
    model.save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), [int(token) for token in sys.argv[3:]])
