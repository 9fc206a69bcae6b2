"""Turn the stored gradients of one attribution into the values of words."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl, write_jsonl, written_whole
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.attributions.attribution_values import csv_of, gradient_row
from refusal_eval.features.attributions.gradient_run import gradient_store


def main(
    file: Mapping[str, Any], prompts_path: str, store_dir: str, how: Mapping[str, Any], receipt: str, outputs: Any
) -> None:
    """Write a row for each prompt with its score and its units; and a CSV with a row for each unit.

    Args:
        file: what was asked (see `make_gradient_items.py`).
        how: `unit` and `focus` of the attribution.
        receipt: that of the job, for a message.
        outputs: `rows` and `table`.

    Raises:
        UserError: if gradients are no longer in the store.
    """
    items = {item["prompt_id"]: item for item in file["items"]}
    store = gradient_store(store_dir, file["engine_id"])
    keys = [item["key"] for item in items.values() if item["key"]]
    if lost := store.missing(keys):
        what = f"gradients of {len(lost)} of {len(keys)} prompts are not in the store ({store.folder})"
        raise UserError(f"{what}; delete {receipt}, and run again")
    rows = [
        gradient_row(prompt, item, store.lines.get(item["key"]), how["unit"], how["focus"])
        for prompt in read_jsonl(prompts_path)
        for item in [items[prompt["id"]]]
    ]
    write_jsonl(outputs.rows, rows)
    with written_whole(outputs.table) as out:
        out.writelines(csv_of(rows))
    without = sum(any(one["value"] is None for one in row["units"]) or not row["units"] for row in rows)
    LOG.info("%d prompts, %d without values", len(rows), without)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, store, how = snakemake.input, snakemake.config["store_dir"], snakemake.params.how
    main(read_json(files.items_file), files.prompts, store, how, files.receipts[0], snakemake.output)
