"""Which judges' classes of answers the table and the figure of battles show."""

from refusal_eval.config.study_view import StudyView


def classing_judges(study: StudyView) -> list[str]:
    """Return the primary judge and those that may name kinds of answers: first those that always do, the primary judge
    before others, then those that may.
    """
    certain = {name: judge.tells_kinds(study) if judge else "never" for name, judge in study.judges.items()}
    shown = [name for name, tells in certain.items() if tells != "never" or name == study.primary_judge]
    places = ("always", "perhaps", "never")
    return sorted(shown, key=lambda name: (places.index(certain[name]), name != study.primary_judge))
