"""A finished study as its files give it: prompts, answers and verdicts. Nothing of the project is imported."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Row = dict[str, Any]
Place = tuple[str, int]  # of a row: prompt, turn
HEADLINES = {"refuse": "strict", "comply": "broad", "varies": "broad"}
_FUNCTION_WORDS = """
a about an and any are as at be been being by can could did do does give here how i if in into is it its just kindly may
me might must of on or please shall should so some tell than that the then there these this those was were what when
where which who why will would write
"""
_NEGATIONS = "against arent cannot cant doesnt dont isnt never no none nor not shouldnt without wont"
FUNCTION_WORDS, NEGATIONS = (frozenset(re.findall(r"\w+", words)) for words in (_FUNCTION_WORDS, _NEGATIONS))
SIMILAR = 0.7
SCRIPT_NAMES = {"CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese"}
BY_CHARACTER = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "MYANMAR", "KHMER")


def read_lines(path: Path) -> list[Row]:
    """Return the rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def refuses(label: str | None, reading: str) -> float:
    """Return 1 for a refusal or blocked answer, in the broad reading for a partial one; nan without a label."""
    if label is None:
        return np.nan
    return float(label in ("refusal", "blocked") or (label == "partial" and reading == "broad"))


class Cell(NamedTuple):
    """The answers of one model to one split as a judge labels them: rows are prompts or scored turns, K samples wide.

    `labels` holds refusal, partial, compliance, blocked (by the provider) or None; `logprobs` is nan without one.
    """

    places: list[Place]
    clusters: list[str]
    categories: list[str | None]
    labels: npt.NDArray[np.object_]
    logprobs: Array
    answers: list[Row]
    verdicts: list[Row]

    def values(self, reading: str) -> Array:
        """Return 1, 0 or nan for each sample of each row."""
        return np.array([[refuses(label, reading) for label in row] for row in self.labels]).reshape(self.labels.shape)

    def rates(self, reading: str) -> Array:
        """Return the rate of each row: the share of refusals among its counting samples.

        See docs/reference/statistics.md.
        """
        return row_means(self.values(reading))

    def only(self, kept: Sequence[bool] | npt.NDArray[np.bool_]) -> "Cell":
        """Return the cell with some of its rows."""
        rows = np.flatnonzero(np.asarray(kept))
        return Cell(
            [self.places[i] for i in rows],
            [self.clusters[i] for i in rows],
            [self.categories[i] for i in rows],
            self.labels[rows],
            self.logprobs[rows],
            self.answers,
            self.verdicts,
        )


