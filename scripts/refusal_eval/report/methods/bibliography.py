"""BibTeX of what a methods section cites."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from refusal_eval.config.kinds import ADAPTER_SOURCES, WEIGHT_SOURCES
from refusal_eval.config.source_entries import Source
from refusal_eval.core.errors import UserError
from refusal_eval.report.methods.study_sources import citation_key, source_entry
from refusal_eval.study.row_sources import row_source

_ENTRY = re.compile(r"^@\w+\{([^,\s]+),.*?^\}$", re.MULTILINE | re.DOTALL)


def read_bibtex(text: str) -> dict[str, str]:
    """Return the entries of a BibTeX file by key; one begins at an `@` in the first column and ends with a line `}`."""
    return {entry[1]: entry[0] for entry in _ENTRY.finditer(text)}


def study_entries(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the BibTeX that only the study itself can give: its own citations, and sources without any."""
    found: dict[str, str] = {}
    for entry in [*config["split_entries"].values(), *config["gold_entries"].values()]:
        found |= {citation_key(item): item.strip() for item in entry.get("citation") or () if "{" in item}
    for source in _sources(config):
        if source.known_as:
            found.setdefault(source.bibtex_key, source_entry(source))
    return found


def bibliography(keys: Iterable[str], known: Mapping[str, str]) -> str:
    """Return the entries of these keys, sorted by key.

    Raises:
        UserError: for a key that no file and no source of the study explains.
    """
    wanted = sorted(set(keys))
    if missing := [key for key in wanted if key not in known]:
        raise UserError(f"no BibTeX entry for {', '.join(missing)}; write one into config/catalogue/references.bib")
    return "\n\n".join(known[key] for key in wanted) + ("\n" if wanted else "")


def _sources(config: Mapping[str, Any]) -> Iterator[Source]:
    for engine in config["engine_entries"].values():
        if "weights" in engine:
            yield WEIGHT_SOURCES.entry(engine["weights"])
    for model in config["model_entries"].values():
        if model.get("lora"):
            yield ADAPTER_SOURCES.entry(model["lora"])
    for entry in [*config["split_entries"].values(), *config["gold_entries"].values()]:
        yield row_source(entry["source"])
