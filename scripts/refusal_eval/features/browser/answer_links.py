"""Where the page opens for a cell of a table (docs/how-to/browse_answers.md, "Links")."""

from urllib.parse import quote

from refusal_eval.report.paper.answer_page import AboutCell, AnswerPage

FILTERS = ("split", "model", "judge", "category", "state")  # in the order of the address
KEPT = "~()*!'"  # as JavaScript's encodeURIComponent writes them


class BrowserPage(AnswerPage):
    """The page that `browser: true` asks for."""

    name = "browser"
    noun = "browser"
    asked_by = "browser"
    shows = "all prompts, answers and verdicts on one page"

    @staticmethod
    def fragment(cell: AboutCell) -> str:
        """Return the page's address of the cell: filters, and the judge whose labels it shows."""
        return "&".join(f"{key}={quote(cell[key], safe=KEPT)}" for key in FILTERS if key in cell)
