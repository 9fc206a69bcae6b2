"""Score one cell as the published code does, and tell what each of its choices does."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from refusal_eval.compat.cell import cell_units, published_cell
from refusal_eval.files import read_jsonl, write_json
from refusal_eval.logs import start_log

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(paths: Mapping[str, str], cell: Mapping[str, Any], output: str) -> None:
    """Write the published scores of one (judge, model, split)."""
    rows = {name: list(read_jsonl(path)) for name, path in paths.items()}
    header, *published = rows["published"]
    units = cell_units(rows["prompts"], rows["answers"], rows["verdicts"], published, cell["samples"], cell["scored"])
    result = published_cell(units, cell["tau"], cell["band"])
    names = {name: cell[name] for name in ("judge", "model", "split", "samples", "tau", "band")}
    write_json(output, {**names, "arithmetic": header["arithmetic"], **result})
    LOG.info("%d of %d prompts have a score", len(result["scores"]), len(units))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        paths={name: str(snakemake.input[name]) for name in ("prompts", "answers", "verdicts", "published")},
        cell=snakemake.params.cell,
        output=str(snakemake.output[0]),
    )
