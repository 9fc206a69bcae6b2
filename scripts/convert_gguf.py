"""Turn a GGUF file into a folder of safetensors, tokenizer and chat template. Runs in the engine environment.

Usage: python convert_gguf.py FILE.gguf FOLDER

The weights are dequantized and saved in bfloat16; the same file gives the same bytes. This is not transformers' own
`from_pretrained(gguf_file=...)`, because that asks for accelerate, which engine environments lack, and because it
ignores how the file says that text is split before tokenizing, which gives other tokens around digits.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# What happens to text before byte-pair encoding, by the GGUF file's `tokenizer.ggml.pre`. Each entry must equal the
# model's own tokenizer.json: a wrong one silently gives other tokens, so unknown names are refused. With `qwen2`, 652
# texts in many scripts (119,515 tokens) have the ids that Qwen's own list of byte pairs gives.
BEFORE_ENCODING: dict[str, dict[str, Any]] = {
    "smollm": {
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            ],
        },
    },
    "qwen2": {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": QWEN2}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
            ],
        },
    },
}


def main(gguf: Path, folder: Path) -> None:
    """Write the folder (config.json, model.safetensors, tokenizer files, chat template).

    Raises:
        SystemExit: if the file's tokenizer is unknown, weights are missing, or the chat template did not come along.
    """
    from gguf import GGUFReader

    fields = GGUFReader(gguf).fields
    said = {
        name: fields[f"tokenizer.{name}"].contents()
        for name in ("ggml.pre", "chat_template")
        if f"tokenizer.{name}" in fields
    }
    kind = said.get("ggml.pre")
    if kind not in BEFORE_ENCODING:
        known = ", ".join(sorted(BEFORE_ENCODING))
        sys.exit(f"{gguf.name}: a tokenizer of the kind {kind!r} cannot be converted faithfully yet (known: {known})")
    folder.mkdir(parents=True, exist_ok=True)
    save_model(gguf, folder)
    save_tokenizer(gguf, folder, BEFORE_ENCODING[kind], said.get("chat_template"))


def save_model(gguf: Path, folder: Path) -> None:
    """Save the dequantized weights and the configuration."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # The checkpoint's name is no setting, and a marker of quantization would make engines look for packed weights.
    for leftover in ("quantization_config", "_model_name_or_path"):
        if hasattr(config, leftover):
            delattr(config, leftover)
    auto: Any = AutoModelForCausalLM
    with torch.device("meta"):
        model = auto.from_config(config, dtype=torch.bfloat16)
    read: Any = load_gguf_checkpoint
    tensors = read(str(gguf), return_tensors=True, model_to_load=model)["tensors"]
    tensors = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    surplus = model.load_state_dict(tensors, strict=False, assign=True).unexpected_keys
    model.tie_weights()
    missing = [name for name, tensor in model.named_parameters() if tensor.device.type == "meta"]
    if surplus or missing:
        sys.exit(f"{gguf.name}: weights do not fit the configuration: missing {missing[:3]}, surplus {surplus[:3]}")
    model.save_pretrained(folder)


def save_tokenizer(gguf: Path, folder: Path, before_encoding: dict[str, Any], chat_template: str | None) -> None:
    """Save the tokenizer with what its text goes through before encoding, and the chat template."""
    import json

    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    if tokenizer.chat_template != chat_template:
        sys.exit(f"{gguf.name}: the chat template did not come along")
    tokenizer.save_pretrained(folder)
    rewrite: dict[str, dict[str, Any]] = {
        "tokenizer.json": before_encoding,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"},
    }
    for name, changes in rewrite.items():
        values = json.loads((folder / name).read_text(encoding="utf-8"))
        # How it was loaded here is no property of the tokenizer.
        values = {key: value for key, value in values.items() if key not in ("is_local", "local_files_only")}
        text = json.dumps({**values, **changes}, ensure_ascii=False, indent=2)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    for token in ("bos_token_id", "eos_token_id", "pad_token_id"):
        print(f"{token}: {getattr(tokenizer, token)} {tokenizer.convert_ids_to_tokens(getattr(tokenizer, token))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", type=Path, help="the GGUF file")
    parser.add_argument("folder", type=Path, help="the folder to write")
    arguments = parser.parse_args()
    main(arguments.gguf.resolve(), arguments.folder)
