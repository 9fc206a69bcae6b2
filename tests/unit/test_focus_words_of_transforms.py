"""Which word an attribution gives to a transform, by hand."""

import pytest

from refusal_eval.features.transforms.append_transform import AppendTransform
from refusal_eval.features.transforms.focus_source import first_words
from refusal_eval.features.transforms.transformed import transformed

pytestmark = pytest.mark.feature("transforms")


def row_of(*units: tuple[str, float | None]) -> dict[str, object]:
    return {"prompt_id": "p", "units": [{"word": word, "value": value} for word, value in units]}


@pytest.mark.parametrize(
    ("units", "word"),
    [
        ([("Can", 0.5), ("kill", 3.25), ("time", -0.5)], "kill"),
        ([("Kill", 2.0), ("kill", 2.0), ("it", 1.0)], "Kill"),
        ([("kill", 2.0), ("shoot", 2.0)], None),
        ([("Can", 0.0), ("I", -1.0)], None),
        ([("Can", None), ("kill", 2.0)], None),
        ([], None),
    ],
)
def test_the_word_of_the_greatest_value_if_there_is_one(
    units: list[tuple[str, float | None]], word: str | None
) -> None:
    assert first_words([row_of(*units)]) == {"p": word}


def test_a_word_takes_the_place_of_the_datas_own_and_leaves_the_row_as_it_is() -> None:
    prompts = [
        {"id": name, "messages": [{"role": "user", "content": "Can I?"}], "source": {"kept": {"focus": "data's"}}}
        for name in ("one", "two", "three")
    ]
    how = AppendTransform(kind="append", text=" Not {focus}.", focus={"attribution": "a"})  # type: ignore[arg-type]
    asked, note = transformed(prompts, how, [], {"one": "found", "two": None})
    assert [row["messages"][0]["content"] for row in asked] == ["Can I? Not found.", "Can I?", "Can I?"]
    assert [row.get("untransformed") for row in asked] == [None, "no_word", "no_word"]
    assert {row["source"]["kept"]["focus"] for row in asked} == {"data's"}
    assert note == "1 of 3 prompts changed; the others keep their own text (2: the attribution gives no word)"
    by_data, _ = transformed(prompts, AppendTransform(kind="append", text=" Not {focus}."), [])
    assert by_data[0]["messages"][0]["content"] == "Can I? Not data's."
