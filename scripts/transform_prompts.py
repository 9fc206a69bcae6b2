"""Change the prompts of one cell, as the transform of its model says."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_jsonl, write_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.transforms.focus_source import first_words
from refusal_eval.features.transforms.transform_kind import TRANSFORMS, Transform
from refusal_eval.features.transforms.transformed import transformed


def main(
    prompts_path: str,
    read_paths: Sequence[str],
    values_paths: Sequence[str],
    transform: Mapping[str, Any],
    output: str,
) -> None:
    """Write the prompts that a model is asked, a line for each prompt of the split, in its order.

    Args:
        read_paths: the prompts of the splits that the transform takes.
        values_paths: the values of words that it takes the word for `{focus}` from, if it does.
        transform: the entry, as the model has it.
    """
    read = [list(read_jsonl(path)) for path in read_paths]
    how: Transform = TRANSFORMS.entry(transform)
    values = (row for path in values_paths for row in read_jsonl(path))
    words = first_words(values) if how.values_read() else None
    asked, note = transformed(list(read_jsonl(prompts_path)), how, read, words)
    write_jsonl(output, asked)
    LOG.info("%s", note)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files = snakemake.input
    main(files.prompts, list(files.read), list(files.values), snakemake.params.transform, snakemake.output[0])
