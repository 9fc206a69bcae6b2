"""What the templates of this folder put into splits.md, models.md and gold.md of docs/reference."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from refusal_eval.config.catalogue import Catalogue, shipped_files
from refusal_eval.config.datasets import Split
from refusal_eval.config.entries import Gold, Model, Sampling
from refusal_eval.config.problems import ConfigError, Problem
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.program.page_lines import group_by
from refusal_eval.program.text_templates import render_template
from refusal_eval.study.row_sources import addresses_of, part_columns


def catalogue_page(name: str, root: str) -> str:
    """Return the page `splits`, `models` or `gold` as Markdown.

    Raises:
        ConfigError: if the shipped catalogue has mistakes.
    """
    files, problems = shipped_files(root), list[Problem]()
    catalogue = Catalogue(files, len(files), problems)
    if problems:
        raise ConfigError(problems)
    texts = (
        rows_text,
        served_here,
        served_elsewhere,
        weights_text,
        server_text,
        sampling_texts,
        answering_models,
        people_text,
        seen_text,
        kappa_text,
        row,
        details,
        together,
        shared_facts,
        lines_of,
    )
    made = {text.__name__: text for text in texts}
    return render_template(Path(__file__).with_name(f"{name}.md.j2"), catalogue.valid | made)


def row(cells: Iterable[object]) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def details(name: str, entry: Split | Gold, said: Iterable[tuple[str, str]] = ()) -> str:
    """Return the paragraph about an entry: what it is, and its facts but for those that were said of all."""
    lines = lines_of([fact for fact in facts_of(entry) if fact not in said])
    return "\n  ".join([f"- **`{name}`**, {entry.label or name}: {entry.description or 'no description'}", *lines])


def facts_of(entry: Split | Gold) -> list[tuple[str, str]]:
    """Return why an entry is off, what is open or not verified, and whom to cite: the kind and the text of each."""
    facts = []
    if entry.reason is not None and not entry.enabled:
        terms = f" ([terms]({entry.terms}))" if entry.terms else ""
        facts.append(("state", f"**Off:** {entry.reason.rstrip('.')}{terms}."))
    if pin := entry.source.open_pin:
        facts.append(
            ("state", f"Its `{pin}` is not known yet; `refusal-eval pin` finds it and writes it into a lock file.")
        )
    facts += [("unverified", what) for what in entry.unverified]
    facts += [("link", f"[page]({entry.homepage})")] if entry.homepage else []
    return facts + [("link", f"cite `{key}`") for key in entry.citation]


def shared_facts(names: Iterable[str], splits: Mapping[str, Split]) -> list[tuple[str, str]]:
    """Return the facts that several splits have in common."""
    first, *others = (facts_of(splits[name]) for name in names)
    return [fact for fact in first if others and all(fact in other for other in others)]


def lines_of(facts: Sequence[tuple[str, str]]) -> list[str]:
    """Return facts as lines of a paragraph."""
    of = {kind: [text for one, text in facts if one == kind] for kind in ("state", "unverified", "link")}
    unverified = f"Not verified: {'; '.join(of['unverified'])}." if of["unverified"] else ""
    return [line for line in (*of["state"], unverified, ", ".join(of["link"])) if line]


def rows_text(split: Split) -> str:
    """Return how many rows a split has, as far as its entry says, duplicates included, and how dialogues are asked."""
    rows = split.expected_rows if split.where is None else None
    rows = split.expected_kept or rows
    text = "not known" if rows is None else f"{rows:,}"
    if split.where is not None and split.expected_kept is None:
        text = "a part" + (f" of {split.expected_rows:,}" if split.expected_rows else "")
    if split.dialogue is None:
        return text
    each = split.dialogue.mode != "cumulative" and split.columns.turns
    return f"{text} ({split.dialogue.mode}{f': {len(each) - 1} prompts each' if each else ''})"


def together(entries: Mapping[str, Any], text: Callable[[Any], str]) -> list[tuple[str, str]]:
    """Return each different text with the names of all entries that have it, in the order of their first."""
    same = group_by(entries, lambda name: text(entries[name]))
    return [(described, ", ".join(f"`{name}`" for name in names)) for described, names in same.items()]


def served_here(engines: Mapping[str, Any]) -> dict[str, Any]:
    return {name: engine for name, engine in engines.items() if not engine.elsewhere}


def served_elsewhere(engines: Mapping[str, Any]) -> dict[str, Any]:
    return {name: engine for name, engine in engines.items() if engine.elsewhere}


def server_text(engine: Any) -> str:
    """Return what an engine on somebody's server asks for and where, and what nobody verified."""
    named = engine.model_dump(include={"parameters", "extra", "logprobs"}, exclude_defaults=True)
    always = [ours for ours, theirs in engine.parameters.items() if ours == theirs]
    named["parameters"] = {ours: theirs for ours, theirs in engine.parameters.items() if ours not in always}
    sent = "".join(f", `{name}: {_yaml(value)}`" for name, value in named.items() if value)
    sent += f"; always sends {', '.join(always)}" if always else ""
    off = f" Off: {engine.reason}." if not engine.enabled else ""
    return f"kind `{engine.kind}`, `{engine.served}` at {engine.address}{sent}.{off}{_not_verified(engine.unverified)}"


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False).split("\n")[0]


