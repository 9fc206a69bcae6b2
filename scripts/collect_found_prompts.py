"""Collect what was searched for and found for one split: a row for each text, with its state."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, write_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.controlled.search_items import found_rows
from refusal_eval.features.controlled.search_store import SearchStore


def main(file: Mapping[str, Any], store_dir: str, output: str) -> None:
    """Write the rows.

    Args:
        file: what was searched for (see `make_search_items.py`).

    Raises:
        UserError: if texts are no longer in the store.
    """
    items, store = file["items"], SearchStore(store_dir, file["target"])
    if lost := store.missing(item["key"] for item in items):
        raise UserError(
            f"{len(lost)} of {len(items)} texts are not in the store ({store.folder}); delete receipts/ in the folder "
            f"of {output}, and run again"
        )
    rows = found_rows(items, store.lines)
    write_jsonl(output, rows)
    states = Counter(row["state"] for row in rows)
    LOG.info("%d texts: %s", len(rows), ", ".join(f"{count} {state}" for state, count in states.most_common()))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(read_json(snakemake.input.search), snakemake.config["store_dir"], snakemake.output[0])
