"""A kind of judge of one's own that reads two others and asks an engine about the answers on which they disagree."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from refusal_eval.config.kinds import JUDGES
from refusal_eval.config.shapes import Slug
from refusal_eval.core.states import JUDGED
from refusal_eval.judges.verdict_judges import DeferringJudge, Row


@JUDGES.add
class ArbiterJudge(DeferringJudge):
    """Passes on what two judges agree on."""

    kind: Literal["arbiter"]
    between: list[Slug] = Field(min_length=2, max_length=2, description="Two judges of the study.")
    arbiter: Slug = Field(description="Judge of the catalogue with an engine, which decides where they disagree.")

    def reads(self) -> list[str]:
        """Return the two judges."""
        return list(self.between)

    def second(self) -> str:
        """Return the judge that is asked on its behalf."""
        return self.arbiter

    def settled(self, said: Sequence[Row | None]) -> dict[str, Any] | None:
        """Return the verdict on which the two agree."""
        labels = {row["label"] for row in said if row is not None and row["state"] == JUDGED}
        one = said[0]
        return dict(one) if one is not None and None not in said and len(labels) == 1 else None
