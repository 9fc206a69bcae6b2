"""A request that kills its engine: all others are stored, and it is named."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from test_execute import ScriptedEngine, item, run, stored

from refusal_eval.engines.engine_base import EngineDied
from refusal_eval.engines.suspects import Suspects

COUNT = 400


class Fragile(ScriptedEngine):
    """Dies at some requests, a little later, and with it all that is in flight."""

    def __init__(self, killers: set[int]) -> None:
        super().__init__(seconds=0.002)
        self.killers = killers

    async def complete(self, token_ids: list[int], *rest: object) -> dict[str, object]:
        response = await super().complete(token_ids, *rest)  # type: ignore[arg-type]
        self.dead |= token_ids[0] in self.killers
        self.check()
        return response


def death(folder: Path, numbers: Iterable[int], killers: set[int], in_flight: int = 300) -> str:
    """Run a load that dies; return what it said."""
    with pytest.raises(EngineDied) as died:
        run(folder, [item(one) for one in numbers], Fragile(killers), in_flight, suspects=Suspects(folder / "s.json"))
    return str(died.value)


def loads_until(folder: Path, killers: set[int], most: int, in_flight: int = 300) -> list[str]:
    """Run loads until one asks for nothing but these requests; return what they said."""
    said = []
    for _ in range(most):
        said.append(death(folder, sorted(set(range(COUNT)) - stored(folder, COUNT)), killers, in_flight))
        if stored(folder, COUNT) == set(range(COUNT)) - killers:
            return said
    raise AssertionError(f"not all others are stored after {most} loads: {said}")


@pytest.mark.parametrize("in_flight", [1, 8, 300])
def test_a_request_that_kills_every_engine_keeps_no_other_from_being_stored_and_is_named(
    tmp_path: Path, in_flight: int
) -> None:
    said = loads_until(tmp_path, {3}, 6, in_flight)
    if in_flight == 300:
        assert said[0] == "with 300 requests in flight, which a rerun asks last, exit code 9"
        assert re.match(r"with \d+ requests in flight, which a rerun asks last and at most 1?\d at a time, ", said[1])
    alone = r"asked for p3 of model/split alone \(key \w{16}\), exit code 9"
    assert re.match(alone, death(tmp_path, [3], {3}, in_flight))


def test_of_several_that_kill_each_is_named_when_those_before_are_gone(tmp_path: Path) -> None:
    killers = {5, 170, 171, 399}
    loads_until(tmp_path, killers, 14)
    while killers:
        for _ in range(3):  # the last of them may not have been alone yet
            said = death(tmp_path, sorted(killers), killers)
            if "alone" in said:
                break
        named = next(one for one in killers if f"asked for p{one} of" in said)
        killers.remove(named)


def test_suspects_of_which_no_engine_dies_again_are_answered_and_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    death(tmp_path, range(40), {0}, 40)
    engine = ScriptedEngine(seconds=0.002)
    assert run(tmp_path, 60, engine, 40, suspects=Suspects(file)).executed == 60
    order = [number for number, _ in engine.asked]
    assert order == [*range(40, 60), *range(40)]
    assert engine.most == 40, "one death may have any cause, and makes nothing slower"
    assert not file.exists()


def test_a_file_of_suspects_that_is_damaged_keeps_nothing_from_being_asked(tmp_path: Path) -> None:
    for content in ("", "{", "[]", '{"a": -1}'):
        file = tmp_path / "s.json"
        file.write_text(content)
        assert Suspects(file).in_turn([item(0), item(1)], 2) == [(2, [item(0), item(1)])]


def test_where_suspects_cannot_be_kept_the_death_is_told_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineDied, match="exit code 9"):
        run(tmp_path, 3, Fragile({0}), 3, suspects=Suspects(tmp_path / "file" / "s.json"))
