"""What the program of attributions takes, for `refusal-eval plan`."""

from collections.abc import Iterator, Mapping
from typing import Any

from refusal_eval.config.feature_keys import PromptRequests
from refusal_eval.data.text_units import UNITS
from refusal_eval.features.attributions.attribution_files import attributions_of, computing
from refusal_eval.features.attributions.attribution_keys import Attribution
from refusal_eval.features.attributions.left_out import asked_about, asked_prompts
from refusal_eval.program.program_load import ProgramLoad
from refusal_eval.study.study import Study

BOTH_WAYS = 2  # the way back to the embeddings takes about as long as the one from them
ENDS = 2  # prompt and baseline
STAGE = "attributions"
ASSUMES = "A gradient at one point takes as long as reading its prompt twice."


def attribution_loads(study: Study) -> Iterator[ProgramLoad]:
    """Yield what each attribution takes that a program computes."""
    for name in computing(study):
        one = attributions_of(study)[name]
        makes = study.paths.of("attribution_values", attribution=name)
        assumes = ASSUMES if one.steps else ""
        yield ProgramLoad(name, STAGE, one.model, one.split, _reads(one), makes, assumes)


def _reads(one: Attribution) -> PromptRequests:
    if not one.steps:
        return PromptRequests(
            lambda row: len(asked_prompts(row, one.unit)), lambda tokens: asked_about(tokens, one.unit)
        )
    passes = BOTH_WAYS * one.steps + ENDS

    def of_prompt(row: Mapping[str, Any]) -> int:
        return passes if len(UNITS[one.unit](row["messages"][-1]["content"])) > 1 else 0

    return PromptRequests(of_prompt, lambda _: float(passes), float(one.tokens or 0))
