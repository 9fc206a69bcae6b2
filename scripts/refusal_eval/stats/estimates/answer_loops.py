"""Whether an answer ends in a loop, as those of models often do that were steered too far."""

_TAIL = 4000  # characters that are looked at
_LONGEST = 1000  # characters of what is repeated, at most
_LEAST = 60  # characters that are a repetition, at least
_PROBE = 20  # characters that a repetition ends with, to find it by


def ends_in_loop(text: str) -> bool:
    """Tell whether an answer ends in a loop: with the same characters three times in a row or more.

    What is repeated is up to 1,000 characters long, and the repetitions after the first are at least 60 together.
    """
    text = text.rstrip()[-_TAIL:]
    end = text[-_PROBE:]
    at = text.rfind(end, 0, len(text) - 1)
    while at >= 0 and len(end) == _PROBE:
        period = len(text) - _PROBE - at
        if period > _LONGEST:
            return False
        repeated = max(2 * period, _LEAST)
        if len(text) >= period + repeated and text[-repeated:] == text[-repeated - period : -period]:
            return True
        at = text.rfind(end, 0, at + _PROBE - 1)
    return False
