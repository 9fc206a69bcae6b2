"""Mistakes of attention steering: columns that a split does not keep, and what cannot be asked with it."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.kinds import PROTOCOLS
from refusal_eval.config.problems import Mistake
from refusal_eval.core.hints import nearest
from refusal_eval.features.attention.attention_entry import attention_of
from refusal_eval.weights.known_layers import known_layers


def attention_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong with the attention steering of a study's models; their engines are asked elsewhere."""
    for name, model in (study.models | study.further_models).items():
        asked = attention_of(model)
        if asked is None or model.recorded:
            continue
        here = ("models", name, "intervention")
        for split in study.splits_asked(name):
            entry = study.catalogue.valid["splits"].get(split)
            if entry is None:
                continue
            kept = entry.columns.keep or []
            if asked.span not in kept:
                hint = nearest(asked.span, kept) if kept else f"; add it: `columns: {{keep: [{asked.span}]}}`"
                yield (*here, "span"), f"split `{split}` keeps no column `{asked.span}` (`columns.keep`){hint}"
            if entry.dialogue is not None:
                yield (
                    here,
                    f"split `{split}` asks several turns, and attention is steered in prompts of one; leave it out",
                )
        if PROTOCOLS.get(study.settings.protocol).renders:
            message = f"`protocol: {study.settings.protocol}` renders prompts itself, so that the tokens of a word are "
            yield here, f"{message}not known; leave one of them out"
        engine = study.engine_of(model)
        count = known_layers(engine, study.settings.cache_dir) if engine is not None else None
        for place, layer in enumerate(asked.layers or ()):
            if count is not None and layer >= count:
                message = f"the model has {count} layers, counted from 0: the last one is {count - 1}"
                yield (*here, "layers", place), message
