"""The sections of Snakemake's report, in the order of a paper.

Every table and figure names its section. Those that the kernel does not know stand between the rates and the judges, in
the order in which a study has them.
"""

from collections.abc import Iterable

RATES, JUDGES, METHODS = "Refusal rates", "Judges", "Methods and accounting"
_LAST = (JUDGES, METHODS)


def in_order(sections: Iterable[str]) -> list[str]:
    """Return these sections, each once, in the order of a paper."""
    found = dict.fromkeys(sections)
    named = [name for name in found if name not in (RATES, *_LAST)]
    return [name for name in (RATES, *named, *_LAST) if name in found]
