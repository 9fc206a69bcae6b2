"""What is searched for: an item for each text that is to be written, with the key of all that decides it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.ask.keys import sample_seed
from refusal_eval.ask.render import Renderer
from refusal_eval.core.canonical import KEY_VERSION, plain
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.core.states import REFUSAL, place_of
from refusal_eval.core.text_runs import ECHO_WORDS, runs_of
from refusal_eval.features.controlled.controlled_rows import ECHO, PROMPT, SEARCH_KEYS

SEARCH_VERSION = 1  # of what is computed; another one makes all stored texts unreachable
MARK = "qzxvkjw"  # in place of a prompt while the text around it is rendered


def refused_texts(
    answers: Iterable[Mapping[str, Any]], verdicts: Iterable[Mapping[str, Any]], renderer: Renderer, tokens: int
) -> list[str]:
    """Return the beginnings of a model's refusals, one for each refused answer, in the order of the answers.

    Args:
        answers: rows of a file of answers.
        verdicts: rows of a judge about them.
        renderer: that of the model.
        tokens: how many tokens of each.
    """
    refused = {place_of(row) for row in verdicts if row.get("label") == REFUSAL}
    texts = [row["answer"].strip() for row in answers if place_of(row) in refused and row.get("answer")]
    cut = [renderer.tokenizer(text, add_special_tokens=False)["input_ids"][:tokens] for text in texts]
    return [text for ids in cut if (text := renderer.decode(ids).strip())]


def around(renderer: Renderer, messages: Sequence[Mapping[str, str]], whose: str) -> tuple[str, str]:
    """Return the rendered text before and behind what the user says last.

    Raises:
        UserError: if the template does not write it once, as it is.
    """
    *before, last = messages
    parts = renderer.text([*before, {**last, "content": MARK}]).split(MARK)
    if len(parts) != 2:
        raise UserError(f"the chat template of {whose} writes a prompt {len(parts) - 1} times; it must write it once")
    return parts[0], parts[1]


def same_tokenizer(by: Renderer, target: Renderer) -> bool:
    """Tell whether two models read and write the same tokens."""
    vocabularies = (by.tokenizer.get_vocab(), target.tokenizer.get_vocab())
    return by.folder == target.folder or vocabularies[0] == vocabularies[1]


def drawn_refusal(refusals: Sequence[str], draw: str) -> str:
    """Return the refusal that is wanted of one text: each as likely as the target said it."""
    digest = hashlib.sha256(f"refusal-eval/controlled/{draw}/refusal".encode()).digest()
    return refusals[int.from_bytes(digest[:6], "big") * len(refusals) // 2**48]


def search_settings(
    source: Mapping[str, Any], by: Renderer, target: Renderer, longest: Mapping[str, int | None]
) -> dict[str, Any]:
    """Return what decides every text of a split, besides the models.

    Args:
        source: the split's source.
        longest: the longest text that each model takes, by `by` and `target`.
    """
    renderers = {"by": by, "target": target}
    return {
        **{name: source[name] for name in SEARCH_KEYS},
        "ends": by.stop_token_ids(),
        "special_tokens": {role: renderer.template == "none" for role, renderer in renderers.items()},
        "most_positions": {role: most or 2**31 for role, most in longest.items()},
    }


def search_items(
    seeds: Iterable[Mapping[str, Any]],
    refusals: Sequence[str],
    renderers: Mapping[str, Renderer],
    source: Mapping[str, Any],
    study_seed: int,
    decided_by: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return an item for each text: as many for each seed as the source has `samples`, in the order of the seeds.

    Args:
        seeds: the prompts that texts are made from.
        refusals: see `refused_texts`; not empty.
        renderers: those of `by` and `target`.
        decided_by: the identities of both engines and the `search_settings`, which are in the key of each.

    Raises:
        UserError: for a prompt that a template cannot render.
    """
    items = []
    for seed in seeds:
        *earlier, last = seed["messages"]
        before, after = around(renderers["target"], seed["messages"], "the target")
        asked = source["instruction"].replace(PROMPT, last["content"])
        context = renderers["by"].text([{"role": "user", "content": asked}])
        for sample in range(source["samples"]):
            draw = str(sample_seed(study_seed, seed["id"], sample))
            item = {"draw": draw, "seed": last["content"], "context": context, "before": before, "after": after}
            item |= {"refusal": drawn_refusal(refusals, draw)}
            key = sha256_of(
                {"key_version": KEY_VERSION, "search_version": SEARCH_VERSION, **plain(decided_by), "item": item}
            )
            about = {name: seed[name] for name in ("cluster", "category")}
            about |= {"parent": seed["id"], "sample": sample, "kept": seed["source"].get("kept", {})}
            items.append({**item, "key": key, "earlier": earlier, "about": about})
    return items


def found_rows(items: Iterable[Mapping[str, Any]], lines: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each item, whatever became of it.

    Args:
        lines: what was found, by key.
    """
    rows = []
    for item in items:
        line = lines[item["key"]]
        numbers = {name: None if line[name] is None else f"{line[name]:.4f}" for name in ("ce", "seed_ce", "logp")}
        rows.append(
            {**item["about"]["kept"], **{name: value for name, value in item["about"].items() if name != "kept"}}
            | {"sample": str(item["about"]["sample"]), "state": _state(item, line), **numbers}
            | {"refusal": item["refusal"]}
            | {"messages": [*item["earlier"], {"role": "user", "content": line["text"]}]}
        )
    return rows


def _state(item: Mapping[str, Any], line: Mapping[str, Any]) -> str:
    """Return the state of what was found: an echo if it repeats what the writer was asked, besides the seed."""
    read = runs_of(item["context"], ECHO_WORDS) - runs_of(item["seed"], ECHO_WORDS)
    repeats = line["state"] in ("written", "cut") and runs_of(line["text"], ECHO_WORDS) & read
    return ECHO if repeats else str(line["state"])
