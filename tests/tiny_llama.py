"""A tiny Llama with random weights, in the hub's format; for the engine environment.

Usage: python tiny_llama.py FOLDER; a tokenizer may lie in the folder.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS, WIDTH, VOCABULARY = 3, 16, 300


def main(folder: str) -> None:
    """Save the model: three layers of width 16, float32, seeded."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=32,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=258,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():  # so that layers differ clearly, and the final norm is no identity
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
