"""Where weights and rows come from, in words, and the BibTeX of what a methods section cites."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from refusal_eval.config.change import changes_of
from refusal_eval.config.kinds import WEIGHT_SOURCES
from refusal_eval.config.source_entries import Source, WeightSource
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json
from refusal_eval.report.paper.display import clean
from refusal_eval.study.row_sources import row_source

# Reports on model families, by the repository of their publisher; of other repositories only the name is known.
FAMILIES = (
    (r"^qwen/qwen3-(?!next)", "yang2025qwen3"),
    (r"^qwen/qwen3guard-", "zhao2025qwen3guard"),
    (r"^google/gemma-3-", "gemma2025gemma3"),
    (r"^openai/gpt-oss-", "openai2025gptoss"),
    (r"^meta-llama/(meta-)?llama-3", "grattafiori2024llama3"),
    (r"^(huggingfacetb/)?smollm2-[^/]*$", "benallal2025smollm2"),
    (r"^deepseek-ai/deepseek-r1", "deepseek2025r1"),
    (r"^mistralai/mistral-7b-", "jiang2023mistral"),
    (r"^allenai/wildguard$", "han2024wildguard"),
)
_GOLD = ((r"^pyrit$", "lopezmunoz2024pyrit"),)


quoted = clean  # a user's text: on one line, without control characters and without the marks of `cite`


def cite(*keys: str) -> str:
    """Return a citation to be put into a text; nothing without keys. No user's text holds the marks around it."""
    known = [key for key in dict.fromkeys(keys) if key]
    return f" \ue000{','.join(known)}\ue001" if known else ""


def weights_text(weights: Mapping[str, Any], identity: Mapping[str, Any]) -> str:
    """Return where weights come from, in words, with the citation.

    Args:
        identity: what was measured of them (engines/NAME.json); its hash stands in for a revision of a local folder.
    """
    source: WeightSource = WEIGHT_SOURCES.entry(weights)
    return source.in_words(quoted, _hash(identity.get("weights"))) + cite(*families(source), source.bibtex_key)


def rows_text(rows: Mapping[str, Any]) -> str:
    return row_source(rows).in_words(quoted)


def where_text(where: Mapping[str, Any]) -> str:
    """Return the rows of a source that a split uses, in words: `label "safe" or "unclear" and side "harmful"`."""
    texts = []
    for column, wanted in where.items():
        values = wanted if isinstance(wanted, list) else [wanted]
        words = (quoted(value if isinstance(value, str) else canonical_json(value)) for value in values)
        shown = (f"\u201c{word}\u201d" if word else "empty" for word in words)
        texts.append(f"{quoted(column)} {' or '.join(shown)}")
    return " and ".join(texts)


def families(weights: WeightSource) -> list[str]:
    """Return the citation keys of the papers on a model's family, found by its publisher's repository."""
    return [key for pattern, key in FAMILIES if re.search(pattern, weights.model_name.lower())]


def rows_citations(entry: Mapping[str, Any]) -> list[str]:
    """Return the keys that a split or a gold set asks to be cited, else the one of its source."""
    known = [citation_key(item) for item in entry.get("citation") or ()]
    if known:
        return known
    source = row_source(entry["source"])
    of_packages = [key for pattern, key in _GOLD if re.search(pattern, source.known_as)]
    return of_packages or ([source.bibtex_key] if source.bibtex_key else [])


def citation_key(item: str) -> str:
    """Return the key of a citation: it is one, or a whole BibTeX entry."""
    found = re.match(r"\s*@\w+\{([^,\s]+),", item)
    return found[1] if found else item


def source_entry(source: Source) -> str:
    """Return BibTeX for a source that has no entry in the bibliography."""
    return "@misc{" + source.bibtex_key + ",\n  " + ",\n  ".join(source.bibtex(_safe)) + "\n}"


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
        yield from (change.source(change.value_in(model)) for change in changes_of(model) if change.has_source)
    for entry in [*config["split_entries"].values(), *config["gold_entries"].values()]:
        yield row_source(entry["source"])


def _safe(text: str) -> str:
    return re.sub(r"([&%$#_])", r"\\\1", re.sub(r"[{}\\]", "", quoted(text)))


def _hash(identity: Any) -> str:
    known = identity if isinstance(identity, Mapping) else {}
    return next((str(value) for key, value in sorted(known.items()) if "sha256" in key), "")
