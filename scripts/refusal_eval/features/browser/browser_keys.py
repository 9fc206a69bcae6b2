"""The key `browser` of a study file."""

from pydantic import Field

from refusal_eval.config.feature_keys import FeatureKeys


class BrowserKeys(FeatureKeys):
    """Whether a study makes a page to browse its answers."""

    browser: bool = Field(
        False,
        description="Make `browser.html`, one page with all prompts, answers and verdicts that is opened from disk "
        "(docs/how-to/browse_answers.md). It holds texts of prompts and answers: do not publish it. "
        "`refusal-eval browse` makes it of a study without this key.",
    )
