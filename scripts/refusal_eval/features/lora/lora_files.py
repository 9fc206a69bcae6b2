"""The files of adapters: what is fetched, what identifies each, and that it fits its engine's weights."""

from refusal_eval.features.lora.lora_keys import LoraKeys
from refusal_eval.study.files import CACHE, File, Names
from refusal_eval.study.study import Study


def _adapted(study: Study) -> list[Names]:
    return [(name,) for name, model in study.every_model.items() if LoraKeys.of(model).lora]


FETCHED_ADAPTERS = File(
    (f"{CACHE}adapters/{{adapter}}/adapter.json",),
    ("fetch_adapter",),
    lambda study: [(copy,) for copy in study.fetched("models")],
    asked=False,
    after="weights",
)
ADAPTERS = File(("adapters/{model}.json",), ("identify_adapter",), _adapted, after="engines")
# Not asked for: made of the weights, which may be gone from the cache once all answers are there.
CHECKED_ADAPTERS = File(("adapters/checked/{model}.json",), ("check_adapter",), _adapted, asked=False, after="requests")
