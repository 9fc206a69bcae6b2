"""The page docs/estimands.md: every number that a study can have, out of the data dictionary."""

from pathlib import Path

from refusal_eval.report.results.dictionary import SUBJECTS, described
from refusal_eval.tools.text_templates import rendered


def estimands_page() -> str:
    """Return the page as Markdown."""
    return rendered(Path(__file__).with_name("estimands.md.j2"), {"subjects": SUBJECTS, "described": described})
