"""What programs of features take in the engine environment, for a plan: they load a model, and no server is asked."""

from dataclasses import dataclass

from refusal_eval.config.feature_keys import PromptRequests


@dataclass(frozen=True)
class ProgramLoad:
    """One load of a model by a program that reads the prompts of a split.

    Attributes:
        name: what it is for.
        stage: what such loads are called together.
        model, split: whose engine is loaded, and what is read.
        reads: how often the program reads a prompt; what takes as long, such as the way back, counts too.
        makes: a file of the study that needs nothing of it once it is there.
        assumes: the sentence of a plan that says what such a load is taken for.
        jobs: among how many jobs it is divided.
        tokens: how many tokens it reads each time, where these are not the prompt's.
    """

    name: str
    stage: str
    model: str
    split: str
    reads: PromptRequests
    makes: str
    assumes: str = ""
    jobs: int = 1
    tokens: float | None = None
