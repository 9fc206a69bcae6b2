"""Small real tokenizers in the hub's own format, made on the spot."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<bos>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]


def byte_tokenizer(
    folder: Path,
    template: str | None = CHATML,
    adds_bos: bool = False,
    special: Sequence[str] = SPECIAL,
    tokens: Sequence[str] = (),
    ends: str = "<|im_end|>",
) -> Path:
    """Write a byte-level tokenizer (one token a byte, plus special tokens); return the folder.

    `tokens` are added as well, but are no special ones; `ends` is the end-of-sequence token.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([token for token in dict.fromkeys([*SPECIAL, *special]) if token not in tokens])
    core.add_tokens(list(tokens))
    if adds_bos:
        bos = core.token_to_id("<bos>")
        core.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", bos)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<bos>", eos_token=ends)
    tokenizer.chat_template = template
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    return folder


def unigram_tokenizer(folder: Path, words: Sequence[str] = (), template: str | None = None) -> Path:
    """Write a tokenizer as XLM-R's: its unigram model has the control tokens as pieces like any other.

    Its pieces are single characters, and `words`.
    """
    control = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = [(token, 0.0) for token in control] + [(chr(code), -5.0) for code in (0x2581, *range(33, 127))]
    pieces += [(word, -6.0) for word in words]
    core = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    core.normalizer, core.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    core.add_special_tokens(control)
    core.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, **marks)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder
