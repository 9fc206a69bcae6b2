"""What the searches for prompts of a study take, for `refusal-eval plan`."""

from collections.abc import Iterator

from refusal_eval.config.feature_keys import PromptRequests
from refusal_eval.features.controlled.controlled_files import controlled_splits
from refusal_eval.features.controlled.controlled_rows import ControlledRows
from refusal_eval.program.program_load import ProgramLoad
from refusal_eval.study.study import Study

GRADIENT = 3  # as many times as long as reading: once forward, about twice as long backward
BEHIND = 6  # tokens of a chat template behind a prompt
STAGE = "searches"
ASSUMES = (
    "A search for a prompt takes all its steps and rounds, a gradient as long as three candidates, and the target "
    f"reads a candidate with {BEHIND} tokens of its template and the refusal behind it."
)


def planned_searches(study: Study) -> Iterator[ProgramLoad]:
    """Yield what each split of kind `controlled` takes; nothing is left of one whose rows are there."""
    for split, source in controlled_splits(study).items():
        makes = study.paths.of("found_prompts", split=split)
        about = (split, STAGE, source.target, source.seeds, _times(source.samples), makes, ASSUMES, source.shards)
        yield ProgramLoad(*about, text_tokens(source))


def _times(samples: int) -> PromptRequests:
    return PromptRequests(lambda _: samples, lambda _: float(samples))


def text_tokens(source: ControlledRows) -> float:
    """Return how many tokens the target reads for one text, where it takes all its steps and rounds.

    Keys and values of the text so far are kept, so that of each candidate only what comes behind them is read. With a
    weight of 0 nothing is read for it.
    """
    each = (source.candidates if source.w2 else 0) + (GRADIENT if source.w1 else 0)
    return float(source.steps * source.rounds * each * (1 + BEHIND + source.refusals.tokens))
