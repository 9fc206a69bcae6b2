"""The page of a study's answers: one file of HTML, with the answers as compressed data."""

import base64
import gc
import gzip
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.features.browser.answer_columns import CellFiles, ShownSplit, cell_rates, columns_of, parts_of
from refusal_eval.features.browser.shown_study import PAGE, PARTS
from refusal_eval.program.offline_page import offline_page
from refusal_eval.report.results.results_files import read_results

StudyPaths = Mapping[str, Mapping[tuple[str, ...], Path]]
LEVEL = 4  # of compression: 6 takes four times as long for a twelfth of the size
THREADS = 2


def study_page(
    shown: Mapping[str, Any], paths: StudyPaths, labels_only: bool, tokens: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """Return the page of a study; splits and cells that are not there yet are left out.

    Args:
        shown: `shown_study.shown_study`.
        paths: the files of `prompts` by split, `answers` by model and split, `verdicts` by judge, model and split, and
            of `results`.
        labels_only: leaves out all that prompts, answers and judges say.
        tokens: those of answers, by the key of their request.

    Raises:
        UserError: if there is no answer.
    """
    gc.disable()  # the rows hold no cycles, and looking for some among them takes a fifth of the time
    try:
        return _study_page(shown, paths, labels_only, tokens)
    finally:
        gc.enable()


def _study_page(shown: Mapping[str, Any], paths: StudyPaths, labels_only: bool, tokens: Mapping[str, Any]) -> str:
    models, judges = ([entry["name"] for entry in shown[noun]] for noun in ("models", "judges"))
    present = [split for split in shown["splits"] if paths["prompts"][(split["name"],)].is_file()]
    splits = []
    for name, scored in ((split["name"], split["scored"]) for split in present):
        verdicts = {model: [paths["verdicts"][judge, model, name] for judge in judges] for model in models}
        cells = [CellFiles(paths["answers"][model, name], verdicts[model]) for model in models]
        splits.append(ShownSplit(scored, paths["prompts"][(name,)], cells))
    kinds = [entry["kinds"] for entry in shown["judges"]] if labels_only else None
    columns = columns_of(splits, len(judges), kinds)
    if not columns.answers:
        raise UserError("there are no answers yet: run the study first (`refusal-eval status` shows what is missing)")
    results, readings = paths["results"][()], {split["name"]: split["reading"] for split in present}
    rates = cell_rates(read_results(results.read_text(encoding="utf-8")), readings) if results.is_file() else []
    head = {**shown, "splits": present, "labels_only": labels_only, **columns.head(labels_only), "rates": rates}
    return page_of(head, [], ()) if labels_only else page_of(head, columns.prompts, parts_of(columns.texts, tokens))


def page_of(head: Mapping[str, Any], prompts: list[Any], parts: Iterable[Mapping[str, Any]]) -> str:
    """Return the page; equal arguments give equal bytes."""
    style, *scripts = (PAGE.joinpath(name).read_text("utf-8") for name in PARTS[1:])
    with ThreadPoolExecutor(THREADS) as pool:  # zlib works outside of the interpreter's lock
        first, second, *texts = pool.map(packed, [head, prompts, *parts])
    data = {"head": first, "prompts": second, "texts": texts}
    return offline_page(PAGE / PARTS[0], style, "".join(scripts), data, f"Answers of {head['study']}")


def packed(value: Any) -> str:
    """Return JSON, compressed, in base64; half of a surrogate pair, which UTF-8 cannot hold, as JSON escapes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    content = text.encode("utf-8", errors="backslashreplace")
    return base64.b64encode(gzip.compress(content, LEVEL, mtime=0)).decode("ascii")
