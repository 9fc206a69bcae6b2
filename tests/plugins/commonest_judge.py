"""A kind of judge of one's own that is fitted on gold: it says of every answer what most of that gold is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from refusal_eval.config.kinds import JUDGES
from refusal_eval.config.shapes import Slug
from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.states import JUDGED
from refusal_eval.judges.judge_base import ReadResponse, Verdict
from refusal_eval.judges.learning_judge import GoldSet, LearningJudge
from refusal_eval.judges.llm_judge import LlmJudge
from refusal_eval.judges.verdict_files import verdict_row


@JUDGES.add
class CommonestJudge(LlmJudge, LearningJudge):
    """Asks as `llm` does, and reads nothing in the responses."""

    kind: Literal["commonest"]  # type: ignore[assignment]
    on: list[Slug] = Field(min_length=1, description="Gold of the study.")

    def gold_to_fit(self) -> list[str]:
        """Return the gold."""
        return list(self.on)

    def fit_on(
        self, gold: Sequence[GoldSet], seen: Mapping[str, Any], model_path: str, others: Sequence[GoldSet] = ()
    ) -> list[dict[str, Any]]:
        """Write the commonest label of the rows that were answered, and say the same of each without that row."""
        rows = [row for one in gold for row in one.rows if row["id"] in seen]
        counts = Counter(row["label"] for row in rows)
        write_json(model_path, {"label": max(counts, key=counts.__getitem__)})
        found = []
        for row in rows:
            left = counts - Counter([row["label"]])
            place = {"prompt_id": row["id"], "sample": 0, "turn": 0}
            found.append(verdict_row(place, Verdict(JUDGED, max(left, key=left.__getitem__), raw={"unseen": True})))
        return found

    def reader(self, checked: Mapping[str, Any], fitted: str | None = None) -> ReadResponse:
        """Return what says the fitted label of every response."""
        verdict = Verdict(JUDGED, read_json(str(fitted))["label"])
        return lambda response, answer: verdict
