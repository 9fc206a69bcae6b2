"""How much the prompts of splits repeat each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.features.diversity.grouped_jackknife import jackknife
from refusal_eval.features.diversity.text_diversity import (
    TextMeasure,
    TextWords,
    at_size,
    distinct_2,
    self_bleu,
    words_in,
)
from refusal_eval.stats.estimates.estimate import Estimate, estimate_from
from refusal_eval.stats.estimates.intervals import seed_of

MEASURES: dict[str, TextMeasure] = {"self_bleu": self_bleu, "distinct_2": distinct_2}
AT_SIZE = {"self_bleu": "self_bleu_at_size", "distinct_2": "distinct_2_at_size"}
DRAWS = 200


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    prompts = {split: list(read_jsonl(path)) for split, path in zip(params["splits"], files["prompts"], strict=True)}
    size = min((len(own) for own in prompts.values()), default=0)
    found = [one for split, own in prompts.items() for one in of_split(split, own, size, params["level"])]
    return {"estimates": [estimate.row() for estimate in found], "size": size}


def of_split(split: str, prompts: Sequence[Mapping[str, Any]], size: int, level: float) -> Iterator[Estimate]:
    """Yield the measures of the prompts of a split: of all, of so many, and of each category."""
    texts = [words_in(asked_text(prompt)) for prompt in prompts]
    clusters = [str(prompt["cluster"]) for prompt in prompts]
    about: dict[str, Any] = {"split": split, "n_prompts": len(texts), "n_clusters": len(set(clusters))}
    for name, of in MEASURES.items():
        number = jackknife(_of_rows(of, texts), clusters, level, seed_of("diversity", name, split))
        yield estimate_from(name, number, level, **about)
        if size > 1:
            value = at_size(of, texts, size, DRAWS, seed_of("diversity at size", name, split))
            yield Estimate(AT_SIZE[name], value, parameter=size, **about)
    for category in sorted({prompt["category"] for prompt in prompts if prompt["category"] is not None}):
        places = [place for place, prompt in enumerate(prompts) if prompt["category"] == category]
        about = {"split": split, "category": category, "n_prompts": len(places)}
        about["n_clusters"] = len({clusters[place] for place in places})
        for name, of in MEASURES.items():
            yield Estimate(name, _of_rows(of, texts)(places), **about)


def asked_text(prompt: Mapping[str, Any]) -> str:
    """Return what the user of a prompt says in it, turn after turn."""
    return "\n".join(message["content"] for message in prompt["messages"] if message["role"] == "user")


def _of_rows(of: TextMeasure, texts: Sequence[TextWords]) -> Any:
    return lambda places: of([texts[place] for place in places])
