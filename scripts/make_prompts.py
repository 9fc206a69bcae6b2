"""Turn the rows of a split into prompts."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from refusal_eval.data.prompts import make_prompts
from refusal_eval.data.rows import read_rows
from refusal_eval.files import write_jsonl
from refusal_eval.logs import start_log

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(rows_path: str, split: Mapping[str, Any], scored: str | None, output: str) -> None:
    """Write the prompts of one split.

    Args:
        rows_path: the split's rows.
        split: what decides its prompts (see `Data.split_reading`).
        scored: which turns of its dialogues count. It changes no prompt, and so is no param of the rule; it only
            lets a row of which no turn would count fail here, and not when all has been asked and judged.
        output: the file of the prompts.
    """
    rows = read_rows(rows_path, split["skip_lines"], split["name"])
    names = ("columns", "name", "expected_rows", "samples")
    prompts, notes = make_prompts(rows, **{name: split[name] for name in names}, mode=split.get("mode"), scored=scored)
    for note in notes:
        LOG.info("%s", note)
    write_jsonl(output, prompts)


if "snakemake" in globals():
    start_log(snakemake)
    main(
        rows_path=str(snakemake.input.rows),
        split=snakemake.params.split,
        scored=(snakemake.config["split_entries"][snakemake.wildcards.split]["dialogue"] or {}).get("scored"),
        output=str(snakemake.output.prompts),
    )
