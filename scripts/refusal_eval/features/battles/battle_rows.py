"""The battles of a scored cell: two answers to a prompt, the class of each, and who preferred which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.core.states import COMPLIANCE, JUDGED
from refusal_eval.features.battles.similarity import Alike
from refusal_eval.stats.estimates.flags import MIN_CLUSTERS
from refusal_eval.stats.estimates.intervals import Floats, effective_of
from refusal_eval.stats.estimates.units import Units

PEOPLE, LLM = "winner", "llm_winner"
PROMPTS, PAIRS = "prompts", "pairs of models"
SIMILAR_TO_PROMPT, SIMILAR_TO_ANSWER, SENSITIVE = "prompt", "answer", "sensitivity"
POINTS = {"first": (1.0, 0.0), "second": (0.0, 1.0), "tie": (0.5, 0.5), None: (np.nan, np.nan)}
NameArray = NDArray[Any]
Keep = NDArray[np.bool_]


@dataclass(frozen=True)
class BattleRows:
    """Battles whose answers both have a label; every array has a row for each, and two columns for two answers."""

    labels: NameArray  # refusal, partial or compliance
    kinds: NameArray  # `label: kind` where the judge tells one, else the label
    models: NameArray
    lengths: Floats  # characters
    points: Mapping[str, Floats]  # by who preferred, PEOPLE or LLM: 1 for a win, .5 for a tie, 0; NaN if not asked
    categories: NameArray  # of the prompt; one column, empty for none
    clusters: Mapping[str, NameArray]  # what varies independently; one column each
    # Cosines of words, of each answer and the question, and of both answers (in both columns), and whether the question
    # is sensitive (in both columns, from 0 to 1; NaN where nobody says); by SIMILAR_TO_PROMPT and so on
    moderators: Mapping[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def kept(self, keep: Keep) -> BattleRows:
        """Return the battles where `keep` is true."""
        points = {who: points[keep] for who, points in self.points.items()}
        clusters = {what: names[keep] for what, names in self.clusters.items()}
        moderators = {what: values[keep] for what, values in self.moderators.items()}
        return BattleRows(
            self.labels[keep],
            self.kinds[keep],
            self.models[keep],
            self.lengths[keep],
            points,
            self.categories[keep],
            clusters,
            moderators,
        )


def battles_of(
    units: Units, prompts: Iterable[Mapping[str, Any]], alike: Mapping[str, Alike], sensitive: Mapping[str, float]
) -> BattleRows:
    """Return the battles of a scored cell with two samples, the first and the second answer of each.

    Clusters are those of the prompts, and beside them the pairs of models, in whichever order they stood, where there
    are at least 30 (effective number); a handful of pairs is the whole that is asked about, and no sample.

    Args:
        prompts: of its split, each with its `battle`.
        alike: cosines by prompt id (`similarity.word_cosines`).
        sensitive: how sensitive a question is, from 0 to 1, by prompt id; without those of which nobody says.
    """
    by_id = {prompt["id"]: prompt["battle"] for prompt in prompts}
    fought = [by_id[name] for name in units["prompt_id"]]
    assert units.samples is not None
    samples = {name: units.samples[name].to_numpy(object).reshape(-1, 2) for name in ("verdict", "label", "kind")}
    labels = samples["label"]
    kinds = np.array(
        [
            [f"{label}: {kind}" if isinstance(kind, str) else label for label, kind in zip(*both, strict=True)]
            for both in zip(labels, samples["kind"], strict=True)
        ],
        dtype=object,
    ).reshape(-1, 2)
    models = np.array([battle["models"] for battle in fought], dtype=object).reshape(-1, 2)
    pairs = np.array([" and ".join(sorted(pair)) for pair in models], dtype=object)
    whole = BattleRows(
        labels,
        kinds,
        models,
        np.array([[len(text) for text in battle["answers"]] for battle in fought], dtype=float).reshape(-1, 2),
        {who: np.array([POINTS[battle[who]] for battle in fought]).reshape(-1, 2) for who in (PEOPLE, LLM)},
        units["category"],
        {PROMPTS: units["cluster"]} | ({PAIRS: pairs} if effective_of(pairs) >= MIN_CLUSTERS else {}),
        _moderators([alike[name] for name in units["prompt_id"]], [sensitive.get(n) for n in units["prompt_id"]]),
    )
    return whole.kept((samples["verdict"] == JUDGED).all(axis=1))


def _moderators(alike: Sequence[Alike], sensitive: Sequence[float | None]) -> dict[str, Floats]:
    cosines = np.array(alike, dtype=float).reshape(-1, 3)
    asked = np.array(sensitive, dtype=float)
    found = {SIMILAR_TO_PROMPT: cosines[:, :2], SIMILAR_TO_ANSWER: cosines[:, [2, 2]]}
    return found | ({SENSITIVE: np.column_stack([asked, asked])} if not np.isnan(asked).all() else {})


def clusterings(battles: BattleRows, rows: NameArray) -> dict[str, NameArray]:
    """Return the clusterings that count for some of the battles: prompts, and pairs of models where these have enough.

    A handful of pairs is the whole that is asked about, and no sample.
    """
    found = {what: names[rows] for what, names in battles.clusters.items()}
    return {what: names for what, names in found.items() if what == PROMPTS or effective_of(names) >= MIN_CLUSTERS}


def baseline_of(classes: NameArray) -> str:
    """Return the class that others are compared with: the most frequent one of those that comply."""
    names, counts = np.unique(classes.astype(str), return_counts=True)
    complying = [(-count, name) for name, count in zip(names, counts, strict=True) if name.startswith(COMPLIANCE)]
    return str(min(complying)[1]) if complying else COMPLIANCE