def row_means(values: Array) -> Array:
    """Return the mean of each row over what is not nan; nan for a row without anything."""
    counts = (~np.isnan(values)).sum(axis=1)
    sums = np.nansum(values, axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


class Study:
    """The results folder of a study; of the model `alone`, answers that were blocked are none."""

    def __init__(self, folder: Path, alone: bool = False) -> None:
        self.folder, self.alone = folder, alone
        self.said: Row = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["study"]
        self.alpha = 1 - self.said["scoring"]["level"]
        self.band = self.said["scoring"]["band"]
        self.samples: int = self.said["samples"]
        self.prompts = {split: read_lines(folder / f"prompts/{split}.jsonl") for split in self.said["splits"]}
        self.cell = cache(self._cell)
        self.origin = cache(self._origin)

    @property
    def models(self) -> list[str]:
        return list(self.said["models"])

    @property
    def judges(self) -> list[str]:
        return list(self.said["judges"])

    def expectation(self, split: str) -> str:
        return str(self.said["split_entries"][split]["expectation"])

    def headline(self, split: str) -> str:
        """Return the reading of a split's headline (docs/reference/tradeoff.md)."""
        return str(self.said["split_entries"][split]["headline"] or HEADLINES[self.expectation(split)])

    def pool(self, expectation: str) -> list[str]:
        return [split for split in self.said["splits"] if self.expectation(split) == expectation]

    @cached_property
    def labels_path(self) -> Path | None:
        """Return the file with people's labels on the study's own answers, if the study names one that exists."""
        named = (self.said.get("corrected") or {}).get("labels")
        paths = [self.folder.parents[1] / named, Path(named)] if named else []
        return next((path for path in paths if path.is_file()), None)

    def _origin(self, split: str) -> str:
        """Return what a split comes from: cluster names have meaning within it only (docs/reference/statistics.md)."""
        source = dict(self.said["split_entries"][split]["source"])
        for name in ("skip_lines", "encoding"):
            source.pop(name, None)
        if "path" in source:
            source["path"] = str(Path(source["path"]).parent)
        return json.dumps(source, sort_keys=True)

    def cluster(self, split: str, prompt: Row) -> str:
        """Return the name of a prompt's cluster; a prompt that is its own is named by its content."""
        own = prompt.get("cluster") in (None, prompt["id"])
        return f"prompt {prompt['id']}" if own else f"{self.origin(split)} {prompt['cluster']}"

    def scored(self, split: str, answers: list[Row]) -> list[Row]:
        """Return the answers to turns that count (config/README.md, `scored` of a split's `dialogue`)."""
        dialogue = self.said["split_entries"][split].get("dialogue") or {}
        counts = dialogue.get("scored") or ("last" if dialogue.get("mode", "cumulative") != "cumulative" else "all")
        if counts == "after_first":
            return [row for row in answers if row["turn"] > 0]
        last: dict[str, int] = {}
        for row in answers:
            last[row["prompt_id"]] = max(row["turn"], last.get(row["prompt_id"], 0))
        return [row for row in answers if counts == "all" or row["turn"] == last[row["prompt_id"]]]

    def _cell(self, judge: str, model: str, split: str) -> Cell:
        answers = self.scored(split, read_lines(self.folder / f"answers/{model}/{split}.jsonl"))
        asked = {(row["prompt_id"], row["turn"]) for row in answers}
        verdicts = read_lines(self.folder / f"verdicts/{judge}/{model}/{split}.jsonl")
        verdicts = [row for row in verdicts if (row["prompt_id"], row["turn"]) in asked]
        by_id = {prompt["id"]: prompt for prompt in self.prompts[split]}
        places = list(dict.fromkeys((row["prompt_id"], row["turn"]) for row in answers))
        at = {place: i for i, place in enumerate(places)}
        labels = np.full((len(places), self.samples), None, dtype=object)
        logprobs = np.full((len(places), self.samples), np.nan)
        for row in answers:
            i, k = at[row["prompt_id"], row["turn"]], row["sample"]
            logprobs[i, k] = np.nan if row["answer_logprob"] is None else row["answer_logprob"]
            labels[i, k] = "blocked" if row["state"] == "blocked" and not self.alone else None
        for row in verdicts:
            i, k = at[row["prompt_id"], row["turn"]], row["sample"]
            if row["state"] == "judged" and labels[i, k] is None:
                labels[i, k] = row["label"]
        clusters = [self.cluster(split, by_id[prompt]) for prompt, _ in places]
        categories = [by_id[prompt].get("category") for prompt, _ in places]
        return Cell(places, clusters, categories, labels, logprobs, answers, verdicts)

    def language(self, split: str, prompt_id: str) -> str:
        """Return the language of a prompt: a kept column, or the script of most of its text.

        See docs/reference/tradeoff.md.
        """
        prompt = next(row for row in self.prompts[split] if row["id"] == prompt_id)
        kept = prompt["source"].get("kept") or {}
        for name in ("language", "lang", "locale"):
            if kept.get(name):
                return str(kept[name])
        text = prompt["messages"][-1]["content"]
        letters = Counter(unicodedata.name(c, "").split()[0] for c in text if c.isalpha())
        weights = {script: count * (3 if script in SCRIPT_NAMES else 1) for script, count in letters.items()}
        script = max(weights, key=lambda name: weights[name])
        return f"{SCRIPT_NAMES.get(script, script.capitalize())} script"

    def without_copies(self, splits: Sequence[str]) -> dict[str, set[str]]:
        """Return the prompts of each split that count in a pool of splits.

        See docs/reference/statistics.md, Pooled rates.
        """
        return _counting(self, tuple(sorted(splits)))


def _text(prompt: Row) -> str:
    return "\n".join(message["content"] for message in prompt["messages"] if message["role"] == "user")


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold().replace("'", "").replace("\u2019", "")
    words: list[str] = []
    for word in re.findall(r"[^\W_]+", folded):
        scripts = {unicodedata.name(c, "").split(" ")[0] for c in word}
        words.extend(word if scripts & set(BY_CHARACTER) else [word])
    return words


class _Wording(NamedTuple):
    text: str
    features: frozenset[str]
    exact: frozenset[str]


@cache
def _wording(text: str) -> _Wording:
    words = _words(text)
    content = [word for word in words if word not in FUNCTION_WORDS] or words
    pairs = [" ".join(pair) for pair in pairwise(content)]
    exact = [word for word in words if word in NEGATIONS or any(c.isdigit() for c in word)]
    return _Wording(" ".join(words), frozenset(content + pairs), frozenset(exact))


def _similar(a: _Wording, b: _Wording) -> float:
    if a.text == b.text:
        return 1.0
    shared, either = len(a.features & b.features), len(a.features | b.features)
    return shared / either if a.exact == b.exact and shared >= SIMILAR * either else 0.0


@cache
def _counting(study: Study, splits: tuple[str, ...]) -> dict[str, set[str]]:
    counts: dict[str, set[str]] = {split: set() for split in splits}
    kept: list[tuple[str, str, _Wording]] = []
    for split in splits:
        for prompt in study.prompts[split]:
            wording, cluster = _wording(_text(prompt)), study.cluster(split, prompt)
            if not _copies(kept, split, cluster, wording):
                kept.append((split, cluster, wording))
                counts[split].add(prompt["id"])
    return counts


def _copies(kept: Iterable[tuple[str, str, _Wording]], split: str, cluster: str, wording: _Wording) -> bool:
    """Return whether a prompt of an earlier split has the same wording; twins only if their texts are equal."""
    for other, of, before in kept:
        if other != split and _similar(wording, before) and (of != cluster or wording.text == before.text):
            return True
    return False
