"""What the browser shows of a study besides its answers: names in their order, and labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.program.offline_page import FRAME

if TYPE_CHECKING:
    from refusal_eval.study.study import Study

PAGE = Path(__file__).parent / "page"
PARTS = ("page.html", "page.css", *(f"{name}.js" for name in ("study", "filters", "list", "answers", "marks", "page")))


def page_files() -> list[Path]:
    """Return the files that the page is made of."""
    return [FRAME, *(PAGE / name for name in PARTS)]


def shown_study(study: Study) -> dict[str, Any]:
    """Return the names of models, splits and judges with their labels, and what else the page says of the study."""
    splits = [
        {
            "name": name,
            "label": study.label("split", name),
            "expectation": split.expectation,
            "reading": split.headline or HEADLINE_READING[split.expectation],
            "scored": split.scored_turns or "all",
        }
        for name, split in study.splits.items()
    ]
    return {
        "study": study.name,
        "models": [{"name": name, "label": study.label("model", name)} for name in study.models],
        "splits": splits,
        "judges": [
            {"name": name, "label": study.label("judge", name), "kinds": list(judge.named_kinds(study.view))}
            for name, judge in study.judges.items()
        ],
        "primary": study.primary_judge,
    }
