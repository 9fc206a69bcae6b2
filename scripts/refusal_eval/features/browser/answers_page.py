"""The page of a study's answers: one file of HTML, with the answers as compressed data."""

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.features.browser.answer_columns import Cell, Columns, cell_rates, columns_of, parts_of
from refusal_eval.features.browser.shown_study import PAGE, PARTS
from refusal_eval.program.offline_page import offline_page
from refusal_eval.report.results.results_files import read_results

LEVEL = 5  # of compression: a higher one takes twice as long for three hundredths of the size
THREADS = 2


def study_page(shown: Mapping[str, Any], paths: Mapping[str, Mapping[tuple[str, ...], Path]], labels_only: bool) -> str:
    """Return the page of a study; cells whose answers are not there yet are left out.

    Args:
        shown: `shown_study.shown_study`.
        paths: the files of `prompts` by split, `answers` by model and split, `verdicts` by judge, model and split, and
            of `results`.
        labels_only: leaves out all that prompts, answers and judges say.

    Raises:
        UserError: if there is no answer.
    """
    models, judges = ([entry["name"] for entry in shown[noun]] for noun in ("models", "judges"))
    splits = [
        (
            split["name"],
            split["scored"],
            paths["prompts"][(split["name"],)],
            [
                Cell(
                    model,
                    paths["answers"][model, split["name"]],
                    [paths["verdicts"][judge, model, split["name"]] for judge in judges],
                )
                for model in models
            ],
        )
        for split in shown["splits"]
        if paths["prompts"][(split["name"],)].is_file()
    ]
    present = {name for name, *_ in splits}
    shown = {**shown, "splits": [split for split in shown["splits"] if split["name"] in present]}
    columns = columns_of(splits, len(judges), labels_only)
    if not columns.answers["row"]:
        raise UserError("there are no answers yet: run the study first (`refusal-eval status` shows what is missing)")
    results = paths["results"][()]
    readings = {split["name"]: split["reading"] for split in shown["splits"]}
    rates = cell_rates(read_results(results.read_text(encoding="utf-8")), readings) if results.is_file() else []
    head = head_of(shown, columns, rates, labels_only)
    return page_of(head, [] if labels_only else columns.prompts, [] if labels_only else parts_of(columns))


def head_of(
    shown: Mapping[str, Any], columns: Columns, rates: list[list[Any]], labels_only: bool
) -> dict[str, Any]:
    """Return what the page needs before any text."""
    return {
        **shown,
        "labels_only": labels_only,
        "names": columns.names,
        "rows": columns.rows,
        "answers": columns.answers,
        "verdicts": columns.verdicts,
        "rates": rates,
    }


def page_of(head: Mapping[str, Any], prompts: list[Any], parts: Iterable[Mapping[str, Any]]) -> str:
    """Return the page; equal arguments give equal bytes."""
    html, style, *scripts = (PAGE.joinpath(name).read_text("utf-8") for name in PARTS)
    del html
    with ThreadPoolExecutor(THREADS) as pool:  # zlib works outside of the interpreter's lock
        first, second, *texts = pool.map(packed, [head, prompts, *parts])
    data = {"head": first, "prompts": second, "texts": texts}
    return offline_page(PAGE / PARTS[0], style, "".join(scripts), data, {"title": f"Answers of {head['study']}"})


def packed(value: Any) -> str:
    """Return JSON, compressed, in base64. Half of a surrogate pair, which UTF-8 cannot hold, stays as JSON writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    content = text.encode("utf-8", errors="backslashreplace")
    return base64.b64encode(gzip.compress(content, LEVEL, mtime=0)).decode("ascii")
