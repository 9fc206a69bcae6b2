"""What tells by the keyword lists that ship whether an answer as a whole refuses."""

from collections.abc import Callable
from pathlib import Path

from refusal_eval.core.states import REFUSAL

_KEYWORDS = Path(__file__).resolve().parents[4] / "config" / "keywords"
LIST_FILES = (_KEYWORDS / "english.yaml", _KEYWORDS / "chinese.yaml")


def keyword_refusals() -> Callable[[str], bool]:
    """Return what tells by these lists whether an answer refuses."""
    # Here and not above: the modules of judges import the config, which imports the kinds of sources.
    from refusal_eval.judges.keyword_judge import KeywordReader
    from refusal_eval.judges.known_scripts import UnknownScript
    from refusal_eval.judges.normal_text import normal_text

    reader = KeywordReader.from_files(LIST_FILES)

    def refuses(answer: str) -> bool:
        try:
            return reader.reading(normal_text(answer).text).label == REFUSAL
        except UnknownScript:  # the lists know nothing of it
            return False

    return refuses
