"""From tokens to words: which tokens of a rendered prompt are whose, and what the values of a word are made of."""

from pathlib import Path
from typing import Any

import pytest
from tokenizer_folders import CHATML, byte_tokenizer, unigram_tokenizer

from refusal_eval.ask.render import Renderer
from refusal_eval.data.text_units import UNITS
from refusal_eval.features.attributions.attribution_values import gradient_row, incomplete
from refusal_eval.features.attributions.gradient_items import baseline_token, gradient_item, own_tokens

pytestmark = pytest.mark.feature("attributions")


def words_of(renderer: Renderer, text: str, unit: str = "word") -> tuple[str, list[str]]:
    """Return what the prompt's own tokens are together, and what those of each word are, decoded one by one."""
    messages = [{"role": "user", "content": text}]
    spans = [(span.begin, span.end) for span in UNITS[unit](text)]
    ids, own = renderer.token_ids(messages), own_tokens(renderer, messages, spans)

    def said(places: list[int]) -> str:
        return str(renderer.tokenizer.decode([ids[place] for place in places]))

    return said(own.places), [said([own.places[place] for place in places]) for places in own.of_units]


def test_a_words_tokens_are_in_the_turn_of_the_user_and_never_in_the_template(tmp_path: Path) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes"), system_prompt="user, kill")
    assert words_of(renderer, "Am I a user?") == ("Am I a user?", ["Am", "I", "a", "user"])
    talk = [
        *({"role": "user", "content": "kill it"}, {"role": "assistant", "content": "kill that"}),
        {"role": "user", "content": "kill"},
    ]
    own = own_tokens(renderer, talk, [(0, 4)])
    ids = renderer.token_ids(talk)
    after = renderer.tokenizer("<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False)["input_ids"]
    assert own.places == list(range(len(ids) - len(after) - 4, len(ids) - len(after))), "the last turn alone"


def test_a_template_may_strip_a_turn(tmp_path: Path) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes", CHATML.replace("m['content']", "m['content'] | trim")))
    assert words_of(renderer, "  kill it \n") == ("kill it", ["kill", "it"])


def test_all_bytes_of_a_letter_are_the_words(tmp_path: Path) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes"))
    assert words_of(renderer, "caf\u00e9 \u0642\u062a\u0644!")[1] == ["caf\u00e9", "\u0642\u062a\u0644"]
    assert words_of(renderer, "\u6740\u6b7b\u8fdb")[1] == ["\u6740", "\u6b7b", "\u8fdb"]


def test_a_token_with_a_space_before_the_word_is_the_words_and_so_is_the_first_one(tmp_path: Path) -> None:
    """Where a tokenizer takes the space into the token, the first one's is the template's."""
    unigram_tokenizer(
        tmp_path, words=("\u2581kill", "\u2581it"), template="{{ 'Q: ' + messages[0]['content'] + ' A:' }}"
    )
    assert words_of(Renderer(tmp_path), "kill it")[1] == ["kill", "it"]


def test_a_token_of_two_words_is_that_of_which_it_has_more(tmp_path: Path) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes", tokens=["l it is"]))
    assert words_of(renderer, "kill it is")[1] == ["kil", "l it is", ""]


def test_keys_depend_on_what_is_computed_and_on_nothing_else(tmp_path: Path) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes"))
    prompt: dict[str, Any] = {"id": "p", "messages": [{"role": "user", "content": "Am I a user? Yes."}]}
    decided_by = {"engine": {"weights": "a"}, "method": "gradient", "steps": 1, "baseline": 1, "refusal": [3]}

    def key(prompt: dict[str, Any], unit: str = "word", longest: int = 99, **changes: Any) -> Any:
        return gradient_item(prompt, unit, renderer, decided_by | changes, longest)["key"]

    first = key(prompt)
    assert key(prompt | {"id": "q"}) == key(prompt, "sentence") == first, "a word is summed later"
    others = [key(prompt, **{name: value}) for name, value in (("refusal", [4]), ("steps", 16), ("baseline", 2))]
    others += [key(prompt, engine={"weights": "b"}), key({**prompt, "messages": [{"role": "user", "content": "a b"}]})]
    assert len({first, *others}) == 6
    assert key(prompt, longest=10) is None
    assert key({**prompt, "messages": [{"role": "user", "content": "One"}]}) is None


def test_gradients_begin_at_padding_or_else_at_the_token_that_ends_a_text(tmp_path: Path) -> None:
    unigram_tokenizer(tmp_path / "padded", template=CHATML)
    assert baseline_token(Renderer(tmp_path / "padded")) == 1
    assert baseline_token(Renderer(byte_tokenizer(tmp_path / "bytes"))) == 258


PROMPT: dict[str, Any] = {
    "id": "p",
    "messages": [{"role": "user", "content": "Do kill it"}],
    "source": {"kept": {"focus": "kill"}},
}
LINE = {"key": "k", "score": -1.0, "baseline": -3.0, "values": [0.25, 0.5, 0.75, -0.125, 0.6]}


def test_a_words_value_is_the_sum_of_its_tokens_by_hand() -> None:
    row = gradient_row(PROMPT, {"words": [[0], [1, 2], [3]]}, LINE, "word", "focus")
    assert [one["value"] for one in row["units"]] == [0.25, 1.25, -0.125]
    assert [one["rank"] for one in row["units"]] == [2.0, 1.0, 3.0]
    assert [one["exact"] for one in row["units"]] == [False, True, False]
    # 0.25 + 0.5 + 0.75 - 0.125 + 0.6 = 1.975, where the scores differ by 2.
    assert row["gap"] == pytest.approx(-0.025) and not incomplete(row)
    assert incomplete(gradient_row(PROMPT, {"words": [[0], [1], [2]]}, LINE | {"score": -0.95}, "word", None))


def test_a_word_without_a_token_of_its_own_has_no_value_and_the_prompt_no_ranks() -> None:
    row = gradient_row(PROMPT, {"words": [[0], [1, 2], []]}, LINE, "word", "focus")
    assert [one["value"] for one in row["units"]] == [0.25, 1.25, None]
    assert [one["rank"] for one in row["units"]] == [None] * 3
    row = gradient_row(PROMPT, {"words": []}, None, "word", "focus")
    assert (row["units"], row["score"], row["gap"]) == ([], None, None)