def weights_text(engine: LocalEngine) -> str:
    """Return what an engine's weights are, and what nobody verified."""
    size = f", {engine.weights_gb:,.3g} GB" if engine.weights_gb else ""
    off = "" if engine.enabled else f" Off: {engine.reason}."
    return f"{engine.weights.described()}{size}.{off}{_not_verified(engine.unverified)}"


def sampling_texts(models: Mapping[str, Model], engines: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each different sampling with the names of the models that have it."""
    return together({name: _sampling_text(model, engines[model.engine_name]) for name, model in models.items()}, str)


def _sampling_text(model: Model, engine: Any) -> str:
    """Return what is sent of a model's sampling: temperature, and what else is not at its neutral value."""
    sampling = model.sampling
    assert sampling is not None  # no answers ship
    neutral = Sampling(max_tokens=sampling.max_tokens).model_dump()
    given = {key: value for key, value in sampling.model_dump().items() if value != neutral[key]}
    sent = engine.sent_sampling({"temperature": sampling.temperature} | given)
    described = ", ".join(f"{key} {value}" for key, value in sent.items()) or "as the server sets it"
    return f"{described}.{_not_verified(model.unverified)}"


def _not_verified(what: list[str]) -> str:
    return f"\n  Not verified: {'; '.join(what)}." if what else ""


def answering_models(entry: Gold) -> str:
    """Return how many models answered, as far as the entry tells."""
    if entry.answers:
        return str(len(entry.answers))
    column = entry.columns.answering_model
    parts = addresses_of(entry.source.known_as) if entry.source.taken_from == "url" else {}
    models = {part_columns(part).get(str(column)) for part in parts} - {None}
    return str(len(models)) if models else "not distinguished" if column is None else f"by `{column}`"


def people_text(entry: Gold) -> str:
    """Return how many people labelled each row, or who did in their place."""
    if entry.written_to_label:
        return "no one: written to its labels"
    return f"no one: labels of {entry.labelled_by_model}" if entry.labelled_by_model else str(entry.raters)


def seen_text(entry: Gold) -> str:
    """Return the judges that were chosen or tuned on it."""
    return ", ".join(f"`{name}`" for name in entry.seen_by) or "-"


def kappa_text(entry: Gold) -> str:
    """Return how far people agree among themselves."""
    kappa = entry.human_kappa
    if kappa is None:
        return "-"
    values = zip(("broad", "strict", "three-class"), (kappa.broad, kappa.strict, kappa.three_class), strict=True)
    return f"{'; '.join(f'{name} {value:g}' for name, value in values if value is not None)} ({kappa.statistic})"
