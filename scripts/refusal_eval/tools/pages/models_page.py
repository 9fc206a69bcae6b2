"""The page docs/models.md: every model and engine that comes with refusal-eval, out of the catalogue."""

from __future__ import annotations

from refusal_eval.config.entries import Model, Reasoning, Sampling
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.tools.pages.catalogue_pages import shipped_catalogue, table_head, table_row

INTRODUCTION = """# Models

What comes with refusal-eval, written by scripts/generate_config_docs.py out of [config/catalogue](../config/catalogue):
edit the entries there, not this page. A model is an engine (weights, and how they are served) with its sampling. No
weights are shipped: a study fetches those that it uses, at the commit that the engine names.

- **GPUs** are cards of 80 GB. Change `tensor_parallel` for others; it is in no request key.
- **Tokens** are the longest prompt and answer together, and of these the longest answer, reasoning included.
- **Gated** means that one must ask for access on the model's page first, and fetch with the hub token of who asked.
  Such weights, and those that are not free to use, are off: a study has to name the model (or the judge) in `allow`.
- **Verified** says when and where the engine was last seen to work. `never`: written from public sources only.
- Not verified is what nobody could look at when an entry was written; `refusal-eval plan` repeats it for a study.
- Names that end in `-paper` are for the study [config/paper.yaml](../config/paper.yaml).
"""


def models_page(root: str) -> str:
    """Return the page as Markdown.

    Raises:
        ConfigError: if the shipped catalogue has mistakes.
    """
    catalogue = shipped_catalogue(root)
    models: dict[str, Model] = catalogue.valid["models"]
    engines: dict[str, LocalEngine] = catalogue.valid["engines"]
    head = ["model", "engine", "GPUs", "tokens", "licence", "gated", "reasoning", "verified"]
    lines = [INTRODUCTION, *table_head(head)]
    lines += [_line(name, model, engines[model.engine]) for name, model in models.items()]
    lines += ["", "## Engines", "", *_together({name: _weights(engine) for name, engine in engines.items()})]
    lines += ["", "## Sampling", "", *_together({name: _sampling(model) for name, model in models.items()})]
    return "\n".join(lines) + "\n"


def reasoning_text(reasoning: Reasoning | None) -> str:
    """Return how the reasoning of a model is told from its answer."""
    if reasoning is None:
        return "-"
    return "harmony" if reasoning.format == "harmony" else f"`{reasoning.end}`"


def sampling_text(sampling: Sampling) -> str:
    """Return the sampling of a model: temperature, and what else is not at its neutral value."""
    neutral = Sampling(max_tokens=sampling.max_tokens).model_dump()
    given = {key: value for key, value in sampling.model_dump().items() if value != neutral[key]}
    return ", ".join(f"{key} {value}" for key, value in ({"temperature": sampling.temperature} | given).items())


def verified_text(engine: LocalEngine) -> str:
    """Return when and where an engine was last seen to work."""
    seen = engine.verified
    return seen if isinstance(seen, str) else f"{seen.date}, vLLM {seen.version}, {seen.device}"


def _line(name: str, model: Model, engine: LocalEngine) -> str:
    tokens = f"{engine.max_model_len:,} ({model.sampling.max_tokens:,})"
    device = str(engine.gpus("cuda")) if engine.device == "cuda" else "CPU or 1"
    gated = {True: f"[**yes**]({engine.terms})", False: "no", None: "not known"}[engine.gated]
    licence = engine.licence or "not stated"
    cells = [f"`{name}`", f"`{model.engine}`", device, tokens, licence, gated, reasoning_text(model.reasoning)]
    return table_row([*cells, verified_text(engine)])


def _together(details: dict[str, str]) -> list[str]:
    """Return an item of a list for all names that have the same details, in the order of their first."""
    names: dict[str, list[str]] = {}
    for name, text in details.items():
        names.setdefault(text, []).append(f"`{name}`")
    return [f"- **{', '.join(same)}**: {text}" for text, same in names.items()]


def _weights(engine: LocalEngine) -> str:
    size = f", {engine.weights_gb:,.3g} GB" if engine.weights_gb else ""
    off = "" if engine.enabled else f" Off: {engine.reason}."
    return f"{engine.weights.told()}{size}.{off}{_not_verified(engine.unverified)}"


def _sampling(model: Model) -> str:
    return f"{sampling_text(model.sampling)}.{_not_verified(model.unverified)}"


def _not_verified(what: list[str]) -> str:
    return f"\n  Not verified: {'; '.join(what)}." if what else ""
