"""What waits for what among splits, answers and verdicts, where splits are made of others, or of what models answered.

A name of one part is a split; of two parts a model's answers on a split; of three a judge's verdicts on these.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from refusal_eval.config.capture_entry import Side
from refusal_eval.config.change import changes_of
from refusal_eval.config.feature_keys import WordValues

MadePart = tuple[str, ...]
MOST_MADE = 7  # splits of which each but the last is made of the next


class RowChains:
    """The splits, answers and verdicts that others are made of.

    Entries that are not there are made of nothing.

    Args:
        splits, models, judges: entries by name; of judges those that engines are asked for as well.
        read_by: returns the models whose answers a judge judges.
        sides_behind: returns what the changes of a model are made from: models, each with groups of prompts.
        values: values of words, which changes of models may read.
    """

    def __init__(
        self,
        splits: Mapping[str, Any],
        models: Mapping[str, Any],
        judges: Mapping[str, Any],
        read_by: Callable[[str], Iterable[str]],
        sides_behind: Callable[[str], Iterable[tuple[str, Sequence[Side]]]],
        values: Mapping[str, WordValues],
    ) -> None:
        self._splits, self._models, self._judges = splits, models, judges
        self._read_by, self._sides_behind, self._values = read_by, sides_behind, values
        self.level = cache(self._level)
        self._longest = cache(self._longest_from)

    def made_of(self, part: MadePart) -> list[MadePart]:
        """Return what a split, answers or verdicts are made of, each once."""
        if len(part) == 1:
            found = self._of_split(*part)
        else:
            found = self._of_answers(*part) if len(part) == 2 else self._of_verdicts(*part)
        return list(dict.fromkeys(found))

    def cells(self, split: str) -> Iterator[MadePart]:
        """Yield the answers and the verdicts that the rows of a split are made of, with all that these need."""
        todo = [part for part in self._of_split(split) if len(part) > 1]
        for part in todo:  # it grows
            yield part
            todo += [one for one in self.made_of(part) if len(one) > 1 and one not in todo]

    def _level(self, part: MadePart) -> int:
        """Return how often answers are waited for before a split, answers or verdicts can be asked for."""
        below = self.made_of(part)
        if len(part) > 1:
            # What gives words values is asked with the answers of its model, or in the load after them.
            read = self._values_read(*part) if len(part) == 2 else ()
            waits = (self.level((one.model, one.split)) + 1 + one.after_answers for one in read)
            return max((*(self.level(one) for one in below), *waits), default=0)
        return max((self.level(one) + (len(one) > 1) for one in below), default=0)

    def circle(self, part: MadePart) -> list[MadePart]:
        """Return a way from a part on that comes back to where it was, as something is made of itself; else nothing."""
        seen = set[MadePart]()

        def search(way: list[MadePart]) -> list[MadePart]:
            for one in self.made_of(way[-1]):
                if one in way:
                    return [*way, one]
                if one not in seen and (found := search([*way, one])):
                    return found
            seen.add(way[-1])
            return []

        return search([part])

    def longest(self, split: str) -> list[str]:
        """Return the longest chain of splits of which each is made of the next, where there is no `circle`."""
        return [part[0] for part in self._longest((split,)) if len(part) == 1]

    def _longest_from(self, part: MadePart) -> list[MadePart]:
        chains = (self._longest(one) for one in self.made_of(part))
        return [part, *max(chains, key=lambda chain: sum(self._counts(one) for one in chain), default=[])]

    def _counts(self, part: MadePart) -> bool:
        """Tell whether a part is a split that an entry stands for."""
        return len(part) == 1 and (part[0] not in self._splits or self._splits[part[0]].source.asked is None)

    def _of_split(self, split: str) -> Iterator[MadePart]:
        entry = self._splits.get(split)
        if entry is None:
            return
        if entry.source.made_of is not None:
            yield (entry.source.made_of,)
        yield from (read.part for read in entry.source.reads(split))

    def _of_answers(self, model: str, split: str) -> Iterator[MadePart]:
        yield (split,)
        entry = self._models.get(model)
        if entry is None:
            return
        for change in changes_of(entry):
            yield from ((name,) for name in change.splits_read(change.value_in(entry)))
        yield from (
            (one.model, one.split) if one.after_answers else (one.split,) for one in self._values_read(model, split)
        )
        for of, sides in self._sides_behind(model):
            for side in sides:
                yield (side.split,) if side.judge is None else (side.judge, of, side.split)

    def _values_read(self, model: str, split: str) -> Iterator[WordValues]:
        """Yield the values of the words of a split's prompts that the changes of a model take."""
        entry = self._models.get(model)
        for change in changes_of(entry) if entry is not None else ():
            found = (self._values.get(name) for name in change.values_read(change.value_in(entry)))
            yield from (one for one in found if one is not None and one.split == split)

    def _of_verdicts(self, judge: str, model: str, split: str) -> Iterator[MadePart]:
        yield (model, split)
        entry = self._judges.get(judge)
        if entry is None:
            return
        yield from ((other, model, split) for other in entry.reads())
        asked: Any = self._judges.get(entry.second() or judge)
        taught = asked.refusals_read() if hasattr(asked, "refusals_read") else None
        if taught is not None and taught.judge is not None and taught.split is not None:
            for one in self._read_by(judge):
                yield from ((one, taught.split), (taught.judge, one, taught.split))
