"""What a figure itself says of the protocol behind it, so that it is told even where the caption is lost."""

from __future__ import annotations

from collections.abc import Iterable

from refusal_eval.report.paper.display import Score


def protocol_tag(scores: Iterable[Score]) -> list[str]:
    """Return the line that figures of a study under another protocol than the default carry; else none."""
    other = sorted({str(score["protocol"]) for score in scores if score.get("protocol") not in (None, "default")})
    return [f"Protocol {', '.join(other)}: see the caption."] if other else []
